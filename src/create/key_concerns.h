// Warnings of keys that statistics say little for: index_table.key_concerns(), in SQL.
#pragma once

#include "pg.h"

namespace index_table {

// Warns of the key of an index table that has just been made, with the rights of the session's
// user. Of unique ones nothing is said.
void WarnOfKey(Oid index_table);

// After CREATE INDEX: the same of the global index that was made last, if this transaction has made
// it by the method of B-trees. Says nothing while a dump is loaded, whose owner has decided before,
// nor to a user who may not call the function.
void WarnOfNewGlobalIndex(Oid base);

} // namespace index_table
