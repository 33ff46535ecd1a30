#include "core/trigger.h"

namespace index_table {

void RaiseNotTrigger(const char *function) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("%s was not called by the trigger manager", function)));
}

void RaiseFiredWrongly(const char *function, const char *when) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("%s must be fired %s", function, when)));
}

} // namespace index_table
