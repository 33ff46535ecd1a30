// What a session has found out about relations, kept as long as nothing at all changes.
#pragma once

#include "catalog/definition.h"

namespace index_table {

// A static variable; all zero to begin with. `Entry` begins with the OID of its relation, `relid`.
template <typename Entry>
struct KnownRelations {
    HTAB *table;
    uint64 since; // CacheGeneration()

    // Null where nothing is known.
    const Entry *Find(Oid relid, const char *name) {
        if (table && since != CacheGeneration()) {
            hash_destroy(table);
            table = nullptr;
        }
        if (!table) {
            table = MakeHashTable<Oid, Entry>(name, 64, CacheMemoryContext);
            since = CacheGeneration();
        }
        return static_cast<Entry *>(hash_search(table, &relid, HASH_FIND, nullptr));
    }

    // What was found out since Find() did not know; forgotten where something has changed
    // meanwhile.
    void Add(const Entry &entry) {
        if (since == CacheGeneration())
            *static_cast<Entry *>(hash_search(table, &entry.relid, HASH_ENTER, nullptr)) = entry;
    }
};

} // namespace index_table
