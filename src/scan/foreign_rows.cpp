#include "scan/foreign_rows.h"

#include "build/query.h"
#include "compat/compat.h"

namespace index_table {
namespace {

// A row that was read, or an identity that was looked for.
struct Node {
    uint32 hash;
    int next; // with the same bucket; -1: the last one
    HeapTuple row;
    RowIdentity identity; // where `row` is null
};

} // namespace

struct ForeignRows {
    const IndexTable *table;
    Relation leaf;
    MemoryContext memory; // of what was read last
    // The query: one parameter, an array, for each identity column that has an array type.
    const char *select;
    AttrNumber *attnos;      // of the identity in the partition
    const char **conditions; // by identity column; null: it has none
    Oid *array_types;        // likewise
    Oid *element_types;
    int count;
    int capacity;
    Node *nodes;
    uint32 mask;
    int *buckets;
    uint32 sought; // hash
    int next;      // node
};

namespace {

Form_pg_attribute IdentityColumn(const ForeignRows *rows, int i) {
    return TupleDescAttr(RelationGetDescr(rows->leaf), rows->attnos[i] - 1);
}

uint32 HashIdentity(const ForeignRows *rows, const RowIdentity &identity) {
    uint32 hash = 0;
    for (int i = 0; i < rows->table->identity_count; i++) {
        Form_pg_attribute att = IdentityColumn(rows, i);
        uint32 own = identity.nulls[i]
                         ? 0
                         : datum_image_hash(identity.values[i], att->attbyval, att->attlen);
        hash = hash_combine(hash, own);
    }
    return hash;
}

bool IsSame(const ForeignRows *rows, const RowIdentity &a, const RowIdentity &b) {
    for (int i = 0; i < rows->table->identity_count; i++) {
        Form_pg_attribute att = IdentityColumn(rows, i);
        if (a.nulls[i] != b.nulls[i] ||
            (!a.nulls[i] && !datum_image_eq(a.values[i], b.values[i], att->attbyval, att->attlen)))
            return false;
    }
    return true;
}

void AddNode(ForeignRows *rows, const Node &node) {
    if (rows->count == rows->capacity) {
        rows->capacity *= 2;
        rows->nodes = static_cast<Node *>(repalloc(rows->nodes, sizeof(Node) * rows->capacity));
    }
    int *bucket = &rows->buckets[node.hash & rows->mask];
    rows->nodes[rows->count] = node;
    rows->nodes[rows->count].next = *bucket;
    *bucket = rows->count++;
}

// --- The query ---------------------------------------------------------------

// Parses and plans a query whose privileges were checked already.
PlannedStmt *PlanUnchecked(const char *sql, const Oid *types, int count, ParamListInfo params) {
    List *parsed = raw_parser(sql, RAW_PARSE_DEFAULT);
    List *queries = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, parsed), sql, types,
                                                       count, nullptr);
    Query *query = linitial_node(Query, queries);
    compat::CheckNoPrivileges(query);
    return pg_plan_query(query, sql, CURSOR_OPT_PARALLEL_OK, params);
}

// Runs a query; its rows come to the tuplestore.
void RunInto(Tuplestorestate *store, PlannedStmt *plan, const char *sql, ParamListInfo params) {
    DestReceiver *receiver = CreateDestReceiver(DestTuplestore);
    SetTuplestoreDestReceiverParams(receiver, store, CurrentMemoryContext, false, nullptr, nullptr);
    QueryDesc *query = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, receiver,
                                       params, nullptr, 0);
    ExecutorStart(query, 0);
    compat::RunQuery(query);
    ExecutorFinish(query);
    ExecutorEnd(query);
    FreeQueryDesc(query);
    receiver->rDestroy(receiver);
}

Datum MakeArray(const ForeignRows *rows, int column, std::span<const RowIdentity> identities,
                bool *has_null) {
    Form_pg_attribute att = IdentityColumn(rows, column);
    Datum *elements = palloc_array(Datum, identities.size());
    int count = 0;
    for (const RowIdentity &identity : identities) {
        if (identity.nulls[column])
            *has_null = true;
        else
            elements[count++] = identity.values[column];
    }
    return PointerGetDatum(construct_array(elements, count, rows->element_types[column],
                                           att->attlen, att->attbyval, att->attalign));
}

} // namespace

ForeignRows *OpenForeignRows(const IndexTable *table, Relation base, Relation leaf,
                             const AttrMap *map) {
    ForeignRows *rows = palloc0_object(ForeignRows);
    rows->table = table;
    rows->leaf = leaf;
    rows->memory = AllocSetContextCreate(CurrentMemoryContext, "index_table foreign rows",
                                         ALLOCSET_DEFAULT_SIZES);
    TupleDesc descriptor = RelationGetDescr(leaf);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    const char *separator = "";
    for (int i = 0; i < descriptor->natts; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        if (att->attisdropped)
            continue;
        appendStringInfo(&sql, "%sb.%s", separator, quote_identifier(NameStr(att->attname)));
        separator = ", ";
    }
    appendStringInfo(&sql, " FROM ONLY %s AS b", QualifiedName(RelationGetRelid(leaf)));
    rows->select = sql.data;
    int count = table->identity_count;
    rows->attnos = palloc_array(AttrNumber, count);
    rows->conditions = palloc0_array(const char *, count);
    rows->array_types = palloc0_array(Oid, count);
    rows->element_types = palloc0_array(Oid, count);
    for (int i = 0; i < count; i++) {
        AttrNumber attno = table->identity[i].base_attno;
        rows->attnos[i] = map ? map->attnums[attno - 1] : attno;
        Form_pg_attribute att = IdentityColumn(rows, i);
        rows->element_types[i] = getBaseType(att->atttypid);
        rows->array_types[i] = get_array_type(rows->element_types[i]);
        if (!OidIsValid(rows->array_types[i]))
            continue; // every row is read
        KeyColumn column = {};
        column.type = att->atttypid;
        column.opclass = GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
        rows->conditions[i] = psprintf("b.%s %s ANY", quote_identifier(NameStr(att->attname)),
                                       KeyOperator(column, BTEqualStrategyNumber));
    }
    return rows;
}

