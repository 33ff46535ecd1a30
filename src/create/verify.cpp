// index_table.verify() and index_table.repair().
//
// Both compare an index table with its recomputation in one pass: entries and recomputed entries
// together, grouped by key, partition number and identity. A group is in order when it has as many
// of the one as of the other, and the same copies.
#include "catalog/public.h"
#include "core/public.h"
#include "create/new_column.h"
#include "create/server_tables.h"
#include "deferred/public.h"
#include "global/public.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// Result columns of the comparison, before the entry's own.
enum ComparisonColumn {
    kProblem = 1,
    kIsFirst,  // of its group
    kLocation, // ctid of a stored entry, null for a recomputed one
    kStorage,  // relation that holds it
    kKeyJson,
    kIdentityJson,
    kEntry // the first column of the entry
};

char *ColumnName(Relation rel, const IndexTable *table, int position) {
    AttrNumber attno = LiveColumn(rel, table, position);
    return NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname);
}

char *JsonObject(Relation rel, const IndexTable *table, std::span<const int> positions) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "jsonb_build_object(");
    for (Size i = 0; i < positions.size(); i++)
        appendStringInfo(&sql, "%s%s, c%d", i ? ", " : "",
                         quote_literal_cstr(ColumnName(rel, table, positions[i])),
                         positions[i] + 1);
    appendStringInfoChar(&sql, ')');
    return sql.data;
}

// A condition that leaves out groups of rows that are queued.
char *NotQueued(const IndexTable *table) {
    StringInfoData arrays, condition;
    initStringInfo(&arrays);
    initStringInfo(&condition);
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        TypeCacheEntry *type = lookup_type_cache(table->types[position], TYPECACHE_EQ_OPR);
        appendStringInfo(&arrays, "%sunnest(identity_%d) AS i%d", i ? ", " : "", i + 1, i + 1);
        appendStringInfo(&condition, "%sq.i%d %s v.c%d", i ? " AND " : "", i + 1,
                         OperatorName(type->eq_opr), position + 1);
    }
    return psprintf(" AND NOT EXISTS (SELECT FROM (SELECT %s FROM %s) AS q WHERE %s)", arrays.data,
                    QualifiedName(table->queue), condition.data);
}

// Numbers of partitions that are there for the latest snapshot. Entries of a partition that is
// about to be detached are there for older ones. Few are, if any: the query begins with them and
// goes down, where to ask each partition for its ancestors takes most of the time of verify(). They
// are not locked: FINALIZE locks them.
constexpr char kLiveNumbers[] =
    "SELECT p.partition_id FROM index_table.partition AS p WHERE p.relation::pg_catalog.oid "
    "OPERATOR(pg_catalog.<>) ALL (ARRAY(WITH RECURSIVE leaving AS (SELECT inhrelid FROM "
    "pg_catalog.pg_inherits WHERE inhdetachpending UNION SELECT i.inhrelid FROM leaving AS l JOIN "
    "pg_catalog.pg_inherits AS i ON i.inhparent OPERATOR(pg_catalog.=) l.inhrelid) "
    "SELECT inhrelid FROM leaving))";

// The recomputation of some leaves; one of them may be detached before the snapshot is taken.
char *RecomputationOfLeaves(Relation base, const IndexTable *table, int64 ticket, List *leaves) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT * FROM (");
    ListCell *cell;
    foreach (cell, leaves)
        appendStringInfo(&sql, "%s(%s)", foreach_current_index(cell) > 0 ? " UNION ALL " : "",
                         RecomputationQuery(base, table, ticket, lfirst_oid(cell)));
    appendStringInfo(&sql, ") AS l WHERE c%d IN (%s)", table->partition_position() + 1,
                     kLiveNumbers);
    return sql.data;
}

// The numbers of some leaves, as a condition on a column; empty for all.
char *OfLeaves(const char *column, List *leaves) {
    StringInfoData sql;
    initStringInfo(&sql);
    ListCell *cell;
    foreach (cell, leaves)
        if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell)))
            appendStringInfo(&sql, "%s%d", sql.len > 0 ? "," : "", number->id);
    return leaves == NIL ? sql.data
                         : psprintf(" AND %s = ANY ('{%s}'::integer[])", column, sql.data);
}

// Whether rows count whose changes are queued: the index table may not have learned of them yet.
enum class Queued { LeftOut, Compared };

