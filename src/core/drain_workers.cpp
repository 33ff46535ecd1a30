#include "core/drain_workers.h"

#include "core/worker.h"

namespace index_table {
namespace {

constexpr char kName[] = "index_table";
constexpr int kTurns = 1024;
constexpr int kComeBackDelay = 2000; // milliseconds until the successor of one that failed connects

// What a worker does and what is wanted of it, bit by bit.
constexpr uint32 kSleeps = 1;
constexpr uint32 kWoken = 2;
constexpr uint32 kAll = 4;

struct Slot {
    Oid database; // invalid: nobody has it
    Latch *latch;
    pg_atomic_uint32 state;
};

struct Turn {
    Oid database;
    Oid relid;
    TimestampTz next;
};

// All but states is changed under the lock.
struct Shared {
    LWLock *lock;
    pg_atomic_uint32 used; // slots that were ever taken
    Turn turns[kTurns];    // by hash; the latest has the place
    Slot slots[FLEXIBLE_ARRAY_MEMBER];
};

constinit int max_workers = 2;
constinit Shared *shared = nullptr;
constinit Slot *own = nullptr;

// Of the current transaction.
constinit bool has_queued = false;
constinit bool is_requested = false;

// As many as there can be background workers.
Size MemorySize() {
    return add_size(offsetof(Shared, slots), mul_size(max_worker_processes, sizeof(Slot)));
}

std::span<Slot> Slots() {
    return {shared->slots, pg_atomic_read_u32(&shared->used)};
}

// The caller holds the lock, or does not mind those that come and go.
int CountWorkers(Oid database) {
    int count = 0;
    for (const Slot &slot : Slots())
        count += slot.database == database;
    return count;
}

int CountAllWorkers() {
    return Slots().size() - CountWorkers(InvalidOid);
}

// Each database comes before the second worker of any.
int WorkersForAll() {
    return Max(1, max_worker_processes / 2);
}

Slot *FindFreeSlot() {
    for (Slot &slot : Slots())
        if (!OidIsValid(slot.database))
            return &slot;
    int used = pg_atomic_read_u32(&shared->used);
    if (used == max_worker_processes)
        return nullptr;
    pg_atomic_write_u32(&shared->used, used + 1);
    return &shared->slots[used];
}

// The caller holds the lock.
void LeaveSlot() {
    own->database = InvalidOid;
    own = nullptr;
}

void OnWorkerExit(int code, Datum) {
    if (!own)
        return;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    LeaveSlot();
    LWLockRelease(shared->lock);
    // Not where the database is gone: its workers do not come so far. A server that is being
    // stopped does not start it.
    if (code != 0)
        StartDrainWorker(MyDatabaseId, kComeBackDelay);
}

// `wish` is seen by every worker of the database before it sleeps; those that sleep are woken.
bool Wish(uint32 wish) {
    bool found = false;
    pg_memory_barrier(); // after what others are to see
    for (Slot &slot : Slots()) {
        if (slot.database != MyDatabaseId)
            continue;
        found = true;
        if ((pg_atomic_read_u32(&slot.state) & wish) == wish)
            continue;
        uint32 before = pg_atomic_fetch_or_u32(&slot.state, wish);
        if (before == kSleeps)
            SetLatch(slot.latch);
    }
    return found;
}

Turn *TurnOf(Oid relid) {
    return &shared->turns[hash_combine(murmurhash32(relid), MyDatabaseId) % kTurns];
}

} // namespace

void RememberQueued() {
    Assert(IsTransactionState());
    has_queued = true;
}

void RequestDrainWorker() {
    Assert(IsTransactionState());
    is_requested = true;
}

void AtEOXactDrainWorkers(bool committed) {
    if (!has_queued && !is_requested)
        return;
    bool all = is_requested;
    has_queued = is_requested = false;
    if (!committed || !shared)
        return;
    if (!all) {
        WakeDrainWorkers();
        return;
    }
    // With the lock, which a worker has that finds nothing and ends.
    LWLockAcquire(shared->lock, LW_SHARED);
    bool found = Wish(kAll | kWoken);
    LWLockRelease(shared->lock);
    if (!found)
        StartDrainWorker(MyDatabaseId);
}

void WakeDrainWorkers() {
    if (shared)
        Wish(kWoken);
}

bool StartDrainWorker(Oid database, int delay) {
    if (!shared || IsBinaryUpgrade)
        return false;
    BackgroundWorker worker;
    DescribeWorker(&worker, "index_table_drain_main", "index_table drain");
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_main_arg = ObjectIdGetDatum(database);
    memcpy(worker.bgw_extra, &delay, sizeof(delay));
    return RegisterDynamicBackgroundWorker(&worker, nullptr);
}

bool HasDrainWorker() {
    return shared && CountWorkers(MyDatabaseId) > 0;
}

bool RegisterDrainWorker() {
    Assert(!own);
    if (!shared)
        return false;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    int workers = CountWorkers(MyDatabaseId);
    if (workers == 0 || (workers < max_workers && CountAllWorkers() < WorkersForAll()))
        own = FindFreeSlot();
    if (own) {
        own->latch = MyLatch;
        pg_atomic_write_u32(&own->state, 0);
        own->database = MyDatabaseId;
    }
    LWLockRelease(shared->lock);
    // After transactions have been rolled back, with their locks; and before MyProc is given back.
    if (own)
        on_shmem_exit(OnWorkerExit, 0);
    return own != nullptr;
}

DrainWish BeginDrainRound() {
    Assert(own);
    uint32 state = pg_atomic_exchange_u32(&own->state, 0);
    return state & kAll ? DrainWish::All : state & kWoken ? DrainWish::Woken : DrainWish::Nothing;
}

bool MayDrainWorkerSleep() {
    Assert(own);
    uint32 none = 0;
    return pg_atomic_compare_exchange_u32(&own->state, &none, kSleeps);
}

bool IsSurplusDrainWorker(int things) {
    Assert(own);
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    int workers = CountWorkers(MyDatabaseId);
    bool is_surplus =
        workers > 1 ? workers > Min(max_workers, things) || CountAllWorkers() > WorkersForAll()
                    : things == 0 && pg_atomic_read_u32(&own->state) == 0;
    if (is_surplus)
        LeaveSlot();
    LWLockRelease(shared->lock);
    return is_surplus;
}

bool WantsDrainWorker(int things) {
    return CountWorkers(MyDatabaseId) < Min(max_workers, things) &&
           CountAllWorkers() < WorkersForAll();
}

void AnnounceNextDrain(Oid relid, TimestampTz next) {
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    *TurnOf(relid) = {.database = MyDatabaseId, .relid = relid, .next = next};
    LWLockRelease(shared->lock);
}

TimestampTz FindNextDrain(Oid relid) {
    LWLockAcquire(shared->lock, LW_SHARED);
    const Turn turn = *TurnOf(relid);
    LWLockRelease(shared->lock);
    return turn.database == MyDatabaseId && turn.relid == relid ? turn.next : 0;
}

void InitializeDrainWorkers() {
    DefineCustomIntVariable("index_table.drain_workers",
                            "Workers of one database that drain side by side.",
                            "All databases together have more than one each as long as they take "
                            "less than half of max_worker_processes.",
                            &max_workers, 2, 1, 16, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

void RequestDrainMemory() {
    RequestAddinShmemSpace(MemorySize());
    RequestNamedLWLockTranche(kName, 1);
}

void AttachDrainMemory() {
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    shared =
        static_cast<Shared *>(ShmemInitStruct("index_table drain workers", MemorySize(), &found));
    if (!found) {
        memset(static_cast<void *>(shared), 0, MemorySize());
        shared->lock = &GetNamedLWLockTranche(kName)->lock;
        pg_atomic_init_u32(&shared->used, 0);
        for (int i = 0; i < max_worker_processes; i++)
            pg_atomic_init_u32(&shared->slots[i].state, 0);
    }
    LWLockRelease(AddinShmemInitLock);
}

} // namespace index_table
