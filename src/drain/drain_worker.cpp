// The background workers that drain: in each database that has anything to drain one or some, side
// by side (core/drain_workers.h), each looking at everything and leaving alone what another has.
#include "catalog/public.h"
#include "core/public.h"
#include "drain/drain.h"
#include "drain/local_drain.h"
#include "drain/sweep_intents.h"

extern "C" {
PGDLLEXPORT void index_table_drain_main(Datum argument);
}

namespace index_table {
namespace {

constinit int naptime = 1; // seconds; 0: none

constexpr int kMaxBackoff = 60;    // seconds between tries of what cannot be drained
constexpr int kBusyDelay = 1;      // seconds until what somebody has locked is looked at again
constexpr int kStartDelay = 10;    // seconds between two attempts to start another worker
constexpr long kGatherDelay = 50;  // milliseconds that changes are waited for after the first
constexpr long kTurn = 1000;       // milliseconds of a worker, where other databases wait
constexpr int kLockTimeout = 2000; // milliseconds, beyond deadlock_timeout, which frees locks

// --- What there is to drain ------------------------------------------------------

struct DrainKind {
    List *(*list)();                 // OIDs of relations, in the current transaction
    DrainResult (*drain)(Oid relid); // several transactions; connected to SPI, not atomically
    bool is_woken;                   // RememberQueued() is about these: others are asked in turn
};

List *ListForeign() {
    return list_concat(ListDrainedLeaves(InvalidOid), ListUnsettledLeaves(InvalidOid));
}

DrainResult DrainForeign(Oid leaf) {
    return DrainLeaf(leaf, false, false);
}

List *ListLocal() {
    return ListQueued(InvalidOid);
}

DrainResult DrainLocal(Oid index_table) {
    return DrainQueue(index_table, false, false);
}

constexpr DrainKind kKinds[] = {{ListForeign, DrainForeign, false}, {ListLocal, DrainLocal, true}};

struct Thing {
    Oid relid;
    const DrainKind *kind;
};

// --- When --------------------------------------------------------------------------

// When to look at a thing again.
struct Schedule {
    Oid relid; // hash key
    int backoff;
    TimestampTz next;
    int64 round; // in which it was there
};

struct Drainer {
    HTAB *schedules;
    MemoryContext memory; // of a round
    int64 round;
    int things;          // in the last full round
    TimestampTz next;    // round in which everything is looked at
    TimestampTz started; // another worker
    TimestampTz turn;    // when it ends, if other databases wait
};

TimestampTz InSeconds(int seconds) {
    return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), int64{1000} * seconds);
}

Schedule *ScheduleOf(Drainer *drainer, Oid relid) {
    bool found;
    Schedule *schedule =
        static_cast<Schedule *>(hash_search(drainer->schedules, &relid, HASH_ENTER, &found));
    if (!found) {
        schedule->backoff = 0;
        schedule->next = 0;
    }
    schedule->round = drainer->round;
    return schedule;
}

// What another worker has just done, or has failed to do, need not be done again.
bool IsDue(Schedule *schedule, const Thing &thing, DrainWish wish) {
    bool is_woken = schedule->backoff == 0 && (wish == DrainWish::All || thing.kind->is_woken);
    if (wish != DrainWish::Nothing && is_woken)
        return true;
    TimestampTz now = GetCurrentTimestamp();
    TimestampTz next = schedule->next <= now ? FindNextDrain(thing.relid) : 0;
    if (next <= InSeconds(Max(naptime, kMaxBackoff))) // may be older than the setting
        schedule->next = Max(schedule->next, next);
    return schedule->next <= now;
}

void SetNext(Schedule *schedule, DrainResult result) {
    switch (result) {
    case DrainResult::Done:
        schedule->backoff = 0;
        schedule->next = InSeconds(naptime);
        break;
    case DrainResult::More:
        schedule->backoff = 0;
        schedule->next = 0;
        break;
    case DrainResult::Busy: // who drains it will say when
        schedule->next = InSeconds(kBusyDelay);
        return;
    case DrainResult::Failed:
        schedule->backoff = Min(Max(1, schedule->backoff * 2), kMaxBackoff);
        schedule->next = InSeconds(schedule->backoff);
        break;
    }
    AnnounceNextDrain(schedule->relid, schedule->next);
}

// Forgets what is no more, and sets when to look at everything.
void PlanNextRound(Drainer *drainer) {
    drainer->next = InSeconds(naptime);
    HASH_SEQ_STATUS scan;
    hash_seq_init(&scan, drainer->schedules);
    while (Schedule *schedule = static_cast<Schedule *>(hash_seq_search(&scan))) {
        if (schedule->round != drainer->round)
            hash_search(drainer->schedules, &schedule->relid, HASH_REMOVE, nullptr);
        else
            drainer->next = Min(drainer->next, schedule->next);
    }
}

// --- Rounds --------------------------------------------------------------------------

