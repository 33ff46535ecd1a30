// Filling index tables from their base tables, in order.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Fills an empty index table from its base table, in order, and builds its indexes. The caller
// holds ShareRowExclusiveLock on the base table and its leaves and is in EnterOwner().
void Backfill(Relation base, const IndexTable *table, Progress *progress);

// The same for one that is empty but has its indexes already, and others.
void Reload(Relation base, const IndexTable *table, Progress *progress);

// The parts of a concurrent build: the rows of a leaf that a snapshot sees, and the index that
// serves look-ups; for a unique index table also one that finds entries whose key has a NULL, which
// are not told apart by the key. The caller is in EnterOwner().
void LoadPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot,
                   Progress *progress);
void CreateIndexes(const IndexTable *table);
// The first of those alone, not unique, under which entries are found; returns it.
Oid CreateSearchIndex(const IndexTable *table);

} // namespace index_table
