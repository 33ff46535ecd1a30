#include "drain/local_drain.h"

#include "core/public.h"
#include "create/public.h"
#include "drain/stored_entries.h"
#include "exec/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

constexpr int kTurn = 20;         // batches, where others wait for their turn
constexpr int kMaxBackoff = 3600; // seconds until what was set aside is tried again
constexpr int kAnyPart = -1;
constexpr const char *kNoWait = "1"; // milliseconds that a lock is waited for: 0 would be for ever

// A row whose entries are to be brought up to date.
struct QueuedItem {
    Datum *identity;
    int tries; // that failed
};

// An entry, by position.
struct EntryImage {
    Datum *values;
    bool *nulls;
};

struct TypeImage {
    int16 length;
    bool by_value;
};

struct DrainedPack {
    int part;
    ItemPointerData tid;
};

struct DrainWishes {
    int part; // whose packs; kAnyPart
    bool wait;
};

struct Outcome {
    bool is_busy;    // all that is left waits for locks of others
    bool is_locking; // what belongs to partitions, which may be busy, too
    bool again;      // an index had to be created first
    int packs;
    bool is_gone; // there is no queue
};

// What one transaction drains.
struct Batch {
    PackReader packs;
    Snapshot snapshot;
    MemoryContext memory;
    DrainWishes wishes;
    bool has_busy; // packs were left out whose rows' partitions others have locked
    bool all;      // those set aside too that are not due
    int size;      // identities, about
    IdentityMap *known;
    int pack_count;
    int pack_capacity;
    DrainedPack *drained;
    int count;
    int capacity;
    QueuedItem *items;
};

template <typename T>
void Grow(T **array, int count, int *capacity) {
    if (count < *capacity)
        return;
    int grown = Max(64, *capacity * 2);
    T *larger = static_cast<T *>(palloc_extended(sizeof(T) * grown, MCXT_ALLOC_HUGE));
    std::copy(*array, *array + count, larger);
    *array = larger;
    *capacity = grown;
}

// Adds an identity that was not met before.
void AddItem(Batch *batch, const Datum *identity, int tries) {
    const Queue *queue = batch->packs.queue;
    NullableDatum known[INDEX_MAX_KEYS];
    for (int i = 0; i < queue->identity_count; i++)
        known[i] = {.value = identity[i], .isnull = false};
    bool found;
    PutIdentity(batch->known, InvalidOid, known, &found);
    if (found)
        return;
    MemoryContext caller = MemoryContextSwitchTo(batch->memory);
    Grow(&batch->items, batch->count, &batch->capacity);
    QueuedItem *item = &batch->items[batch->count++];
    *item = {.identity = palloc_array(Datum, queue->identity_count), .tries = tries};
    for (int i = 0; i < queue->identity_count; i++)
        item->identity[i] =
            datumCopy(identity[i], queue->identity[i].by_value, queue->identity[i].length);
    MemoryContextSwitchTo(caller);
}

int TriesOf(const Pack &pack) {
    return pack.is_set_aside && !pack.slot->tts_isnull[kPackTries - 1]
               ? DatumGetInt32(pack.slot->tts_values[kPackTries - 1])
               : 0;
}

void AddPack(Batch *batch, const Pack &pack) {
    MemoryContext caller = MemoryContextSwitchTo(batch->memory);
    Grow(&batch->drained, batch->pack_count, &batch->pack_capacity);
    MemoryContextSwitchTo(caller);
    batch->drained[batch->pack_count++] = {.part = pack.part, .tid = pack.slot->tts_tid};
    constexpr WantedKeys kAll = {.count = -1, .hashes = nullptr};
    int tries = TriesOf(pack);
    ForEachIdentity(&batch->packs, pack, kAll,
                    [=](const Datum *identity) { AddItem(batch, identity, tries); });
}

