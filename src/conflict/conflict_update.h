// INSERT ... ON CONFLICT (key of an index table) DO UPDATE: the update of the row that is there.
//
// PostgreSQL does it where a partition's own index conflicts, within that partition. Here the row
// may be in any partition. It is locked while the row that was to be inserted is checked, and
// updated before the next one is: what users have written (SET, WHERE, policies, triggers) is then
// not called from inside a trigger. All is done as ModifyTable does it for a row of its own.
#pragma once

#include "conflict/conflict_check.h"

namespace index_table {

// For one statement; lives in the current memory context as long as the query. `arbiter` is the
// only table of `check` and `speculative`.
struct ConflictUpdate;
ConflictUpdate *MakeConflictUpdate(ModifyTableState *modify, const IndexTable *arbiter,
                                   ConflictCheck *check, SpeculativeEntries *speculative);

// Locks the row of `leaf`, found by an entry of the arbiter (null: of a global index) with which
// `proposed` conflicts, a row of the layout of `relinfo`: UpdateLockedRow() is to be called next.
// Errors: 21000 for a row that the command has inserted or updated; 40001 where the isolation level
// forbids it; 23505 where the row is not in the table that the statement inserts into.
enum class LockedRow {
    Locked,
    Changed,    // meanwhile: look again
    OutOfReach, // of a global index: where 23505 is to be raised
};
LockedRow LockConflictingRow(ConflictUpdate *update, OpenLeaf *leaf, TupleTableSlot *entry,
                             ResultRelInfo *relinfo, TupleTableSlot *proposed);

// Updates the row that is locked, if one is. `planned`: the row of the plan below ModifyTable.
void UpdateLockedRow(ConflictUpdate *update, TupleTableSlot *planned);

// What RETURNING says of rows that were updated, in order; null: nothing yet.
Tuplestorestate *ReturnedRows(const ConflictUpdate *update);

} // namespace index_table
