// Partitions that join and leave: their numbers, triggers and entries.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The leaves of a base table, locked in `mode`; itself where it is not partitioned.
List *FindLeaves(Oid base, LOCKMODE mode);

// Gives numbers and statement triggers to the leaves of a partition that joins. Their rows are
// entered into every index table. The caller holds AccessExclusiveLock on the partition and what is
// below it.
void JoinPartition(Oid base, Oid partition);

// Takes numbers and statement triggers from the leaves of a partition that left, if it did. The
// caller holds AccessExclusiveLock on it; what is below it is locked.
void LeavePartition(Oid partition);
// Raises what it would raise of foreign keys.
void CheckLeaving(Oid partition);

// Both, for whatever joined or left while event triggers were off; returns the number of entries
// made. The caller holds ShareRowExclusiveLock on the base table.
int64 ReconcilePartitions(Relation base);

// Gives numbers and statement triggers to leaves that have none, for a first index table.
// The base table is not open.
void RegisterPartitions(Oid base, List *leaves);

// Whether the entries of an index table are logged: what says so of a partitioned one are its
// partitions.
char EntryPersistence(Oid index_table);

// Raises unless the table behind a foreign leaf is one that an index table can be over; see
// CheckShardIdentity(). The caller is the user who will read it.
void CheckShard(Relation base, const IndexTable *table, Oid leaf);

// Gives a partition another number and enters its rows anew, as they are now. Takes
// ShareRowExclusiveLock on it; the caller has locked the base table as writers do.
void ReloadLeaf(Oid base, Oid leaf);

} // namespace index_table
