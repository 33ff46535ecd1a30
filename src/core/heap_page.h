// Tuples on a page of a heap, whoever sees them.
#pragma once

#include "pg.h"

namespace index_table {

// Calls visit(tuple, offset) for each that is stored. The caller holds the buffer's lock.
template <typename Visit>
void ForEachTuple(Relation rel, Buffer buffer, Visit visit) {
    Page page = BufferGetPage(buffer);
    for (OffsetNumber offset = FirstOffsetNumber; offset <= PageGetMaxOffsetNumber(page);
         offset++) {
        ItemId item = PageGetItemId(page, offset);
        if (!ItemIdIsNormal(item))
            continue;
        HeapTupleData tuple = {};
        ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), offset);
        tuple.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        tuple.t_len = ItemIdGetLength(item);
        tuple.t_tableOid = RelationGetRelid(rel);
        visit(&tuple, offset);
    }
}

} // namespace index_table
