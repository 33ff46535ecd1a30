#include "maintenance/flush.h"

#include "core/public.h"
#include "maintenance/change_buffer.h"
#include "maintenance/change_log.h"
#include "maintenance/intent.h"
#include "maintenance/leaf.h"
#include "maintenance/own_entries.h"
#include "maintenance/remote_entries.h"
#include "maintenance/speculative_entry.h"
#include "maintenance/statements.h"
#include "maintenance/target_plan.h"
#include "maintenance/unique_recheck.h"
#include "maintenance/writer.h"

namespace index_table {
namespace {

using Function = void (*)();
constexpr int kMaxBeforeCommit = 2;
constinit Function before_commit[kMaxBeforeCommit] = {};
constinit int before_commit_count = 0;

// Constraints may be violated by entries of truncated, detached or dropped partitions.
bool MayMeetDeadEntries(const IndexTable *table) {
    // No lock of this statement need have been a new one, which brings such news.
    AcceptInvalidationMessages();
    const Base *base = FindBase(table->base);
    return base && base->has_retired;
}

// References would take the entry that has the key for the one that is to have it.
void InsertFreeEntries(EntryWriter *writer, ChangeBuffer *buffer, std::span<const Change> changes) {
    for (const Change &change : changes) {
        if (IsTaken(writer, change, nullptr))
            KeepUnmatched(buffer, change);
        else
            InsertEntries(writer, {&change, 1});
        CHECK_FOR_INTERRUPTS();
    }
}

// While a statement around may still bring changes (`more_to_come`), deletions whose entry is not
// there are kept, for its insertion may follow, and unique keys that repeat are checked later, for
// the other entry's deletion may. After that, an entry that is not there was missing, and stays so.
// Where foreign keys point at the index table (`is_referenced`) no key repeats in between: what
// would take one is kept, too.
void WriteEntries(EntryWriter *writer, ChangeBuffer *buffer, const NetChanges &net,
                  bool more_to_come, bool is_referenced) {
    bool keeps_taken = more_to_come && is_referenced;
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
        if (keeps_taken && IsTaken(writer, net.replacements[i], &net.replaced[i])) {
            if (i < net.linked_count) {
                KeepUnmatched(buffer, net.replaced[i], net.replacements[i]);
            } else {
                KeepUnmatched(buffer, net.replaced[i]);
                KeepUnmatched(buffer, net.replacements[i]);
            }
        } else if (ReplaceEntry(writer, net.replaced[i], net.replacements[i])) {
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
    if (keeps_taken)
        InsertFreeEntries(writer, buffer, {net.inserts, net.insert_count});
    else
        InsertEntries(writer, {net.inserts, net.insert_count});
}

void CountFlush(Oid relid, const NetChanges &net) {
    Counts *counts = CountsOf(relid);
    if (!counts)
        return;
    counts->flushes++;
    counts->entries_written += net.delete_count + net.insert_count + net.replace_count;
}

void CarryOut(ChangeBuffer *buffer, const NetChanges &net, MemoryContext batch, bool more_to_come,
              bool is_referenced) {
    FAULT_POINT("flush.carry_out");
    CountFlush(buffer->relid, net);
    if (buffer->table->on_servers) {
        MemoryContext caller = MemoryContextSwitchTo(batch);
        WriteToServers(buffer, net, more_to_come);
        MemoryContextSwitchTo(caller);
        return;
    }
    EntryWriter *writer = OpenWriter(buffer->table, more_to_come, batch);
    if (!writer)
        return;
    // Foreign keys that point at the index table act within this, and nobody else.
    ActiveStatement flushing;
    EnterStatement(&flushing, nullptr, InvalidOid);
    PG_TRY();
    {
        WriteEntries(writer, buffer, net, more_to_come, is_referenced);
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
    if (!table->options.is_unique || table->key.multi_valued >= 0)
        return Linking::None;
    Relation rel = try_relation_open(table->relid, RowExclusiveLock);
    if (!rel)
        return Linking::None;
    bool is_referenced = IsReferencedByForeignKey(rel);
    relation_close(rel, NoLock);
    if (!is_referenced)
        return Linking::None;
    return more_to_come ? Linking::HoldHalves : Linking::AllHalves;
}

// Whether what goes to servers waits: nobody reads it before the statement ends (ShowsBase), and
// there most keys are as they should be. Only memory does not last.
bool MayWait(ChangeBuffer *buffer) {
    return buffer->table->on_servers && (!IsFull(buffer) || buffer->count < buffer->wait_until);
}

// Into the index table, or, while that is being built, into its log.
void FlushBuffer(ChangeBuffer *buffer, bool more_to_come, bool into_log) {
    FAULT_POINT("flush.flush_buffer");
    if (more_to_come && MayWait(buffer))
        return;
    MemoryContext batch =
        AllocSetContextCreate(CurrentMemoryContext, "index_table flush", ALLOCSET_SMALL_SIZES);
    Linking linking = into_log ? Linking::None : LinkingFor(buffer->table, more_to_come);
    NetChanges net = TakeChanges(buffer, batch, linking);
    if (net.delete_count + net.insert_count + net.replace_count > 0) {
        if (into_log)
            LogChanges(buffer, net, batch);
        else
            CarryOut(buffer, net, batch, more_to_come, linking != Linking::None);
        // The toasted parts of entries carry the current command, not the base row's: the next
        // flush may have to delete them.
        CommandCounterIncrement();
    }
    // What had to be put back is not tried again for every row.
    buffer->wait_until = buffer->count * 2;
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
        if (buffer->count > 0 && buffer->held_level == 0)
            return true;
    return false;
}

// With `is_final` as if no statement around could bring more.
void Flush(bool is_final, bool at_commit = false) {
    Assert(IsTransactionState() && !IsInParallelMode());
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
            if (buffer->count == 0 || buffer->changes[buffer->count - 1].nest_level != level ||
                buffer->held_level != 0) {
                // nothing to do, an outer level's, or for ApplyChanges()
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

// What other index tables have captured waits until the actions of a foreign key are all done: its
// own actions may concern the same rows.
bool IsForeignKeyAction(const QueryDesc *query, int flags) {
    return (flags & EXEC_FLAG_SKIP_TRIGGERS) && query->operation != CMD_SELECT;
}

// Foreign key actions may just have changed the very rows that a query is to change, which was
// given its snapshot before.
void ShowWhatWasFlushed(QueryDesc *query, CommandId before) {
    // In place: the executor takes it that the query's snapshot is the active one.
    Snapshot snapshot = query->snapshot;
    if (snapshot && ActiveSnapshotSet() && snapshot == GetActiveSnapshot() &&
        snapshot->curcid == before)
        snapshot->curcid = GetCurrentCommandId(false);
}

} // namespace

void BeforeStart(QueryDesc *query, int flags) {
    StatementBegins(query);
    if (IsForeignKeyAction(query, flags))
        return;
    CommandId before = GetCurrentCommandId(false);
    // So that the statement finds the index tables as it finds the base tables.
    FlushChanges();
    const PlannedStmt *plan = query->plannedstmt;
    if (query->operation != CMD_SELECT || plan->hasModifyingCTE || plan->rowMarks != NIL)
        ShowWhatWasFlushed(query, before);
}

void AfterFinish(QueryDesc *query) {
    if (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS)
        RememberCascade(query);
    StatementEnds(query);
    if (!IsForeignKeyAction(query, query->estate->es_top_eflags))
        FlushIfNeeded(false);
}

// A trigger of another table, as of a foreign key, has loaded the library while the statement was
// finished.
void BeforeEnd(QueryDesc *query) {
    if (QueryEnds(query))
        FlushIfNeeded(false);
}

// COPY fires triggers itself; everything else that does runs the executor. DDL must find the index
// tables in step before it changes their shape.
void BeginUtility(UtilityStatement *running, Node *command) {
    // A savepoint puts what is captured out of reach of flushes until it is released.
    bool ends_transaction =
        IsA(command, TransactionStmt) &&
        reinterpret_cast<TransactionStmt *>(command)->kind != TRANS_STMT_SAVEPOINT;
    *running = {.is_copy = IsA(command, CopyStmt), .is_truncate = IsA(command, TruncateStmt)};
    StatementBegins(nullptr);
    if (!ends_transaction)
        FlushChanges();
    if (running->is_truncate)
        running->outer_truncate = SetTruncate(castNode(TruncateStmt, command));
    if (running->is_copy)
        EnterStatement(&running->copying, nullptr, CopiedRelation(command));
}

void EndUtility(UtilityStatement *running) {
    if (running->is_copy)
        LeaveStatement(&running->copying);
    if (running->is_truncate)
        SetTruncate(running->outer_truncate);
}

void AfterUtility(const UtilityStatement *running) {
    if (running->is_copy)
        FlushIfNeeded(false);
}

void CallBeforeCommit(void (*function)()) {
    Assert(before_commit_count < kMaxBeforeCommit);
    before_commit[before_commit_count++] = function;
}

// By now PostgreSQL has fired what was deferred, for the last time: not what this flush may defer.
void FlushBeforeCommit() {
    Assert(GetCurrentTransactionNestLevel() == 1);
    for (Function function : std::span(before_commit, before_commit_count))
        function();
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
    Assert(IsKnown(buffer->table));
    bool push_snapshot = !ActiveSnapshotSet();
    if (push_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    FlushBuffer(buffer, false, false);
    buffer->held_level = 0;
    Recheck(true);
    if (push_snapshot)
        PopActiveSnapshot();
}

void HoldChanges(ChangeBuffer *buffer) {
    Assert(OidIsValid(buffer->table->log));
    if (buffer->held_level == 0)
        buffer->held_level = GetCurrentTransactionNestLevel();
}

bool HasUnflushedChanges(Oid index_table) {
    ChangeBuffer *buffer = FindChangeBuffer(index_table);
    return buffer && buffer->count > 0;
}

const IndexTable *GetOwnIndexTable(Oid relid) {
    const IndexTable *table = GetIndexTable(relid);
    if (!compat::OwnsRelation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
    FlushChanges();
    return table;
}

void InitializeMaintenance() {
    InitializeLeafCache();
    InitializeWriters();
    InitializeIntents();
}

} // namespace index_table
