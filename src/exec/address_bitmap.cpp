#include "exec/address_bitmap.h"

#include "core/public.h"
#include "global/public.h"

namespace index_table {

AddressBitmap *BeginAddressBitmap(Relation tree, Snapshot snapshot, int key_count) {
    FAULT_POINT("address_bitmap.begin_address_bitmap");
    Assert(IsPacked(tree));
    AddressBitmap *found = palloc0_object(AddressBitmap);
    found->memory = CurrentMemoryContext;
    found->scan = compat::BeginBitmapScan(tree, snapshot, key_count);
    return found;
}

void ResetAddressBitmap(AddressBitmap *found) {
    if (found->iterator)
        compat::EndBitmapIteration(found->iterator);
    if (found->bitmap)
        tbm_free(found->bitmap);
    found->iterator = nullptr;
    found->bitmap = nullptr;
}

bool NextAddressBlock(AddressBitmap *found, const BitmapKeys &keys) {
    if (!found->bitmap) {
        MemoryContext caller = MemoryContextSwitchTo(found->memory);
        found->bitmap = FindInBitmap(found->scan, keys);
        found->iterator = compat::BeginBitmapIteration(found->bitmap);
        MemoryContextSwitchTo(caller);
    }
    if (!compat::NextBitmapPage(found->iterator, &found->page))
        return false;
    (found->page.count < 0 ? found->lossy_blocks : found->exact_blocks)++;
    return true;
}

ItemPointerData AddressInBlock(const AddressBitmap *found, OffsetNumber line_pointer) {
    ItemPointerData packed;
    ItemPointerSet(&packed, found->page.block, line_pointer);
    return UnpackAddress(&packed);
}

void EndAddressBitmap(AddressBitmap *found) {
    ResetAddressBitmap(found);
    index_endscan(found->scan);
}

} // namespace index_table
