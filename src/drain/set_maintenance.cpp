// index_table.set_maintenance().
#include "create/public.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "catalog/public.h"
#include "core/public.h"

using namespace index_table;

SQL_FUNCTION(index_table_set_maintenance) {
    PreventCommandDuringRecovery("index_table.set_maintenance()");
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    CheckIsComplete(table);
    Oid relid = table->relid;
    Oid base = table->base;
    bool deferred = ParseMaintenance(text_to_cstring(PG_GETARG_TEXT_PP(1)));
    // Triggers come and go: writers wait.
    table = LockIndexTable(table, AccessExclusiveLock);
    List *leaves = FindLeaves(base, AccessExclusiveLock);
    OwnerContext owner = EnterOwner(RelationOwner(base));
    if (deferred)
        CheckMayDefer(base, table->options.is_unique, leaves);
    SetMaintenance(relid, deferred);
    LeaveOwner(owner);
    EnsureTriggers(base, HasImmediate(base));
    PG_RETURN_VOID();
}
