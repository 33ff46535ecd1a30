// Columns that a base table is given.
#pragma once

#include "pg.h"

namespace index_table {

// Raises for tables with a column that is stored nowhere: neither triggers nor scans see its value.
void RefuseVirtualColumns(Relation base);

// Copies a new column of a base table into its denormalized index tables. The caller holds the lock
// that ADD COLUMN takes.
void CopyNewColumn(Oid base, const char *name);

// Warns of columns that a denormalized index table has no copy of, as they were added while event
// triggers were off: queries read them from rows. Nothing is wrong with its entries. The caller has
// locked the base table.
void WarnOfMissingCopies(const IndexTable *table);

} // namespace index_table
