// index_table.drain(). For each partition: read a batch on the shard, apply it, commit here, and
// only then discard exactly those numbers there. Whoever dies in between drains the batch again.
#include "drain/drain.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "drain/apply.h"
#include "drain/drain_errors.h"
#include "drain/local_drain.h"
#include "drain/sweep_intents.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

constexpr int kMaxTries = 50;      // of batches in which nothing but contended rows is left
constexpr long kRetryDelay = 20;   // milliseconds
constexpr int kMaxBatches = 10000; // whoever writes all the time does not keep others waiting
constexpr int kTurn = 20;          // batches, where others wait for their turn

constinit int batch_size = 5000;

struct Outcome {
    ShardQueue queue;
    QueueBatch batch;
    bool again; // nothing was read: an index had to be created first
};

// Whether some index table has no other way to learn of the partition's rows.
bool DependsOnQueue(const Leaf *leaf) {
    return std::any_of(leaf->tables, leaf->tables + leaf->table_count,
                       [](const LeafTable &table) { return table.table->options.is_deferred; });
}

// Whether a row is refused. A batch for which locks could not be had in time is left as a whole.
template <typename Attempt>
const char *TryToApply(Attempt attempt) {
    return TryInSubtransaction(attempt, [](const ErrorData *error) {
        return error->sqlerrcode != ERRCODE_QUERY_CANCELED &&
               error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE;
    });
}

// A row that some index table refuses is entered in the others. Where it is refused nothing is left
// of it, for rows that have exchanged their keys would be in each other's way for ever.
void ApplyByTable(const ShardQueue *queue, const QueuedRow &refused, Snapshot snapshot) {
    for (const LeafTable &table : std::span(queue->leaf->tables, queue->leaf->table_count)) {
        QueuedRow row = refused;
        auto apply = [&] { ApplyRows(queue, {&row, 1}, snapshot, table.table); };
        if (!TryToApply(apply))
            continue;
        row.exists = false;
        TryToApply(apply);
    }
}

// Rows one by one: those that are refused do not keep the others.
void ApplyEach(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot) {
    for (QueuedRow &row : std::span(batch->rows, batch->row_count)) {
        row.is_contended = false;
        row.error = TryToApply([&] { ApplyRows(queue, {&row, 1}, snapshot); });
        char *identity = IdentityText(queue, row);
        if (row.error) {
            ApplyByTable(queue, row, snapshot);
            RecordDrainError(queue->relid, identity, row.error);
        } else if (!row.is_contended)
            ForgetDrainError(queue->relid, identity);
    }
}

// Tries rows again that were refused: what was in their way may be gone.
void RetryDrainErrors(const ShardQueue *queue, Snapshot snapshot) {
    ListCell *cell;
    foreach (cell, ListDrainErrors(queue->relid)) {
        List *identity = static_cast<List *>(lfirst(cell));
        if (list_length(identity) != queue->identity_count)
            continue;
        QueuedRow row = ReadRow(queue, identity);
        QueueBatch one = {.row_count = 1, .rows = &row};
        ApplyEach(queue, &one, snapshot);
    }
}

void DrainLocked(Relation rel, List **identity, bool is_first, Outcome *outcome) {
    const Leaf *leaf = FindLeaf(rel);
    if (!leaf)
        return;
    ShardQueue *queue = &outcome->queue;
    if (!OpenQueue(queue, rel, leaf, GetUserId(), identity)) {
        if (DependsOnQueue(leaf))
            RaiseHasNoOutbox(queue->relid);
        return;
    }
    if (EnsureIdentityIndexes(queue)) {
        outcome->again = true;
        return;
    }
    // Rows are read after it was taken: what is not in it may be younger than they.
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    PushActiveSnapshot(snapshot);
    if (is_first)
        RetryDrainErrors(queue, snapshot);
    outcome->batch = ReadBatch(queue, batch_size);
    if (outcome->batch.reload) {
        ReloadLeaf(leaf->base_relid, queue->relid);
        ForgetDrainErrors(queue->relid);
    } else if (outcome->batch.row_count > 0)
        ApplyBatch(queue, &outcome->batch, snapshot);
    PopActiveSnapshot();
    UnregisterSnapshot(snapshot);
}

