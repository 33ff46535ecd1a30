// DROP of whatever kind, and what it takes along.
#pragma once

#include "pg.h"

namespace index_table {

// Before DROP and DROP OWNED: refuses what may not go, takes the locks that must be taken first,
// and remembers what nothing tells of afterwards.
void PrepareDrop(Node *statement);

} // namespace index_table
