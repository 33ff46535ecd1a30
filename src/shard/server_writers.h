// Who writes to the tables of index tables on servers: a transaction that has ended here may have
// to end there yet.
#pragma once

#include "pg.h"

namespace index_table {

// Waits a moment for transactions that have written entries of some index tables on their servers,
// a list of OIDs; false where one is still going on. Asks the servers as the index tables' owners,
// over the extension's own connections: this transaction's own writing there counts, too.
bool HaveWritersEnded(List *index_tables);

} // namespace index_table
