// What a tree asks of its table: whether the rows that entries lead to are there (unique checks),
// which entries may go (deletion), and all rows (builds, amcheck). Everything is asked of the
// partitions' own heaps. Queries do not come here: they read the tree, and rows by address.
//
// The tree asks with a page of its own locked. So nothing here waits for a lock of the lock manager
// but where all rows are read; not of a catalog either, where the relation cache has to look there.
#include "global/table_method.h"

#include "core/public.h"
#include "global/address.h"
#include "global/addressed_rows.h"
#include "global/child_index.h"
#include "global/claims.h"
#include "global/generations.h"
#include "global/ownership.h"
#include "global/storage.h"
#include "global/sweep.h"

namespace index_table {
namespace {

constinit TableAmRoutine routine = {};
constinit const TableAmRoutine *heap_routine = nullptr;

[[noreturn]] void RaiseNotReadable(Relation rel) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot read \"%s\", which stores a global index",
                           RelationGetRelationName(rel)),
                    errhint("Query the indexed table.")));
}

// --- Partitions, locked without waiting --------------------------------------

// Whoever waits for this transaction to give a lock back must not keep it from reading.
bool LockWithoutWaiting(Oid relid, bool *locked) {
    *locked = !CheckRelationOidLockedByMe(relid, AccessShareLock, true);
    return !*locked || ConditionalLockRelationOid(relid, AccessShareLock);
}

// What is read to know a table and its index: catalogs and their indexes.
constexpr Oid kCatalogs[] = {
    RelationRelationId,
    ClassOidIndexId,
    AttributeRelationId,
    AttributeRelidNumIndexId,
    IndexRelationId,
    IndexRelidIndexId,
    AttrDefaultRelationId,
    AttrDefaultIndexId,
    ConstraintRelationId,
    ConstraintRelidTypidNameIndexId,
    TriggerRelationId,
    TriggerRelidNameIndexId,
    RewriteRelationId,
    RewriteRelRulenameIndexId,
    PolicyRelationId,
    PolicyPolrelidPolnameIndexId,
    AccessMethodRelationId,
    AmOidIndexId,
    OperatorClassRelationId,
    OpclassOidIndexId,
    AccessMethodProcedureRelationId,
    AccessMethodProcedureIndexId,
    ProcedureRelationId,
    ProcedureOidIndexId,
    TypeRelationId,
    TypeOidIndexId,
    InheritsRelationId,
    InheritsRelidSeqnoIndexId,
};

void UnlockCatalogs(size_t count) {
    for (size_t i = 0; i < count; i++)
        UnlockRelationOid(kCatalogs[i], AccessShareLock);
}

// False: somebody has one locked, or waits for it, as VACUUM FULL and REINDEX do.
bool LockCatalogsWithoutWaiting() {
    for (size_t i = 0; i < std::size(kCatalogs); i++)
        if (!ConditionalLockRelationOid(kCatalogs[i], AccessShareLock)) {
            UnlockCatalogs(i);
            return false;
        }
    return true;
}

const char *NameOf(Oid relid) {
    if (!LockCatalogsWithoutWaiting())
        return psprintf("%u", relid);
    const char *name = get_rel_name(relid);
    UnlockCatalogs(std::size(kCatalogs));
    return name ? name : psprintf("%u", relid);
}

// Children that the relation cache has, with their heaps, for as long as no relation changes.
HTAB *loaded = nullptr;
constinit uint64 loaded_since = 0;

bool IsLoaded(Oid child) {
    if (loaded && loaded_since != CountRelationChanges()) {
        hash_destroy(loaded);
        loaded = nullptr;
    }
    return loaded && hash_search(loaded, &child, HASH_FIND, nullptr);
}

void RememberLoaded(Oid child) {
    if (IsLoaded(child))
        return;
    if (!loaded) {
        HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(Oid)};
        loaded = hash_create("index_table partitions", 64, &control, HASH_ELEM | HASH_BLOBS);
        loaded_since = CountRelationChanges();
    }
    hash_search(loaded, &child, HASH_ENTER, nullptr);
}

