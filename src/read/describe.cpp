// index_table.describe().
#include "catalog/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

Datum NamesOf(Oid base, List *attnos) {
    int count = list_length(attnos);
    Datum *names = palloc_array(Datum, Max(count, 1));
    for (int i = 0; i < count; i++) {
        NameData *name = palloc_object(NameData);
        namestrcpy(name, get_attname(base, list_nth_int(attnos, i), false));
        names[i] = NameGetDatum(name);
    }
    return PointerGetDatum(
        construct_array(names, count, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

// Whether it can be read. Only of one that was restored a definition does not tell that.
bool IsComplete(const Definition *definition) {
    if (OidIsValid(definition->log))
        return false;
    const IndexTable *table = FindIndexTable(definition->relid);
    return table && IsTrusted(table);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_describe) {
    Oid relid = PG_GETARG_OID(0);
    const Definition *definition =
        OidIsValid(RecordedBase(relid)) ? ReadDefinition(relid) : nullptr;
    if (!definition)
        PG_RETURN_NULL();
    Oid base = definition->base;
    Datum values[] = {
        CStringGetTextDatum(StrategyName(definition->options.strategy)),
        CStringGetTextDatum(DeparseKey(base, definition->key)),
        definition->predicate ? CStringGetTextDatum(DeparsePredicate(base, definition->predicate))
                              : 0,
        NamesOf(base, definition->identity),
        NamesOf(base, definition->include),
        BoolGetDatum(definition->options.is_unique),
        BoolGetDatum(definition->options.nulls_distinct),
        BoolGetDatum(definition->options.is_deferrable),
        BoolGetDatum(definition->options.initially_deferred),
        CStringGetTextDatum(definition->options.is_deferred ? "deferred" : "immediate"),
        BoolGetDatum(IsComplete(definition)),
        ObjectIdGetDatum(definition->log),
        BoolGetDatum(definition->options.is_visible),
    };
    bool nulls[lengthof(values)] = {};
    nulls[2] = definition->predicate == nullptr;
    nulls[11] = !OidIsValid(definition->log);
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
