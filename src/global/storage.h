// Making the storage and the tree of a global index.
#pragma once

#include "global/global_index.h"

namespace index_table {

inline constexpr char kGlobalMethod[] = "global";
inline constexpr char kStorageMethod[] = "index_table_storage";

// The access method of a relation; InvalidOid where it has none.
Oid AccessMethodOf(Oid relation);

// Whether an open relation is the storage of a global index, and of which.
bool IsStorage(Relation rel);
Oid RootOfStorage(Relation storage);

// Names in pg_toast.
NameData StorageName(Oid root);
NameData TreeName(Oid root);

// The tree of an open storage, in a lock mode.
Relation OpenTree(Relation storage, LOCKMODE mode);

// The children of a root, a list of OIDs in order, locked in a mode until the end of the
// transaction.
List *ListChildren(Oid root, LOCKMODE mode);

// Whether the children of a root may have been part of another global index, as after DETACH, and
// get new files, or have just been made.
enum class Children { New, Former };

// Makes storage and tree of a valid root that has none, and has the tree hold every row of every
// partition. REQUIRES: the table and its partitions are locked so that nobody writes. Acts as the
// owner, whose functions are evaluated. Raises 23505 where the index is unique and a key repeats.
void BuildGlobalIndex(Oid root, Children children);

// Makes storage and tree of a root that has neither, before any of its children are there. The tree
// takes entries and is not valid: it is not for queries.
void BeginGlobalIndex(Oid root);

// Whether the tree is in the tablespace of its root.
bool IsInPlace(Oid root);
// Makes it anew there. REQUIRES: the same.
void MoveTree(Oid root);
// Drops the storage of partitioned indexes that were roots before they became part of this one.
void DropFormerStorages(Oid root);

// REINDEX of the whole: children that are no part of it yet join, and the tree is made anew.
// REQUIRES: the same.
void RebuildGlobalIndex(Oid root);

} // namespace index_table
