// Joins that look up rows of shards for many outer rows at once: nested loops with a node on their
// outer side that reads ahead (exec/outer_rows.h).
#pragma once

#include "pg.h"

namespace index_table {

// Adds such paths beside those that the planner has made for a join.
void AddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
                  JoinType type, JoinPathExtraData *extra);

} // namespace index_table
