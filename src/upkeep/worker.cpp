#include "upkeep/worker.h"

#include "core/public.h"
#include "partitions/public.h"
#include "shard/public.h"
#include "upkeep/background_verify.h"

extern "C" {
PGDLLEXPORT void index_table_launcher_main(Datum argument);
PGDLLEXPORT void index_table_vacuum_main(Datum argument);
}

namespace index_table {
namespace {

constexpr int kDefaultNaptime = 60;
constexpr int kInvalidDatabase = -2;     // datconnlimit: DATCONNLIMIT_INVALID_DB of 15.4
constinit int naptime = kDefaultNaptime; // seconds between passes; 0: none

// --- Databases ---------------------------------------------------------------

// All there are, or those that take connections: not one whose DROP DATABASE was interrupted.
List *ListDatabases(bool all) {
    MemoryContext caller = CurrentMemoryContext;
    List *databases = NIL;
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    Relation rel = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan_catalog(rel, 0, nullptr);
    while (HeapTuple tuple = heap_getnext(scan, ForwardScanDirection)) {
        Form_pg_database form = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple));
        if (!all && (!form->datallowconn || form->datconnlimit == kInvalidDatabase))
            continue;
        MemoryContext transaction = MemoryContextSwitchTo(caller);
        databases = lappend_oid(databases, form->oid);
        MemoryContextSwitchTo(transaction);
    }
    table_endscan(scan);
    table_close(rel, AccessShareLock);
    PopActiveSnapshot();
    CommitTransactionCommand();
    MemoryContextSwitchTo(caller);
    return databases;
}

constexpr long kPatience = 5000; // milliseconds that databases may wait before that is told
constexpr long kRetry = 5000;    // milliseconds until a worker is tried again for one that waits

// Once: the sum of workers is a matter of the server's configuration.
void WarnOfTooFewWorkers(const WaitingDatabases &waiting) {
    static constinit bool warned = false;
    static constinit TimestampTz since = 0;
    TimestampTz now = GetCurrentTimestamp();
    if (waiting.count == 0 || since == 0)
        since = waiting.count == 0 ? 0 : now;
    if (warned || since == 0 || !TimestampDifferenceExceeds(since, now, kPatience))
        return;
    warned = true;
    ereport(
        WARNING,
        (errmsg_plural("index_table: %d database waits for a worker to drain its index tables",
                       "index_table: %d databases wait for workers to drain their index tables",
                       waiting.count, waiting.count),
         errdetail("Drain workers of all databases: %d at a time, if as many background workers "
                   "are free. Databases take turns.",
                   waiting.workers),
         errhint("Increase max_worker_processes.")));
}

// Sleeps until the time is over or the latch is set; databases that wait have workers started.
void SleepInLauncher(long milliseconds) {
    WaitingDatabases waiting = ServeWaitingDatabases();
    WarnOfTooFewWorkers(waiting);
    SleepInWorker(waiting.count > 0 ? Min(milliseconds, kRetry) : milliseconds);
}

void AwaitEnd(BackgroundWorkerHandle *handle) {
    constexpr long kAtMost = 10000; // milliseconds: the latch is set at the end
    pid_t pid;
    while (GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
        SleepInLauncher(kAtMost);
}

void AwaitNextPass() {
    TimestampTz began = GetCurrentTimestamp();
    for (;;) {
        TimestampTz next = TimestampTzPlusMilliseconds(
            began, 1000L * (naptime > 0 ? naptime : kDefaultNaptime)); // which may be changed
        long wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next);
        if (wait == 0)
            return;
        SleepInLauncher(wait);
    }
}

void VisitDatabase(Oid database) {
    BackgroundWorker worker;
    DescribeWorker(&worker, "index_table_vacuum_main", "index_table vacuum");
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_notify_pid = MyProcPid;
    worker.bgw_main_arg = ObjectIdGetDatum(database);
    BackgroundWorkerHandle *handle;
    if (!RegisterDynamicBackgroundWorker(&worker, &handle))
        return; // no worker is free: next time
    AwaitEnd(handle);
    pfree(handle);
}

// --- Index tables ------------------------------------------------------------

// In which the extension is not dropped.
void Begin() {
    StartTransactionCommand();
    HoldExtension();
    PushActiveSnapshot(GetTransactionSnapshot());
}

void Commit() {
    PopActiveSnapshot();
    CommitTransactionCommand();
}

// In the caller's memory, which outlives the transaction.
List *ListIndexTablesToSweep(MemoryContext memory) {
    List *tables = NIL;
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell)))
            // One that is being built is locked until that is done.
            if (ListRetiredNumbers(lfirst_oid(cell)) != NIL &&
                !OidIsValid(RecordedLog(lfirst_oid(cell)))) {
                MemoryContext transaction = MemoryContextSwitchTo(memory);
                tables = lappend_oid(tables, lfirst_oid(cell));
                MemoryContextSwitchTo(transaction);
            }
    return tables;
}

