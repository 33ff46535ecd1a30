#include "drain/apply.h"

#include "maintenance/public.h"
#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

// Finding entries of one index table, or a partition of one, by partition number and identity.
struct Finder {
    Relation rel;
    Relation index;
    int key_count;
    ScanKeyData *keys;
    IndexScanDesc known; // under the snapshot
    SnapshotData dirty;
    IndexScanDesc current;
    TupleTableSlot *slot;
    const AttrNumber *stored; // by position
};

struct StoredEntries {
    int count;
    int capacity;
    HeapTuple *tuples;
};

// Positions in an index table of the identity's columns, in the queue's order.
int *FindPositions(const ShardQueue *queue, const IndexTable *table) {
    int *positions = palloc_array(int, queue->identity_count);
    for (int i = 0; i < queue->identity_count; i++) {
        const char *name =
            NameStr(TupleDescAttr(RelationGetDescr(queue->rel), queue->identity[i] - 1)->attname);
        AttrNumber attno = get_attnum(table->base, name);
        positions[i] = -1;
        for (const CopiedColumn &column : std::span(table->identity, table->identity_count))
            if (column.base_attno == attno)
                positions[i] = column.position;
    }
    return positions;
}

// The columns of the index: the identity's, and the partition number; attribute numbers.
List *IndexColumns(const ShardQueue *queue, const IndexTable *table, const AttrNumber *stored) {
    const int *positions = FindPositions(queue, table);
    List *attnos = NIL;
    for (int i = 0; i < queue->identity_count; i++)
        attnos = lappend_int(attnos, stored[positions[i]]);
    return lappend_int(attnos, stored[table->partition_position()]);
}

bool Serves(Relation index, List *attnos) {
    Form_pg_index form = index->rd_index;
    bool serves = index->rd_rel->relam == BTREE_AM_OID && form->indisvalid &&
                  RelationGetIndexPredicate(index) == NIL &&
                  form->indnkeyatts == list_length(attnos);
    for (int i = 0; serves && i < form->indnkeyatts; i++)
        serves = form->indkey.values[i] == list_nth_int(attnos, i);
    return serves;
}

Oid FindIdentityIndex(Relation rel, List *attnos) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        bool serves = Serves(index, attnos);
        index_close(index, NoLock);
        if (serves)
            return lfirst_oid(cell);
    }
    return InvalidOid;
}

Finder *OpenFinder(const ShardQueue *queue, const IndexTable *table, Oid storage,
                   Snapshot snapshot) {
    Finder *finder = palloc0_object(Finder);
    finder->rel = table_open(storage, RowExclusiveLock);
    finder->stored = GetLiveColumns(finder->rel, table->column_count);
    List *attnos = IndexColumns(queue, table, finder->stored);
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
    InitDirtySnapshot(finder->dirty);
    finder->known = compat::BeginIndexScan(finder->rel, finder->index, snapshot, finder->key_count);
    finder->current =
        compat::BeginIndexScan(finder->rel, finder->index, &finder->dirty, finder->key_count);
    return finder;
}

void CloseFinder(Finder *finder) {
    index_endscan(finder->known);
    index_endscan(finder->current);
    ExecDropSingleTupleTableSlot(finder->slot);
    index_close(finder->index, NoLock);
    table_close(finder->rel, NoLock);
}

