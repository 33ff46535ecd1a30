#include "catalog/own_triggers.h"

namespace index_table {

bool IsOfOutbox(Form_pg_trigger form) {
    char *function = get_func_name(form->tgfoid);
    return function && strcmp(function, "enqueue") == 0;
}

bool HasOwnTrigger(Oid relid, const char *name, bool enabled) {
    bool found = false;
    ForEachOwnTrigger(relid, AccessShareLock, [&](Relation, HeapTuple, Form_pg_trigger form) {
        found = found || ((form->tgenabled != TRIGGER_DISABLED) == enabled && !IsOfOutbox(form) &&
                          (!name || strcmp(NameStr(form->tgname), name) == 0));
    });
    return found;
}

Oid FindDisabled(Oid base) {
    ListCell *cell;
    if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        foreach (cell, find_all_inheritors(base, NoLock, nullptr))
            if (HasOwnTrigger(lfirst_oid(cell), nullptr, false))
                return lfirst_oid(cell);
    return InvalidOid;
}

Oid FindDisabledFor(const IndexTable *table) {
    Assert(IsKnown(table) && !table->is_global());
    for (Oid root : {table->base, table->relid, table->queue, table->log}) {
        Oid found = OidIsValid(root) ? FindDisabled(root) : InvalidOid;
        if (OidIsValid(found))
            return found;
    }
    return InvalidOid;
}

} // namespace index_table
