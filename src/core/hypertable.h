// Tables that TimescaleDB has made its own: to PostgreSQL's catalogs they are plain tables.
#pragma once

#include "pg.h"

namespace index_table {

// Whether a table is a hypertable, with or without chunks, or a chunk. No privileges are needed.
bool IsOfTimescale(Oid relid);

// Raises 0A000 where a table with index tables, or one that is captured, has become a hypertable:
// neither what is written to its chunks is told, nor what is compressed or dropped with them.
void RefuseHypertable(Oid relid);

} // namespace index_table
