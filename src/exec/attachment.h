// Whether a query may read a partition, and the locks that it takes on it.
#pragma once

#include "pg.h"

namespace index_table {

// For which query.
struct Viewer {
    Oid base;
    Snapshot snapshot; // shows no partition that it sees about to be detached
    // Partitions that have joined after it are not shown; null: all are. A scan that meets them one
    // by one would else see the rows of one that joins meanwhile, as far as it has yet to go.
    Snapshot joined_before;
};

// Whether a partition is one of the base table, and not about to be detached, for all that the
// snapshot sees. `depth`: how far below the base table, whose own partitions have 1. Locks nothing:
// who finishes detaching it may be waiting for this snapshot.
bool IsAttached(const Viewer &viewer, Oid relid, int *depth);

// Opens such a partition, locked in mode `lock` until the end of the transaction; where that is for
// changing rows, before it the partitioned tables above it, up to the base table. Null where it is
// not attached, or not any more once it is locked.
Relation OpenAttached(const Viewer &viewer, Oid relid, LOCKMODE lock, int *depth);

// The columns of an open partition for those of the base table; null where both are laid out alike.
// In the current memory context.
AttrMap *MapToBase(Relation leaf, Relation base);

} // namespace index_table
