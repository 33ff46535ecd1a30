// Whether this transaction may have changed rows on shards. Those are seen by the transaction that
// the foreign data wrapper has there, and by no other connection.
#pragma once

#include "pg.h"

namespace index_table {

// Errs on the safe side: it knows the statements, not what became of them.
bool MayHaveWrittenToShards();
// Something has been written to a server, by this library.
void RememberShardWrite();

// Before a query starts, or a utility command runs: notes what it will write to. Raises 0A000 where
// it is too late to reach shards.
void BeforeStartOfWrites(QueryDesc *query, int flags);
void BeforeUtilityWrites(Node *command);
// A subtransaction, or the transaction, has ended.
void AtEOSubXactWrites(bool commits, int level);
void AtEOXactWrites();

void InitializeWrites();

} // namespace index_table
