#include "core/drain_workers.h"

#include "core/worker.h"

namespace index_table {
namespace {

constexpr char kName[] = "index_table";
constexpr int kTurns = 1024;
constexpr int kComeBackDelay = 2000; // milliseconds until the successor of one that failed connects
constexpr int kStartTimeout = 30000; // milliseconds after which one that was started is given up
constexpr int kMaxWaiting = 1024;    // databases; others are found by the next pass of the launcher
constexpr int kKeptProcesses = 2;    // the launcher and what it starts

// What a worker does and what is wanted of it, bit by bit.
constexpr uint32 kSleeps = 1;
constexpr uint32 kWoken = 2;
constexpr uint32 kAll = 4;
constexpr uint32 kTurnOver = 8; // other databases wait for a worker

struct Slot {
    Oid database;       // invalid: the slot is free
    Latch *latch;       // null: the worker has been started and is not there yet
    TimestampTz expiry; // of a start that comes to nothing
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
    Latch *launcher;
    pid_t launcher_pid;
    pg_atomic_uint32 waiting; // databases in the list
    Oid queue[kMaxWaiting];   // of databases that wait for a worker, the first in front
    pg_atomic_uint32 used;    // slots that were ever taken
    Turn turns[kTurns];       // by hash; the latest has the place
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

// Of all databases together. Others have the rest of max_worker_processes: parallel queries,
// logical replication.
int WorkersForAll() {
    return Max(1, (max_worker_processes - kKeptProcesses) / 2);
}

int CountWaiting() {
    return static_cast<int>(pg_atomic_read_u32(&shared->waiting));
}

void WakeLauncher() {
    if (shared->launcher)
        SetLatch(shared->launcher);
}

void AddWish(Slot *slot, uint32 wish) {
    if ((pg_atomic_read_u32(&slot->state) & wish) == wish)
        return;
    uint32 before = pg_atomic_fetch_or_u32(&slot->state, wish);
    if (before == kSleeps)
        SetLatch(slot->latch);
}

// Has the database wait, at this place of the list, if it does not yet. The caller holds the lock.
void InsertWaiting(Oid database, int place) {
    int count = CountWaiting();
    Oid *begin = shared->queue, *end = begin + count;
    if (count == kMaxWaiting || std::find(begin, end, database) != end)
        return;
    std::copy_backward(begin + place, end, end + 1);
    begin[place] = database;
    pg_atomic_write_u32(&shared->waiting, count + 1);
    for (Slot &slot : Slots())
        if (OidIsValid(slot.database))
            AddWish(&slot, kTurnOver);
}

// The database gets a worker when its turn comes. The caller holds the lock.
void AddWaiting(Oid database) {
    InsertWaiting(database, CountWaiting());
    WakeLauncher();
}

void RemoveWaiting(int place) {
    int count = CountWaiting();
    std::copy(shared->queue + place + 1, shared->queue + count, shared->queue + place);
    pg_atomic_write_u32(&shared->waiting, count - 1);
}

// The caller holds the lock.
void FreeSlot(Slot *slot) {
    slot->database = InvalidOid;
    slot->latch = nullptr;
}

// Null where all are taken. Those of starts that came to nothing are free.
Slot *FindFreeSlot() {
    TimestampTz now = GetCurrentTimestamp();
    Slot *found = nullptr;
    for (Slot &slot : Slots()) {
        if (OidIsValid(slot.database) && !slot.latch && slot.expiry <= now)
            FreeSlot(&slot);
        if (!found && !OidIsValid(slot.database))
            found = &slot;
    }
    int used = pg_atomic_read_u32(&shared->used);
    if (found || used == max_worker_processes)
        return found;
    pg_atomic_write_u32(&shared->used, used + 1);
    return &shared->slots[used];
}

// A slot for a worker that is to be started. Null where the database has enough of them, or where
// others have the right to it: each database comes before the second worker of any, and those that
// wait come before others. The caller holds the lock.
Slot *Reserve(Oid database, int delay, bool is_its_turn) {
    Slot *slot = FindFreeSlot();
    int workers = CountWorkers(database);
    int free = WorkersForAll() - CountAllWorkers() - (is_its_turn ? 0 : CountWaiting());
    if (!slot || free <= 0 || (workers > 0 && workers >= max_workers))
        return nullptr;
    slot->latch = nullptr;
    slot->expiry = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay + kStartTimeout);
    pg_atomic_write_u32(&slot->state, 0);
    slot->database = database;
    return slot;
}

// Starts the process for a slot that was reserved. False, and the slot is free, where none is free.
bool Launch(Slot *slot, int delay) {
    BackgroundWorker worker;
    DescribeWorker(&worker, "index_table_drain_main", "index_table drain");
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_notify_pid = shared->launcher_pid; // which starts the next when it has ended
    worker.bgw_main_arg = ObjectIdGetDatum(slot->database);
    memcpy(worker.bgw_extra, &delay, sizeof(delay));
    if (RegisterDynamicBackgroundWorker(&worker, nullptr))
        return true;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    FreeSlot(slot);
    LWLockRelease(shared->lock);
    return false;
}

// The caller holds the lock.
void LeaveSlot() {
    FreeSlot(own);
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

void OnLauncherExit(int, Datum) {
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    shared->launcher = nullptr;
    shared->launcher_pid = 0;
    LWLockRelease(shared->lock);
}

// `wish` is seen by every worker of the database before it sleeps; those that sleep are woken.
bool Wish(uint32 wish) {
    bool found = false;
    pg_memory_barrier(); // after what others are to see
    for (Slot &slot : Slots()) {
        if (slot.database != MyDatabaseId)
            continue;
        found = true;
        AddWish(&slot, wish);
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
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    Slot *slot = Reserve(database, delay, false);
    if (!slot && CountWorkers(database) == 0)
        AddWaiting(database);
    LWLockRelease(shared->lock);
    if (!slot)
        return false;
    if (Launch(slot, delay))
        return true;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    if (CountWorkers(database) == 0)
        AddWaiting(database);
    LWLockRelease(shared->lock);
    return false;
}

bool HasDrainWorker() {
    return shared && CountWorkers(MyDatabaseId) > 0;
}

bool RegisterDrainWorker() {
    Assert(!own);
    if (!shared)
        return false;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    for (Slot &slot : Slots())
        if (!own && slot.database == MyDatabaseId && !slot.latch)
            own = &slot;
    if (!own) // it took too long to start
        own = Reserve(MyDatabaseId, 0, false);
    if (own)
        own->latch = MyLatch;
    else if (CountWorkers(MyDatabaseId) == 0)
        AddWaiting(MyDatabaseId);
    LWLockRelease(shared->lock);
    // After transactions have been rolled back, with their locks; and before MyProc is given back.
    if (own)
        on_shmem_exit(OnWorkerExit, 0);
    return own != nullptr;
}

bool AreDatabasesWaiting() {
    return CountWaiting() > 0;
}

bool GiveWayToDatabase(bool has_things) {
    Assert(own);
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    bool gives_way = CountWaiting() > 0;
    if (gives_way) {
        bool is_wanted = (pg_atomic_read_u32(&own->state) & (kWoken | kAll)) != 0;
        LeaveSlot();
        if ((has_things || is_wanted) && CountWorkers(MyDatabaseId) == 0)
            AddWaiting(MyDatabaseId);
        WakeLauncher(); // now, and when the process has ended
    }
    LWLockRelease(shared->lock);
    return gives_way;
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
    bool is_surplus = workers > 1
                          ? workers > Min(max_workers, things) || CountWaiting() > 0 ||
                                CountAllWorkers() > WorkersForAll()
                          : things == 0 && (pg_atomic_read_u32(&own->state) & (kWoken | kAll)) == 0;
    if (is_surplus)
        LeaveSlot();
    LWLockRelease(shared->lock);
    return is_surplus;
}

bool WantsDrainWorker(int things) {
    return CountWorkers(MyDatabaseId) < Min(max_workers, things) && CountWaiting() == 0 &&
           CountAllWorkers() < WorkersForAll();
}

void RegisterDrainLauncher() {
    if (!shared)
        return;
    LWLockAcquire(shared->lock, LW_EXCLUSIVE);
    shared->launcher = MyLatch;
    shared->launcher_pid = MyProcPid;
    LWLockRelease(shared->lock);
    on_shmem_exit(OnLauncherExit, 0);
}

WaitingDatabases ServeWaitingDatabases() {
    if (!shared)
        return {};
    for (;;) {
        LWLockAcquire(shared->lock, LW_EXCLUSIVE);
        int waiting = CountWaiting();
        Oid database = waiting > 0 ? shared->queue[0] : InvalidOid;
        bool has_worker = OidIsValid(database) && CountWorkers(database) > 0;
        Slot *slot = waiting > 0 && !has_worker ? Reserve(database, 0, true) : nullptr;
        if (slot || has_worker)
            RemoveWaiting(0);
        LWLockRelease(shared->lock);
        if (has_worker)
            continue;
        if (!slot)
            return {.count = waiting, .workers = WorkersForAll()};
        if (Launch(slot, 0))
            continue;
        LWLockAcquire(shared->lock, LW_EXCLUSIVE);
        InsertWaiting(database, 0);
        LWLockRelease(shared->lock);
        return {.count = waiting, .workers = WorkersForAll()};
    }
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
                            "The workers of all databases together take less than half of "
                            "max_worker_processes; databases beyond that take turns.",
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
        pg_atomic_init_u32(&shared->waiting, 0);
        for (int i = 0; i < max_worker_processes; i++)
            pg_atomic_init_u32(&shared->slots[i].state, 0);
    }
    LWLockRelease(AddinShmemInitLock);
}

} // namespace index_table
