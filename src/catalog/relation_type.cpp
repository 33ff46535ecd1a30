// The type index_table.relation.
#include "catalog/definition.h"
#include "core/public.h"

namespace index_table {
namespace {

// A dump may name what others have in schemas of theirs.
bool MayLookInto(const char *schema) {
    Oid oid = schema ? get_namespace_oid(schema, true) : InvalidOid;
    return !OidIsValid(oid) ||
           DatumGetBool(DirectFunctionCall2(has_schema_privilege_id, ObjectIdGetDatum(oid),
                                            CStringGetTextDatum("USAGE")));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_relation_in) {
    const char *text = PG_GETARG_CSTRING(0);
    // A number, or "-", is what is printed of a relation that is gone.
    if (strspn(text, "0123456789") == strlen(text) || strcmp(text, "-") == 0)
        PG_RETURN_OID(InvalidOid);
    RangeVar *name = makeRangeVarFromNameList(compat::SplitQualifiedName(text));
    PG_RETURN_OID(MayLookInto(name->schemaname) ? RangeVarGetRelid(name, NoLock, true)
                                                : InvalidOid);
}

SQL_FUNCTION(index_table_relation_out) {
    return DirectFunctionCall1(regclassout, PG_GETARG_DATUM(0));
}
