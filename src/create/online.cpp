#include "create/online.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/backfill.h"
#include "create/online_rows.h"
#include "create/reload.h"
#include "create/verify.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// So few logged changes are carried out while writers wait.
constexpr int64 kFewChanges = 1000;
constexpr int kMaxRounds = 20;
constexpr int kRetryDelay = 100;
// Where rows of shards are read one shard after the other, one that goes from one to another may be
// seen twice: so often is it looked again before its key repeats.
constexpr int kMaxTries = 10;

constinit int build_delay = 0; // milliseconds between transactions

// The index table, for the transaction that has just begun. Gives it a snapshot, which a procedure
// that has committed does not have: functions in keys and predicates, and toasted columns of
// catalogs, need one.
const IndexTable *Reopen(Oid relid) {
    EnsurePortalSnapshotExists();
    const IndexTable *table = FindIndexTable(relid);
    if (!table || !OidIsValid(table->log))
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("index table with OID %u was dropped or completed meanwhile", relid)));
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->log)))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the log of index table \"%s\" is gone", get_rel_name(relid)),
                        errhint("Drop it with index_table.drop() and create it again.")));
    return table;
}

void Wait(int milliseconds) {
    if (milliseconds > 0) {
        WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
                  PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
    }
    CHECK_FOR_INTERRUPTS();
}

// Ends a transaction and begins another.
void Commit() {
    SPI_commit();
    Wait(build_delay);
}

// Locks the base table, and what is below it if that can be done at once; else nothing, and returns
// what was in the way.
Oid TryLockOutWriters(Oid base) {
    LockRelationOid(base, ShareRowExclusiveLock);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        RaiseDropped(base);
    List *locked = list_make1_oid(base);
    Oid busy = InvalidOid;
    ListCell *cell;
    foreach (cell, list_difference_oid(find_all_inheritors(base, NoLock, nullptr), locked)) {
        if (!ConditionalLockRelationOid(lfirst_oid(cell), ShareRowExclusiveLock)) {
            busy = lfirst_oid(cell);
            break;
        }
        locked = lappend_oid(locked, lfirst_oid(cell));
    }
    if (OidIsValid(busy))
        foreach (cell, locked)
            UnlockRelationOid(lfirst_oid(cell), ShareRowExclusiveLock);
    return busy;
}

// --- The log -----------------------------------------------------------------

// Numbers in order, to be searched.
struct NumberSet {
    int32 *numbers;
    int count;

    bool Has(int32 number) const { return std::binary_search(numbers, numbers + count, number); }
};

NumberSet MakeNumberSet(List *list) {
    NumberSet set = {.numbers =
                         static_cast<int32 *>(palloc(sizeof(int32) * Max(1, list_length(list))))};
    ListCell *cell;
    foreach (cell, list)
        set.numbers[set.count++] = lfirst_int(cell);
    std::sort(set.numbers, set.numbers + set.count);
    return set;
}

List *ListLiveNumbers(Oid base) {
    List *numbers = NIL;
    ListCell *cell;
    foreach (cell, ListPartitions(base))
        if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell)))
            numbers = lappend_int(numbers, number->id);
    return numbers;
}

int32 LoggedNumber(const LogReader &reader, const IndexTable *table) {
    return DatumGetInt32(reader.values[table->partition_position()]);
}

// Rows of foreign partitions: those of the log stay there; are read again; or those too that are
// queued on their servers.
enum class Rows { Left, Logged, Queued };

struct Replayed {
    int64 changes;
    bool is_all; // else a shard has changes that must be drained
};

// Carries what the snapshot sees in the log of partitions that are loaded into the index table.
// Then loaded partitions are there as the snapshot sees them, foreign ones as they were later. With
// `at_once` nothing is written before everything is known: a key may go from one row to another.
Replayed Replay(const IndexTable *table, Snapshot snapshot, Rows rows, bool at_once = false) {
    // After the snapshot: it sees no changes of partitions that joined later, and those that left
    // have none that matter.
    NumberSet live = MakeNumberSet(ListLiveNumbers(table->base));
    List *loaded_numbers = ListLoadedPartitions(table->relid);
    NumberSet loaded = MakeNumberSet(loaded_numbers);
    ForeignRows foreign = {.table = table};
    if (rows != Rows::Left)
        foreign = BeginForeignRows(table, loaded_numbers);
    EntryCollector collector = BeginCollecting(table);
    HoldChanges(collector.buffer);
    LogReader reader = BeginReadingLog(table, snapshot);
    while (ReadLogged(&reader)) {
        int32 number = LoggedNumber(reader, table);
        bool is_live = live.Has(number);
        if (is_live && !loaded.Has(number)) // its turn comes
            continue;
        if (is_live && reader.is_row && rows == Rows::Left)
            continue;
        if (is_live && reader.is_row)
            AddLogged(&foreign, number, reader);
        else if (is_live)
            CollectChange(&collector, reader.values, reader.nulls, reader.kind);
        RemoveLogged(&reader);
    }
    EndReadingLog(&reader);
    bool is_all = rows != Rows::Queued || AddQueued(&foreign);
    int64 foreign_rows = ApplyForeignRows(foreign, at_once, &collector);
    return {.changes = collector.count + foreign_rows, .is_all = is_all};
}

