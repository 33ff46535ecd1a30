#include "exec/shard_rows.h"

#include "core/public.h"
#include "exec/identity_map.h"
#include "exec/shard_access.h"
#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// Partitions that one plan asks; what is left is asked after it.
constexpr int kLeavesAtOnce = 64;
constexpr int kFewestRows = 16;

// What is wanted of a partition in this batch.
struct Wanted {
    Oid leaf;
    bool has_nulls; // an identity is null in part
    int count;
    int room;
    const NullableDatum **identities; // each of as many values as the identity has columns
};

} // namespace

struct ShardRows {
    const IndexTable *table;
    ShardNeeds needs;
    RemoteQuery *query;      // the one that is being asked
    RemoteQuery *queries[2]; // null: not needed yet; the second where identities are null in part
    int column_count;
    int natts;
    int *places;          // by attribute number - 1
    int *identity_places; // of the identity's columns
    bool *by_value;       // by place
    int16 *lengths;
    AttrNumber *identity_attnos;
    TupleDesc descriptor;

    MemoryContext memory;     // of the batch
    MemoryContext row_memory; // of its rows
    List *wanted;             // Wanted
    NumberMap by_leaf;
    IdentityMap *found; // ShardRow
    bool has_batch;
    int batch_rows;

    // Of values in text form, by place.
    FmgrInfo *inputs; // null: not needed yet
    Oid *input_types;
    int32 *typmods;
    List *unreachable; // servers that are left out
    List *left_out;    // partitions, names
    uint64 pipelined;  // statements
    uint64 wrapped;
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

// Rows that were not wanted come along where an identity has several columns, or nulls.
void TakeRow(ShardRows *rows, Oid leaf, const Datum *values, const bool *nulls) {
    NullableDatum identity[INDEX_MAX_KEYS];
    for (int i = 0; i < rows->table->identity_count; i++) {
        int place = rows->identity_places[i];
        identity[i] = {.value = values[place], .isnull = nulls[place]};
    }
    rows->rows++;
    void **place = FindIdentity(rows->found, leaf, identity);
    if (!place)
        return;
    MemoryContext caller = MemoryContextSwitchTo(rows->row_memory);
    ShardRow *row = CopyRow(rows, values, nulls);
    row->next = static_cast<ShardRow *>(*place);
    *place = row;
    rows->batch_rows++;
    MemoryContextSwitchTo(caller);
}

// The array of one identity column's values.
Datum MakeArray(const ShardRows *rows, const Wanted *wanted, int column) {
    Oid type = get_element_type(IdentityParameterType(rows->query->select, column));
    if (!OidIsValid(type))
        return 0;
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(type, &length, &by_value, &align);
    Datum *elements = palloc_array(Datum, wanted->count);
    int count = 0;
    for (int i = 0; i < wanted->count; i++)
        if (!wanted->identities[i][column].isnull)
            elements[count++] = wanted->identities[i][column].value;
    return PointerGetDatum(construct_array(elements, count, type, length, by_value, align));
}

void FetchAtOnce(ShardRows *rows, Wanted *const *wanted, int count) {
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
    rows->wrapped += count;
}

void FetchThroughExecutor(ShardRows *rows, List *wanted) {
    for (int i = 0; i < list_length(wanted); i += kLeavesAtOnce)
        FetchAtOnce(rows, reinterpret_cast<Wanted *const *>(&wanted->elements[i]),
                    Min(kLeavesAtOnce, list_length(wanted) - i));
}

// --- All servers at once -----------------------------------------------------

// What one server is asked.
struct ServerAsk {
    ShardRows *rows;
    Oid server;
    List *wanted; // Wanted
    MemoryContext row_memory;
};

void PrepareInputs(ShardRows *rows) {
    if (rows->inputs)
        return;
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(rows));
    rows->input_types = palloc_array(Oid, rows->column_count);
    rows->typmods = palloc_array(int32, rows->column_count);
    FmgrInfo *inputs = palloc_array(FmgrInfo, rows->column_count);
    for (int attno = 1; attno <= rows->natts; attno++) {
        int place = rows->places[attno - 1];
        if (place < 0)
            continue;
        Form_pg_attribute att = TupleDescAttr(rows->descriptor, attno - 1);
        Oid input;
        getTypeInputInfo(att->atttypid, &input, &rows->input_types[place]);
        fmgr_info(input, &inputs[place]);
        rows->typmods[place] = att->atttypmod;
    }
    rows->inputs = inputs;
    MemoryContextSwitchTo(caller);
}

