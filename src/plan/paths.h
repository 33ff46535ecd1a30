// The paths of a base table that is read through index tables.
#pragma once

#include "pg.h"

namespace index_table {

// Replaces those that the planner has made for a marked reference.
void AddPaths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

} // namespace index_table
