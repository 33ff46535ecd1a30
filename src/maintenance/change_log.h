// The log of an index table that is being built concurrently: a table with the columns of an entry,
// in order, and last a smallint, +1 or -1. What a partition's rows come to under a snapshot, and
// all logged changes of transactions that the snapshot does not see, make the partition's entries.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

// Appends changes to the log of the buffer's index table. `memory` is the caller's to free.
void LogChanges(const ChangeBuffer *buffer, const NetChanges &net, MemoryContext memory);

} // namespace index_table