// One row for each stored or recomputed entry of a group that is not in order, of some leaves or,
// for NIL, of all. OFFSET 0 keeps the order of the window from the planning of the partitions,
// where each of their indexes would be compared with it: what PostgreSQL does in time that grows
// with the square of their number.
char *ComparisonQuery(Relation base, Relation rel, const IndexTable *table, int64 ticket,
                      List *leaves, Queued queued) {
    StringInfoData columns, group, stored, sql;
    initStringInfo(&columns);
    initStringInfo(&group);
    initStringInfo(&stored);
    initStringInfo(&sql);
    for (int i = 0; i < table->column_count; i++) {
        appendStringInfo(&columns, "%sc%d", i ? ", " : "", i + 1);
        if (i < table->group_count())
            appendStringInfo(&group, "%sc%d", i ? ", " : "", i + 1);
    }
    AppendStoredColumns(&stored, rel, table);
    int *positions = static_cast<int *>(palloc(sizeof(int) * table->column_count));
    for (int i = 0; i < table->key.count; i++)
        positions[i] = i;
    char *key = JsonObject(rel, table, {positions, static_cast<Size>(table->key.count)});
    for (int i = 0; i < table->identity_count; i++)
        positions[i] = table->identity[i].position;
    char *identity = JsonObject(rel, table, {positions, static_cast<Size>(table->identity_count)});
    const char *number = quote_identifier(ColumnName(rel, table, table->partition_position()));

    appendStringInfo(
        &sql,
        "SELECT CASE WHEN entries < expected THEN 'missing' WHEN expected = 0 THEN 'stale' "
        "WHEN entries > expected THEN 'duplicate' ELSE 'differs' END, is_first, location, storage, "
        "%s, %s, %s FROM ("
        "SELECT u.*, count(location) OVER g AS entries, "
        "count(*) OVER g - count(location) OVER g AS expected, "
        "sum(CASE WHEN location IS NULL THEN 1 ELSE -1 END * image) OVER g AS imbalance, "
        "row_number() OVER (PARTITION BY %s) = 1 AS is_first FROM ("
        "SELECT e.*, hashtextextended(ROW(%s)::text, 0)::numeric AS image FROM ("
        "SELECT NULL::tid AS location, NULL::oid AS storage, r.* FROM (%s OFFSET 0) AS r "
        "UNION ALL "
        "SELECT ctid, tableoid, %s FROM %s WHERE %s IN (%s)%s) AS e) AS u "
        "WINDOW g AS (PARTITION BY %s)) AS v "
        "WHERE (entries <> expected OR imbalance <> 0)",
        key, identity, columns.data, group.data, columns.data,
        leaves == NIL ? RecomputationQuery(base, table, ticket)
                      : RecomputationOfLeaves(base, table, ticket, leaves),
        stored.data, QualifiedName(table->relid), number, kLiveNumbers, OfLeaves(number, leaves),
        group.data);
    if (queued == Queued::LeftOut && FindQueue(table))
        appendStringInfoString(&sql, NotQueued(table));
    return sql.data;
}

