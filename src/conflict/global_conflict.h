// Unique global indexes in INSERT … ON CONFLICT: rows that have a new row's keys are looked for in
// the trees, and keys that are free are claimed until the row is there.
#pragma once

#include "exec/public.h"
#include "global/public.h"

namespace index_table {

// Unique global indexes of a base table; a list of IndexTable.
List *ListUniqueGlobals(const Base *base);

// For one statement, in the current memory context, as long as the query. `globals` are of one
// base table. `locks_rows`: it will lock the rows that it conflicts with.
struct GlobalConflicts;
GlobalConflicts *MakeGlobalConflicts(List *globals, EState *estate, bool locks_rows);
void EndGlobalConflicts(GlobalConflicts *conflicts);

// How rows of a partition that is inserted into get their keys. In the current memory context.
struct GlobalKeys;
GlobalKeys *MakeGlobalKeys(GlobalConflicts *conflicts, ResultRelInfo *relinfo);

// The first row that has a key of `row`, with its partition; null where all are free. Waits for
// transactions that have yet to decide.
OpenLeaf *FindGlobalConflict(GlobalConflicts *conflicts, GlobalKeys *keys, TupleTableSlot *row);

// Claims the keys of the row that FindGlobalConflict() was asked for last. False where another was
// quicker: look again.
bool ClaimGlobalKeys(GlobalConflicts *conflicts, GlobalKeys *keys);

// That row has been inserted.
void DropGlobalClaims(GlobalConflicts *conflicts);

// Raises 23505 for a key of that row, which has conflicted with one that the statement cannot
// reach.
[[noreturn]] void RaiseGlobalViolation(const GlobalConflicts *conflicts, GlobalKeys *keys);

} // namespace index_table
