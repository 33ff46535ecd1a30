#include "ddl/event.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"

namespace index_table {

EventTriggerData *GetEvent(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("not called by the event trigger manager")));
    return reinterpret_cast<EventTriggerData *>(fcinfo->context);
}

Oid FindRelation(const RangeVar *name) {
    return RangeVarGetRelid(name, NoLock, true);
}

bool IsBase(Oid relid) {
    return OidIsValid(relid) && ListIndexTables(relid) != NIL;
}

Oid QueueOwner(Oid relid) {
    if (!OidIsValid(relid) || !HasGuard(relid) || IsUnguarded())
        return InvalidOid;
    Oid owner = GuardedIndexTable(relid);
    return OidIsValid(owner) && RecordedQueue(owner) == RootOf(relid) ? owner : InvalidOid;
}

void RaiseOwnQueue(const char *what, Oid index_table) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot %s the queue of index table \"%s\"", what, get_rel_name(index_table)),
             errhint("index_table.set_maintenance() and index_table.drop() drop it.")));
}

void RaiseOwnTable(const char *what, Oid relid) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot %s index table \"%s\"", what, get_rel_name(relid)),
                    errhint("Drop the index table with index_table.drop() and create another.")));
}

void WaitForBuild(Oid index_table) {
    if (OidIsValid(RecordedLog(index_table)))
        LockRelationOid(index_table, ShareUpdateExclusiveLock);
}

} // namespace index_table
