// index_table.set_maintenance().
#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "deferred/public.h"
#include "drain/local_drain.h"
#include "maintenance/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

void EndDeferring(const IndexTable *table) {
    FAULT_POINT("set_maintenance.end_deferring");
    Oid relid = table->relid;
    Oid base = table->base;
    FlushChanges();
    // Triggers come and go: writers wait.
    table = LockIndexTable(table, AccessExclusiveLock);
    FindLeaves(base, AccessExclusiveLock);
    if (!table->options.is_deferred)
        return;
    CheckIsTrusted(table);
    LockRelationOid(relid, AccessExclusiveLock);
    OwnerContext owner = EnterOwner(RelationOwner(base));
    bool has_queue = FindQueue(table) != nullptr;
    if (has_queue)
        ApplyQueue(table);
    SetMaintenance(relid, false, InvalidOid);
    DropQueue(relid, table->queue);
    // Older snapshots need what was in the queue.
    if (has_queue)
        RecordBuild(relid);
    LeaveOwner(owner);
    EnsureTriggers(base, FindTriggerNeeds(base));
    RequestDrainWorker();
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_set_maintenance) {
    PreventCommandDuringRecovery("index_table.set_maintenance()");
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    CheckIsComplete(table);
    if (ParseMaintenance(text_to_cstring(PG_GETARG_TEXT_PP(1))))
        Defer(table);
    else
        EndDeferring(table);
    PG_RETURN_VOID();
}
