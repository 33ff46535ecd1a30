// A map from rows, told by partition and identity, to whatever is known of them.
#pragma once

#include "pg.h"

namespace index_table {

struct IdentityMap;

// Of the columns `attnos` of the base table, compared as their types' own equality does,
// null equal to null. Lives in
// `memory`, as do the keys of what is added.
IdentityMap *MakeIdentityMap(MemoryContext memory, TupleDesc base, const AttrNumber *attnos,
                             int count);

// The place of what is known of a row; null where nothing is.
void **FindIdentity(IdentityMap *map, Oid partition, const NullableDatum *identity);
// The same, made where there is none: `found` says whether there was. The identity is copied.
void **PutIdentity(IdentityMap *map, Oid partition, const NullableDatum *identity, bool *found);

} // namespace index_table
