// What users are told when a key of a unique index table repeats: what PostgreSQL would say of a
// unique index on the base table.
#pragma once

#include "catalog/public.h"

namespace index_table {

// To be called in PG_CATCH, after an error while `entry` was written (null: while triggers fired).
// Where a key has been found to repeat, raises 23505 anew: with the name of the index table's
// constraint rather than its partition's, the key as the user has written it, and the values for
// whoever may read them in the base table. Otherwise returns, and the caller throws the error on.
void TranslateViolation(const IndexTable *table, TupleTableSlot *entry);

// The same after an error of a server that holds entries; the values are for `user`, who is not the
// current one.
void TranslateRemoteViolation(const IndexTable *table, Oid user);

// Raises the same 23505 for a key that `entry` has. REQUIRES a unique index table.
[[noreturn]] void RaiseViolation(const IndexTable *table, TupleTableSlot *entry);

// The unique index over the key of an index table; InvalidOid where it is not there.
Oid FindKeyIndex(const IndexTable *table);

} // namespace index_table
