// index_table.set_visible().
#include "catalog/public.h"
#include "core/public.h"
#include "global/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

// Who edits the rule of an index table has locked the base table as strongly, or more so.
void SetTableVisible(const IndexTable *table, bool visible) {
    FAULT_POINT("visible.set_table_visible");
    table = LockIndexTable(table, ShareUpdateExclusiveLock);
    if (table->options.is_visible != visible)
        SetVisibility(table->relid, visible);
}

void SetGlobalVisible(Oid root, bool visible) {
    if (!compat::OwnsRelation(root))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(root));
    Oid base = IndexGetRelation(root, true);
    if (!OidIsValid(base))
        RaiseDropped(root);
    LockRelationOid(base, ShareUpdateExclusiveLock);
    LockRelationOid(root, ShareUpdateExclusiveLock);
    Relation index = try_relation_open(root, NoLock);
    if (!index)
        RaiseDropped(root);
    bool is_visible = GetGlobalOptions(index).visible;
    relation_close(index, NoLock);
    if (is_visible != visible) {
        StoreGlobalVisibility(root, visible);
        Invalidate(base);
    }
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_set_visible) {
    PreventCommandIfReadOnly("index_table.set_visible()");
    PreventCommandDuringRecovery("index_table.set_visible()");
    Oid relid = PG_GETARG_OID(0);
    bool visible = PG_GETARG_BOOL(1);
    if (FindGlobalIndex(relid))
        SetGlobalVisible(relid, visible);
    else
        SetTableVisible(GetOwnIndexTable(relid), visible);
    PG_RETURN_VOID();
}
