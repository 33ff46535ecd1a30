// Module entry: settings, caches, workers and hooks.
#include "catalog/public.h"
#include "conflict/public.h"
#include "core/public.h"
#include "create/public.h"
#include "deferred/public.h"
#include "drain/public.h"
#include "exec/public.h"
#include "global/public.h"
#include "hooks.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"
#include "plan/public.h"
#include "shard/public.h"
#include "upkeep/public.h"

extern "C" {
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);
}

void _PG_init(void) {
    index_table::InitializeFaults();
    index_table::InitializeCatalogCache();
    index_table::InitializeMaintenance();
    index_table::InitializeWrites();
    index_table::InitializeTruncation();
    index_table::InitializeConnections();
    index_table::InitializeRemoteSelect();
    index_table::InitializeShardAccess();
    index_table::InitializeReadConsistency();
    index_table::InitializeOnlineBuild();
    index_table::InitializeWorker();
    index_table::InitializeOutboxCache();
    index_table::InitializeQueueCache();
    index_table::InitializeKeyHashes();
    index_table::InitializePageHashes();
    index_table::InitializeQueuedRelations();
    index_table::InitializeLag();
    index_table::InitializeDrainWorkers();
    index_table::InitializeCounters();
    index_table::InitializeDrain();
    index_table::InitializeBuildRows();
    index_table::InitializeDrainWorker();
    index_table::InitializePlanning();
    index_table::InitializeGlobalOptions();
    index_table::InitializeScanNode();
    index_table::InitializeOuterRows();
    index_table::InitializeRowSwitch();
    index_table::InitializeConflictCheck();
    index_table::InitializeReturning();
    index_table::InstallHooks();
    MarkGUCPrefixReserved("index_table");
}
