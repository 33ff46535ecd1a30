#include "core/relation_cache.h"

namespace index_table {
namespace {

constinit RelationCache *caches = nullptr; // all that there are
constinit uint64 changes = 0;

struct HashEntry {
    Oid relid; // hash key
    CachedRelation *cached;
};

void Outdate(RelationCache *cache, Oid relid) {
    if (!cache->table)
        return;
    if (OidIsValid(relid)) {
        HashEntry *entry =
            static_cast<HashEntry *>(hash_search(cache->table, &relid, HASH_FIND, nullptr));
        if (entry && entry->cached)
            entry->cached->valid = false;
        return;
    }
    HASH_SEQ_STATUS status;
    hash_seq_init(&status, cache->table);
    while (HashEntry *entry = static_cast<HashEntry *>(hash_seq_search(&status)))
        if (entry->cached)
            entry->cached->valid = false;
}

// Runs inside cache invalidation: marks only. One for all caches: a session has few callbacks.
void OnRelcacheInvalidation(Datum, Oid relid) {
    changes++;
    for (RelationCache *cache = caches; cache; cache = cache->next)
        Outdate(cache, relid);
}

} // namespace

uint64 CountRelationChanges() {
    return changes;
}

void AtEOXactRelationCaches() {
    for (RelationCache *cache = caches; cache; cache = cache->next)
        if (cache->outdated)
            MemoryContextDeleteChildren(cache->outdated);
}

void InitializeRelationCache(RelationCache *cache, const char *name) {
    Assert(!cache->table);
    if (!caches)
        CacheRegisterRelcacheCallback(OnRelcacheInvalidation, 0);
    cache->name = name;
    cache->next = caches;
    caches = cache;
}

CachedRelation *FindCached(RelationCache *cache, Oid relid) {
    if (!cache->table)
        return nullptr;
    HashEntry *entry =
        static_cast<HashEntry *>(hash_search(cache->table, &relid, HASH_FIND, nullptr));
    if (!entry || !entry->cached)
        return nullptr;
    if (entry->cached->valid)
        return entry->cached;
    ForgetCached(cache, entry->cached);
    return nullptr;
}

void PutCached(RelationCache *cache, CachedRelation *cached) {
    Assert(IsTransactionState() && cached->valid);
    Assert(MemoryContextGetParent(cached->context) != CacheMemoryContext);
    if (!cache->table) {
        HASHCTL control = {};
        control.keysize = sizeof(Oid);
        control.entrysize = sizeof(HashEntry);
        control.hcxt = CacheMemoryContext;
        cache->outdated = AllocSetContextCreate(
            CacheMemoryContext, "index_table outdated relations", ALLOCSET_SMALL_SIZES);
        cache->table =
            hash_create(cache->name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    bool found;
    HashEntry *entry =
        static_cast<HashEntry *>(hash_search(cache->table, &cached->relid, HASH_ENTER, &found));
    entry->cached = cached;
    MemoryContextSetParent(cached->context, CacheMemoryContext);
}

void ForgetCached(RelationCache *cache, CachedRelation *cached) {
    Assert(MemoryContextGetParent(cached->context) == CacheMemoryContext);
    MemoryContextSetParent(cached->context, cache->outdated);
    hash_search(cache->table, &cached->relid, HASH_REMOVE, nullptr);
}

} // namespace index_table