void TakeText(PipelinedAsk *ask, int, const char *const *texts) {
    ServerAsk *server = static_cast<ServerAsk *>(ask->context);
    ShardRows *rows = server->rows;
    MemoryContext caller = MemoryContextSwitchTo(server->row_memory);
    Datum *values = palloc_array(Datum, rows->column_count);
    bool *nulls = palloc_array(bool, rows->column_count);
    for (int i = 0; i < rows->column_count; i++) {
        const char *text = texts[i + 1];
        nulls[i] = !text;
        values[i] = InputFunctionCall(&rows->inputs[i], const_cast<char *>(text),
                                      rows->input_types[i], rows->typmods[i]);
    }
    int number = atoi(texts[0]);
    TakeRow(rows, static_cast<Wanted *>(list_nth(server->wanted, number))->leaf, values, nulls);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(server->row_memory);
}

// Values of parameters as servers read them.
const char **WriteParameters(const ParamListInfo parameters, const CombinedSelect &combined) {
    int level = BeginTransmission();
    const char **texts = palloc_array(const char *, combined.parameter_count + 1);
    for (int i = 0; i < combined.parameter_count; i++) {
        const ParamExternData &parameter = parameters->params[combined.parameters[i]];
        Oid output;
        bool is_varlena;
        getTypeOutputInfo(parameter.ptype, &output, &is_varlena);
        texts[i] = parameter.isnull ? nullptr : OidOutputFunctionCall(output, parameter.value);
    }
    EndTransmission(level);
    return texts;
}

// Sets up what a server is asked about its partitions.
void MakeAsk(ShardRows *rows, ServerAsk *server, PipelinedAsk *ask) {
    int count = list_length(server->wanted);
    const LeafSelect **leaves = palloc_array(const LeafSelect *, count);
    ParamListInfo parameters = MakeParameters(rows->query, count);
    ListCell *cell;
    foreach (cell, server->wanted) {
        int i = foreach_current_index(cell);
        Wanted *wanted = static_cast<Wanted *>(lfirst(cell));
        leaves[i] = GetLeafSelect(rows->query->select, wanted->leaf);
        for (int j = 0; j < rows->table->identity_count; j++)
            parameters->params[i * rows->table->identity_count + j].value =
                MakeArray(rows, wanted, j);
    }
    CombinedSelect combined = CombineSelects(rows->query->select, leaves, count);
    server->rows = rows;
    server->row_memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table row", ALLOCSET_SMALL_SIZES);
    *ask = {.table = leaves[0]->leaf,
            .sql = combined.sql,
            .parameter_count = combined.parameter_count,
            .values = WriteParameters(parameters, combined),
            .context = server};
}

void AddLeftOut(ShardRows *rows, const char *partition) {
    ListCell *known;
    foreach (known, rows->left_out)
        if (strcmp(static_cast<char *>(lfirst(known)), partition) == 0)
            return;
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(rows));
    rows->left_out = lappend(rows->left_out, pstrdup(partition));
    MemoryContextSwitchTo(caller);
}

void LeaveOut(ShardRows *rows, const ServerAsk *server) {
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(rows));
    rows->unreachable = list_append_unique_oid(rows->unreachable, server->server);
    MemoryContextSwitchTo(caller);
    ListCell *cell;
    foreach (cell, server->wanted)
        AddLeftOut(rows, get_rel_name(static_cast<Wanted *>(lfirst(cell))->leaf));
}

// Fetches what it can; returns what is left for the executor.
List *FetchPipelined(ShardRows *rows, List *wanted) {
    PrepareInputs(rows);
    List *left = NIL;
    ServerAsk *servers = palloc0_array(ServerAsk, list_length(wanted));
    int count = 0;
    ListCell *cell;
    foreach (cell, wanted) {
        Wanted *one = static_cast<Wanted *>(lfirst(cell));
        const LeafSelect *leaf = GetLeafSelect(rows->query->select, one->leaf);
        if (!leaf->sql || !leaf->is_selective) {
            left = lappend(left, one);
            continue;
        }
        ServerAsk *server = std::find_if(servers, servers + count, [=](const ServerAsk &known) {
            return known.server == leaf->server;
        });
        count = Max(count, static_cast<int>(server - servers) + 1);
        server->server = leaf->server;
        server->wanted = lappend(server->wanted, one);
    }
    PipelinedAsk *asks = palloc_array(PipelinedAsk, Max(count, 1));
    int ask_count = 0;
    for (ServerAsk &server : std::span(servers, count))
        if (list_member_oid(rows->unreachable, server.server))
            LeaveOut(rows, &server);
        else
            MakeAsk(rows, &server, &asks[ask_count++]);
    RunPipelined(asks, ask_count, rows->needs.user, SkipsUnreachable() && !rows->needs.must_reach,
                 TakeText);
    for (PipelinedAsk &ask : std::span(asks, ask_count)) {
        ServerAsk *server = static_cast<ServerAsk *>(ask.context);
        rows->pipelined++;
        if (ask.problem)
            LeaveOut(rows, server);
        if (ask.is_rejected)
            left = list_concat(left, server->wanted);
    }
    return left;
}

