// Entering entries that a query returned into an index table that is in use, through the same path
// as changes of rows: no privileges are asked, unique keys are checked.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

struct EntryCollector {
    const IndexTable *table;
    ChangeBuffer *buffer;
    EntryValues entry;
    CommandId command;
    int64 count;
};

EntryCollector BeginCollecting(const IndexTable *table);
// Adds an entry whose columns are those of `row` from `first_column` on.
void CollectEntry(EntryCollector *collector, HeapTuple row, TupleDesc descriptor, int first_column);
// The same without writing anything yet: for ApplyChanges().
void CollectRow(EntryCollector *collector, HeapTuple row, TupleDesc descriptor, int first_column);
// Adds a change of an entry, its values by position, for ApplyChanges().
void CollectChange(EntryCollector *collector, const Datum *values, const bool *nulls,
                   ChangeKind kind);
// Writes what was collected. Raises 23505 where a unique key repeats.
void EndCollecting(EntryCollector *collector);

} // namespace index_table
