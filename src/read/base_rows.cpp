#include "read/base_rows.h"

#include "catalog/public.h"
#include "core/public.h"
#include "exec/public.h"
#include "maintenance/public.h"

namespace index_table {

struct BaseRows {
    const IndexTable *table;
    Relation base;
    Oid owner; // whose rights the key's expressions run with
    Snapshot snapshot;
    bool row_security;
    List *attnos; // that the caller needs; NIL: every column
    // Of rows that come in the base table's layout; null: none has come yet.
    TupleTableSlot *base_row;
    LeafTable base_table;
    EntryMaker *base_maker;
    // Under row security.
    BoundPlan secured;
    List *secured_attnos; // the columns that it returns
    LeafReader leaves;
    ShardRows *shards; // null: no foreign partition has been asked yet
    ExprContext *context;
    MemoryContext memory;
};

namespace {

// What is needed of a leaf beside its rows.
struct LeafUse {
    LeafTable leaf_table;
    EntryMaker *maker;
    TupleConversionMap *to_base; // null: same layout
};

LeafUse *GetUse(BaseRows *rows, OpenLeaf *leaf) {
    if (leaf->attached)
        return static_cast<LeafUse *>(leaf->attached);
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    LeafUse *use = static_cast<LeafUse *>(palloc0(sizeof(LeafUse)));
    use->leaf_table = MakeLeafTable(rows->table, leaf->map);
    OwnerContext owner = EnterOwner(rows->owner);
    use->maker = MakeEntryMaker(&use->leaf_table, leaf->partition_id, rows->context);
    LeaveOwner(owner);
    if (leaf->map)
        use->to_base =
            convert_tuples_by_name(RelationGetDescr(leaf->rel), RelationGetDescr(rows->base));
    leaf->attached = use;
    MemoryContextSwitchTo(caller);
    return use;
}

// What is needed of rows in the base table's layout.
void PrepareBaseLayout(BaseRows *rows) {
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    rows->base_row = MakeSingleTupleTableSlot(RelationGetDescr(rows->base), &TTSOpsVirtual);
    rows->base_table = MakeLeafTable(rows->table, nullptr);
    OwnerContext owner = EnterOwner(rows->owner);
    rows->base_maker = MakeEntryMaker(&rows->base_table, 0, rows->context);
    LeaveOwner(owner);
    MemoryContextSwitchTo(caller);
}

// The live columns of the base table among `wanted` (NIL: all of them).
List *LiveAttnos(const BaseRows *rows, const List *wanted) {
    TupleDesc descriptor = RelationGetDescr(rows->base);
    List *attnos = NIL;
    for (int i = 0; i < descriptor->natts; i++)
        if (!TupleDescAttr(descriptor, i)->attisdropped &&
            (wanted == NIL || list_member_int(wanted, i + 1)))
            attnos = lappend_int(attnos, i + 1);
    return attnos;
}

bool IsSame(Datum a, bool a_is_null, Datum b, bool b_is_null, Form_pg_attribute att) {
    return a_is_null == b_is_null && (a_is_null || IsSameImage(att, a, b));
}

// Whether an entry's key is among those of a row.
bool HasKey(BaseRows *rows, EntryMaker *maker, TupleTableSlot *row, const Datum *entry,
            const bool *nulls, TupleDesc descriptor) {
    const Key &key = rows->table->key;
    bool has_key = false;
    bool as_owner = maker->leaf_table->has_expressions;
    OwnerContext owner;
    if (as_owner)
        owner = EnterOwner(rows->owner);
    ForEachEntry(maker, row, [&](const Datum *own, const bool *own_nulls) {
        bool same = true;
        for (int i = 0; same && i < key.count; i++)
            same = IsSame(own[i], own_nulls[i], entry[i], nulls[i], TupleDescAttr(descriptor, i));
        has_key = has_key || same;
    });
    if (as_owner)
        LeaveOwner(owner);
    ResetExprContext(rows->context);
    return has_key;
}

// Whether a row has the entry: its identity, and its key among its own. `map` gives the row's
// columns for the base table's, null where they are alike.
bool HasEntry(BaseRows *rows, EntryMaker *maker, const AttrMap *map, TupleTableSlot *row,
              const Datum *entry, const bool *nulls, TupleDesc descriptor) {
    const IndexTable *table = rows->table;
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        bool isnull;
        AttrNumber attno = table->identity[i].base_attno;
        Datum value = slot_getattr(row, map ? map->attnums[attno - 1] : attno, &isnull);
        if (!IsSame(value, isnull, entry[position], nulls[position],
                    TupleDescAttr(descriptor, position)))
            return false;
    }
    return HasKey(rows, maker, row, entry, nulls, descriptor);
}

HeapTuple CopyRow(BaseRows *rows, OpenLeaf *leaf) {
    bool should_free;
    HeapTuple tuple = ExecFetchSlotHeapTuple(leaf->slot, true, &should_free);
    TupleConversionMap *to_base = GetUse(rows, leaf)->to_base;
    return to_base ? execute_attr_map_tuple(tuple, to_base) : heap_copytuple(tuple);
}

List *FindInLeaf(BaseRows *rows, OpenLeaf *leaf, const Datum *entry, const bool *nulls,
                 TupleDesc descriptor) {
    const IndexTable *table = rows->table;
    Datum identity[INDEX_MAX_KEYS];
    bool identity_nulls[INDEX_MAX_KEYS];
    for (int i = 0; i < table->identity_count; i++) {
        identity[i] = entry[table->identity[i].position];
        identity_nulls[i] = nulls[table->identity[i].position];
    }
    List *found = NIL;
    EntryMaker *maker = GetUse(rows, leaf)->maker;
    SeekRows(&rows->leaves, leaf, identity, identity_nulls);
    while (NextRow(&rows->leaves, leaf)) {
        CHECK_FOR_INTERRUPTS();
        if (HasEntry(rows, maker, leaf->map, leaf->slot, entry, nulls, descriptor))
            found = lappend(found, CopyRow(rows, leaf));
    }
    return found;
}

NullableDatum *IdentityOf(const IndexTable *table, HeapTuple entry, TupleDesc descriptor) {
    NullableDatum *identity = palloc_array(NullableDatum, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        identity[i].value =
            heap_getattr(entry, table->identity[i].position + 1, descriptor, &identity[i].isnull);
    return identity;
}

// Fetches the rows of an entry and of those that follow it from foreign partitions.
void ReadAhead(BaseRows *rows, const EntryScan *scan, HeapTuple entry, int ahead) {
    const IndexTable *table = rows->table;
    TupleDesc descriptor = scan->batch->tupdesc;
    auto want = [&](HeapTuple wanted) {
        bool isnull;
        Datum number = heap_getattr(wanted, table->partition_position() + 1, descriptor, &isnull);
        OpenLeaf *leaf = GetLeaf(&rows->leaves, DatumGetInt32(number));
        if (leaf && leaf->is_foreign)
            WantRow(rows->shards, leaf, IdentityOf(table, wanted, descriptor));
    };
    ahead = Min(ahead, BatchLimit(rows->shards, ahead));
    BeginBatch(rows->shards);
    want(entry);
    for (uint64 i = scan->next; i < scan->batch->numvals && --ahead > 0; i++)
        want(scan->batch->vals[i]);
    FetchBatch(rows->shards);
}

List *FindInShard(BaseRows *rows, OpenLeaf *leaf, const EntryScan *scan, HeapTuple entry,
                  const Datum *values, const bool *nulls, int ahead) {
    TupleDesc descriptor = scan->batch->tupdesc;
    if (!rows->shards) {
        PrepareBaseLayout(rows);
        MemoryContext caller = MemoryContextSwitchTo(rows->memory);
        rows->shards =
            BeginShardRows(rows->table, rows->base,
                           {.columns = LiveAttnos(rows, NIL), .snapshot = rows->snapshot});
        MemoryContextSwitchTo(caller);
    }
    const NullableDatum *identity = IdentityOf(rows->table, entry, descriptor);
    if (!IsWanted(rows->shards, leaf, identity))
        ReadAhead(rows, scan, entry, ahead);
    List *found = NIL;
    TupleTableSlot *slot = rows->base_row;
    for (const ShardRow *row = FindShardRow(rows->shards, leaf, identity); row; row = row->next) {
        ExecClearTuple(slot);
        memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
        for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++) {
            int place = GetPlace(rows->shards, i + 1);
            if (place < 0)
                continue;
            slot->tts_values[i] = row->values[place];
            slot->tts_isnull[i] = row->nulls[place];
        }
        ExecStoreVirtualTuple(slot);
        if (HasEntry(rows, rows->base_maker, nullptr, slot, values, nulls, descriptor))
            found = lappend(found, ExecCopySlotHeapTuple(slot));
        ExecClearTuple(slot);
    }
    return found;
}

// Through the base table, as the user: PostgreSQL applies the policies. Reads the columns that the
// user may be shown, no more.
void PrepareSecured(BaseRows *rows) {
    const IndexTable *table = rows->table;
    TupleDesc descriptor = RelationGetDescr(rows->base);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    PrepareBaseLayout(rows);
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    rows->secured_attnos = LiveAttnos(rows, rows->attnos);
    MemoryContextSwitchTo(caller);
    ListCell *cell;
    foreach (cell, rows->secured_attnos)
        appendStringInfo(
            &sql, "%sb.%s", cell == list_head(rows->secured_attnos) ? "" : ", ",
            quote_identifier(NameStr(TupleDescAttr(descriptor, lfirst_int(cell) - 1)->attname)));
    Oid types[INDEX_MAX_KEYS + 1];
    // With rights to some columns only, the partition cannot be asked for.
    bool may_ask = pg_class_aclcheck(table->base, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
    appendStringInfo(&sql, " FROM %s AS b WHERE %s", QualifiedName(table->base),
                     may_ask ? "b.tableoid OPERATOR(pg_catalog.=) $1" : "true");
    types[0] = OIDOID;
    for (int i = 0; i < table->identity_count; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, table->identity[i].base_attno - 1);
        types[i + 1] = getBaseType(att->atttypid);
        const char *name = quote_identifier(NameStr(att->attname));
        appendStringInfo(&sql, " AND (%s",
                         BoundCondition("b", NameStr(att->attname),
                                        GetDefaultOpClass(att->atttypid, BTREE_AM_OID),
                                        BTEqualStrategyNumber, i + 2));
        if (!compat::HoldsNoNull(descriptor, att->attnum))
            appendStringInfo(
                &sql, " OR (b.%s IS NOT DISTINCT FROM NULL AND $%d IS NOT DISTINCT FROM NULL)",
                name, i + 2);
        appendStringInfoChar(&sql, ')');
    }
    caller = MemoryContextSwitchTo(rows->memory);
    rows->secured = PrepareBound(sql.data, table, 0, table->identity_count + 1, types);
    MemoryContextSwitchTo(caller);
}

List *FindSecured(BaseRows *rows, Oid relid, const Datum *entry, const bool *nulls,
                  TupleDesc descriptor) {
    if (!rows->secured.plan)
        PrepareSecured(rows);
    const IndexTable *table = rows->table;
    Datum values[INDEX_MAX_KEYS + 1];
    char value_nulls[INDEX_MAX_KEYS + 1];
    values[0] = ObjectIdGetDatum(relid);
    value_nulls[0] = ' ';
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        values[i + 1] = entry[position];
        value_nulls[i + 1] = nulls[position] ? 'n' : ' ';
    }
    MemoryContext caller = CurrentMemoryContext;
    if (SPI_execute_plan_with_paramlist(rows->secured.plan,
                                        BoundParameters(rows->secured, values, value_nulls), true,
                                        0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read the base table");
    List *found = NIL;
    SPITupleTable *result = SPI_tuptable;
    MemoryContext spi = MemoryContextSwitchTo(caller);
    TupleTableSlot *slot = rows->base_row;
    for (uint64 i = 0; i < result->numvals; i++) {
        ExecClearTuple(slot);
        memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
        int column = 0;
        ListCell *cell;
        foreach (cell, rows->secured_attnos) {
            int attno = lfirst_int(cell);
            slot->tts_values[attno - 1] = SPI_getbinval(result->vals[i], result->tupdesc, ++column,
                                                        &slot->tts_isnull[attno - 1]);
        }
        ExecStoreVirtualTuple(slot);
        if (HasKey(rows, rows->base_maker, slot, entry, nulls, descriptor))
            found = lappend(found, ExecCopySlotHeapTuple(slot));
        ExecClearTuple(slot);
    }
    MemoryContextSwitchTo(spi);
    SPI_freetuptable(result);
    MemoryContextSwitchTo(caller);
    return found;
}

} // namespace

List *ShownColumns(const IndexTable *table) {
    Bitmapset *columns = nullptr;
    for (int i = 0; i < table->key.count; i++)
        columns = ReferencedColumns(columns, table->key.columns[i]);
    pull_varattnos(reinterpret_cast<Node *>(table->predicate), 1, &columns);
    List *attnos = NIL;
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;)
        attnos = lappend_int(attnos, member + FirstLowInvalidHeapAttributeNumber);
    for (const CopiedColumn &copy : std::span(table->copied, table->copied_count))
        attnos = list_append_unique_int(attnos, copy.base_attno);
    return attnos;
}

