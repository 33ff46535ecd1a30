// What a query does with the rows of a base table beyond reading them.
#pragma once

#include "pg.h"

namespace index_table {

enum class RowUse : int {
    Read,
    Lock,   // SELECT ... FOR UPDATE and its likes
    Change, // the target of UPDATE, DELETE or MERGE
};

// The lock on partitions that a use takes.
LOCKMODE LockModeFor(RowUse use);

// The name of the column with the partition's OID, as PostgreSQL has it for partitions that it
// planned itself; `rowmark` is the number of a row mark, 0 for the target.
const char *PartitionColumnName(Index rowmark);

} // namespace index_table
