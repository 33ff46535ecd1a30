// Addresses that the tree of a global index finds, all of them at once: in their order, so block by
// block of each partition, and each once.
#pragma once

#include "exec/entry_bitmap.h"

namespace index_table {

struct AddressBitmap {
    MemoryContext memory;
    IndexScanDesc scan;
    TIDBitmap *bitmap; // of packed addresses; null: to be filled
    compat::BitmapIterator *iterator;
    compat::BitmapPage page; // the block that was come to last
    uint64 exact_blocks;
    uint64 lossy_blocks;
};

// REQUIRES: the tree's entries are packed. Nothing is found before the first block is asked for. In
// the current memory context.
AddressBitmap *BeginAddressBitmap(Relation tree, Snapshot snapshot, int key_count);
// Forgets what was found.
void ResetAddressBitmap(AddressBitmap *found);
// Comes to the next block, of which `page` tells what may be meant; false at the end. The first
// call looks for all.
bool NextAddressBlock(AddressBitmap *found, const BitmapKeys &keys);
// Of a line pointer of that block.
ItemPointerData AddressInBlock(const AddressBitmap *found, OffsetNumber line_pointer);
void EndAddressBitmap(AddressBitmap *found);

} // namespace index_table
