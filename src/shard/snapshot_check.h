// How old postgres_fdw's view of a shard is.
//
// It reads a server under one snapshot until the transaction ends. Whoever locks writers out and
// then reads everything must not get to see an older state: of what others have written between,
// nothing would ever be entered.
#pragma once

#include "pg.h"

namespace index_table {

// Raises 25001 where this transaction has read or written servers of `leaves`, those of a base
// table whose writers are locked out, before they were: unless that was by this function's own
// callers, or the partitions are this transaction's own. Closes the session's idle connections to
// the servers. `action` is what is refused: "create …".
void RequireNewSnapshots(Oid base, List *leaves, const char *action);

// The same whatever was locked, and was done before; whether it would raise.
void RequireUnusedServers(List *leaves, const char *action);
bool HasUsedServers(List *leaves);

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactSnapshotChecks();
void AtEOSubXactSnapshotChecks(bool commits, int level);

} // namespace index_table
