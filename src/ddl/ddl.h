// Following DDL: event triggers, called by PostgreSQL.
#pragma once

#include "pg.h"

namespace index_table {

void InitializeDdl();

} // namespace index_table
