// Where a scan gets its entries from: an index of the index table, or, where the index table does
// not show what the snapshot sees, the base table itself.
#pragma once

#include "exec/distance_queue.h"
#include "exec/entry_scan.h"
#include "exec/scan_plan.h"

namespace index_table {

// An entry of which a scan reads some columns, by position; the values are valid until the next.
struct EntrySource {
    const IndexTable *table;
    const SourcePlan *plan;
    ScanDirection direction;
    PlanState *node; // whose parameters the conditions contain
    Snapshot snapshot;
    MemoryContext memory;

    Datum *values;
    bool *nulls;
    int needed_count;
    int *needed; // positions that are read

    // Through the index.
    Relation rel; // the index table
    Relation index;
    bool by_bitmap; // the access method says where entries are, in bitmaps
    struct BitmapKeys *bitmap_keys;
    int part_count; // partitions of the index table, itself where it is not partitioned
    struct EntryPart *parts;
    int current;     // part being scanned
    bool index_only; // what is needed is in the index, a B-tree
    ScanKey keys;
    int key_count;
    const ScanPlan *by_distance; // whose distances entries come by; null: they do not
    ScanKey distances;
    int distance_count;
    ToldDistances told; // of the entry just read, where they do
    IndexRuntimeKeyInfo *runtime_keys;
    int runtime_key_count;
    ExprContext *runtime_context;

    // On servers; null: the index table is here.
    struct RemoteEntries *remote;

    // What is queued for the index table; null: nothing.
    struct Overlay *overlay;
    bool is_ordered;
    bool is_read;   // rows are neither changed nor locked
    bool has_ended; // there are no more stored entries
    bool has_held;  // a stored entry that comes after the one just read
    Datum *held_values;
    bool *held_nulls;

    // Conditions that are checked on entries.
    ExprState *filter;
    TupleTableSlot *filter_slot;
    ExprState *row_filter; // of rows, which entries by distance are checked for; null: nothing
    Bitmapset *filtered;   // positions that these look at

    // From the base table.
    bool recompute;
    Tuplestorestate *recomputed; // all of them; null: not read yet
    TupleTableSlot *recomputed_slot;

    uint64 entries_read;
    uint64 entries_removed;  // that the index found, and did not meet the conditions
    uint64 entries_filtered; // that met them, and not those of their rows
    uint64 heap_fetches;
};

// What a scan wants of a source.
struct EntryNeeds {
    const Bitmapset *positions;  // whose values it reads
    bool is_ordered;             // the order of the entries matters: that of their B-tree, or
    const ScanPlan *by_distance; // that of its distances, by which they come as far as told
    bool is_final;               // rows are not looked at: entries must be what they are
    LOCKMODE lock;               // on partitions
};
// `node` is a scan of the base table. Opens the index table; the planner or the plan cache has
// locked it.
void BeginEntrySource(EntrySource *source, const IndexTable *table, const SourcePlan *plan,
                      ScanDirection direction, PlanState *node, const EntryNeeds &needs);
// Starts over with the parameters as they are now.
void RestartEntries(EntrySource *source);
// Reads the next entry into `values`; false at the end.
bool ReadEntry(EntrySource *source);
void EndEntrySource(EntrySource *source);

} // namespace index_table
