// The leaves of a base table: their numbers and triggers. And the statement trigger.
#include "build/build.h"
#include "build/collect.h"
#include "build/online.h"
#include "build/query.h"
#include "build/references.h"
#include "compat/compat.h"
#include "maintenance/departure.h"
#include "maintenance/intent.h"
#include "maintenance/maintenance.h"
#include "maintenance/settle.h"
#include "maintenance/statements.h"
#include "shard/identity_check.h"
#include "shard/remote_table.h"

namespace index_table {
namespace {

constexpr char kRowTrigger[] = "index_table_maintain";
constexpr char kStatementTrigger[] = "index_table_announce";

bool HasStatementTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kStatementTrigger, true));
}

// The statement trigger is not cloned: every table of the tree has its own.
void CreateStatementTrigger(Oid relid) {
    if (HasStatementTrigger(relid))
        return;
    // A partition may belong to another role than its base table.
    OwnerContext owner = EnterOwner(RelationOwner(relid));
    const char *name = QualifiedName(relid);
    bool on_truncate = compat::kForeignTablesHaveTruncateTriggers || !IsForeign(relid);
    Execute(psprintf("CREATE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE%s ON %s "
                     "FOR EACH STATEMENT EXECUTE FUNCTION index_table.announce()",
                     kStatementTrigger, on_truncate ? " OR TRUNCATE" : "", name));
    Execute(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kStatementTrigger));
    LeaveOwner(owner);
}

void DropTrigger(Oid relid, const char *trigger) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        return;
    Oid oid = get_trigger_oid(relid, trigger, true);
    if (!OidIsValid(oid))
        return;
    ObjectAddress address;
    ObjectAddressSet(address, TriggerRelationId, oid);
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

} // namespace

List *FindLeaves(Oid base, LOCKMODE mode) {
    if (get_rel_relkind(base) != RELKIND_PARTITIONED_TABLE)
        return list_make1_oid(base);
    List *leaves = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, mode, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE)
            leaves = lappend_oid(leaves, lfirst_oid(cell));
    return leaves;
}

namespace {

void CreateRowTrigger(Oid relid) {
    int guc_level = SecureSearchPath();
    const char *name = QualifiedName(relid);
    Execute(psprintf("CREATE TRIGGER %s AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW "
                     "EXECUTE FUNCTION index_table.maintain()",
                     kRowTrigger, name));
    // Logical replication's workers run as replicas, and must maintain what they change.
    Execute(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kRowTrigger));
    AtEOXact_GUC(false, guc_level);
}

bool HasRowTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kRowTrigger, true));
}

// Whether row triggers are where EnsureTriggers() has them.
bool HasRowTriggers(Oid base, bool on_foreign) {
    if (on_foreign || HasRowTrigger(base))
        return HasRowTrigger(base) && on_foreign;
    ListCell *cell;
    foreach (cell, FindLeaves(base, NoLock))
        if (!IsForeign(lfirst_oid(cell)) && !HasRowTrigger(lfirst_oid(cell)))
            return false;
    return true;
}

} // namespace

void EnsureTriggers(Oid base, bool on_foreign) {
    if (HasRowTriggers(base, on_foreign))
        return;
    ListCell *cell;
    if (!on_foreign)
        DropTrigger(base, kRowTrigger);
    foreach (cell, FindLeaves(base, NoLock)) {
        Oid leaf = lfirst_oid(cell);
        if (on_foreign)
            DropTrigger(leaf, kRowTrigger);
        else if (!IsForeign(leaf) && !HasRowTrigger(leaf)) {
            OwnerContext owner = EnterOwner(RelationOwner(leaf));
            CreateRowTrigger(leaf);
            LeaveOwner(owner);
        }
    }
    if (on_foreign)
        CreateRowTrigger(base);
}

bool ParseMaintenance(const char *text) {
    if (strcmp(text, "deferred") == 0)
        return true;
    if (strcmp(text, "immediate") != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("unknown maintenance \"%s\"", text),
                        errhint("It is immediate or deferred.")));
    return false;
}

void CheckMayDefer(Oid base, bool is_unique, List *leaves) {
    if (!HasForeign(leaves))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("deferred maintenance is for foreign partitions"),
                        errdetail("\"%s\" has none.", get_rel_name(base)),
                        errhint("Use maintenance => 'immediate'.")));
    if (is_unique)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a unique index table cannot be maintained deferred"),
                        errdetail("Rows with a key that is there already would be on their shards "
                                  "before anybody looks."),
                        errhint("Use maintenance => 'immediate', or one that is not unique.")));
    ListCell *cell;
    foreach (cell, leaves)
        if (IsForeign(lfirst_oid(cell)))
            CheckIsCaptured(lfirst_oid(cell));
}

