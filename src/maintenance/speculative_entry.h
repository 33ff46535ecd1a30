// Speculative entries: what INSERT … ON CONFLICT writes into index tables before it inserts a row.
//
// A speculative entry is the row's entry itself, inserted as PostgreSQL inserts rows under ON
// CONFLICT: other sessions that want its key wait for this transaction. When the row has been
// inserted its entry is there already, and is not captured; when it has not, the speculative entry
// is taken back.
//
// Where insertions into an index table fire triggers, speculative entries are taken back in any
// case, in silence, before the first of the statement's rows is captured: the entry that is
// inserted then fires them. The key stays taken, for others wait for the
// transaction that inserted it.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The speculative entries of one running statement. Ends with it, or with the (sub)transaction it
// runs in.
struct SpeculativeEntries;

// Complete index tables of a base table that have a unique or exclusion constraint; a list of
// IndexTable.
List *ListConstrainedTables(const Base *base);

// `command` is that of the rows to be inserted. The tables are known by their place in `tables`.
// With `has_target` their keys alone decide, and not what owners have added.
SpeculativeEntries *BeginSpeculation(List *tables, CommandId command, bool has_target);
void EndSpeculation(SpeculativeEntries *speculative);

// An entry of an index table from values by position. In the current memory context.
HeapTuple FormEntry(SpeculativeEntries *speculative, int table, const Datum *values,
                    const bool *nulls);

// The stored entry that an entry conflicts with, until the next call; null: none. Waits for
// transactions that have yet to decide. Entries of retired partition numbers are removed on the
// way.
TupleTableSlot *FindConflict(SpeculativeEntries *speculative, int table, HeapTuple entry);

// Whether an entry that FindConflict finds nothing for conflicts with a constraint that does not
// decide.
bool ConflictsOtherwise(SpeculativeEntries *speculative, int table, HeapTuple entry);

// Whether the entry that FindConflict found is still there.
bool IsStillStored(SpeculativeEntries *speculative, int table, TupleTableSlot *entry);

// The relation that holds the entry that FindConflict found.
Relation RelationOfEntry(SpeculativeEntries *speculative, int table, const TupleTableSlot *entry);

// Whether the entry that FindConflict found is that of a row in a foreign table which the command
// has inserted, or updated, as RememberUpdated() has noted.
bool IsOfCommand(const SpeculativeEntries *speculative, TupleTableSlot *entry);
void RememberUpdated(SpeculativeEntries *speculative, TupleTableSlot *entry);

// Inserts an entry for the current row. False where another was quicker.
bool InsertSpeculatively(SpeculativeEntries *speculative, int table, HeapTuple entry);

// Whether a stored entry is one of the current row.
bool IsOwnSpeculative(const SpeculativeEntries *speculative, TupleTableSlot *entry);

// Takes back what was inserted speculatively for the current row, in all tables or in one.
void TakeBackEntries(SpeculativeEntries *speculative);
void TakeBackEntries(SpeculativeEntries *speculative, int table);

// The current row is handed over for insertion into `leaf`, with an invalid tid; `scratch` is a
// slot for rows of the leaf. What becomes of it is looked up when next needed.
void AwaitRow(SpeculativeEntries *speculative, Relation leaf, TupleTableSlot *row,
              TupleTableSlot *scratch);
// Remembers whether that row was inserted, and takes its speculative entries back where it was not.
void SettleRow(SpeculativeEntries *speculative);

// Rows of foreign tables have no tid: here the caller knows whether the current one was inserted.
// Their entries are inserted when rows are captured; before that, when the last row has passed,
// the speculative ones are taken back.
void SettleForeignRow(SpeculativeEntries *speculative, bool is_inserted);
void TakeBackForeign(SpeculativeEntries *speculative);

// Notes that the update of a row, whose new version is at `row`, has been captured.
void RememberCaptured(SpeculativeEntries *speculative, Oid leaf, ItemPointer row);
// Whether that was noted, by this statement or one around it.
bool WasCaptured(Oid leaf, ItemPointer row);

// Whether the entries of a row are in an index table because they were inserted speculatively. To
// be asked before a change of the row is captured, its insertion or whatever comes before that.
bool IsSpeculative(Oid index_table, Oid leaf, ItemPointer row);

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactSpeculation();
void AtEOSubXactSpeculation(bool commits, int level);

} // namespace index_table
