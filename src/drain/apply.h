// Carrying queued changes of rows into index tables.
#pragma once

#include "drain/shard_queue.h"

namespace index_table {

// Gives every index table of the partition's base the entries that the rows have, and no others
// with their identities: what is there already stays, so that nothing happens twice. Rows whose
// entries other transactions have changed since `snapshot` was taken, or are changing, are left out
// and marked as contended: rows may have been read before those changes, or after. REQUIRES: the
// rows were read after `snapshot` was taken. The caller holds RowExclusiveLock on base and
// partition and is in EnterOwner(). Raises what writing entries raises.
// With `only` one index table instead. One that is being built is told in its log of the rows.
void ApplyRows(const ShardQueue *queue, std::span<QueuedRow> rows, Snapshot snapshot,
               const IndexTable *only = nullptr);

// For an index table that this session builds, and nobody else changes: collects the same changes
// for ApplyChanges(). No identity comes twice until then. `snapshot` sees all that this transaction
// has changed.
void CollectForBuild(const ShardQueue *queue, std::span<QueuedRow> rows, Snapshot snapshot,
                     EntryCollector *collector);

// Positions in an index table of the columns of the queue's identity, in its order.
IdentityPositions PositionsIn(const ShardQueue *queue, const IndexTable *table);

// Creates the index that finds entries by partition and identity for index tables that have none,
// but for those that are being built. Takes ShareUpdateExclusiveLock on those, then ShareLock.
// Returns whether there were some.
bool EnsureIdentityIndexes(const ShardQueue *queue);
// The same for one index table, which may be being built.
bool EnsureIdentityIndexOf(const ShardQueue *queue, const IndexTable *table);

} // namespace index_table
