// The queue of an index table that is maintained deferred over local partitions: a table beside it,
// partitioned in two parts of which writers use one while the other is emptied.
//
// A row is a pack: the identities of rows that one statement has changed, an array for each column
// of the identity, in the order of IndexTable::identity. What is in the queue under a snapshot, and
// what the index table shows under it, say together what it should hold: see docs/internals.
#pragma once

#include "catalog/definition.h"

namespace index_table {

constexpr AttrNumber kPackPart = 1;     // smallint: which part
constexpr AttrNumber kPackTime = 2;     // timestamptz: of the transaction
constexpr AttrNumber kPackCount = 3;    // integer: identities
constexpr AttrNumber kPackKeys = 4;     // bytea: their keys as hashes, see deferred/key_hashes.h
constexpr AttrNumber kPackError = 5;    // text: why it is set aside; null: it is not
constexpr AttrNumber kPackTries = 6;    // integer: how often it failed
constexpr AttrNumber kPackRetryAt = 7;  // timestamptz: when it is tried again
constexpr AttrNumber kPackIdentity = 8; // the first array

constexpr int kQueueParts = 2;

struct QueueColumn {
    Oid type; // of an element, as the queue stores it
    int16 length;
    bool by_value;
    char align;
};

struct Queue {
    CachedRelation cached;
    Oid parts[kQueueParts];
    // Drains up to these have been cleared away: snapshots that do not see them are not served by
    // the part any more.
    FullTransactionId emptied[kQueueParts];
    int identity_count;
    QueueColumn *identity;
};

// What a queue that is made has arrays of for values of a type: of a domain that below it, since
// PostgreSQL does not alter a domain of which tables have arrays.
Oid QueuedType(Oid type);

// Null where an index table has no queue, or what it has is not one. Cached; valid memory until the
// transaction ends.
const Queue *FindQueue(const IndexTable *table);

// Whether what is queued under a snapshot is still there. REQUIRES AccessShareLock on the parts,
// taken before the queue was looked up.
bool ShowsQueue(const Queue *queue, Snapshot snapshot);

// Whether an index table should have a queue, and has none that fits: a dump may bring it so. It
// has missed changes then.
bool LacksQueue(const IndexTable *table);

// Records that what `drained` and drains before it have taken out of a part is about to be cleared
// away. The caller commits before it is.
void RecordEmptied(Oid queue, Oid part, TransactionId drained);
// The queue is being dropped.
void ForgetEmptied(Oid queue);

void InitializeQueueCache();

} // namespace index_table
