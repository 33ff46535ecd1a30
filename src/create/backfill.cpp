#include "catalog/public.h"
#include "partitions/public.h"
#include "create/bulk_load.h"
#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

void Set(const char *name, const char *value) {
    set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

// Lets the query sort like an index build: with its memory and its number of workers, reading the
// partitions front to back. The order of an index on the key would cost a random read a row.
void UseMaintenanceSettings() {
    Set("work_mem", psprintf("%d", maintenance_work_mem));
    Set("max_parallel_workers_per_gather", psprintf("%d", max_parallel_maintenance_workers));
    Set("enable_indexscan", "off");
    Set("enable_indexonlyscan", "off");
    Set("enable_bitmapscan", "off");
}

// Loads the rows that `snapshot` sees, of one leaf where that is valid.
void Load(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot, bool freeze,
          Progress *progress) {
    // Entries that carry copies are read from the heap by key, so they are loaded in that order.
    // The others are all in the B-tree, whose build sorts them anyhow.
    bool is_sorted = table->include_count > 0;
    char *sql = RecomputationQuery(base, table, progress->ticket, leaf);
    // Servers that were asked to sort would be waited for one after the other.
    if (is_sorted && HasForeign(FindLeaves(RelationGetRelid(base), NoLock)))
        sql = psprintf("SELECT * FROM (%s OFFSET 0) AS r", sql);
    if (is_sorted)
        sql = InEntryOrder(sql, table);
    int guc_level = NewGUCNestLevel();
    UseMaintenanceSettings();
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    SPIExecuteOptions options = {};
    options.read_only = true; // SPI then uses the active snapshot as it is
    options.dest = CreateBulkLoadReceiver(table, is_sorted, freeze, progress);
    PushActiveSnapshot(snapshot);
    int result =
        SPI_execute_plan_extended(PrepareBound(sql, table, CURSOR_OPT_PARALLEL_OK).plan, &options);
    if (result < 0)
        elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
    PopActiveSnapshot();
    options.dest->rDestroy(options.dest);
    SPI_finish();
    AtEOXact_GUC(false, guc_level);
}

} // namespace

namespace {

// The parts of CREATE INDEX for an index table.
struct IndexParts {
    const char *name; // of the index table
    Oid schema;
    const char *target;
    const char *tablespace;
    const char *key;
    const char *columns; // the same without order
    const char *rest;    // of an entry's group
    const char *nulls;   // condition of a key that has a NULL
};

IndexParts MakeIndexParts(const IndexTable *table) {
    Relation rel = table_open(table->relid, AccessShareLock);
    IndexParts parts = {.name = pstrdup(RelationGetRelationName(rel)),
                        .schema = RelationGetNamespace(rel),
                        .target = QualifiedName(table->relid),
                        .tablespace = ""};
    if (OidIsValid(rel->rd_rel->reltablespace))
        parts.tablespace = psprintf(
            " TABLESPACE %s", quote_identifier(get_tablespace_name(rel->rd_rel->reltablespace)));
    StringInfoData key, columns, rest, nulls;
    initStringInfo(&key);
    initStringInfo(&columns);
    initStringInfo(&rest);
    initStringInfo(&nulls);
    for (int i = 0; i < table->key.count; i++) {
        const char *column = NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname);
        appendStringInfoString(&key, i ? ", " : "");
        AppendKeyOrder(&key, table->key.columns[i], column);
        appendStringInfo(&columns, "%s%s", i ? ", " : "", quote_identifier(column));
        appendStringInfo(&nulls, "%s%s IS NULL", i ? " OR " : "", quote_identifier(column));
    }
    for (int i = table->partition_position() + 1; i < table->group_count(); i++)
        appendStringInfo(
            &rest, "%s, ",
            quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname)));
    appendStringInfoString(
        &rest, quote_identifier(NameStr(
                   TupleDescAttr(RelationGetDescr(rel), table->partition_position())->attname)));
    table_close(rel, NoLock);
    parts.key = key.data;
    parts.columns = columns.data;
    parts.rest = rest.data;
    parts.nulls = nulls.data;
    return parts;
}

} // namespace

Oid CreateSearchIndex(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid));
    IndexParts parts = MakeIndexParts(table);
    const char *name = ChooseRelationName(parts.name, nullptr, "idx", parts.schema, false);
    RunStatement(psprintf("CREATE INDEX %s ON %s (%s, %s)%s", quote_identifier(name), parts.target,
                          parts.key, parts.rest, parts.tablespace));
    return get_relname_relid(name, parts.schema);
}

