// What the executor's node knows of a scan while it runs.
#pragma once

#include "exec/address_scan.h"
#include "exec/distance_queue.h"
#include "exec/entry_batch.h"
#include "exec/entry_source.h"
#include "exec/identity_map.h"
#include "exec/leaf_reader.h"
#include "exec/scan_plan.h"
#include "exec/shard_access.h"

namespace index_table {

// An index table, or global index, that is read.
struct ScanSource {
    AddressScan *addresses; // of a global index, of which there is nothing else; null: none
    const IndexTable *table;
    EntrySource entries;
    LeafReader leaves;
    // Positions of the key, where a row must have the entry's values of them: the plan relies on
    // the entries' order, or they are on servers.
    Bitmapset *ordered;
    // Positions of columns that decide the conditions: a row that has the entry's values of them
    // need not be checked. Where checking is cheap: null.
    Bitmapset *deciding;
    Datum *identity;
    bool *identity_nulls;
    ShardRows *shards; // null: no partition is a foreign table
    EntryBatch *batch; // likewise
    // Of a join's inner side, for many outer rows at once; null: not read so.
    ShardRows *shards_ahead;
    EntryBatch *ahead;
    int group;           // of those that the next scan has; -1: none
    EntryBatch *reading; // whichever of the two batches entries come from; null: from neither

    uint64 starts;
    uint64 rows_fetched;
    uint64 stale_entries;
};

struct IndexTableScan {
    CustomScanState css;
    ScanPlan plan;
    ExprState *recheck; // these two are made by Prepare()
    ExprState *implied;
    bool is_prepared;
    bool is_open;
    bool is_started;

    ScanSource *sources;
    int current;
    bool may_repeat; // a row may be found several times
    HTAB *seen;
    IdentityMap *seen_remotely;
    MemoryContext seen_memory;
    TupleTableSlot *row;    // of a leaf, of which the scan's tuple is made of
    AttrNumber last_column; // the last column of the base table that is needed
    DistanceQueue *queue;   // null: rows come in no order of distances
    bool has_ended;         // there are no more than those in it

    // Every row of every partition.
    List *partitions;
    int next_partition;
    Relation leaf;
    ShardScan *shard_scan; // it is a foreign table
    TableScanDesc leaf_scan;
    TupleTableSlot *leaf_slot;
    AttrMap *leaf_map;

    ShardNeeds needs;          // of rows in foreign partitions
    const Bitmapset *changing; // parameters that tell apart the scans read ahead; null: none are

    // Of rows that others have changed meanwhile.
    Oid again_leaf;
    AttrMap *again_map;

    uint64 partitions_visited;
};

inline IndexTableScan *ToScan(CustomScanState *node) {
    return reinterpret_cast<IndexTableScan *>(node);
}

// Whether a node is one of the scans here.
bool IsIndexTableScan(const CustomScanState *node);

// Whether entries come from servers.
bool ReadsServers(const IndexTableScan *scan);

// Finds what is needed of rows in foreign partitions, where there are some, or entries are read
// ahead.
void FindNeeds(IndexTableScan *scan);

// Those of a scan's conditions that say the same whatever the parameters are.
List *QualsWithout(List *quals, const Bitmapset *changing);

} // namespace index_table
