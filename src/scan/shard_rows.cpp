#include "scan/shard_rows.h"

#include "scan/identity_map.h"
#include "shard/remote_run.h"

namespace index_table {
namespace {

// Partitions that one plan asks; what is left is asked after it.
constexpr int kLeavesAtOnce = 64;
constexpr int kFewestRows = 16;

// What is wanted of a partition in this batch.
struct Wanted {
    Oid leaf;
    int count;
    int room;
    Datum **identities; // each of as many values as the identity has columns
};

} // namespace

struct ShardRows {
    const IndexTable *table;
    RemoteQuery *query;
    int column_count;
    int natts;
    int *places;          // by attribute number - 1
    int *identity_places; // of the identity's columns
    bool *by_value;       // by place
    int16 *lengths;
    AttrNumber *identity_attnos;
    TupleDesc descriptor;

    MemoryContext memory; // of the batch
    List *wanted;         // Wanted
    NumberMap by_leaf;
    IdentityMap *found; // ShardRow
    bool has_batch;
    int batch_rows;

    uint64 statements;
    uint64 rows;
};

namespace {

ShardRow *CopyRow(const ShardRows *rows, const Datum *values, const bool *nulls) {
    ShardRow *row = palloc_object(ShardRow);
    row->values = palloc_array(Datum, rows->column_count);
    row->nulls = palloc_array(bool, rows->column_count);
    for (int i = 0; i < rows->column_count; i++) {
        row->nulls[i] = nulls[i];
        if (!nulls[i])
            row->values[i] = datumCopy(values[i], rows->by_value[i], rows->lengths[i]);
    }
    return row;
}

// Rows that were not wanted come along where an identity has several columns.
void TakeRow(ShardRows *rows, Oid leaf, const Datum *values, const bool *nulls) {
    Datum identity[INDEX_MAX_KEYS];
    for (int i = 0; i < rows->table->identity_count; i++) {
        int place = rows->identity_places[i];
        if (nulls[place])
            return;
        identity[i] = values[place];
    }
    rows->rows++;
    void **place = FindIdentity(rows->found, leaf, identity);
    if (!place || *place)
        return;
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    *place = CopyRow(rows, values, nulls);
    rows->batch_rows++;
    MemoryContextSwitchTo(caller);
}

// The array of one identity column's values.
Datum MakeArray(const ShardRows *rows, const Wanted *wanted, int column) {
    Oid type = get_element_type(IdentityParameterType(rows->query->select, column));
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(type, &length, &by_value, &align);
    Datum *elements = palloc_array(Datum, wanted->count);
    for (int i = 0; i < wanted->count; i++)
        elements[i] = wanted->identities[i][column];
    return PointerGetDatum(construct_array(elements, wanted->count, type, length, by_value, align));
}

void FetchThroughExecutor(ShardRows *rows, Wanted *const *wanted, int count) {
    Oid *leaves = palloc_array(Oid, count);
    ParamListInfo parameters = MakeParameters(rows->query, count);
    for (int i = 0; i < count; i++) {
        leaves[i] = wanted[i]->leaf;
        for (int j = 0; j < rows->table->identity_count; j++)
            parameters->params[i * rows->table->identity_count + j].value =
                MakeArray(rows, wanted[i], j);
    }
    RemoteRun *run = BeginRemoteRun(rows->query, leaves, count, parameters);
    Datum *values;
    bool *nulls;
    for (int number; (number = NextRemoteRow(run, &values, &nulls)) >= 0;)
        TakeRow(rows, leaves[number], values, nulls);
    EndRemoteRun(run);
    rows->statements += count;
}

int CompareWanted(const ListCell *a, const ListCell *b) {
    Oid left = static_cast<Wanted *>(lfirst(a))->leaf;
    Oid right = static_cast<Wanted *>(lfirst(b))->leaf;
    return left < right ? -1 : left > right;
}

} // namespace

ShardRows *BeginShardRows(const IndexTable *table, Relation base, PlanState *node,
                          const ShardNeeds &needs) {
    ShardRows *rows = palloc0_object(ShardRows);
    rows->table = table;
    rows->descriptor = RelationGetDescr(base);
    rows->natts = rows->descriptor->natts;
    rows->column_count = list_length(needs.columns);
    rows->places = palloc_array(int, rows->natts);
    std::fill(rows->places, rows->places + rows->natts, -1);
    rows->by_value = palloc_array(bool, rows->column_count);
    rows->lengths = palloc_array(int16, rows->column_count);
    ListCell *cell;
    foreach (cell, needs.columns) {
        int place = foreach_current_index(cell);
        Form_pg_attribute att = TupleDescAttr(rows->descriptor, lfirst_int(cell) - 1);
        rows->places[lfirst_int(cell) - 1] = place;
        rows->by_value[place] = att->attbyval;
        rows->lengths[place] = att->attlen;
    }
    List *identity = NIL;
    rows->identity_places = palloc_array(int, table->identity_count);
    rows->identity_attnos = palloc_array(AttrNumber, table->identity_count);
    for (int i = 0; i < table->identity_count; i++) {
        AttrNumber attno = table->identity[i].base_attno;
        identity = lappend_int(identity, attno);
        rows->identity_attnos[i] = attno;
        rows->identity_places[i] = rows->places[attno - 1];
    }
    Index varno = reinterpret_cast<Scan *>(node->plan)->scanrelid;
    rows->query = BeginRemoteQuery(node, varno, table->base, needs.user, needs.columns, identity,
                                   needs.quals);
    rows->memory = AllocSetContextCreate(CurrentMemoryContext, "index_table rows of shards",
                                         ALLOCSET_DEFAULT_SIZES);
    return rows;
}

void EndShardRows(ShardRows *rows) {
    EndRemoteQuery(rows->query);
}

int GetPlace(const ShardRows *rows, AttrNumber attno) {
    return rows->places[attno - 1];
}

void BeginBatch(ShardRows *rows) {
    MemoryContextReset(rows->memory);
    rows->wanted = NIL;
    rows->by_leaf = {};
    rows->found = nullptr;
    rows->batch_rows = 0;
}

MemoryContext BatchMemory(const ShardRows *rows) {
    return rows->memory;
}

void WantRow(ShardRows *rows, OpenLeaf *leaf, const Datum *identity) {
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    if (!rows->found)
        rows->found = MakeIdentityMap(rows->memory, rows->descriptor, rows->identity_attnos,
                                      rows->table->identity_count);
    Oid relid = RelationGetRelid(leaf->rel);
    bool is_known;
    PutIdentity(rows->found, relid, identity, &is_known);
    if (!is_known) {
        Wanted *wanted = static_cast<Wanted *>(rows->by_leaf.Find(relid));
        if (!wanted) {
            wanted = palloc0_object(Wanted);
            wanted->leaf = relid;
            wanted->room = 4;
            wanted->identities = palloc_array(Datum *, wanted->room);
            rows->wanted = lappend(rows->wanted, wanted);
            rows->by_leaf.Add(relid, wanted, rows->memory);
        }
        if (wanted->count == wanted->room) {
            wanted->room *= 2;
            wanted->identities =
                static_cast<Datum **>(repalloc(wanted->identities, sizeof(Datum *) * wanted->room));
        }
        wanted->identities[wanted->count++] = const_cast<Datum *>(identity);
    }
    MemoryContextSwitchTo(caller);
}

void FetchBatch(ShardRows *rows) {
    if (rows->wanted == NIL)
        return;
    MemoryContext memory =
        AllocSetContextCreate(rows->memory, "index_table fetching", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    // Plans are kept by the partitions that they ask.
    List *wanted = list_copy(rows->wanted);
    list_sort(wanted, CompareWanted);
    for (int i = 0; i < list_length(wanted); i += kLeavesAtOnce)
        FetchThroughExecutor(rows, reinterpret_cast<Wanted *const *>(&wanted->elements[i]),
                             Min(kLeavesAtOnce, list_length(wanted) - i));
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

const ShardRow *FindShardRow(ShardRows *rows, const OpenLeaf *leaf, const Datum *identity) {
    void **place =
        rows->found ? FindIdentity(rows->found, RelationGetRelid(leaf->rel), identity) : nullptr;
    return place ? static_cast<ShardRow *>(*place) : nullptr;
}

int BatchLimit(const ShardRows *rows, int wish) {
    if (rows->batch_rows == 0)
        return wish;
    Size each = MemoryContextMemAllocated(rows->memory, true) / rows->batch_rows;
    Size most = static_cast<Size>(work_mem) * 1024 / Max(each, 1);
    return static_cast<int>(Max(kFewestRows, Min(most, static_cast<Size>(wish))));
}

// --- Every row ---------------------------------------------------------------

struct ShardScan {
    RemoteQuery *query;
    RemoteRun *run;
    Oid leaf;
    ShardRow row;
};

ShardScan *BeginShardScan(Relation base, PlanState *node, const ShardNeeds &needs, Oid leaf) {
    ShardScan *scan = palloc0_object(ShardScan);
    Index varno = reinterpret_cast<Scan *>(node->plan)->scanrelid;
    scan->query = BeginRemoteQuery(node, varno, RelationGetRelid(base), needs.user, needs.columns,
                                   NIL, needs.quals);
    scan->leaf = leaf;
    scan->run = BeginRemoteRun(scan->query, &scan->leaf, 1, MakeParameters(scan->query, 1));
    return scan;
}

const ShardRow *NextShardRow(ShardScan *scan) {
    return NextRemoteRow(scan->run, &scan->row.values, &scan->row.nulls) >= 0 ? &scan->row
                                                                              : nullptr;
}

void EndShardScan(ShardScan *scan) {
    EndRemoteRun(scan->run);
    EndRemoteQuery(scan->query);
    pfree(scan);
}

ShardCounts GetCounts(const ShardRows *rows) {
    return {.statements = rows->statements, .rows = rows->rows};
}

} // namespace index_table
