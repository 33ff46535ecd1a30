// Entries that a transaction has written for a partition which it then truncates, detaches or
// drops. Others may wait for this transaction because of their keys: they must find them gone, for
// they do not look at partition numbers.
#pragma once

#include "pg.h"

namespace index_table {

// Notes that this transaction writes entries of a partition.
void RememberWrittenPartition(int32 partition_id);
bool IsWrittenPartition(int32 partition_id);

// Removes the entries that this transaction has written for a leaf whose number is about to be
// retired. Nothing, in no time, where it has written none; else index tables are read as a whole.
void RemoveOwnEntries(Oid leaf);

// The transaction has ended.
void AtEOXactOwnEntries();

} // namespace index_table