// Whether the partitions of all of a pack's rows can be locked at once. They stay locked.
bool TryLockPartitions(Batch *batch, QueuedRows *rows, const Pack &pack) {
    constexpr WantedKeys kAll = {.count = -1, .hashes = nullptr};
    bool is_free = true;
    ForEachIdentity(&batch->packs, pack, kAll, [&](const Datum *identity) {
        is_free = is_free && TryLockQueuedLeaves(rows, identity);
    });
    batch->has_busy = batch->has_busy || !is_free;
    return is_free;
}

// Reads packs until there are enough identities. Without Batch::wishes.wait those that a locked
// partition holds up are left in the queue, and later ones are read.
void Collect(Batch *batch, Relation base) {
    FAULT_POINT("local_drain.collect");
    AttrNumber attnos[INDEX_MAX_KEYS];
    const IndexTable *table = batch->packs.table;
    for (int i = 0; i < table->identity_count; i++)
        attnos[i] = table->identity[i].base_attno;
    batch->known =
        MakeIdentityMap(batch->memory, RelationGetDescr(base), attnos, table->identity_count);
    QueuedRows rows;
    BeginQueuedRows(&rows, table, base, batch->snapshot, RowExclusiveLock);
    TimestampTz now = GetCurrentTimestamp();
    int read = 0;
    MemoryContext of_pack =
        AllocSetContextCreate(batch->memory, "index_table pack", ALLOCSET_DEFAULT_SIZES);
    ForEachPack(&batch->packs, [&](const Pack &pack) {
        if ((batch->wishes.part != kAnyPart && pack.part != batch->wishes.part) ||
            (pack.is_set_aside && pack.retry_at > now && !batch->all))
            return true;
        MemoryContext caller = MemoryContextSwitchTo(of_pack);
        if (batch->wishes.wait || TryLockPartitions(batch, &rows, pack)) {
            AddPack(batch, pack);
            read += pack.count;
        }
        MemoryContextSwitchTo(caller);
        MemoryContextReset(of_pack);
        CHECK_FOR_INTERRUPTS();
        return read < batch->size;
    });
    MemoryContextDelete(of_pack);
    EndQueuedRows(&rows);
}

// What is locked on the way to partitions, as their indexes, raises an error where it is not
// available: `is_locking` tells that error from others.
void CollectWithoutWaiting(Batch *batch, Relation base, bool *is_locking) {
    int level = NewGUCNestLevel();
    SetForQuery("lock_timeout", kNoWait);
    *is_locking = true;
    Collect(batch, base);
    *is_locking = false;
    AtEOXact_GUC(true, level);
}

// An item and the leaf that it is in, as a rule one.
struct Place {
    QueuedLeaf *leaf;
    const QueuedItem *item;
};

// In the order of leaves, of which readers keep few open. Locks them, and the tables above them.
std::span<Place> Route(QueuedRows *rows, std::span<const QueuedItem> items) {
    int count = 0, capacity = static_cast<int>(items.size());
    Place *places = palloc_array(Place, Max(1, capacity));
    ListCell *cell;
    for (const QueuedItem &item : items)
        foreach (cell, FindQueuedLeaves(rows, item.identity)) {
            Grow(&places, count, &capacity);
            places[count++] = {.leaf = static_cast<QueuedLeaf *>(lfirst(cell)), .item = &item};
        }
    std::sort(places, places + count, [](const Place &a, const Place &b) {
        return a.leaf->partition_id != b.leaf->partition_id
                   ? a.leaf->partition_id < b.leaf->partition_id
                   : a.item < b.item;
    });
    return {places, static_cast<Size>(count)};
}

// What an index table stores, opened to be brought up to date.
struct Target {
    const IndexTable *table;
    List *finders;
    EntryWriter *writer;
    EntryCollector collector;
    TypeImage *images; // of an entry's columns
};

Target OpenTarget(const IndexTable *table, Snapshot snapshot) {
    Target target = {.table = table};
    IdentityPositions identity = PositionsOf(table);
    ListCell *cell;
    foreach (cell, StorageOf(table->relid, RowExclusiveLock))
        target.finders =
            lappend(target.finders, OpenFinder(table, lfirst_oid(cell), identity, snapshot, false));
    target.writer = OpenWriter(table, false, CurrentMemoryContext);
    target.collector = BeginCollecting(table);
    target.images = palloc_array(TypeImage, table->column_count);
    for (int i = 0; i < table->column_count; i++)
        get_typlenbyval(table->types[i], &target.images[i].length, &target.images[i].by_value);
    return target;
}

