// What is known of a reference to a base table before any plan is made.
#pragma once

#include "plan/candidates.h"
#include "plan/clauses.h"

namespace index_table {

enum class Decision {
    Natively, // the partition key is determined: no index does better
    Index,    // so few entries that finding their rows costs less than it does to begin natively
    Compare,  // the costs of whole plans tell
};

// Notes in `set` how many partitions are left by the query's conditions on their key, and what
// beginning with them costs natively.
Decision Decide(PlannerInfo *root, RelOptInfo *rel, CandidateSet *set, const Clauses *clauses);

// The rows that the entries of an index path lead to, those that do not meet its conditions left
// out.
double CountFetchedRows(PlannerInfo *root, const Candidate *candidate, const IndexPath *path);

} // namespace index_table
