#include "build/online.h"

#include "build/build.h"
#include "build/collect.h"
#include "build/query.h"
#include "compat/compat.h"
#include "maintenance/maintenance.h"

namespace index_table {
namespace {

// So few logged changes are carried out while writers wait.
constexpr int64 kFewChanges = 1000;
constexpr int kMaxRounds = 20;

constinit int build_delay = 0; // milliseconds between transactions

// The index table, for the transaction that has just begun.
const IndexTable *Reopen(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    if (!table || !OidIsValid(table->log))
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("index table with OID %u was dropped or completed meanwhile", relid)));
    return table;
}

char *LogColumn(const IndexTable *table, int position) {
    return get_attname(table->log, position + 1, false);
}

// Ends a transaction and begins another.
void Commit() {
    SPI_commit();
    if (build_delay > 0) {
        WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, build_delay,
                  PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
    }
    CHECK_FOR_INTERRUPTS();
}

// --- Loading -----------------------------------------------------------------

// A live partition number whose rows are yet to be loaded; 0 where there is none.
int32 FindUnloaded(const IndexTable *table, Oid *leaf) {
    List *loaded = ListLoadedPartitions(table->relid);
    ListCell *cell;
    foreach (cell, ListPartitions(table->base)) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && !list_member_int(loaded, number->id)) {
            *leaf = lfirst_oid(cell);
            return number->id;
        }
    }
    return 0;
}

// What the snapshot sees in the log, it sees in the partition.
void TrimLog(const IndexTable *table, int32 number, Snapshot snapshot) {
    Oid type = INT4OID;
    Datum value = Int32GetDatum(number);
    SPIPlanPtr plan =
        SPI_prepare(psprintf("DELETE FROM %s WHERE %s = $1", QualifiedName(table->log),
                             quote_identifier(LogColumn(table, table->partition_position()))),
                    1, &type);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    int result =
        SPI_execute_snapshot(plan, &value, nullptr, snapshot, InvalidSnapshot, false, true, 0);
    if (result != SPI_OK_DELETE)
        elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
}

bool HasIndexes(Oid relid) {
    Relation rel = table_open(relid, AccessShareLock);
    bool found = RelationGetIndexList(rel) != NIL;
    table_close(rel, NoLock);
    return found;
}

// The same as LoadPartition() for an index table that has its indexes.
void EnterPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot) {
    constexpr long kBatchRows = 10000;
    SPIPlanPtr plan = SPI_prepare(RecomputationQuery(base, table, "0", leaf), 0, nullptr);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    PushActiveSnapshot(snapshot);
    Portal portal = SPI_cursor_open(nullptr, plan, nullptr, nullptr, true);
    for (;;) {
        SPI_cursor_fetch(portal, true, kBatchRows);
        SPITupleTable *rows = SPI_tuptable;
        if (rows->numvals == 0)
            break;
        EntryCollector collector = BeginCollecting(table);
        for (uint64 i = 0; i < rows->numvals; i++)
            CollectChange(&collector, rows->vals[i], rows->tupdesc, ChangeKind::Insert);
        ApplyChanges(collector.buffer);
        SPI_freetuptable(rows);
        CHECK_FOR_INTERRUPTS();
    }
    SPI_cursor_close(portal);
    PopActiveSnapshot();
}

