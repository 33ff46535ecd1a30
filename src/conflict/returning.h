// RETURNING of INSERT ... ON CONFLICT (key of an index table) DO UPDATE.
//
// ModifyTable returns the rows that it inserts. Those that are updated below it are put between
// them, in order, by a node above it.
#pragma once

#include "pg.h"

namespace index_table {

// Puts the node above each ModifyTable of a finished plan that needs it.
void AddReturning(PlannedStmt *plan);

void InitializeReturning();

} // namespace index_table