void RestoreTriggers(Oid base) {
    bool are_there = HasRowTriggers(base, HasImmediate(base));
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        are_there = are_there && HasStatementTrigger(lfirst_oid(cell));
    if (are_there)
        return;
    LockRelationOid(base, ShareRowExclusiveLock); // first, as writers do
    foreach (cell, find_all_inheritors(base, ShareRowExclusiveLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
    EnsureTriggers(base, HasImmediate(base));
}

namespace {

// A transaction that has just ended lets go of its locks one after the other.
bool LockSoon(Oid relid) {
    constexpr int kTries = 10;
    constexpr long kMicroseconds = 1000;
    for (int i = 0; i < kTries; i++) {
        if (ConditionalLockRelationOid(relid, AccessExclusiveLock))
            return true;
        pg_usleep(kMicroseconds);
    }
    return false;
}

} // namespace

void ForgetIndexTable(Oid index_table, Oid base) {
    // Where it was restored from a dump, nothing but the definition says whose log it is.
    DropLog(RecordedLog(index_table));
    DeleteDefinition(index_table);
    if (ListIndexTables(base) != NIL)
        return;
    List *leaves = ListPartitions(base);
    DeletePartitions(base);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        return;
    // Whoever drops the index table by name holds its lock already, writers take it last: waiting
    // for the base table here could deadlock. Triggers that stay do nothing.
    ListCell *cell;
    List *relations = list_concat_unique_oid(find_all_inheritors(base, NoLock, nullptr), leaves);
    foreach (cell, relations)
        if (!LockSoon(lfirst_oid(cell)))
            return;
    DropTrigger(base, kRowTrigger);
    foreach (cell, relations) {
        DropTrigger(lfirst_oid(cell), kStatementTrigger);
        DropTrigger(lfirst_oid(cell), kRowTrigger);
    }
}

char EntryPersistence(Oid index_table) {
    List *partitions = find_inheritance_children(index_table, NoLock);
    return get_rel_persistence(partitions != NIL ? linitial_oid(partitions) : index_table);
}

namespace {

void CheckJoiningLeaf(Relation base, Oid leaf) {
    const char *name = get_rel_name(leaf);
    if (IsForeign(leaf)) {
        OwnerContext owner = EnterOwner(RelationOwner(leaf)); // who will read it
        const Base *known = FindBase(RelationGetRelid(base));
        for (const IndexTable *table : std::span(known->tables, known->table_count))
            CheckShard(base, table, leaf);
        LeaveOwner(owner);
    }
    ListCell *cell;
    foreach (cell, ListIndexTables(RelationGetRelid(base))) {
        // See create_concurrently().
        if (IsForeign(leaf) && OidIsValid(RecordedLog(lfirst_oid(cell))))
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("foreign table \"%s\" cannot become a partition of \"%s\"", name,
                                   RelationGetRelationName(base)),
                            errdetail("Index table \"%s\" is being built concurrently.",
                                      get_rel_name(lfirst_oid(cell))),
                            errhint("Wait until it is complete.")));
        if (EntryPersistence(lfirst_oid(cell)) != get_rel_persistence(leaf))
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("partition \"%s\" and index table \"%s\" must both be logged or both "
                            "unlogged",
                            name, get_rel_name(lfirst_oid(cell))),
                     errdetail("After a crash an unlogged table is empty; one of the two would be "
                               "and the other not.")));
    }
}

// Whether a leaf certainly has no rows.
bool IsEmpty(Oid leaf) {
    if (IsForeign(leaf))
        return false;
    Relation rel = table_open(leaf, NoLock);
    bool empty = RelationGetNumberOfBlocks(rel) == 0;
    table_close(rel, NoLock);
    return empty;
}

// Reads the entries of a leaf's rows, with the rights of its owner, who may be another than the
// base table's.
void CollectRows(Relation base, const IndexTable *table, Oid leaf, Progress *progress,
                 EntryCollector *collector) {
    OwnerContext owner = EnterOwner(RelationOwner(leaf));
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    BoundPlan plan =
        PrepareBound(RecomputationQuery(base, table, progress->ticket, leaf), table, 0);
    PushActiveSnapshot(GetLatestSnapshot());
    Portal portal = OpenBound(plan);
    for (;;) {
        SPI_cursor_fetch(portal, true, 1000);
        SPITupleTable *rows = SPI_tuptable;
        if (rows->numvals == 0)
            break;
        for (uint64 i = 0; i < rows->numvals; i++)
            CollectEntry(collector, rows->vals[i], rows->tupdesc, 1);
        SPI_freetuptable(rows);
        CHECK_FOR_INTERRUPTS();
    }
    SPI_cursor_close(portal);
    PopActiveSnapshot();
    SPI_finish();
    LeaveOwner(owner);
}

