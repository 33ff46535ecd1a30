#include "deferred/queued_relation.h"

#include "core/public.h"

namespace index_table {
namespace {

constinit RelationCache relations = {};

QueuedTable MakeQueuedTable(const IndexTable *table, const AttrMap *map) {
    QueuedTable queued = {.table = MakeLeafTable(table, map),
                          .identity = palloc_array(AttrNumber, table->identity_count)};
    for (int i = 0; i < table->identity_count; i++) {
        AttrNumber attno = table->identity[i].base_attno;
        queued.identity[i] = map ? map->attnums[attno - 1] : attno;
    }
    return queued;
}

void Add(QueuedRelation *queued, const IndexTable *table, const AttrMap *map) {
    QueuedTable *added = &queued->tables[queued->count++];
    *added = MakeQueuedTable(table, map);
    queued->has_expressions = queued->has_expressions || added->table.has_expressions;
}

// The columns that are looked at.
Bitmapset *CollectColumns(const QueuedRelation *queued) {
    Bitmapset *columns = nullptr;
    for (const QueuedTable &table : std::span(queued->tables, queued->count)) {
        for (AttrNumber attno : std::span(table.table.used, table.table.used_count))
            columns = bms_add_member(columns, attno);
        for (AttrNumber attno : std::span(table.identity, table.table.table->identity_count))
            columns = bms_add_member(columns, attno);
    }
    return columns;
}

const QueuedRelation *Load(Relation rel) {
    Oid root = RootOf(RelationGetRelid(rel));
    const Base *base = FindBase(root);
    if (!base)
        return nullptr;
    // Logical replication fires no statement trigger that would have done so.
    SettleBeforeChange(base);
    base = FindBase(root);
    if (!base)
        return nullptr;
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table queued", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    QueuedRelation *queued = palloc0_object(QueuedRelation);
    queued->cached = {.relid = RelationGetRelid(rel), .valid = true, .context = context};
    queued->base = root;
    queued->base_serial = base->serial;
    queued->tables = palloc0_array(QueuedTable, base->table_count);
    AttrMap *map = nullptr;
    if (root != RelationGetRelid(rel)) {
        Relation base_rel = relation_open(root, AccessShareLock);
        map = compat::MapColumnsByName(RelationGetDescr(rel), RelationGetDescr(base_rel));
        relation_close(base_rel, AccessShareLock);
    }
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (OidIsValid(table->queue) && !table->is_unusable())
            Add(queued, table, map);
    Bitmapset *columns = CollectColumns(queued);
    queued->max_attno = Max(0, bms_prev_member(columns, -1));
    queued->generated = FindGenerated(rel, columns);
    MemoryContextSwitchTo(caller);
    PutCached(&relations, &queued->cached);
    return queued;
}

} // namespace

const QueuedRelation *FindQueuedRelation(Relation rel) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
    if (CachedRelation *found = FindCached(&relations, RelationGetRelid(rel))) {
        QueuedRelation *queued = reinterpret_cast<QueuedRelation *>(found);
        const Base *base = FindBase(queued->base);
        if (base && base->serial == queued->base_serial)
            return queued;
        ForgetCached(&relations, found);
    }
    return Load(rel);
}

void InitializeQueuedRelations() {
    InitializeRelationCache(&relations, "index_table queued relations");
}

} // namespace index_table