void CreateIndexes(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid));
    if (!table->options.is_unique) {
        CreateSearchIndex(table);
        return;
    }
    IndexParts parts = MakeIndexParts(table);
    const char *index =
        quote_identifier(ChooseRelationName(parts.name, nullptr, "key", parts.schema, false));
    const char *nulls = table->options.nulls_distinct ? "" : " NULLS NOT DISTINCT";
    if (table->options.is_deferrable)
        RunStatement(psprintf("ALTER TABLE %s ADD CONSTRAINT %s UNIQUE%s (%s) INCLUDE (%s)%s%s "
                              "DEFERRABLE INITIALLY %s",
                              parts.target, index, nulls, parts.columns, parts.rest,
                              *parts.tablespace ? " USING INDEX" : "", parts.tablespace,
                              table->options.initially_deferred ? "DEFERRED" : "IMMEDIATE"));
    else
        RunStatement(psprintf("CREATE UNIQUE INDEX %s ON %s (%s) INCLUDE (%s)%s%s", index,
                              parts.target, parts.key, parts.rest, nulls, parts.tablespace));
    if (!table->options.nulls_distinct)
        return;
    index = quote_identifier(ChooseRelationName(parts.name, "null", "idx", parts.schema, false));
    RunStatement(psprintf("CREATE INDEX %s ON %s (%s, %s)%s WHERE %s", index, parts.target,
                          parts.key, parts.rest, parts.tablespace, parts.nulls));
}

namespace {

int64 EstimateRows(List *leaves) {
    double rows = 0;
    ListCell *cell;
    foreach (cell, leaves) {
        HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            continue;
        float4 estimate = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples;
        rows += Max(estimate, 0);
        ReleaseSysCache(tuple);
    }
    return static_cast<int64>(rows);
}

} // namespace

void LoadPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot,
                   Progress *progress) {
    Assert(IsInOwnerOf(leaf) && IsLocked(leaf, AccessShareLock) && snapshot);
    List *all = ListPartitions(table->base);
    List *loaded_numbers = ListLoadedPartitions(table->relid);
    List *loaded = NIL;
    ListCell *cell;
    foreach (cell, all) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && list_member_int(loaded_numbers, number->id))
            loaded = lappend_oid(loaded, lfirst_oid(cell));
    }
    StartCounting(progress, list_make1_oid(leaf), EstimateRows(all),
                  {.rows = EstimateRows(loaded),
                   .partitions = list_length(loaded),
                   .partitions_to_come = list_length(all) - list_length(loaded) - 1});
    ReportPhase(progress, Phase::Scanning);
    Load(base, table, leaf, snapshot, false, progress);
}

namespace {

// Under an older transaction snapshot rows committed before the base table was locked would be
// missed.
void LoadAll(Relation base, const IndexTable *table, Progress *progress) {
    List *leaves = FindLeaves(RelationGetRelid(base), NoLock);
    RequireNewSnapshots(RelationGetRelid(base), leaves,
                        psprintf("load index table \"%s\"", get_rel_name(table->relid)));
    StartCounting(progress, leaves, EstimateRows(leaves));
    ReportPhase(progress, Phase::Scanning);
    Load(base, table, InvalidOid, GetLatestSnapshot(), true, progress);
    CommandCounterIncrement();
    ReportPhase(progress, Phase::Indexing);
}

void Analyze(const IndexTable *table, Progress *progress) {
    ReportPhase(progress, Phase::Analyzing);
    RunStatement(psprintf("ANALYZE %s", QualifiedName(table->relid)));
    ReportPhase(progress, Phase::Analyzing); // ANALYZE has its own progress, and ended ours
}

} // namespace

void Backfill(Relation base, const IndexTable *table, Progress *progress) {
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true) && IsInOwnerOf(table->base));
    Assert(AreLocked(FindLeaves(table->base, NoLock), ShareRowExclusiveLock));
    LoadAll(base, table, progress);
    CreateIndexes(table);
    Analyze(table, progress);
}

void Reload(Relation base, const IndexTable *table, Progress *progress) {
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true) && IsInOwnerOf(table->base));
    Assert(AreLocked(FindLeaves(table->base, NoLock), ShareRowExclusiveLock));
    LoadAll(base, table, progress);
    ListCell *cell;
    foreach (cell, StorageOf(table->relid, NoLock))
        RunStatement(psprintf("REINDEX TABLE %s", QualifiedName(lfirst_oid(cell))));
    Analyze(table, progress);
}

} // namespace index_table
