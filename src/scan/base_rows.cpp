#include "scan/base_rows.h"

#include "build/query.h"
#include "compat/compat.h"
#include "maintenance/entries.h"
#include "maintenance/leaf.h"

namespace index_table {
namespace {

// A partition being read.
struct OpenLeaf {
    Oid relid;
    Relation rel; // null: gone
    Relation index;
    IndexScanDesc scan;
    TableScanDesc table_scan;
    ScanKeyData keys[INDEX_MAX_KEYS];
    int key_count;
    int key_identity[INDEX_MAX_KEYS]; // which identity column each key is
    AttrNumber *identity_attnos;
    TupleTableSlot *slot;
    EntryMaker *maker;
    TupleConversionMap *to_base; // null: same layout
};

} // namespace

struct BaseRows {
    const IndexTable *table;
    Relation base;
    Oid owner; // whose rights the key's expressions run with
    Snapshot snapshot;
    bool row_security;
    List *attnos; // that the caller needs; NIL: every column
    // Under row security.
    SPIPlanPtr plan;
    List *secured_attnos; // the columns that the plan returns
    TupleTableSlot *secured_row;
    LeafTable secured_table;
    EntryMaker *secured_maker;
    HTAB *leaves;
    ExprContext *context;
    MemoryContext memory;
};

namespace {

// Chooses the index by which the identity finds a row: unique if there is one.
void ChooseIndex(BaseRows *rows, OpenLeaf *leaf) {
    Relation chosen = nullptr;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(leaf->rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        Form_pg_index form = index->rd_index;
        int count = form->indnkeyatts;
        bool usable = form->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
                      RelationGetIndexPredicate(index) == NIL &&
                      (!chosen || (form->indisunique && !chosen->rd_index->indisunique));
        int identity[INDEX_MAX_KEYS];
        for (int i = 0; usable && i < count; i++) {
            identity[i] = -1;
            for (int j = 0; j < rows->table->identity_count; j++)
                if (leaf->identity_attnos[j] == form->indkey.values[i])
                    identity[i] = j;
            usable = identity[i] >= 0;
        }
        if (!usable) {
            index_close(index, AccessShareLock);
            continue;
        }
        if (chosen)
            index_close(chosen, AccessShareLock);
        chosen = index;
        leaf->key_count = count;
        for (int i = 0; i < count; i++) {
            Oid type = index->rd_opcintype[i];
            Oid equals =
                get_opfamily_member(index->rd_opfamily[i], type, type, BTEqualStrategyNumber);
            ScanKeyEntryInitialize(&leaf->keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
                                   index->rd_indcollation[i], get_opcode(equals), 0);
            leaf->key_identity[i] = identity[i];
        }
    }
    leaf->index = chosen;
    if (chosen)
        leaf->scan = index_beginscan(leaf->rel, chosen, rows->snapshot, leaf->key_count, 0);
    else
        leaf->table_scan = table_beginscan(leaf->rel, rows->snapshot, 0, nullptr);
}

OpenLeaf *GetLeaf(BaseRows *rows, Oid relid) {
    bool found;
    OpenLeaf *leaf = static_cast<OpenLeaf *>(hash_search(rows->leaves, &relid, HASH_ENTER, &found));
    if (found)
        return leaf;
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    memset(leaf, 0, sizeof(OpenLeaf));
    leaf->relid = relid;
    leaf->rel = try_relation_open(relid, AccessShareLock);
    const Leaf *known = leaf->rel ? FindLeaf(leaf->rel) : nullptr;
    if (!known) {
        if (leaf->rel)
            relation_close(leaf->rel, AccessShareLock);
        leaf->rel = nullptr;
        MemoryContextSwitchTo(caller);
        return leaf;
    }
    AttrMap *map =
        compat::MapColumnsByName(RelationGetDescr(leaf->rel), RelationGetDescr(rows->base));
    int count = rows->table->identity_count;
    leaf->identity_attnos = static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * count));
    for (int i = 0; i < count; i++) {
        AttrNumber attno = rows->table->identity[i].base_attno;
        leaf->identity_attnos[i] = map ? map->attnums[attno - 1] : attno;
    }
    OwnerContext owner = EnterOwner(rows->owner);
    for (int i = 0; i < known->table_count; i++)
        if (known->tables[i].table->relid == rows->table->relid)
            leaf->maker = MakeEntryMaker(&known->tables[i], known->partition_id, rows->context);
    LeaveOwner(owner);
    leaf->to_base =
        convert_tuples_by_name(RelationGetDescr(leaf->rel), RelationGetDescr(rows->base));
    leaf->slot = table_slot_create(leaf->rel, nullptr);
    ChooseIndex(rows, leaf);
    MemoryContextSwitchTo(caller);
    return leaf;
}

