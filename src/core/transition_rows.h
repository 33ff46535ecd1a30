// What statement triggers see of the rows that a statement has changed.
#pragma once

#include "core/generated_columns.h"

namespace index_table {

// A transition table, read from its start.
struct TransitionRows {
    Tuplestorestate *rows; // null: there is none, or it has been read
    int pointer;
    TupleTableSlot *slot;
    GeneratedColumns *generated; // null: nothing is to be completed
};

// `rows` may be null. `generated`: of new rows, what FindGenerated() has found. The slot is in the
// current memory context.
TransitionRows BeginTransition(Tuplestorestate *rows, Relation rel,
                               const Bitmapset *generated = nullptr);
// Puts the next row into the slot, its columns up to `last`; false at the end.
bool NextRow(TransitionRows *transition, AttrNumber last);
// Makes generated columns of a new row what its partition makes of them; REQUIRES them in the
// slot's values, which live until the next row. True where that has changed the row. Rows that an
// UPDATE has moved may be stored so or as they were: on 15 that depends on the plan.
bool CompleteRow(TransitionRows *transition);
void EndTransition(TransitionRows *transition);

// Whether any of these columns differ, byte by byte: what a BEFORE trigger changed is not in the
// statement's list of columns, and values that compare equal need not be the same. REQUIRES the
// columns in the slots' values.
bool Differs(TupleTableSlot *before, TupleTableSlot *after, const AttrNumber *attnos, int count);

} // namespace index_table
