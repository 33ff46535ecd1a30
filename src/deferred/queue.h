// Queues made, dropped, and cleared of what has been drained.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Creates the queue of an index table, in its schema: its guard, its dependency. The caller is in
// EnterOwner() of the index table, which it has locked with AccessExclusiveLock.
Oid CreateQueue(const IndexTable *table);
// Has the queue that a dump has brought with an index table go with it. Nothing where it does not
// fit.
void AdoptQueue(const IndexTable *table);
// Drops the queue that goes with an index table. Takes AccessExclusiveLock. Nothing where it is
// gone, or goes with something else.
void DropQueue(Oid index_table, Oid queue);
// Gives an index table that a dump has brought without a queue that fits a new one. REQUIRES
// ShareRowExclusiveLock on the base table; the caller is in EnterOwner().
void EnsureQueue(const IndexTable *table);
// Empties the queue of an index table that has one, and gives its columns the types that those of
// the base table have by now. REQUIRES AccessExclusiveLock on the base table, and that the index
// table has learned of all that was queued, for snapshots that see this transaction (RecordBuild).
void RenewQueue(const IndexTable *table);
// Removes all that is queued. REQUIRES the same lock, and that the index table has learned of it.
void ClearQueue(const IndexTable *table);
// Whether deferred maintenance of local partitions can do with the identity of an index table:
// else raises 0A000.
void CheckMayQueue(const IndexTable *table);

} // namespace index_table
