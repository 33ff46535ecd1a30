// Draining the queues of foreign partitions.
#pragma once

#include "drain/shard_queue.h"

namespace index_table {

// The foreign partitions that index tables of the current user have whose wrapper is postgres_fdw,
// a list of OIDs; of one base table where that is valid.
List *ListDrainedLeaves(Oid base);

// Other partitions of such tables whose rows have entries on servers that were left unfinished: to
// be drained like those.
List *ListUnsettledLeaves(Oid base);

enum class DrainResult {
    Done,
    More,   // there may be more: others have their turn
    Busy,   // somebody else drains it, or has locked what that would write to
    Failed, // with an error that is noted
};

// Drains the queue of a partition, in several transactions. The caller is connected to SPI, not
// atomically. An error is noted, and raised as a WARNING where `warn`. Without `wait` it does not
// wait for locks on tables, and gives others their turn after some batches. `batches`: at most so
// many; 0: as many as is right.
DrainResult DrainLeaf(Oid leaf, bool wait, bool warn, int batches = 0);

// Locks a table as writers do. False, without `wait`, where that would have to wait.
bool LockToDrain(Oid relid, bool wait);

// Applies a batch; where that fails, row by row, and notes those that are refused.
void ApplyBatch(const ShardQueue *queue, QueueBatch *batch, Snapshot snapshot);

// index_table.drain_batch
int DrainBatchSize();
// In a transaction of ours, before anything is changed: nothing is deferred until its commit.
void CheckConstraintsAtOnce();

void InitializeDrain();
void InitializeBuildRows();
void InitializeDrainWorker();

} // namespace index_table
