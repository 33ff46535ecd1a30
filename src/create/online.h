// Building index tables while others write.
//
// Changes go to a log from the moment the definition is committed. Each partition is loaded in a
// transaction of its own, together with the removal of what the log holds that its snapshot sees;
// then come the indexes, then the log again and again until little is left of it, and that little
// under a lock that keeps writers out. A unique index comes after the log has been replayed once.
// Whatever interrupts this, what has been committed is true, and rebuild() goes on from there.
//
// Rows of foreign partitions are not seen under a snapshot of this server. Where they are captured
// on theirs, all their changes are queued there, and drains leave in the log which rows they were:
// those are read again, and once more at the end, under the lock, with those that are still queued.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Takes ShareRowExclusiveLock on a base table and everything below it. While it waits for somebody
// who has written to a partition, it holds nothing: whoever did may come to write to the base
// table.
void LockOutWriters(Oid base);

// Creates the log of an index table and returns it. The caller is in EnterOwner().
Oid CreateLog(Oid index_table);
// Drops a log, if it is there. No writer must know of it any more; the caller
// holds AccessExclusiveLock on it.
void DropLog(Oid log);

// Commits the current transaction, and completes an index table that has a log in several more.
void BuildConcurrently(Oid index_table);

void InitializeOnlineBuild();

} // namespace index_table
