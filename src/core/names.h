// Names as SQL that the extension makes writes them: quoted, with their schema.
#pragma once

#include "pg.h"

namespace index_table {

// "schema"."name" of a relation.
char *QualifiedName(Oid relid);
// The same of a type, without a modifier: "character" would be character(1).
char *QualifiedTypeName(Oid type);
// OPERATOR(schema.name)
char *OperatorName(Oid op);
// The same as a relation's.
char *OperatorClassName(Oid opclass);

} // namespace index_table