// Locks what writers lock, and keeps other drains out; false, without `wait`, where that would have
// to wait.
bool LockDrained(Oid base, Oid leaf, bool wait) {
    if (!LockToDrain(base, wait) || !LockToDrain(leaf, wait)) // in this order, as writers do
        return false;
    if (wait)
        LockPart(leaf, LockedPart::Drain, ExclusiveLock);
    else if (!TryLockPart(leaf, LockedPart::Drain, ExclusiveLock))
        return false;
    ListCell *cell;
    foreach (cell, wait ? NIL : ListIndexTables(base))
        // What goes to one that is being built goes to its log.
        if (!OidIsValid(RecordedLog(lfirst_oid(cell))) && !LockToDrain(lfirst_oid(cell), false))
            return false;
    return true;
}

// What is discarded on a shard must be here for good: on disk, and on a standby that commits wait
// for. Who has set `local` or `remote_write` wants no more than that.
void CommitForGood() {
    if (synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
        set_config_option("synchronous_commit", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
                          true, 0, false);
}

// Runs `body` on a partition of which nobody else drains the queue, as the base table's owner.
// False where it is busy.
template <typename Body>
bool WithDrainedLeaf(Oid relid, bool wait, Body body) {
    std::optional<PartitionNumber> number = FindPartitionNumber(relid);
    if (!number)
        return true;
    if (!LockDrained(number->base, relid, wait))
        return false;
    Relation rel = try_relation_open(relid, NoLock);
    if (!rel)
        return true;
    CheckConstraintsAtOnce();
    CommitForGood();
    OwnerContext owner = EnterOwner(RelationOwner(number->base));
    PushActiveSnapshot(GetTransactionSnapshot()); // a worker has none
    int level = BeginTransmission();              // identities are noted as text
    body(rel);
    EndTransmission(level);
    PopActiveSnapshot();
    LeaveOwner(owner);
    relation_close(rel, NoLock);
    return true;
}

// One batch, up to the commit. False where it is busy.
bool DrainBatch(Oid relid, bool wait, List **identity, bool is_first, Outcome *outcome) {
    *outcome = {};
    return WithDrainedLeaf(relid, wait,
                           [&](Relation rel) { DrainLocked(rel, identity, is_first, outcome); });
}

// Whether a number of the batch can be discarded.
bool MadeProgress(const QueueBatch &batch) {
    int contended = 0;
    int64 last = 0;
    for (const QueuedRow &row : std::span(batch.rows, batch.row_count))
        if (row.is_contended && (contended == 0 || row.number != last)) {
            contended++;
            last = row.number;
        }
    return contended < batch.number_count;
}

void Pause() {
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kRetryDelay,
              PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

// Forgets that a partition could not be drained.
void RememberSuccess(Oid leaf) {
    ForgetDrainError(leaf, nullptr);
}

void Fail(Oid leaf, const char *error, bool warn) {
    RecordDrainError(leaf, nullptr, error);
    SPI_commit();
    if (warn)
        ereport(WARNING, (errmsg("cannot drain foreign table \"%s\": %s",
                                 get_rel_name(leaf) ? get_rel_name(leaf) : "?", error)));
}

// Reads rows again whose changes were not committed here after shards had. Null, or an error.
const char *SweepIntentsOf(Oid leaf, bool wait, bool *is_busy) {
    for (int tries = 0; tries < kMaxTries;) {
        SweepResult result = SweepResult::Done;
        const char *error = TryInSubtransaction([&] {
            *is_busy = !WithDrainedLeaf(leaf, wait, [&](Relation rel) {
                if (const Leaf *found = FindLeaf(rel))
                    result = SweepIntents(rel, found);
            });
        });
        if (error)
            return error;
        SPI_commit();
        if (result == SweepResult::Done)
            break;
        if (result == SweepResult::Wait) {
            tries++;
            Pause();
        }
    }
    return nullptr;
}

// Index tables of a base table with foreign partitions that a dump has brought without the number
// of one: rows of it were to be read again, or were refused, when it was made. A list of OIDs.
List *ListUnbelieved(Oid base_oid) {
    List *tables = NIL;
    const Base *base = compat::OwnsRelation(base_oid) && HasForeign(FindLeaves(base_oid, NoLock))
                           ? FindBase(base_oid)
                           : nullptr;
    for (int i = 0; base && i < base->table_count; i++) {
        const IndexTable *table = base->tables[i];
        // Where entries are on servers, the database that was dumped may be writing to them.
        if (table->state != TableState::Built && !table->on_servers && !OidIsValid(table->log) &&
            !IsTrusted(table))
            tables = lappend_oid(tables, table->relid);
    }
    return tables;
}

// While writers wait, each in a transaction of its own.
void RepairUnbelieved(Oid wanted) {
    MemoryContext caller = CurrentMemoryContext;
    List *tables = NIL;
    ListCell *cell;
    foreach (cell, OidIsValid(wanted) ? list_make1_oid(wanted) : ListBases())
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))))
            tables = list_concat(tables, ListUnbelieved(lfirst_oid(cell)));
    foreach (cell, tables) {
        Oid relid = lfirst_oid(cell);
        const char *error = TryToApply([&] {
            if (const IndexTable *table = FindIndexTable(relid))
                RepairIndexTable(LockIndexTable(table, AccessShareLock));
        });
        if (error)
            ereport(WARNING, (errmsg("cannot repair index table \"%s\": %s",
                                     get_rel_name(relid) ? get_rel_name(relid) : "?", error)));
        SPI_commit();
        MemoryContextSwitchTo(caller);
    }
}

} // namespace

