// The log of an index table that is being built concurrently: a table with the columns of an entry,
// in order, and last a smallint, +1 or -1. What a partition's rows come to under a snapshot, and
// all logged changes of transactions that the snapshot does not see, make the partition's entries.
//
// Of foreign partitions, whose rows that snapshot does not see, it has rows: the columns of an
// identity, the partition number, and 0. Such a row is to be read again; once more does no harm.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

// Appends changes to the log of the buffer's index table. `memory` is the caller's to free.
void LogChanges(const ChangeBuffer *buffer, const NetChanges &net, MemoryContext memory);

// Appends rows of a foreign partition: `count` identities, of which each has the values of
// `positions`, of an entry. Nothing where the log is gone. The caller is in EnterOwner().
void LogRows(const IndexTable *table, int32 partition_id, std::span<const int> positions,
             std::span<const Datum *const> identities);

// Reads what a snapshot sees in the log of an index table, and removes it as wanted. Other than by
// SQL, this needs no privileges, and no replica identity where a publication takes in all tables.
// One session at a time.
struct LogReader {
    Relation rel;
    const AttrNumber *attnos; // by position in the index table; last that of the sign
    TableScanDesc scan;
    TupleTableSlot *slot;
    int columns; // of an entry
    // The change last read, until the next.
    Datum *values; // by position in the index table
    bool *nulls;
    bool is_row; // a row to be read again
    ChangeKind kind;
};
LogReader BeginReadingLog(const IndexTable *table, Snapshot snapshot);
bool ReadLogged(LogReader *reader);
void RemoveLogged(LogReader *reader);
void EndReadingLog(LogReader *reader);

} // namespace index_table
