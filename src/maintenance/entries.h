// From a row of a partition to the entries it has in an index table.
#pragma once

#include "maintenance/leaf.h"

namespace index_table {

// Evaluates keys and predicates of one index table for rows of one leaf. Lives in a query's memory;
// expressions are compiled when it is made.
struct EntryMaker {
    const LeafTable *leaf_table;
    int32 partition_id;
    ExprContext *context; // shared, reset for each row by its owner
    ExprState *predicate;
    ExprState **keys;
    ExprState **per_element;
    SetExprState *set_call;
    ExprState *set_scalar; // the set-returning call was simplified to a value
    FmgrInfo compare;      // B-tree order of the multi-valued key column
    Oid element_type;
    int16 element_length;
    bool element_by_value;
    char element_align;
    Datum *values; // of an entry, by position
    bool *nulls;
};

// `partition_id` 0: of entries that are compared, not stored. In the current memory context.
EntryMaker *MakeEntryMaker(const LeafTable *leaf_table, int32 partition_id, ExprContext *context);

// Calls consume(values, nulls) for each entry that `row` has. The arrays are by position and live
// until the next call; the values as long as the row and the context's per-tuple memory.
template <typename Consume>
void ForEachEntry(EntryMaker *maker, TupleTableSlot *row, Consume consume);

// The elements that a multi-valued key has for the row: distinct, in B-tree order.
struct Elements {
    int count;
    Datum *values;
    bool *nulls;
};
bool FillEntry(EntryMaker *maker, TupleTableSlot *row); // false: the predicate leaves the row out
Elements FindElements(EntryMaker *maker);

template <typename Consume>
void ForEachEntry(EntryMaker *maker, TupleTableSlot *row, Consume consume) {
    if (!FillEntry(maker, row))
        return;
    int multi_valued = maker->leaf_table->table->key.multi_valued;
    if (multi_valued < 0) {
        consume(maker->values, maker->nulls);
        return;
    }
    Elements elements = FindElements(maker);
    for (int i = 0; i < elements.count; i++) {
        maker->values[multi_valued] = elements.values[i];
        maker->nulls[multi_valued] = elements.nulls[i];
        consume(maker->values, maker->nulls);
    }
}

} // namespace index_table
