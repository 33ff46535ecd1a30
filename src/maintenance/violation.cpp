#include "maintenance/violation.h"

namespace index_table {
namespace {

// As PostgreSQL decides whether a message may show the key of an index: by the rights on the table
// whose columns it is made of, which for users is the base table.
bool MayShowKey(const IndexTable *table, Oid user) {
    if (check_enable_rls(table->base, user, true) == RLS_ENABLED)
        return false;
    if (pg_class_aclcheck(table->base, user, ACL_SELECT) == ACLCHECK_OK)
        return true;
    return std::all_of(
        table->key.columns, table->key.columns + table->key.count, [=](const KeyColumn &column) {
            return column.attno != 0 && pg_attribute_aclcheck(table->base, column.attno, user,
                                                              ACL_SELECT) == ACLCHECK_OK;
        });
}

char *ShowValues(const IndexTable *table, TupleTableSlot *slot) {
    StringInfoData text;
    initStringInfo(&text);
    for (int i = 0; i < table->key.count; i++) {
        bool isnull;
        Datum value = slot_getattr(slot, i + 1, &isnull);
        Oid output;
        bool is_varlena;
        getTypeOutputInfo(table->types[i], &output, &is_varlena);
        appendStringInfo(&text, "%s%s", i ? ", " : "",
                         isnull ? "null" : OidOutputFunctionCall(output, value));
    }
    return text.data;
}

// Whether an index is what keeps the key of the index table, or of a partition of it, unique.
bool IsKeyIndex(const IndexTable *table, Oid index) {
    HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return false;
    Form_pg_index form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
    bool is_key = RootOf(form->indrelid) == table->relid && form->indisunique &&
                  form->indnkeyatts == table->key.count;
    for (int i = 0; is_key && i < table->key.count; i++)
        is_key = form->indkey.values[i] == i + 1;
    ReleaseSysCache(tuple);
    return is_key;
}

// The index that an error names, if it is what keeps the key of the index table, or of a partition
// of it, unique.
Oid FindKeyIndex(const IndexTable *table, const ErrorData *error) {
    if (!error->schema_name || !error->constraint_name)
        return InvalidOid;
    Oid schema = get_namespace_oid(error->schema_name, true);
    Oid index = get_relname_relid(error->constraint_name, schema);
    return IsKeyIndex(table, index) ? index : InvalidOid;
}

// PostgreSQL's own detail with the columns as the user has written them.
char *TranslateDetail(const IndexTable *table, Oid index, const char *detail) {
    const char *columns = pg_get_indexdef_columns(index, true);
    const char *found = strstr(detail, columns);
    if (!found)
        return pstrdup(detail);
    return psprintf("%.*s%s%s", static_cast<int>(found - detail), detail,
                    DescribeKey(table->base, table->key), found + strlen(columns));
}

// As PostgreSQL reports a key of an index that repeats; the detail may be null.
[[noreturn]] void Raise(const IndexTable *table, const char *constraint, const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
                    errmsg("duplicate key value violates unique constraint \"%s\"", constraint),
                    detail ? errdetail_internal("%s", detail) : 0,
                    err_generic_string(PG_DIAG_SCHEMA_NAME,
                                       get_namespace_name(get_rel_namespace(table->relid))),
                    err_generic_string(PG_DIAG_TABLE_NAME, get_rel_name(table->relid)),
                    err_generic_string(PG_DIAG_CONSTRAINT_NAME, constraint)));
}

const char *DetailOf(const IndexTable *table, TupleTableSlot *entry) {
    if (!entry || !MayShowKey(table, GetUserId()))
        return nullptr;
    return psprintf(_("Key (%s)=(%s) already exists."), DescribeKey(table->base, table->key),
                    ShowValues(table, entry));
}

} // namespace

Oid FindKeyIndex(const IndexTable *table) {
    Relation rel = table_open(table->relid, AccessShareLock);
    Oid found = InvalidOid;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel))
        if (!OidIsValid(found) && IsKeyIndex(table, lfirst_oid(cell)))
            found = lfirst_oid(cell);
    table_close(rel, AccessShareLock);
    return found;
}

void RaiseViolation(const IndexTable *table, TupleTableSlot *entry) {
    Assert(IsKnown(table));
    Raise(table, get_rel_name(FindKeyIndex(table)), DetailOf(table, entry));
}

void TranslateRemoteViolation(const IndexTable *table, Oid user) {
    Assert(IsKnown(table));
    if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
        return;
    MemoryContext error_context = MemoryContextSwitchTo(TopTransactionContext);
    ErrorData *error = CopyErrorData();
    Oid index = FindKeyIndex(table);
    if (!OidIsValid(index)) {
        MemoryContextSwitchTo(error_context);
        return;
    }
    FlushErrorState();
    // Of the server's detail the values: "Key (columns)=(values) already exists."
    const char *values = error->detail ? strstr(error->detail, ")=(") : nullptr;
    const char *detail = nullptr;
    if (values && MayShowKey(table, user))
        detail = psprintf("Key (%s%s", DescribeKey(table->base, table->key), values);
    Raise(table, get_rel_name(index), detail);
}

void TranslateViolation(const IndexTable *table, TupleTableSlot *entry) {
    Assert(IsKnown(table));
    if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
        return;
    MemoryContext error_context = MemoryContextSwitchTo(TopTransactionContext);
    ErrorData *error = CopyErrorData();
    Oid index = FindKeyIndex(table, error);
    if (!OidIsValid(index)) {
        MemoryContextSwitchTo(error_context);
        return;
    }
    FlushErrorState();
    const char *name = error->constraint_name;
    if (get_rel_relispartition(index))
        name = get_rel_name(get_partition_parent(index, false));
    bool may_show = error->detail && MayShowKey(table, GetUserId());
    Raise(table, name,
          may_show ? TranslateDetail(table, index, error->detail) : DetailOf(table, entry));
}

} // namespace index_table
