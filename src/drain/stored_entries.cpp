#include "drain/stored_entries.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

void Seek(Finder *finder, IndexScanDesc scan, const Datum *identity, int32 partition_id) {
    int last = finder->key_count - 1;
    for (int i = 0; i < last; i++)
        finder->keys[i].sk_argument = identity[i];
    finder->keys[last].sk_argument = Int32GetDatum(partition_id);
    index_rescan(scan, finder->keys, finder->key_count, nullptr, 0);
}

// A scan remembers killed items in the memory context it is first advanced in.
bool Next(Finder *finder, IndexScanDesc scan) {
    MemoryContext caller = MemoryContextSwitchTo(finder->memory);
    bool found = index_getnext_slot(scan, ForwardScanDirection, finder->slot);
    MemoryContextSwitchTo(caller);
    return found;
}

} // namespace

Finder *OpenFinder(const IndexTable *table, Oid storage, const IdentityPositions &identity,
                   Snapshot snapshot, bool sees_changes) {
    Finder *finder = palloc0_object(Finder);
    finder->memory = CurrentMemoryContext;
    finder->rel = table_open(storage, RowExclusiveLock);
    finder->stored = GetLiveColumns(finder->rel, table->column_count);
    List *attnos = IdentityIndexColumns(table, identity, finder->stored);
    Oid index = FindIdentityIndex(finder->rel, attnos);
    if (!OidIsValid(index))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("index table \"%s\" has no index over its identity",
                               RelationGetRelationName(finder->rel)),
                        errhint("CALL index_table.drain() creates it.")));
    finder->index = index_open(index, RowExclusiveLock);
    finder->key_count = list_length(attnos);
    finder->keys = MakeSearchKeys(finder->index, finder->key_count);
    finder->slot = table_slot_create(finder->rel, nullptr);
    finder->known = compat::BeginIndexScan(finder->rel, finder->index, snapshot, finder->key_count);
    if (sees_changes) {
        InitDirtySnapshot(finder->dirty);
        finder->current =
            compat::BeginIndexScan(finder->rel, finder->index, &finder->dirty, finder->key_count);
    }
    return finder;
}

void CloseFinder(Finder *finder) {
    if (!finder->index) {
        table_close(finder->rel, NoLock);
        return;
    }
    index_endscan(finder->known);
    if (finder->current)
        index_endscan(finder->current);
    ExecDropSingleTupleTableSlot(finder->slot);
    index_close(finder->index, NoLock);
    table_close(finder->rel, NoLock);
}

void AddStored(StoredEntries *found, HeapTuple entry) {
    if (found->count == found->capacity) {
        found->capacity = Max(8, found->capacity * 2);
        HeapTuple *grown = palloc_array(HeapTuple, found->capacity);
        std::copy(found->tuples, found->tuples + found->count, grown);
        found->tuples = grown;
    }
    found->tuples[found->count++] = entry;
}

void FindStored(Finder *finder, const Datum *identity, int32 partition_id, StoredEntries *found) {
    Seek(finder, finder->known, identity, partition_id);
    while (Next(finder, finder->known))
        AddStored(found, ExecCopySlotHeapTuple(finder->slot));
}

bool FindUnchanged(Finder *finder, const Datum *identity, int32 partition_id,
                   StoredEntries *found) {
    Assert(finder->current);
    int first = found->count;
    FindStored(finder, identity, partition_id, found);
    Seek(finder, finder->current, identity, partition_id);
    int current = 0;
    while (Next(finder, finder->current)) {
        if (TransactionIdIsValid(finder->dirty.xmin) || TransactionIdIsValid(finder->dirty.xmax))
            return false;
        current++;
        if (std::none_of(found->tuples + first, found->tuples + found->count,
                         [finder](HeapTuple tuple) {
                             return ItemPointerEquals(&tuple->t_self, &finder->slot->tts_tid);
                         }))
            return false;
    }
    return current == found->count - first;
}

void CollectStored(EntryCollector *collector, const Finder *finder, const StoredEntries &stored) {
    const IndexTable *table = collector->table;
    Datum *values = palloc_array(Datum, table->column_count);
    bool *nulls = palloc_array(bool, table->column_count);
    for (HeapTuple tuple : std::span(stored.tuples, stored.count)) {
        for (int i = 0; i < table->column_count; i++)
            values[i] =
                heap_getattr(tuple, finder->stored[i], RelationGetDescr(finder->rel), &nulls[i]);
        CollectChange(collector, values, nulls, ChangeKind::Delete);
    }
}

} // namespace index_table