// In a transaction of ours, before anything is changed. Entries are written with the rights of the
// base table's owner, and what foreign keys make of that elsewhere, too: nothing may be deferred
// until a commit that has other rights. So a row that is refused is known while others can still be
// entered.
void CheckConstraintsAtOnce() {
    ConstraintsSetStmt *all_immediate = makeNode(ConstraintsSetStmt);
    AfterTriggerSetState(all_immediate);
}

bool LockToDrain(Oid relid, bool wait) {
    if (!wait)
        return ConditionalLockRelationOid(relid, RowExclusiveLock);
    LockRelationOid(relid, RowExclusiveLock);
    return true;
}

int DrainBatchSize() {
    return batch_size;
}

void ApplyBatch(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot) {
    FAULT_POINT("drain.apply_batch");
    if (TryToApply([&] { ApplyRows(queue, {batch->rows, Size(batch->row_count)}, snapshot); })) {
        ApplyEach(queue, batch, snapshot);
        return;
    }
    if (ListDrainErrors(queue->relid) == NIL)
        return;
    for (const QueuedRow &row : std::span(batch->rows, batch->row_count))
        if (!row.is_contended)
            ForgetDrainError(queue->relid, IdentityText(queue, row));
}

List *ListDrainedLeaves(Oid wanted) {
    List *leaves = NIL;
    ListCell *base, *leaf;
    foreach (base, OidIsValid(wanted) ? list_make1_oid(wanted) : ListBases()) {
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(base))) ||
            !compat::OwnsRelation(lfirst_oid(base)))
            continue;
        foreach (leaf, ListPartitions(lfirst_oid(base)))
            if (IsForeign(lfirst_oid(leaf)) && IsOfPostgres(lfirst_oid(leaf)))
                leaves = lappend_oid(leaves, lfirst_oid(leaf));
    }
    list_sort(leaves, list_oid_cmp);
    return leaves;
}