// Runs the comparison under the latest snapshot and calls consume(row, descriptor) for each row. Of
// some leaves, which are locked, or, for NIL, of all.
template <typename Consume>
void Compare(Relation base, const IndexTable *table, List *leaves, Progress *progress, Phase phase,
             Queued queued, Consume consume) {
    Relation rel = table_open(table->relid, AccessShareLock);
    double estimate = 0;
    ListCell *cell;
    foreach (cell, leaves == NIL ? FindLeaves(table->base, AccessShareLock) : leaves) {
        Relation leaf = table_open(lfirst_oid(cell), NoLock);
        estimate += Max(leaf->rd_rel->reltuples, 0);
        table_close(leaf, NoLock);
    }
    StartCounting(progress, leaves == NIL ? ListPartitions(table->base) : leaves,
                  static_cast<int64>(estimate));
    ReportPhase(progress, phase);
    char *sql = ComparisonQuery(base, rel, table, progress->ticket, leaves, queued);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    // JIT would compile the expressions of each partition's scan.
    int guc_level = NewGUCNestLevel();
    SetForQuery("jit", "off");
    BoundPlan plan = PrepareBound(sql, table, kPlanNatively);
    PushActiveSnapshot(GetLatestSnapshot());
    Portal portal = OpenBound(plan);
    AtEOXact_GUC(false, guc_level);
    do {
        guc_level = NewGUCNestLevel();
        UseLosslessText(); // images are of text
        SPI_cursor_fetch(portal, true, 1000);
        AtEOXact_GUC(false, guc_level);
        for (uint64 i = 0; i < SPI_processed; i++)
            consume(SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
        SPI_freetuptable(SPI_tuptable);
        CHECK_FOR_INTERRUPTS();
    } while (SPI_processed > 0);
    SPI_cursor_close(portal);
    PopActiveSnapshot();
    SPI_finish();
    table_close(rel, NoLock);
}

int64 CountProblems(Relation base, const IndexTable *table) {
    FAULT_POINT("verify.count_problems");
    int64 problems = 0;
    Progress *progress = BeginProgress(table->base, table->relid, AccessShareLock);
    Compare(base, table, NIL, progress, Phase::Verifying, Queued::LeftOut,
            [&](HeapTuple row, TupleDesc descriptor) {
                bool isnull;
                problems += DatumGetBool(SPI_getbinval(row, descriptor, kIsFirst, &isnull));
            });
    EndProgress(progress);
    return problems;
}

// Of the first row of a group; false for others.
bool PutProblem(ReturnSetInfo *result, Oid base, HeapTuple row, TupleDesc descriptor,
                int partition_column) {
    bool isnull;
    if (!DatumGetBool(SPI_getbinval(row, descriptor, kIsFirst, &isnull)))
        return false;
    Datum values[4];
    bool nulls[4] = {};
    values[0] = SPI_getbinval(row, descriptor, kProblem, &nulls[0]);
    int32 partition = DatumGetInt32(SPI_getbinval(row, descriptor, partition_column, &isnull));
    Oid leaf = FindPartition(base, partition);
    values[1] = ObjectIdGetDatum(leaf);
    nulls[1] = !OidIsValid(leaf);
    values[2] = SPI_getbinval(row, descriptor, kKeyJson, &nulls[2]);
    values[3] = SPI_getbinval(row, descriptor, kIdentityJson, &nulls[3]);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    return true;
}

void RememberRow(RemovedEntries *removed, HeapTuple row, TupleDesc descriptor) {
    int count = removed->table->column_count;
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    bool *nulls = static_cast<bool *>(palloc(count));
    for (int i = 0; i < count; i++)
        values[i] = SPI_getbinval(row, descriptor, kEntry + i, &nulls[i]);
    RememberRemoved(removed, values, nulls);
    pfree(values);
    pfree(nulls);
}

// --- Global indexes ------------------------------------------------------------

// A run over one, and what becomes of its problems.
struct GlobalRun {
    Progress *progress;
    ReturnSetInfo *result; // null: they are counted alone
    int64 problems;
};

// The row has no identity but its place.
Datum DescribePlace(const ItemPointerData *row) {
    char *text = psprintf("{\"ctid\": \"(%u,%u)\"}", ItemPointerGetBlockNumberNoCheck(row),
                          ItemPointerGetOffsetNumberNoCheck(row));
    return DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
}

void PutGlobalProblem(void *state, const GlobalProblem &problem) {
    auto *run = static_cast<GlobalRun *>(state);
    run->problems++;
    if (!run->result)
        return;
    Datum values[] = {CStringGetTextDatum(problem.kind), ObjectIdGetDatum(problem.partition),
                      problem.key, DescribePlace(&problem.row)};
    bool nulls[lengthof(values)] = {};
    tuplestore_putvalues(run->result->setResult, run->result->setDesc, values, nulls);
}

void CountGlobalRows(void *state, int64 rows) {
    ReportRows(static_cast<GlobalRun *>(state)->progress, rows);
}

// Returns the number of problems. What a whole index's verification has found is recorded.
int64 VerifyGlobal(const GlobalIndex &given, ReturnSetInfo *result) {
    Oid base = LockIndexedTables(given.root, AccessShareLock);
    GlobalIndex index = FindGlobalIndex(given.root).value_or(given); // REINDEX makes trees anew
    OwnerContext owner = EnterOwner(RelationOwner(base));
    GlobalRun run = {.progress = BeginProgress(base, index.root, AccessShareLock),
                     .result = result};
    run.progress->rows_total = EstimateRows(index);
    ReportPhase(run.progress, Phase::Verifying);
    VerifyCalls calls = {.state = &run, .report = PutGlobalProblem, .count = CountGlobalRows};
    TimestampTz began = GetCurrentTimestamp();
    VerifyGlobalIndex(index, calls);
    RecordWork(index.root, Work::Verify, began, run.problems);
    EndProgress(run.progress);
    LeaveOwner(owner);
    return run.problems;
}

} // namespace