// Writes what was collected.
void CloseTarget(Target *target) {
    ListCell *cell;
    foreach (cell, target->finders)
        CloseFinder(static_cast<Finder *>(lfirst(cell)));
    if (target->writer)
        CloseWriter(target->writer);
    FlushAllChanges();
}

// Whether a stored entry is, byte by byte, one that the row has.
bool IsEntry(Target *target, const Finder *finder, HeapTuple stored, const EntryImage &entry) {
    const IndexTable *table = target->table;
    for (int i = 0; i < table->column_count; i++) {
        bool isnull;
        Datum value =
            heap_getattr(stored, finder->stored[i], RelationGetDescr(finder->rel), &isnull);
        const TypeImage &image = target->images[i];
        if (isnull != entry.nulls[i] ||
            (!isnull && !datum_image_eq(value, entry.values[i], image.by_value, image.length)))
            return false;
    }
    return true;
}

// What a row has, each entry once, in memory of the row.
struct RowEntries {
    int count;
    int capacity;
    EntryImage *entries;
    bool *are_stored;
};

void AddEntry(RowEntries *row, const Target &target, const Datum *values, const bool *nulls) {
    if (row->count == row->capacity) {
        int grown = Max(4, row->capacity * 2);
        EntryImage *entries = palloc_array(EntryImage, grown);
        bool *are_stored = palloc0_array(bool, grown);
        std::copy(row->entries, row->entries + row->count, entries);
        row->entries = entries;
        row->are_stored = are_stored;
        row->capacity = grown;
    }
    int columns = target.table->column_count;
    EntryImage *entry = &row->entries[row->count++];
    *entry = {.values = palloc_array(Datum, columns), .nulls = palloc_array(bool, columns)};
    for (int i = 0; i < columns; i++) {
        entry->nulls[i] = nulls[i];
        entry->values[i] =
            nulls[i] ? 0 : datumCopy(values[i], target.images[i].by_value, target.images[i].length);
    }
}

// Deletes what is stored and the row does not have.
void RemoveStale(Target *target, const Datum *identity, int32 partition_id, RowEntries *row) {
    FAULT_POINT("local_drain.remove_stale");
    int next = 0; // after the one found last: most are stored in the order in which they are made
    ListCell *cell;
    foreach (cell, target->finders) {
        Finder *finder = static_cast<Finder *>(lfirst(cell));
        StoredEntries stored = {};
        FindStored(finder, identity, partition_id, &stored);
        for (HeapTuple tuple : std::span(stored.tuples, stored.count)) {
            int tried = 0, i = 0;
            for (; tried < row->count; tried++) {
                i = (next + tried) % row->count;
                if (!row->are_stored[i] && IsEntry(target, finder, tuple, row->entries[i]))
                    break;
            }
            CHECK_FOR_INTERRUPTS();
            if (tried < row->count) {
                row->are_stored[i] = true;
                next = i + 1;
            } else if (target->writer)
                DeleteStoredEntry(target->writer, RelationGetRelid(finder->rel), &tuple->t_self);
        }
    }
}

void BringUpToDate(Target *target, QueuedRows *rows, const Place &place) {
    RowEntries row = {};
    ForEachQueuedEntry(
        rows, place.leaf, place.item->identity,
        [&](const Datum *values, const bool *nulls) { AddEntry(&row, *target, values, nulls); });
    RemoveStale(target, place.item->identity, place.leaf->partition_id, &row);
    for (int i = 0; i < row.count; i++)
        if (!row.are_stored[i])
            CollectChange(&target->collector, row.entries[i].values, row.entries[i].nulls,
                          ChangeKind::Insert);
}

