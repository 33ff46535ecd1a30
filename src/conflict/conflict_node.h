// INSERT … ON CONFLICT into tables whose index tables have constraints: rows that conflict with
// them are left out, as PostgreSQL leaves out those that conflict with the table's own, or have the
// row that is there updated.
//
// A node below ModifyTable gives every partition that a row goes to one more BEFORE ROW trigger,
// for this statement only, after those of users: there a row is as it will be inserted, and can
// still be left out. It does what PostgreSQL does at that point, in the same order: row security
// and constraints are checked, then conflicts are looked for; then the row's entries are inserted
// speculatively.
#pragma once

#include "pg.h"

namespace index_table {

// What RETURNING says of the rows that were updated since it was taken last, in order. `check` is
// the state of the node. Null: nothing.
Tuplestorestate *RowsReturnedByUpdates(PlanState *check);

void InitializeConflictCheck();

} // namespace index_table
