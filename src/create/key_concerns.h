// Warnings of keys that statistics say little for: index_table.key_concerns(), in SQL.
#pragma once

#include "pg.h"

namespace index_table {

// Warns of the key of an index table that has just been made, with the rights of the session's
// user. Of unique ones nothing is said.
void WarnOfKey(Oid index_table);

// The same of the global indexes of a table that this transaction has made by the method of
// B-trees. Says nothing while a dump is loaded, whose owner has decided before.
void WarnOfNewGlobalIndexes(Oid base);

} // namespace index_table
