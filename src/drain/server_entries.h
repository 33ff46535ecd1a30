// What index tables on servers store of rows, for the sweep of intents; and whether transactions
// that have failed here have ended there.
#pragma once

#include "drain/shard_queue.h"
#include "drain/stored_entries.h"

namespace index_table {

// Whether some index table of a partition is on servers.
bool HasServers(const Leaf *leaf);

// Keeps writers from the partition until the transaction ends, and waits for those that have
// written through this server. Then false if others, of those that had by then ended here, have not
// ended on the servers of its index tables: they may still commit what they have written there.
bool AreServersSettled(const Leaf *leaf, Oid relid);

// Finds what is stored of rows, by row, as postgres_fdw sees it. The relation of the result is the
// index table; to be closed.
Finder *FindOnServers(const IndexTable *table, const ShardQueue *queue, std::span<QueuedRow> rows,
                      StoredEntries *stored);

} // namespace index_table
