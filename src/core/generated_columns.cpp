#include "core/generated_columns.h"

#include "core/compat.h"
#include "core/number_map.h"

namespace index_table {

struct GeneratedColumns {
    const Bitmapset *columns;
    EState *estate;
    ModifyTableState *modify; // of an INSERT, as far as routing looks at it
    PartitionTupleRouting *routing;
    NumberMap leaves; // by OID
};

namespace {

// What a partition generates, in the layout of the table above.
struct GeneratedLeaf {
    int count; // 0: rows in transition tables have it
    AttrNumber *attnos;
    ExprState **values;
};

bool IsStoredGenerated(Form_pg_attribute att) {
    return att->attgenerated == ATTRIBUTE_GENERATED_STORED;
}

bool HasDefaults(Relation attrdef, Oid relid) {
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(relid));
    SysScanDesc scan = systable_beginscan(attrdef, AttrDefaultIndexId, true, nullptr, 1, &key);
    bool found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    return found;
}

bool IsGeneratedIn(Oid relid, const char *column) {
    HeapTuple tuple = SearchSysCacheAttName(relid, column);
    if (!HeapTupleIsValid(tuple))
        return false;
    bool is_generated = IsStoredGenerated(reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple)));
    ReleaseSysCache(tuple);
    return is_generated;
}

// Most partitions have neither defaults nor generated columns, and one look tells: the catalog
// cache is not to know the columns of thousands.
Bitmapset *FindGeneratedBelow(Relation rel, Bitmapset *columns) {
    Bitmapset *generated = nullptr;
    Relation attrdef = table_open(AttrDefaultRelationId, AccessShareLock);
    List *tree = find_all_inheritors(RelationGetRelid(rel), NoLock, nullptr);
    ListCell *cell;
    foreach (cell, tree) {
        Oid relid = lfirst_oid(cell);
        if (!HasDefaults(attrdef, relid))
            continue;
        for (int attno = 0; (attno = bms_next_member(columns, attno)) > 0;)
            if (IsGeneratedIn(relid,
                              NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname)))
                generated = bms_add_member(generated, attno);
    }
    table_close(attrdef, AccessShareLock);
    list_free(tree);
    return generated;
}

void Compile(GeneratedColumns *generated, GeneratedLeaf *leaf, Relation rel, const AttrMap *map,
             AttrNumber attno) {
    Node *value = build_column_default(rel, attno);
    bool found_whole_row;
    leaf->attnos[leaf->count] = map->attnums[attno - 1];
    leaf->values[leaf->count++] =
        ExecPrepareExpr(reinterpret_cast<Expr *>(
                            map_variable_attnos(value, 1, 0, map, InvalidOid, &found_whole_row)),
                        generated->estate);
}

GeneratedLeaf *MakeLeaf(GeneratedColumns *generated, Relation rel) {
    TupleDesc descriptor = RelationGetDescr(rel);
    GeneratedLeaf *leaf = palloc0_object(GeneratedLeaf);
    const AttrMap *map = compat::MapColumnsByName(
        RelationGetDescr(generated->modify->rootResultRelInfo->ri_RelationDesc), descriptor);
    if (!map) // the row is the one that the partition has completed
        return leaf;
    leaf->attnos = palloc_array(AttrNumber, descriptor->natts);
    leaf->values = palloc_array(ExprState *, descriptor->natts);
    for (int i = 0; i < descriptor->natts; i++)
        if (IsStoredGenerated(TupleDescAttr(descriptor, i)) &&
            bms_is_member(map->attnums[i], generated->columns))
            Compile(generated, leaf, rel, map, i + 1);
    return leaf;
}

const GeneratedLeaf *GetLeaf(GeneratedColumns *generated, Relation rel) {
    Oid relid = RelationGetRelid(rel);
    if (void *found = generated->leaves.Find(relid))
        return static_cast<GeneratedLeaf *>(found);
    MemoryContext memory = generated->estate->es_query_cxt;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    GeneratedLeaf *leaf = MakeLeaf(generated, rel);
    generated->leaves.Add(relid, leaf, memory);
    MemoryContextSwitchTo(caller);
    return leaf;
}

