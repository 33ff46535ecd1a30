#include "core/names.h"

namespace index_table {

char *QualifiedName(Oid relid) {
    return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                      get_rel_name(relid));
}

char *QualifiedTypeName(Oid type) {
    return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

char *OperatorName(Oid op) {
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(op));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator %u", op);
    Form_pg_operator form = reinterpret_cast<Form_pg_operator>(GETSTRUCT(tuple));
    char *name =
        psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
                 NameStr(form->oprname));
    ReleaseSysCache(tuple);
    return name;
}

char *OperatorClassName(Oid opclass) {
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator class %u", opclass);
    Form_pg_opclass form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    char *name = pstrdup(
        quote_qualified_identifier(get_namespace_name(form->opcnamespace), NameStr(form->opcname)));
    ReleaseSysCache(tuple);
    return name;
}

} // namespace index_table
