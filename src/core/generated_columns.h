// Stored generated columns of rows that were inserted through a partitioned table.
//
// PostgreSQL puts such a row into transition tables as it was before it came to its partition,
// where that has a layout of its own and no BEFORE trigger: there, columns that the partition
// generates are null, in a row that was moved what they were in the partition that it left. What
// they are in its partition is computed once more here, as INSERT does, by the same user.
#pragma once

#include "pg.h"

namespace index_table {

struct GeneratedColumns;

// Those of a table's columns that rows in its transition tables may lack; null: none. What was
// found out is right until the table is changed, or AnnounceGenerated() is called. In the current
// memory context.
Bitmapset *FindGenerated(Relation rel, Bitmapset *columns);
// Relations above a partition that has come may have columns that are generated there alone: what
// is cached of them is outdated.
void AnnounceGenerated(Oid partition);

// Of rows of `rel`, which the caller keeps open; `columns`: what FindGenerated() has found, not
// empty. Partitions are locked as INSERT locks them. In the current memory context.
GeneratedColumns *BeginGenerated(Relation rel, const Bitmapset *columns);
// Puts the columns into the slot's values, which have been read that far; false where they were
// there. They live until the next row.
bool FillGenerated(GeneratedColumns *generated, TupleTableSlot *row);
void EndGenerated(GeneratedColumns *generated);

} // namespace index_table