void CheckSelectPrivilege(const IndexTable *table, List *attnos) {
    Oid user = GetUserId();
    if (pg_class_aclcheck(table->base, user, ACL_SELECT) == ACLCHECK_OK)
        return;
    const char *base = get_rel_name(table->base);
    bool allowed = attnos != NIL || pg_attribute_aclcheck_all(table->base, user, ACL_SELECT,
                                                              ACLMASK_ALL) == ACLCHECK_OK;
    ListCell *cell;
    foreach (cell, attnos)
        allowed = allowed && pg_attribute_aclcheck(table->base, lfirst_int(cell), user,
                                                   ACL_SELECT) == ACLCHECK_OK;
    if (!allowed)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("permission denied for table %s", base),
                        errhint("Reading through an index table takes SELECT on \"%s\"%s.", base,
                                attnos ? ", or on the columns that the index table shows" : "")));
}

BaseRows *BeginBaseRows(const IndexTable *table, List *attnos) {
    Assert(IsKnown(table) && ActiveSnapshotSet());
    BaseRows *rows = static_cast<BaseRows *>(palloc0(sizeof(BaseRows)));
    rows->table = table;
    rows->attnos = attnos;
    rows->memory = CurrentMemoryContext;
    rows->base = relation_open(table->base, AccessShareLock);
    rows->owner = rows->base->rd_rel->relowner;
    rows->snapshot = GetActiveSnapshot();
    rows->row_security = check_enable_rls(table->base, InvalidOid, false) == RLS_ENABLED;
    rows->context = CreateStandaloneExprContext();
    BeginLeafReader(&rows->leaves, table, rows->base, rows->snapshot, AccessShareLock);
    return rows;
}

