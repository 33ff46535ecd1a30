// Functions that are called as triggers.
#pragma once

#include "pg.h"

namespace index_table {

[[noreturn]] void RaiseNotTrigger(const char *function);
// `when`: as CREATE TRIGGER says it.
[[noreturn]] void RaiseFiredWrongly(const char *function, const char *when);

// What a trigger function is called with. Raises 39P01 where it is called by anybody else.
inline TriggerData *GetTrigger(FunctionCallInfo fcinfo, const char *function) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        RaiseNotTrigger(function);
    return reinterpret_cast<TriggerData *>(fcinfo->context);
}

} // namespace index_table
