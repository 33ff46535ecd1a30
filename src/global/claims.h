// Claims: entries that keep a key of a unique global index for a transaction, before it has
// inserted the row, for INSERT … ON CONFLICT.
//
// A claim's address holds the transaction's id instead of a row's place. Whoever wants to insert
// the key waits for that transaction, as for one that has inserted it; when it has ended, or the
// row is there, the claim counts no more, and is removed with other dead entries.
#pragma once

#include "pg.h"

namespace index_table {

enum class ClaimState {
    Own,    // of this transaction
    Others, // of one in progress
    Over
};
ClaimState StateOf(const ItemPointerData *claim);

// Whether an open index is the child that a partition has of the global index with a storage.
bool IsChildOf(Relation index, Oid storage);

// Raises 23505 for the key of a row of a child's partition, with the names of the base table and
// its index.
[[noreturn]] void RaiseDuplicate(Relation child, Datum *values, bool *nulls);

// A unique tree, open for one statement. In the current memory context.
struct UniqueTree;
// `lock`: on partitions, where rows that have a key are looked for.
UniqueTree *OpenUniqueTree(Oid storage, LOCKMODE lock);
void CloseUniqueTree(UniqueTree *tree);

// The row that has a key: its partition, open and locked as long as the tree, and itself in `slot`
// until the next call, as it is now.
struct KeyHolder {
    Relation partition; // null: no row has the key
    TupleTableSlot *slot;
};

// Waits for transactions that have yet to decide. `values` are those of the tree's key columns. A
// key with a NULL is nobody's, but where NULLs are not distinct.
KeyHolder FindKeyHolder(UniqueTree *tree, const Datum *values, const bool *nulls);

// Claims the key that FindKeyHolder() has just been asked for, and found to be free, until the end
// of the (sub)transaction. False where another was quicker: look again.
bool ClaimKey(UniqueTree *tree, Datum *values, bool *nulls);

// The row is there: the last claim is not needed any more.
void DropClaim(UniqueTree *tree);

} // namespace index_table