// Who rewrites a partition with no regard to snapshots, as pg_squeeze, pg_repack and REPACK
// CONCURRENTLY do, leaves older ones no row of it, and its lock may have been waited for: rows are
// read under a snapshot that is newer than the locks. What it shows beyond the packs is in others.
Snapshot RenewSnapshot(LeafReader *reader) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    reader->snapshot = snapshot;
    for (OpenLeaf *leaf = reader->leaves; leaf; leaf = leaf->next)
        if (leaf->table_scan) {
            table_endscan(leaf->table_scan);
            leaf->table_scan = compat::BeginTableScan(leaf->rel, snapshot);
        }
    return snapshot;
}

// Gives the index table the entries that the items' rows have, and no others with their identities.
void Apply(const Batch *batch, Relation base, std::span<const QueuedItem> items) {
    FAULT_POINT("local_drain.apply");
    const IndexTable *table = batch->packs.table;
    QueuedRows rows;
    BeginQueuedRows(&rows, table, base, batch->snapshot, RowExclusiveLock);
    std::span<Place> places = Route(&rows, items);
    Snapshot snapshot = RenewSnapshot(&rows.reader);
    Target target = OpenTarget(table, batch->snapshot);
    MemoryContext of_row = AllocSetContextCreate(CurrentMemoryContext, "index_table drained row",
                                                 ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(of_row);
    for (const Place &place : places) {
        if (place.leaf->partition_id == 0)
            continue;
        RememberWrittenPartition(place.leaf->partition_id);
        BringUpToDate(&target, &rows, place);
        MemoryContextReset(of_row);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(of_row);
    CloseTarget(&target);
    EndQueuedRows(&rows);
    UnregisterSnapshot(snapshot);
}

void Remove(const Batch *batch) {
    FAULT_POINT("local_drain.remove");
    for (const DrainedPack &pack : std::span(batch->drained, batch->pack_count)) {
        ItemPointerData tid = pack.tid;
        simple_heap_delete(batch->packs.parts[pack.part], &tid);
        pgstat_count_heap_delete(batch->packs.parts[pack.part]);
    }
}

TimestampTz RetryAt(int tries) {
    int seconds = tries > 12 ? kMaxBackoff : Min(1 << (tries - 1), kMaxBackoff);
    return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), int64{1000} * seconds);
}

// What locks that were not to be had do to a batch is nobody's fault.
bool IsFaultOfRows(const ErrorData *error) {
    return error->sqlerrcode != ERRCODE_QUERY_CANCELED &&
           error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
           error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED;
}

template <typename Attempt>
const char *TryToApply(Attempt attempt) {
    return TryInSubtransaction(attempt, IsFaultOfRows);
}

// One by one: those that cannot be entered are set aside, and keep no others.
void ApplyEach(const Batch *batch, Relation base, Oid part) {
    const IndexTable *table = batch->packs.table;
    for (const QueuedItem &item : std::span(batch->items, batch->count)) {
        const char *error = TryToApply([&] { Apply(batch, base, {&item, 1}); });
        if (!error)
            continue;
        PackWriter *writer = OpenPackWriter(table, part);
        if (!writer)
            return;
        AppendFailed(writer, item.identity, error, item.tries + 1, RetryAt(item.tries + 1));
        ClosePackWriter(writer);
    }
}

// --- One transaction -----------------------------------------------------------

