#include "scan/entry_scan.h"

#include "build/query.h"

namespace index_table {
namespace {

constexpr long kBatchEntries = 500;
constexpr int kMaxKeptPlans = 256;

// Plans are kept for the session: a look-up should cost no planning.
struct PlanKey {
    uint64 table_serial;
    uint64 null_mask;
    int32 count;
    int32 last;
};
struct PlanEntry {
    PlanKey key;
    SPIPlanPtr plan;
};
HTAB *plans;

Oid OwnerOf(Oid relid) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for relation %u", relid);
    Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

void CheckSnapshot(const IndexTable *table) {
    if (!TransactionIdIsNormal(table->built) || TransactionIdIsCurrentTransactionId(table->built) ||
        !XidInMVCCSnapshot(table->built, GetActiveSnapshot()))
        return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("index table \"%s\" was built after this transaction's snapshot was taken",
                    get_rel_name(table->relid)),
             errhint("Query the base table, or start a new transaction.")));
}

const char *ColumnName(Relation rel, int position) {
    for (int i = 0, live = 0; i < RelationGetNumberOfAttributes(rel); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
        if (!att->attisdropped && live++ == position)
            return quote_identifier(NameStr(att->attname));
    }
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("index table \"%s\" has not the columns it was created with",
                           RelationGetRelationName(rel))));
}

// How a column of the B-tree is compared and ordered.
KeyColumn OrderOf(Relation rel, const IndexTable *table, int position) {
    if (position < table->key.count)
        return table->key.columns[position];
    KeyColumn column = {};
    for (int i = 0, live = 0; i < RelationGetNumberOfAttributes(rel); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
        if (!att->attisdropped && live++ == position) {
            column.type = att->atttypid;
            column.opclass = GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
        }
    }
    return column;
}

Oid TypeOf(const KeyColumn &column) {
    return getBaseType(column.type);
}

void AppendJson(StringInfo sql, Relation rel, Relation base,
                std::span<const CopiedColumn> columns) {
    appendStringInfoString(sql, ", jsonb_build_object(");
    for (Size i = 0; i < columns.size(); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), columns[i].base_attno - 1);
        appendStringInfo(sql, "%s%s, %s", i ? ", " : "", quote_literal_cstr(NameStr(att->attname)),
                         ColumnName(rel, columns[i].position));
    }
    appendStringInfoChar(sql, ')');
}

SPIPlanPtr Prepare(const IndexTable *table, const EntryCondition &condition) {
    Relation rel = table_open(table->relid, AccessShareLock);
    Relation base = relation_open(table->base, AccessShareLock);
    EntryOrder order = GetEntryOrder(table);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    for (int i = 0; i < table->column_count; i++)
        appendStringInfo(&sql, "%s%s", i ? ", " : "", ColumnName(rel, i));
    AppendJson(&sql, rel, base, {table->identity, static_cast<Size>(table->identity_count)});
    AppendJson(&sql, rel, base, {table->include, static_cast<Size>(table->include_count)});
    appendStringInfo(&sql, " FROM %s", QualifiedName(table->relid));

    Oid types[INDEX_MAX_KEYS];
    for (int i = 0; i < condition.count; i++) {
        const char *name = ColumnName(rel, order.positions[i]);
        KeyColumn column = OrderOf(rel, table, order.positions[i]);
        types[i] = TypeOf(column);
        appendStringInfoString(&sql, i ? " AND " : " WHERE ");
        Bound bound = i < condition.count - 1 ? Bound::Equal : condition.last;
        if (bound == Bound::Equal && condition.nulls[i])
            bound = Bound::IsNull;
        switch (bound) {
        case Bound::Equal:
            appendStringInfo(&sql, "%s %s $%d", name, KeyOperator(column, BTEqualStrategyNumber),
                             i + 1);
            break;
        case Bound::After:
            appendStringInfo(&sql, "%s %s $%d", name,
                             KeyOperator(column, column.descending ? BTLessStrategyNumber
                                                                   : BTGreaterStrategyNumber),
                             i + 1);
            break;
        case Bound::IsNull:
            appendStringInfo(&sql, "%s IS NULL", name);
            break;
        case Bound::IsNotNull:
            appendStringInfo(&sql, "%s IS NOT NULL", name);
            break;
        }
    }
    appendStringInfoString(&sql, " ORDER BY ");
    for (int i = 0; i < order.count; i++) {
        KeyColumn column = OrderOf(rel, table, order.positions[i]);
        StrategyNumber strategy =
            column.descending ? BTGreaterStrategyNumber : BTLessStrategyNumber;
        appendStringInfo(&sql, "%s%s USING %s NULLS %s", i ? ", " : "",
                         ColumnName(rel, order.positions[i]), KeyOperator(column, strategy),
                         column.nulls_first ? "FIRST" : "LAST");
    }
    table_close(rel, AccessShareLock);
    relation_close(base, AccessShareLock);

    SPIPlanPtr plan = SPI_prepare_cursor(sql.data, condition.count, types, CURSOR_OPT_FAST_PLAN);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    return plan;
}

