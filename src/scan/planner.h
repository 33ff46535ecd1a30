#pragma once

#include "catalog/definition.h"

namespace index_table {

// Whether a query is being planned in which base tables are, or were, marked.
bool IsPlanningScans();

// Whether a range table entry is marked: planned as a plain table for now.
bool IsMarked(const RangeTblEntry *rte);
// The planner has made its paths for a marked entry: what executes it is told the truth.
void RestoreRelationKind(RangeTblEntry *rte);

// What the planner would know of the parent of partitions.
void GetNativeInfo(PlannerInfo *root, Oid relid, RelOptInfo *rel);

// The plan being made reads an index table.
void NoteUse(const IndexTable *table);

void InitializePlanner();

} // namespace index_table
