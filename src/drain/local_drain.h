// Draining the queues of index tables that are maintained deferred over local partitions.
//
// Rows are read, entries compared and changed, and packs removed, in one transaction under one
// snapshot: nothing is drained twice or halfway, and a snapshot sees the packs or the entries.
#pragma once

#include "deferred/public.h"
#include "drain/drain.h"

namespace index_table {

// Index tables with queues of the current user, a list of OIDs; of one base table where that is
// valid.
List *ListQueued(Oid base);

// Drains the queue of an index table, in several transactions, and clears it of what was drained.
// The caller is connected to SPI, not atomically. Rows that cannot be entered are set aside in the
// queue, with the error; an error of another kind is raised as a WARNING where `warn`, else logged.
// Without `wait` it gives way where somebody else drains it or has locked a table that this would
// read or write, and takes turns; other locks are waited for as lock_timeout says.
DrainResult DrainQueue(Oid index_table, bool wait, bool warn);

// Carries out all that is queued in this transaction, what was set aside too; raises its error. The
// caller has locked the base table with AccessExclusiveLock and is in EnterOwner() of it.
void ApplyQueue(const IndexTable *table);

} // namespace index_table
