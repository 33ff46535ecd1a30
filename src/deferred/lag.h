// How far index tables with queues lag behind their base tables: what is queued, for how long, and
// what that means to writers and queries: index_table.max_lag, .max_lag_changes and .on_lag.
#pragma once

#include "deferred/pack_reader.h"

namespace index_table {

struct QueueContents {
    int64 waiting;              // changes that the next drain carries out
    int64 set_aside;            // changes that could not be carried out
    TimestampTz oldest;         // of all; DT_NOEND: nothing is queued
    TimestampTz oldest_waiting; // likewise
    const char *error;          // the latest of those set aside; null: none
    int tries;                  // the most of them
};

// What a snapshot sees in the queue of an index table: the latest one, where what it would see has
// been cleared away. False where there is no queue, or it cannot be read on this server. The error
// is in the current memory context.
bool ReadQueue(const IndexTable *table, Snapshot snapshot, QueueContents *contents);
// Whether changes are left in the queue that `since` sees, others than this transaction's own, or
// any that are set aside.
bool HasQueued(const IndexTable *table, Snapshot since);

// Whether queries do without an index table, for it lags behind too far. What it says may be
// another thing the next time.
bool IsAvoided(const IndexTable *table);
// A statement is about to change rows of a relation: waits for, or warns of, index tables that lag
// behind too far.
void BeforeQueuing(Oid relid);

void InitializeLag();

} // namespace index_table
