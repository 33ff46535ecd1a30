// The index of an index table over identity and partition number, by which drains find what is
// stored of a row.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Columns of an identity, by their positions in an entry.
struct IdentityPositions {
    int count;
    int *positions;
};
// Those of an index table's own, in its order.
IdentityPositions PositionsOf(const IndexTable *table);

// The columns of the index: the identity's, and the partition number; attribute numbers of a
// relation that stores entries, whose columns are `stored`.
List *IdentityIndexColumns(const IndexTable *table, const IdentityPositions &identity,
                           const AttrNumber *stored);
// InvalidOid: there is none.
Oid FindIdentityIndex(Relation rel, List *columns);

// Creates the index where there is none. Takes ShareUpdateExclusiveLock on the index table, then
// ShareLock. Returns whether there was none. The caller is in EnterOwner().
bool EnsureIdentityIndex(const IndexTable *table, const IdentityPositions &identity);

} // namespace index_table
