// Triggers, and functions that are called as such.
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

// The row before the change, and after it, for which a row trigger is called; null where there is
// none.
inline TupleTableSlot *OldRow(const TriggerData *trigger) {
    return TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? nullptr : trigger->tg_trigslot;
}

inline TupleTableSlot *NewRow(const TriggerData *trigger) {
    return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)   ? trigger->tg_newslot
           : TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? trigger->tg_trigslot
                                                        : nullptr;
}

struct TriggerPlace {
    Oid table;
    Oid function;
};
// Invalid where there is no such trigger any more.
TriggerPlace PlaceOfTrigger(Oid trigger);

} // namespace index_table
