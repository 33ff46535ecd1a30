// Hashes of the first key column, by which a pack tells which of its rows a look-up by key has to
// care about: those that had the key before the change, or have it after.
//
// What a pack has of them begins with a stamp of all that a hash rests on: this server, the index
// table, the type, its hash function and collation. Packs with another one, restored or from before
// ALTER TYPE, tell nothing, and all of their rows are looked at. So it is with packs without
// hashes: of keys whose type has no hash function, or is composite or made of such.
#pragma once

#include "catalog/public.h"

namespace index_table {

struct KeyHasher {
    CachedRelation cached;
    uint64 table_serial;
    uint64 stamp;
    bool is_usable; // values have hashes that last
    Oid family;     // of operators, those of the index table
    Oid input;      // type
    Oid procedure;
    Oid collation;
    FmgrInfo hash;
};

// Cached; valid memory until the transaction ends.
KeyHasher *GetKeyHasher(const IndexTable *table);

uint32 HashKey(KeyHasher *hasher, Datum value, bool isnull);
// The function that hashes values of another type so that those equal to a key have its hash; false
// where there is none.
bool FindHashOf(const KeyHasher *hasher, Oid type, FmgrInfo *hash);

// The hashes of a pack, in order, each with the place of an identity that it belongs to. As stored:
// the stamp, the count, the hashes, the places.
struct KeyHashes {
    uint32 count;
    const uint32 *hashes;
    const uint16 *places;
};
bytea *PackHashes(const KeyHasher *hasher, uint32 *hashes, uint16 *places, int count);
// False where the pack tells nothing. `stored` is not toasted; points into it, or, where it is not
// aligned, into a copy.
bool ReadHashes(const KeyHasher *hasher, bytea *stored, KeyHashes *hashes);

void InitializeKeyHashes();

} // namespace index_table
