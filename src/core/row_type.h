// Row types, whose columns come and go while tables have values of them, and with them the hash of
// a value.
#pragma once

#include "pg.h"

namespace index_table {

// Whether a type is a row type or made of such ones: a domain, an array, a range.
bool ContainsComposite(Oid type);
// Whether values of a type have values of one of the row types in them, columns of columns too.
bool ContainsAny(Oid type, const List *row_types);

} // namespace index_table
