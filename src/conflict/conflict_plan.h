// Planning of INSERT … ON CONFLICT on base tables.
#pragma once

#include "pg.h"

namespace index_table {

constexpr char kConflictCheckName[] = "Index Table Conflict Check";

// Makes the state of the node. Its plan's custom_private has the base table and, where the
// statement has a conflict target, the index table that arbitrates.
Node *CreateConflictCheck(CustomScan *scan);

// Whether a plan is one of the node.
bool IsConflictCheck(const Plan *plan);

// Puts the node below INSERT ... ON CONFLICT DO NOTHING into tables with constrained index tables,
// and below INSERT ... ON CONFLICT with a target that is the key of one. Errors: as InferArbiter().
void AddConflictChecks(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output);

void InitializeConflictPlan();

} // namespace index_table
