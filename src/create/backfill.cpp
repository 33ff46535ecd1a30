#include "catalog/public.h"
#include "core/public.h"
#include "create/bulk_load.h"
#include "create/index_parts.h"
#include "create/server_tables.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// Lets the query sort like an index build: with its memory and its number of workers, reading the
// partitions front to back. The order of an index on the key would cost a random read a row, and
// the expressions of each partition's scan would be compiled.
void UseMaintenanceSettings() {
    SetForQuery("work_mem", psprintf("%d", maintenance_work_mem));
    SetForQuery("max_parallel_workers_per_gather",
                psprintf("%d", max_parallel_maintenance_workers));
    SetForQuery("enable_indexscan", "off");
    SetForQuery("enable_indexonlyscan", "off");
    SetForQuery("enable_bitmapscan", "off");
    SetForQuery("jit", "off");
}

// Entries that carry copies are read from the heap by key, so they are loaded in that order. The
// others are all in the B-tree, whose build sorts them anyhow.
bool IsLoadedInOrder(const IndexTable *table) {
    return table->include_count > 0;
}

// Gives the entries of rows that `snapshot` sees, of one leaf where that is valid, to `receiver`.
void Load(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot,
          DestReceiver *receiver, Progress *progress) {
    bool is_sorted = IsLoadedInOrder(table);
    char *sql = RecomputationQuery(base, table, progress->ticket, leaf);
    // Servers that were asked to sort would be waited for one after the other; and see
    // ComparisonQuery().
    if (is_sorted)
        sql = InEntryOrder(psprintf("SELECT * FROM (%s OFFSET 0) AS r", sql), table);
    int guc_level = NewGUCNestLevel();
    UseMaintenanceSettings();
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    SPIExecuteOptions options = {};
    options.read_only = true; // SPI then uses the active snapshot as it is
    options.dest = receiver;
    PushActiveSnapshot(snapshot);
    BoundPlan plan = PrepareBound(sql, table, kPlanNatively | CURSOR_OPT_PARALLEL_OK);
    int result = SPI_execute_plan_extended(plan.plan, &options);
    if (result < 0)
        elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
    PopActiveSnapshot();
    SPI_finish();
    AtEOXact_GUC(false, guc_level);
}

} // namespace

namespace {

List *ListIndexes(Oid relid) {
    Relation rel = table_open(relid, AccessShareLock);
    List *indexes = list_copy(RelationGetIndexList(rel));
    table_close(rel, NoLock);
    return indexes;
}

} // namespace

Oid CreateSearchIndex(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid));
    List *before = ListIndexes(table->relid);
    IndexParts parts = MakeIndexParts(table);
    const char *name = ChooseRelationName(parts.name, nullptr, "idx", parts.schema, false);
    RunStatement(psprintf("CREATE INDEX %s ON %s (%s, %s)%s", quote_identifier(name), parts.target,
                          parts.key, parts.rest, parts.tablespace));
    List *created = list_difference_oid(ListIndexes(table->relid), before); // by whatever name
    return created != NIL ? linitial_oid(created) : InvalidOid;
}

void CreateIndexes(const IndexTable *table) {
    FAULT_POINT("backfill.create_indexes");
    Assert(IsInOwnerOf(table->relid) && !table->on_servers);
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
    DestReceiver *receiver = CreateBulkLoadReceiver(table, IsLoadedInOrder(table), false, progress);
    Load(base, table, leaf, snapshot, receiver, progress);
    receiver->rDestroy(receiver);
}

namespace {

// Under an older transaction snapshot rows committed before the base table was locked would be
// missed.
void LoadAll(Relation base, const IndexTable *table, Progress *progress, DestReceiver *receiver) {
    FAULT_POINT("backfill.load_all");
    List *leaves = FindLeaves(RelationGetRelid(base), NoLock);
    RequireNewSnapshots(RelationGetRelid(base), leaves,
                        psprintf("load index table \"%s\"", get_rel_name(table->relid)));
    StartCounting(progress, leaves, EstimateRows(leaves));
    ReportPhase(progress, Phase::Scanning);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    Load(base, table, InvalidOid, snapshot, receiver, progress);
    UnregisterSnapshot(snapshot);
    CommandCounterIncrement();
    ReportPhase(progress, Phase::Indexing);
}

void LoadHere(Relation base, const IndexTable *table, Progress *progress) {
    DestReceiver *receiver = CreateBulkLoadReceiver(table, IsLoadedInOrder(table), true, progress);
    LoadAll(base, table, progress, receiver);
    receiver->rDestroy(receiver);
}

void LoadOnServers(Relation base, const IndexTable *table, Progress *progress, bool anew) {
    DestReceiver *receiver = CreateServerLoadReceiver(table);
    LoadAll(base, table, progress, receiver);
    MakeServerTables(table, receiver, anew);
}

// On servers that the transaction has used before, postgres_fdw may not see what was made since:
// then nothing is known of the entries until the owner has them analyzed.
void Analyze(const IndexTable *table, Progress *progress) {
    FAULT_POINT("backfill.analyze");
    ReportPhase(progress, Phase::Analyzing);
    const char *statement = psprintf("ANALYZE %s", QualifiedName(table->relid));
    if (!table->on_servers)
        RunStatement(statement);
    else if (const char *error = TryInSubtransaction([=] { RunStatement(statement); }))
        ereport(DEBUG1, (errmsg_internal("could not analyze index table \"%s\": %s",
                                         get_rel_name(table->relid), error)));
    ReportPhase(progress, Phase::Analyzing); // ANALYZE has its own progress, and ended ours
}

} // namespace

void Backfill(Relation base, const IndexTable *table, Progress *progress) {
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true) && IsInOwnerOf(table->base));
    Assert(AreLocked(FindLeaves(table->base, NoLock), ShareRowExclusiveLock));
    if (table->on_servers) {
        CreateRootIndex(table);
        LoadOnServers(base, table, progress, false);
    } else {
        LoadHere(base, table, progress);
        CreateIndexes(table);
    }
    Analyze(table, progress);
}

void Reload(Relation base, const IndexTable *table, Progress *progress) {
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true) && IsInOwnerOf(table->base));
    Assert(AreLocked(FindLeaves(table->base, NoLock), ShareRowExclusiveLock));
    if (table->on_servers)
        LoadOnServers(base, table, progress, true);
    else
        LoadHere(base, table, progress);
    ListCell *cell;
    foreach (cell, StorageOf(table->relid, NoLock))
        RunStatement(psprintf("REINDEX TABLE %s", QualifiedName(lfirst_oid(cell))));
    Analyze(table, progress);
}

} // namespace index_table
