// Index tables that arrive with the schema of a dump.
#pragma once

#include "pg.h"

namespace index_table {

// After CREATE RULE made the definition of a table: makes it an index table again, if it is one.
// What it holds is looked at later (maintenance/settle.h). Raises 42809 and 55000 where the table
// is not as create() makes it, 42501 where another role owns it than the base table. The caller
// holds AccessExclusiveLock on the table.
void RegisterRestored(Oid relid);

} // namespace index_table
