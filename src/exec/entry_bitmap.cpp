#include "exec/entry_bitmap.h"

namespace index_table {
namespace {

void Fill(EntryBitmap *reader, const BitmapKeys &keys) {
    MemoryContext caller = MemoryContextSwitchTo(reader->memory);
    reader->bitmap = FindInBitmap(reader->scan, keys);
    reader->iterator = compat::BeginBitmapIteration(reader->bitmap);
    reader->count = reader->next = 0;
    MemoryContextSwitchTo(caller);
}

// On a page of which the bitmap knows no more, any line pointer may be the root of a chain of
// versions.
int CountLinePointers(const EntryBitmap *reader) {
    Buffer buffer = ReadBuffer(reader->rel, reader->page.block);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    int count = PageGetMaxOffsetNumber(BufferGetPage(buffer));
    UnlockReleaseBuffer(buffer);
    return count;
}

bool NextPage(EntryBitmap *reader) {
    if (!compat::NextBitmapPage(reader->iterator, &reader->page))
        return false;
    CHECK_FOR_INTERRUPTS();
    reader->is_lossy = reader->page.count < 0;
    reader->count = reader->is_lossy ? CountLinePointers(reader) : reader->page.count;
    reader->next = 0;
    return true;
}

} // namespace

TIDBitmap *FindInBitmap(IndexScanDesc scan, const BitmapKeys &keys) {
    TIDBitmap *bitmap = tbm_create(work_mem * INT64CONST(1024), nullptr);
    // An empty or null array finds nothing.
    bool more = keys.array_count == 0 ||
                ExecIndexEvalArrayKeys(keys.context, keys.arrays, keys.array_count);
    while (more) {
        CHECK_FOR_INTERRUPTS();
        index_rescan(scan, keys.keys, keys.key_count, nullptr, 0);
        index_getbitmap(scan, bitmap);
        more = keys.array_count > 0 && ExecIndexAdvanceArrayKeys(keys.arrays, keys.array_count);
    }
    return bitmap;
}

EntryBitmap *BeginEntryBitmap(Relation rel, Relation index, Snapshot snapshot, int key_count) {
    Assert(index->rd_index->indrelid == RelationGetRelid(rel) && snapshot && IsMemoryFreed());
    EntryBitmap *reader = palloc0_object(EntryBitmap);
    reader->memory = CurrentMemoryContext;
    reader->rel = rel;
    reader->snapshot = snapshot;
    reader->scan = compat::BeginBitmapScan(index, snapshot, key_count);
    reader->fetch = compat::BeginFetch(rel);
    return reader;
}

void ResetEntryBitmap(EntryBitmap *reader) {
    table_index_fetch_reset(reader->fetch);
    if (reader->iterator)
        compat::EndBitmapIteration(reader->iterator);
    if (reader->bitmap)
        tbm_free(reader->bitmap);
    reader->iterator = nullptr;
    reader->bitmap = nullptr;
}

bool NextBitmapTuple(EntryBitmap *reader, const BitmapKeys &keys, TupleTableSlot *slot,
                     bool *recheck) {
    if (!reader->bitmap)
        Fill(reader, keys);
    while (reader->next < reader->count || NextPage(reader)) {
        if (reader->next == reader->count)
            continue; // an empty page
        int number = reader->next++;
        OffsetNumber offset =
            reader->is_lossy ? number + FirstOffsetNumber : reader->page.offsets[number];
        ItemPointerData tid;
        ItemPointerSet(&tid, reader->page.block, offset);
        bool more = false;
        // A version in the middle of a chain is no place to begin: it shows no tuple.
        if (table_index_fetch_tuple(reader->fetch, &tid, reader->snapshot, slot, &more, nullptr)) {
            *recheck = reader->page.recheck;
            return true;
        }
    }
    return false;
}

void EndEntryBitmap(EntryBitmap *reader) {
    ResetEntryBitmap(reader);
    table_index_fetch_end(reader->fetch);
    index_endscan(reader->scan);
}

} // namespace index_table
