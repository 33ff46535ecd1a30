// index_table.drain(). For each partition: read a batch on the shard, apply it, commit here, and
// only then discard exactly those numbers there. Whoever dies in between drains the batch again.
#include "drain/drain.h"

#include "partitions/public.h"
#include "create/public.h"
#include "catalog/public.h"
#include "drain/drain_errors.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "drain/apply.h"
#include "drain/sweep_intents.h"
#include "shard/public.h"

namespace index_table {
namespace {

constexpr int kMaxTries = 50;      // of batches in which nothing but contended rows is left
constexpr long kRetryDelay = 20;   // milliseconds
constexpr int kMaxBatches = 10000; // whoever writes all the time does not keep others waiting

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

// A row that some index table refuses is entered in the others. Where it is refused nothing is left
// of it, for rows that have exchanged their keys would be in each other's way for ever.
void ApplyByTable(const ShardQueue *queue, const QueuedRow &refused, Snapshot snapshot) {
    for (const LeafTable &table : std::span(queue->leaf->tables, queue->leaf->table_count)) {
        QueuedRow row = refused;
        auto apply = [&] { ApplyRows(queue, {&row, 1}, snapshot, table.table); };
        if (!TryInSubtransaction(apply))
            continue;
        row.exists = false;
        TryInSubtransaction(apply);
    }
}

// Rows one by one: those that are refused do not keep the others.
void ApplyEach(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot) {
    for (QueuedRow &row : std::span(batch->rows, batch->row_count)) {
        row.is_contended = false;
        row.error = TryInSubtransaction([&] { ApplyRows(queue, {&row, 1}, snapshot); });
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

// In a transaction of ours, before anything is changed. Entries are written with the rights of the
// base table's owner, and what foreign keys make of that elsewhere, too: nothing may be deferred
// until a commit that has other rights. So a row that is refused is known while others can still be
// entered.
void CheckConstraintsAtOnce() {
    ConstraintsSetStmt *all_immediate = makeNode(ConstraintsSetStmt);
    AfterTriggerSetState(all_immediate);
}

// Runs `body` on a partition of which nobody else drains the queue, as the base table's owner.
template <typename Body>
void WithDrainedLeaf(Oid relid, Body body) {
    std::optional<PartitionNumber> number = FindPartitionNumber(relid);
    if (!number)
        return;
    LockRelationOid(number->base, RowExclusiveLock); // first, as writers do
    Relation rel = try_relation_open(relid, RowExclusiveLock);
    if (!rel)
        return;
    LockPart(relid, LockedPart::Drain, ExclusiveLock);
    CheckConstraintsAtOnce();
    OwnerContext owner = EnterOwner(RelationOwner(number->base));
    PushActiveSnapshot(GetTransactionSnapshot()); // a worker has none
    int level = BeginTransmission();              // identities are noted as text
    body(rel);
    EndTransmission(level);
    PopActiveSnapshot();
    LeaveOwner(owner);
    relation_close(rel, NoLock);
}

// One batch, up to the commit.
void DrainBatch(Oid relid, List **identity, bool is_first, Outcome *outcome) {
    *outcome = {};
    WithDrainedLeaf(relid, [&](Relation rel) { DrainLocked(rel, identity, is_first, outcome); });
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
const char *SweepIntentsOf(Oid leaf) {
    for (int tries = 0; tries < kMaxTries;) {
        SweepResult result = SweepResult::Done;
        const char *error = TryInSubtransaction([&] {
            WithDrainedLeaf(leaf, [&](Relation rel) {
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

} // namespace

void ApplyBatch(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot) {
    if (TryInSubtransaction([&] {
            ApplyRows(queue, {batch->rows, Size(batch->row_count)}, snapshot);
        })) {
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

bool DrainLeaf(Oid leaf, bool warn) {
    Assert(IsForeign(leaf) && GetCurrentTransactionNestLevel() == 1);
    MemoryContext caller = CurrentMemoryContext;
    MemoryContext memory =
        AllocSetContextCreate(caller, "index_table drain", ALLOCSET_DEFAULT_SIZES);
    List *identity = NIL; // kept, while the memory of a batch is not
    const char *error = SweepIntentsOf(leaf);
    int tries = 0;
    for (int i = 0; !error && i < kMaxBatches && tries < kMaxTries; i++) {
        Outcome outcome = {};
        MemoryContextSwitchTo(memory);
        List *names = identity;
        error = TryInSubtransaction([&] { DrainBatch(leaf, &names, i == 0, &outcome); });
        if (error)
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
        if (outcome.batch.number_count == 0 && !outcome.again)
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
    return !error;
}

void InitializeDrain() {
    DefineCustomIntVariable("index_table.drain_batch",
                            "Changes of a foreign partition that are drained in one transaction.",
                            nullptr, &batch_size, 5000, 1, 1000000, PGC_USERSET, 0, nullptr,
                            nullptr, nullptr);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_drain) {
    PreventCommandDuringRecovery("index_table.drain()");
    CheckMayCommit(fcinfo, "index_table.drain()");
    Oid base = InvalidOid;
    if (!PG_ARGISNULL(0))
        base = GetOwnIndexTable(PG_GETARG_OID(0))->base;
    List *leaves = ListDrainedLeaves(base);
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    // What a procedure has done before it calls this is deferred as long as it wanted.
    SPI_commit();
    ListCell *cell;
    foreach (cell, leaves)
        DrainLeaf(lfirst_oid(cell), true);
    ForgetIntentsOfDropped();
    SPI_finish();
    PG_RETURN_VOID();
}
