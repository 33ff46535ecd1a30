// Planning of INSERT … ON CONFLICT on base tables.
#pragma once

#include "pg.h"

namespace index_table {

constexpr char kConflictCheckName[] = "Index Table Conflict Check";

// Makes the state of the node; its plan's custom_private has the base table.
Node *CreateConflictCheck(CustomScan *scan);

// Puts the node below INSERT … ON CONFLICT DO NOTHING into tables with constrained index tables.
void AddConflictChecks(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output);

// Around planning: where a conflict target is the key of an index table, the error that PostgreSQL
// raises says what to do. After an error there is nothing to end.
void BeginConflictHint(ErrorContextCallback *callback, const Query *query);
void EndConflictHint(const ErrorContextCallback *callback);

void InitializeConflictPlan();

} // namespace index_table