bool IsSame(Datum a, bool a_is_null, Datum b, bool b_is_null, Form_pg_attribute att) {
    return a_is_null == b_is_null &&
           (a_is_null || datum_image_eq(a, b, att->attbyval, att->attlen));
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

// Whether the row in the leaf's slot has the entry: its identity, and its key among its own.
bool HasEntry(BaseRows *rows, OpenLeaf *leaf, const Datum *entry, const bool *nulls,
              TupleDesc descriptor) {
    const IndexTable *table = rows->table;
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        bool isnull;
        Datum value = slot_getattr(leaf->slot, leaf->identity_attnos[i], &isnull);
        if (!IsSame(value, isnull, entry[position], nulls[position],
                    TupleDescAttr(descriptor, position)))
            return false;
    }
    return HasKey(rows, leaf->maker, leaf->slot, entry, nulls, descriptor);
}

HeapTuple CopyRow(OpenLeaf *leaf) {
    bool should_free;
    HeapTuple tuple = ExecFetchSlotHeapTuple(leaf->slot, true, &should_free);
    return leaf->to_base ? execute_attr_map_tuple(tuple, leaf->to_base) : heap_copytuple(tuple);
}

List *FindInLeaf(BaseRows *rows, OpenLeaf *leaf, const Datum *entry, const bool *nulls,
                 TupleDesc descriptor) {
    List *found = NIL;
    MemoryContext caller = CurrentMemoryContext;
    auto keep = [&] {
        MemoryContext scanning = MemoryContextSwitchTo(caller);
        if (HasEntry(rows, leaf, entry, nulls, descriptor))
            found = lappend(found, CopyRow(leaf));
        MemoryContextSwitchTo(scanning);
    };
    // A scan remembers killed items in the memory context it is first advanced in.
    MemoryContextSwitchTo(rows->memory);
    if (leaf->scan) {
        for (int i = 0; i < leaf->key_count; i++) {
            int position = rows->table->identity[leaf->key_identity[i]].position;
            leaf->keys[i].sk_argument = entry[position];
            leaf->keys[i].sk_flags = nulls[position] ? SK_ISNULL | SK_SEARCHNULL : 0;
            leaf->keys[i].sk_strategy = nulls[position] ? InvalidStrategy : BTEqualStrategyNumber;
        }
        index_rescan(leaf->scan, leaf->keys, leaf->key_count, nullptr, 0);
        while (index_getnext_slot(leaf->scan, ForwardScanDirection, leaf->slot))
            keep();
    } else {
        table_rescan(leaf->table_scan, nullptr);
        while (table_scan_getnextslot(leaf->table_scan, ForwardScanDirection, leaf->slot)) {
            CHECK_FOR_INTERRUPTS();
            keep();
        }
    }
    MemoryContextSwitchTo(caller);
    ExecClearTuple(leaf->slot);
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
    rows->secured_attnos = NIL;
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    for (int i = 0; i < descriptor->natts; i++)
        if (!TupleDescAttr(descriptor, i)->attisdropped &&
            (rows->attnos == NIL || list_member_int(rows->attnos, i + 1)))
            rows->secured_attnos = lappend_int(rows->secured_attnos, i + 1);
    rows->secured_row = MakeSingleTupleTableSlot(descriptor, &TTSOpsVirtual);
    rows->secured_table = MakeLeafTable(table, nullptr);
    OwnerContext owner = EnterOwner(rows->owner);
    rows->secured_maker = MakeEntryMaker(&rows->secured_table, 0, rows->context);
    LeaveOwner(owner);
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
        KeyColumn column = {};
        column.type = att->atttypid;
        column.opclass = GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
        types[i + 1] = getBaseType(att->atttypid);
        const char *name = quote_identifier(NameStr(att->attname));
        appendStringInfo(&sql, " AND (b.%s %s $%d", name,
                         KeyOperator(column, BTEqualStrategyNumber), i + 2);
        if (!att->attnotnull)
            appendStringInfo(&sql, " OR (b.%s IS NULL AND $%d IS NULL)", name, i + 2);
        appendStringInfoChar(&sql, ')');
    }
    rows->plan = SPI_prepare(sql.data, table->identity_count + 1, types);
    if (!rows->plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
}

