// index_table.served_keys(): what a table can be asked by through index tables and global indexes.
#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

// A key column as statements name it: without its order, and an array for its elements.
char *KeyText(Oid base, KeyColumn column) {
    if (column.shape == KeyShape::ArrayElements && !column.per_element && IsA(column.expr, Var))
        return pstrdup(quote_identifier(
            get_attname(base, reinterpret_cast<Var *>(column.expr)->varattno, false)));
    column.descending = column.nulls_first = false;
    Oid opclass = GetDefaultOpClass(column.type, BTREE_AM_OID);
    column.opclass = OidIsValid(opclass) ? opclass : column.opclass;
    return DeparseKey(base, {.count = 1, .columns = &column, .multi_valued = -1});
}

// Whether rows are left out that a look-up by the key would find.
bool LeavesOutKeys(const IndexTable *table) {
    if (!table->predicate || !IsA(table->predicate, NullTest))
        return table->predicate != nullptr;
    const NullTest *test = reinterpret_cast<NullTest *>(table->predicate);
    return test->nulltesttype != IS_NOT_NULL ||
           std::none_of(table->key.columns, table->key.columns + table->key.count,
                        [&](const KeyColumn &column) { return equal(column.expr, test->arg); });
}

void PutKeys(ReturnSetInfo *result, const IndexTable *table) {
    Datum *keys = palloc_array(Datum, table->key.count);
    for (int i = 0; i < table->key.count; i++)
        keys[i] = CStringGetTextDatum(KeyText(table->base, table->key.columns[i]));
    Datum values[] = {
        ObjectIdGetDatum(table->is_global() ? table->root : table->relid),
        PointerGetDatum(construct_array(keys, table->key.count, TEXTOID, -1, false, TYPALIGN_INT)),
        BoolGetDatum(table->options.is_unique),
        BoolGetDatum(table->options.is_visible),
        BoolGetDatum(LeavesOutKeys(table)),
        ObjectIdGetDatum(table->is_global() ? table->tree : InvalidOid),
    };
    bool nulls[lengthof(values)] = {};
    nulls[lengthof(values) - 1] = !table->is_global();
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_served_keys) {
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    const Base *base = FindIndexedBase(PG_GETARG_OID(0));
    if (!base)
        return static_cast<Datum>(0);
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        PutKeys(result, table);
    for (const IndexTable *table : std::span(base->globals, base->global_count))
        PutKeys(result, table);
    return static_cast<Datum>(0);
}
