// Rows found through a global index: its tree yields addresses, which lead to rows of partitions.
#pragma once

#include "core/public.h"
#include "exec/address_bitmap.h"
#include "exec/attachment.h"
#include "exec/scan_plan.h"
#include "global/public.h"

namespace index_table {

// A partition that addresses have led to.
struct AddressedLeaf {
    Oid relid;
    AddressedLeaf *next;
    Relation rel; // null: it is not to be read
    AddressedPartition *rows;
    TupleTableSlot *slot; // of the row just fetched; may be other leaves' too
    AttrMap *map;         // its columns for the base table's; null: same layout
    BlockNumber blocks;   // that it has at least
    bool is_met;          // an entry has led there
    bool is_whole;        // all its rows are yielded: entries tell nothing more
};

// A column of the base table that an entry holds.
struct HeldColumn {
    AttrNumber base;
    AttrNumber tree;
};

struct AddressScan {
    const SourcePlan *plan;
    ScanDirection direction;
    PlanState *node; // whose parameters the conditions contain
    Relation base;
    Viewer viewer;
    LOCKMODE lock;        // on partitions
    MemoryContext memory; // of what lives as long as the scan

    Relation storage;
    Relation tree;
    IndexScanDesc scan;
    bool is_ordered; // by key: the tree is a B-tree
    BitmapKeys conditions;
    ScanKey distances; // that the access method orders by
    int distance_count;
    IndexRuntimeKeyInfo *runtime_keys;
    int runtime_key_count;
    ItemPointerData address; // the one just read
    bool recheck;            // its row need not meet the conditions

    AddressBitmap *bitmap; // where the access method yields bitmaps; null: addresses
    bool is_lossy;         // any line pointer of the block may be meant
    int offset_count;      // of the block
    int next_offset;

    // Where conditions have arrays whose elements the access method takes one at a time.
    bool is_empty; // there is none
    MemoryContext seen_memory;
    HTAB *seen; // addresses that were yielded; null: each comes once

    // A partition that is read itself, see FetchAddressedRow().
    AddressedLeaf *whole; // null: none
    TableScanDesc whole_scan;
    int held_count; // of columns that are read from entries, by a scan of entries alone
    HeldColumn *held;

    // What has been yielded, as far as it must not be again, by a scan that is ordered.
    bool has_yielded;
    ItemPointerData last_yielded;
    Oid late; // a partition whose rows alone are yielded up to that one; InvalidOid: none

    AddressedLeaf *leaves; // a list
    TupleTableSlot *slot;  // that most of them share; null: not needed yet
    AddressedLeaf *last;
    NumberMap by_oid;

    uint64 entries_read;
    uint64 leaves_opened;
    uint64 heap_fetches; // by a scan of entries alone
};

// `node` is a scan of the base table, which is open as long as this is. Opens storage and tree, of
// which the planner or the plan cache has locked the storage. `source` is one of the plan's. In the
// current memory context.
AddressScan *BeginAddressScan(const ScanPlan *plan, const SourcePlan *source, ScanState *node);
// Starts over with the parameters as they are now.
void RestartAddresses(AddressScan *scan);
// Reads the next entry; false at the end.
bool NextAddress(AddressScan *scan);
// The partition with the row of that entry in its slot; null where it leads to none that the
// snapshot sees. Where rows of a partition have got other addresses since the scan began, their
// entries may have been missed: a scan that is not ordered reads the partition itself then.
AddressedLeaf *FetchAddressedRow(AddressScan *scan);
// Whether the row is one of those: what the index's predicate says need not hold of it.
inline bool IsOfWhole(const AddressScan *scan) {
    return scan->whole != nullptr;
}

// Before the first entry: the scan is to read these columns of the base table, attribute numbers,
// from entries alone.
void HoldColumns(AddressScan *scan, const List *columns);
// Puts them into `row`, an empty slot of the base table's columns; false where the entry leads to
// no row that the snapshot sees. Not where the row is there already, IsOfWhole().
bool ReadHeldColumns(AddressScan *scan, TupleTableSlot *row);

void EndAddressScan(AddressScan *scan);

} // namespace index_table
