// Creating index tables: what the parts of build/ offer to each other and to ddl/.
#pragma once

#include "build/progress.h"
#include "catalog/definition.h"

namespace index_table {

// Fills an empty index table from its base table, in order, and builds its indexes. The caller
// holds ShareRowExclusiveLock on the base table and its leaves and is in EnterOwner().
void Backfill(Relation base, const IndexTable *table, Progress *progress);

// The same for one that is empty but has its indexes already, and others.
void Reload(Relation base, const IndexTable *table, Progress *progress);

// The parts of a concurrent build: the rows of a leaf that a snapshot sees, and the index that
// serves look-ups; for a unique index table also one that finds entries whose key has a NULL, which
// are not told apart by the key. The caller is in EnterOwner().
void LoadPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot,
                   Progress *progress);
void CreateIndexes(const IndexTable *table);
// The first of those alone, not unique, under which entries are found; returns it.
Oid CreateSearchIndex(const IndexTable *table);

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

// The leaves of a base table, locked in `mode`; itself where it is not partitioned.
List *FindLeaves(Oid base, LOCKMODE mode);

// Whether the entries of an index table are logged: what says so of a partitioned one are its
// partitions.
char EntryPersistence(Oid index_table);

// Raises unless the table behind a foreign leaf is one that an index table can be over; see
// CheckShardIdentity(). The caller is the user who will read it.
void CheckShard(Relation base, const IndexTable *table, Oid leaf);

// After a TRUNCATE that named foreign tables, or tables above them: gives those another number that
// still have the one they had before.
void FollowTruncate(List *foreign, List *numbers);
// Whether rows of a relation are told apart by these columns (attribute numbers of `base`).
bool HasUniqueIndex(Relation rel, Relation base, List *attnos);

// Gives a foreign partition another number and enters its rows anew, as they are now. Takes
// ShareRowExclusiveLock on it; the caller has locked the base table as writers do.
void ReloadLeaf(Oid base, Oid leaf);

// Creates the triggers of a base table and its partitions that somebody has dropped. The base table
// is not open. Takes ShareRowExclusiveLock on them if there are any.
void RestoreTriggers(Oid base);

// Makes sure that the base table has its row trigger, which PostgreSQL clones to its partitions;
// or, where foreign ones are to have none (they would have no batches and no direct modification),
// its local leaves each their own. Caller as for ReconcilePartitions; where triggers are to be
// dropped, AccessExclusiveLock is taken.
void EnsureTriggers(Oid base, bool on_foreign);

// Whether text says deferred, not immediate; raises 22023.
bool ParseMaintenance(const char *text);
// Raises where an index table cannot be maintained through the queues of foreign partitions: 0A000,
// and 55000 where one is not captured. Asks the shards as the current user.
void CheckMayDefer(Oid base, bool is_unique, List *leaves);

// Deletes the entries of groups that are not in order, and enters what should be there; returns the
// number of such groups. The caller holds ShareRowExclusiveLock on the base table and its leaves
// and is in EnterOwner().
int64 RepairEntries(Relation base, const IndexTable *table);

// What repair() does: RepairEntries() where that is needed, after dead entries are gone, triggers
// are back and partitions have numbers. The caller owns the index table, which is complete.
int64 RepairIndexTable(const IndexTable *table);

// An index table that the user owns, in step: what functions for owners begin with. Raises 42501,
// 42809.
const IndexTable *GetOwnIndexTable(Oid relid);

// Raises for every kind of relation that cannot be a base table.
void CheckBase(Relation base);

// Removes entries whose partition number is out of use; returns how many, and notes them where
// `removed` is not null. Blocks no writers. The caller is in EnterOwner().
struct RemovedEntries;
int64 SweepEntries(const IndexTable *table, RemovedEntries *removed = nullptr);

// Raises for tables with a column that is stored nowhere: neither triggers nor scans see its value.
void RefuseVirtualColumns(Relation base);

// Copies a new column of a base table into its denormalized index tables. The caller holds the lock
// that ADD COLUMN takes.
void CopyNewColumn(Oid base, const char *name);

// Forgets a dropped index table; with the last of a base table go its partition numbers and, when
// the base table can be locked without waiting or is locked already, its triggers.
void ForgetIndexTable(Oid index_table, Oid base);

} // namespace index_table
