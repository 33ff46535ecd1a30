#include "maintenance/flush.h"

#include "catalog/owner.h"
#include "maintenance/change_buffer.h"
#include "maintenance/change_log.h"
#include "maintenance/claim.h"
#include "maintenance/departure.h"
#include "maintenance/leaf.h"
#include "maintenance/intent.h"
#include "maintenance/maintenance.h"
#include "maintenance/statements.h"
#include "maintenance/target_plan.h"
#include "maintenance/unique_recheck.h"
#include "maintenance/writer.h"

namespace index_table {
namespace {

ExecutorStart_hook_type previous_start;
ExecutorRun_hook_type previous_run;
ExecutorFinish_hook_type previous_finish;
ProcessUtility_hook_type previous_utility;

// Constraints may be violated by entries of truncated, detached or dropped partitions.
bool MayMeetDeadEntries(const IndexTable *table) {
    // No lock of this statement need have been a new one, which brings such news.
    AcceptInvalidationMessages();
    const Base *base = FindBase(table->base);
    return base && base->has_retired;
}

// While a statement around may still bring changes (`more_to_come`), deletions whose entry is not
// there are kept, for its insertion may follow, and unique keys that repeat are checked later, for
// the other entry's deletion may. After that, an entry that is not there was missing, and stays so.
void WriteEntries(EntryWriter *writer, ChangeBuffer *buffer, const NetChanges &net,
                  bool more_to_come) {
    if (MayMeetDeadEntries(buffer->table)) {
        for (const Change &change : std::span(net.inserts, net.insert_count))
            RemoveDeadDuplicates(writer, change);
        for (const Change &change : std::span(net.replacements, net.replace_count))
            RemoveDeadDuplicates(writer, change);
    }
    // Deletions first: one statement may hand a unique key from one row to another.
    for (const Change &change : std::span(net.deletes, net.delete_count)) {
        if (!DeleteEntry(writer, change) && more_to_come)
            KeepUnmatched(buffer, change);
        CHECK_FOR_INTERRUPTS();
    }
    for (uint32 i = 0; i < net.replace_count; i++) {
        if (ReplaceEntry(writer, net.replaced[i], net.replacements[i])) {
            // done
        } else if (more_to_come && i < net.linked_count) {
            // The row's earlier update is still to come: the key before that one is the old one.
            KeepUnmatched(buffer, net.replaced[i], net.replacements[i]);
        } else {
            if (more_to_come)
                KeepUnmatched(buffer, net.replaced[i]);
            InsertEntries(writer, {&net.replacements[i], 1});
        }
        CHECK_FOR_INTERRUPTS();
    }
    InsertEntries(writer, {net.inserts, net.insert_count});
}

void CarryOut(ChangeBuffer *buffer, const NetChanges &net, MemoryContext batch, bool more_to_come) {
    EntryWriter *writer = OpenWriter(buffer->table, more_to_come, batch);
    if (!writer)
        return;
    // Foreign keys that point at the index table act within this, and nobody else.
    ActiveStatement flushing;
    EnterStatement(&flushing, nullptr, InvalidOid);
    PG_TRY();
    {
        WriteEntries(writer, buffer, net, more_to_come);
        CloseWriter(writer);
        LeaveStatement(&flushing);
    }
    PG_CATCH();
    {
        LeaveStatement(&flushing);
        RethrowError(writer);
    }
    PG_END_TRY();
}

// References follow a key that changes: then one row's changes of it must be told from others'.
Linking LinkingFor(const IndexTable *table, bool more_to_come) {
    if (!table->is_unique || table->key.multi_valued >= 0)
        return Linking::None;
    Relation rel = try_relation_open(table->relid, RowExclusiveLock);
    if (!rel)
        return Linking::None;
    bool is_referenced = IsReferenced(rel);
    relation_close(rel, NoLock);
    if (!is_referenced)
        return Linking::None;
    return more_to_come ? Linking::HoldHalves : Linking::AllHalves;
}

// Into the index table, or, while that is being built, into its log.
void FlushBuffer(ChangeBuffer *buffer, bool more_to_come, bool into_log) {
    MemoryContext batch =
        AllocSetContextCreate(CurrentMemoryContext, "index_table flush", ALLOCSET_SMALL_SIZES);
    Linking linking = into_log ? Linking::None : LinkingFor(buffer->table, more_to_come);
    NetChanges net = TakeChanges(buffer, batch, linking);
    if (net.delete_count + net.insert_count + net.replace_count > 0) {
        if (into_log)
            LogChanges(buffer, net, batch);
        else
            CarryOut(buffer, net, batch, more_to_come);
        // The toasted parts of entries carry the current command, not the base row's: the next
        // flush may have to delete them.
        CommandCounterIncrement();
    }
    MemoryContextDelete(batch);
}

Oid CopiedRelation(Node *statement) {
    CopyStmt *copy = castNode(CopyStmt, statement);
    return copy->is_from && copy->relation ? RangeVarGetRelid(copy->relation, NoLock, true)
                                           : InvalidOid;
}

// When the transaction commits: where another role has made the changes, triggers of the index
// table's owner are not to have the rights of a subscription's.
void FlushAtCommit(ChangeBuffer *buffer) {
    bool is_others = buffer->user != GetUserId() &&
                     SearchSysCacheExists1(RELOID, ObjectIdGetDatum(buffer->relid));
    OwnerContext owner;
    if (is_others)
        owner = EnterOwner(RelationOwner(buffer->relid));
    FlushBuffer(buffer, false, OidIsValid(buffer->table->log));
    if (is_others) {
        Recheck(true);
        LeaveOwner(owner);
    }
}

bool HasChanges() {
    for (ChangeBuffer *buffer = FirstChangeBuffer(); buffer; buffer = buffer->next)
        if (buffer->count > 0)
            return true;
    return false;
}

// With `is_final` as if no statement around could bring more.
void Flush(bool is_final, bool at_commit = false) {
    bool push_snapshot = !ActiveSnapshotSet(); // for toasted values, expressions and triggers
    if (push_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    int level = GetCurrentTransactionNestLevel();
    // A flush may fire triggers whose statements capture and flush in turn. Foreign key actions
    // leave what they capture to the statement around: to this one.
    uint64 captured;
    do {
        captured = CapturedChanges();
        for (ChangeBuffer *buffer = FirstChangeBuffer(); buffer;) {
            uint64 generation = ChangeBufferGeneration();
            if (buffer->count == 0 || buffer->changes[buffer->count - 1].nest_level != level) {
                // nothing to do, or an outer level's
            } else if (at_commit) {
                FlushAtCommit(buffer);
            } else {
                FlushBuffer(buffer, !is_final && IsBeingChanged(buffer->table->base),
                            OidIsValid(buffer->table->log));
            }
            buffer = generation == ChangeBufferGeneration() ? buffer->next : FirstChangeBuffer();
        }
    } while (captured != CapturedChanges());
    Recheck(is_final);
    if (push_snapshot)
        PopActiveSnapshot();
}

void FlushIfNeeded(bool is_final) {
    if (HasChanges() || HasRechecks())
        Flush(is_final);
}

void OnExecutorStart(QueryDesc *query, int flags) {
    NoteBegin(query);
    // So that the statement finds the index tables as it finds the base tables.
    FlushChanges();
    if (previous_start)
        previous_start(query, flags);
    else
        standard_ExecutorStart(query, flags);
}

// PostgreSQL 18 has dropped the last argument, execute_once.
template <typename... Rest>
void OnExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count, Rest... rest) {
    ActiveStatement statement;
    EnterStatement(&statement, query, InvalidOid);
    PG_TRY();
    {
        if (previous_run)
            previous_run(query, direction, count, rest...);
        else
            standard_ExecutorRun(query, direction, count, rest...);
    }
    PG_FINALLY();
    { LeaveStatement(&statement); }
    PG_END_TRY();
}

void OnExecutorFinish(QueryDesc *query) {
    ActiveStatement statement;
    EnterStatement(&statement, query, InvalidOid);
    PG_TRY();
    {
        if (previous_finish)
            previous_finish(query);
        else
            standard_ExecutorFinish(query);
    }
    PG_FINALLY();
    { LeaveStatement(&statement); }
    PG_END_TRY();
    if (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS)
        NoteCascade(query);
    NoteEnd(query);
    FlushIfNeeded(false);
}

void OnProcessUtility(PlannedStmt *statement, const char *text, bool read_only,
                      ProcessUtilityContext context, ParamListInfo params,
                      QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
    // COPY fires triggers itself; everything else that does runs the executor. DDL must find the
    // index tables in step before it changes their shape.
    bool is_copy = IsA(statement->utilityStmt, CopyStmt);
    // A savepoint puts what is captured out of reach of flushes until it is released.
    bool ends_transaction =
        IsA(statement->utilityStmt, TransactionStmt) &&
        reinterpret_cast<TransactionStmt *>(statement->utilityStmt)->kind != TRANS_STMT_SAVEPOINT;
    NoteBegin(nullptr);
    if (!ends_transaction)
        FlushChanges();
    bool is_truncate = IsA(statement->utilityStmt, TruncateStmt);
    const TruncateStmt *outer_truncate = nullptr;
    if (is_truncate)
        outer_truncate = SetTruncate(castNode(TruncateStmt, statement->utilityStmt));
    ActiveStatement copying;
    if (is_copy)
        EnterStatement(&copying, nullptr, CopiedRelation(statement->utilityStmt));
    PG_TRY();
    {
        if (previous_utility)
            previous_utility(statement, text, read_only, context, params, environment, receiver,
                             completion);
        else
            standard_ProcessUtility(statement, text, read_only, context, params, environment,
                                    receiver, completion);
    }
    PG_FINALLY();
    {
        if (is_copy)
            LeaveStatement(&copying);
        if (is_truncate)
            SetTruncate(outer_truncate);
    }
    PG_END_TRY();
    if (is_copy)
        FlushIfNeeded(false);
}

} // namespace

// By now PostgreSQL has fired what was deferred, for the last time: not what this flush may defer.
void FlushBeforeCommit() {
    while (HasChanges() || HasRechecks()) {
        Flush(true, true);
        AfterTriggerFireDeferred();
    }
}

void FlushChanges() {
    FlushIfNeeded(false);
}

void FlushAllChanges() {
    FlushIfNeeded(true);
}

void ApplyChanges(ChangeBuffer *buffer) {
    bool push_snapshot = !ActiveSnapshotSet();
    if (push_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    FlushBuffer(buffer, false, false);
    Recheck(true);
    if (push_snapshot)
        PopActiveSnapshot();
}

bool HasUnflushedChanges(Oid index_table) {
    ChangeBuffer *buffer = FindChangeBuffer(index_table);
    return buffer && buffer->count > 0;
}

void InitializeFlush() {
    previous_start = ExecutorStart_hook;
    ExecutorStart_hook = OnExecutorStart;
    previous_run = ExecutorRun_hook;
    ExecutorRun_hook = OnExecutorRun;
    previous_finish = ExecutorFinish_hook;
    ExecutorFinish_hook = OnExecutorFinish;
    previous_utility = ProcessUtility_hook;
    ProcessUtility_hook = OnProcessUtility;
}

void InitializeMaintenance() {
    InitializeChangeBuffers();
    InitializeLeafCache();
    InitializeWriters();
    InitializeStatements();
    InitializeClaims();
    InitializeDepartures();
    InitializeFlush();
    InitializeIntents();
}

} // namespace index_table
