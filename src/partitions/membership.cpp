#include "partitions/membership.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "partitions/references.h"
#include "partitions/triggers.h"
#include "shard/public.h"

namespace index_table {
List *FindLeaves(Oid base, LOCKMODE mode) {
    Assert(OidIsValid(base));
    if (get_rel_relkind(base) != RELKIND_PARTITIONED_TABLE)
        return list_make1_oid(base);
    List *leaves = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, mode, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE)
            leaves = lappend_oid(leaves, lfirst_oid(cell));
    return leaves;
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
        if (IsForeign(leaf) && OidIsValid(RecordedLog(lfirst_oid(cell))) && !HasOutbox(leaf))
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("foreign table \"%s\" cannot become a partition of \"%s\"", name,
                                   RelationGetRelationName(base)),
                            errdetail("Index table \"%s\" is being built concurrently, and learns "
                                      "of rows of foreign tables where they are captured.",
                                      get_rel_name(lfirst_oid(cell))),
                            errhint("Wait until it is complete, or run on the server of the "
                                    "foreign table: SELECT index_table.capture(%s);",
                                    quote_literal_cstr(RemoteName(leaf)))));
        if (IsForeign(leaf) && OidIsValid(RecordedQueue(lfirst_oid(cell))))
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("foreign table \"%s\" cannot become a partition of \"%s\"", name,
                                   RelationGetRelationName(base)),
                            errdetail("Index table \"%s\" is maintained deferred, through a queue "
                                      "of changes made here.",
                                      get_rel_name(lfirst_oid(cell))),
                            errhint("Use index_table.set_maintenance(), 'immediate' before and "
                                    "'deferred' again afterwards.")));
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
        PrepareBound(RecomputationQuery(base, table, progress->ticket, leaf), table, kPlanNatively);
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
    FAULT_POINT("membership.enter_rows");
    int64 entered = 0;
    RememberWrittenPartition(FindPartitionNumber(leaf)->id);
    const Base *known = FindBase(RelationGetRelid(base));
    for (IndexTable *table : std::span(known->tables, known->table_count)) {
        // Being built: its turn comes; or it is to be filled by repair().
        if (OidIsValid(table->log) || table->is_unusable())
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
        RecordBuild(table->relid);
        EndProgress(progress);
    }
    return entered;
}

// Gives a leaf its number; a shard's may have changes queued already.
void Number(Oid base, Oid leaf) {
    FAULT_POINT("membership.number");
    AddPartition(base, leaf);
    if (IsForeign(leaf))
        RequestDrainWorker();
}

// Gives numbers to leaves, and enters their rows.
int64 AddLeaves(Relation base, List *leaves) {
    int64 entered = 0;
    ListCell *cell;
    foreach (cell, leaves) {
        CheckJoiningLeaf(base, lfirst_oid(cell));
        Number(RelationGetRelid(base), lfirst_oid(cell));
    }
    foreach (cell, leaves)
        if (!IsEmpty(lfirst_oid(cell)))
            entered += EnterRows(base, lfirst_oid(cell));
    return entered;
}

void LeaveTree(Oid relid) {
    FAULT_POINT("membership.leave_tree");
    if (FindPartitionNumber(relid) || OidIsValid(get_trigger_oid(relid, kStatementTrigger, true))) {
        LockRelationOid(relid, AccessExclusiveLock);
        RemoveOwnEntries(relid);
        RetirePartition(relid);
        DropTrigger(relid, kStatementTrigger);
        DropRowTrigger(relid);
        DropQueueTriggers(relid);
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
    Assert(AreLocked(find_all_inheritors(partition, NoLock, nullptr), AccessExclusiveLock));
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
    TriggerNeeds needs = FindTriggerNeeds(base_relid);
    if (needs.queues) {
        foreach (cell, find_all_inheritors(partition, NoLock, nullptr))
            CreateQueueTriggers(lfirst_oid(cell), false);
        AnnounceGenerated(partition);
    }
    // Where the base table has a row trigger they have been given theirs.
    if (!needs.on_base && needs.on_local)
        foreach (cell, joined)
            if (!IsForeign(lfirst_oid(cell)) && !HasRowTrigger(lfirst_oid(cell)))
                CreateRowTrigger(lfirst_oid(cell));
    AddLeaves(base, joined);
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

void LeavePartition(Oid partition) {
    Assert(IsLocked(partition, AccessExclusiveLock));
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
    Assert(OidIsValid(partition));
    Oid base;
    List *leaving = ListLeaving(partition, &base);
    RemoveReferenced(base, leaving, true);
}

int64 ReconcilePartitions(Relation base) {
    Assert(CheckRelationLockedByMe(base, ShareRowExclusiveLock, true));
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
    Assert(IsLocked(base, ShareRowExclusiveLock) && AreLocked(leaves, ShareRowExclusiveLock));
    LockNumbers(base); // before it is asked whether there are index tables
    // What a dump without its definition has left there: partitions may have gone since.
    if (ListIndexTables(base) == NIL)
        DeletePartitions(base);
    ListCell *cell;
    foreach (cell, leaves) {
        Oid leaf = lfirst_oid(cell);
        if (FindPartitionNumber(leaf))
            continue;
        Number(base, leaf);
    }
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
}

void CheckShard(Relation base, const IndexTable *table, Oid leaf) {
    Assert(IsForeign(leaf) && RelationGetRelid(base) == table->base);
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
    if (table->options.is_deferred)
        CheckHasOutbox(leaf);
}

void ReloadLeaf(Oid base_relid, Oid leaf) {
    Assert(IsLocked(base_relid, RowExclusiveLock));
    LockRelationOid(leaf, ShareRowExclusiveLock);
    RenumberReferenced(leaf);
    Relation base = relation_open(base_relid, AccessShareLock);
    EnterRows(base, leaf);
    relation_close(base, NoLock);
}

} // namespace index_table
