// Whether this transaction may have changed rows on shards. Those are seen by the transaction that
// the foreign data wrapper has there, and by no other connection.
#pragma once

#include "pg.h"

namespace index_table {

// Errs on the safe side: it knows the statements, not what became of them.
bool MayHaveWrittenToShards();

void InitializeWrites();

} // namespace index_table