// Runs `body` in a transaction that it may end and begin anew. False where that fails, which is
// logged and keeps the worker from nothing else.
template <typename Body>
bool TryInWorker(Drainer *drainer, Body body) {
    volatile bool done = false;
    PG_TRY();
    {
        StartTransactionCommand();
        if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
            elog(ERROR, "SPI_connect_ext failed");
        MemoryContextSwitchTo(drainer->memory);
        body();
        SPI_finish();
        CommitTransactionCommand();
        done = true;
    }
    PG_CATCH();
    {
        EmitErrorReport();
        AbortOutOfAnyTransaction();
        FlushErrorState();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(drainer->memory);
    return done;
}

// In the memory of the round.
List *ListThings(const DrainKind *kind) {
    List *things = NIL;
    ListCell *cell;
    if (HoldExtension())
        foreach (cell, kind->list()) {
            Thing *thing = palloc_object(Thing);
            *thing = {.relid = lfirst_oid(cell), .kind = kind};
            things = lappend(things, thing);
        }
    return things;
}

// Waits no longer than it takes a deadlock, or an autovacuum that is in the way, to be ended.
void LimitLockWaits(bool limit) {
    SetConfigOption("lock_timeout", limit ? psprintf("%d", DeadlockTimeout + kLockTimeout) : "0",
                    PGC_SUSET, PGC_S_OVERRIDE);
}

void LogDrain(Oid relid, TimestampTz began) {
    long milliseconds = TimestampDifferenceMilliseconds(began, GetCurrentTimestamp());
    const char *name = IsWorthLogging(milliseconds) ? get_rel_name(relid) : nullptr;
    if (name)
        ereport(LOG, (errmsg("index_table: drain of \"%s.%s\" took %.3f s",
                             get_namespace_name(get_rel_namespace(relid)), name,
                             static_cast<double>(milliseconds) / 1000)));
}

void DrainThing(Drainer *drainer, const Thing &thing, DrainWish wish) {
    Schedule *schedule = ScheduleOf(drainer, thing.relid);
    if (!IsDue(schedule, thing, wish))
        return;
    DrainResult result = DrainResult::Failed;
    LimitLockWaits(true);
    TimestampTz began = GetCurrentTimestamp();
    if (!TryInWorker(drainer, [&] {
            result = thing.kind->drain(thing.relid);
            LogDrain(thing.relid, began);
        }))
        result = DrainResult::Failed;
    LimitLockWaits(false);
    SetNext(schedule, result);
    drainer->next = Min(drainer->next, schedule->next);
}

void StartHelper(Drainer *drainer) {
    if (!WantsDrainWorker(drainer->things) || GetCurrentTimestamp() < drainer->started)
        return;
    drainer->started = InSeconds(kStartDelay);
    StartDrainWorker(MyDatabaseId);
}

// Looks at everything, or only at what is woken. False where that fails.
bool RunRound(Drainer *drainer, DrainWish wish, bool is_full) {
    List *things = NIL;
    drainer->round += is_full;
    if (!TryInWorker(drainer, [&] {
            for (const DrainKind &kind : kKinds)
                if (is_full || kind.is_woken)
                    things = list_concat(things, ListThings(&kind));
        })) {
        drainer->next = InSeconds(naptime);
        return false;
    }
    if (is_full) {
        drainer->things = list_length(things);
        StartHelper(drainer);
    }
    ListCell *cell;
    foreach (cell, things) {
        DrainThing(drainer, *static_cast<Thing *>(lfirst(cell)), wish);
        CHECK_FOR_INTERRUPTS();
    }
    if (is_full) {
        if (things != NIL)
            TryInWorker(drainer, [] { ForgetIntentsOfDropped(); });
        PlanNextRound(drainer);
    }
    return true;
}

void Sleep(const Drainer *drainer) {
    long wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), drainer->next);
    if (wait == 0) {
        SleepInWorker(0);
        return;
    }
    if (AreDatabasesWaiting())
        wait = Min(wait, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), drainer->turn));
    if (MayDrainWorkerSleep())
        SleepInWorker(wait);
    SleepInWorker(kGatherDelay);
}

// As long as StartDrainWorker() was told. A latch is set at first.
void AwaitStart() {
    int delay;
    memcpy(&delay, MyBgworkerEntry->bgw_extra, sizeof(delay));
    TimestampTz start = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay);
    for (long wait = delay; wait > 0;) {
        SleepInWorker(wait);
        wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), start);
    }
}

} // namespace

void InitializeDrainWorker() {
    DefineCustomIntVariable("index_table.drain_naptime",
                            "Seconds that workers wait between two drains of a shard, or of a "
                            "queue here that nobody woke them for; 0 turns them off.",
                            "They run where index_table is in shared_preload_libraries.", &naptime,
                            1, 0, 86400, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
}

} // namespace index_table

using namespace index_table;

void index_table_drain_main(Datum argument) {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    AwaitStart();
    BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
    if (!RegisterDrainWorker())
        return;
    SetWorkerOptions();
    HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(Schedule)};
    Drainer drainer = {};
    drainer.turn = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), kTurn);
    drainer.schedules = hash_create("index_table drains", 64, &control, HASH_ELEM | HASH_BLOBS);
    drainer.memory =
        AllocSetContextCreate(TopMemoryContext, "index_table drain", ALLOCSET_DEFAULT_SIZES);
    for (int known_naptime = naptime; naptime > 0;) {
        MemoryContextSwitchTo(drainer.memory);
        DrainWish wish = BeginDrainRound();
        if (naptime != known_naptime)
            wish = DrainWish::All;
        known_naptime = naptime;
        bool is_full = wish == DrainWish::All || GetCurrentTimestamp() >= drainer.next;
        if ((is_full || wish == DrainWish::Woken) && RunRound(&drainer, wish, is_full) && is_full &&
            IsSurplusDrainWorker(drainer.things))
            return;
        if (GetCurrentTimestamp() >= drainer.turn && GiveWayToDatabase(drainer.things > 0))
            return;
        MemoryContextReset(drainer.memory);
        Sleep(&drainer);
    }
}