// --- Indexes -----------------------------------------------------------------

IndexRoles RolesOf(const IndexTable *table) {
    Relation rel = table_open(table->relid, AccessShareLock);
    IndexRoles roles = FindIndexRoles(rel, table);
    table_close(rel, NoLock);
    return roles;
}

// While partitions were loaded one after the other, a row may have moved from one that was loaded
// before into one that was loaded after: a unique key is there twice until the log is replayed,
// which takes an index to find entries by. It goes with the log.
void CreateProvisionalIndex(Oid relid) {
    FAULT_POINT("online.create_provisional_index");
    const IndexTable *table = Reopen(relid);
    if (RolesOf(table).finds_entries)
        return;
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Progress *progress = BeginProgress(table->base, relid, AccessShareLock);
    ReportPhase(progress, Phase::Indexing);
    Oid index = CreateSearchIndex(table);
    if (!OidIsValid(index))
        elog(ERROR, "the index of \"%s\" is gone", get_rel_name(relid));
    ObjectAddress self, log;
    ObjectAddressSet(self, RelationRelationId, index);
    ObjectAddressSet(log, RelationRelationId, table->log);
    recordDependencyOn(&self, &log, DEPENDENCY_AUTO);
    EndProgress(progress);
    LeaveOwner(owner);
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
    LogReader reader = BeginReadingLog(table, snapshot);
    while (ReadLogged(&reader))
        if (LoggedNumber(reader, table) == number)
            RemoveLogged(&reader);
    EndReadingLog(&reader);
}

bool HasIndexes(Oid relid) {
    Relation rel = table_open(relid, AccessShareLock);
    bool found = RelationGetIndexList(rel) != NIL;
    table_close(rel, NoLock);
    return found;
}

