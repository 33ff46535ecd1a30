// Rows of foreign partitions that are not where their partition key says.
//
// PostgreSQL does not move a row out of a foreign table when an UPDATE changes its partition key,
// and routes an INSERT into the foreign table itself nowhere: the row stays on a shard where no
// query by the partition key, and none through an index table, would look for it. Index tables
// refuse that.
#pragma once

#include "pg.h"

namespace index_table {

struct ForeignGuard;
// Allocated in the current memory context. Null for a table that is no partition. The relation
// stays open as long as the guard is used.
ForeignGuard *MakeForeignGuard(Relation leaf);
// Raises 23514 for a row that the partition's constraint does not allow.
void CheckStaysInPartition(ForeignGuard *guard, TupleTableSlot *row);
void FreeForeignGuard(ForeignGuard *guard);

} // namespace index_table
