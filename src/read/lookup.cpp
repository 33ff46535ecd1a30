// index_table.lookup() and index_table.fetch().
#include "exec/public.h"
#include "maintenance/public.h"
#include "read/base_rows.h"
#include "read/key_values.h"
#include "read/reading.h"
#include "shard/public.h"

namespace index_table {

const IndexTable *BeginReading(FunctionCallInfo fcinfo, int argument) {
    if (PG_ARGISNULL(argument))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("argument index_table must not be null")));
    FlushChanges();
    // Dropping the index table waits for this transaction, as for any reader.
    const IndexTable *table =
        LockIndexTable(GetIndexTable(PG_GETARG_OID(argument)), AccessShareLock);
    RefuseHypertable(table->base);
    CheckIsComplete(table);
    if (table->is_unusable())
        CheckIsTrusted(table);
    return table;
}

void CheckRowType(FunctionCallInfo fcinfo, const IndexTable *table) {
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, 0);
    if (type == get_rel_type_id(table->base))
        return;
    Oid base = table->base;
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("rowtype is %s, not the row type of \"%s\"",
                           OidIsValid(type) ? format_type_be(type) : "unknown", get_rel_name(base)),
                    errhint("Pass NULL::%s.",
                            quote_qualified_identifier(get_namespace_name(get_rel_namespace(base)),
                                                       get_rel_name(base)))));
}

namespace {

bool IsSameEntry(const IndexTable *table, HeapTuple a, HeapTuple b, TupleDesc descriptor) {
    for (int i = 0; i < table->group_count(); i++) {
        bool a_is_null, b_is_null;
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        Datum a_value = heap_getattr(a, i + 1, descriptor, &a_is_null);
        Datum b_value = heap_getattr(b, i + 1, descriptor, &b_is_null);
        if (a_is_null != b_is_null ||
            (!a_is_null && !datum_image_eq(a_value, b_value, att->attbyval, att->attlen)))
            return false;
    }
    return true;
}

bool IsEqualEntry(EntryRun *run, HeapTuple a, HeapTuple b, TupleDesc descriptor) {
    for (int i = 0; i < run->table->group_count(); i++) {
        bool a_is_null, b_is_null;
        Datum a_value = heap_getattr(a, i + 1, descriptor, &a_is_null);
        Datum b_value = heap_getattr(b, i + 1, descriptor, &b_is_null);
        Oid collation = TupleDescAttr(descriptor, i)->attcollation;
        if (a_is_null != b_is_null ||
            (!a_is_null &&
             DatumGetInt32(FunctionCall2Coll(&run->compare[i], collation, a_value, b_value)) != 0))
            return false;
    }
    return true;
}

} // namespace

EntryRun BeginRun(const IndexTable *table) {
    Assert(IsKnown(table));
    EntryRun run = {.table = table, .memory = CurrentMemoryContext};
    run.compare = static_cast<FmgrInfo *>(palloc(sizeof(FmgrInfo) * table->group_count()));
    for (int i = 0; i < table->group_count(); i++) {
        Oid opclass = i < table->key.count ? table->key.columns[i].opclass
                                           : GetDefaultOpClass(table->types[i], BTREE_AM_OID);
        Oid input = get_opclass_input_type(opclass);
        fmgr_info(get_opfamily_proc(get_opclass_family(opclass), input, input, BTORDER_PROC),
                  &run.compare[i]);
    }
    return run;
}

bool IsRepeated(EntryRun *run, HeapTuple entry, TupleDesc descriptor) {
    if (run->entries &&
        !IsEqualEntry(run, static_cast<HeapTuple>(linitial(run->entries)), entry, descriptor)) {
        list_free_deep(run->entries);
        run->entries = NIL;
    }
    ListCell *cell;
    foreach (cell, run->entries)
        if (IsSameEntry(run->table, static_cast<HeapTuple>(lfirst(cell)), entry, descriptor))
            return true;
    MemoryContext caller = MemoryContextSwitchTo(run->memory);
    run->entries = lappend(run->entries, heap_copytuple(entry));
    MemoryContextSwitchTo(caller);
    return false;
}

