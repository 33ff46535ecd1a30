// What statement triggers see of the rows that a statement has changed.
#pragma once

#include "pg.h"

namespace index_table {

// A transition table, read from its start.
struct TransitionRows {
    Tuplestorestate *rows; // null: there is none, or it has been read
    int pointer;
    TupleTableSlot *slot;
};

// `rows` may be null. The slot is in the current memory context.
TransitionRows BeginTransition(Tuplestorestate *rows, Relation rel);
// Puts the next row into the slot, its columns up to `last`; false at the end.
bool NextRow(TransitionRows *transition, AttrNumber last);
void EndTransition(TransitionRows *transition);

// Whether any of these columns differ, byte by byte: what a BEFORE trigger changed is not in the
// statement's list of columns, and values that compare equal need not be the same. REQUIRES the
// columns in the slots' values.
bool Differs(TupleTableSlot *before, TupleTableSlot *after, const AttrNumber *attnos, int count);

} // namespace index_table
