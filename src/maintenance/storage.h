// The relations that store the entries of an index table: itself or, where it is hash-partitioned,
// its partitions. Whoever writes entries opens, routes and closes by this.
#pragma once

#include "core/public.h"

namespace index_table {

// Entries in one call of table_multi_insert(), as many as COPY has.
constexpr int kInsertedAtOnce = 1000;

// The OIDs of these relations. `mode` is taken on partitions and kept, as find_all_inheritors()
// does; the index table itself is locked by the caller.
List *StorageOf(Oid index_table, LOCKMODE mode);

// The same of an index table that is open and locked, by place from 0. Valid as long as it is open.
struct EntryStorage {
    Relation root;
    PartitionKey partition_key; // null: it is not partitioned
    PartitionDesc partitions;
    int count;
};
EntryStorage GetStorage(Relation index_table);

// Opens the relation at a place with RowExclusiveLock, the index table itself as it is; closes it,
// but not the index table, and keeps the lock.
Relation OpenPart(const EntryStorage &storage, int place);
void ClosePart(const EntryStorage &storage, Relation rel);

// The place that takes an entry with this value of the partitioning column, of a partitioned index
// table; -1 where that partition is missing, for which RouteValue() raises 55000.
int FindPlace(const EntryStorage &storage, Datum value, bool isnull);
int RouteValue(const EntryStorage &storage, Datum value, bool isnull);

// The place that takes an entry. The partitioning column is the first of the key, which is the
// first of a query for entries, too. Raises 55000 where it is missing.
inline int RouteEntry(const EntryStorage &storage, HeapTuple entry) {
    if (!storage.partition_key)
        return 0;
    bool isnull;
    Datum value = heap_getattr(entry, storage.partition_key->partattrs[0],
                               RelationGetDescr(storage.root), &isnull);
    return RouteValue(storage, value, isnull);
}

inline int RouteEntry(const EntryStorage &storage, TupleTableSlot *entry) {
    if (!storage.partition_key)
        return 0;
    bool isnull;
    Datum value = slot_getattr(entry, storage.partition_key->partattrs[0], &isnull);
    return RouteValue(storage, value, isnull);
}

// Opens a relation that holds entries, and its indexes, for the executor's routines; `speculative`:
// for insertion under ON CONFLICT. In the current memory context.
ResultRelInfo *OpenForExecutor(EState *estate, Relation rel, bool speculative);
// Closes the indexes and frees `estate`, with the slots in its tuple table.
void CloseForExecutor(EState *estate, ResultRelInfo *relinfo);

// Checks the constraints of a relation so opened on an entry that is about to be stored.
inline void CheckConstraints(EState *estate, ResultRelInfo *relinfo, TupleTableSlot *entry) {
    Relation rel = relinfo->ri_RelationDesc;
    entry->tts_tableOid = RelationGetRelid(rel);
    if (rel->rd_att->constr)
        ExecConstraints(relinfo, entry, estate);
}

} // namespace index_table