void DrainLocked(const IndexTable *table, const DrainWishes &wishes, Outcome *outcome) {
    if (EnsureIdentityIndex(table, PositionsOf(table))) {
        outcome->again = true;
        return;
    }
    Batch batch = {.memory = CurrentMemoryContext,
                   .wishes = wishes,
                   .all = wishes.part != kAnyPart,
                   .size = DrainBatchSize()};
    batch.snapshot = RegisterSnapshot(GetLatestSnapshot());
    PushActiveSnapshot(batch.snapshot);
    if (OpenPackReader(&batch.packs, table, batch.snapshot, RowExclusiveLock)) {
        Relation base = relation_open(table->base, NoLock);
        if (wishes.wait)
            Collect(&batch, base);
        else
            CollectWithoutWaiting(&batch, base, &outcome->is_locking);
        outcome->packs = batch.pack_count;
        outcome->is_busy = batch.pack_count == 0 && batch.has_busy;
        Oid avoided = wishes.part == kAnyPart ? InvalidOid : batch.packs.queue->parts[wishes.part];
        if (batch.count > 0 && TryToApply([&] {
                Apply(&batch, base, {batch.items, Size(batch.count)});
            }))
            ApplyEach(&batch, base, avoided);
        Remove(&batch);
        relation_close(base, NoLock);
        ClosePackReader(&batch.packs);
    } else
        outcome->is_gone = true;
    PopActiveSnapshot();
    UnregisterSnapshot(batch.snapshot);
}

// What a drain writes to. False where somebody has locked some of it.
bool TryLockWritten(Oid relid) {
    if (!LockToDrain(relid, false))
        return false;
    ListCell *table, *part;
    foreach (table, list_make2_oid(relid, RecordedQueue(relid))) {
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(table))))
            continue; // it is gone, or was not restored
        foreach (part, find_inheritance_children(lfirst_oid(table), NoLock))
            if (!LockToDrain(lfirst_oid(part), false))
                return false;
    }
    return true;
}

// Locks what writers lock, in their order, and keeps other drains out. False, without `wait`, where
// that would have to wait.
bool LockDrained(Oid base, Oid relid, bool wait) {
    if (!LockToDrain(base, wait))
        return false;
    if (!wait)
        return TryLockPart(relid, LockedPart::Drain, ExclusiveLock) && TryLockWritten(relid);
    LockPart(relid, LockedPart::Drain, ExclusiveLock);
    return LockToDrain(relid, true);
}

// Drains a batch of an index table that nobody else drains, as its owner, up to the commit. Nothing
// is looked at in the cache before the base table is locked: that may wait for its lock.
void DrainBatch(Oid relid, const DrainWishes &wishes, Outcome *outcome) {
    *outcome = {.is_gone = true};
    Oid base = RecordedBase(relid);
    if (!OidIsValid(base))
        return;
    if (!LockDrained(base, relid, wishes.wait)) {
        *outcome = {.is_busy = true};
        return;
    }
    const IndexTable *table = FindIndexTable(relid);
    if (!table || !FindQueue(table) || table->state != TableState::Built)
        return;
    *outcome = {};
    CheckConstraintsAtOnce();
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    PushActiveSnapshot(GetTransactionSnapshot()); // a worker has none
    DrainLocked(table, wishes, outcome);
    PopActiveSnapshot();
    LeaveOwner(owner);
}

// The same. Null, or an error that `accepts` says so of; it is none that a partition is locked.
template <typename Accepts>
const char *TryToDrain(Oid relid, const DrainWishes &wishes, Outcome *outcome, Accepts accepts) {
    bool gives_way = false;
    const char *error =
        TryInSubtransaction([&] { DrainBatch(relid, wishes, outcome); },
                            [&](const ErrorData *raised) {
                                gives_way = !wishes.wait && outcome->is_locking &&
                                            raised->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
                                return gives_way || accepts(raised);
                            });
    if (!gives_way)
        return error;
    *outcome = {.is_busy = true};
    return nullptr;
}

// --- Clearing away ---------------------------------------------------------------

constexpr BlockNumber kWorthwhile = 64;    // blocks of a part that is cleared away
constexpr BlockNumber kTooMany = 4096;     // that old snapshots may keep
constexpr int kTries = 20;                 // to see the last reader go
constexpr long kDelay = 5;                 // milliseconds between them
constexpr const char *kWriterWait = "100"; // milliseconds for writers of a part to end

