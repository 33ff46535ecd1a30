// Claims: what INSERT … ON CONFLICT DO NOTHING writes into index tables before it inserts a row.
//
// A claim is the row's entry itself, inserted as PostgreSQL inserts rows under ON CONFLICT: other
// sessions that want its key wait for this transaction. When the row has been inserted its entry
// is there already, and is not captured; when it has not, the claim is taken back.
//
// Where insertions into an index table fire triggers, claims are taken back in any case, in
// silence, before the first of the statement's rows is captured: the entry that is inserted then
// fires them. The key stays claimed, for others wait for the transaction that inserted it.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The claims of one running statement. Ends with it, or with the (sub)transaction it runs in.
struct Claims;

// Complete index tables of a base table that have a unique or exclusion constraint; a list of
// IndexTable.
List *ListConstrainedTables(const Base *base);

// `command` is that of the rows to be inserted. The tables are known by their place in `tables`.
Claims *BeginClaims(List *tables, CommandId command);
void EndClaims(Claims *claims);

// An entry of an index table from values by position. In the current memory context.
HeapTuple FormEntry(Claims *claims, int table, const Datum *values, const bool *nulls);

// The stored entry that an entry conflicts with, until the next call; null: none. Waits for
// transactions that have yet to decide. Entries of dead partition numbers are removed on the way.
TupleTableSlot *FindConflict(Claims *claims, int table, HeapTuple entry);

// Whether the entry that FindConflict found is still there.
bool IsStillStored(Claims *claims, int table, TupleTableSlot *entry);

// Claims an entry for the current row. False where another was quicker.
bool ClaimEntry(Claims *claims, int table, HeapTuple entry);

// Whether an entry is a claim of the current row.
bool IsOwnClaim(const Claims *claims, TupleTableSlot *entry);

// Takes back what was claimed for the current row, in all tables or in one.
void TakeBackClaims(Claims *claims);
void TakeBackClaims(Claims *claims, int table);

// The current row is handed over for insertion into `leaf`, with an invalid tid; `scratch` is a
// slot for rows of the leaf. What becomes of it is looked up when next needed.
void AwaitRow(Claims *claims, Relation leaf, TupleTableSlot *row, TupleTableSlot *scratch);
// Notes whether that row was inserted, and takes its claims back where it was not.
void SettleRow(Claims *claims);

// Whether the entries of a row are in an index table because they were claimed. To be asked before
// a change of the row is captured, its insertion or whatever comes before that.
bool IsClaimed(Oid index_table, Oid leaf, ItemPointer row);

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactClaims();
void AtEOSubXactClaims(bool commits, int level);

} // namespace index_table
