// Whether a query is better served by index tables than by planning and asking every partition.
#pragma once

#include "plan/candidates.h"
#include "plan/clauses.h"

namespace index_table {

// Estimates both, from the statistics of the candidates' index tables, and notes in `set` what it
// expects. Under ScanPolicy::Force, whether the candidates can be used at all.
bool IsWorthwhile(PlannerInfo *root, RelOptInfo *rel, CandidateSet *set, const Clauses *clauses);

// The rows that the entries of an index path lead to, those that do not meet its conditions left
// out.
double CountFetchedRows(PlannerInfo *root, const Candidate *candidate, const IndexPath *path);

} // namespace index_table
