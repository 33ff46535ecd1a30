// Where the planner puts row switches (exec/row_switch.h): below what changes or locks rows that
// are found through index tables.
#pragma once

#include "pg.h"

namespace index_table {

void AddRowSwitches(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output);

} // namespace index_table
