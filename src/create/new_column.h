// Columns that a base table is given.
#pragma once

#include "pg.h"

namespace index_table {

// Raises for tables with a column that is stored nowhere: neither triggers nor scans see its value.
void RefuseVirtualColumns(Relation base);

// Copies a new column of a base table into its denormalized index tables. The caller holds the lock
// that ADD COLUMN takes.
void CopyNewColumn(Oid base, const char *name);

} // namespace index_table