bool HasForeignRows(const ForeignRows *rows, const RowIdentity &identity) {
    if (!rows->buckets)
        return false;
    uint32 hash = HashIdentity(rows, identity);
    for (int i = rows->buckets[hash & rows->mask]; i >= 0; i = rows->nodes[i].next) {
        const Node &node = rows->nodes[i];
        if (!node.row && node.hash == hash && IsSame(rows, node.identity, identity))
            return true;
    }
    return false;
}

void ReadForeignRows(ForeignRows *rows, std::span<const RowIdentity> identities) {
    rows->buckets = nullptr;
    MemoryContextReset(rows->memory);
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    int column_count = rows->table->identity_count;
    // Columns one by one are what other servers understand; with several, they may say more rows.
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, rows->select);
    ParamListInfo params = makeParamList(column_count);
    Oid *types = palloc_array(Oid, column_count);
    int count = 0;
    for (int i = 0; i < column_count; i++) {
        if (!rows->conditions[i])
            continue;
        bool has_null = false;
        Datum array = MakeArray(rows, i, identities, &has_null);
        types[count] = rows->array_types[i];
        params->params[count] = {.value = array,
                                 .isnull = false,
                                 .pflags = PARAM_FLAG_CONST,
                                 .ptype = rows->array_types[i]};
        count++;
        const char *name = quote_identifier(NameStr(IdentityColumn(rows, i)->attname));
        appendStringInfo(&sql, " %s (%s ($%d)", count == 1 ? "WHERE" : "AND", rows->conditions[i],
                         count);
        appendStringInfo(&sql, has_null ? " OR b.%s IS NULL)" : ")", name);
    }
    params->numParams = count;
    Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
    RunInto(store, PlanUnchecked(sql.data, types, count, params), sql.data, params);

    uint32 buckets = pg_nextpower2_32(Max(16, identities.size() * 4));
    rows->mask = buckets - 1;
    int *heads = palloc_array(int, buckets);
    std::fill(heads, heads + buckets, -1);
    rows->count = 0;
    rows->capacity = static_cast<int>(identities.size()) * 2 + 8;
    rows->nodes = palloc_array(Node, rows->capacity);
    rows->buckets = heads;
    for (const RowIdentity &identity : identities) {
        Node node = {.hash = HashIdentity(rows, identity)};
        node.identity.values = palloc_array(Datum, column_count);
        node.identity.nulls = palloc_array(bool, column_count);
        for (int i = 0; i < column_count; i++) {
            Form_pg_attribute att = IdentityColumn(rows, i);
            node.identity.nulls[i] = identity.nulls[i];
            node.identity.values[i] =
                identity.nulls[i] ? 0 : datumCopy(identity.values[i], att->attbyval, att->attlen);
        }
        AddNode(rows, node);
    }
    TupleDesc descriptor = RelationGetDescr(rows->leaf);
    Datum *values = palloc0_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    Datum *identity_values = palloc_array(Datum, column_count);
    bool *identity_nulls = palloc_array(bool, column_count);
    TupleDesc result = CreateTemplateTupleDesc(descriptor->natts);
    int live = 0;
    for (int i = 0; i < descriptor->natts; i++)
        if (!TupleDescAttr(descriptor, i)->attisdropped)
            TupleDescCopyEntry(result, ++live, descriptor, i + 1);
    result->natts = live;
    TupleTableSlot *slot = MakeSingleTupleTableSlot(result, &TTSOpsMinimalTuple);
    while (tuplestore_gettupleslot(store, true, false, slot)) {
        slot_getallattrs(slot);
        for (int i = 0, column = 0; i < descriptor->natts; i++) {
            nulls[i] = TupleDescAttr(descriptor, i)->attisdropped || slot->tts_isnull[column];
            values[i] = nulls[i] ? 0 : slot->tts_values[column];
            if (!TupleDescAttr(descriptor, i)->attisdropped)
                column++;
        }
        for (int i = 0; i < column_count; i++) {
            identity_values[i] = values[rows->attnos[i] - 1];
            identity_nulls[i] = nulls[rows->attnos[i] - 1];
        }
        AddNode(rows, {.hash = HashIdentity(rows, {identity_values, identity_nulls}),
                       .row = heap_form_tuple(descriptor, values, nulls)});
    }
    ExecDropSingleTupleTableSlot(slot);
    tuplestore_end(store);
    MemoryContextSwitchTo(caller);
}

void SeekForeignRows(ForeignRows *rows, const RowIdentity &identity) {
    if (!HasForeignRows(rows, identity))
        ReadForeignRows(rows, {&identity, 1});
    rows->sought = HashIdentity(rows, identity);
    rows->next = rows->buckets[rows->sought & rows->mask];
}

HeapTuple NextForeignRow(ForeignRows *rows) {
    while (rows->next >= 0) {
        const Node &node = rows->nodes[rows->next];
        rows->next = node.next;
        if (node.row && node.hash == rows->sought)
            return node.row;
    }
    return nullptr;
}

} // namespace index_table
