// Partitions that are truncated get other numbers.
#pragma once

#include "pg.h"

namespace index_table {

// After a TRUNCATE that named foreign tables, or tables above them: gives those another number that
// still have the one they had before.
void FollowTruncate(List *foreign, List *numbers);

// After a TRUNCATE, at the latest before the next statement or the commit: leaves that have got
// entries under their new number while it ran get another one, and entries of the rows that they
// have now. What triggers BEFORE TRUNCATE have written is gone.
void ReenterTruncated();

// The transaction, or a subtransaction, has ended.
void AtEOXactTruncated();
void AtEOSubXactTruncated(bool commits);

void InitializeTruncation();

} // namespace index_table
