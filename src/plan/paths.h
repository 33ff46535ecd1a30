// The paths of a base table that is read through index tables.
#pragma once

#include "pg.h"

namespace index_table {

// Replaces those that the planner has made for a marked reference.
void AddPaths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

// The one index path that a path of ours reads rows by; null where it is none, or reads something
// else.
IndexPath *GetIndexPath(const Path *path);

// What reading rows of shards by a path costs where `at_once` such scans are carried out together.
Cost CostOfLookup(PlannerInfo *root, RelOptInfo *rel, const IndexPath *path, double at_once);

// Rows that are worth fetching at once while it is not known how many of `path` will be asked for.
int FirstBatch(PlannerInfo *root, const Path *path);

} // namespace index_table
