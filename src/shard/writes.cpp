#include "shard/writes.h"

#include "catalog/definition.h"
#include "maintenance/intent.h"
#include "shard/connection.h"

namespace index_table {
namespace {

ExecutorStart_hook_type previous_start;
ProcessUtility_hook_type previous_utility;

// Of the transaction.
constinit bool has_written = false;
constinit List *written =
    nullptr; // partitioned tables that were changed, memory of the transaction

void NoteWrite(Oid relid) {
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

void OnExecutorStart(QueryDesc *query, int flags) {
    if (IsTooLateForShards()) {
        ListCell *cell;
        foreach (cell, query->plannedstmt->rtable)
            CheckMayReach(lfirst_node(RangeTblEntry, cell)->relid);
    }
    if (!(flags & EXEC_FLAG_EXPLAIN_ONLY)) {
        const PlannedStmt *plan = query->plannedstmt;
        ListCell *cell;
        foreach (cell, plan->resultRelations)
            NoteWrite(rt_fetch(lfirst_int(cell), plan->rtable)->relid);
    }
    if (previous_start)
        previous_start(query, flags);
    else
        standard_ExecutorStart(query, flags);
}

void OnProcessUtility(PlannedStmt *statement, const char *text, bool read_only,
                      ProcessUtilityContext context, ParamListInfo params,
                      QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
    Node *command = statement->utilityStmt;
    // A partition that was written to may be about to leave.
    if (written != NIL && (IsA(command, AlterTableStmt) || IsA(command, DropStmt)))
        MayHaveWrittenToShards();
    if (IsA(command, CopyStmt)) {
        CopyStmt *copy = reinterpret_cast<CopyStmt *>(command);
        if (copy->is_from && copy->relation) {
            Oid relid = RangeVarGetRelid(copy->relation, NoLock, true);
            CheckMayReach(relid);
            NoteWrite(relid);
        }
    } else if (IsA(command, TruncateStmt)) {
        ListCell *cell;
        foreach (cell, reinterpret_cast<TruncateStmt *>(command)->relations) {
            Oid relid = RangeVarGetRelid(lfirst_node(RangeVar, cell), NoLock, true);
            CheckMayReach(relid);
            NoteWrite(relid);
        }
    }
    if (previous_utility)
        previous_utility(statement, text, read_only, context, params, environment, receiver,
                         completion);
    else
        standard_ProcessUtility(statement, text, read_only, context, params, environment, receiver,
                                completion);
}

void OnTransactionEnd(XactEvent event, void *) {
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
        return;
    has_written = false;
    written = nullptr;
}

} // namespace

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
    previous_start = ExecutorStart_hook;
    ExecutorStart_hook = OnExecutorStart;
    previous_utility = ProcessUtility_hook;
    ProcessUtility_hook = OnProcessUtility;
    RegisterXactCallback(OnTransactionEnd, nullptr);
}

} // namespace index_table