namespace {

EntryCondition PrefixOf(const KeyValues &key) {
    return {.count = key.count, .values = key.values, .nulls = key.nulls, .last = Bound::Equal};
}

Oid LeafOf(const IndexTable *table, HeapTuple entry, TupleDesc descriptor) {
    bool isnull;
    return FindPartition(
        table->base,
        DatumGetInt32(heap_getattr(entry, table->partition_position() + 1, descriptor, &isnull)));
}

// The name of the server of a foreign partition; null for others.
const char *ServerNameOf(Oid leaf) {
    return IsForeign(leaf) ? ServerOf(leaf)->servername : nullptr;
}

void PutLeaf(Oid leaf, NameData *server, Datum *values, bool *nulls) {
    values[0] = ObjectIdGetDatum(leaf);
    const char *name = ServerNameOf(leaf);
    nulls[1] = name == nullptr;
    if (name) {
        namestrcpy(server, name);
        values[1] = NameGetDatum(server);
    }
}

void PutEntry(ReturnSetInfo *result, const IndexTable *table, HeapTuple entry,
              TupleDesc descriptor) {
    Datum values[4] = {};
    bool nulls[4] = {};
    NameData server;
    PutLeaf(LeafOf(table, entry, descriptor), &server, values, nulls);
    values[2] = heap_getattr(entry, table->column_count + 1, descriptor, &nulls[2]);
    values[3] = heap_getattr(entry, table->column_count + 2, descriptor, &nulls[3]);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_lookup) {
    const IndexTable *table = BeginReading(fcinfo, 0);
    List *shown = ShownColumns(table);
    CheckSelectPrivilege(table, shown);
    KeyValues key = ReadKeyValues(fcinfo, 1, table);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    BaseRows *rows = BeginBaseRows(table, shown);
    EntryScan scan = BeginEntryScan(table, PrefixOf(key));
    while (HeapTuple entry = NextEntry(&scan)) {
        TupleDesc descriptor = scan.batch->tupdesc;
        // Under row security an entry shows when its row does.
        if (!HasRowSecurity(rows) || FindBaseRows(rows, &scan, entry, kEntriesAtOnce) != NIL)
            PutEntry(result, table, entry, descriptor);
    }
    EndEntryScan(&scan);
    EndBaseRows(rows);
    SPI_finish();
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_shards) {
    struct Shard {
        Oid leaf;
        int64 entries;
    };
    const IndexTable *table = BeginReading(fcinfo, 0);
    CheckSelectPrivilege(table, ShownColumns(table));
    KeyValues key = ReadKeyValues(fcinfo, 1, table);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    HTAB *shards = MakeHashTable<Oid, Shard>("index_table shards", 16, CurrentMemoryContext);
    BaseRows *rows = BeginBaseRows(table, ShownColumns(table));
    EntryScan scan = BeginEntryScan(table, PrefixOf(key));
    while (HeapTuple entry = NextEntry(&scan)) {
        TupleDesc descriptor = scan.batch->tupdesc;
        if (HasRowSecurity(rows) && FindBaseRows(rows, &scan, entry, kEntriesAtOnce) == NIL)
            continue;
        Oid leaf = LeafOf(table, entry, descriptor);
        bool is_known;
        Shard *shard = static_cast<Shard *>(hash_search(shards, &leaf, HASH_ENTER, &is_known));
        shard->entries = is_known ? shard->entries + 1 : 1;
    }
    HASH_SEQ_STATUS sequence;
    hash_seq_init(&sequence, shards);
    while (Shard *shard = static_cast<Shard *>(hash_seq_search(&sequence))) {
        Datum values[3] = {};
        bool nulls[3] = {};
        NameData server;
        PutLeaf(shard->leaf, &server, values, nulls);
        values[2] = Int64GetDatum(shard->entries);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    EndEntryScan(&scan);
    EndBaseRows(rows);
    SPI_finish();
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_fetch) {
    const IndexTable *table = BeginReading(fcinfo, 1);
    CheckRowType(fcinfo, table);
    CheckSelectPrivilege(table, NIL);
    KeyValues key = ReadKeyValues(fcinfo, 2, table);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    BaseRows *rows = BeginBaseRows(table, NIL);
    EntryScan scan = BeginEntryScan(table, PrefixOf(key));
    EntryRun run = BeginRun(table);
    MemoryContext per_entry =
        AllocSetContextCreate(CurrentMemoryContext, "index_table fetch", ALLOCSET_DEFAULT_SIZES);
    while (HeapTuple entry = NextEntry(&scan)) {
        TupleDesc descriptor = scan.batch->tupdesc;
        // Where the identity is not unique, several entries lead to the same rows.
        if (IsRepeated(&run, entry, descriptor))
            continue;
        MemoryContext caller = MemoryContextSwitchTo(per_entry);
        ListCell *cell;
        foreach (cell, FindBaseRows(rows, &scan, entry, kEntriesAtOnce))
            tuplestore_puttuple(result->setResult, static_cast<HeapTuple>(lfirst(cell)));
        MemoryContextSwitchTo(caller);
        MemoryContextReset(per_entry);
    }
    EndEntryScan(&scan);
    EndBaseRows(rows);
    SPI_finish();
    PG_RETURN_NULL();
}