// A partition, locked for as long as it is looked at.
struct OpenPartition {
    AddressedPartition *rows; // null: it is gone, or `is_busy`
    bool is_busy;             // locked by somebody who may change its file
    Oid heap;
    Oid child;
    bool locked_heap;
    bool locked_child;
};

void Unlock(const OpenPartition &opened) {
    if (opened.locked_child)
        UnlockRelationOid(opened.child, AccessShareLock);
    if (opened.locked_heap)
        UnlockRelationOid(opened.heap, AccessShareLock);
}

OpenPartition OpenWithoutWaiting(Relation storage, const Extent &extent) {
    OpenPartition opened = {.heap = extent.heap, .child = extent.child};
    if (!OidIsValid(extent.child))
        return opened;
    if (!LockWithoutWaiting(extent.heap, &opened.locked_heap)) {
        opened.is_busy = true;
        return opened;
    }
    if (!LockWithoutWaiting(extent.child, &opened.locked_child)) {
        opened.is_busy = true;
        opened.locked_child = false;
        Unlock(opened);
        return opened;
    }
    bool is_loaded = IsLoaded(extent.child);
    if (!is_loaded && !LockCatalogsWithoutWaiting()) {
        opened.is_busy = true;
        Unlock(opened);
        return opened;
    }
    Relation heap = try_relation_open(extent.heap, NoLock);
    Relation child = heap ? compat::TryOpenIndex(extent.child) : nullptr;
    if (child && !is_loaded) {
        FileChangedBy(child); // which is kept, too
        RememberLoaded(extent.child);
    }
    if (!is_loaded)
        UnlockCatalogs(std::size(kCatalogs));
    if (child) {
        opened.rows = OpenAddressedChild(storage, heap, child);
        return opened;
    }
    if (heap)
        relation_close(heap, NoLock);
    Unlock(opened);
    return opened;
}

void Close(const OpenPartition &opened) {
    Relation heap = HeapOf(opened.rows);
    CloseAddressed(opened.rows);
    relation_close(heap, NoLock);
    Unlock(opened);
}

// --- Unique checks -----------------------------------------------------------

struct Fetch {
    IndexFetchTableData base;
    OpenPartition partition;
    TupleTableSlot *slot;
};

template <typename... Flags> // since PostgreSQL 19
IndexFetchTableData *BeginFetch(Relation rel, Flags...) {
    Fetch *fetch = palloc0_object(Fetch);
    fetch->base.rel = rel;
    return &fetch->base;
}

void ResetFetch(IndexFetchTableData *) {}

void ClosePartition(Fetch *fetch) {
    if (!fetch->partition.rows)
        return;
    ExecDropSingleTupleTableSlot(fetch->slot);
    Close(fetch->partition);
    fetch->partition = {};
}

void EndFetch(IndexFetchTableData *base) {
    Fetch *fetch = reinterpret_cast<Fetch *>(base);
    ClosePartition(fetch);
    pfree(fetch);
}

bool IsOwn(TransactionId xid) {
    return TransactionIdIsCurrentTransactionId(xid);
}

// A transaction that holds a lock which keeps readers out; invalid: none that has an id.
TransactionId FindHolder(Oid relid) {
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
    int count;
    VirtualTransactionId *holders = GetLockConflicts(&tag, AccessShareLock, &count);
    TransactionId found = InvalidTransactionId;
    for (int i = 0; i < count && !TransactionIdIsValid(found); i++)
        found = compat::TransactionOf(holders[i]);
    pfree(holders); // this is no standby
    return found;
}

bool Conflicts(LOCKMASK held, LOCKMODE mode) {
    for (LOCKMODE other = AccessShareLock; other <= MaxLockMode; other++)
        if ((held & LOCKBIT_ON(other)) && DoLockModesConflict(other, mode))
            return true;
    return false;
}

// Somebody who waits for a lock, or would: parallel workers are one with their leader.
struct Waiter {
    LOCKTAG tag;
    LOCKMODE mode;
    int leader;
    TimestampTz since;
};

