// Draining the queues of foreign partitions.
#pragma once

#include "drain/shard_queue.h"

namespace index_table {

// The foreign partitions that index tables of the current user have whose wrapper is postgres_fdw,
// a list of OIDs; of one base table where that is valid.
List *ListDrainedLeaves(Oid base);

// Drains the queue of a partition, in several transactions. The caller is connected to SPI, not
// atomically. An error is noted, and raised as a WARNING where `warn`. Returns false then.
bool DrainLeaf(Oid leaf, bool warn);

// Applies a batch; where that fails, row by row, and notes those that are refused.
void ApplyBatch(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot);

void InitializeDrain();
void InitializeDrainWorker();

} // namespace index_table
