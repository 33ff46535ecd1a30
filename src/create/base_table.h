// What a base table must be, and what an index table over it may be.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Raises for every kind of relation that cannot be a base table.
void CheckBase(Relation base);

// Whether rows of a relation are told apart by these columns (attribute numbers of `base`).
bool HasUniqueIndex(Relation rel, Relation base, List *attnos);

// Whether text says deferred, not immediate; raises 22023.
bool ParseMaintenance(const char *text);

// Raises where an index table cannot be maintained through the queues of foreign partitions: 0A000,
// and 55000 where one is not captured. Asks the shards as the current user.
void CheckMayDefer(Oid base, bool is_unique, List *leaves);

} // namespace index_table