// Loads a partition; false where none is left to be loaded.
bool LoadNext(Oid relid) {
    const IndexTable *table = Reopen(relid);
    LockRelationOid(table->base, AccessShareLock);
    Oid leaf;
    int32 number = FindUnloaded(table, &leaf);
    if (number == 0)
        return false;
    LockRelationOid(leaf, AccessShareLock);
    // Waiting for the lock, the partition may have been truncated or detached.
    std::optional<PartitionNumber> current = FindPartitionNumber(leaf);
    if (!current || current->id != number)
        return true;
    table = Reopen(relid);
    Relation base = relation_open(table->base, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    Progress *progress = BeginProgress(table->base, relid, AccessShareLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TrimLog(table, number, snapshot);
    if (HasIndexes(relid)) // the partition joined lately
        EnterPartition(base, table, leaf, snapshot);
    else
        LoadPartition(base, table, leaf, snapshot, progress);
    UnregisterSnapshot(snapshot);
    NoteLoadedPartition(relid, number);
    EndProgress(progress);
    LeaveOwner(owner);
    relation_close(base, NoLock);
    return true;
}

// --- Indexes -----------------------------------------------------------------

void Index(Oid relid) {
    const IndexTable *table = Reopen(relid);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Progress *progress = BeginProgress(table->base, relid, AccessShareLock);
    ReportPhase(progress, Phase::Indexing);
    if (!HasIndexes(relid))
        CreateIndexes(table);
    ReportPhase(progress, Phase::Analyzing);
    Execute(psprintf("ANALYZE %s", QualifiedName(relid)));
    EndProgress(progress);
    LeaveOwner(owner);
}

// --- Catching up -------------------------------------------------------------

// Carries the logged changes of partitions that are loaded into the index table; returns their
// number.
int64 Replay(const IndexTable *table) {
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    int result =
        SPI_execute(psprintf("DELETE FROM %s RETURNING *", QualifiedName(table->log)), false, 0);
    if (result != SPI_OK_DELETE_RETURNING)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
    SPITupleTable *rows = SPI_tuptable;
    int64 count = rows->numvals;
    EntryCollector collector = BeginCollecting(table);
    for (int64 i = 0; i < count; i++) {
        bool isnull;
        int16 sign = DatumGetInt16(
            SPI_getbinval(rows->vals[i], rows->tupdesc, table->column_count + 1, &isnull));
        CollectChange(&collector, rows->vals[i], rows->tupdesc,
                      sign > 0 ? ChangeKind::Insert : ChangeKind::Delete);
    }
    ApplyChanges(collector.buffer);
    SPI_finish();
    return count;
}

int64 CatchUp(Oid relid) {
    const IndexTable *table = Reopen(relid);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    int64 changes = Replay(table);
    LeaveOwner(owner);
    return changes;
}

// With writers locked out: what is left of the log, and the end of it. False where a partition came
// meanwhile, which is to be loaded first.
bool Complete(Oid relid) {
    const IndexTable *table = Reopen(relid);
    LockRelationOid(table->base, ShareRowExclusiveLock); // first, as writers do
    FindLeaves(table->base, ShareRowExclusiveLock);
    table = Reopen(relid);
    Oid leaf;
    if (FindUnloaded(table, &leaf) != 0)
        return false;
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Replay(table);
    Oid log = table->log;
    SetLog(relid, InvalidOid);
    ForgetLoadedPartitions(relid);
    ObjectAddress address;
    ObjectAddressSet(address, RelationRelationId, log);
    // Else it could go with the index table only.
    deleteDependencyRecordsFor(RelationRelationId, log, true);
    CommandCounterIncrement();
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
    LeaveOwner(owner);
    return true;
}

} // namespace

void CheckMayCommit(FunctionCallInfo fcinfo, const char *procedure) {
    bool may_commit = fcinfo->context && IsA(fcinfo->context, CallContext) &&
                      !reinterpret_cast<CallContext *>(fcinfo->context)->atomic;
    if (!may_commit)
        ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                        errmsg("%s cannot be called in a transaction block", procedure),
                        errhint("It commits several times: CALL it by itself.")));
}

Oid CreateLog(Oid index_table) {
    Oid schema = get_rel_namespace(index_table);
    char *name = ChooseRelationName(get_rel_name(index_table), nullptr, "log", schema, false);
    const char *qualified = quote_qualified_identifier(get_namespace_name(schema), name);
    Execute(psprintf("CREATE %sTABLE %s (LIKE %s) USING heap",
                     get_rel_persistence(index_table) == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
                     qualified, QualifiedName(index_table)));
    Oid log = get_relname_relid(name, schema);
    const char *column = "change";
    for (int i = 1; get_attnum(log, column) != InvalidAttrNumber; i++)
        column = psprintf("change%d", i);
    Execute(psprintf("ALTER TABLE %s ADD COLUMN %s smallint NOT NULL", qualified, column));
    // It goes with the index table, and not without it.
    ObjectAddress self, owner;
    ObjectAddressSet(self, RelationRelationId, log);
    ObjectAddressSet(owner, RelationRelationId, index_table);
    recordDependencyOn(&self, &owner, DEPENDENCY_INTERNAL);
    CommandCounterIncrement();
    return log;
}

void BuildConcurrently(Oid relid) {
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    // Kept over the commits, given back at the end or by an error: one builder at a time, and
    // nobody drops the index table under it.
    LockRelId lock = {.relId = relid, .dbId = MyDatabaseId};
    LockRelationIdForSession(&lock, ShareUpdateExclusiveLock);
    Commit();
    do {
        while (LoadNext(relid))
            Commit();
        Index(relid);
        Commit();
        for (int round = 0; round < kMaxRounds && CatchUp(relid) > kFewChanges; round++)
            Commit();
        Commit();
        // Partitions come and go.
    } while (!Complete(relid));
    Commit();
    UnlockRelationIdForSession(&lock, ShareUpdateExclusiveLock);
    SPI_finish();
}

void InitializeOnlineBuild() {
    DefineCustomIntVariable(
        "index_table.build_delay",
        "Milliseconds that a concurrent build waits after each of its transactions.", nullptr,
        &build_delay, 0, 0, 3600000, PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_rebuild) {
    PreventCommandDuringRecovery("index_table.rebuild()");
    CheckMayCommit(fcinfo, "index_table.rebuild()");
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    Oid relid = table->relid;
    if (!OidIsValid(table->log))
        ereport(
            ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("index table \"%s\" is complete", get_rel_name(relid)),
             errhint("index_table.verify() tells whether it is right, index_table.repair() mends "
                     "it in place, VACUUM and REINDEX work on it as on any table.")));
    int loaded = list_length(ListLoadedPartitions(relid));
    if (loaded > 0)
        ereport(NOTICE,
                (errmsg("going on with \"%s\": %d of %d partitions are loaded", get_rel_name(relid),
                        loaded, list_length(ListPartitions(table->base)))));
    else
        ereport(NOTICE, (errmsg("building \"%s\" from the start", get_rel_name(relid))));
    BuildConcurrently(relid);
    PG_RETURN_VOID();
}