// Enters the rows of a leaf that joined with rows.
int64 EnterRows(Relation base, Oid leaf) {
    int64 entered = 0;
    NoteWrittenPartition(FindPartitionNumber(leaf)->id);
    const Base *known = FindBase(RelationGetRelid(base));
    for (IndexTable *table : std::span(known->tables, known->table_count)) {
        // Being built: its turn comes; or it is to be filled by repair().
        if (OidIsValid(table->log) || table->state == TableState::Damaged)
            continue;
        // Whoever drops it may lock nothing that a partition of a partition does.
        LockRelationOid(table->relid, RowExclusiveLock);
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->relid)))
            continue;
        Progress *progress = BeginProgress(table->base, table->relid, ShareRowExclusiveLock);
        StartCounting(progress, list_make1_oid(leaf), 0);
        ReportPhase(progress, Phase::Loading);
        EntryCollector collector = BeginCollecting(table);
        CollectRows(base, table, leaf, progress, &collector);
        EndCollecting(&collector);
        entered += collector.count;
        NoteBuild(table->relid);
        EndProgress(progress);
    }
    return entered;
}

// Gives numbers to leaves, and enters their rows.
int64 AddLeaves(Relation base, List *leaves) {
    int64 entered = 0;
    ListCell *cell;
    foreach (cell, leaves) {
        CheckJoiningLeaf(base, lfirst_oid(cell));
        AddPartition(RelationGetRelid(base), lfirst_oid(cell));
    }
    foreach (cell, leaves)
        if (!IsEmpty(lfirst_oid(cell)))
            entered += EnterRows(base, lfirst_oid(cell));
    return entered;
}

void LeaveTree(Oid relid) {
    if (FindPartitionNumber(relid) || OidIsValid(get_trigger_oid(relid, kStatementTrigger, true))) {
        LockRelationOid(relid, AccessExclusiveLock);
        RemoveOwnEntries(relid);
        RetirePartition(relid);
        DropTrigger(relid, kStatementTrigger);
        DropTrigger(relid, kRowTrigger);
    }
    // Those too that are about to be detached from it.
    ListCell *cell;
    foreach (cell, find_inheritance_children_extended(relid, false, NoLock, nullptr, nullptr))
        LeaveTree(lfirst_oid(cell));
}

// The leaves of a partition that have numbers, and their base table.
List *ListLeaving(Oid partition, Oid *base) {
    List *leaving = NIL;
    *base = InvalidOid;
    ListCell *cell;
    foreach (cell, FindLeaves(partition, NoLock)) {
        AddLeaving(&leaving, lfirst_oid(cell), get_rel_name(partition));
        if (!OidIsValid(*base))
            if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell)))
                *base = number->base;
    }
    return leaving;
}

} // namespace

