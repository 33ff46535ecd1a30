// What lookup, fetch and page begin with.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The index table in an argument, in step and locked with AccessShareLock. Raises 42809 where it is
// none.
const IndexTable *BeginReading(FunctionCallInfo fcinfo, int argument);

// Raises 42804 unless the first argument has the base table's row type.
void CheckRowType(FunctionCallInfo fcinfo, const IndexTable *table);

// Entries that are alike follow each other, but where the identity is not unique those that are the
// same byte by byte may have others, equal and not the same (1.0 and 1.00), between them. A run
// remembers the entries that are equal in the order of the B-tree to the last one.
struct EntryRun {
    const IndexTable *table;
    MemoryContext memory;
    FmgrInfo *compare; // of the columns of the group
    List *entries;
};
EntryRun BeginRun(const IndexTable *table);
// Whether the run holds this very entry already: its rows have been found. Remembers it if not.
bool IsRepeated(EntryRun *run, HeapTuple entry, TupleDesc descriptor);

} // namespace index_table
