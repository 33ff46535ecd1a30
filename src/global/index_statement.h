// CREATE INDEX … USING global, before PostgreSQL carries it out.
#pragma once

#include "pg.h"

namespace index_table {

bool IsGlobal(const IndexStmt *statement);

// Raises 0A000 for forms that a global index cannot have, and for a unique one that would stand
// alone (lone_index.h); then mirrors operator classes
// (operator_classes.h), and names them in the statement. Locks the table as the command will,
// after the same checks of ownership. REQUIRES: IsGlobal().
void PrepareGlobalIndex(IndexStmt *statement);

// Raises 0A000 for what TimescaleDB has made its own. PrepareGlobalIndex() does; that extension
// builds indexes without it.
void RefuseTimescale(Oid base);

// Before ALTER INDEX: raises 0A000 for options of a global index that stay as they were made. Locks
// nothing.
void RefuseNewOptions(const AlterTableStmt *statement, Oid index);

// Raises 0A000 where a table has global indexes, and what has become a partition of it, or a
// partition of that, is a foreign table. Locks nothing.
void CheckNewPartition(Oid base, Oid partition);

} // namespace index_table
