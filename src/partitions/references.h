// What foreign keys that point at an index table, and deferrable constraints, demand beyond what
// their triggers see.
//
// To PostgreSQL an index table is an ordinary table. These triggers find entries that do not exist
// any more, those of partitions that have gone, and a foreign key's take whoever mends entries for
// one who changes keys. So where there are such triggers, no dead entries are stored: they are
// removed together with the partition, past the triggers, after rows that refer to them were looked
// for in one query for each foreign key.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Entries that were removed past the foreign keys' triggers; in the memory context that was current
// at BeginRemoval().
struct RemovedEntries {
    const IndexTable *table;
    TupleDesc descriptor; // by position; columns c1, c2, …
    Tuplestorestate *entries;
    int64 count;
};
RemovedEntries *BeginRemoval(const IndexTable *table);
void RememberRemoved(RemovedEntries *removed, const Datum *values, const bool *nulls);

// Whether foreign keys point at an index table, or it has deferrable constraints. Locks it as
// writers do, until the transaction ends: nobody makes another one meanwhile.
bool LockIfTriggersLook(Oid index_table);

// Raises 23503 where a row refers to a removed entry whose key has no entry any more.
void CheckAfterRepair(RemovedEntries *removed);

// A leaf that is about to lose its number.
struct Leaving {
    int32 number;
    const char *name;
};
void AddLeaving(List **leaving, Oid leaf, const char *name);

// Removes the entries of leaves that were detached or dropped from index tables that foreign keys
// point at. Raises 23503 where rows refer to them. `just_check`: removes nothing.
void RemoveReferenced(Oid base, List *leaving, bool just_check);
// After the leaves' numbers were retired: no entry of these index tables has one.
void ForgetReferenced(Oid base, List *leaving);

// Both around giving a leaf that is about to be truncated another number. The entries of all leaves
// that the same command truncates are removed at once.
void RenumberReferenced(Oid leaf);

// After a command that may have made a table refer to an index table: orders its row triggers, and
// removes dead entries, which the foreign key may have met. Raises 23503 where a row refers to one
// of them.
void FollowForeignKeys(Oid referencing);

// After a command that may have given an index table a deferrable constraint: removes dead entries.
void FollowConstraints(Oid relid);

} // namespace index_table