bool HasRowSecurity(const BaseRows *rows) {
    return rows->row_security;
}

List *FindBaseRows(BaseRows *rows, const EntryScan *scan, HeapTuple entry, int ahead) {
    Assert(ahead > 0);
    const IndexTable *table = rows->table;
    TupleDesc descriptor = scan->batch->tupdesc;
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * descriptor->natts));
    bool *nulls = static_cast<bool *>(palloc(sizeof(bool) * descriptor->natts));
    heap_deform_tuple(entry, descriptor, values, nulls);
    int32 partition_id = DatumGetInt32(values[table->partition_position()]);
    if (rows->row_security) {
        Oid relid = FindPartition(table->base, partition_id);
        return OidIsValid(relid) ? FindSecured(rows, relid, values, nulls, descriptor) : NIL;
    }
    OpenLeaf *leaf = GetLeaf(&rows->leaves, partition_id);
    if (leaf && leaf->is_foreign)
        return FindInShard(rows, leaf, scan, entry, values, nulls, ahead);
    return leaf ? FindInLeaf(rows, leaf, values, nulls, descriptor) : NIL;
}

void EndBaseRows(BaseRows *rows) {
    EndLeafReader(&rows->leaves);
    if (rows->shards)
        EndShardRows(rows->shards);
    if (rows->base_row)
        ExecDropSingleTupleTableSlot(rows->base_row);
    FreeExprContext(rows->context, true);
    relation_close(rows->base, NoLock);
}

} // namespace index_table