List *ListUnsettledLeaves(Oid wanted) {
    List *leaves = NIL;
    ListCell *cell;
    foreach (cell, ListIntents()) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && !IsForeign(lfirst_oid(cell)) && compat::OwnsRelation(number->base) &&
            (!OidIsValid(wanted) || number->base == wanted))
            leaves = lappend_oid(leaves, lfirst_oid(cell));
    }
    list_sort(leaves, list_oid_cmp);
    return leaves;
}

DrainResult DrainLeaf(Oid leaf, bool wait, bool warn, int batches) {
    Assert(GetCurrentTransactionNestLevel() == 1);
    MemoryContext caller = CurrentMemoryContext;
    MemoryContext memory =
        AllocSetContextCreate(caller, "index_table drain", ALLOCSET_DEFAULT_SIZES);
    List *identity = NIL; // kept, while the memory of a batch is not
    bool is_busy = false, is_done = false;
    const char *error = SweepIntentsOf(leaf, wait, &is_busy);
    int tries = 0;
    if (!error && !is_busy && !IsForeign(leaf)) {
        RememberSuccess(leaf);
        SPI_commit();
        is_done = true;
        batches = -1;
    }
    if (batches == 0)
        batches = wait ? kMaxBatches : kTurn;
    for (int i = 0; !error && !is_busy && i < batches && tries < kMaxTries; i++) {
        Outcome outcome = {};
        MemoryContextSwitchTo(memory);
        List *names = identity;
        error = TryInSubtransaction(
            [&] { is_busy = !DrainBatch(leaf, wait, &names, i == 0, &outcome); });
        if (error || is_busy)
            break;
        RememberSuccess(leaf);
        SPI_commit();
        MemoryContextSwitchTo(caller);
        if (identity == NIL) {
            ListCell *cell;
            foreach (cell, names)
                identity = lappend(identity, pstrdup(static_cast<const char *>(lfirst(cell))));
        }
        MemoryContextSwitchTo(memory);
        is_done = outcome.batch.number_count == 0 && !outcome.again;
        if (is_done)
            break;
        bool discarded = false;
        error =
            TryInSubtransaction([&] { discarded = DiscardBatch(&outcome.queue, outcome.batch); });
        if (error)
            break;
        if (outcome.again || (discarded && MadeProgress(outcome.batch)))
            tries = 0;
        else {
            tries++;
            Pause();
        }
        SPI_commit();
        MemoryContextSwitchTo(caller);
        MemoryContextReset(memory);
    }
    if (error)
        Fail(leaf, error, warn);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
    return error     ? DrainResult::Failed
           : is_busy ? DrainResult::Busy
           : is_done ? DrainResult::Done
                     : DrainResult::More;
}

void InitializeDrain() {
    DefineCustomIntVariable(
        "index_table.drain_batch", "Changes of a queue that are drained in one transaction.",
        nullptr, &batch_size, 5000, 1, 1000000, PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_drain) {
    PreventCommandDuringRecovery("index_table.drain()");
    CheckMayCommit(fcinfo, "index_table.drain()");
    Oid base = InvalidOid;
    if (!PG_ARGISNULL(0))
        base = GetOwnIndexTable(PG_GETARG_OID(0))->base;
    MemoryContext memory = CurrentMemoryContext;
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    MemoryContextSwitchTo(memory);
    // What a procedure has done before it calls this is deferred as long as it wanted.
    SPI_commit();
    RepairUnbelieved(base);
    List *leaves = list_concat(ListDrainedLeaves(base), ListUnsettledLeaves(base));
    List *queued = ListQueued(base);
    ListCell *cell;
    foreach (cell, leaves)
        DrainLeaf(lfirst_oid(cell), true, true);
    foreach (cell, queued)
        DrainQueue(lfirst_oid(cell), true, true);
    ForgetIntentsOfDropped();
    SPI_finish();
    PG_RETURN_VOID();
}
