// What an index table stores of a row, found by partition number and identity. The index for it is
// made by the first drain.
#pragma once

#include "maintenance/public.h"

namespace index_table {

// Of one index table, or a partition of one. Where it is on servers, the index table itself, which
// has no more than `rel`, `stored` and `memory`.
struct Finder {
    Relation rel;
    Relation index;
    int key_count;
    ScanKeyData *keys;
    IndexScanDesc known; // under the snapshot
    SnapshotData dirty;
    IndexScanDesc current; // null: not wanted
    TupleTableSlot *slot;
    const AttrNumber *stored; // by position
    MemoryContext memory;     // that it lives in
};

struct StoredEntries {
    int count;
    int capacity;
    HeapTuple *tuples;
};

// `sees_changes`: what transactions in progress do is wanted, too. Raises 55000 where there is no
// index.
Finder *OpenFinder(const IndexTable *table, Oid storage, const IdentityPositions &identity,
                   Snapshot snapshot, bool sees_changes);
void CloseFinder(Finder *finder);

// Adds an entry that was read.
void AddStored(StoredEntries *found, HeapTuple entry);
// Adds what the snapshot sees of a row.
void FindStored(Finder *finder, const Datum *identity, int32 partition_id, StoredEntries *found);
// The same; returns false where something else is stored now, or that is changing.
bool FindUnchanged(Finder *finder, const Datum *identity, int32 partition_id, StoredEntries *found);

// Collects the deletion of what is stored: what the row still has is cancelled by its insertion.
void CollectStored(EntryCollector *collector, const Finder *finder, const StoredEntries &stored);

} // namespace index_table
