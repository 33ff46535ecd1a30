// What an entry that a new row conflicts with stands for.
#pragma once

#include "maintenance/public.h"

namespace index_table {

enum class Conflict {
    Real,
    Leaving,   // the statement, or one around it, has changed the row: the entry is about to go
    Unsettled, // the row is being changed, or has just been: look again
};

struct ConflictCheck;

// For one statement. In the current memory context, as long as the query.
ConflictCheck *MakeConflictCheck(Oid base, List *tables, EState *estate);
void EndConflictCheck(ConflictCheck *check);

// Checks an entry that FindConflict found. Raises 40001 where the isolation level forbids to act
// upon a row that the statement's snapshot does not show.
Conflict CheckConflict(ConflictCheck *check, SpeculativeEntries *speculative, int table,
                       TupleTableSlot *entry);

// Raises 40001 for a row that the snapshot does not show, unless this transaction has inserted it.
void CheckConflictIsVisible(Relation rel, TupleTableSlot *row, Snapshot snapshot);

} // namespace index_table
