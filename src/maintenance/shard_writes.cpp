#include "maintenance/shard_writes.h"

#include "catalog/public.h"
#include "maintenance/intent.h"
#include "shard/public.h"

namespace index_table {
namespace {

// Of the transaction.
constinit bool has_written = false;
constinit List *written =
    nullptr; // partitioned tables that were changed, memory of the transaction

void RememberWrite(Oid relid) {
    if (has_written || !OidIsValid(relid))
        return;
    char kind = get_rel_relkind(relid);
    if (kind == RELKIND_FOREIGN_TABLE) {
        has_written = true;
    } else if (kind == RELKIND_PARTITIONED_TABLE) {
        MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
        written = list_append_unique_oid(written, relid);
        MemoryContextSwitchTo(caller);
    }
}

// Triggers of owners that are fired by the last flush of a transaction, when a session has loaded
// the library in mid-statement, or replicates.
void CheckMayReach(Oid relid) {
    if (!IsTooLateForShards() || !OidIsValid(relid))
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
        if (IsForeign(lfirst_oid(cell)) && IsOfPostgres(lfirst_oid(cell)))
            ereport(ERROR,
                    (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                     errmsg("cannot use foreign table \"%s\" in a trigger of an index table when "
                            "the transaction is about to commit",
                            get_rel_name(lfirst_oid(cell))),
                     errdetail("The session had not loaded the library when the statement began, "
                               "or it replicates."),
                     errhint("Have it loaded before: set session_preload_libraries to "
                             "index_table.")));
}

} // namespace

void BeforeStartOfWrites(QueryDesc *query, int flags) {
    if (IsTooLateForShards()) {
        ListCell *cell;
        foreach (cell, query->plannedstmt->rtable)
            CheckMayReach(lfirst_node(RangeTblEntry, cell)->relid);
    }
    if (!(flags & EXEC_FLAG_EXPLAIN_ONLY)) {
        const PlannedStmt *plan = query->plannedstmt;
        compat::ForEachChanged(plan,
                               [&](int rti) { RememberWrite(rt_fetch(rti, plan->rtable)->relid); });
    }
}

void BeforeUtilityWrites(Node *command) {
    // A partition that was written to may be about to leave.
    if (written != NIL && (IsA(command, AlterTableStmt) || IsA(command, DropStmt)))
        MayHaveWrittenToShards();
    if (IsA(command, CopyStmt)) {
        CopyStmt *copy = reinterpret_cast<CopyStmt *>(command);
        if (copy->is_from && copy->relation) {
            Oid relid = RangeVarGetRelid(copy->relation, NoLock, true);
            CheckMayReach(relid);
            RememberWrite(relid);
        }
    } else if (IsA(command, TruncateStmt)) {
        ListCell *cell;
        foreach (cell, reinterpret_cast<TruncateStmt *>(command)->relations) {
            Oid relid = RangeVarGetRelid(lfirst_node(RangeVar, cell), NoLock, true);
            CheckMayReach(relid);
            RememberWrite(relid);
        }
    }
}

void AtEOXactWrites() {
    has_written = false;
    written = nullptr;
}

void RememberShardWrite() {
    has_written = true;
}

bool MayHaveWrittenToShards() {
    ListCell *cell;
    foreach (cell, written)
        has_written =
            has_written || HasForeign(find_all_inheritors(lfirst_oid(cell), NoLock, nullptr));
    list_free(written);
    written = nullptr;
    return has_written;
}

void InitializeWrites() {
    // What a transaction has done before it loaded the library nobody has seen.
    has_written = IsTransactionState();
}

} // namespace index_table