// The same as LoadPartition() for an index table that has indexes.
void EnterPartition(Relation base, const IndexTable *table, Oid leaf, Snapshot snapshot) {
    constexpr long kBatchRows = 10000;
    // A row that has moved here from another partition may have left its unique key there.
    Replay(table, snapshot, Rows::Left);
    OwnerContext owner = EnterOwner(RelationOwner(leaf));
    BoundPlan plan = PrepareBound(RecomputationQuery(base, table, 0, leaf), table, kPlanNatively);
    PushActiveSnapshot(snapshot);
    Portal portal = OpenBound(plan);
    LeaveOwner(owner);
    for (;;) {
        owner = EnterOwner(RelationOwner(leaf));
        SPI_cursor_fetch(portal, true, kBatchRows);
        LeaveOwner(owner);
        SPITupleTable *rows = SPI_tuptable;
        if (rows->numvals == 0)
            break;
        EntryCollector collector = BeginCollecting(table);
        for (uint64 i = 0; i < rows->numvals; i++)
            CollectRow(&collector, rows->vals[i], rows->tupdesc, 1);
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
    // Before its rows are seen: what changes after that is queued.
    if (IsForeign(leaf))
        CheckHasOutbox(leaf);
    Progress *progress = BeginProgress(table->base, relid, AccessShareLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TrimLog(table, number, snapshot);
    if (HasIndexes(relid)) { // the partition joined lately, or the owner has added some
        if (!table->options.is_unique && !RolesOf(table).finds_entries)
            CreateIndexes(table);
        else
            CreateProvisionalIndex(relid);
        EnterPartition(base, table, leaf, snapshot);
    } else {
        // Its owner may be another than the base table's.
        OwnerContext leaf_owner = EnterOwner(RelationOwner(leaf));
        LoadPartition(base, table, leaf, snapshot, progress);
        LeaveOwner(leaf_owner);
    }
    UnregisterSnapshot(snapshot);
    RecordLoadedPartition(relid, number);
    EndProgress(progress);
    LeaveOwner(owner);
    relation_close(base, NoLock);
    return true;
}

// --- Catching up -------------------------------------------------------------

bool KeepsUnique(const IndexTable *table) {
    return table->options.is_unique && RolesOf(table).keeps_unique;
}

Replayed CatchUp(Oid relid, Rows rows) {
    FAULT_POINT("online.catch_up");
    const IndexTable *table = Reopen(relid);
    LockRelationOid(table->base, AccessShareLock);
    table = Reopen(relid);
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table replay", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    Replayed replayed = Replay(table, snapshot, rows, KeepsUnique(table));
    UnregisterSnapshot(snapshot);
    LeaveOwner(owner);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
    return replayed;
}

bool HasForeignPartitions(Oid relid) {
    return HasForeign(ListPartitions(Reopen(relid)->base));
}

// The same where a key that repeats may be one that a row has taken from one shard to another while
// they were read: false then, and nothing has changed.
bool TryToCatchUp(Oid relid, Rows rows, Replayed *replayed) {
    if (!HasForeignPartitions(relid)) {
        *replayed = CatchUp(relid, rows);
        return true;
    }
    return TryInSubtransaction([&] { *replayed = CatchUp(relid, rows); },
                               [](const ErrorData *error) {
                                   return error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION;
                               }) == nullptr;
}

// Has what shards have queued in the log, and creates what their rows are found by.
void DrainShards(Oid relid) {
    if (!HasForeignPartitions(relid))
        return;
    DrainForeign(Reopen(relid)->base);
    const IndexTable *table = Reopen(relid);
    LockRelationOid(table->base, AccessShareLock);
    table = Reopen(relid);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    PrepareForeign(table);
    LeaveOwner(owner);
    Commit();
}

void CatchUpAndCommit(Oid relid) {
    for (int round = 0; round < kMaxRounds; round++) {
        DrainShards(relid);
        Replayed replayed = {};
        bool is_done = TryToCatchUp(relid, Rows::Logged, &replayed);
        Commit();
        if (is_done && replayed.changes <= kFewChanges)
            break;
        if (!is_done)
            Wait(kRetryDelay);
    }
}

// In the transaction that makes a key unique: rows of shards were read at different times, one
// after the other, and a key that has gone from one to another meanwhile may be there twice. Those
// rows are read again; what is there twice after that is so in the base table.
void ResolveDuplicates(Oid relid) {
    if (!HasForeignPartitions(relid))
        return;
    for (int i = 0; i < kMaxTries; i++) {
        CatchUp(relid, Rows::Left);
        CommandCounterIncrement();
        const IndexTable *table = Reopen(relid);
        OwnerContext owner = EnterOwner(RelationOwner(table->base));
        ForeignRows rows = BeginForeignRows(table, ListLoadedPartitions(relid));
        bool is_done = AddDuplicates(&rows) == 0;
        if (!is_done) {
            EntryCollector collector = BeginCollecting(table);
            ApplyForeignRows(rows, true, &collector);
            CommandCounterIncrement();
            Wait(kRetryDelay); // for the transactions that move them
        }
        LeaveOwner(owner);
        if (is_done)
            break;
    }
}

// --- Indexing ----------------------------------------------------------------

void Index(Oid relid) {
    FAULT_POINT("online.index");
    const IndexTable *table = Reopen(relid);
    IndexRoles roles = RolesOf(table);
    if (table->options.is_unique ? roles.keeps_unique : roles.finds_entries)
        return;
    if (table->options.is_unique) {
        CreateProvisionalIndex(relid);
        Commit();
        CatchUpAndCommit(relid);
        // In the transaction of the index: keys are unique in what one snapshot sees.
        CatchUp(relid, Rows::Logged);
        ResolveDuplicates(relid);
        table = Reopen(relid);
    }
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Progress *progress = BeginProgress(table->base, relid, AccessShareLock);
    ReportPhase(progress, Phase::Indexing);
    if (table->options.is_unique) // and in partitions that are there
        SweepEntries(table);
    CreateIndexes(table);
    ReportPhase(progress, Phase::Analyzing);
    RunStatement(psprintf("ANALYZE %s", QualifiedName(relid)));
    EndProgress(progress);
    LeaveOwner(owner);
}

// --- The end -----------------------------------------------------------------

void CheckHasMissedNothing(const IndexTable *table) {
    if (table->is_unusable())
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("triggers of \"%s\" were disabled while index table \"%s\" was being "
                        "built",
                        get_rel_name(table->base), get_rel_name(table->relid)),
                 errhint("CALL index_table.rebuild() begins anew, index_table.drop() gives "
                         "it up.")));
}

