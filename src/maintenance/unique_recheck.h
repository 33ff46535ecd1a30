// Constraints of index tables that could not be decided when an entry was stored, because the
// statement that changes the base table was not at its end: the entry in the way may be about to
// go.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The entry stored at `tid` of `rel` (the index table or a partition of it) is to be checked again
// against a unique index or exclusion constraint. Forgotten with the (sub)transaction.
void RecheckLater(const IndexTable *table, Relation rel, Oid index, ItemPointer tid);

bool HasRechecks();

// Checks those of base tables that no statement is changing any more; all of them with `is_final`.
// Raises 23505 and 23P01.
void Recheck(bool is_final);

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactRechecks();
void AtEOSubXactRechecks(bool commits, int level);

} // namespace index_table
