// A session cache with one entry a relation, outdated by any change of that relation.
//
// As with definitions, an outdated entry is freed when the transaction has ended: what Find
// returned stays valid memory until then.
#pragma once

#include "pg.h"

namespace index_table {

// First member of what is cached. An entry is one memory context: `context` holds it whole.
struct CachedRelation {
    Oid relid;
    bool valid;
    MemoryContext context;
};

struct RelationCache {
    const char *name;
    HTAB *table;
    MemoryContext outdated;
    RelationCache *next;
};

// To be called once, from _PG_init; the cache lives as long as the session.
void InitializeRelationCache(RelationCache *cache, const char *name);

// Null where there is no valid entry.
CachedRelation *FindCached(RelationCache *cache, Oid relid);
// Takes over an entry whose context is a child of the caller's.
void PutCached(RelationCache *cache, CachedRelation *entry);
// Makes an entry that has become outdated for other reasons be made anew.
void ForgetCached(RelationCache *cache, CachedRelation *entry);

// How many times relations have been changed, as far as this session has been told. As long as it
// stays the same, so does the address of what the session knows of a relation that it has closed.
uint64 CountRelationChanges();

// The transaction has ended.
void AtEOXactRelationCaches();

} // namespace index_table
