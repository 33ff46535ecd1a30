// What an entry that a new row conflicts with stands for.
#pragma once

#include "exec/public.h"
#include "maintenance/public.h"

namespace index_table {

enum class Conflict {
    Real,
    Leaving,   // the statement, or one around it, has changed the row: the entry is about to go
    Unsettled, // the row is being changed, or has just been: look again
};

struct ConflictCheck;

// For one statement. `locks_rows`: it will lock the rows that it conflicts with. In the current
// memory context, as long as the query.
ConflictCheck *MakeConflictCheck(Oid base, List *tables, EState *estate, bool locks_rows);
void EndConflictCheck(ConflictCheck *check);

// Checks an entry that FindConflict found. Raises 40001 where the isolation level forbids to act
// upon a row that the statement's snapshot does not show.
Conflict CheckConflict(ConflictCheck *check, SpeculativeEntries *speculative, int table,
                       TupleTableSlot *entry);

// The same where rows are to be locked, which is left to the caller. Where the conflict is real,
// `found` is the row's partition, with the row, as it is now, in its slot; the slot of a foreign
// table is empty.
Conflict FindConflictingRow(ConflictCheck *check, SpeculativeEntries *speculative, int table,
                            TupleTableSlot *entry, OpenLeaf **found);

// The value of a stored entry's column by position.
Datum Stored(const IndexTable *table, TupleTableSlot *entry, int position, bool *isnull);

// Whether a row has the key of an entry.
bool HasKey(ConflictCheck *check, int table, OpenLeaf *leaf, TupleTableSlot *row,
            TupleTableSlot *entry);

// Raises 40001 for a row that the snapshot does not show, unless this transaction has inserted it.
void CheckConflictIsVisible(Relation rel, TupleTableSlot *row, Snapshot snapshot);

// Under SERIALIZABLE notes that the statement has seen a row in its way, and left it as it is.
void RememberRead(Relation rel, TupleTableSlot *row, Snapshot snapshot);

} // namespace index_table
