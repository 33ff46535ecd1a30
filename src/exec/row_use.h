// What a query does with the rows of a base table beyond reading them.
#pragma once

#include "pg.h"

namespace index_table {

enum class RowUse : int {
    Read,
    Lock,   // SELECT ... FOR UPDATE and its likes
    Change, // the target of UPDATE, DELETE or MERGE
};

// The lock on partitions that a use takes, and the use that takes a lock.
LOCKMODE LockModeFor(RowUse use);
RowUse UseOf(LOCKMODE lock);

// How rows of the relation, of which a query makes this use, are locked where they are.
LockClauseStrength StrengthFor(RowUse use, EState *estate, Index rti);

// The name of the column with the row of a foreign partition as it was, as PostgreSQL has it.
constexpr const char *kWholeRowColumn = "wholerow";

// The name of the column with the partition's OID, as PostgreSQL has it for partitions that it
// planned itself; `rowmark` is the number of a row mark, 0 for the target.
const char *PartitionColumnName(Index rowmark);

} // namespace index_table
