// Creating index tables: what the parts of build/ offer to each other and to ddl/.
#pragma once

#include "build/progress.h"
#include "catalog/definition.h"

namespace index_table {

// Fills an empty index table from its base table, in order, and builds its indexes. The caller
// holds ShareRowExclusiveLock on the base table and its leaves and is in EnterOwner().
void Backfill(Relation base, const IndexTable *table, Progress *progress);

// The parts of a concurrent build: the rows of a leaf that a snapshot sees, and the index that
// serves look-ups; for a unique index table also one that finds entries whose key has a NULL, which
// are not told apart by the key. The caller is in EnterOwner().
void LoadPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot,
                   Progress *progress);
void CreateIndexes(const IndexTable *table);
// The first of those alone, not unique, under which entries are found; returns it.
Oid CreateSearchIndex(const IndexTable *table);

// Gives numbers and statement triggers to the leaves that have none, and takes away the numbers of
// those that left. Rows of a leaf that joins with rows are entered into every index table. The
// caller holds ShareRowExclusiveLock on the base table.
int64 ReconcilePartitions(Relation base); // returns the number of entries made

// Gives numbers and statement triggers to leaves that have none, for a first index table.
// The base table is not open.
void RegisterPartitions(Oid base, List *leaves);

// The leaves of a base table, locked in `mode`; itself where it is not partitioned.
List *FindLeaves(Oid base, LOCKMODE mode);

// Makes sure that the base table has its row trigger. Caller as for ReconcilePartitions.
void EnsureTriggers(Oid base);

// Deletes the entries of groups that are not in order, and enters what should be there; returns the
// number of such groups. The caller holds ShareRowExclusiveLock on the base table and its leaves
// and is in EnterOwner().
int64 RepairEntries(Relation base, const IndexTable *table);

// An index table that the user owns, in step: what functions for owners begin with. Raises 42501,
// 42809.
const IndexTable *GetOwnIndexTable(Oid relid);

// Removes entries whose partition number is out of use; returns how many. Blocks no writers. The
// caller is in EnterOwner().
int64 SweepEntries(const IndexTable *table);

// Takes the statement triggers off a detached table and what is below it.
void DropStatementTriggers(Oid detached);

// Copies a new column of a base table into its denormalized index tables. The caller holds the lock
// that ADD COLUMN takes.
// Raises for tables with a column that is stored nowhere: neither triggers nor scans see its value.
void RefuseVirtualColumns(Relation base);

void CopyNewColumn(Oid base, const char *name);

// Dropping the base table, or a column that the index table cannot do without, drops the index
// table, as it would an index; dropping an included column drops its copy.
void RecordDependencies(const IndexTable *table);
// Makes an included column's copies go with the column.
void RecordCopyDependency(const IndexTable *table, const CopiedColumn &column);
// Records the dependencies of index tables that have none: a dump does not hold them.
void EnsureDependencies();

// Forgets a dropped index table; with the last of a base table go its partition numbers and, when
// the base table can be locked without waiting or is locked already, its triggers.
void ForgetIndexTable(Oid index_table, Oid base);

} // namespace index_table
