// Module entry: hooks only.
#include "build/online.h"
#include "build/worker.h"
#include "ddl/ddl.h"
#include "maintenance/maintenance.h"
#include "queue/drain.h"
#include "queue/queue.h"
#include "scan/scan.h"
#include "scan/shard_access.h"
#include "shard/connection.h"
#include "shard/remote_select.h"
#include "shard/snapshot_check.h"
#include "shard/writes.h"

extern "C" {
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);
}

void _PG_init(void) {
    index_table::InitializeCatalogCache();
    index_table::InitializeTruncation();
    index_table::InitializeMaintenance();
    index_table::InitializeConnections();
    index_table::InitializeSnapshotChecks();
    index_table::InitializeOnlineBuild();
    index_table::InitializeWorker();
    index_table::InitializeQueue();
    index_table::InitializeDrain();
    index_table::InitializeDrainWorker();
    index_table::InitializeDdl();
    index_table::InitializeScan();
    index_table::InitializeRemoteSelect();
    index_table::InitializeWrites();
    index_table::InitializeShardAccess();
    MarkGUCPrefixReserved("index_table");
}
