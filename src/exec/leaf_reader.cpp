#include "exec/leaf_reader.h"

#include "core/public.h"
#include "exec/attachment.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

// An index table shows no snapshot that is older than them rows of partitions that have joined.
Viewer ViewerOf(const LeafReader *reader) {
    return {.base = reader->table->base, .snapshot = reader->snapshot};
}

// Sets the leaf up to be searched through `index`; false where the identity does not determine the
// index's key.
bool UseIndex(LeafReader *reader, OpenLeaf *leaf, Relation index) {
    const IndexTable *table = reader->table;
    Form_pg_index form = index->rd_index;
    int count = form->indnkeyatts;
    if (!form->indisvalid || index->rd_rel->relam != BTREE_AM_OID ||
        !heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr))
        return false;
    int identity[INDEX_MAX_KEYS];
    for (int i = 0; i < count; i++) {
        identity[i] = -1;
        for (int j = 0; j < table->identity_count; j++) {
            AttrNumber attno = table->identity[j].base_attno;
            if (form->indkey.values[i] == (leaf->map ? leaf->map->attnums[attno - 1] : attno))
                identity[i] = j;
        }
        if (identity[i] < 0)
            return false;
    }
    leaf->key_count = count;
    leaf->keys = MakeSearchKeys(index, count);
    leaf->key_identity = palloc_array(int, count);
    std::copy(identity, identity + count, leaf->key_identity);
    return true;
}

// The index by which the identity finds a row: the primary key if it will do, else a unique one if
// there is one.
Relation ChooseIndex(LeafReader *reader, OpenLeaf *leaf) {
    List *indexes = RelationGetIndexList(leaf->rel);
    if (OidIsValid(leaf->rel->rd_pkindex)) {
        Relation index = index_open(leaf->rel->rd_pkindex, AccessShareLock);
        if (UseIndex(reader, leaf, index))
            return index;
        index_close(index, AccessShareLock);
    }
    Relation chosen = nullptr;
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        bool is_better =
            !chosen || (index->rd_index->indisunique && !chosen->rd_index->indisunique);
        if (!is_better || !UseIndex(reader, leaf, index)) {
            index_close(index, AccessShareLock);
            continue;
        }
        if (chosen)
            index_close(chosen, AccessShareLock);
        chosen = index;
    }
    return chosen;
}

// The partition with a number; InvalidOid where the snapshot does not show it.
Oid FindReadable(const LeafReader *reader, int32 partition_id) {
    Oid relid = FindPartition(reader->table->base, partition_id);
    int depth;
    return OidIsValid(relid) && IsAttached(ViewerOf(reader), relid, &depth) ? relid : InvalidOid;
}

void OpenPartition(LeafReader *reader, OpenLeaf *leaf) {
    FAULT_POINT("leaf_reader.open_partition");
    Oid relid = FindPartition(reader->table->base, leaf->partition_id);
    Relation rel = OidIsValid(relid)
                       ? OpenAttached(ViewerOf(reader), relid, reader->lock, &leaf->depth)
                       : nullptr;
    if (!rel)
        return;
    // Waiting for the lock may have changed it.
    if (FindPartition(reader->table->base, leaf->partition_id) != relid) {
        relation_close(rel, NoLock);
        return;
    }
    leaf->rel = rel;
    leaf->map = MapToBase(rel, reader->base);
    leaf->slot = table_slot_create(rel, nullptr);
    reader->opened++;
    leaf->is_foreign = rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
    if (leaf->is_foreign)
        return;
    leaf->index = ChooseIndex(reader, leaf);
    if (!leaf->index)
        leaf->table_scan = compat::BeginTableScan(rel, reader->snapshot);
}

} // namespace

void BeginLeafReader(LeafReader *reader, const IndexTable *table, Relation base, Snapshot snapshot,
                     LOCKMODE lock) {
    Assert(IsKnown(table) && RelationGetRelid(base) == table->base && snapshot && lock != NoLock);
    Assert(CheckRelationLockedByMe(base, AccessShareLock, true));
    *reader = {.table = table,
               .base = base,
               .snapshot = snapshot,
               .lock = lock,
               .memory = CurrentMemoryContext};
}

