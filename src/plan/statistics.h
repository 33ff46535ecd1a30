// Statistics that the planner would read of partitions, of base tables that are planned as one
// table.
#pragma once

#include "catalog/public.h"

namespace index_table {

// True, with `statistics` filled, where index tables know better than PostgreSQL.
bool FindRelationStatistics(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno,
                            VariableStatData *statistics);
bool FindIndexStatistics(PlannerInfo *root, Oid index, AttrNumber attno,
                         VariableStatData *statistics);

// How much of the partitions of a global index is all-visible, as far as one of them tells.
double SampleVisibility(const IndexTable *table);

} // namespace index_table
