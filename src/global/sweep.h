// The sweep: stale entries of all partitions are removed from a tree at once.
//
// PostgreSQL's autovacuum schedules it: VACUUM of a partition reports the entries that it leaves
// behind as dead rows of the storage relation, whose VACUUM is the sweep. So thresholds, workers,
// cost limits and pg_stat_all_tables are those of any table. VACUUM of a partition sweeps itself
// only if generations would wrap around.
#pragma once

#include "pg.h"

namespace index_table {

// REQUIRES: ShareUpdateExclusiveLock on the storage. What others lock exclusively is left for the
// next. Returns how many were removed.
int64 Sweep(Relation storage, BufferAccessStrategy strategy);

// Entries have become stale.
void ReportStale(Relation storage, int64 count);

} // namespace index_table