namespace {

OpenLeaf *GetEntry(LeafReader *reader, int32 partition_id) {
    if (reader->last && reader->last->partition_id == partition_id)
        return reader->last;
    OpenLeaf *leaf = static_cast<OpenLeaf *>(reader->by_number.Find(partition_id));
    if (!leaf) {
        leaf = static_cast<OpenLeaf *>(MemoryContextAllocZero(reader->memory, sizeof(OpenLeaf)));
        leaf->partition_id = partition_id;
        leaf->next = reader->leaves;
        reader->leaves = leaf;
        reader->by_number.Add(partition_id, leaf, reader->memory);
    }
    return reader->last = leaf;
}

} // namespace

OpenLeaf *GetLeaf(LeafReader *reader, int32 partition_id) {
    OpenLeaf *leaf = GetEntry(reader, partition_id);
    if (!leaf->is_known) {
        MemoryContext caller = MemoryContextSwitchTo(reader->memory);
        OpenPartition(reader, leaf);
        MemoryContextSwitchTo(caller);
        leaf->is_known = true;
    }
    return leaf->rel ? leaf : nullptr;
}

bool IsReadable(LeafReader *reader, int32 partition_id) {
    OpenLeaf *leaf = GetEntry(reader, partition_id);
    if (!leaf->is_known) {
        // Locked like a partition that is read: what has been shown must not be truncated before
        // the transaction ends.
        Oid relid = FindReadable(reader, partition_id);
        if (OidIsValid(relid)) {
            LockRelationOid(relid, reader->lock);
            leaf->is_readable = FindReadable(reader, partition_id) == relid &&
                                HasRowsFor(reader->table, relid, reader->snapshot);
        }
        leaf->is_known = true;
    }
    return leaf->is_readable;
}

namespace {

void BeginScan(LeafReader *reader, OpenLeaf *leaf) {
    OpenLeaf **place = &reader->scanning[reader->next_scan];
    reader->next_scan = (reader->next_scan + 1) % LeafReader::kScans;
    if (*place) {
        index_endscan((*place)->scan);
        (*place)->scan = nullptr;
    }
    *place = leaf;
    leaf->scan = compat::BeginIndexScan(leaf->rel, leaf->index, reader->snapshot, leaf->key_count);
}

} // namespace

void SeekRows(LeafReader *reader, OpenLeaf *leaf, const Datum *values, const bool *nulls) {
    FAULT_POINT("leaf_reader.seek_rows");
    Assert(leaf->rel);
    if (leaf->is_foreign)
        elog(ERROR, "partition \"%s\" is on a shard", RelationGetRelationName(leaf->rel));
    MemoryContext caller = MemoryContextSwitchTo(reader->memory);
    if (leaf->index) {
        if (!leaf->scan)
            BeginScan(reader, leaf);
        for (int i = 0; i < leaf->key_count; i++) {
            int column = leaf->key_identity[i];
            SetSearchValue(&leaf->keys[i], values[column], nulls[column]);
        }
        index_rescan(leaf->scan, leaf->keys, leaf->key_count, nullptr, 0);
    } else {
        table_rescan(leaf->table_scan, nullptr);
    }
    MemoryContextSwitchTo(caller);
}

bool NextRow(LeafReader *reader, OpenLeaf *leaf) {
    Assert(leaf->rel && !leaf->is_foreign);
    // A scan remembers killed items in the memory context it is first advanced in.
    MemoryContext caller = MemoryContextSwitchTo(reader->memory);
    bool found = leaf->scan
                     ? index_getnext_slot(leaf->scan, ForwardScanDirection, leaf->slot)
                     : table_scan_getnextslot(leaf->table_scan, ForwardScanDirection, leaf->slot);
    MemoryContextSwitchTo(caller);
    return found;
}

void EndLeafReader(LeafReader *reader) {
    for (OpenLeaf *leaf = reader->leaves; leaf; leaf = leaf->next) {
        if (!leaf->rel)
            continue;
        if (leaf->scan)
            index_endscan(leaf->scan);
        if (leaf->index)
            index_close(leaf->index, NoLock);
        else if (leaf->table_scan)
            table_endscan(leaf->table_scan);
        ExecDropSingleTupleTableSlot(leaf->slot);
        relation_close(leaf->rel, NoLock);
    }
    reader->by_number.Destroy();
}

} // namespace index_table