// Whether a lock is held that keeps the waiter from his, or is waited for before him.
bool IsInFront(const LockInstanceData &lock, const Waiter &waiter) {
    if (memcmp(&lock.locktag, &waiter.tag, sizeof(LOCKTAG)) != 0 || lock.leaderPid == waiter.leader)
        return false;
    return Conflicts(lock.holdMask, waiter.mode) ||
           (lock.waitLockMode != NoLock && lock.waitStart != 0 && lock.waitStart < waiter.since &&
            DoLockModesConflict(lock.waitLockMode, waiter.mode));
}

// A transaction that keeps this one from reading a relation: one that holds a lock on it or comes
// first. Where that has no id yet, which it gets for an exclusive lock unless WAL is minimal, one
// that it waits for itself, and so on: a circle of those who wait for each other is closed then,
// and found. This one where there is no other, invalid where nobody has an id.
TransactionId FindInFront(std::span<const LockInstanceData> locks, Oid relid) {
    Waiter *waiters = palloc_array(Waiter, locks.size() + 1);
    size_t count = 1;
    waiters[0] = {.mode = AccessShareLock, .leader = MyProcPid, .since = DT_NOEND};
    SET_LOCKTAG_RELATION(waiters[0].tag, MyDatabaseId, relid);
    TransactionId found = InvalidTransactionId;
    for (size_t i = 0; i < count && (!TransactionIdIsValid(found) || IsOwn(found)); i++)
        for (const LockInstanceData &lock : locks) {
            if (!IsInFront(lock, waiters[i]))
                continue;
            TransactionId xid = compat::TransactionOf(lock);
            found = TransactionIdIsValid(xid) ? xid : found;
            if (TransactionIdIsValid(xid) && !IsOwn(xid))
                break;
            auto is_seen = [&](const Waiter &waiter) { return waiter.leader == lock.leaderPid; };
            if (TransactionIdIsValid(xid) || std::any_of(waiters, waiters + count, is_seen))
                continue;
            for (const LockInstanceData &wanted : locks)
                if (wanted.leaderPid == lock.leaderPid && wanted.waitLockMode != NoLock)
                    waiters[count++] = {.tag = wanted.locktag,
                                        .mode = wanted.waitLockMode,
                                        .leader = wanted.leaderPid,
                                        .since = wanted.waitStart};
        }
    pfree(waiters);
    return found;
}

// Who holds a lock may give it back before he is found, and loses his transaction id shortly before
// he does; it takes long where processes wait for processors. Where WAL is minimal, he may never
// have had one.
constexpr int kAttempts = 10;
constexpr long kPauseMicroseconds = 1000;
constexpr long kPatienceMilliseconds = 60000;

// For whom this session waits without being able to.
struct Patience {
    Oid heap;
    TimestampTz begun;
    TimestampTz latest;
};
constinit Patience patience = {};

[[noreturn]] void RaiseCircle(const Extent &extent) {
    patience = {};
    ereport(
        ERROR,
        (errcode(ERRCODE_T_R_DEADLOCK_DETECTED), errmsg("deadlock detected"),
         errdetail("Partition \"%s\", in which a duplicate key may be, is locked by who waits for "
                   "this transaction.",
                   NameOf(extent.heap))));
}

[[noreturn]] void RaiseBusy(const Extent &extent) {
    patience = {};
    ereport(ERROR,
            (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
             errmsg("could not look for a duplicate key in partition \"%s\", which is locked",
                    NameOf(extent.heap)),
             errhint("Try again.")));
}

// Is cancelled, or ends, as if no page were locked: whoever raises an error gives that back.
void CheckForCancel() {
    if (!QueryCancelPending && !ProcDiePending)
        return;
    patience = {};
    uint32 held = InterruptHoldoffCount;
    InterruptHoldoffCount = 0;
    CHECK_FOR_INTERRUPTS();
    InterruptHoldoffCount = held;
}

