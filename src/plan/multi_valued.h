// Keys of many values for a row: value = ANY(array) and array @> ARRAY[value] as clauses on the
// elements.
#pragma once

#include "plan/candidates.h"

namespace index_table {

// The clause "element = value" that one of the restrictions implies for the entries of a candidate
// whose key begins with the elements of an array; null where it implies none. Rows must be checked
// against the restriction itself.
Expr *MatchElement(const Candidate *candidate, List *restrictions, RestrictInfo *restriction);

} // namespace index_table
