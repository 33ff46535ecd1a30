// What a global index consists of.
//
// CREATE INDEX … USING global makes, as any index of a partitioned table, a partitioned index (the
// root) and an index of each partition (the children). The children hold no entries: they forward
// them to one B-tree, the tree, which stands on a relation without rows of its own, the storage.
// The storage's table access method answers for the rows of all partitions, so that the tree is
// PostgreSQL's own in every respect. Storage and tree are in pg_toast, named for the root's OID,
// and depend on the root: they go with it, and are neither dumped nor listed.
#pragma once

#include "pg.h"

namespace index_table {

struct GlobalIndex {
    Oid root;
    Oid storage;
    Oid tree; // columns: those of the root, in the same order; no expressions, no predicate
};

// OID of the access method; InvalidOid where the extension is not installed.
Oid GlobalMethod();

// The storage and tree of a root. Nothing where it has none (yet).
std::optional<GlobalIndex> FindGlobalIndex(Oid root);
// Whether the tree has all rows, and may be read: not so while it is built online, or where that
// was interrupted. Writers maintain it all the same.
bool IsComplete(const GlobalIndex &index);
// Those of a partitioned table that are complete: a list of the roots' OIDs, in order.
List *ListGlobalIndexes(Relation base);
// All that have a tree.
List *ListGlobalTrees(Relation base);

// All roots of the database, complete or not.
List *ListGlobalRoots();

// The partitions that have children, a list of OIDs: those too that are about to be detached.
List *ListIndexedPartitions(Oid root);
// Locks the table that a root is of, then its partitions, as writers do, and last those that are
// about to be detached; returns the table. Raises 42P01 where the root is gone, maybe meanwhile.
Oid LockIndexedTables(Oid root, LOCKMODE mode);

// Removes stale entries; returns their number. Waits for others that do. Raises 42501 for who does
// not own the index.
int64 SweepGlobalIndex(const GlobalIndex &index);
// The same for all that the user owns.
int64 SweepOwnGlobalIndexes();

} // namespace index_table
