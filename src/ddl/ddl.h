// Following DDL: event triggers, called by PostgreSQL.
#pragma once

#include "pg.h"

namespace index_table {

void InitializeDdl();

// Before InitializeMaintenance(): inside its hook, which notes the TRUNCATE that runs.
void InitializeTruncation();

} // namespace index_table
