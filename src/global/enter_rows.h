// Entering the rows of a partition that is part of a global index.
#pragma once

#include "pg.h"

namespace index_table {

// From now on the child that is made of a partition becomes part of its global index without
// entries of the rows that are there: whoever has it made enters those. InvalidOid: of none. An
// error must not leave it set.
void LeaveRowsOut(Oid partition);

// Enters the rows of a partition that a snapshot sees; returns how many. REQUIRES: `child` was made
// while nobody wrote to the partition, without its rows, and the snapshot taken before anybody did:
// then no entry is there already, and it sees no row that has one to come. It must be registered
// until this is over: what it sees keeps its line pointers. `rows_before`: as progress reports it.
int64 EnterSeenRows(Relation heap, Relation child, Snapshot snapshot, int64 rows_before);

} // namespace index_table
