// What a query does with the rows of a base table beyond reading them, and the columns that tell
// the executor which row of which partition it has in hand.
#pragma once

#include "pg.h"

namespace index_table {

enum class RowUse : int {
    Read,
    Lock,   // SELECT ... FOR UPDATE and its likes
    Change, // the target of UPDATE, DELETE or MERGE
};
RowUse GetRowUse(PlannerInfo *root, Index relid);

// The lock on partitions that a use takes.
LOCKMODE LockModeFor(RowUse use);

// The name of the column with the partition's OID, as PostgreSQL has it for partitions that it
// planned itself; `rowmark` is the number of a row mark, 0 for the target.
const char *PartitionColumnName(Index rowmark);

// The query finds rows of the base table through its index tables: makes the target list have the
// row's ctid and partition where it is changed or locked, and the whole row where a change of
// another table may have to look at it again.
void AddRowIdentity(PlannerInfo *root, Index relid, RangeTblEntry *rte);
// PostgreSQL plans the base table's partitions: it adds what it needs itself.
void DropRowIdentity(PlannerInfo *root, Index relid);

} // namespace index_table
