#include "exec/entry_scan.h"

#include "catalog/public.h"
#include "exec/scan_plan.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

constexpr int kMaxKeptPlans = 256;

// Plans are kept for the session: a look-up should cost no planning.
struct PlanKey {
    uint64 table_serial;
    uint64 null_mask;
    int32 count;
    int16 last;
    int8 from_base;
    int8 backward;
    Oid order; // an index; InvalidOid: the B-tree's
};
struct PlanEntry {
    PlanKey key;
    BoundPlan bound;
};
HTAB *plans;

// How a column of the B-tree is compared and ordered.
KeyColumn OrderOf(const IndexTable *table, int position) {
    if (position < table->key.count)
        return table->key.columns[position];
    KeyColumn column = {};
    column.type = table->types[position];
    column.opclass = GetDefaultOpClass(column.type, BTREE_AM_OID);
    return column;
}

void AppendJson(StringInfo sql, Relation base, std::span<const CopiedColumn> columns) {
    appendStringInfoString(sql, ", jsonb_build_object(");
    for (Size i = 0; i < columns.size(); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), columns[i].base_attno - 1);
        appendStringInfo(sql, "%s%s, c%d", i ? ", " : "", quote_literal_cstr(NameStr(att->attname)),
                         columns[i].position + 1);
    }
    appendStringInfoChar(sql, ')');
}

void AppendCondition(StringInfo sql, const KeyColumn &column, Bound bound, int position,
                     int parameter) {
    StrategyNumber after = column.descending ? BTLessStrategyNumber : BTGreaterStrategyNumber;
    switch (bound) {
    case Bound::Equal:
    case Bound::After:
        appendStringInfoString(
            sql, BoundCondition("e", psprintf("c%d", position + 1), column.opclass,
                                bound == Bound::Equal ? BTEqualStrategyNumber : after, parameter));
        break;
    // Of the value itself: a row of NULLs is one.
    case Bound::IsNull:
        appendStringInfo(sql, "c%d IS NOT DISTINCT FROM NULL", position + 1);
        break;
    case Bound::IsNotNull:
        appendStringInfo(sql, "c%d IS DISTINCT FROM NULL", position + 1);
        break;
    }
}

void AppendOrder(StringInfo sql, const IndexTable *table, bool backward) {
    EntryOrder order = GetEntryOrder(table);
    for (int i = 0; i < order.count; i++) {
        KeyColumn column = OrderOf(table, order.positions[i]);
        appendStringInfo(sql, "%sc%d", i ? ", " : "", order.positions[i] + 1);
        AppendDirection(sql, column.type, column.opclass, column.descending != backward,
                        column.nulls_first != backward);
    }
}

const oidvector *OpclassesOf(Relation index) {
    bool isnull;
    return reinterpret_cast<oidvector *>(DatumGetPointer(
        SysCacheGetAttr(INDEXRELID, index->rd_indextuple, Anum_pg_index_indclass, &isnull)));
}

// The order of a B-tree of the owner's, as far as it is over columns of an entry.
void AppendOrderOf(StringInfo sql, const IndexTable *table, Oid index_oid, bool backward) {
    Relation rel = table_open(table->relid, AccessShareLock);
    Relation index = index_open(index_oid, AccessShareLock);
    const AttrNumber *stored = StoredColumns(table, rel);
    const AttrNumber *end = stored + table->column_count;
    const oidvector *opclasses = OpclassesOf(index);
    for (int i = 0; i < index->rd_index->indnkeyatts; i++) {
        const AttrNumber *found = std::find(stored, end, index->rd_index->indkey.values[i]);
        if (found == end)
            break;
        bool descending = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
        bool nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
        int position = static_cast<int>(found - stored);
        appendStringInfo(sql, "%sc%d", i ? ", " : "", position + 1);
        AppendDirection(sql, table->types[position], opclasses->values[i], descending != backward,
                        nulls_first != backward);
    }
    index_close(index, NoLock);
    table_close(rel, NoLock);
}