void VacuumInBatches(Oid relid, MemoryContext memory) {
    TimestampTz began = GetCurrentTimestamp();
    Begin();
    const IndexTable *table = FindIndexTable(relid);
    Sweep sweep = {};
    if (table) {
        MemoryContext transaction = MemoryContextSwitchTo(memory);
        BeginSweep(&sweep, table);
        MemoryContextSwitchTo(transaction);
    }
    Commit();
    if (sweep.numbers == NIL)
        return;
    for (bool more = true; more;) {
        Begin();
        const IndexTable *found = FindIndexTable(relid);
        // One sweep at a time; another may have come between, which does no harm.
        LockRelationOid(relid, ShareUpdateExclusiveLock);
        more = found && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
               SweepBatch(&sweep, found);
        if (!more)
            EndSweep(&sweep);
        Commit();
    }
    Begin();
    RecordWork(relid, Work::Vacuum, began, sweep.removed);
    Commit();
}

// What fails, as where an index table cannot be vacuumed, does not keep the rest from it.
template <typename Action>
void Try(MemoryContext memory, Action action) {
    PG_TRY();
    { action(); }
    PG_CATCH();
    {
        EmitErrorReport();
        AbortOutOfAnyTransaction();
        FlushErrorState();
        MemoryContextSwitchTo(memory);
    }
    PG_END_TRY();
}

// Whether there is anything to be drained in this database.
bool HasQueues() {
    ListCell *cell, *table;
    foreach (cell, IsInstalled() ? ListBases() : NIL) {
        if (HasForeign(ListPartitions(lfirst_oid(cell))))
            return true;
        foreach (table, ListIndexTables(lfirst_oid(cell)))
            if (OidIsValid(RecordedQueue(lfirst_oid(table))))
                return true;
    }
    return false;
}

void StartDraining() {
    Begin();
    bool has_queues = !HasDrainWorker() && HasQueues();
    Commit();
    if (has_queues)
        StartDrainWorker(MyDatabaseId);
}

} // namespace

void InitializeWorker() {
    InitializeBackgroundVerify();
    DefineCustomIntVariable("index_table.vacuum_naptime",
                            "Seconds between two passes of the worker that removes dead entries; 0 "
                            "turns it off.",
                            "It runs where index_table is in shared_preload_libraries.", &naptime,
                            kDefaultNaptime, 0, 86400, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr,
                            nullptr);
    if (!process_shared_preload_libraries_in_progress)
        return;
    BackgroundWorker worker;
    DescribeWorker(&worker, "index_table_launcher_main", "index_table launcher");
    worker.bgw_restart_time = 60;
    RegisterBackgroundWorker(&worker);
}

} // namespace index_table

using namespace index_table;

void index_table_launcher_main(Datum) {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
    MemoryContext memory =
        AllocSetContextCreate(TopMemoryContext, "index_table launcher", ALLOCSET_DEFAULT_SIZES);
    // At once after a start: shards may have rows of which a crash has kept the entries.
    RegisterDrainLauncher();
    for (;; AwaitNextPass()) {
        MemoryContextSwitchTo(memory);
        ListCell *cell;
        List *visited = ListDatabases(false);
        foreach (cell, visited)
            VisitDatabase(lfirst_oid(cell));
        // One may be new: visits take as long as they take.
        ForgetOtherDatabases(ListDatabases(true));
        MemoryContextReset(memory);
    }
}

void index_table_vacuum_main(Datum argument) {
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
    // Whatever the database sets for others: entries on servers are swept by SQL.
    SetWorkerOptions();
    MemoryContext memory =
        AllocSetContextCreate(TopMemoryContext, "index_table vacuum", ALLOCSET_DEFAULT_SIZES);
    StartDraining(); // first: to vacuum may take long
    Try(memory, [] {
        Begin();
        ForgetServerTables();
        Commit();
    });
    Begin();
    List *tables = naptime > 0 && IsInstalled() ? ListIndexTablesToSweep(memory) : NIL;
    Commit();
    ListCell *cell;
    foreach (cell, tables)
        Try(memory, [&] { VacuumInBatches(lfirst_oid(cell), memory); });
    Try(memory, [] {
        Begin();
        ForgetGone([](Oid relid) { return SearchSysCacheExists1(RELOID, relid); });
        Commit();
    });
    VerifyInBackground(naptime > 0 ? naptime : kDefaultNaptime);
}