// --- Both ways ---------------------------------------------------------------

// Server after server, for each may fail by itself.
void FetchReachable(ShardRows *rows, List *wanted) {
    while (wanted != NIL) {
        ServerAsk server = {.rows = rows};
        List *others = NIL;
        ListCell *cell;
        foreach (cell, wanted) {
            Wanted *one = static_cast<Wanted *>(lfirst(cell));
            Oid id = GetForeignTable(one->leaf)->serverid;
            if (server.wanted == NIL)
                server.server = id;
            if (id == server.server)
                server.wanted = lappend(server.wanted, one);
            else
                others = lappend(others, one);
        }
        if (list_member_oid(rows->unreachable, server.server) ||
            TryToReach([&] { FetchThroughExecutor(rows, server.wanted); }))
            LeaveOut(rows, &server);
        wanted = others;
    }
}

uint32 HashRow(const ShardRows *rows, const ShardRow *row) {
    uint32 hash = 0;
    for (int i = 0; i < rows->column_count; i++)
        hash =
            hash_combine(hash, row->nulls[i] ? 0
                                             : datum_image_hash(row->values[i], rows->by_value[i],
                                                                rows->lengths[i]));
    return hash;
}

bool IsSameRow(const ShardRows *rows, const ShardRow *a, const ShardRow *b) {
    for (int i = 0; i < rows->column_count; i++)
        if (a->nulls[i] != b->nulls[i] ||
            (!a->nulls[i] &&
             !datum_image_eq(a->values[i], b->values[i], rows->by_value[i], rows->lengths[i])))
            return false;
    return true;
}

// Takes out rows that have come twice: as committed, and as this transaction sees them.
void RemoveRepeated(ShardRows *rows, ShardRow **chain) {
    struct Hashed {
        uint32 hash;
        ShardRow *row;
    };
    int count = 0;
    for (const ShardRow *row = *chain; row; row = row->next)
        count++;
    if (count < 2)
        return;
    Hashed *hashed =
        static_cast<Hashed *>(palloc_extended(sizeof(Hashed) * count, MCXT_ALLOC_HUGE));
    count = 0;
    for (ShardRow *row = *chain; row; row = row->next)
        hashed[count++] = {HashRow(rows, row), row};
    std::sort(hashed, hashed + count,
              [](const Hashed &a, const Hashed &b) { return a.hash < b.hash; });
    *chain = nullptr;
    for (int i = 0, begin = 0; i < count; i++) {
        if (hashed[i].hash != hashed[begin].hash)
            begin = i;
        bool repeats = false;
        for (int j = begin; j < i; j++)
            repeats = repeats || (hashed[j].row && IsSameRow(rows, hashed[j].row, hashed[i].row));
        if (repeats) {
            hashed[i].row = nullptr;
            continue;
        }
        hashed[i].row->next = *chain;
        *chain = hashed[i].row;
    }
    pfree(hashed);
}

// Asks for what is committed, and for what this transaction has written.
void FetchBoth(ShardRows *rows, List *wanted) {
    List *left = FetchPipelined(rows, wanted);
    bool has_written = MayHaveWrittenToShards();
    FetchThroughExecutor(rows, has_written ? wanted : left);
    ListCell *cell;
    foreach (cell, has_written ? wanted : NIL) {
        Wanted *one = static_cast<Wanted *>(lfirst(cell));
        for (int i = 0; i < one->count; i++)
            RemoveRepeated(rows, reinterpret_cast<ShardRow **>(
                                     FindIdentity(rows->found, one->leaf, one->identities[i])));
    }
}

void UseQuery(ShardRows *rows, bool or_null) {
    RemoteQuery **query = &rows->queries[or_null];
    if (!*query) {
        MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(rows));
        const ShardNeeds &needs = rows->needs;
        List *identity = NIL;
        for (int i = 0; i < rows->table->identity_count; i++)
            identity = lappend_int(identity, rows->identity_attnos[i]);
        *query = BeginRemoteQuery({.base = rows->table->base,
                                   .user = needs.user,
                                   .columns = needs.columns,
                                   .identity = identity,
                                   .or_null = or_null,
                                   .lock = needs.lock},
                                  needs.quals, needs.node, needs.snapshot);
        MemoryContextSwitchTo(caller);
    }
    rows->query = *query;
}

