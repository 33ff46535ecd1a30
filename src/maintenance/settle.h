// Index tables that were restored from a dump.
//
// A definition travels with the schema; entries and partition numbers are data, and a dump may have
// left out either, or rows of the base table. So what is restored is not taken at its word: it is
// looked at, for next to nothing where all is in order. A reader uses it where it finds it
// plausible; the first writer looks at all of it, and settles what it is, for all.
//
//   - a partition without rows and number is given a number;
//   - numbered partitions whose rows were left out are given others: their entries do not exist;
//   - where rows have no number, or the entries are missing or have numbers that nobody has, the
//     index table is damaged: nobody reads it, nobody writes to it, and where it keeps a key unique
//     nobody writes to the base table, until index_table.repair() has filled it;
//   - one that was being built is damaged: index_table.rebuild() begins anew.
//
// Until it is settled, entries of a partition without rows do not exist for readers either: where
// they lead there is no row, and where entries are shown without their rows HasRowsFor() is asked.
//
// An index table whose triggers are disabled, or were while rows could change, is treated like a
// damaged one (TableState::Missed, see ddl/triggers.h).
#pragma once

#include "catalog/public.h"

namespace index_table {

// Whether an index table may be read, as far as states go: it was built, or looks as a restored one
// should. Looks once a session, again where nothing was loaded yet. Partitions are locked for a
// moment; where one cannot be locked at once it says no, and looks again the next time.
bool IsTrusted(const IndexTable *table);
// Whether entries of a leaf may be shown without its rows. Not where the index table was restored,
// has not been settled, and the snapshot sees no row of the leaf. Locks the leaf with
// AccessShareLock until the end of the transaction where it has to look.
bool HasRowsFor(const IndexTable *table, Oid leaf, Snapshot snapshot);
// Raises 55000 where it may not be read.
void CheckIsTrusted(const IndexTable *table);

// Before rows of a base table are changed: settles what was restored. Raises 55000 where a key
// could not be kept unique. At most one session does so at a time, until its transaction ends.
void SettleBeforeChange(const Base *base);
// The same for repair(), which takes index tables as they are.
void SettleForRepair(Oid base);

} // namespace index_table
