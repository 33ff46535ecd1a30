// The background worker that drains the queues of shards: one for each database that has index
// tables over foreign partitions, started by the one that vacuums.
#include "catalog/public.h"
#include "core/public.h"
#include "drain/drain.h"
#include "drain/sweep_intents.h"

extern "C" {
PGDLLEXPORT void index_table_drain_main(Datum argument);
}

namespace index_table {
namespace {

constinit int naptime = 1; // seconds; 0: none

constexpr int kMaxBackoff = 60; // seconds between tries of a partition that cannot be drained

// When to try a partition again.
struct Schedule {
    Oid leaf; // hash key
    int backoff;
    TimestampTz next;
};

// One worker a database; held until it ends.
bool IsAlone() {
    LOCKTAG tag = DrainWorkerTag();
    return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void DrainOnce(Oid leaf, HTAB *schedules) {
    bool found;
    Schedule *schedule = static_cast<Schedule *>(hash_search(schedules, &leaf, HASH_ENTER, &found));
    if (!found)
        schedule->backoff = schedule->next = 0;
    if (schedule->next > GetCurrentTimestamp())
        return;
    if (DrainLeaf(leaf, false)) {
        schedule->backoff = 0;
        return;
    }
    schedule->backoff = Min(Max(1, schedule->backoff * 2), kMaxBackoff);
    schedule->next = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000 * schedule->backoff);
}

// False where there is nothing to drain in this database.
bool DrainAll(HTAB *schedules) {
    MemoryContext caller = CurrentMemoryContext;
    StartTransactionCommand();
    MemoryContextSwitchTo(caller);
    List *leaves = NIL;
    if (IsInstalled())
        leaves = ListDrainedLeaves(InvalidOid);
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    MemoryContextSwitchTo(caller);
    ListCell *cell;
    foreach (cell, leaves)
        DrainOnce(lfirst_oid(cell), schedules);
    if (leaves != NIL)
        ForgetIntentsOfDropped();
    SPI_finish();
    CommitTransactionCommand();
    MemoryContextSwitchTo(caller);
    return leaves != NIL;
}

} // namespace

void InitializeDrainWorker() {
    DefineCustomIntVariable("index_table.drain_naptime",
                            "Seconds that the worker waits between two drains of a shard; 0 turns "
                            "it off.",
                            "It runs where index_table is in shared_preload_libraries.", &naptime,
                            1, 0, 86400, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
}

} // namespace index_table

using namespace index_table;

void index_table_drain_main(Datum argument) {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
    if (!IsAlone())
        return;
    HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(Schedule)};
    HTAB *schedules = hash_create("index_table drains", 64, &control, HASH_ELEM | HASH_BLOBS);
    MemoryContext memory =
        AllocSetContextCreate(TopMemoryContext, "index_table drain", ALLOCSET_DEFAULT_SIZES);
    for (bool more = true; more && naptime > 0;) {
        MemoryContextSwitchTo(memory);
        more = DrainAll(schedules);
        MemoryContextReset(memory);
        SleepInWorker(1000L * naptime);
    }
}
