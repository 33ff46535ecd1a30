// Hash tables of PostgreSQL's, by the bytes of a key that entries begin with.
#pragma once

#include "pg.h"

namespace index_table {

// In a context of its own below `memory`; `size` is the number of entries expected.
template <typename Key, typename Entry>
HTAB *MakeHashTable(const char *name, long size, MemoryContext memory) {
    HASHCTL control = {};
    control.keysize = sizeof(Key);
    control.entrysize = sizeof(Entry);
    control.hcxt = memory;
    return hash_create(name, size, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

} // namespace index_table