void Pause() {
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kDelay, PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

// Of a part, with what it has toasted.
BlockNumber CountBlocks(Relation part) {
    BlockNumber blocks = RelationGetNumberOfBlocks(part);
    if (!OidIsValid(part->rd_rel->reltoastrelid))
        return blocks;
    Relation toast = table_open(part->rd_rel->reltoastrelid, AccessShareLock);
    blocks += RelationGetNumberOfBlocks(toast);
    table_close(toast, AccessShareLock);
    return blocks;
}

// What is left in a part.
struct Remains {
    bool has_live;         // packs that are not drained, or are being drained
    bool is_needed;        // by snapshots that do not see drains
    TransactionId drained; // the last drain
};

Remains Inspect(Relation part) {
    Remains remains = {};
    TransactionId horizon = GetOldestNonRemovableTransactionId(part);
    BlockNumber blocks = RelationGetNumberOfBlocks(part);
    for (BlockNumber block = 0; block < blocks; block++) {
        CHECK_FOR_INTERRUPTS();
        Buffer buffer = ReadBuffer(part, block);
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        ForEachTuple(part, buffer, [&](HeapTuple tuple, OffsetNumber) {
            TransactionId drained;
            switch (HeapTupleSatisfiesVacuum(tuple, horizon, buffer)) {
            case HEAPTUPLE_RECENTLY_DEAD:
                remains.is_needed = true;
                [[fallthrough]];
            case HEAPTUPLE_DEAD:
                // An insertion that was rolled back has none.
                drained = TransactionIdIsNormal(HeapTupleHeaderGetRawXmax(tuple->t_data))
                              ? HeapTupleHeaderGetUpdateXid(tuple->t_data)
                              : InvalidTransactionId;
                if (TransactionIdFollows(drained, remains.drained))
                    remains.drained = drained;
                break;
            default:
                remains.has_live = true;
            }
        });
        UnlockReleaseBuffer(buffer);
    }
    return remains;
}

// Says whose work is cleared away, and commits that. False where somebody needs it still.
bool Announce(Oid relid, Oid part_oid) {
    Oid queue = RecordedQueue(relid); // the cache may wait for the base table's lock
    Relation part = OidIsValid(queue) ? try_relation_open(part_oid, AccessShareLock) : nullptr;
    if (!part)
        return false;
    InvalidateCatalogSnapshot(); // this transaction's own is not what it waits for
    Remains remains = Inspect(part);
    for (int i = 0; i < kTries && !remains.has_live && remains.is_needed; i++) {
        Pause();
        InvalidateCatalogSnapshot();
        remains = Inspect(part);
    }
    bool may_go = !remains.has_live && (!remains.is_needed || CountBlocks(part) > kTooMany);
    if (may_go && TransactionIdIsNormal(remains.drained))
        RecordEmptied(queue, part_oid, remains.drained);
    relation_close(part, AccessShareLock);
    SPI_commit();
    return may_go;
}

// Readers keep it for as long as their query runs.
bool LockOutReaders(Oid part) {
    for (int i = 0; i < kTries; i++) {
        if (ConditionalLockRelationOid(part, AccessExclusiveLock))
            return true;
        Pause();
    }
    return false;
}

void Truncate(Oid part_oid) {
    if (!LockOutReaders(part_oid))
        return;
    Relation part = try_relation_open(part_oid, NoLock);
    if (!part)
        return;
    // All that was looked at is still what is there: writers have been kept out.
    heap_truncate_one_rel(part);
    relation_close(part, NoLock);
}

// When a part is worth another attempt: one beside an old snapshot takes time, and is in vain.
struct Attempt {
    Oid part;
    TimestampTz next;
};

bool IsDue(Oid part, BlockNumber blocks) {
    constexpr int kAttempts = 64;
    constexpr int kDelayOfNext = 1000; // milliseconds
    static constinit Attempt attempts[kAttempts] = {};
    Attempt *attempt = &attempts[part % kAttempts];
    TimestampTz now = GetCurrentTimestamp();
    if (attempt->part == part && attempt->next > now && blocks <= kTooMany)
        return false;
    *attempt = {.part = part, .next = TimestampTzPlusMilliseconds(now, kDelayOfNext)};
    return true;
}

bool IsWorthwhile(Oid part_oid) {
    Relation part = try_relation_open(part_oid, AccessShareLock);
    BlockNumber blocks = part ? CountBlocks(part) : 0;
    bool is_worthwhile = blocks >= kWorthwhile && IsDue(part_oid, blocks);
    if (part)
        relation_close(part, AccessShareLock);
    return is_worthwhile;
}

// Drains what is left in a part, which writers have left, and clears it away. It waits for no
// table: whoever has locked one may be waiting for the part.
void ClearLocked(Oid relid, int number, Oid part) {
    DrainWishes wishes = {.part = number, .wait = false};
    Outcome outcome;
    do {
        TryToDrain(relid, wishes, &outcome, [](const ErrorData *) { return false; });
        SPI_commit();
        if (outcome.is_gone || outcome.is_busy)
            return;
    } while (outcome.packs > 0 || outcome.again);
    if (Announce(relid, part)) {
        Truncate(part);
        SPI_commit();
    }
}

// Locks that are kept over the commits of what clears a part away.
struct ClearLocks {
    LOCKTAG drain;
    LOCKTAG part;
};

// What goes wrong may have given them back: who rolls back the whole transaction does.
void UnlockAfterClear(const ClearLocks &locks) {
    if (compat::HoldsLock(locks.part, ShareRowExclusiveLock))
        LockRelease(&locks.part, ShareRowExclusiveLock, true);
    if (compat::HoldsLock(locks.drain, ExclusiveLock))
        LockRelease(&locks.drain, ExclusiveLock, true);
}

// Keeps other drains out, and writers, who take the other part; those that have it already are
// waited for a moment.
bool LockToClear(const ClearLocks &locks) {
    if (LockAcquire(&locks.drain, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
        return false;
    int level = NewGUCNestLevel();
    SetForQuery("lock_timeout", kWriterWait);
    const char *failed = TryInSubtransaction([&] {
        LockAcquire(&locks.part, ShareRowExclusiveLock, true, false);
        FAULT_POINT("local_drain.lock_to_clear");
    });
    AtEOXact_GUC(true, level);
    if (failed) // the lock may be there: granted as the time was up, it is the session's
        UnlockAfterClear(locks);
    return !failed;
}

void Clear(Oid relid, int number) {
    const IndexTable *table = FindIndexTable(relid);
    const Queue *queue = table ? FindQueue(table) : nullptr;
    if (!queue || !IsWorthwhile(queue->parts[number]))
        return;
    Oid part = queue->parts[number];
    ClearLocks locks = {.drain = PartTag(relid, LockedPart::Drain), .part = {}};
    SET_LOCKTAG_RELATION(locks.part, MyDatabaseId, part);
    if (!LockToClear(locks))
        return;
    PG_TRY();
    { ClearLocked(relid, number, part); }
    PG_FINALLY();
    { UnlockAfterClear(locks); }
    PG_END_TRY();
}

// Without waiting for anybody's lock. One that a dump has brought may have lost its queue.
bool IsQueued(Oid relid) {
    const Definition *definition = ReadDefinition(relid);
    return definition && definition->options.is_deferred &&
           (OidIsValid(definition->queue) || !HasForeign(ListPartitions(definition->base)));
}

// Fills one that a dump has brought, or that has missed changes, while writers wait. Null, or an
// error.
const char *RepairRestored(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    if (!table || !table->is_unusable() || OidIsValid(table->log) ||
        OidIsValid(FindDisabledFor(table)))
        return nullptr;
    return TryToApply(
        [&] { RepairIndexTable(LockIndexTable(FindIndexTable(relid), AccessShareLock)); });
}

} // namespace

List *ListQueued(Oid wanted) {
    List *tables = NIL;
    ListCell *base, *cell;
    foreach (base, OidIsValid(wanted) ? list_make1_oid(wanted) : ListBases()) {
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(base))) ||
            !compat::OwnsRelation(lfirst_oid(base)))
            continue;
        foreach (cell, ListIndexTables(lfirst_oid(base)))
            if (IsQueued(lfirst_oid(cell)))
                tables = lappend_oid(tables, lfirst_oid(cell));
    }
    list_sort(tables, list_oid_cmp);
    return tables;
}

