// Comparing the tree of a global index with the rows of all partitions, under one snapshot.
//
// In two steps, of which neither needs more memory than maintenance_work_mem: every entry is looked
// at with the row that it leads to, in the order of addresses as far as memory goes; then what was
// found and all rows are sorted together. Rows are compared with entries, not the tree with itself:
// whether its pages are in order is amcheck's to say.
#pragma once

#include "global/global_index.h"

namespace index_table {

// Whether what verify() and repair() are called with is a global index. Raises 42809 for parts of
// one, 42501 for who does not own it.
bool IsOwnGlobalIndex(Oid relid);
// The same; raises 55000 where it has no tree.
std::optional<GlobalIndex> FindOwnGlobalIndex(Oid relid);
// Raises 55000 where repair() cannot build an index: it is valid and of a partitioned table, or has
// a tree.
void CheckCanBuild(Oid relid);

struct GlobalProblem {
    const char *kind;
    Oid partition;
    ItemPointerData row; // its TID
    Datum key;           // jsonb
};

// What is told of problems and progress.
struct VerifyCalls {
    void *state;
    void (*report)(void *state, const GlobalProblem &problem);
    void (*count)(void *state, int64 rows);
};

// Partitions that cannot be read (unlogged ones of a standby) are left out. REQUIRES: the table and
// its partitions are locked (LockIndexedTables, AccessShareLock); acts as the table's owner
// (EnterOwner); functions of a partition's key run as that partition's owner. Trees that cannot be
// scanned as a whole (hash, GIN) are read as VACUUM reads them: sweeps wait meanwhile, and it waits
// for them (ShareUpdateExclusiveLock of the storage); 0A000 on standbys, 55006 while a query of the
// session scans the tree. Of these it is not told whether an entry has the right key.
void VerifyGlobalIndex(const GlobalIndex &index, const VerifyCalls &calls);

// About how many rows it will read.
int64 EstimateRows(const GlobalIndex &index);

} // namespace index_table
