// index_table.vacuum() and what its worker shares with it.
#include "partitions/sweep.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "partitions/references.h"
#include "shard/public.h"

namespace index_table {
namespace {

// Blocks of an index table that are looked through by one command.
constexpr BlockNumber kBatchBlocks = 1024;

void RememberStored(RemovedEntries *noted, Relation rel, TupleTableSlot *slot) {
    int count = noted->table->column_count;
    const AttrNumber *own = GetLiveColumns(rel, count);
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    bool *nulls = static_cast<bool *>(palloc(count));
    for (int i = 0; i < count; i++)
        values[i] = slot_getattr(slot, own[i], &nulls[i]);
    RememberRemoved(noted, values, nulls);
    pfree(values);
    pfree(nulls);
}

// Deletes the entries in blocks [from, end) of an index table, or of a partition of one, that
// `is_dead` says are, and notes them where that is wanted. Returns how many. Foreign keys do not
// learn of it: they must not have pointed at them.
template <typename Predicate>
int64 DeleteEntries(const IndexTable *table, Relation rel, BlockNumber from, BlockNumber end,
                    RemovedEntries *noted, bool just_note, Predicate is_dead) {
    AttrNumber attno = LiveColumn(rel, table, table->partition_position());
    MemoryContext context =
        AllocSetContextCreate(CurrentMemoryContext, "index_table sweep", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    EntryWriter *writer = OpenWriter(table, false, context);
    if (writer)
        IgnoreReferences(writer);
    ItemPointerData first, last;
    ItemPointerSet(&first, from, 0);
    ItemPointerSet(&last, end - 1, MaxOffsetNumber);
    // A snapshot older than the entries would leave some of them behind.
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TupleTableSlot *slot = table_slot_create(rel, nullptr);
    TableScanDesc scan = compat::BeginTidRangeScan(rel, snapshot, &first, &last);
    int64 removed = 0;
    while (writer && table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot)) {
        bool isnull;
        Datum number = slot_getattr(slot, attno, &isnull);
        if (isnull || is_dead(DatumGetInt32(number))) {
            if (noted)
                RememberStored(noted, rel, slot);
            if (!just_note)
                removed += DeleteStoredEntry(writer, RelationGetRelid(rel), &slot->tts_tid);
        }
        CHECK_FOR_INTERRUPTS();
    }
    table_endscan(scan);
    ExecDropSingleTupleTableSlot(slot);
    UnregisterSnapshot(snapshot);
    if (writer)
        CloseWriter(writer);
    LeaveOwner(owner);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(context);
    return removed;
}

// Deletes entries on servers by a condition on their number.
int64 DeleteOnServers(const IndexTable *table, const char *condition) {
    Relation rel = table_open(table->relid, RowExclusiveLock);
    AttrNumber attno = LiveColumn(rel, table, table->partition_position());
    const char *number =
        quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname));
    uint64 count;
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    ExecuteUnguarded(
        psprintf("DELETE FROM %s WHERE %s %s", QualifiedName(table->relid), number, condition),
        &count);
    LeaveOwner(owner);
    table_close(rel, NoLock);
    return count;
}

// An array literal.
char *ArrayOf(List *numbers) {
    StringInfoData text;
    initStringInfo(&text);
    ListCell *cell;
    foreach (cell, numbers)
        appendStringInfo(&text, "%s%d", text.len > 0 ? "," : "", lfirst_int(cell));
    return psprintf("'{%s}'::integer[]", text.data);
}

char *IsOneOf(List *numbers) {
    return psprintf("= ANY (%s)", ArrayOf(numbers));
}

// Without those of transactions in progress, which may come into use yet: a number is looked for
// after it was found among the retired ones, where it comes later, and leaves as it comes into use.
List *ListNumbersToSweep(const IndexTable *table) {
    List *numbers = NIL;
    ListCell *cell;
    foreach (cell, ListRetiredNumbers(table->relid))
        if (!table->on_servers || !IsNumberTaken(lfirst_int(cell)))
            numbers = lappend_int(numbers, lfirst_int(cell));
    return numbers;
}

} // namespace

void BeginSweep(Sweep *sweep, const IndexTable *table) {
    Assert(IsKnown(table) && IsMemoryFreed());
    *sweep = {.index_table = table->relid};
    // What was restored stands for entries of the database that was dumped, and its numbers.
    if (table->on_servers && table->state != TableState::Built)
        return;
    if (ListRetiredNumbers(table->relid) == NIL)
        return;
    // One at a time, like VACUUM.
    LockRelationOid(table->relid, ShareUpdateExclusiveLock);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->relid)))
        return; // dropped meanwhile
    sweep->numbers = ListNumbersToSweep(table);
    sweep->relations =
        table->on_servers ? list_make1_oid(table->relid) : StorageOf(table->relid, NoLock);
}