// Copied as INSERT does: the value may be what only the function that made it may change.
bool Fill(ExprState *expr, ExprContext *context, TupleTableSlot *row, AttrNumber attno) {
    Assert(attno <= row->tts_nvalid);
    Form_pg_attribute att = TupleDescAttr(row->tts_tupleDescriptor, attno - 1);
    Datum *value = &row->tts_values[attno - 1];
    bool *isnull = &row->tts_isnull[attno - 1];
    bool is_made_null;
    Datum made = ExecEvalExpr(expr, context, &is_made_null);
    if (is_made_null ? *isnull
                     : !*isnull && datum_image_eq(*value, made, att->attbyval, att->attlen))
        return false;
    *value = is_made_null ? 0 : datumCopy(made, att->attbyval, att->attlen);
    *isnull = is_made_null;
    return true;
}

} // namespace

Bitmapset *FindGenerated(Relation rel, Bitmapset *columns) {
    if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return nullptr;
    if (compat::kPartitionsGenerateAlone)
        return FindGeneratedBelow(rel, columns);
    Bitmapset *generated = nullptr;
    for (int attno = 0; (attno = bms_next_member(columns, attno)) > 0;)
        if (IsStoredGenerated(TupleDescAttr(RelationGetDescr(rel), attno - 1)))
            generated = bms_add_member(generated, attno);
    return generated;
}

void AnnounceGenerated(Oid partition) {
    if (!compat::kPartitionsGenerateAlone)
        return;
    ListCell *cell;
    foreach (cell, get_partition_ancestors(partition))
        CacheInvalidateRelcacheByRelid(lfirst_oid(cell));
}

GeneratedColumns *BeginGenerated(Relation rel, const Bitmapset *columns) {
    Assert(rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && !bms_is_empty(columns));
    EState *estate = CreateExecutorState();
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    ResultRelInfo *root = makeNode(ResultRelInfo);
    InitResultRelInfo(root, rel, 0, nullptr, 0);
    ModifyTableState *modify = makeNode(ModifyTableState);
    modify->ps.state = estate;
    modify->operation = CMD_INSERT;
    modify->mt_nrels = 1;
    modify->resultRelInfo = modify->rootResultRelInfo = root;
    GeneratedColumns *generated = palloc0_object(GeneratedColumns);
    generated->columns = columns;
    generated->estate = estate;
    generated->modify = modify;
    generated->routing = ExecSetupPartitionTupleRouting(estate, rel);
    MemoryContextSwitchTo(caller);
    return generated;
}

bool FillGenerated(GeneratedColumns *generated, TupleTableSlot *row) {
    EState *estate = generated->estate;
    ResetPerTupleExprContext(estate);
    MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
    ModifyTableState *modify = generated->modify;
    Relation rel =
        ExecFindPartition(modify, modify->rootResultRelInfo, generated->routing, row, estate)
            ->ri_RelationDesc;
    const GeneratedLeaf *leaf = GetLeaf(generated, rel);
    ExprContext *context = GetPerTupleExprContext(estate);
    context->ecxt_scantuple = row;
    row->tts_tableOid = RelationGetRelid(rel);
    bool is_changed = false;
    for (int i = 0; i < leaf->count; i++)
        is_changed |= Fill(leaf->values[i], context, row, leaf->attnos[i]);
    MemoryContextSwitchTo(caller);
    return is_changed;
}

void EndGenerated(GeneratedColumns *generated) {
    EState *estate = generated->estate;
    ExecCleanupTupleRouting(generated->modify, generated->routing);
    ExecResetTupleTable(estate->es_tupleTable, false);
    FreeExecutorState(estate);
}

} // namespace index_table