DrainResult DrainQueue(Oid relid, bool wait, bool warn) {
    Assert(GetCurrentTransactionNestLevel() == 1);
    MemoryContext caller = CurrentMemoryContext;
    MemoryContext memory =
        AllocSetContextCreate(caller, "index_table drain", ALLOCSET_DEFAULT_SIZES);
    DrainWishes wishes = {.part = kAnyPart, .wait = wait};
    DrainResult result = DrainResult::More;
    for (int i = 0; result == DrainResult::More && (wait || i < kTurn); i++) {
        Outcome outcome = {};
        MemoryContextSwitchTo(memory);
        const char *error = i == 0 && wait ? RepairRestored(relid) : nullptr;
        if (!error)
            error = TryToDrain(relid, wishes, &outcome, IsFaultOfRows);
        if (error) {
            result = DrainResult::Failed;
            ereport(warn ? WARNING : LOG,
                    (errmsg("cannot drain the queue of index table \"%s\": %s",
                            get_rel_name(relid) ? get_rel_name(relid) : "?", error)));
        } else if (outcome.is_busy)
            result = DrainResult::Busy;
        else if (outcome.is_gone || (outcome.packs == 0 && !outcome.again))
            result = DrainResult::Done;
        SPI_commit();
        MemoryContextSwitchTo(caller);
        MemoryContextReset(memory);
    }
    MemoryContextDelete(memory);
    for (int part = 0; result == DrainResult::Done && part < kQueueParts; part++) {
        Clear(relid, part);
        SPI_commit();
    }
    MemoryContextSwitchTo(caller);
    return result;
}

