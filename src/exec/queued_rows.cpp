#include "exec/queued_rows.h"

#include "core/public.h"

namespace index_table {
namespace {

// What entries its rows have; null where the relation is no leaf with a number, or is not to be
// seen by the snapshot. What is about to be detached is not locked.
EntryMaker *MakeMaker(QueuedRows *rows, Oid relid) {
    std::optional<PartitionNumber> number = FindPartitionNumber(relid);
    if (!number || number->base != rows->table->base)
        return nullptr;
    const OpenLeaf *open = GetLeaf(&rows->reader, number->id);
    if (!open || RelationGetRelid(open->rel) != relid)
        return nullptr;
    LeafTable *leaf_table = palloc_object(LeafTable);
    *leaf_table = MakeLeafTable(rows->table, open->map);
    return MakeEntryMaker(leaf_table, number->id, rows->context);
}

QueuedLeaf *GetQueuedLeaf(QueuedRows *rows, Oid relid) {
    for (QueuedLeaf *leaf = rows->leaves; leaf; leaf = leaf->next)
        if (leaf->relid == relid)
            return leaf;
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    QueuedLeaf *leaf = palloc0_object(QueuedLeaf);
    leaf->relid = relid;
    leaf->is_busy = rows->router.no_wait && !ConditionalLockRelationOid(relid, rows->reader.lock);
    leaf->maker = leaf->is_busy ? nullptr : MakeMaker(rows, relid);
    leaf->partition_id = leaf->maker ? leaf->maker->partition_id : 0;
    leaf->next = rows->leaves;
    rows->leaves = leaf;
    MemoryContextSwitchTo(caller);
    return leaf;
}

} // namespace

void BeginQueuedRows(QueuedRows *rows, const IndexTable *table, Relation base, Snapshot snapshot,
                     LOCKMODE lock) {
    *rows = {.table = table, .memory = CurrentMemoryContext};
    rows->columns = palloc_array(AttrNumber, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        rows->columns[i] = table->identity[i].base_attno;
    BeginRouter(&rows->router, base, rows->columns, table->identity_count);
    BeginLeafReader(&rows->reader, table, base, snapshot, lock);
    rows->context = CreateStandaloneExprContext();
}

void EndQueuedRows(QueuedRows *rows) {
    EndLeafReader(&rows->reader);
    EndRouter(&rows->router);
    FreeExprContext(rows->context, false);
}

List *FindQueuedLeaves(QueuedRows *rows, const Datum *identity) {
    bool nulls[INDEX_MAX_KEYS] = {};
    List *relids = FindRoute(&rows->router, identity, nulls);
    List *leaves = NIL;
    ListCell *cell;
    foreach (cell, relids)
        leaves = lappend(leaves, GetQueuedLeaf(rows, lfirst_oid(cell)));
    list_free(relids);
    return leaves;
}

bool TryLockQueuedLeaves(QueuedRows *rows, const Datum *identity) {
    rows->router.no_wait = true;
    rows->router.is_busy = false;
    bool is_busy = false;
    ListCell *cell;
    foreach (cell, FindQueuedLeaves(rows, identity))
        is_busy = is_busy || static_cast<QueuedLeaf *>(lfirst(cell))->is_busy;
    return !is_busy && !rows->router.is_busy;
}

bool HasIdentity(const QueuedRows *rows, const OpenLeaf *open, const Datum *identity) {
    for (int i = 0; i < rows->table->identity_count; i++) {
        AttrNumber attno = rows->columns[i];
        bool isnull;
        Datum value =
            slot_getattr(open->slot, open->map ? open->map->attnums[attno - 1] : attno, &isnull);
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rows->reader.base), attno - 1);
        TypeCacheEntry *type = lookup_type_cache(att->atttypid, TYPECACHE_EQ_OPR_FINFO);
        if (isnull || !DatumGetBool(FunctionCall2Coll(&type->eq_opr_finfo, att->attcollation, value,
                                                      identity[i])))
            return false;
    }
    return true;
}

} // namespace index_table
