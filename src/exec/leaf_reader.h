// Rows of a base table's partitions, found by partition number and identity.
#pragma once

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {

// A partition being read.
struct OpenLeaf {
    int32 partition_id;
    OpenLeaf *next;
    int depth;          // below the base table, whose own partitions have 1
    Relation rel;       // null: the partition is gone, or not to be seen by the snapshot
    Relation index;     // by which the identity finds rows; null: none can, the leaf is scanned
    IndexScanDesc scan; // null: to be begun
    TableScanDesc table_scan;
    int key_count;
    ScanKeyData *keys;
    int *key_identity; // which identity column each key is
    TupleTableSlot *slot;
    AttrMap *map;    // the leaf's columns for the base table's; null: same layout
    bool is_foreign; // a foreign table, whose rows are ShardRows
    void *attached;  // for whoever reads
    bool is_known;   // is_readable has been found
    bool is_readable;
};

struct LeafReader {
    // A B-tree scan takes some 27 kB, more than PostgreSQL's allocator keeps: of few partitions at
    // a time a scan is kept.
    static constexpr int kScans = 4;
    const IndexTable *table;
    Relation base;
    Snapshot snapshot;
    LOCKMODE lock;        // on partitions
    MemoryContext memory; // of what lives as long as the reader
    OpenLeaf *leaves;     // a list
    OpenLeaf *last;
    NumberMap by_number;
    OpenLeaf *scanning[kScans];
    int next_scan;
    int opened;
};

// The caller holds `base` open as long as the reader is. `snapshot` outlives it.
// Partitions are locked in mode `lock`; where that is for changing rows, before them the
// partitioned tables above them, up to the base table.
void BeginLeafReader(LeafReader *reader, const IndexTable *table, Relation base, Snapshot snapshot,
                     LOCKMODE lock);

// The partition with a live number, opened and locked until the end of the transaction.
// Null where there is none.
OpenLeaf *GetLeaf(LeafReader *reader, int32 partition_id);

// Whether entries of the partition with a number may be shown without its rows: the snapshot may
// see rows of it. It is locked with AccessShareLock until the end of the transaction but not
// opened.
bool IsReadable(LeafReader *reader, int32 partition_id);

// Begins to find the rows of a leaf that is no foreign table with an identity, whose values are in
// the order of IndexTable::identity.
void SeekRows(LeafReader *reader, OpenLeaf *leaf, const Datum *values, const bool *nulls);
// Puts the next such row into the leaf's slot; false, and an empty slot, at the end. Where the leaf
// has no index for it, every row of the leaf.
bool NextRow(LeafReader *reader, OpenLeaf *leaf);

void EndLeafReader(LeafReader *reader);

} // namespace index_table
