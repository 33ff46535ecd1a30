// Writing entries: insertion, deletion and replacement of rows of an index table.
//
// Two ways. The short one writes heap and B-trees directly and serves index tables as create()
// makes them. Whatever users add (triggers and foreign keys, constraints, other access methods,
// indexes on expressions, deferrable constraints) takes the general one, through the executor's
// own routines.
#pragma once

#include "maintenance/change_buffer.h"

namespace index_table {

// An index table opened for writing. A hash-partitioned one writes to its partitions.
struct EntryWriter;

// Opens with RowExclusiveLock, kept until the transaction ends; null where the index table has been
// dropped. Everything else that is held is
// released by CloseWriter, or by the resource owner and `context` after an error.
//
// `mid_statement` says that more changes of the same rows may follow: then an entry is found only
// with the very copies it is looked for with, and a repeated unique key does not raise at once but
// in Recheck(), for the entry it collides with may be about to go.
//
// In a security-restricted operation, where the extension acts for the owner of the base table,
// nothing is deferred: triggers and foreign keys are fired by CloseWriter, deferrable constraints
// are checked in Recheck().
EntryWriter *OpenWriter(const IndexTable *table, bool mid_statement, MemoryContext context);
// Foreign keys that point at the index table do not learn of what the writer changes: the caller
// answers for them.
void IgnoreReferences(EntryWriter *writer);
void CloseWriter(EntryWriter *writer);

// To be called in PG_CATCH, after an error while entries were written: raises it, or what it means
// to users.
[[noreturn]] void RethrowError(const EntryWriter *writer);

// Inserts the entries of `changes`, in order. Raises 23505 where a unique key repeats.
void InsertEntries(EntryWriter *writer, std::span<const Change> changes);

// Deletes the entry of a change. False where there is none.
bool DeleteEntry(EntryWriter *writer, const Change &change);

// Replaces the entry of `old_change`, in place where both belong to one partition of the index
// table. False, with nothing done, where there is none.
bool ReplaceEntry(EntryWriter *writer, const Change &old_change, const Change &new_change);

// Whether another entry than that of `replaced` (null: than none) has a unique key of `change`.
bool IsTaken(EntryWriter *writer, const Change &change, const Change *replaced);

// Removes stored entries that constraints would not let be beside that of `change` and whose
// partition number is not live: they do not exist and make room.
void RemoveDeadDuplicates(EntryWriter *writer, const Change &change);

// Deletes the row at `tid` of the index table or of its partition `storage`. False where it is gone
// already.
bool DeleteStoredEntry(EntryWriter *writer, Oid storage, ItemPointer tid);

void InitializeWriters();

} // namespace index_table
