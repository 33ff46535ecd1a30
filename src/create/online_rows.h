// Rows of foreign partitions in an index table that is being built: those that the log has, and
// those that are queued on their servers. How shards are read, src/drain tells.
#pragma once

#include "catalog/public.h"
#include "maintenance/public.h"

namespace index_table {

// A row of a foreign partition that is to be read again: values of some columns of its identity, in
// the order of IndexTable::identity; the others are NULL.
struct LoggedRow {
    Datum *values;
    bool *nulls;
};

// A foreign partition whose rows an index table has that is being built.
struct ForeignLeaf {
    Oid relid;
    int32 number;
    List *rows;     // of LoggedRow
    List *identity; // the columns by which it is captured there, of char *; NIL: not known yet
};

// What a build needs of shards. Of a partition that is not there any more, or has another number,
// nothing is done. The caller has locked the base table, is in EnterOwner() of it, and is the
// session that builds the index table.
struct ShardRows {
    // Creates the index that finds entries by identity. Returns whether there was none.
    bool (*prepare)(const IndexTable *table, ForeignLeaf *leaf);
    // Drains a queue until little is left of it, in several transactions, before anything is
    // locked. Raises 55000 where it cannot, or what OpenConnection() raises.
    void (*drain)(Oid leaf);
    // Adds the rows that are queued now to those of the partition. False where they are not all
    // that has changed: it has to be drained.
    bool (*add_queued)(const IndexTable *table, ForeignLeaf *leaf);
    // Reads the rows and collects what their entries are to become. Not `at_once`: and applies it,
    // with what was collected before, a batch at a time.
    void (*collect)(const IndexTable *table, ForeignLeaf *leaf, bool at_once,
                    EntryCollector *collector);
};
void SetShardRows(const ShardRows *functions);

// Whether all foreign partitions of a list are captured on their servers; else `leaf` is one that
// is not. Asks the servers as the current user, and raises what OpenConnection() raises.
bool AreCaptured(List *leaves, Oid *leaf);

// Foreign partitions whose rows an index table has that is being built, locked with
// AccessShareLock, and rows of theirs.
struct ForeignRows {
    const IndexTable *table;
    List *leaves; // of ForeignLeaf
};
// The caller has locked the base table. `loaded`: the numbers of partitions that are loaded.
ForeignRows BeginForeignRows(const IndexTable *table, List *loaded);
// Adds a row that the log has.
void AddLogged(ForeignRows *rows, int32 number, const LogReader &reader);
// Adds all rows that are queued on shards. False where that is not all that has changed.
bool AddQueued(ForeignRows *rows);
// Adds the rows that share a key with others where a unique index table must not have that. Returns
// how many those were.
int64 AddDuplicates(ForeignRows *rows);
// Reads the rows and carries what has changed into the index table, together with what was
// collected before, at once where `at_once`. Returns how many rows there were.
int64 ApplyForeignRows(const ForeignRows &rows, bool at_once, EntryCollector *collector);

// Drains the queues of all foreign partitions, in several transactions.
void DrainForeign(Oid base);
// Creates what rows are found by. Returns whether something was missing.
bool PrepareForeign(const IndexTable *table);

} // namespace index_table
