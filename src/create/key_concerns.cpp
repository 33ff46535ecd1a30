#include "create/key_concerns.h"

#include "catalog/public.h"
#include "core/public.h"
#include "global/public.h"

namespace index_table {
namespace {

constexpr Oid kTypes[] = {REGCLASSOID, INT2ARRAYOID, BOOLOID, BOOLOID, BOOLOID};

// An extension whose scripts have not been updated yet lacks the function, and the user may lack
// the privileges to call it: CREATE INDEX does not fail for want of a warning.
bool CanTell() {
    Oid schema = get_namespace_oid("index_table", true);
    if (!OidIsValid(schema) ||
        compat::CheckSchemaPrivilege(schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
        return false;
    List *name =
        list_make2(makeString(pstrdup("index_table")), makeString(pstrdup("key_concerns")));
    Oid function = LookupFuncName(name, lengthof(kTypes), kTypes, true);
    return OidIsValid(function) &&
           compat::CheckFunctionPrivilege(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

// The root that was made last. Others of the same transaction have been told of.
Oid FindNewest(List *roots) {
    Oid newest = InvalidOid;
    ListCell *cell;
    foreach (cell, roots)
        newest = Max(newest, lfirst_oid(cell));
    return newest;
}

struct ConcernedKey {
    Oid base;
    int count;
    Datum columns[INDEX_MAX_KEYS]; // attribute numbers; 0: an expression
    bool has_predicate;
    bool is_deferred;
    bool is_global;
};

void Warn(ConcernedKey *key) {
    ArrayType *columns =
        construct_array(key->columns, key->count, INT2OID, sizeof(int16), true, TYPALIGN_SHORT);
    Datum values[] = {ObjectIdGetDatum(key->base), PointerGetDatum(columns),
                      BoolGetDatum(key->has_predicate), BoolGetDatum(key->is_deferred),
                      BoolGetDatum(key->is_global)};
    Oid types[lengthof(kTypes)];
    std::copy(std::begin(kTypes), std::end(kTypes), types);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    int result = SPI_execute_with_args(
        "SELECT concern, hint FROM index_table.key_concerns($1, $2, $3, $4, $5)", lengthof(types),
        types, values, nullptr, false, 0);
    if (result != SPI_OK_SELECT)
        elog(ERROR, "SPI_execute_with_args failed: %s", SPI_result_code_string(result));
    for (uint64 i = 0; i < SPI_processed; i++) {
        HeapTuple row = SPI_tuptable->vals[i];
        ereport(WARNING, (errmsg("%s", SPI_getvalue(row, SPI_tuptable->tupdesc, 1)),
                          errhint("%s", SPI_getvalue(row, SPI_tuptable->tupdesc, 2))));
    }
    SPI_finish();
}

} // namespace

void WarnOfKey(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    if (!table || table->options.is_unique)
        return;
    ConcernedKey key = {.base = table->base,
                        .count = table->key.count,
                        .has_predicate = table->predicate != nullptr,
                        .is_deferred = table->options.is_deferred};
    for (int i = 0; i < key.count; i++)
        key.columns[i] = Int16GetDatum(table->key.columns[i].attno);
    Warn(&key);
}

void WarnOfNewGlobalIndex(Oid base) {
    if (!check_function_bodies) // as dumps set it
        return;
    Oid newest = FindNewest(ListGlobalRoots(base));
    if (!OidIsValid(newest) || !CanTell())
        return;
    Relation root = index_open(newest, AccessShareLock);
    GlobalOptions options = GetGlobalOptions(root);
    ConcernedKey key = {.base = base,
                        .count = root->rd_index->indnkeyatts,
                        .has_predicate = RelationGetIndexPredicate(root) != NIL,
                        .is_global = true};
    for (int i = 0; i < key.count; i++)
        key.columns[i] = Int16GetDatum(root->rd_index->indkey.values[i]);
    bool warns = root->rd_createSubid != InvalidSubTransactionId && !options.unique &&
                 options.method == BTREE_AM_OID;
    index_close(root, NoLock);
    if (warns)
        Warn(&key);
}

} // namespace index_table