// With writers locked out: what is left of the log, and the end of it. False where a partition came
// meanwhile, which is to be loaded first, or somebody reads the log: writers must not wait for
// that. `is_last`: then a key that repeats is an error.
bool Complete(Oid relid, Oid base, bool is_last) {
    FAULT_POINT("online.complete");
    LockOutWriters(base); // without a snapshot, for which others may wait
    const IndexTable *table = Reopen(relid);
    CheckHasMissedNothing(table);
    Oid leaf;
    if (FindUnloaded(table, &leaf) != 0)
        return false;
    ListCell *cell;
    if (!ConditionalLockRelationOid(table->log, AccessExclusiveLock))
        return false;
    if (table->options.is_unique) // the provisional index goes with the log
        foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
            if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock))
                return false;
    // Whoever has written to shards through this server has committed there.
    Replayed replayed = {};
    if (is_last)
        replayed = CatchUp(relid, Rows::Queued);
    else if (!TryToCatchUp(relid, Rows::Queued, &replayed))
        return false;
    if (!replayed.is_all)
        return false;
    table = Reopen(relid);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Oid log = table->log;
    SetLog(relid, InvalidOid);
    EnsureConstraintName(relid);
    ForgetLoadedPartitions(relid);
    DropLog(log);
    LeaveOwner(owner);
    return true;
}

} // namespace

void LockOutWriters(Oid base) {
    Assert(OidIsValid(base));
    constexpr int kAttempts = 100; // then in their way after all
    for (int i = 0; i < kAttempts; i++) {
        Oid busy = TryLockOutWriters(base);
        if (!OidIsValid(busy))
            break;
        LOCKTAG tag;
        SET_LOCKTAG_RELATION(tag, MyDatabaseId, busy);
        WaitForLockers(tag, ShareRowExclusiveLock, false);
        Wait(kRetryDelay); // others that wait for the partition go first
    }
    LockRelationOid(base, ShareRowExclusiveLock);
    find_all_inheritors(base, ShareRowExclusiveLock, nullptr);
}

Oid CreateLog(Oid index_table) {
    FAULT_POINT("online.create_log");
    Assert(IsInOwnerOf(index_table));
    char persistence = EntryPersistence(index_table);
    Oid schema = get_rel_namespace(index_table);
    char *name = ChooseRelationName(get_rel_name(index_table), nullptr, "log", schema, false);
    const char *qualified = quote_qualified_identifier(get_namespace_name(schema), name);
    RunStatement(psprintf("CREATE %sTABLE %s (LIKE %s) USING heap",
                          persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "", qualified,
                          QualifiedName(index_table)));
    Oid log = FindCreated(name, schema);
    const char *column = "change";
    for (int i = 1; get_attnum(log, column) != InvalidAttrNumber; i++)
        column = psprintf("change%d", i);
    RunStatement(psprintf("ALTER TABLE %s ADD COLUMN %s smallint NOT NULL", qualified, column));
    // It goes with the index table, and not without it.
    ObjectAddress self, owner;
    ObjectAddressSet(self, RelationRelationId, log);
    ObjectAddressSet(owner, RelationRelationId, index_table);
    recordDependencyOn(&self, &owner, DEPENDENCY_INTERNAL);
    CommandCounterIncrement();
    SecureCreated(log); // columns were added
    CreateGuard(log);
    SecureCreated(log);
    return log;
}

void DropLog(Oid log) {
    FAULT_POINT("online.drop_log");
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(log)))
        return;
    Assert(IsLocked(log, AccessExclusiveLock));
    // Else it could go with the index table only.
    deleteDependencyRecordsFor(RelationRelationId, log, true);
    CommandCounterIncrement();
    ObjectAddress address;
    ObjectAddressSet(address, RelationRelationId, log);
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

void BuildConcurrently(Oid relid) {
    Assert(GetCurrentTransactionNestLevel() == 1);
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect_ext failed");
    // Kept over the commits, given back at the end or by an error: one builder at a time, and
    // nobody drops the index table under it.
    LockRelId lock = {.relId = relid, .dbId = MyDatabaseId};
    LockRelationIdForSession(&lock, ShareUpdateExclusiveLock);
    Commit();
    Oid base = Reopen(relid)->base;
    for (int tries = 1;; tries++) {
        while (LoadNext(relid))
            Commit();
        Commit();
        Index(relid);
        Commit();
        CatchUpAndCommit(relid);
        bool complete = Complete(relid, base, tries >= kMaxTries);
        if (complete)
            RecordWork(relid, Work::Build, GetCurrentStatementStartTimestamp(), -1);
        Commit();
        if (complete)
            break;
        Wait(kRetryDelay);
    }
    UnlockRelationIdForSession(&lock, ShareUpdateExclusiveLock);
    SPI_finish();
}

