// Following DDL: event triggers, called by PostgreSQL.
#pragma once

#include "pg.h"

namespace index_table {

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactCommands();
void AtEOSubXactCommands(bool commits, int level);

// TRUNCATE of foreign tables: those below what the command names, with their partition numbers, for
// FollowTruncate() when it has run. REQUIRES SetTruncate().
struct TruncatedLeaves {
    List *foreign;
    List *numbers;
};
TruncatedLeaves ListTruncatedForeign(Node *command);

} // namespace index_table