int CompareWanted(const ListCell *a, const ListCell *b) {
    Oid left = static_cast<Wanted *>(lfirst(a))->leaf;
    Oid right = static_cast<Wanted *>(lfirst(b))->leaf;
    return left < right ? -1 : left > right;
}

} // namespace

void RaiseNotUnique(const IndexTable *table, Oid partition) {
    ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
                    errmsg("the identity of index table \"%s\" is not unique in partition \"%s\"",
                           get_rel_name(table->relid), get_rel_name(partition)),
                    errhint("Make it unique there, or set index_table.enable_scan to off.")));
}

ShardRows *BeginShardRows(const IndexTable *table, Relation base, const ShardNeeds &needs) {
    Assert(RelationGetRelid(base) == table->base && needs.columns != NIL && IsMemoryFreed());
    ShardRows *rows = palloc0_object(ShardRows);
    rows->table = table;
    rows->needs = needs;
    rows->descriptor = RelationGetDescr(base);
    rows->natts = rows->descriptor->natts;
    rows->column_count = list_length(needs.columns);
    rows->places = palloc_array(int, rows->natts);
    std::fill(rows->places, rows->places + rows->natts, -1);
    rows->by_value = palloc0_array(bool, rows->column_count);
    rows->lengths = palloc_array(int16, rows->column_count);
    ListCell *cell;
    foreach (cell, needs.columns) {
        int place = foreach_current_index(cell);
        if (lfirst_int(cell) == SelfItemPointerAttributeNumber) {
            rows->lengths[place] = sizeof(ItemPointerData);
            continue;
        }
        Form_pg_attribute att = TupleDescAttr(rows->descriptor, lfirst_int(cell) - 1);
        rows->places[lfirst_int(cell) - 1] = place;
        rows->by_value[place] = att->attbyval;
        rows->lengths[place] = att->attlen;
    }
    rows->identity_places = palloc_array(int, table->identity_count);
    rows->identity_attnos = palloc_array(AttrNumber, table->identity_count);
    for (int i = 0; i < table->identity_count; i++) {
        AttrNumber attno = table->identity[i].base_attno;
        rows->identity_attnos[i] = attno;
        rows->identity_places[i] = rows->places[attno - 1];
    }
    rows->memory = AllocSetContextCreate(CurrentMemoryContext, "index_table rows of shards",
                                         ALLOCSET_DEFAULT_SIZES);
    rows->row_memory = rows->memory;
    if (needs.keep)
        rows->row_memory = AllocSetContextCreate(
            CurrentMemoryContext, "index_table kept rows of shards", ALLOCSET_DEFAULT_SIZES);
    return rows;
}

void EndShardRows(ShardRows *rows) {
    if (rows->left_out != NIL) {
        StringInfoData names;
        initStringInfo(&names);
        ListCell *cell;
        foreach (cell, rows->left_out)
            appendStringInfo(&names, "%s%s", foreach_current_index(cell) > 0 ? ", " : "",
                             static_cast<char *>(lfirst(cell)));
        ereport(WARNING, (errcode(ERRCODE_CONNECTION_FAILURE),
                          errmsg("rows of partitions that could not be reached are left out"),
                          errdetail("Partitions: %s.", names.data)));
    }
    for (RemoteQuery *query : rows->queries)
        if (query)
            EndRemoteQuery(query);
}

void TakeLeftOut(ShardRows *rows, ShardRows *other) {
    ListCell *cell;
    foreach (cell, other->left_out)
        AddLeftOut(rows, static_cast<const char *>(lfirst(cell)));
    other->left_out = NIL;
}

int GetPlace(const ShardRows *rows, AttrNumber attno) {
    Assert(attno > 0 && attno <= rows->natts);
    return rows->places[attno - 1];
}

void BeginBatch(ShardRows *rows) {
    MemoryContextReset(rows->memory);
    rows->wanted = NIL;
    rows->by_leaf = {};
    if (!rows->needs.keep)
        rows->found = nullptr;
    rows->batch_rows = 0;
}

MemoryContext BatchMemory(const ShardRows *rows) {
    return rows->memory;
}

