#include "partitions/sweep_worker.h"

#include "partitions/sweep.h"
#include "core/public.h"

extern "C" {
PGDLLEXPORT void index_table_launcher_main(Datum argument);
PGDLLEXPORT void index_table_vacuum_main(Datum argument);
}

namespace index_table {
namespace {

constinit int naptime = 60; // seconds between passes; 0: none

// --- Databases ---------------------------------------------------------------

List *ListDatabases() {
    MemoryContext caller = CurrentMemoryContext;
    List *databases = NIL;
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    Relation rel = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan_catalog(rel, 0, nullptr);
    while (HeapTuple tuple = heap_getnext(scan, ForwardScanDirection)) {
        Form_pg_database form = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple));
        if (!form->datallowconn)
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

void Describe(BackgroundWorker *worker, const char *function, const char *name) {
    memset(worker, 0, sizeof(BackgroundWorker));
    worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
    strlcpy(worker->bgw_library_name, "index_table", sizeof(worker->bgw_library_name));
    strlcpy(worker->bgw_function_name, function, sizeof(worker->bgw_function_name));
    strlcpy(worker->bgw_name, name, sizeof(worker->bgw_name));
    strlcpy(worker->bgw_type, name, sizeof(worker->bgw_type));
}

void VisitDatabase(Oid database) {
    BackgroundWorker worker;
    Describe(&worker, "index_table_vacuum_main", "index_table vacuum");
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_notify_pid = MyProcPid;
    worker.bgw_main_arg = ObjectIdGetDatum(database);
    BackgroundWorkerHandle *handle;
    if (!RegisterDynamicBackgroundWorker(&worker, &handle))
        return; // no worker is free: next time
    WaitForBackgroundWorkerShutdown(handle);
    pfree(handle);
}

// --- Index tables ------------------------------------------------------------

void Begin() {
    StartTransactionCommand();
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
    if (sweep.removed > 0)
        ereport(DEBUG1, (errmsg("removed %lld dead entries from index table with OID %u",
                                static_cast<long long>(sweep.removed), relid)));
}

// An index table that cannot be vacuumed does not keep the others from it.
void TryToVacuum(Oid relid, MemoryContext memory) {
    PG_TRY();
    { VacuumInBatches(relid, memory); }
    PG_CATCH();
    {
        EmitErrorReport();
        AbortOutOfAnyTransaction();
        FlushErrorState();
        MemoryContextSwitchTo(memory);
    }
    PG_END_TRY();
}

// Starts the worker that drains shards, which ends at once where there is one already.
void StartDraining() {
    Begin();
    bool has_foreign = false;
    ListCell *cell;
    if (IsInstalled())
        foreach (cell, ListBases())
            has_foreign = has_foreign || HasForeign(ListPartitions(lfirst_oid(cell)));
    Commit();
    if (!has_foreign)
        return;
    BackgroundWorker worker;
    Describe(&worker, "index_table_drain_main", "index_table drain");
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
    RegisterDynamicBackgroundWorker(&worker, nullptr);
}

} // namespace

void InitializeWorker() {
    DefineCustomIntVariable("index_table.vacuum_naptime",
                            "Seconds between two passes of the worker that removes dead entries; 0 "
                            "turns it off.",
                            "It runs where index_table is in shared_preload_libraries.", &naptime,
                            60, 0, 86400, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
    if (!process_shared_preload_libraries_in_progress)
        return;
    BackgroundWorker worker;
    Describe(&worker, "index_table_launcher_main", "index_table launcher");
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
    for (;; SleepInWorker(1000L * (naptime > 0 ? naptime : 60))) {
        MemoryContextSwitchTo(memory);
        ListCell *cell;
        foreach (cell, ListDatabases())
            VisitDatabase(lfirst_oid(cell));
        MemoryContextReset(memory);
    }
}

void index_table_vacuum_main(Datum argument) {
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
    MemoryContext memory =
        AllocSetContextCreate(TopMemoryContext, "index_table vacuum", ALLOCSET_DEFAULT_SIZES);
    Begin();
    List *tables = naptime > 0 && IsInstalled() ? ListIndexTablesToSweep(memory) : NIL;
    Commit();
    ListCell *cell;
    foreach (cell, tables)
        TryToVacuum(lfirst_oid(cell), memory);
    StartDraining();
}
