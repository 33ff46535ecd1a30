// From an entry to the rows of the base table, with the rights of the user: privileges on the base
// table and its row security decide what is seen.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Raises 42501 unless the user may SELECT these columns of the base table (every column: NIL).
void CheckSelectPrivilege(const IndexTable *table, List *attnos);

// Base columns that an index table shows: those its key and predicate read, identity, included.
List *ShownColumns(const IndexTable *table);

struct EntryScan;

// Finds rows under the active snapshot, reading no columns but `attnos` (NIL: every column) under
// row security. The caller has connected SPI.
struct BaseRows;
BaseRows *BeginBaseRows(const IndexTable *table, List *attnos);
// Whether row security hides rows of the base table from the user.
bool HasRowSecurity(const BaseRows *rows);
// The rows of the entry that a scan has just returned, in the base table's row type: a list of
// HeapTuple in the current memory context. Rows whose key is not the entry's are left out. From
// foreign tables the rows of entries to come are read with them, of at most `ahead` in all.
List *FindBaseRows(BaseRows *rows, const EntryScan *scan, HeapTuple entry, int ahead);
void EndBaseRows(BaseRows *rows);

} // namespace index_table