namespace {

void CheckMayStartOver(const IndexTable *table, bool keeps_unique) {
    Oid relid = table->relid;
    const char *obstacle =
        keeps_unique ? "keeps its key unique meanwhile" : ObstacleToReload(table);
    if (obstacle)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot rebuild index table \"%s\", which is complete",
                               get_rel_name(relid)),
                        errdetail("It %s.", obstacle),
                        errhint("index_table.repair() mends it in place, VACUUM and REINDEX work "
                                "on it as on any table.")));
}

// In one transaction, while writers wait: where rows of foreign tables are not seen under the
// snapshot of a log, and where a key must be unique meanwhile.
void RebuildAtOnce(const IndexTable *table) {
    CheckMayStartOver(table, false);
    Oid relid = table->relid;
    LockOutWriters(table->base);
    LockRelationOid(relid, AccessExclusiveLock);
    table = GetIndexTable(relid);
    CheckIsComplete(table);
    Relation base = relation_open(table->base, NoLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    Empty(table);
    table = GetIndexTable(relid);
    Progress *progress = BeginProgress(table->base, relid, ShareRowExclusiveLock);
    Reload(base, table, progress);
    EndProgress(progress);
    RecordBuild(relid);
    RecordWork(relid, Work::Build, GetCurrentStatementStartTimestamp(), -1);
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

bool MustRebuildAtOnce(const IndexTable *table) {
    if (table->on_servers)
        return true;
    List *leaves = ListPartitions(table->base);
    if (!HasForeign(leaves))
        return false;
    if (table->options.is_unique)
        return true;
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Oid leaf;
    bool are_captured = AreCaptured(leaves, &leaf);
    LeaveOwner(owner);
    return !are_captured;
}

// One that was being built when it was dumped: what has arrived of it is not taken at its word.
void BeginAnew(const IndexTable *table) {
    Oid relid = table->relid;
    RestoreTriggers(table->base);
    LockOutWriters(table->base);
    RequireEnabled(table->base);
    LockRelationOid(relid, AccessExclusiveLock);
    Relation base = relation_open(table->base, NoLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    SettleForRepair(RelationGetRelid(base));
    ReconcilePartitions(base);
    Empty(GetIndexTable(relid));
    ForgetLoadedPartitions(relid);
    SetState(relid, TableState::Built);
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

} // namespace

void StartOver(const IndexTable *table) {
    Oid relid = table->relid;
    CheckMayStartOver(table, table->options.is_unique);
    LockOutWriters(table->base);
    LockRelationOid(relid, AccessExclusiveLock);
    table = GetIndexTable(relid);
    CheckIsComplete(table);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    Empty(table);
    Relation rel = table_open(relid, NoLock);
    List *indexes = RelationGetIndexList(rel);
    table_close(rel, NoLock);
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessExclusiveLock);
        // Built at the end, it is built sooner. Those that are the owner's stay.
        bool is_own = IsOwnSearchIndex(index, table);
        index_close(index, NoLock);
        if (!is_own)
            continue;
        ObjectAddress address;
        ObjectAddressSet(address, RelationRelationId, lfirst_oid(cell));
        performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
    }
    SetLog(relid, CreateLog(relid));
    LeaveOwner(owner);
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
    if (PG_ARGISNULL(0))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("argument index_table of index_table.rebuild() must not be null")));
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    Oid relid = table->relid;
    RefuseHypertable(table->base);
    if (!OidIsValid(table->log) && !IsTrusted(table)) { // there is nothing to start from
        RepairIndexTable(table);
        PG_RETURN_VOID();
    }
    // What is built concurrently learns of changes by the row trigger, or by queues of shards.
    if (!OidIsValid(table->log) && (OidIsValid(table->queue) || MustRebuildAtOnce(table))) {
        RebuildAtOnce(table);
        PG_RETURN_VOID();
    }
    if (OidIsValid(table->log) && table->state != TableState::Built) {
        BeginAnew(table);
        table = GetIndexTable(relid);
    }
    int loaded = list_length(ListLoadedPartitions(relid));
    if (!OidIsValid(table->log)) {
        StartOver(table);
        ereport(NOTICE,
                (errmsg("starting over with \"%s\", which was complete", get_rel_name(relid))));
    } else if (loaded > 0)
        ereport(NOTICE,
                (errmsg("going on with \"%s\": %d of %d partitions are loaded", get_rel_name(relid),
                        loaded, list_length(ListPartitions(table->base)))));
    else
        ereport(NOTICE, (errmsg("building \"%s\" from the start", get_rel_name(relid))));
    BuildConcurrently(relid);
    PG_RETURN_VOID();
}
