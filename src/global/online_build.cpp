#include "global/online_build.h"

#include "core/public.h"
#include "global/child_index.h"
#include "global/enter_rows.h"
#include "global/index_statement.h"
#include "global/parts.h"
#include "global/storage.h"

namespace index_table {
namespace {

// Attempts to lock a table at a moment when nobody writes to it; then writers have to wait for
// those before them.
constexpr int kAttempts = 10;

struct OnlineBuild {
    Oid base;
    GlobalIndex index;
    const char *name;
    int64 rows;       // entered
    int64 rows_total; // an estimate
    int partitions;   // that are done
    int partitions_total;
};

// --- Transactions and progress -----------------------------------------------

// Ends a transaction and begins another. Rows are entered as they are, whatever the session's
// default is.
void Commit() {
    SPI_commit();
    XactIsoLevel = XACT_READ_COMMITTED;
}

// Asks no catalog: whoever is about to wait must have no snapshot.
void ReportPhase(const OnlineBuild &build, int64 phase) {
    const int params[] = {PROGRESS_CREATEIDX_COMMAND,        PROGRESS_CREATEIDX_INDEX_OID,
                          PROGRESS_CREATEIDX_PHASE,          PROGRESS_CREATEIDX_ACCESS_METHOD_OID,
                          PROGRESS_CREATEIDX_SUBPHASE,       PROGRESS_CREATEIDX_TUPLES_TOTAL,
                          PROGRESS_CREATEIDX_TUPLES_DONE,    PROGRESS_CREATEIDX_PARTITIONS_TOTAL,
                          PROGRESS_CREATEIDX_PARTITIONS_DONE};
    const int64 values[] = {PROGRESS_CREATEIDX_COMMAND_CREATE_CONCURRENTLY,
                            build.index.root,
                            phase,
                            BTREE_AM_OID,
                            PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE,
                            build.rows_total,
                            build.rows,
                            build.partitions_total,
                            build.partitions};
    pgstat_progress_start_command(PROGRESS_COMMAND_CREATE_INDEX, build.base);
    pgstat_progress_update_multi_param(lengthof(params), params, values);
}

int64 EstimateRows(Oid table) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(tuple))
        return 0;
    float4 rows = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples;
    ReleaseSysCache(tuple);
    return static_cast<int64>(Max(rows, 0));
}

// --- Locks -------------------------------------------------------------------

LOCKTAG TagOf(Oid relid) {
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
    return tag;
}

// Waits for those who write to a table now, in nobody's way. Autovacuum, which would be waited for
// as well, gives way to who waits for a lock.
void WaitForWriters(Oid table) {
    LOCKTAG tag = TagOf(table);
    InvalidateCatalogSnapshot();
    LockRelationOid(table, ShareUpdateExclusiveLock);
    UnlockRelationOid(table, ShareUpdateExclusiveLock);
    WaitForLockers(tag, ShareLock, true);
}

void CheckIsThere(const OnlineBuild &build) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(build.index.root)) ||
        !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(build.index.tree)))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("global index \"%s\" was dropped meanwhile", build.name)));
}

// Keeps partitions from coming and going: of the base table, and what is between that and a table,
// in the order of commands that bring and take them.
void LockAbove(const OnlineBuild &build, Oid table) {
    LockRelationOid(build.base, ShareUpdateExclusiveLock);
    CheckIsThere(build);
    List *between = NIL;
    ListCell *cell;
    foreach (cell, get_partition_ancestors(table)) {
        if (lfirst_oid(cell) == build.base)
            break;
        between = lcons_oid(lfirst_oid(cell), between);
    }
    foreach (cell, between)
        LockRelationOid(lfirst_oid(cell), ShareUpdateExclusiveLock);
}

// Locks a table for the session, so that nobody writes to it.
void LockOutWriters(const OnlineBuild &build, Oid table) {
    LOCKTAG tag = TagOf(table);
    for (int i = 1;; i++) {
        ReportPhase(build, PROGRESS_CREATEIDX_PHASE_WAIT_1);
        WaitForWriters(table);
        LockAbove(build, table);
        InvalidateCatalogSnapshot();
        if (LockAcquire(&tag, ShareLock, true, i < kAttempts) != LOCKACQUIRE_NOT_AVAIL)
            break;
        Commit();
    }
    AcceptInvalidationMessages();
}

