// What the planner is told of an index of an index table, as if it were one of the base table.
#pragma once

#include "plan/candidates.h"

namespace index_table {

// Fill a candidate's info, of `rel`, from an index of the open index table `entries`, whose columns
// are `stored`. The candidate's other members but the predicate are set.
void DescribeEntryIndex(Candidate *candidate, RelOptInfo *rel, Relation index,
                        const AttrNumber *stored);
void DescribeOwnerIndex(Candidate *candidate, RelOptInfo *rel, Relation entries, Relation index);

} // namespace index_table