// Finds what is stored of a row. Returns false where that is changing.
bool Find(const ShardQueue *queue, Finder *finder, const QueuedRow &row, StoredEntries *found) {
    for (int i = 0; i < queue->identity_count; i++)
        finder->keys[i].sk_argument = row.identity[i];
    finder->keys[queue->identity_count].sk_argument = Int32GetDatum(queue->leaf->partition_id);
    int first = found->count;
    index_rescan(finder->known, finder->keys, finder->key_count, nullptr, 0);
    while (index_getnext_slot(finder->known, ForwardScanDirection, finder->slot)) {
        if (found->count == found->capacity) {
            found->capacity = Max(8, found->capacity * 2);
            HeapTuple *grown = palloc_array(HeapTuple, found->capacity);
            std::copy(found->tuples, found->tuples + found->count, grown);
            found->tuples = grown;
        }
        found->tuples[found->count++] = ExecCopySlotHeapTuple(finder->slot);
    }
    index_rescan(finder->current, finder->keys, finder->key_count, nullptr, 0);
    int current = 0;
    while (index_getnext_slot(finder->current, ForwardScanDirection, finder->slot)) {
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

// Collects the deletion of what is stored: what the row still has is cancelled by its insertion.
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

void CollectRowEntries(EntryCollector *collector, EntryMaker *maker, TupleTableSlot *slot,
                       const QueuedRow &row) {
    if (!row.exists)
        return;
    int natts = slot->tts_tupleDescriptor->natts;
    ExecClearTuple(slot);
    std::copy(row.values, row.values + natts, slot->tts_values);
    std::copy(row.nulls, row.nulls + natts, slot->tts_isnull);
    ExecStoreVirtualTuple(slot);
    ForEachEntry(maker, slot, [&](const Datum *values, const bool *nulls) {
        CollectChange(collector, values, nulls, ChangeKind::Insert);
    });
}

// The entries that a set of rows has in one index table.
struct TableEntries {
    int finder_count;
    Finder **finders;
    StoredEntries *stored; // by finder and row
};

TableEntries FindEntries(const ShardQueue *queue, const IndexTable *table,
                         std::span<QueuedRow> rows, Snapshot snapshot) {
    List *storage = StorageOf(table->relid, RowExclusiveLock);
    TableEntries entries = {.finder_count = list_length(storage)};
    entries.finders = palloc_array(Finder *, entries.finder_count);
    entries.stored = static_cast<StoredEntries *>(
        palloc0(sizeof(StoredEntries) * entries.finder_count * rows.size()));
    for (int i = 0; i < entries.finder_count; i++) {
        entries.finders[i] = OpenFinder(queue, table, list_nth_oid(storage, i), snapshot);
        for (Size row = 0; row < rows.size(); row++)
            if (!Find(queue, entries.finders[i], rows[row], &entries.stored[i * rows.size() + row]))
                rows[row].is_contended = true;
        CHECK_FOR_INTERRUPTS();
    }
    return entries;
}

} // namespace

void ApplyRows(const ShardQueue *queue, std::span<QueuedRow> rows, Snapshot snapshot,
               const IndexTable *only) {
    Assert(IsLocked(queue->leaf->base_relid, RowExclusiveLock) &&
           IsLocked(queue->relid, RowExclusiveLock));
    Assert(IsInOwner() && snapshot);
    const Leaf *leaf = queue->leaf;
    RememberWrittenPartition(leaf->partition_id);
    auto concerns = [=](int i) { return !only || leaf->tables[i].table == only; };
    TableEntries *entries = palloc_array(TableEntries, leaf->table_count);
    for (int i = 0; i < leaf->table_count; i++)
        if (concerns(i))
            entries[i] = FindEntries(queue, leaf->tables[i].table, rows, snapshot);
    ExprContext *context = CreateStandaloneExprContext();
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(queue->rel), &TTSOpsVirtual);
    for (int i = 0; i < leaf->table_count; i++) {
        if (!concerns(i))
            continue;
        const IndexTable *table = leaf->tables[i].table;
        EntryCollector collector = BeginCollecting(table);
        bool may_link = table->options.is_unique && table->key.multi_valued < 0;
        EntryMaker *maker = MakeEntryMaker(&leaf->tables[i], leaf->partition_id, context);
        for (Size row = 0; row < rows.size(); row++) {
            if (rows[row].is_contended)
                continue;
            uint32 sequence = collector.buffer->sequence;
            for (int j = 0; j < entries[i].finder_count; j++)
                CollectStored(&collector, entries[i].finders[j],
                              entries[i].stored[j * rows.size() + row]);
            bool had_one = collector.buffer->sequence == sequence + 1;
            CollectRowEntries(&collector, maker, slot, rows[row]);
            // Foreign keys take it for an update.
            if (may_link && had_one && collector.buffer->sequence == sequence + 2)
                LinkLastTwo(collector.buffer);
            ResetExprContext(context);
        }
        for (int j = 0; j < entries[i].finder_count; j++)
            CloseFinder(entries[i].finders[j]);
    }
    ExecDropSingleTupleTableSlot(slot);
    FreeExprContext(context, true);
    FlushAllChanges();
}

bool EnsureIdentityIndexes(const ShardQueue *queue) {
    Assert(CheckRelationLockedByMe(queue->rel, AccessShareLock, true));
    bool created = false;
    for (int i = 0; i < queue->leaf->table_count; i++) {
        const IndexTable *table = queue->leaf->tables[i].table;
        Relation rel = table_open(table->relid, AccessShareLock);
        const AttrNumber *stored = GetLiveColumns(rel, table->column_count);
        List *attnos = IndexColumns(queue, table, stored);
        bool found = OidIsValid(FindIdentityIndex(rel, attnos));
        StringInfoData sql;
        initStringInfo(&sql);
        appendStringInfo(&sql, "CREATE INDEX ON %s (", QualifiedName(table->relid));
        ListCell *cell;
        foreach (cell, attnos)
            appendStringInfo(
                &sql, "%s%s", foreach_current_index(cell) ? ", " : "",
                quote_identifier(
                    NameStr(TupleDescAttr(RelationGetDescr(rel), lfirst_int(cell) - 1)->attname)));
        appendStringInfoChar(&sql, ')');
        table_close(rel, AccessShareLock);
        if (found)
            continue;
        // One drain of several partitions creates it.
        LockRelationOid(table->relid, ShareUpdateExclusiveLock);
        rel = table_open(table->relid, NoLock);
        found = OidIsValid(FindIdentityIndex(rel, attnos));
        table_close(rel, NoLock);
        if (!found)
            RunStatement(sql.data);
        created = true;
    }
    return created;
}

} // namespace index_table