void LetWritersIn(Oid table) {
    LockRelId id = {.relId = table, .dbId = MyDatabaseId};
    UnlockRelationIdForSession(&id, ShareLock);
}

// --- A partition -------------------------------------------------------------

// A child whose partition's rows have yet to be entered.
struct NewChild {
    Oid child; // InvalidOid: there are none
    uint32 token;
};

uint32 TokenOf(Oid child_oid) {
    Relation child = index_open(child_oid, AccessShareLock);
    uint32 token = RefreshChildState(child)->token;
    index_close(child, NoLock);
    return token;
}

// Makes a table's part of the index, if it is (still) to have one. A child that is none of the
// tree's enters all rows at once, as commands have it do that bring such a one.
NewChild AddPart(const OnlineBuild &build, Oid table) {
    FAULT_POINT("online_build.add_part");
    PushActiveSnapshot(GetTransactionSnapshot());
    NewChild added = {};
    Oid parent = FindParentOfPart(build.index, table);
    Oid part = OidIsValid(parent) ? FindPart(build.index, table) : InvalidOid;
    if (OidIsValid(part) && IsStranger(build.index, part)) {
        compat::ReindexIndex(part, get_rel_persistence(part));
    } else if (OidIsValid(parent) && !OidIsValid(part)) {
        part = MakePart(table, parent);
        if (get_rel_relkind(table) == RELKIND_RELATION)
            added = {.child = part, .token = TokenOf(part)};
    }
    PopActiveSnapshot();
    return added;
}

// Whoever writes after the snapshot was taken enters his rows himself. REINDEX does not wait for
// this session's lock: a child with another token has all rows.
void EnterRowsOf(OnlineBuild *build, Oid table, const NewChild &added) {
    FAULT_POINT("online_build.enter_rows_of");
    ReportPhase(*build, PROGRESS_CREATEIDX_PHASE_BUILD);
    Relation heap = table_open(table, AccessShareLock);
    Relation child = index_open(added.child, RowExclusiveLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    LetWritersIn(table);
    if (RefreshChildState(child)->token == added.token) {
        PushActiveSnapshot(snapshot);
        build->rows += EnterSeenRows(heap, child, snapshot, build->rows);
        PopActiveSnapshot();
    } else {
        build->rows += EstimateRows(table);
    }
    UnregisterSnapshot(snapshot);
    index_close(child, NoLock);
    table_close(heap, NoLock);
}

void BuildTable(OnlineBuild *build, Oid table) {
    bool is_partition = get_rel_relkind(table) == RELKIND_RELATION;
    LockOutWriters(*build, table);
    NewChild added = AddPart(*build, table);
    Commit(); // the session keeps its lock
    if (OidIsValid(added.child))
        EnterRowsOf(build, table, added);
    else
        LetWritersIn(table);
    build->partitions += is_partition;
    Commit();
}

// --- The whole ---------------------------------------------------------------

List *ListTablesToBuild(OnlineBuild *build) {
    CheckIsThere(*build);
    PushActiveSnapshot(GetTransactionSnapshot());
    List *tables = ListUnfinished(build->index);
    PopActiveSnapshot();
    build->partitions_total = build->partitions;
    build->rows_total = build->rows;
    ListCell *cell;
    foreach (cell, tables) {
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_RELATION)
            continue;
        build->partitions_total++;
        build->rows_total += EstimateRows(lfirst_oid(cell));
    }
    return tables;
}

// What the build has not looked at, because it was over then, snapshots of others may see that are
// older than that of the last partition.
void WaitForSnapshots(const OnlineBuild &build) {
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TransactionId xmin = snapshot->xmin;
    UnregisterSnapshot(snapshot);
    Commit();
    ReportPhase(build, PROGRESS_CREATEIDX_PHASE_WAIT_3);
    InvalidateCatalogSnapshot();
    WaitForOlderSnapshots(xmin, true);
}