// Pauses, with the tree's page locked, and returns a transaction that has ended: the tree waits for
// it, which lets others at the page, and looks again.
TransactionId Pause(const Extent &extent, bool is_circle) {
    CheckForCancel();
    TimestampTz now = GetCurrentTimestamp();
    constexpr int kForgottenMilliseconds = 1000;
    if (patience.heap != extent.heap ||
        TimestampDifferenceExceeds(patience.latest, now, kForgottenMilliseconds))
        patience = {.heap = extent.heap, .begun = now};
    patience.latest = now;
    long limit = LockTimeout > 0 ? Min(LockTimeout, kPatienceMilliseconds) : kPatienceMilliseconds;
    if (TimestampDifferenceExceeds(patience.begun, now, limit))
        RaiseBusy(extent);
    if (is_circle && TimestampDifferenceExceeds(patience.begun, now, DeadlockTimeout))
        RaiseCircle(extent);
    pg_usleep(kPauseMicroseconds);
    return FrozenTransactionId;
}

// Opens the partition of an extent; where it is locked, returns who has locked it.
TransactionId OpenForCheck(Fetch *fetch, const Extent &extent) {
    for (int i = 0; i < kAttempts; i++) {
        fetch->partition = OpenWithoutWaiting(fetch->base.rel, extent);
        if (!fetch->partition.is_busy) {
            // One that comes before it under the same key is opened each time.
            if (patience.heap == extent.heap)
                patience = {};
            return InvalidTransactionId;
        }
        for (Oid relid : {extent.heap, extent.child})
            if (TransactionId xid = FindHolder(relid); TransactionIdIsValid(xid) && !IsOwn(xid))
                return xid;
    }
    LockData *data = GetLockStatusData();
    std::span<const LockInstanceData> locks(data->locks, data->nelements);
    TransactionId of_heap = FindInFront(locks, extent.heap);
    TransactionId of_child = FindInFront(locks, extent.child);
    pfree(data->locks);
    pfree(data);
    for (TransactionId xid : {of_heap, of_child})
        if (TransactionIdIsValid(xid) && !IsOwn(xid))
            return xid;
    return Pause(extent, IsOwn(of_heap) || IsOwn(of_child));
}

// Has the tree release its page, wait for a transaction, and look again: the row is told to be one
// that it is about to insert.
bool WaitFor(TransactionId locker, Snapshot snapshot) {
    snapshot->xmin = locker;
    snapshot->xmax = InvalidTransactionId;
    snapshot->speculativeToken = 0;
    return true;
}

// A claim is as good as a row that its transaction has inserted. To that itself it is in nobody's
// way; but where it is what is being inserted, it is there.
bool FetchClaim(const ItemPointerData *address, Snapshot snapshot, bool *all_dead) {
    ClaimState state = StateOf(address);
    if (all_dead)
        *all_dead = state == ClaimState::Over;
    if (snapshot->snapshot_type == SNAPSHOT_SELF)
        return state == ClaimState::Own;
    return state == ClaimState::Others && WaitFor(ClaimerOf(address), snapshot);
}

// Never told of a row but in unique checks, whose snapshots are dirty or "self".
bool FetchTuple(IndexFetchTableData *base, ItemPointer address, Snapshot snapshot, TupleTableSlot *,
                bool *again, bool *all_dead) {
    Fetch *fetch = reinterpret_cast<Fetch *>(base);
    if (IsMVCCSnapshot(snapshot))
        RaiseNotReadable(base->rel);
    *again = false;
    if (all_dead)
        *all_dead = false;
    if (IsClaim(address))
        return FetchClaim(address, snapshot, all_dead);
    Extent extent = ReadExtent(base->rel, ExtentOf(address));
    bool dead = false;
    if (fetch->partition.child != extent.child || !fetch->partition.rows) {
        ClosePartition(fetch);
        TransactionId locker = OpenForCheck(fetch, extent);
        if (TransactionIdIsValid(locker))
            return WaitFor(locker, snapshot);
        if (!fetch->partition.rows)
            return false;
        fetch->slot = table_slot_create(HeapOf(fetch->partition.rows), nullptr);
    }
    bool found = FetchAddressed(fetch->partition.rows, address, snapshot, fetch->slot, &dead);
    ExecClearTuple(fetch->slot);
    if (all_dead)
        *all_dead = !found && dead;
    return found;
}

// --- Deletion ----------------------------------------------------------------

// Partitions that bottom-up deletion asks at most: those with most entries on the page.
constexpr int kMaxAsked = 4;

