// The indexes that tables below a partitioned one have of its global index: children of partitions,
// and a partitioned index of each table that is partitioned itself. CREATE INDEX makes them all at
// once; these make what is missing of a root that was made ON ONLY.
#pragma once

#include "global/global_index.h"

namespace index_table {

// The index that a table has of a global index: the root itself of the root's table, InvalidOid
// where it has none, or is not below that table. REQUIRES: the table and those between are locked.
Oid FindPart(const GlobalIndex &index, Oid table);

// Makes it. What it is a part of must be there; `parent`, its OID. A child joins the global index
// without entries of the rows that are there. REQUIRES: nobody writes to the table, and no
// partitions come or go above it.
Oid MakePart(Oid table, Oid parent);

// The partitioned index that a part of a table would belong to; InvalidOid: it is not there.
// REQUIRES: as FindPart().
Oid FindParentOfPart(const GlobalIndex &index, Oid table);

// Whether an index is a child, and none of the tree's. One that is locked by somebody who gives it
// a new file, with the rows of its partition, is taken for one of the tree's.
bool IsStranger(const GlobalIndex &index, Oid child);

// Tables below that of the root which have no part, or one that is none of this tree, those above
// before those below. Locks nothing.
List *ListUnfinished(const GlobalIndex &index);

// Makes what is missing of an index that is not complete, without entries: the tree is to be built
// anew. REQUIRES: the table and all below are locked so that nobody writes.
void MakeMissingParts(const GlobalIndex &index);

// Says that the tree has all rows, and every table below its part.
void MarkComplete(const GlobalIndex &index);

} // namespace index_table
