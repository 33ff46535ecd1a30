// Keys and predicates are tried before there are rows. Their functions run under a safe search_path
// whenever the extension builds, compares or repairs, and find nothing there that they call by a
// bare name: create() is to say so of an empty table, too, and not the first verify().
#pragma once

#include "catalog/public.h"

namespace index_table {

// Computes the entries of a row of sample values. Raises what the functions raise if they do not
// find a function, a type, a table or a schema; whatever else they make of these values is their
// own affair. Caller in EnterOwner(). Nothing is computed where no function is written in SQL or
// another language; `only_without_rows`: or where the table has rows, of which the build computes
// entries. It is for builds beside writers, whom a function that takes long would keep waiting.
void TryExpressions(Relation base, const IndexTable *table, bool only_without_rows);
// The same of the global indexes of a table that this transaction has made. Others may have got
// functions since that find nothing: that is theirs to say, when they are verified.
void TryNewGlobalIndexes(Oid base, bool only_without_rows);

} // namespace index_table
