// Reads the tuples of a table that an index of any access method finds: first a bitmap of where
// they are, then the tuples in their order in the table, each once.
#pragma once

#include "core/public.h"

namespace index_table {

struct EntryBitmap {
    MemoryContext memory;
    Relation rel;
    Snapshot snapshot;
    IndexScanDesc scan;
    IndexFetchTableData *fetch;
    TIDBitmap *bitmap; // null: to be filled
    compat::BitmapIterator *iterator;
    compat::BitmapPage page;
    bool is_lossy;
    int count; // of tuples on the page that may be meant
    int next;
};

// What to look for; shared by all parts of a partitioned index table.
struct BitmapKeys {
    ScanKey keys;
    int key_count;
    IndexArrayKeyInfo *arrays; // elements that the access method takes one at a time
    int array_count;
    ExprContext *context; // to evaluate the arrays in
};

// All that a scan finds which yields bitmaps, in the current memory context.
TIDBitmap *FindInBitmap(IndexScanDesc scan, const BitmapKeys &keys);

// The memory that the reader lives in is the current context. `index` is one of `rel`.
EntryBitmap *BeginEntryBitmap(Relation rel, Relation index, Snapshot snapshot, int key_count);
// Forgets what was found.
void ResetEntryBitmap(EntryBitmap *reader);
// Puts the next visible tuple into the slot; false at the end. `recheck` says whether it may not be
// one of those that were looked for. The first call looks for them.
bool NextBitmapTuple(EntryBitmap *reader, const BitmapKeys &keys, TupleTableSlot *slot,
                     bool *recheck);
void EndEntryBitmap(EntryBitmap *reader);

} // namespace index_table
