// What a base table must be, and what an index table over it may be.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Raises for every kind of relation that cannot be a base table.
void CheckBase(Relation base);

// The columns that `identity` names, or, where it is null, those of the primary key. Raises as
// ParseColumnList(), and 42704 where there is no primary key, with `detail` if it is not null.
List *ParseIdentity(Relation rel, const char *identity, const char *detail);

// Whether text says deferred, not immediate; raises 22023.
bool ParseMaintenance(const char *text);

// Raises where an index table cannot be maintained deferred: 0A000, and 55000 where a foreign
// partition has no outbox. Asks the shards as the current user.
void CheckMayDefer(const IndexTable *table, List *leaves);

} // namespace index_table