struct Deletion {
    Relation storage;
    TM_IndexDeleteOp *op;
    TM_IndexDelete *all;  // sorted by address
    TM_IndexDelete *kept; // what the tree is told of
    int kept_count;
    TransactionId horizon;
};

void Keep(Deletion *deletion, const TM_IndexDelete &item) {
    deletion->kept[deletion->kept_count++] = item;
}

// An entry that nobody needs, neither here nor, once the horizon has been told, on standbys.
void KeepStale(Deletion *deletion, const TM_IndexDelete &item) {
    deletion->op->status[item.id].knowndeletable = true;
    Keep(deletion, item);
}

void AddHorizon(Deletion *deletion, TransactionId horizon) {
    if (TransactionIdIsValid(horizon) && (!TransactionIdIsValid(deletion->horizon) ||
                                          TransactionIdFollows(horizon, deletion->horizon)))
        deletion->horizon = horizon;
}

// Where the partition cannot be asked: what the tree knows to be dead is so for everybody here.
void KeepIfKnown(Deletion *deletion, const TM_IndexDelete &item) {
    if (!deletion->op->status[item.id].knowndeletable)
        return;
    TransactionId horizon = GetOldestNonRemovableTransactionId(deletion->storage);
    TransactionIdRetreat(horizon);
    AddHorizon(deletion, horizon);
    Keep(deletion, item);
}

// Snapshots that are older than the partition's file find its rows by entries of the one before.
void KeepOfFormerFile(Deletion *deletion, AddressedPartition *partition,
                      const TM_IndexDelete &item) {
    Relation child = ChildOf(partition);
    if (!IsGoneForGood(child, deletion->storage)) {
        KeepIfKnown(deletion, item);
        return;
    }
    AddHorizon(deletion, FileChangedBy(child));
    KeepStale(deletion, item);
}

// Asks a partition's heap about entries [first, end), which are not stale.
void AskHeap(Deletion *deletion, AddressedPartition *partition, TM_IndexDelete *items,
             const ItemPointerData *addresses, int count) {
    TM_IndexDeleteOp op = *deletion->op;
    op.deltids = items;
    op.ndeltids = count;
    // Where the tree has entries that it knows to be dead, the heap expects some of its own among
    // them. The rest are asked for besides, because they are near those.
    auto is_known = [&](const TM_IndexDelete &item) { return op.status[item.id].knowndeletable; };
    if (!op.bottomup && std::none_of(items, items + count, is_known))
        return;
    AddHorizon(deletion, heap_index_delete_tuples(HeapOf(partition), &op));
    for (int i = 0; i < op.ndeltids; i++) {
        TM_IndexDelete item = op.deltids[i];
        item.tid = addresses[item.id];
        Keep(deletion, item);
    }
}

void DeleteFromPartition(Deletion *deletion, AddressedPartition *partition, int first, int end,
                         ItemPointerData *addresses) {
    TM_IndexDelete *asked = palloc_array(TM_IndexDelete, end - first);
    int i = first;
    while (i < end) {
        // A line pointer whose generation is current must not become unused before the heap has
        // been asked: VACUUM waits for the page of its generation.
        GenerationLocks locks = {};
        int count = 0;
        for (; i < end; i++) {
            const TM_IndexDelete &item = deletion->all[i];
            std::optional<ItemPointerData> tid = LocateRow(partition, &item.tid);
            if (!tid) {
                KeepOfFormerFile(deletion, partition, item);
                continue;
            }
            std::optional<uint32> generation =
                LockGeneration(ChildOf(partition), deletion->storage, &locks, &*tid);
            if (!generation)
                break; // enough pages for now
            if (*generation != GenerationOf(&item.tid)) {
                KeepStale(deletion, item);
                continue;
            }
            addresses[item.id] = item.tid;
            asked[count] = item;
            asked[count++].tid = *tid;
        }
        if (count > 0)
            AskHeap(deletion, partition, asked, addresses, count);
        UnlockGenerations(&locks);
    }
    pfree(asked);
}

