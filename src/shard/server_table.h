// Tables that the extension makes on servers, remembered until they are gone there: whatever
// becomes of the transaction that makes them, or of this server, and however the foreign tables go
// that stand for them.
//
// index_table.server_table has a row for each. That of a table that is about to be made is inserted
// frozen, flushed, and deleted by the same transaction, like an intent (maintenance/intent.h): it
// is seen if the transaction fails. A table is dropped by its server alone if its comment is the
// one that it was made with, which nobody can foretell, and nothing there depends on it.
#pragma once

#include "pg.h"

namespace index_table {

// Remembers the table that a foreign table of this transaction is about to stand for. Returns the
// comment that it is to be given. In the current memory context.
char *RememberServerTable(Oid foreign_table);

// The same of one that is there already: where it is not known yet, the comment that it is to be
// given; else null.
char *AdoptServerTable(Oid foreign_table);

// What a foreign table stands for is dropped once this transaction has committed: it moves to
// another server.
void AbandonServerTable(Oid foreign_table);

// Drops what nothing here stands for any more, of the roles whose rights the user has, unless
// this transaction has written anything: it may have been the drop, which may fail. Locks
// nothing but its own rows, waits at most some seconds for locks on servers, and warns of what it
// cannot do, which the next call tries again. Returns how many were dropped.
int64 ForgetServerTables();

} // namespace index_table