// Who has the storage's lock may change what pg_class says of its indexes; a sweep that has it
// records the sizes itself.
void RecordSizes(const OnlineBuild &build) {
    if (!ConditionalLockRelationOid(build.index.storage, ShareUpdateExclusiveLock))
        return;
    Relation tree = index_open(build.index.tree, AccessShareLock);
    compat::RecordSize(tree, RelationGetNumberOfBlocks(tree), static_cast<double>(build.rows),
                       false);
    index_close(tree, NoLock);
}

// False where tables have come meanwhile without their entries.
bool Complete(OnlineBuild *build) {
    FAULT_POINT("online_build.complete");
    LockRelationOid(build->base, ShareUpdateExclusiveLock);
    if (ListTablesToBuild(build) != NIL)
        return false;
    PushActiveSnapshot(GetTransactionSnapshot());
    RecordSizes(*build);
    MarkComplete(build->index);
    PopActiveSnapshot();
    return true;
}

// In a connection of SPI's that may commit. The session has the root's lock.
void Build(OnlineBuild *build) {
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "index_table online build",
                                                 ALLOCSET_DEFAULT_SIZES);
    MemoryContext step =
        AllocSetContextCreate(memory, "index_table online build step", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Commit();
    for (bool is_complete = false; !is_complete;) {
        ListCell *cell;
        foreach (cell, ListTablesToBuild(build)) {
            MemoryContextSwitchTo(step);
            BuildTable(build, lfirst_oid(cell));
            MemoryContextSwitchTo(memory);
            MemoryContextReset(step);
        }
        WaitForSnapshots(*build);
        is_complete = Complete(build);
        Commit();
    }
    pgstat_progress_end_command();
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

// --- The statement -----------------------------------------------------------

[[noreturn]] void RaiseNotOnline(const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot create this global index concurrently"), errdetail("%s", detail),
                    errhint("Create the index without CONCURRENTLY.")));
}

// The table, locked as CREATE INDEX will lock it, when those who write to it now are through.
Oid LockBase(const IndexStmt *statement) {
    Oid base = RangeVarGetRelidExtended(statement->relation, NoLock, 0,
                                        RangeVarCallbackOwnsRelation, nullptr);
    if (get_rel_relkind(base) != RELKIND_PARTITIONED_TABLE)
        RaiseNotOnline(psprintf("\"%s\" is not a partitioned table.", get_rel_name(base)));
    if (!statement->relation->inh)
        RaiseNotOnline("ONLY leaves the partitions to commands of their own.");
    bool is_locked = false;
    for (int i = 1; i < kAttempts && !is_locked; i++) {
        WaitForLockers(TagOf(base), ShareLock, false);
        is_locked = ConditionalLockRelationOid(base, ShareLock);
    }
    if (!is_locked)
        LockRelationOid(base, ShareLock);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        RaiseDropped(base);
    return base;
}

// An index of this name that another build has left, or is at work on.
void CheckName(const IndexStmt *statement, Oid base) {
    Oid existing = statement->idxname
                       ? get_relname_relid(statement->idxname, get_rel_namespace(base))
                       : InvalidOid;
    if (!OidIsValid(existing) || AccessMethodOf(existing) != GlobalMethod())
        return;
    std::optional<GlobalIndex> index = FindGlobalIndex(existing);
    if (!index || IsComplete(*index))
        return;
    ereport(statement->if_not_exists ? WARNING : ERROR,
            (errcode(ERRCODE_DUPLICATE_TABLE),
             errmsg("relation \"%s\" already exists", statement->idxname),
             errdetail("It is a global index that is not complete: it is being built, or that was "
                       "interrupted."),
             errhint("REINDEX INDEX completes what was interrupted, DROP INDEX drops it.")));
}

List *ListIndexes(Oid base_oid) {
    Relation base = table_open(base_oid, NoLock);
    List *indexes = RelationGetIndexList(base);
    table_close(base, NoLock);
    return indexes;
}

