// Partitions that are truncated get other numbers.
#pragma once

#include "pg.h"

namespace index_table {

// After a TRUNCATE that named foreign tables, or tables above them: gives those another number that
// still have the one they had before.
void FollowTruncate(List *foreign, List *numbers);

} // namespace index_table
