// Which of a transaction's snapshots show what it has built itself.
//
// Entries are made of the rows that the newest snapshot shows, and are the transaction's own, so
// that its older snapshots see them as well: that of REPEATABLE READ, or of a query that calls
// index_table.create(). Those may see other rows.
#pragma once

#include "pg.h"

namespace index_table {

// Entries of rows that others have written are made in this transaction, of the rows that the
// newest snapshot shows; others are kept from changing them until it ends.
void RememberOwnBuild();
// Whether a snapshot of this transaction sees, of others, what all entries were made of that it has
// remembered. False where that is not known: in a parallel worker.
bool ShowsOwnBuilds(Snapshot snapshot);

void AtEOXactOwnBuilds();

} // namespace index_table
