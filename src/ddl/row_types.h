// Row types whose values index tables are partitioned by.
#pragma once

#include "pg.h"

namespace index_table {

// Before ALTER TYPE and ALTER TABLE: raises 0A000 where a row type gets or loses a column, and with
// it all its values another hash, by which an index table is partitioned.
void RefuseNewHashes(const AlterTableStmt *statement);

} // namespace index_table