TransactionId DeleteTuples(Relation rel, TM_IndexDeleteOp *op) {
    FAULT_POINT("table_method.delete_tuples");
    int count = op->ndeltids;
    Deletion deletion = {.storage = rel, .op = op};
    deletion.all = palloc_array(TM_IndexDelete, count);
    deletion.kept = palloc_array(TM_IndexDelete, count);
    deletion.horizon = InvalidTransactionId;
    int max_id = 0;
    for (int i = 0; i < count; i++)
        max_id = Max(max_id, op->deltids[i].id);
    ItemPointerData *addresses = palloc_array(ItemPointerData, max_id + 1);
    std::copy_n(op->deltids, count, deletion.all);
    std::sort(deletion.all, deletion.all + count,
              [](const TM_IndexDelete &a, const TM_IndexDelete &b) {
                  return ItemPointerCompare(const_cast<ItemPointer>(&a.tid),
                                            const_cast<ItemPointer>(&b.tid)) < 0;
              });
    int asked = 0;
    // Claims come last. One that has been dropped may go before its transaction has ended.
    while (count > 0 && IsClaim(&deletion.all[count - 1].tid)) {
        const TM_IndexDelete &item = deletion.all[--count];
        if (op->status[item.id].knowndeletable || StateOf(&item.tid) == ClaimState::Over)
            KeepStale(&deletion, item);
    }
    for (int first = 0, end; first < count; first = end) {
        uint32 extent = ExtentOf(&deletion.all[first].tid);
        bool promising = false;
        for (end = first; end < count && ExtentOf(&deletion.all[end].tid) == extent; end++)
            promising = promising || op->status[deletion.all[end].id].promising;
        if (op->bottomup && (!promising || asked == kMaxAsked))
            continue;
        OpenPartition partition = OpenWithoutWaiting(rel, ReadExtent(rel, extent));
        if (!partition.rows) { // a sweep will see to the others
            for (int i = first; i < end; i++)
                KeepIfKnown(&deletion, deletion.all[i]);
            continue;
        }
        DeleteFromPartition(&deletion, partition.rows, first, end, addresses);
        Close(partition);
        asked++;
    }
    std::copy_n(deletion.kept, deletion.kept_count, op->deltids);
    op->ndeltids = deletion.kept_count;
    pfree(addresses);
    pfree(deletion.kept);
    pfree(deletion.all);
    return deletion.horizon;
}

// --- All rows ----------------------------------------------------------------

struct RowBuild {
    Relation storage;
    Relation tree;
    Relation heap;
    Relation child;
    GenerationReader generations;
    IndexBuildCallback callback;
    void *state;
};

void AddRow(Relation, ItemPointer tid, Datum *values, bool *nulls, bool alive, void *state) {
    FAULT_POINT("table_method.add_row");
    RowBuild *build = static_cast<RowBuild *>(state);
    uint32 extent = ExtentOfBlock(build->child, build->storage, RelationGetRelid(build->heap),
                                  ItemPointerGetBlockNumber(tid));
    ItemPointerData address = AddressOf(tid, extent, ReadGeneration(&build->generations, tid));
    ItemPointerData entry = ToEntry(build->tree, &address);
    build->callback(build->tree, &entry, values, nulls, alive, build->state);
}

double BuildFromPartition(RowBuild *build, IndexInfo *tree_info, bool any_visible,
                          TableScanDesc scan) {
    // Expressions run with the rights of the table's owner, whose index it is; some when they are
    // read.
    OwnerContext owner = EnterOwner(build->heap->rd_rel->relowner);
    IndexInfo *info = BuildIndexInfo(build->child);
    info->ii_Concurrent = tree_info->ii_Concurrent;
    build->generations = BeginGenerations(build->child, build->storage);
    TableScanDesc own =
        scan && !scan->rs_parallel
            ? table_beginscan_strat(build->heap, scan->rs_snapshot, 0, nullptr, true, true)
            : nullptr;
    double rows =
        heap_routine->index_build_range_scan(build->heap, build->child, info, true, any_visible,
                                             false, 0, InvalidBlockNumber, AddRow, build, own);
    LeaveOwner(owner);
    EndGenerations(&build->generations);
    if (info->ii_BrokenHotChain)
        tree_info->ii_BrokenHotChain = true;
    return rows;
}