int64 VerifyWhole(const GlobalIndex &index) {
    return VerifyGlobal(index, nullptr);
}

int64 VerifyLeaves(const IndexTable *table, List *leaves, List **damaged) {
    Assert(leaves != NIL && AreLocked(leaves, AccessShareLock));
    Relation base = relation_open(table->base, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    Progress *progress = BeginProgress(table->base, table->relid, AccessShareLock);
    int partition_column = kEntry + table->partition_position();
    MemoryContext memory = CurrentMemoryContext;
    int64 problems = 0;
    Compare(base, table, leaves, progress, Phase::Verifying, Queued::LeftOut,
            [&](HeapTuple row, TupleDesc descriptor) {
                bool isnull;
                if (!DatumGetBool(SPI_getbinval(row, descriptor, kIsFirst, &isnull)))
                    return;
                problems++;
                MemoryContext spi = MemoryContextSwitchTo(memory);
                *damaged = list_append_unique_oid(
                    *damaged,
                    FindPartition(table->base, DatumGetInt32(SPI_getbinval(
                                                   row, descriptor, partition_column, &isnull))));
                MemoryContextSwitchTo(spi);
            });
    EndProgress(progress);
    LeaveOwner(owner);
    relation_close(base, NoLock);
    return problems;
}

int64 RepairEntries(Relation base, const IndexTable *table) {
    FAULT_POINT("verify.repair_entries");
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true) && IsInOwnerOf(table->base));
    Assert(AreLocked(FindLeaves(table->base, NoLock), ShareRowExclusiveLock));
    int64 problems = 0;
    List *parts =
        table->on_servers ? find_inheritance_children(table->relid, AccessShareLock) : NIL;
    RequireNewSnapshots(table->base, list_concat(FindLeaves(table->base, NoLock), parts),
                        psprintf("repair index table \"%s\"", get_rel_name(table->relid)));
    Progress *progress = BeginProgress(table->base, table->relid, ShareRowExclusiveLock);
    EntryCollector collector = BeginCollecting(table);
    ServerRepair on_servers = {.table = table, .memory = CurrentMemoryContext};
    EntryWriter *writer =
        table->on_servers ? nullptr : OpenWriter(table, false, CurrentMemoryContext);
    // An entry that is written anew must not take references with it.
    RemovedEntries *removed = LockIfTriggersLook(table->relid) ? BeginRemoval(table) : nullptr;
    if (removed && writer)
        IgnoreReferences(writer);
    auto consume = [&](HeapTuple row, TupleDesc descriptor) {
        bool isnull;
        problems += DatumGetBool(SPI_getbinval(row, descriptor, kIsFirst, &isnull));
        Datum location = SPI_getbinval(row, descriptor, kLocation, &isnull);
        if (!isnull) {
            Oid storage = DatumGetObjectId(SPI_getbinval(row, descriptor, kStorage, &isnull));
            ItemPointer tid = reinterpret_cast<ItemPointer>(DatumGetPointer(location));
            if (writer)
                DeleteStoredEntry(writer, storage, tid);
            else if (table->on_servers)
                RemoveLater(&on_servers, storage, tid);
            if (removed)
                RememberRow(removed, row, descriptor);
            return;
        }
        if (table->on_servers)
            EnterLater(&on_servers, row, descriptor);
        else
            CollectEntry(&collector, row, descriptor, kEntry);
    };
    // Dead entries are no problems, but may hold a unique key.
    RemoveDeadEntries(table, removed);
    Compare(base, table, NIL, progress, Phase::Repairing, Queued::Compared, consume);
    if (writer)
        CloseWriter(writer);
    EndCollecting(&collector);
    RepairServerTables(&on_servers);
    if (removed)
        CheckAfterRepair(removed);
    ClearQueue(table); // what was in it has been compared
    if (collector.count > 0 || on_servers.rows)
        RecordBuild(table->relid);
    EndProgress(progress);
    return problems;
}

namespace {

// All that have been entered were missing.
int64 BuildWhole(Oid root) {
    CheckCanBuild(root);
    RebuildWholeIndex(root);
    Relation tree = index_open(FindGlobalIndex(root)->tree, AccessShareLock);
    int64 entries = static_cast<int64>(Max(tree->rd_rel->reltuples, 0));
    index_close(tree, NoLock);
    return entries;
}

// A part of it may have lost what tells which entries are its own, with or without any.
int64 RebuildWhere(const GlobalIndex &index) {
    int64 problems = VerifyGlobal(index, nullptr);
    if (problems > 0 || !IsBuilt(index.root))
        RebuildWholeIndex(index.root);
    return problems;
}

} // namespace

