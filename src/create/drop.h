// What goes with an index table.
#pragma once

#include "pg.h"

namespace index_table {

// Forgets a dropped index table; with the last of a base table go its partition numbers and, when
// the base table can be locked without waiting or is locked already, its triggers.
void ForgetIndexTable(Oid index_table, Oid base);

} // namespace index_table