// Has PostgreSQL carry the statement out for the table alone, with event triggers and all; returns
// the root. InvalidOid: there is an index of the name already.
Oid MakeRoot(const IndexStmt *given, const char *text, Oid base) {
    FAULT_POINT("online_build.make_root");
    auto *statement = static_cast<IndexStmt *>(copyObjectImpl(given));
    statement->concurrent = false;
    statement->relation->inh = false;
    PlannedStmt *command = makeNode(PlannedStmt);
    command->commandType = CMD_UTILITY;
    command->utilityStmt = reinterpret_cast<Node *>(statement);
    command->stmt_location = -1;
    List *before = ListIndexes(base);
    ProcessUtility(command, text, false, PROCESS_UTILITY_QUERY, nullptr, nullptr, None_Receiver,
                   nullptr);
    CommandCounterIncrement();
    ListCell *cell;
    foreach (cell, list_difference_oid(ListIndexes(base), before)) {
        Oid index = lfirst_oid(cell);
        if (AccessMethodOf(index) == GlobalMethod() &&
            (!given->idxname || strcmp(get_rel_name(index), given->idxname) == 0))
            return index;
    }
    return InvalidOid;
}

// REQUIRES: a connection of SPI's that may commit, in a transaction with an active snapshot.
void Create(const IndexStmt *statement, const char *text) {
    Oid base = LockBase(statement);
    CheckName(statement, base);
    Oid root = MakeRoot(statement, text, base);
    if (!OidIsValid(root) || get_index_isvalid(root)) // there are no partitions
        return;
    BeginGlobalIndex(root);
    OnlineBuild build = {.base = base, .index = *FindGlobalIndex(root), .name = get_rel_name(root)};
    LOCKTAG tag = PartTag(root, LockedPart::OnlineBuild);
    LockAcquire(&tag, ExclusiveLock, true, false);
    Build(&build);
    LockRelease(&tag, ExclusiveLock, true);
}

void CreateInSpi(const IndexStmt *statement, const char *text) {
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    Create(statement, text);
    SPI_finish();
}

IndexStmt *Parse(char *text) {
    ErrorContextCallback callback = {
        .previous = error_context_stack, .callback = PointIntoText, .arg = text};
    error_context_stack = &callback;
    List *statements = pg_parse_query(text);
    error_context_stack = callback.previous;
    Node *statement =
        list_length(statements) == 1 ? linitial_node(RawStmt, statements)->stmt : nullptr;
    if (!statement || !IsA(statement, IndexStmt) ||
        !IsGlobal(reinterpret_cast<IndexStmt *>(statement)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("not one CREATE INDEX ... USING global statement"),
                        errhint("For example: CALL index_table.create_index_concurrently('CREATE "
                                "INDEX orders_customer ON orders USING global (customer)').")));
    return reinterpret_cast<IndexStmt *>(statement);
}

} // namespace

bool CreateIndexConcurrently(Node *command, const char *text, bool is_top_level) {
    if (!IsA(command, IndexStmt))
        return false;
    const auto *statement = reinterpret_cast<IndexStmt *>(command);
    if (!statement->concurrent || !IsGlobal(statement))
        return false;
    PreventInTransactionBlock(is_top_level, "CREATE INDEX CONCURRENTLY");
    PreventCommandIfReadOnly("CREATE INDEX");
    PreventCommandDuringRecovery("CREATE INDEX");
    CreateInSpi(statement, text);
    return true;
}

bool IsBeingBuilt(Oid root) {
    return !TryLockPart(root, LockedPart::OnlineBuild, ExclusiveLock);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_create_index_concurrently) {
    constexpr char kName[] = "index_table.create_index_concurrently()";
    PreventCommandDuringRecovery(kName);
    CheckMayCommit(fcinfo, kName);
    if (PG_ARGISNULL(0))
        ereport(ERROR,
                (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("statement must not be null")));
    char *sql = TextDatumGetCString(PG_GETARG_DATUM(0));
    CreateInSpi(Parse(sql), sql);
    PG_RETURN_VOID();
}