int64 RepairWhole(Oid root) {
    TimestampTz began = GetCurrentTimestamp();
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    int64 problems = index ? RebuildWhere(*index) : BuildWhole(root);
    RecordWork(root, Work::Repair, began, problems);
    return problems;
}

int64 RepairIndexTable(const IndexTable *table) {
    TimestampTz began = GetCurrentTimestamp();
    Assert(!OidIsValid(table->log));
    Oid relid = table->relid;
    RestoreTriggers(table->base);
    Relation base = relation_open(table->base, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    bool has_strangers = list_difference_oid(FindLeaves(table->base, AccessShareLock),
                                             ListPartitions(table->base)) != NIL;
    // Dead entries are no problems, but should go.
    RemovedEntries *removed = LockIfTriggersLook(relid) ? BeginRemoval(table) : nullptr;
    if (!table->on_servers) // they are swept below, under a snapshot there that may be repaired by
        SweepEntries(table, removed);
    if (removed)
        CheckAfterRepair(removed);
    int64 problems = 0;
    // postgres_fdw reads under one snapshot until the transaction ends: what is looked at before
    // writers are locked out cannot be looked at again.
    bool has_foreign = HasForeign(ListPartitions(table->base)) || table->on_servers;
    bool was_restored = table->state != TableState::Built;
    if (has_strangers || has_foreign || was_restored || LacksQueue(table) ||
        CountProblems(base, table) > 0) {
        LockRelationOid(table->base, ShareRowExclusiveLock); // first, as writers do
        FindLeaves(table->base, ShareRowExclusiveLock);
        SettleForRepair(RelationGetRelid(base));
        problems = ReconcilePartitions(base);
        EnsureQueue(GetIndexTable(relid));
        // The lock may have been waited for, and numbers given.
        problems += RepairEntries(base, GetIndexTable(relid));
        if (was_restored && table->on_servers)
            AdoptServerTables(GetIndexTable(relid));
        if (was_restored) {
            SetState(relid, TableState::Built);
            RecordBuild(relid);
        }
    }
    if (OidIsValid(FindDisabledFor(GetIndexTable(relid)))) // what is right now need not stay so
        SetState(relid, TableState::Missed);
    LeaveOwner(owner);
    relation_close(base, NoLock);
    RecordWork(relid, Work::Repair, began, problems);
    return problems;
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_verify) {
    if (std::optional<GlobalIndex> index = FindOwnGlobalIndex(PG_GETARG_OID(0))) {
        InitMaterializedSRF(fcinfo, 0);
        VerifyGlobal(*index, reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo));
        PG_RETURN_NULL();
    }
    const IndexTable *table = LockIndexTable(GetOwnIndexTable(PG_GETARG_OID(0)), AccessShareLock);
    RefuseHypertable(table->base);
    CheckIsComplete(table);
    if (table->state == TableState::Damaged)
        CheckIsTrusted(table);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    Relation base = relation_open(table->base, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    Progress *progress = BeginProgress(table->base, table->relid, AccessShareLock);
    int partition_column = kEntry + table->partition_position();
    TimestampTz began = GetCurrentTimestamp();
    int64 problems = 0;
    Compare(base, table, NIL, progress, Phase::Verifying, Queued::LeftOut,
            [&](HeapTuple row, TupleDesc descriptor) {
                problems += PutProblem(result, table->base, row, descriptor, partition_column);
            });
    RecordWork(table->relid, Work::Verify, began, problems);
    EndProgress(progress);
    LeaveOwner(owner);
    WarnOfMissingCopies(table);
    WarnOfDisabled(GetIndexTable(table->relid));
    relation_close(base, NoLock);
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_repair) {
    PreventCommandDuringRecovery("index_table.repair()");
    PreventCommandIfReadOnly("index_table.repair()");
    if (IsOwnGlobalIndex(PG_GETARG_OID(0)))
        PG_RETURN_INT64(RepairWhole(PG_GETARG_OID(0)));
    const IndexTable *table = LockIndexTable(GetOwnIndexTable(PG_GETARG_OID(0)), AccessShareLock);
    RefuseHypertable(table->base);
    CheckIsComplete(table);
    Oid relid = table->relid;
    int64 problems = RepairIndexTable(table);
    table = GetIndexTable(relid);
    WarnOfMissingCopies(table);
    WarnOfDisabled(table);
    PG_RETURN_INT64(problems);
}
