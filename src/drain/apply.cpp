#include "drain/apply.h"

#include "catalog/public.h"
#include "core/public.h"
#include "drain/server_entries.h"
#include "drain/stored_entries.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

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

// With `others` what other transactions do to them is minded: rows are marked as contended.
TableEntries FindEntries(const ShardQueue *queue, const IndexTable *table,
                         std::span<QueuedRow> rows, Snapshot snapshot, bool others) {
    if (table->on_servers) {
        TableEntries entries = {.finder_count = 1, .finders = palloc_array(Finder *, 1)};
        entries.stored = static_cast<StoredEntries *>(palloc0(sizeof(StoredEntries) * rows.size()));
        entries.finders[0] = FindOnServers(table, queue, rows, entries.stored);
        return entries;
    }
    List *storage = StorageOf(table->relid, RowExclusiveLock);
    TableEntries entries = {.finder_count = list_length(storage)};
    entries.finders = palloc_array(Finder *, entries.finder_count);
    entries.stored = static_cast<StoredEntries *>(
        palloc0(sizeof(StoredEntries) * entries.finder_count * rows.size()));
    IdentityPositions identity = PositionsIn(queue, table);
    int32 partition_id = queue->leaf->partition_id;
    for (int i = 0; i < entries.finder_count; i++) {
        Finder *finder = OpenFinder(table, list_nth_oid(storage, i), identity, snapshot, others);
        entries.finders[i] = finder;
        for (Size row = 0; row < rows.size(); row++) {
            StoredEntries *stored = &entries.stored[i * rows.size() + row];
            if (!others)
                FindStored(finder, rows[row].identity, partition_id, stored);
            else if (!FindUnchanged(finder, rows[row].identity, partition_id, stored))
                rows[row].is_contended = true;
        }
        CHECK_FOR_INTERRUPTS();
    }
    return entries;
}

// What turns the entries that are stored of rows into those that they have. Closes the finders.
void CollectRows(const ShardQueue *queue, const LeafTable *leaf_table, std::span<QueuedRow> rows,
                 const TableEntries &entries, EntryCollector *collector) {
    const IndexTable *table = leaf_table->table;
    ExprContext *context = CreateStandaloneExprContext();
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(queue->rel), &TTSOpsVirtual);
    bool may_link = table->options.is_unique && table->key.multi_valued < 0;
    EntryMaker *maker = MakeEntryMaker(leaf_table, queue->leaf->partition_id, context);
    for (Size row = 0; row < rows.size(); row++) {
        if (rows[row].is_contended)
            continue;
        uint32 sequence = collector->buffer->sequence;
        for (int j = 0; j < entries.finder_count; j++)
            CollectStored(collector, entries.finders[j], entries.stored[j * rows.size() + row]);
        bool had_one = collector->buffer->sequence == sequence + 1;
        CollectRowEntries(collector, maker, slot, rows[row]);
        // Foreign keys take it for an update.
        if (may_link && had_one && collector->buffer->sequence == sequence + 2)
            LinkLastTwo(collector->buffer);
        ResetExprContext(context);
    }
    for (int j = 0; j < entries.finder_count; j++)
        CloseFinder(entries.finders[j]);
    ExecDropSingleTupleTableSlot(slot);
    FreeExprContext(context, true);
}

// One that is being built is told which rows are to be read again, when it has the others.
void LogQueued(const ShardQueue *queue, const IndexTable *table, std::span<QueuedRow> rows) {
    IdentityPositions identity = PositionsIn(queue, table);
    const Datum **identities = palloc_array(const Datum *, rows.size());
    for (Size i = 0; i < rows.size(); i++)
        identities[i] = rows[i].identity;
    LogRows(table, queue->leaf->partition_id, {identity.positions, Size(identity.count)},
            {identities, rows.size()});
}

} // namespace

IdentityPositions PositionsIn(const ShardQueue *queue, const IndexTable *table) {
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
    return {.count = queue->identity_count, .positions = positions};
}

void ApplyRows(const ShardQueue *queue, std::span<QueuedRow> rows, Snapshot snapshot,
               const IndexTable *only) {
    Assert(IsLocked(queue->leaf->base_relid, RowExclusiveLock) &&
           IsLocked(queue->relid, RowExclusiveLock));
    Assert(IsInOwner() && snapshot);
    const Leaf *leaf = queue->leaf;
    RememberWrittenPartition(leaf->partition_id);
    auto concerns = [=](int i) { return !only || leaf->tables[i].table == only; };
    auto is_built = [=](int i) { return !OidIsValid(leaf->tables[i].table->log); };
    TableEntries *entries = palloc_array(TableEntries, leaf->table_count);
    for (int i = 0; i < leaf->table_count; i++)
        if (concerns(i) && is_built(i))
            entries[i] = FindEntries(queue, leaf->tables[i].table, rows, snapshot, true);
    for (int i = 0; i < leaf->table_count; i++) {
        const LeafTable *table = &leaf->tables[i];
        if (!concerns(i))
            continue;
        if (!is_built(i)) {
            LogQueued(queue, table->table, rows);
            continue;
        }
        EntryCollector collector = BeginCollecting(table->table);
        CollectRows(queue, table, rows, entries[i], &collector);
    }
    FlushAllChanges();
}

void CollectForBuild(const ShardQueue *queue, std::span<QueuedRow> rows, Snapshot snapshot,
                     EntryCollector *collector) {
    Assert(OidIsValid(collector->table->log) && IsInOwner() && snapshot);
    const Leaf *leaf = queue->leaf;
    const LeafTable *table =
        std::find_if(leaf->tables, leaf->tables + leaf->table_count, [=](const LeafTable &other) {
            return other.table->relid == collector->table->relid;
        });
    if (table == leaf->tables + leaf->table_count)
        elog(ERROR, "index table with OID %u is none of partition \"%s\"", collector->table->relid,
             RelationGetRelationName(queue->rel));
    TableEntries entries = FindEntries(queue, table->table, rows, snapshot, false);
    CollectRows(queue, table, rows, entries, collector);
}

bool EnsureIdentityIndexes(const ShardQueue *queue) {
    Assert(CheckRelationLockedByMe(queue->rel, AccessShareLock, true));
    bool created = false;
    for (const LeafTable &table : std::span(queue->leaf->tables, queue->leaf->table_count))
        if (!OidIsValid(table.table->log) && !table.table->on_servers) // loading is faster without
            created = EnsureIdentityIndex(table.table, PositionsIn(queue, table.table)) || created;
    return created;
}

bool EnsureIdentityIndexOf(const ShardQueue *queue, const IndexTable *table) {
    return EnsureIdentityIndex(table, PositionsIn(queue, table));
}

} // namespace index_table
