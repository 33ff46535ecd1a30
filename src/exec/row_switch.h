// Changing and locking rows that are found through index tables.
//
// PostgreSQL's executor expects a relation to change, or to lock rows of, for every partition from
// the start. Here it has one, the base table itself; a node below it, the row switch, gives it the
// partition that each row comes from when the row passes. All the rest, triggers, row movement,
// foreign keys, RETURNING, checks, looking again at rows that others have changed, is PostgreSQL's.
#pragma once

#include "pg.h"

namespace index_table {

// Whether the server's ResultRelInfo, of which the executor has an array, is the one that this was
// compiled for: minor releases have changed its size. Where it is not, that is logged once a
// session.
bool CanChangeRows();

// Of the node, whose custom_private lists the numbers of the row marks whose partitions it
// switches; 0 for the target of UPDATE, DELETE or MERGE.
const CustomScanMethods *RowSwitchMethods();

// Has EXPLAIN find the subqueries that `SET (a, b) = (SELECT ...)` refers to, which it looks for
// among the columns of the node that refers to them: of switches below a ModifyTable. The plan is
// finished.
void ShowSubqueries(PlannedStmt *plan);

void InitializeRowSwitch();

} // namespace index_table