void ApplyQueue(const IndexTable *table) {
    FAULT_POINT("local_drain.apply_queue");
    Assert(IsLocked(table->base, AccessExclusiveLock) && IsInOwnerOf(table->base));
    EnsureIdentityIndex(table, PositionsOf(table));
    for (;;) {
        MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "index_table drain",
                                                     ALLOCSET_DEFAULT_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(memory);
        Batch batch = {.memory = memory,
                       .wishes = {.part = kAnyPart, .wait = true},
                       .all = true,
                       .size = DrainBatchSize()};
        batch.snapshot = RegisterSnapshot(GetLatestSnapshot());
        PushActiveSnapshot(batch.snapshot);
        if (OpenPackReader(&batch.packs, table, batch.snapshot, RowExclusiveLock)) {
            Relation base = relation_open(table->base, NoLock);
            Collect(&batch, base);
            Apply(&batch, base, {batch.items, Size(batch.count)});
            Remove(&batch);
            relation_close(base, NoLock);
            ClosePackReader(&batch.packs);
        }
        PopActiveSnapshot();
        UnregisterSnapshot(batch.snapshot);
        CommandCounterIncrement();
        bool more = batch.pack_count > 0;
        MemoryContextSwitchTo(caller);
        MemoryContextDelete(memory);
        if (!more)
            return;
    }
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_retry) {
    PreventCommandDuringRecovery("index_table.retry()");
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    Oid relid = table->relid;
    LockRelationOid(table->base, AccessShareLock);
    LockPart(relid, LockedPart::Drain, ExclusiveLock);
    table = GetIndexTable(relid);
    if (!FindQueue(table))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("index table \"%s\" has no queue", get_rel_name(relid)),
                        errhint("It is not maintained deferred, or of foreign partitions: "
                                "CALL index_table.drain().")));
    OwnerContext owner = EnterOwner(RelationOwner(relid));
    uint64 count = 0;
    ExecuteUnguarded(psprintf("UPDATE %s SET retry_at = now() WHERE retry_at > now()",
                              QualifiedName(table->queue)),
                     &count);
    LeaveOwner(owner);
    RememberQueued();
    PG_RETURN_INT64(static_cast<int64>(count));
}
