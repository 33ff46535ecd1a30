// Comparing index tables with their base tables, and mending them.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Deletes the entries of groups that are not in order, and enters what should be there; returns the
// number of such groups. The caller holds ShareRowExclusiveLock on the base table and its leaves
// and is in EnterOwner().
int64 RepairEntries(Relation base, const IndexTable *table);

// What repair() does: RepairEntries() where that is needed, after dead entries are gone, triggers
// are back and partitions have numbers. The caller owns the index table, which is complete.
int64 RepairIndexTable(const IndexTable *table);

} // namespace index_table
