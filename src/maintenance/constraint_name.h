// The name of a unique key, for ON CONFLICT ON CONSTRAINT: parse analysis looks it up among the
// constraints of the table that is inserted into, before anybody else sees the statement.
//
// So the base table has a row in pg_constraint by the name of the index that keeps the key unique,
// which depends on the index table and goes with it. Its type is that of constraint triggers,
// without a trigger: nothing enforces it, pg_dump and psql do not know it. What a dump does not
// have is made anew when the index table is restored.
#pragma once

#include "pg.h"

namespace index_table {

// Gives the base table of a unique index table that row, or its present name to the row that is
// there; a deferrable key cannot arbitrate and has none. Nothing is done where the key's index is
// missing, or the base table has another constraint by that name.
void EnsureConstraintName(Oid index_table);

// Removes that row, before the index table is dropped: PostgreSQL would take ACCESS EXCLUSIVE on
// the base table for it, after that on the index table, and deadlock with its readers. The caller
// holds AccessExclusiveLock on the index table.
void RemoveConstraintName(Oid index_table);

// The index table whose key a constraint of a base table names; InvalidOid: none.
Oid IndexTableOfConstraint(Oid constraint);

} // namespace index_table