// Whether the key of a global index may be computed by parallel workers: its tree, which PostgreSQL
// asks, has neither expressions nor predicate.
bool IsParallelSafe(Oid root) {
    Relation index = index_open(root, AccessShareLock);
    PlannerInfo *info = makeNode(PlannerInfo);
    info->glob = makeNode(PlannerGlobal);
    bool safe =
        is_parallel_safe(info, reinterpret_cast<Node *>(RelationGetIndexExpressions(index))) &&
        is_parallel_safe(info, reinterpret_cast<Node *>(RelationGetIndexPredicate(index)));
    index_close(index, NoLock);
    return safe;
}

// Which partitions are this process's, of those that build a tree together: whoever is done with
// one takes the next. They count in what a heap would count its blocks with.
class Turns {
public:
    explicit Turns(TableScanDesc scan) {
        if (!scan || !scan->rs_parallel)
            return;
        if (IsParallelSafe(RootOfStorage(scan->rs_rd)))
            m_taken =
                &reinterpret_cast<ParallelBlockTableScanDesc>(scan->rs_parallel)->phs_nallocated;
        else
            m_has_none = IsParallelWorker(); // where min_parallel_table_scan_size is 0
        Take();
    }

    bool IsOwn(int number) {
        if (!m_taken)
            return !m_has_none;
        if (static_cast<uint64>(number) != m_next)
            return false;
        Take();
        return true;
    }

private:
    void Take() {
        if (m_taken)
            m_next = pg_atomic_fetch_add_u64(m_taken, 1);
    }

    pg_atomic_uint64 *m_taken = nullptr; // of all; null: they do not share
    uint64 m_next = 0;
    bool m_has_none = false;
};

double BuildRangeScan(Relation rel, Relation tree, IndexInfo *info, bool, bool any_visible, bool,
                      BlockNumber, BlockNumber, IndexBuildCallback callback, void *state,
                      TableScanDesc scan) {
    CheckOwner(rel);
    double rows = 0;
    RowBuild build = {.storage = rel, .tree = tree, .callback = callback, .state = state};
    Turns turns(scan);
    ListCell *cell;
    foreach (cell, ListChildren(RootOfStorage(rel), NoLock)) {
        if (!turns.IsOwn(foreach_current_index(cell)))
            continue;
        Oid heap = IndexGetRelation(lfirst_oid(cell), true);
        build.heap = OidIsValid(heap) ? try_relation_open(heap, AccessShareLock) : nullptr;
        if (!build.heap)
            continue;
        bool is_readable = RelationIsPermanent(build.heap) || !RecoveryInProgress();
        LockRelationOid(lfirst_oid(cell), AccessShareLock); // after the partition, as DDL does
        build.child =
            compat::TryOpenIndex(lfirst_oid(cell)); // maybe detached and dropped meanwhile
        if (build.child && is_readable && BelongsTo(build.child, RelationGetRelid(rel)))
            rows += BuildFromPartition(&build, info, any_visible, scan);
        if (build.child)
            index_close(build.child, NoLock);
        relation_close(build.heap, NoLock);
    }
    if (scan)
        table_endscan(scan);
    return rows;
}

// What amcheck and parallel builds begin, to hand it to a build scan. Nobody gets rows of it.
TableScanDesc BeginScan(Relation rel, Snapshot snapshot, int, ScanKeyData *,
                        ParallelTableScanDesc parallel, uint32 flags) {
    if (!(flags & SO_TYPE_SEQSCAN))
        RaiseNotReadable(rel);
    RelationIncrementReferenceCount(rel);
    TableScanDesc scan = palloc0_object(TableScanDescData);
    scan->rs_rd = rel;
    scan->rs_snapshot = snapshot;
    scan->rs_flags = flags;
    scan->rs_parallel = parallel;
    return scan;
}

void EndScan(TableScanDesc scan) {
    RelationDecrementReferenceCount(scan->rs_rd);
    if (scan->rs_flags & SO_TEMP_SNAPSHOT)
        UnregisterSnapshot(scan->rs_snapshot);
    pfree(scan);
}

void Rescan(TableScanDesc scan, ScanKeyData *, bool, bool, bool, bool) {
    RaiseNotReadable(scan->rs_rd);
}