SPIPlanPtr GetPlan(const IndexTable *table, const EntryCondition &condition) {
    PlanKey key;
    memset(&key, 0, sizeof(key));
    key.table_serial = table->serial;
    key.count = condition.count;
    key.last = static_cast<int32>(condition.last);
    for (int i = 0; i < condition.count; i++)
        key.null_mask |= static_cast<uint64>(condition.nulls[i]) << i;
    if (plans && hash_get_num_entries(plans) >= kMaxKeptPlans) {
        HASH_SEQ_STATUS status;
        hash_seq_init(&status, plans);
        while (PlanEntry *entry = static_cast<PlanEntry *>(hash_seq_search(&status)))
            if (entry->plan)
                SPI_freeplan(entry->plan);
        hash_destroy(plans);
        plans = nullptr;
    }
    if (!plans) {
        HASHCTL control = {};
        control.keysize = sizeof(PlanKey);
        control.entrysize = sizeof(PlanEntry);
        control.hcxt = CacheMemoryContext;
        plans = hash_create("index_table look-up plans", 64, &control,
                            HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    bool found;
    PlanEntry *entry = static_cast<PlanEntry *>(hash_search(plans, &key, HASH_ENTER, &found));
    if (!found)
        entry->plan = nullptr;
    if (!entry->plan) {
        SPIPlanPtr plan = Prepare(table, condition);
        SPI_keepplan(plan);
        entry->plan = plan;
    }
    return entry->plan;
}

} // namespace

EntryOrder GetEntryOrder(const IndexTable *table) {
    EntryOrder order = {};
    order.positions = static_cast<int *>(palloc(sizeof(int) * table->group_count()));
    for (int i = 0; i < table->group_count(); i++)
        if (i != table->partition_position())
            order.positions[order.count++] = i;
    order.positions[order.count++] = table->partition_position();
    return order;
}

EntryScan BeginEntryScan(const IndexTable *table, const EntryCondition &condition) {
    CheckSnapshot(table);
    OwnerContext owner = EnterOwner(OwnerOf(table->relid));
    SPIPlanPtr plan = GetPlan(table, condition);
    char *nulls = static_cast<char *>(palloc(condition.count + 1));
    for (int i = 0; i < condition.count; i++)
        nulls[i] = condition.nulls[i] ? 'n' : ' ';
    EntryScan scan = {.table = table};
    scan.portal = SPI_cursor_open(nullptr, plan, condition.values, nulls, true);
    LeaveOwner(owner);
    return scan;
}

HeapTuple NextEntry(EntryScan *scan) {
    for (;;) {
        if (!scan->batch || scan->next == scan->batch->numvals) {
            if (scan->batch)
                SPI_freetuptable(scan->batch);
            SPI_cursor_fetch(scan->portal, true, kBatchEntries);
            scan->batch = SPI_tuptable;
            scan->next = 0;
            if (scan->batch->numvals == 0)
                return nullptr;
        }
        HeapTuple entry = scan->batch->vals[scan->next++];
        bool isnull;
        int32 partition = DatumGetInt32(heap_getattr(entry, scan->table->partition_position() + 1,
                                                     scan->batch->tupdesc, &isnull));
        if (!isnull && OidIsValid(FindPartition(partition)))
            return entry;
        CHECK_FOR_INTERRUPTS();
    }
}

void EndEntryScan(EntryScan *scan) {
    if (scan->batch)
        SPI_freetuptable(scan->batch);
    SPI_cursor_close(scan->portal);
}

} // namespace index_table
