// The conditions of a scan, made for where they are checked: in an index of an index table, or on
// an entry.
#pragma once

#include "catalog/public.h"
#include "exec/scan_plan.h"

namespace index_table {

// The conditions on the columns of the open index, as ExecIndexBuildScanKeys wants them.
List *QualsOverIndex(const SourcePlan *plan, Relation index);
// The distances that the open index orders by, likewise.
List *DistancesOverIndex(const ScanPlan *plan, Relation index);

// The same conditions, and the index's own predicate, on an entry: columns are numbered by
// position, from 1, in range table index 1. `stored` are the columns of the index's table.
List *QualsOverEntry(const SourcePlan *plan, const IndexTable *table, Relation index,
                     const AttrNumber *stored);

// Clauses over the base table, range table index `relid`, on an entry likewise: it holds all of
// their columns.
List *ClausesOverEntry(const List *clauses, const IndexTable *table, Index relid);

} // namespace index_table
