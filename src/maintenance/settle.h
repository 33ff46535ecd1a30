// Index tables that were restored from a dump.
//
// A definition travels with the schema; entries and partition numbers are data, and a dump may have
// left out either, or rows of the base table. So what is restored is not taken at its word: it is
// looked at, for next to nothing where all is in order. Everybody may read it who finds it
// plausible; the first writer settles what it is, for all.
//
//   - a partition without rows and number is given a number;
//   - numbered partitions whose rows were left out are given others: their entries do not exist;
//   - where rows have no number, or the entries are missing or have numbers that nobody has, the
//     index table is damaged: nobody reads it, nobody writes to it, and where it keeps a key unique
//     nobody writes to the base table, until index_table.repair() has filled it;
//   - one that was being built is damaged: index_table.rebuild() begins anew.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Whether an index table may be read, as far as states go: it was built, or looks as a restored one
// should. Asks once a session. Partitions are locked for a moment, those that cannot be locked at
// once make it say no.
bool IsTrusted(const IndexTable *table);
// Raises 55000 where it may not.
void CheckIsTrusted(const IndexTable *table);

// Before rows of a base table are changed: settles what was restored. Raises 55000 where a key
// could not be kept unique. At most one session does so at a time, until its transaction ends.
void SettleBeforeChange(const Base *base);
// The same for repair(), which takes index tables as they are.
void SettleForRepair(Oid base);

} // namespace index_table