bool NextRow(TableScanDesc scan, ScanDirection, TupleTableSlot *) {
    RaiseNotReadable(scan->rs_rd);
}

// --- The relation ------------------------------------------------------------

// What is on its pages is believed: nobody else makes tables of this method.
void CheckIsOwn(Relation rel) {
    if (RelationGetNamespace(rel) != PG_TOAST_NAMESPACE)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("access method \"%s\" is not for tables", kStorageMethod),
                        errhint("CREATE INDEX ... USING global makes what has it.")));
}

// It has no transaction ids that could wrap around; claims, in the tree, may, see StateOf().
void MakeFile(Relation rel, const compat::FileLocator *locator, char persistence,
              TransactionId *frozen_xid, MultiXactId *min_multi) {
    CheckIsOwn(rel);
    compat::GetFileMaker(heap_routine)(rel, locator, persistence, frozen_xid, min_multi);
    *frozen_xid = InvalidTransactionId;
    *min_multi = InvalidMultiXactId;
}

uint64 GetSize(Relation rel, ForkNumber fork) {
    return 0;
}

// A hash index is made with buckets for so many rows, and with workers for so many pages: of one
// page, which no worker is worth, where there may be none.
void EstimateSize(Relation rel, int32 *, BlockNumber *pages, double *rows, double *all_visible) {
    bool is_parallel = IsParallelSafe(RootOfStorage(rel));
    *pages = 1;
    *rows = 0;
    *all_visible = 0;
    ListCell *cell;
    foreach (cell, ListChildren(RootOfStorage(rel), NoLock)) {
        Oid oid = IndexGetRelation(lfirst_oid(cell), true);
        Relation heap = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : nullptr;
        if (!heap)
            continue;
        BlockNumber pages_of_heap;
        double rows_of_heap;
        double visible_of_heap;
        table_relation_estimate_size(heap, nullptr, &pages_of_heap, &rows_of_heap,
                                     &visible_of_heap);
        *rows += rows_of_heap;
        if (is_parallel)
            *pages += Min(pages_of_heap, MaxBlockNumber - *pages);
        relation_close(heap, NoLock);
    }
}

bool NeedsToastTable(Relation) {
    return false;
}

[[noreturn]] void RaiseNotCopied(Relation rel) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot rewrite \"%s\", which stores a global index",
                           RelationGetRelationName(rel)),
                    errhint("REINDEX the index.")));
}

void CopyFile(Relation rel, const compat::FileLocator *) {
    RaiseNotCopied(rel);
}

template <typename... Rest> // since PostgreSQL 19 with a snapshot
void CopyRows(Relation rel, Relation, Relation, bool, TransactionId, Rest...) {
    RaiseNotCopied(rel);
}

template <typename Parameters> // since PostgreSQL 19 not by address
void Vacuum(Relation rel, Parameters, BufferAccessStrategy strategy) {
    Sweep(rel, strategy);
}

} // namespace

const TableAmRoutine *GetStorageMethod() {
    if (heap_routine)
        return &routine;
    routine = *GetHeapamTableAmRoutine();
    routine.scan_begin = BeginScan;
    routine.scan_end = EndScan;
    routine.scan_rescan = Rescan;
    routine.scan_getnextslot = NextRow;
    routine.index_fetch_begin = BeginFetch;
    routine.index_fetch_reset = ResetFetch;
    routine.index_fetch_end = EndFetch;
    routine.index_fetch_tuple = FetchTuple;
    routine.index_delete_tuples = DeleteTuples;
    routine.index_build_range_scan = BuildRangeScan;
    routine.relation_size = GetSize;
    routine.relation_estimate_size = EstimateSize;
    routine.relation_needs_toast_table = NeedsToastTable;
    routine.relation_copy_data = CopyFile;
    routine.relation_copy_for_cluster = CopyRows;
    routine.relation_vacuum = Vacuum;
    compat::SetFileMaker(&routine, MakeFile);
    heap_routine = GetHeapamTableAmRoutine();
    return &routine;
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_storage_handler) {
    PG_RETURN_POINTER(GetStorageMethod());
}
