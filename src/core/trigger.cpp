#include "core/trigger.h"

#include "core/system_scan.h"

namespace index_table {

void RaiseNotTrigger(const char *function) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("%s was not called by the trigger manager", function)));
}

void RaiseFiredWrongly(const char *function, const char *when) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("%s must be fired %s", function, when)));
}

TriggerPlace PlaceOfTrigger(Oid trigger) {
    SystemScan scan(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger);
    TriggerPlace place = {InvalidOid, InvalidOid};
    if (auto form = scan.Next<Form_pg_trigger>())
        place = {form->tgrelid, form->tgfoid};
    scan.End();
    return place;
}

} // namespace index_table