BoundPlan Prepare(const IndexTable *table, const EntryCondition &condition, const PlanKey &key) {
    bool from_base = key.from_base;
    Relation base = relation_open(table->base, AccessShareLock);
    EntryOrder order = GetEntryOrder(table);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    for (int i = 0; i < table->column_count; i++)
        appendStringInfo(&sql, "%sc%d", i ? ", " : "", i + 1);
    AppendJson(&sql, base, {table->identity, static_cast<Size>(table->identity_count)});
    AppendJson(&sql, base, {table->include, static_cast<Size>(table->include_count)});
    if (from_base) {
        appendStringInfo(&sql, " FROM (%s) AS e", RecomputationQuery(base, table, 0));
    } else {
        Relation rel = table_open(table->relid, AccessShareLock);
        appendStringInfoString(&sql, " FROM (SELECT ");
        AppendStoredColumns(&sql, rel, table);
        appendStringInfo(&sql, " FROM %s) AS e", QualifiedName(table->relid));
        table_close(rel, AccessShareLock);
    }

    Oid types[INDEX_MAX_KEYS];
    for (int i = 0; i < condition.count; i++) {
        KeyColumn column = OrderOf(table, order.positions[i]);
        types[i] = getBaseType(column.type);
        Bound bound = i < condition.count - 1 ? Bound::Equal : condition.last;
        if (bound == Bound::Equal && condition.nulls[i])
            bound = Bound::IsNull;
        appendStringInfoString(&sql, i ? " AND " : " WHERE ");
        AppendCondition(&sql, column, bound, order.positions[i], i + 1);
    }
    StringInfoData by;
    initStringInfo(&by);
    if (OidIsValid(key.order))
        AppendOrderOf(&by, table, key.order, key.backward);
    else
        AppendOrder(&by, table, key.backward);
    if (by.len > 0)
        appendStringInfo(&sql, " ORDER BY %s", by.data);
    relation_close(base, AccessShareLock);

    // What the plan refers to lives as long as the plan.
    MemoryContext caller = MemoryContextSwitchTo(CacheMemoryContext);
    BoundPlan plan =
        PrepareBound(sql.data, table, kPlanNatively | CURSOR_OPT_FAST_PLAN, condition.count, types);
    MemoryContextSwitchTo(caller);
    return plan;
}

BoundPlan GetPlan(const IndexTable *table, const EntryCondition &condition, bool from_base,
                  bool backward, Oid order) {
    PlanKey key;
    memset(&key, 0, sizeof(key));
    key.table_serial = table->serial;
    key.count = condition.count;
    key.last = static_cast<int16>(condition.last);
    key.from_base = from_base;
    key.backward = backward;
    key.order = order;
    for (int i = 0; i < condition.count; i++)
        key.null_mask |= static_cast<uint64>(condition.nulls[i]) << i;
    if (plans && hash_get_num_entries(plans) >= kMaxKeptPlans) {
        HASH_SEQ_STATUS status;
        hash_seq_init(&status, plans);
        while (PlanEntry *entry = static_cast<PlanEntry *>(hash_seq_search(&status)))
            if (entry->bound.plan)
                FreeBound(entry->bound);
        hash_destroy(plans);
        plans = nullptr;
    }
    if (!plans) {
        plans =
            MakeHashTable<PlanKey, PlanEntry>("index_table look-up plans", 64, CacheMemoryContext);
    }
    bool found;
    PlanEntry *entry = static_cast<PlanEntry *>(hash_search(plans, &key, HASH_ENTER, &found));
    if (!found)
        entry->bound.plan = nullptr;
    if (!entry->bound.plan) {
        BoundPlan bound = Prepare(table, condition, key);
        SPI_keepplan(bound.plan);
        entry->bound = bound;
    }
    return entry->bound;
}

} // namespace

EntryOrder GetEntryOrder(const IndexTable *table) {
    Assert(IsKnown(table));
    EntryOrder order = {};
    order.positions = static_cast<int *>(palloc(sizeof(int) * table->group_count()));
    for (int i = 0; i < table->group_count(); i++)
        if (i != table->partition_position())
            order.positions[order.count++] = i;
    order.positions[order.count++] = table->partition_position();
    return order;
}

