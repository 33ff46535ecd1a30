// Removing dead entries: those whose partition number is retired.
#pragma once

#include "partitions/references.h"

namespace index_table {

int64 SweepEntries(const IndexTable *table, RemovedEntries *removed = nullptr);

// A pass over an index table. It may be spread over several transactions; its lists are in the
// memory context that was current at BeginSweep().
struct Sweep {
    Oid index_table;
    List *numbers;   // retired when it began
    List *relations; // yet to be looked through
    BlockNumber next_block;
    int64 removed;
    RemovedEntries *noted; // null: not wanted
    bool is_unsure;        // servers may have more entries with these numbers than were seen
};

// Where there is something to do, locks the index table so that no other sweep runs until the
// transaction ends. `numbers` is NIL where there is nothing to do.
void BeginSweep(Sweep *sweep, const IndexTable *table);
// Looks through the next blocks; false when there are none. `table` was found in this transaction,
// before the index table was locked: finding it locks the base table, and who drops the index table
// locks it after that.
bool SweepBatch(Sweep *sweep, const IndexTable *table);
// Forgets the numbers: no entry with them is left, unless `is_unsure`: then the next sweep looks.
void EndSweep(Sweep *sweep);

// Removes all entries whose partition number is not live, be it one that never was. The caller has
// locked the base table against writers.
void RemoveDeadEntries(const IndexTable *table, RemovedEntries *removed);

// Removes all entries with some partition numbers, and notes them; `just_note`: no more than that.
void RemoveEntriesOf(const IndexTable *table, List *numbers, RemovedEntries *removed,
                     bool just_note);

} // namespace index_table
