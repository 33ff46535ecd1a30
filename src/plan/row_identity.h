// What a query does with the rows of a base table beyond reading them, and the columns that tell
// the executor which row of which partition it has in hand.
#pragma once

#include "exec/public.h"

namespace index_table {

RowUse GetRowUse(PlannerInfo *root, Index relid);

// The query finds rows of the base table through its index tables: makes the target list have the
// row's ctid and partition where it is changed or locked, and the whole row where it may be that of
// a foreign partition which is changed, or a change of another table may have to look at it again.
void AddRowIdentity(PlannerInfo *root, Index relid, RangeTblEntry *rte);
// PostgreSQL plans the base table's partitions: it adds what it needs itself.
void DropRowIdentity(PlannerInfo *root, Index relid);

} // namespace index_table
