// What a shard's own catalog says of the table behind a foreign partition.
#pragma once

#include "pg.h"

namespace index_table {

// Raises unless the table that a foreign one stands for has a primary key, or a unique index over
// columns that cannot be NULL, whose columns are all among `identity`; and unless these columns and
// `others` have the types that they have here. Columns are attribute numbers of the base table.
// Asks the shard as the current user. Errors: 42P01 no such table, 42809 it is none, 0A000 it has
// partitions, 42703 no such column, 42830 nothing unique, 42804 another type, and those of
// OpenConnection().
void CheckShardIdentity(Relation base, Oid foreign_table, List *identity, List *others);

} // namespace index_table
