// Comparing index tables with their base tables, and mending them.
#pragma once

#include "catalog/public.h"
#include "global/public.h"

namespace index_table {

// Deletes the entries of groups that are not in order, and enters what should be there; returns the
// number of such groups. The caller holds ShareRowExclusiveLock on the base table and its leaves
// and is in EnterOwner().
int64 RepairEntries(Relation base, const IndexTable *table);

// What repair() does: RepairEntries() where that is needed, after dead entries are gone, triggers
// are back and partitions have numbers. The caller owns the index table, which is complete.
int64 RepairIndexTable(const IndexTable *table);

// Compares the rows of some leaves, which are here and have numbers, with the entries that lead
// there, under one snapshot; returns the number of problems, and adds the leaves that have any to a
// list in the current memory context. REQUIRES: AccessShareLock on the base table, the leaves and
// the index table, which is complete.
int64 VerifyLeaves(const IndexTable *table, List *leaves, List **damaged);

// The same of a whole global index; what repair() does with one, which need not have a tree. They
// lock what they read. The latter is for who owns it.
int64 VerifyWhole(const GlobalIndex &index);
int64 RepairWhole(Oid root);

} // namespace index_table
