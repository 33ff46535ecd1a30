// Foreign keys that refer to a base table by what only an index table keeps unique.
#pragma once

#include "pg.h"

namespace index_table {

// For CREATE TABLE and ALTER TABLE. Where a foreign key refers to columns of a base table that have
// no unique constraint, but are the key of a unique index table, it raises PostgreSQL's own error
// (42830), with the reference that works as its hint. Does nothing for other commands, and leaves
// other errors to PostgreSQL. Locks base tables with AccessShareLock.
void CheckReferences(Node *command);

} // namespace index_table
