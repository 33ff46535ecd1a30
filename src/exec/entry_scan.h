// Reading entries of an index table in key order, with the owner's rights: callers check the
// user's privileges and row security themselves.
#pragma once

#include "catalog/public.h"

namespace index_table {

// A condition on the columns of an entry, in the order of its B-tree. Columns before the last are
// equal to their values; the last is so as `last` says.
enum class Bound : uint8 { Equal, After, IsNull, IsNotNull };

struct EntryCondition {
    int count; // columns; 0: every entry
    Datum *values;
    bool *nulls;
    Bound last; // Equal compares NULL with NULL as equal
};

// The columns of the B-tree over an index table, by position in the entry: key, identity,
// partition_id.
struct EntryOrder {
    int count;
    int *positions;
};
EntryOrder GetEntryOrder(const IndexTable *table);

// Whether an index table shows under a snapshot what its base table shows. It does not where the
// snapshot is older than its build, or sees rows of a statement that runs, whose entries are yet to
// be made.
bool ShowsBase(const IndexTable *table, Snapshot snapshot);

// An open scan. Result columns: the entry's by position, then its identity and its included columns
// as jsonb. Uses the active snapshot, and SPI, which the caller has connected. Where the index
// table cannot show what the snapshot sees, it reads the base table instead.
struct EntryScan {
    const IndexTable *table;
    Portal portal;
    SPITupleTable *batch;
    uint64 next;
    bool is_lookup;    // it is counted as one
    Snapshot snapshot; // under which stored entries are read; null: they come from the base table
    NumberMap rowless; // partitions whose entries do not exist, see HasRowsFor
    NumberMap rowful;  // the others that have come up
    uint64 entries_read;
    uint64 entries_skipped;
};
// Entries that a scan fetches at once: no more of their rows can be asked of a shard together.
constexpr int kEntriesAtOnce = 500;
EntryScan BeginEntryScan(const IndexTable *table, const EntryCondition &condition);
// All entries as the base table has them, in the order of the B-tree or in reverse. `order` is
// another index of the index table in whose order they come, a B-tree; InvalidOid: its own.
EntryScan BeginRecomputation(const IndexTable *table, bool backward, Oid order);
// The next entry with a live partition number; null at the end. Valid until the next call.
HeapTuple NextEntry(EntryScan *scan);
void EndEntryScan(EntryScan *scan);

} // namespace index_table
