// How to write to a relation that holds entries: an index table or a partition of one.
#pragma once

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {

// What is known of a relation that holds entries, kept for the session so that a single row does
// not pay for it. Invalidated through the relation cache.
struct TargetPlan {
    CachedRelation cached;
    bool general;         // to be written through the executor
    bool has_constraints; // indexes that entries may conflict in
    int index_count;
    Oid *index_oids;
    IndexInfo **index_infos;
    TupleDesc descriptor;
    int search_index; // the B-tree that finds an entry
    int search_key_count;
    ScanKeyData *search_keys;
    int null_index; // likewise where a unique key has NULLs; -1: none
    int null_key_count;
    ScanKeyData *null_keys;
};

// Whether changes of entries fire triggers: those of users and of constraints.
bool HasRowTriggers(Relation rel);

// Whether foreign keys point at an index table, or at a partition of one.
bool IsReferencedByForeignKey(Relation rel);

// Whether a statement that runs changes tables whose foreign keys point at an index table, so that
// PostgreSQL may look for an entry in the middle of it without a query: what is captured must be
// there at once.
bool IsLookedAtDirectly(Relation rel);

// What the indexes of an index table, those of its owner included, are good for.
struct IndexRoles {
    bool finds_entries;
    bool keeps_unique; // the key of a unique index table
    bool finds_nulls;  // entries of one that have a NULL in their key
};
// Those in `without`, OIDs, do not count.
IndexRoles FindIndexRoles(Relation rel, const IndexTable *table, const List *without = NIL);

// Whether an index is as create() makes it for an index table that is not unique.
bool IsOwnSearchIndex(Relation index, const IndexTable *table);

// Whether an index is the one that create() makes for the entries of a unique index table with a
// NULL in their key.
bool IsNullKeyIndex(Relation index, const IndexTable *table);

// Raises 2BP01 where an index table has lost an index that finds its entries, or keeps its key
// unique; or, before the command, would lose it with those that are `dropped`, OIDs.
void CheckIndexes(const IndexTable *table, const List *dropped = NIL);

// The plan for an open relation; valid memory until the transaction ends. Raises 55000 where there
// is no B-tree by which an entry can be found.
TargetPlan *GetTargetPlan(Relation rel, const IndexTable *table);

void InitializeTargetPlans();

} // namespace index_table