void JoinPartition(Oid base_relid, Oid partition) {
    Relation base = relation_open(base_relid, AccessShareLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    List *joined = NIL;
    ListCell *cell;
    foreach (cell, FindLeaves(partition, NoLock)) // CREATE TABLE IF NOT EXISTS may have made none
        if (!FindPartitionNumber(lfirst_oid(cell)))
            joined = lappend_oid(joined, lfirst_oid(cell));
    foreach (cell, joined)
        LockRelationOid(lfirst_oid(cell), ShareRowExclusiveLock);
    foreach (cell, find_all_inheritors(partition, NoLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
    // Where the base table has a row trigger they have been given theirs.
    if (!HasImmediate(base_relid))
        foreach (cell, joined)
            if (!IsForeign(lfirst_oid(cell)) && !HasRowTrigger(lfirst_oid(cell)))
                CreateRowTrigger(lfirst_oid(cell));
    AddLeaves(base, joined);
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

void LeavePartition(Oid partition) {
    // Somebody may have dropped it while DETACH CONCURRENTLY waited, and made another of that name.
    if (get_rel_relispartition(partition) || ListIndexTables(partition) != NIL)
        return;
    Oid base;
    List *leaving = ListLeaving(partition, &base);
    RemoveReferenced(base, leaving, false);
    LeaveTree(partition);
    ForgetReferenced(base, leaving);
}

void CheckLeaving(Oid partition) {
    Oid base;
    List *leaving = ListLeaving(partition, &base);
    RemoveReferenced(base, leaving, true);
}

int64 ReconcilePartitions(Relation base) {
    Oid relid = RelationGetRelid(base);
    List *known = ListPartitions(relid);
    List *leaves = FindLeaves(relid, ShareRowExclusiveLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    ListCell *cell;
    foreach (cell, list_difference_oid(known, leaves))
        if (RootOf(lfirst_oid(cell)) != relid) {
            RemoveOwnEntries(lfirst_oid(cell));
            RetirePartition(lfirst_oid(cell));
            DropTrigger(lfirst_oid(cell), kStatementTrigger);
        }
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
    int64 entered = AddLeaves(base, list_difference_oid(leaves, known));
    LeaveOwner(owner);
    return entered;
}

void RegisterPartitions(Oid base, List *leaves) {
    // What a dump without its definition has left there: partitions may have gone since.
    if (ListIndexTables(base) == NIL)
        DeletePartitions(base);
    ListCell *cell;
    foreach (cell, leaves) {
        Oid leaf = lfirst_oid(cell);
        if (FindPartitionNumber(leaf))
            continue;
        AddPartition(base, leaf);
    }
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
}

void CheckShard(Relation base, const IndexTable *table, Oid leaf) {
    Bitmapset *columns = nullptr;
    for (int i = 0; i < table->key.count; i++)
        columns = ReferencedColumns(columns, table->key.columns[i]);
    pull_varattnos(reinterpret_cast<Node *>(table->predicate), 1, &columns);
    List *identity = NIL;
    List *others = NIL;
    for (const CopiedColumn &column : std::span(table->identity, table->identity_count))
        identity = lappend_int(identity, column.base_attno);
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;)
        others = lappend_int(others, member + FirstLowInvalidHeapAttributeNumber);
    CheckShardIdentity(base, leaf, identity, others);
    if (table->is_deferred)
        CheckIsCaptured(leaf);
}

void ReloadLeaf(Oid base_relid, Oid leaf) {
    LockRelationOid(leaf, ShareRowExclusiveLock);
    RenumberReferenced(leaf);
    Relation base = relation_open(base_relid, AccessShareLock);
    EnterRows(base, leaf);
    relation_close(base, NoLock);
}

namespace {

void RenumberTruncated(Oid leaf) {
    if (IsForeign(leaf))
        NoteIntentOfAll(leaf);
    RenumberReferenced(leaf);
}

} // namespace

void FollowTruncate(List *foreign, List *numbers) {
    ListCell *cell, *before;
    forboth(cell, foreign, before, numbers) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && number->id == lfirst_int(before))
            RenumberTruncated(lfirst_oid(cell));
    }
    PrecedeShards();
}

namespace {

// A session that loads a dump has not come to the end of it: what it creates in parallel with
// others may be there before rows are.
void SettleRestored(Oid relid) {
    const Base *base = check_function_bodies ? FindBase(RootOf(relid)) : nullptr;
    if (base)
        SettleBeforeChange(base);
}

// Whether a relation's own trigger sees to it that it is renumbered.
bool HasTruncateTrigger(Oid relid) {
    Relation rel = relation_open(relid, NoLock);
    const TriggerDesc *triggers = rel->trigdesc;
    bool found =
        triggers && std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                                [](const Trigger &trigger) {
                                    return TRIGGER_FOR_TRUNCATE(trigger.tgtype) &&
                                           trigger.tgenabled != TRIGGER_DISABLED &&
                                           strcmp(trigger.tgname, kStatementTrigger) == 0;
                                });
    relation_close(rel, NoLock);
    return found;
}

// Foreign tables have no TRUNCATE triggers on 15, nor where a dump of 15 was restored. TRUNCATE of
// a partitioned table fires those of every partitioned table below it.
void RenumberForeignChildren(Oid parent) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(parent, NoLock))
        if (IsForeign(lfirst_oid(cell)) && !HasTruncateTrigger(lfirst_oid(cell)))
            RenumberTruncated(lfirst_oid(cell));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_announce) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("index_table.announce() was not called by the trigger manager")));
    TriggerData *trigger = reinterpret_cast<TriggerData *>(fcinfo->context);
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("index_table.announce() must be fired BEFORE, FOR EACH STATEMENT")));
    Oid relid = RelationGetRelid(trigger->tg_relation);
    if (!TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
        SettleRestored(relid);
        AnnounceStatement(relid);
        return PointerGetDatum(nullptr);
    }
    FlushChanges();
    // The function's own memory is reset sooner than what it belongs to.
    PrecedeShardsAfter(MemoryContextGetParent(CurrentMemoryContext));
    RenumberTruncated(relid);
    if (trigger->tg_relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
        RenumberForeignChildren(relid);
    return PointerGetDatum(nullptr);
}
