// Single-user mode, in which PostgreSQL fires no event triggers.
#pragma once

#include "pg.h"

namespace index_table {

// Raises 55000 for a command that event triggers have to follow, in a database that has the
// extension. REQUIRES: a transaction.
void RefuseInSingleUserMode(Node *command);

} // namespace index_table
