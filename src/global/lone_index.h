// Global indexes of tables that are not partitioned. Entries are kept for a partitioned table: an
// index by CREATE INDEX … USING global that is no part of the index of one holds none, and keeps no
// key unique, whatever its options say. A detached partition has such indexes, which ATTACH takes
// in again.
#pragma once

#include "pg.h"

namespace index_table {

// Before CREATE INDEX … USING global on a table, which is open and locked: where the index would
// stand alone, raises 0A000 if it is to be unique, and warns otherwise. The part of an index that
// was made ON ONLY the table above does not. Where a dump is restored, an index of a partition may
// be such a part, and one of another table may have been detached: nothing is refused.
void CheckLoneIndex(const IndexStmt *statement, Relation table);

// After CREATE TABLE (LIKE … INCLUDING INDEXES) and ATTACH PARTITION: warns of those of a table, or
// of the partitions below it. Locks nothing.
void WarnOfLoneIndexes(Oid table);

// After DETACH PARTITION: the same as a notice, of those alone that were unique.
void NoteLoneIndexes(Oid table);

} // namespace index_table
