#include "maintenance/shard_writes.h"

#include "catalog/public.h"
#include "maintenance/intent.h"
#include "shard/public.h"

namespace index_table {
namespace {

// A partitioned table that was changed. A subtransaction that is undone may have made it.
struct Written {
    Oid relid;
    int level; // of the first subtransaction that changed it
};

// Of the transaction.
constinit bool has_written = false;
constinit List *written = nullptr; // of Written, memory of the transaction

bool IsRemembered(Oid relid) {
    ListCell *cell;
    foreach (cell, written)
        if (static_cast<Written *>(lfirst(cell))->relid == relid)
            return true;
    return false;
}

void RememberWrite(Oid relid) {
    if (has_written || !OidIsValid(relid))
        return;
    char kind = get_rel_relkind(relid);
    if (kind == RELKIND_FOREIGN_TABLE) {
        has_written = true;
    } else if (kind == RELKIND_PARTITIONED_TABLE && !IsRemembered(relid)) {
        MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
        Written *table = palloc_object(Written);
        *table = {.relid = relid, .level = GetCurrentTransactionNestLevel()};
        written = lappend(written, table);
        MemoryContextSwitchTo(caller);
    }
}

// Commands by which a partition that was written to, or its table, may be about to leave.
bool MayRemoveTables(const Node *command) {
    switch (nodeTag(command)) {
    case T_AlterTableStmt:
    case T_DropStmt:
    case T_DropOwnedStmt:
    case T_DiscardStmt: // of temporary tables
        return true;
    default:
        return false;
    }
}

// What has gone unseen may have had foreign partitions.
bool MayHaveForeign(Oid relid) {
    return !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ||
           HasForeign(find_all_inheritors(relid, NoLock, nullptr));
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
    if (written != NIL && MayRemoveTables(command))
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

void AtEOSubXactWrites(bool commits, int level) {
    ListCell *cell;
    foreach (cell, written) {
        Written *table = static_cast<Written *>(lfirst(cell));
        if (table->level < level)
            continue;
        if (commits)
            table->level = level - 1;
        else
            written = foreach_delete_current(written, cell);
    }
}

void RememberShardWrite() {
    has_written = true;
}

bool MayHaveWrittenToShards() {
    ListCell *cell;
    foreach (cell, written)
        has_written = has_written || MayHaveForeign(static_cast<Written *>(lfirst(cell))->relid);
    list_free_deep(written);
    written = nullptr;
    return has_written;
}

void InitializeWrites() {
    // What a transaction has done before it loaded the library nobody has seen.
    has_written = IsTransactionState();
}

} // namespace index_table
