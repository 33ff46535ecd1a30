// INSERT … ON CONFLICT DO NOTHING: rows that conflict with a unique or exclusion constraint of an
// index table are left out, as PostgreSQL leaves out those that conflict with the table's own.
//
// A node below ModifyTable gives every partition that a row goes to one more BEFORE ROW trigger,
// for this statement only, after those of users: there a row is as it will be inserted, and can
// still be left out. It does what PostgreSQL does at that point, in the same order: row security
// and constraints are checked, then conflicts are looked for; then the row's entries are inserted
// speculatively.
#pragma once

namespace index_table {

void InitializeConflictCheck();

} // namespace index_table