bool SweepBatch(Sweep *sweep, const IndexTable *table) {
    FAULT_POINT("sweep.sweep_batch");
    Assert(sweep->index_table == table->relid && IsLocked(table->relid, ShareUpdateExclusiveLock));
    if (sweep->relations == NIL)
        return false;
    if (table->on_servers) { // all at once: there it costs what it costs by blocks
        sweep->is_unsure =
            HasUsedServers(find_inheritance_children(table->relid, AccessShareLock)) ||
            !HaveWritersEnded(list_make1_oid(table->relid));
        sweep->removed += DeleteOnServers(table, IsOneOf(sweep->numbers));
        sweep->relations = NIL;
        return true;
    }
    Relation rel = try_relation_open(linitial_oid(sweep->relations), RowExclusiveLock);
    BlockNumber blocks = rel ? RelationGetNumberOfBlocks(rel) : 0;
    if (sweep->next_block >= blocks) {
        sweep->relations = list_delete_first(sweep->relations);
        sweep->next_block = 0;
        if (rel)
            relation_close(rel, NoLock);
        return true;
    }
    BlockNumber end = sweep->next_block + Min(kBatchBlocks, blocks - sweep->next_block);
    sweep->removed +=
        DeleteEntries(table, rel, sweep->next_block, end, sweep->noted, false,
                      [&](int32 number) { return list_member_int(sweep->numbers, number); });
    sweep->next_block = end;
    relation_close(rel, NoLock);
    CHECK_FOR_INTERRUPTS();
    return true;
}

void EndSweep(Sweep *sweep) {
    if (!sweep->is_unsure)
        ForgetRetiredNumbers(sweep->index_table, sweep->numbers);
}

int64 SweepEntries(const IndexTable *table, RemovedEntries *removed) {
    TimestampTz began = GetCurrentTimestamp();
    Sweep sweep;
    BeginSweep(&sweep, table);
    sweep.noted = removed;
    if (sweep.numbers == NIL)
        return 0;
    while (SweepBatch(&sweep, table))
        ;
    EndSweep(&sweep);
    RecordWork(table->relid, Work::Vacuum, began, sweep.removed);
    return sweep.removed;
}

namespace {

template <typename Predicate>
void DeleteEverywhere(const IndexTable *table, RemovedEntries *noted, bool just_note,
                      Predicate is_dead) {
    ListCell *cell;
    foreach (cell, StorageOf(table->relid, NoLock)) {
        Relation rel = relation_open(lfirst_oid(cell), RowExclusiveLock);
        if (BlockNumber blocks = RelationGetNumberOfBlocks(rel))
            DeleteEntries(table, rel, 0, blocks, noted, just_note, is_dead);
        relation_close(rel, NoLock);
    }
}

} // namespace

void RemoveDeadEntries(const IndexTable *table, RemovedEntries *removed) {
    Assert(IsKnown(table) && IsLocked(table->base, ShareLock));
    if (table->on_servers) {
        List *live = NIL;
        ListCell *cell;
        foreach (cell, ListPartitions(table->base))
            if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell)))
                live = lappend_int(live, number->id);
        DeleteOnServers(table, psprintf("<> ALL (%s)", ArrayOf(live)));
        return;
    }
    DeleteEverywhere(table, removed, false,
                     [&](int32 number) { return !OidIsValid(FindPartition(table->base, number)); });
}

void RemoveEntriesOf(const IndexTable *table, List *numbers, RemovedEntries *removed,
                     bool just_note) {
    Assert(IsKnown(table) && removed);
    if (table->on_servers) // foreign keys do not point there
        return;
    DeleteEverywhere(table, removed, just_note,
                     [&](int32 number) { return list_member_int(numbers, number); });
}

namespace {

// Whether the user may vacuum an index table and there is something to be done. Asks for no lock:
// those of others need not be locked or looked at any further.
bool IsOwnToSweep(Oid index_table) {
    // One that is being built is locked until that is done.
    return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(index_table)) &&
           compat::OwnsRelation(index_table) && ListRetiredNumbers(index_table) != NIL &&
           !OidIsValid(RecordedLog(index_table));
}

int64 VacuumAll() {
    List *wanted = NIL;
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell)))
            if (IsOwnToSweep(lfirst_oid(cell)))
                wanted = lappend_oid(wanted, lfirst_oid(cell));
    // Found before any is locked: finding one may lock its base table.
    List *tables = NIL;
    foreach (cell, wanted)
        if (const IndexTable *table = FindIndexTable(lfirst_oid(cell)))
            tables = lappend(tables, const_cast<IndexTable *>(table));
    int64 removed = 0;
    foreach (cell, tables)
        removed += SweepEntries(static_cast<IndexTable *>(lfirst(cell)));
    return removed;
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_vacuum) {
    PreventCommandDuringRecovery("index_table.vacuum()");
    FlushChanges();
    ForgetServerTables();
    if (PG_ARGISNULL(0))
        PG_RETURN_INT64(VacuumAll() + SweepOwnGlobalIndexes());
    if (std::optional<GlobalIndex> index = FindGlobalIndex(PG_GETARG_OID(0)))
        PG_RETURN_INT64(SweepGlobalIndex(*index));
    // The base table is nobody's concern: it may be truncated before this transaction ends. So the
    // index table is not found once more, which may lock it, after it was locked.
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    LockRelationOid(table->relid, AccessShareLock);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->relid)))
        RaiseDropped(table->relid);
    PG_RETURN_INT64(SweepEntries(table));
}
