#include "exec/identity_map.h"

namespace index_table {
namespace {

struct IdentityColumn {
    FmgrInfo *hash; // null: the type has no hash function
    FmgrInfo *equal;
    Oid collation;
    bool by_value;
    int16 length;
};

struct Known {
    Known *next;
    uint32 hash;
    Oid partition;
    NullableDatum *identity;
    void *value;
};

} // namespace

struct IdentityMap {
    MemoryContext memory;
    int column_count;
    IdentityColumn *columns;
    int count;
    int bucket_count; // a power of two
    Known **buckets;
};

namespace {

constexpr int kFirstBuckets = 64;

uint32 HashIdentity(const IdentityMap *map, Oid partition, const NullableDatum *identity) {
    uint32 hash = murmurhash32(partition);
    for (int i = 0; i < map->column_count; i++) {
        const IdentityColumn &column = map->columns[i];
        if (column.hash && !identity[i].isnull)
            hash = hash_combine(hash, DatumGetUInt32(FunctionCall1Coll(
                                          column.hash, column.collation, identity[i].value)));
    }
    return hash;
}

bool IsIdentity(const IdentityMap *map, const Known *known, Oid partition,
                const NullableDatum *identity) {
    if (known->partition != partition)
        return false;
    for (int i = 0; i < map->column_count; i++) {
        const IdentityColumn &column = map->columns[i];
        const NullableDatum &own = known->identity[i];
        if (own.isnull != identity[i].isnull ||
            (!own.isnull && !DatumGetBool(FunctionCall2Coll(column.equal, column.collation,
                                                            own.value, identity[i].value))))
            return false;
    }
    return true;
}

Known *FindKnown(const IdentityMap *map, uint32 hash, Oid partition,
                 const NullableDatum *identity) {
    for (Known *known = map->buckets[hash & (map->bucket_count - 1)]; known; known = known->next)
        if (known->hash == hash && IsIdentity(map, known, partition, identity))
            return known;
    return nullptr;
}

void Grow(IdentityMap *map) {
    int count = map->bucket_count * 2;
    Known **buckets = static_cast<Known **>(MemoryContextAllocExtended(
        map->memory, sizeof(Known *) * count, MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE));
    for (int i = 0; i < map->bucket_count; i++)
        for (Known *known = map->buckets[i], *next; known; known = next) {
            next = known->next;
            Known **bucket = &buckets[known->hash & (count - 1)];
            known->next = *bucket;
            *bucket = known;
        }
    pfree(map->buckets);
    map->buckets = buckets;
    map->bucket_count = count;
}

} // namespace

IdentityMap *MakeIdentityMap(MemoryContext memory, TupleDesc base, const AttrNumber *attnos,
                             int count) {
    Assert(count > 0 && count <= INDEX_MAX_KEYS);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    IdentityMap *map = palloc0_object(IdentityMap);
    map->memory = memory;
    map->column_count = count;
    map->columns = palloc0_array(IdentityColumn, count);
    for (int i = 0; i < count; i++) {
        Form_pg_attribute att = TupleDescAttr(base, attnos[i] - 1);
        // Entries of the type cache stay where they are as long as the session.
        TypeCacheEntry *type =
            lookup_type_cache(att->atttypid, TYPECACHE_HASH_PROC_FINFO | TYPECACHE_EQ_OPR_FINFO);
        map->columns[i] = {.hash = OidIsValid(type->hash_proc) ? &type->hash_proc_finfo : nullptr,
                           .equal = &type->eq_opr_finfo,
                           .collation = att->attcollation,
                           .by_value = att->attbyval,
                           .length = att->attlen};
    }
    map->bucket_count = kFirstBuckets;
    map->buckets = palloc0_array(Known *, kFirstBuckets);
    MemoryContextSwitchTo(caller);
    return map;
}

void **FindIdentity(IdentityMap *map, Oid partition, const NullableDatum *identity) {
    Known *known = FindKnown(map, HashIdentity(map, partition, identity), partition, identity);
    return known ? &known->value : nullptr;
}

void **PutIdentity(IdentityMap *map, Oid partition, const NullableDatum *identity, bool *found) {
    uint32 hash = HashIdentity(map, partition, identity);
    Known *known = FindKnown(map, hash, partition, identity);
    *found = known != nullptr;
    if (known)
        return &known->value;
    if (map->count >= map->bucket_count)
        Grow(map);
    MemoryContext caller = MemoryContextSwitchTo(map->memory);
    known = palloc0_object(Known);
    known->hash = hash;
    known->partition = partition;
    known->identity = palloc_array(NullableDatum, map->column_count);
    for (int i = 0; i < map->column_count; i++) {
        known->identity[i] = identity[i];
        if (!identity[i].isnull)
            known->identity[i].value =
                datumCopy(identity[i].value, map->columns[i].by_value, map->columns[i].length);
    }
    Known **bucket = &map->buckets[hash & (map->bucket_count - 1)];
    known->next = *bucket;
    *bucket = known;
    map->count++;
    MemoryContextSwitchTo(caller);
    return &known->value;
}

} // namespace index_table