List *FindSecured(BaseRows *rows, Oid relid, const Datum *entry, const bool *nulls,
                  TupleDesc descriptor) {
    if (!rows->plan)
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
    if (SPI_execute_plan(rows->plan, values, value_nulls, true, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read the base table");
    List *found = NIL;
    SPITupleTable *result = SPI_tuptable;
    MemoryContext spi = MemoryContextSwitchTo(caller);
    TupleTableSlot *slot = rows->secured_row;
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
        if (HasKey(rows, rows->secured_maker, slot, entry, nulls, descriptor))
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
    BaseRows *rows = static_cast<BaseRows *>(palloc0(sizeof(BaseRows)));
    rows->table = table;
    rows->attnos = attnos;
    rows->memory = CurrentMemoryContext;
    rows->base = relation_open(table->base, AccessShareLock);
    rows->owner = rows->base->rd_rel->relowner;
    rows->snapshot = GetActiveSnapshot();
    rows->row_security = check_enable_rls(table->base, InvalidOid, false) == RLS_ENABLED;
    rows->context = CreateStandaloneExprContext();
    HASHCTL control = {};
    control.keysize = sizeof(Oid);
    control.entrysize = sizeof(OpenLeaf);
    control.hcxt = CurrentMemoryContext;
    rows->leaves =
        hash_create("index_table leaves read", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    return rows;
}

bool HasRowSecurity(const BaseRows *rows) {
    return rows->row_security;
}

List *FindBaseRows(BaseRows *rows, HeapTuple entry, TupleDesc descriptor) {
    const IndexTable *table = rows->table;
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * descriptor->natts));
    bool *nulls = static_cast<bool *>(palloc(sizeof(bool) * descriptor->natts));
    heap_deform_tuple(entry, descriptor, values, nulls);
    Oid relid = FindPartition(table->base, DatumGetInt32(values[table->partition_position()]));
    if (!OidIsValid(relid))
        return NIL;
    if (rows->row_security)
        return FindSecured(rows, relid, values, nulls, descriptor);
    OpenLeaf *leaf = GetLeaf(rows, relid);
    return leaf->rel ? FindInLeaf(rows, leaf, values, nulls, descriptor) : NIL;
}

void EndBaseRows(BaseRows *rows) {
    HASH_SEQ_STATUS status;
    hash_seq_init(&status, rows->leaves);
    while (OpenLeaf *leaf = static_cast<OpenLeaf *>(hash_seq_search(&status))) {
        if (!leaf->rel)
            continue;
        if (leaf->scan) {
            index_endscan(leaf->scan);
            index_close(leaf->index, NoLock);
        } else {
            table_endscan(leaf->table_scan);
        }
        ExecDropSingleTupleTableSlot(leaf->slot);
        relation_close(leaf->rel, NoLock);
    }
    if (rows->secured_row)
        ExecDropSingleTupleTableSlot(rows->secured_row);
    hash_destroy(rows->leaves);
    FreeExprContext(rows->context, true);
    relation_close(rows->base, NoLock);
}

} // namespace index_table
