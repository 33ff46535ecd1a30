#include "maintenance/leaf.h"

#include "core/public.h"
#include "maintenance/settle.h"

namespace index_table {
namespace {

RelationCache leaves;

AttrNumber MapAttno(const AttrMap *map, AttrNumber base_attno) {
    return map ? map->attnums[base_attno - 1] : base_attno;
}

Expr *MapExpr(const AttrMap *map, Expr *expr) {
    if (!map || !expr)
        return expr;
    bool found_whole_row;
    return reinterpret_cast<Expr *>(map_variable_attnos(reinterpret_cast<Node *>(expr), 1, 0, map,
                                                        InvalidOid, &found_whole_row));
}

int ToArray(Bitmapset *columns, AttrNumber **array) {
    *array =
        static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * Max(1, bms_num_members(columns))));
    int count = 0;
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;)
        (*array)[count++] = member;
    return count;
}

Bitmapset *CollectAttnos(Bitmapset *columns, Expr *expr) {
    Bitmapset *shifted = nullptr;
    pull_varattnos(reinterpret_cast<Node *>(expr), 1, &shifted);
    for (int member = -1; (member = bms_next_member(shifted, member)) >= 0;)
        columns = bms_add_member(columns, member + FirstLowInvalidHeapAttributeNumber);
    return columns;
}

// Unusable index tables do not learn of changes, but logs do: rebuild() may have begun.
int FillTables(LeafTable *tables, const Base *base, const AttrMap *map) {
    int count = 0;
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (!table->is_unusable() || OidIsValid(table->log))
            tables[count++] = MakeLeafTable(table, map);
    return count;
}

const Leaf *LoadLeaf(Relation rel) {
    Oid relid = RelationGetRelid(rel);
    std::optional<PartitionNumber> number = FindPartitionNumber(relid);
    Oid root = number ? number->base : RootOf(relid);
    const Base *known = FindBase(root);
    if (!known)
        return nullptr;
    // Logical replication fires no statement trigger that would have done so.
    SettleBeforeChange(known);
    if (!number)
        number = FindPartitionNumber(relid);
    if (!number) {
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("partition \"%s\" is not registered with the index tables of \"%s\"",
                               RelationGetRelationName(rel), get_rel_name(root)),
                        errhint("It was attached while event triggers were off. Call "
                                "index_table.repair() for an index table of \"%s\".",
                                get_rel_name(root)),
                        errtable(rel)));
    }
    const Base *base = FindBase(number->base);
    if (!base)
        return nullptr;

    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table leaf", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    Leaf *leaf = static_cast<Leaf *>(palloc0(sizeof(Leaf)));
    leaf->cached = {.relid = relid, .valid = true, .context = context};
    leaf->partition_id = number->id;
    leaf->is_foreign = rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
    leaf->base = base;
    leaf->base_relid = base->relid;
    leaf->base_serial = base->serial;
    leaf->tables = static_cast<LeafTable *>(palloc0(sizeof(LeafTable) * base->table_count));

    Bitmapset *used = nullptr;
    AttrMap *map = nullptr;
    if (base->relid != relid) {
        Relation base_rel = relation_open(base->relid, AccessShareLock);
        map = compat::MapColumnsByName(RelationGetDescr(rel), RelationGetDescr(base_rel));
        relation_close(base_rel, AccessShareLock);
    }
    leaf->table_count = FillTables(leaf->tables, base, map);
    for (int i = 0; i < leaf->table_count; i++)
        for (AttrNumber attno : std::span(leaf->tables[i].used, leaf->tables[i].used_count))
            used = bms_add_member(used, attno);
    leaf->used_count = ToArray(used, &leaf->used);
    leaf->max_attno = leaf->used_count > 0 ? leaf->used[leaf->used_count - 1] : 0;

    MemoryContextSwitchTo(caller);
    PutCached(&leaves, &leaf->cached);
    return leaf;
}

} // namespace

LeafTable MakeLeafTable(const IndexTable *table, const AttrMap *map) {
    Assert(IsKnown(table) && IsMemoryFreed());
    const Key &key = table->key;
    Bitmapset *used = nullptr;
    LeafTable leaf_table = {};
    leaf_table.table = table;
    leaf_table.key_attnos = static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * key.count));
    leaf_table.key_exprs = static_cast<Expr **>(palloc0(sizeof(Expr *) * key.count));
    leaf_table.per_element = static_cast<Expr **>(palloc0(sizeof(Expr *) * key.count));
    for (int i = 0; i < key.count; i++) {
        if (key.columns[i].attno != 0) {
            leaf_table.key_attnos[i] = MapAttno(map, key.columns[i].attno);
            used = bms_add_member(used, leaf_table.key_attnos[i]);
            continue;
        }
        leaf_table.has_expressions = true;
        leaf_table.key_exprs[i] = MapExpr(map, table->key_exprs[i]);
        leaf_table.per_element[i] = MapExpr(map, table->per_element[i]);
        used = CollectAttnos(used, leaf_table.key_exprs[i]);
        used = CollectAttnos(used, leaf_table.per_element[i]);
    }
    if (table->planned_predicate) {
        leaf_table.has_expressions = true;
        leaf_table.predicate = MapExpr(map, table->planned_predicate);
        used = CollectAttnos(used, leaf_table.predicate);
    }
    leaf_table.copied_attnos =
        static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * Max(1, table->copied_count)));
    for (int i = 0; i < table->copied_count; i++) {
        leaf_table.copied_attnos[i] = MapAttno(map, table->copied[i].base_attno);
        used = bms_add_member(used, leaf_table.copied_attnos[i]);
    }
    leaf_table.used_count = ToArray(used, &leaf_table.used);
    return leaf_table;
}

const Leaf *FindLeaf(Relation rel) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
    if (CachedRelation *cached = FindCached(&leaves, RelationGetRelid(rel))) {
        Leaf *leaf = reinterpret_cast<Leaf *>(cached);
        const Base *base = FindBase(leaf->base_relid);
        if (base && base->serial == leaf->base_serial)
            return leaf;
        ForgetCached(&leaves, cached);
    }
    return LoadLeaf(rel);
}

void InitializeLeafCache() {
    InitializeRelationCache(&leaves, "index_table leaves");
}

} // namespace index_table
