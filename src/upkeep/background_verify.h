// Verification by the worker: index tables and global indexes of a database, one after the other, a
// slice at a time, in the time that index_table.verify_share grants.
//
// A slice of an index table is the rows of some partitions, at least a sixteenth of the table's
// pages, and the entries that have their numbers, under one snapshot and in one transaction. So a
// pass reads the index table about sixteen times, and the base table once. Foreign partitions, and
// index tables on servers, are left to whoever calls verify(); global indexes are verified as a
// whole. Passes are known in shared memory: after a restart they begin anew, each at another
// partition.
//
// It gives way: it looks at nothing whose locks cannot be had at once, and ends a slice when
// somebody waits for them. What it finds is a WARNING in the server's log, and is repaired where
// index_table.verify_repair says so.
#pragma once

#include "pg.h"

namespace index_table {

// Goes on where it stopped, until its share of `naptime` seconds is used up. REQUIRES: no
// transaction, in a worker of its own.
void VerifyInBackground(int naptime);

void InitializeBackgroundVerify();

} // namespace index_table
