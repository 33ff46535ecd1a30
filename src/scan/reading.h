// What lookup, fetch and page begin with.
#pragma once

#include "catalog/definition.h"

namespace index_table {

// The index table in an argument, in step and locked with AccessShareLock. Raises 42809 where it is
// none.
const IndexTable *BeginReading(FunctionCallInfo fcinfo, int argument);

// Raises 42804 unless the first argument has the base table's row type.
void CheckRowType(FunctionCallInfo fcinfo, const IndexTable *table);

// Whether two entries agree in key, partition number and identity.
bool IsSameEntry(const IndexTable *table, HeapTuple a, HeapTuple b, TupleDesc descriptor);

} // namespace index_table
