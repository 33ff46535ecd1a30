// The type index_table.relation.
#include "catalog/definition.h"
#include "core/public.h"

using namespace index_table;

SQL_FUNCTION(index_table_relation_in) {
    const char *text = PG_GETARG_CSTRING(0);
    // A number, or "-", is what is printed of a relation that is gone.
    if (strspn(text, "0123456789") == strlen(text) || strcmp(text, "-") == 0)
        PG_RETURN_OID(InvalidOid);
    RangeVar *name = makeRangeVarFromNameList(compat::SplitQualifiedName(text));
    PG_RETURN_OID(RangeVarGetRelid(name, NoLock, true));
}

SQL_FUNCTION(index_table_relation_out) {
    return DirectFunctionCall1(regclassout, PG_GETARG_DATUM(0));
}