void WantRow(ShardRows *rows, const OpenLeaf *leaf, const NullableDatum *identity) {
    Assert(leaf->rel && leaf->is_foreign);
    MemoryContext caller = MemoryContextSwitchTo(rows->memory);
    if (!rows->found)
        rows->found = MakeIdentityMap(rows->row_memory, rows->descriptor, rows->identity_attnos,
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
            wanted->identities = palloc_array(const NullableDatum *, wanted->room);
            rows->wanted = lappend(rows->wanted, wanted);
            rows->by_leaf.Add(relid, wanted, rows->memory);
        }
        if (wanted->count == wanted->room) {
            wanted->room *= 2;
            wanted->identities = static_cast<const NullableDatum **>(
                repalloc(wanted->identities, sizeof(NullableDatum *) * wanted->room));
        }
        wanted->identities[wanted->count++] = identity;
        for (int i = 0; i < rows->table->identity_count; i++)
            wanted->has_nulls = wanted->has_nulls || identity[i].isnull;
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
    list_sort(rows->wanted, CompareWanted);
    for (bool or_null : {false, true}) {
        List *wanted = NIL;
        ListCell *cell;
        foreach (cell, rows->wanted)
            if (static_cast<Wanted *>(lfirst(cell))->has_nulls == or_null)
                wanted = lappend(wanted, lfirst(cell));
        if (wanted == NIL)
            continue;
        UseQuery(rows, or_null);
        if (rows->needs.as_committed) {
            FetchBoth(rows, wanted);
            continue;
        }
        bool is_read = rows->needs.lock == LCS_NONE;
        if (is_read && MayPipeline())
            wanted = FetchPipelined(rows, wanted);
        if (is_read && SkipsUnreachable())
            FetchReachable(rows, wanted);
        else
            FetchThroughExecutor(rows, wanted);
    }
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

bool IsWanted(const ShardRows *rows, const OpenLeaf *leaf, const NullableDatum *identity) {
    return rows->found && FindIdentity(rows->found, RelationGetRelid(leaf->rel), identity);
}

const ShardRow *FindShardRow(const ShardRows *rows, const OpenLeaf *leaf,
                             const NullableDatum *identity) {
    Assert(leaf->rel && leaf->is_foreign);
    void **place =
        rows->found ? FindIdentity(rows->found, RelationGetRelid(leaf->rel), identity) : nullptr;
    return place ? static_cast<ShardRow *>(*place) : nullptr;
}

int BatchLimit(const ShardRows *rows, int wish) {
    Assert(wish > 0);
    if (rows->batch_rows == 0)
        return wish;
    Size each = MemoryContextMemAllocated(rows->memory, true) / rows->batch_rows;
    Size most = static_cast<Size>(work_mem) * 1024 / Max(each, 1);
    return static_cast<int>(Max(kFewestRows, Min(most, static_cast<Size>(wish))));
}

const char *SampleStatement(const IndexTable *table, Relation base, const ShardNeeds &needs) {
    Oid sample = InvalidOid;
    ListCell *cell;
    foreach (cell, ListPartitions(RelationGetRelid(base)))
        if (IsForeign(lfirst_oid(cell)) && (!OidIsValid(sample) || lfirst_oid(cell) < sample))
            sample = lfirst_oid(cell);
    ShardRows *rows = BeginShardRows(table, base, needs);
    UseQuery(rows, false);
    const char *sql = nullptr;
    if (OidIsValid(sample)) {
        const LeafSelect *leaf = GetLeafSelect(rows->query->select, sample);
        if (needs.lock == LCS_NONE && MayPipeline() && leaf->sql && leaf->is_selective)
            sql = CombineSelects(rows->query->select, &leaf, 1).sql;
        else
            sql = WrapperStatement(rows->query->select, sample);
    }
    sql = sql ? pstrdup(sql) : nullptr;
    EndShardRows(rows);
    return sql;
}

// --- Every row ---------------------------------------------------------------

struct ShardScan {
    RemoteQuery *query;
    RemoteRun *run;
    Oid leaf;
    ShardRow row;
};

ShardScan *BeginShardScan(Relation base, const ShardNeeds &needs, Oid leaf) {
    Assert(IsForeign(leaf));
    ShardScan *scan = palloc0_object(ShardScan);
    scan->query = BeginRemoteQuery({.base = RelationGetRelid(base),
                                    .user = needs.user,
                                    .columns = needs.columns,
                                    .lock = needs.lock},
                                   needs.quals, needs.node, needs.snapshot);
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
    return {.pipelined = rows->pipelined, .wrapped = rows->wrapped, .rows = rows->rows};
}

} // namespace index_table