bool ShowsBase(const IndexTable *table, Snapshot snapshot) {
    Assert(IsKnown(table) && snapshot);
    bool is_built =
        !TransactionIdIsNormal(table->built) || (TransactionIdIsCurrentTransactionId(table->built)
                                                     ? ShowsOwnBuilds(snapshot)
                                                     : !XidInMVCCSnapshot(table->built, snapshot));
    // Servers show what is committed there now.
    if (table->on_servers && IsolationUsesXactSnapshot())
        return false;
    return is_built && IsTrusted(table) && !HasUnflushedChanges(table->relid) &&
           !IsBeingChanged(table->base, snapshot->curcid);
}

namespace {

EntryScan OpenScan(const IndexTable *table, const EntryCondition &condition, bool from_base,
                   bool backward, Oid order) {
    OwnerContext owner = EnterOwner(RelationOwner(table->relid));
    BoundPlan plan = GetPlan(table, condition, from_base, backward, order);
    char *nulls = static_cast<char *>(palloc(condition.count + 1));
    for (int i = 0; i < condition.count; i++)
        nulls[i] = condition.nulls[i] ? 'n' : ' ';
    EntryScan scan = {.table = table, .snapshot = from_base ? nullptr : GetActiveSnapshot()};
    scan.portal = OpenBound(plan, condition.values, nulls);
    LeaveOwner(owner);
    return scan;
}

} // namespace

EntryScan BeginEntryScan(const IndexTable *table, const EntryCondition &condition) {
    Assert(IsKnown(table) && ActiveSnapshotSet());
    Assert(condition.count >= 0 && condition.count <= table->group_count());
    // Where the index table does not show what the base table does, the entries are made from the
    // base table on the spot.
    EntryScan scan =
        OpenScan(table, condition, !ShowsBase(table, GetActiveSnapshot()), false, InvalidOid);
    scan.is_lookup = true;
    return scan;
}

EntryScan BeginRecomputation(const IndexTable *table, bool backward, Oid order) {
    Assert(IsKnown(table) && ActiveSnapshotSet());
    return OpenScan(table, {}, true, backward, order);
}

namespace {

// Whether entries with a live number exist.
bool IsShown(EntryScan *scan, int32 number, Oid leaf) {
    if (!scan->snapshot || scan->table->state != TableState::Restored)
        return true;
    if (scan->rowful.Find(number) || scan->rowless.Find(number))
        return scan->rowful.Find(number);
    bool found = HasRowsFor(scan->table, leaf, scan->snapshot);
    (found ? scan->rowful : scan->rowless).Add(number, scan, scan->portal->portalContext);
    return found;
}

} // namespace

HeapTuple NextEntry(EntryScan *scan) {
    for (;;) {
        if (!scan->batch || scan->next == scan->batch->numvals) {
            if (scan->batch)
                SPI_freetuptable(scan->batch);
            // Expressions of the key, if it comes to that, run with the owner's rights.
            OwnerContext owner = EnterOwner(RelationOwner(scan->table->relid));
            SPI_cursor_fetch(scan->portal, true, kEntriesAtOnce);
            LeaveOwner(owner);
            scan->batch = SPI_tuptable;
            scan->next = 0;
            if (scan->batch->numvals == 0)
                return nullptr;
        }
        HeapTuple entry = scan->batch->vals[scan->next++];
        scan->entries_read++;
        bool isnull;
        int32 partition = DatumGetInt32(heap_getattr(entry, scan->table->partition_position() + 1,
                                                     scan->batch->tupdesc, &isnull));
        Oid leaf = isnull ? InvalidOid : FindPartition(scan->table->base, partition);
        if (OidIsValid(leaf) && IsShown(scan, partition, leaf))
            return entry;
        scan->entries_skipped++;
        CHECK_FOR_INTERRUPTS();
    }
}

void EndEntryScan(EntryScan *scan) {
    if (Counts *counts = scan->is_lookup ? CountsOf(scan->table->relid) : nullptr) {
        counts->lookups++;
        counts->entries_read += scan->entries_read;
        counts->entries_skipped += scan->entries_skipped;
    }
    scan->rowful.Destroy();
    scan->rowless.Destroy();
    if (scan->batch)
        SPI_freetuptable(scan->batch);
    SPI_cursor_close(scan->portal);
}

} // namespace index_table
