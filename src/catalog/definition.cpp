// The rows of the catalog tables, read and written through the heap directly: no privileges, no
// planner, usable from triggers and event triggers.
#include "catalog/definition.h"

#include "catalog/own_build.h"
#include "catalog/rows.h"

namespace index_table {
namespace {

enum DefinitionColumn { kDefIndexTable = 1, kDefBase, kDefState, kDefColumns = kDefState };
enum PartitionColumn { kPartId = 1, kPartBase, kPartRelation, kPartColumns = kPartRelation };
enum RetiredColumn {
    kRetiredTable = 1,
    kRetiredId,
    kRetiredBase,
    kRetiredEntries,
    kRetiredColumns = kRetiredEntries
};

void DeleteRow(const char *table, const char *index, Oid type_eq, Datum value) {
    CatalogScan scan(table, index, type_eq, value, RowExclusiveLock);
    while (HeapTuple tuple = scan.Next())
        CatalogTupleDelete(scan.relation, &tuple->t_self);
    scan.End();
}

void InsertRow(const char *table, Datum *values, bool *nulls) {
    Relation rel = table_open(ExtensionRelation(table), RowExclusiveLock);
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
    CatalogTupleInsert(rel, tuple);
    heap_freetuple(tuple);
    table_close(rel, RowExclusiveLock);
}

// The base table in the row of an index table; InvalidOid where there is no row.
Oid ReadBase(Oid index_table) {
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(index_table),
                     AccessShareLock);
    Oid oid = InvalidOid;
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        oid = DatumGetObjectId(scan.Get(tuple, kDefBase, &isnull));
    }
    scan.End();
    return oid;
}

// The partition numbers that a catalog table has for an index table: its second column.
List *ListNumbers(const char *table, const char *index, Oid index_table) {
    CatalogScan scan(table, index, F_OIDEQ, ObjectIdGetDatum(index_table), AccessShareLock);
    List *numbers = NIL;
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        numbers = lappend_int(numbers, DatumGetInt32(scan.Get(tuple, 2, &isnull)));
    }
    scan.End();
    return numbers;
}

} // namespace

bool IsInstalled() {
    Oid schema = ExtensionSchema();
    return OidIsValid(schema) && OidIsValid(get_relname_relid("definition", schema));
}

bool HoldExtension() {
    Oid extension = get_extension_oid("index_table", true);
    if (OidIsValid(extension))
        LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
    return IsInstalled();
}

Oid ExtensionSchema() {
    return get_namespace_oid("index_table", true);
}

Oid ExtensionRelation(const char *name) {
    Oid relid = get_relname_relid(name, ExtensionSchema());
    if (!OidIsValid(relid))
        elog(ERROR, "relation \"index_table.%s\" is missing", name);
    return relid;
}

CatalogScan::CatalogScan(const char *table, const char *index, Oid equality, Datum value,
                         LOCKMODE lock_mode)
    : lock_mode(lock_mode) {
    relation = table_open(ExtensionRelation(table), lock_mode);
    int keys = 0;
    if (index != nullptr) {
        Oid index_oid = ExtensionRelation(index);
        Relation index_rel = index_open(index_oid, AccessShareLock);
        ScanKeyInit(&key, index_rel->rd_index->indkey.values[0], BTEqualStrategyNumber, equality,
                    value);
        index_close(index_rel, AccessShareLock);
        keys = 1;
        scan = systable_beginscan(relation, index_oid, true, nullptr, keys, &key);
    } else {
        scan = systable_beginscan(relation, InvalidOid, false, nullptr, 0, nullptr);
    }
}

HeapTuple CatalogScan::Next() {
    return systable_getnext(scan);
}

Datum CatalogScan::Get(HeapTuple tuple, int column, bool *isnull) {
    return heap_getattr(tuple, column, RelationGetDescr(relation), isnull);
}

void CatalogScan::End() {
    systable_endscan(scan);
    table_close(relation, lock_mode);
}

List *ReadOids(const char *table, const char *index, Datum value, int column) {
    List *oids = NIL;
    CatalogScan scan(table, index, F_OIDEQ, value, AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        oids = lappend_oid(oids, DatumGetObjectId(scan.Get(tuple, column, &isnull)));
    }
    scan.End();
    return oids;
}

void InsertDefinition(const Definition &definition, TableState state) {
    Assert(state == TableState::Built ? IsLocked(definition.base, ShareRowExclusiveLock)
                                      : IsLocked(definition.relid, AccessExclusiveLock));
    Datum values[kDefColumns];
    bool nulls[kDefColumns] = {};
    values[kDefIndexTable - 1] = ObjectIdGetDatum(definition.relid);
    values[kDefBase - 1] = ObjectIdGetDatum(definition.base);
    values[kDefState - 1] = CharGetDatum(static_cast<char>(state));
    InsertRow("definition", values, nulls);
    RememberOwnBuild();
    CommandCounterIncrement();
    Invalidate(definition.base);
}

void DeleteDefinition(Oid relid) {
    Assert(IsLocked(relid, AccessExclusiveLock) ||
           !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)));
    Oid base = RecordedBase(relid);
    DeleteRow("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    DeleteRow("retired_partition", "retired_partition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    ForgetLoadedPartitions(relid);
    CommandCounterIncrement();
    if (OidIsValid(base))
        Invalidate(base);
}

void ForgetIncludedColumns(Oid base) {
    Assert(IsLocked(base, ShareRowExclusiveLock));
    bool changed = false;
    ListCell *cell;
    foreach (cell, ListIndexTables(base))
        changed = ForgetDroppedColumns(lfirst_oid(cell)) || changed;
    if (changed)
        Invalidate(base);
}

// The transaction is that of the definition's row: a new version of it will do.
void RecordBuild(Oid relid) {
    // Partitions may join in different places of the tree at a time, under no lock in common.
    LockPart(relid, LockedPart::Build, ExclusiveLock);
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        CatalogTupleUpdate(scan.relation, &tuple->t_self, heap_copytuple(tuple));
    scan.End();
    RememberOwnBuild();
    CommandCounterIncrement();
    Invalidate(RecordedBase(relid));
}

namespace {

// What is so already is left alone: others may be about to say the same. What cannot be right does
// not become so by being restored again, nor is there more to say of it.
bool MayBecome(TableState state, TableState current) {
    switch (state) {
    case TableState::Restored:
        return current == TableState::Built;
    case TableState::Missed:
        return current == TableState::Built || current == TableState::Restored;
    default:
        return current != state;
    }
}

TableState StateOf(Relation definitions, HeapTuple row) {
    bool isnull;
    return TableState(
        DatumGetChar(heap_getattr(row, kDefState, RelationGetDescr(definitions), &isnull)));
}

} // namespace

std::optional<TableState> RecordedState(Oid relid) {
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     AccessShareLock);
    HeapTuple tuple = scan.Next();
    std::optional<TableState> state;
    if (tuple)
        state = StateOf(scan.relation, tuple);
    scan.End();
    return state;
}

void SetState(Oid relid, TableState state) {
    std::optional<TableState> before = RecordedState(relid);
    // Who loads partitions of an index table at a time may say so at a time.
    if (before && MayBecome(state, *before))
        LockPart(relid, LockedPart::Build, ExclusiveLock);
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    HeapTuple tuple = scan.Next();
    if (tuple && MayBecome(state, StateOf(scan.relation, tuple))) {
        Datum values[kDefColumns] = {};
        bool nulls[kDefColumns] = {};
        bool replace[kDefColumns] = {};
        values[kDefState - 1] = CharGetDatum(static_cast<char>(state));
        replace[kDefState - 1] = true;
        HeapTuple changed =
            heap_modify_tuple(tuple, RelationGetDescr(scan.relation), values, nulls, replace);
        CatalogTupleUpdate(scan.relation, &tuple->t_self, changed);
    }
    scan.End();
    RememberOwnBuild();
    CommandCounterIncrement();
    Invalidate(RecordedBase(relid));
}

// Snapshots that see the definition's row see what was built: a new version of it.
void SetLog(Oid relid, Oid log) {
    Assert(IsLocked(RecordedBase(relid), ShareRowExclusiveLock));
    StoreLog(relid, log);
    RecordBuild(relid);
}

void SetMaintenance(Oid relid, bool deferred, Oid queue) {
    Assert(IsLocked(RecordedBase(relid), ShareRowExclusiveLock));
    StoreMaintenance(relid, deferred, queue);
    Invalidate(RecordedBase(relid));
}

void SetVisibility(Oid relid, bool visible) {
    Assert(IsLocked(RecordedBase(relid), ShareUpdateExclusiveLock));
    StoreVisibility(relid, visible);
    Invalidate(RecordedBase(relid));
}

List *ListLoadedPartitions(Oid relid) {
    return ListNumbers("loaded_partition", "loaded_partition_pkey", relid);
}

void RecordLoadedPartition(Oid relid, int32 partition_id) {
    Assert(IsLocked(relid, ShareUpdateExclusiveLock));
    Datum values[] = {ObjectIdGetDatum(relid), Int32GetDatum(partition_id)};
    bool nulls[2] = {};
    InsertRow("loaded_partition", values, nulls);
    CommandCounterIncrement();
}

void ForgetLoadedPartitions(Oid relid) {
    Assert(IsLocked(relid, ShareUpdateExclusiveLock));
    DeleteRow("loaded_partition", "loaded_partition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    CommandCounterIncrement();
}

bool AppendIncludedColumn(Oid relid, AttrNumber attno) {
    Assert(IsLocked(RecordedBase(relid), ShareRowExclusiveLock));
    const Definition *definition = ReadDefinition(relid);
    if (!definition || list_member_int(definition->include, attno))
        return false;
    StoreIncludedColumn(relid, attno);
    Invalidate(definition->base);
    return true;
}

List *ReadDefinitions(Relation base) {
    List *tables = NIL;
    CatalogScan scan("definition", "definition_base_idx", F_OIDEQ,
                     ObjectIdGetDatum(RelationGetRelid(base)), AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Oid relid = DatumGetObjectId(scan.Get(tuple, kDefIndexTable, &isnull));
        TableState state = TableState(DatumGetChar(scan.Get(tuple, kDefState, &isnull)));
        // Null where it was dropped while event triggers were off.
        const Definition *definition = ReadDefinition(relid);
        if (!definition || definition->base != RelationGetRelid(base))
            continue;
        IndexTable *table = MakeIndexTable(base, *definition, state);
        table->built = HeapTupleHeaderGetXmin(tuple->t_data);
        tables = lappend(tables, table);
    }
    scan.End();
    return tables;
}

Oid RecordedBase(Oid index_table) {
    return OidIsValid(ExtensionSchema()) ? ReadBase(index_table) : InvalidOid;
}

Oid RecordedLog(Oid index_table) {
    const Definition *definition =
        OidIsValid(RecordedBase(index_table)) ? ReadDefinition(index_table) : nullptr;
    return definition ? definition->log : InvalidOid;
}

Oid RecordedQueue(Oid index_table) {
    const Definition *definition =
        OidIsValid(RecordedBase(index_table)) ? ReadDefinition(index_table) : nullptr;
    return definition ? definition->queue : InvalidOid;
}

List *ListIndexTables(Oid base) {
    List *tables =
        ReadOids("definition", "definition_base_idx", ObjectIdGetDatum(base), kDefIndexTable);
    list_sort(tables, list_oid_cmp);
    return tables;
}

List *ListBases() {
    List *bases = NIL;
    CatalogScan scan("definition", nullptr, InvalidOid, 0, AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        bases = list_append_unique_oid(bases, DatumGetObjectId(scan.Get(tuple, kDefBase, &isnull)));
    }
    scan.End();
    return bases;
}

namespace {

bool IsNumberRetired(Oid base, int32 id) {
    bool found = false;
    CatalogScan scan("retired_partition", "retired_partition_base_idx", F_OIDEQ,
                     ObjectIdGetDatum(base), AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        found = found || DatumGetInt32(scan.Get(tuple, kRetiredId, &isnull)) == id;
    }
    scan.End();
    return found;
}

bool IsNumberUsed(Oid base, int32 id) {
    Oid owner;
    return OidIsValid(ReadPartition(id, &owner)) || IsNumberRetired(base, id);
}

// Keeps apart those who take a number from the sequence and those who move it.
LOCKTAG SequenceTag(Oid sequence) {
    return PartTag(sequence, LockedPart::Numbers);
}

int32 NextNumber() {
    Oid sequence = ExtensionRelation("partition_id_seq");
    LOCKTAG tag = SequenceTag(sequence);
    LockAcquire(&tag, ShareLock, false, false);
    int32 id = static_cast<int32>(nextval_internal(sequence, false));
    LockRelease(&tag, ShareLock, false);
    return id;
}

struct GivenNumber {
    int32 id;
    Oid base;
};
// By this transaction, in TopTransactionContext; those too that a savepoint has taken back.
constinit List *given = NIL;

void RememberGiven(int32 id, Oid base) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    GivenNumber *number = palloc_object(GivenNumber);
    *number = {.id = id, .base = base};
    given = lappend(given, number);
    MemoryContextSwitchTo(caller);
}

} // namespace

int32 AddPartition(Oid base, Oid leaf) {
    Assert(IsLocked(leaf, ShareLock) || IsLocked(base, ShareRowExclusiveLock) ||
           IsObjectLocked(RelationRelationId, base, static_cast<uint16>(LockedPart::Settling),
                          ExclusiveLock));
    Datum values[kPartColumns];
    bool nulls[kPartColumns] = {};
    int32 id;
    do // a dump may bring numbers past the trigger that has the sequence follow
        id = NextNumber();
    while (IsNumberUsed(base, id));
    values[kPartId - 1] = Int32GetDatum(id);
    values[kPartBase - 1] = ObjectIdGetDatum(base);
    values[kPartRelation - 1] = ObjectIdGetDatum(leaf);
    InsertRow("partition", values, nulls);
    CommandCounterIncrement();
    CacheInvalidateRelcacheByRelid(leaf);
    RememberGiven(id, base);
    return id;
}

bool HasGivenNumbers(Oid base) {
    ListCell *cell;
    foreach (cell, given)
        if (static_cast<GivenNumber *>(lfirst(cell))->base == base)
            return true;
    return false;
}

void RecordGivenNumbers(Oid index_table, Oid base) {
    Assert(IsLocked(index_table, RowExclusiveLock));
    Relation rel = table_open(ExtensionRelation("retired_partition"), RowExclusiveLock);
    ListCell *cell;
    foreach (cell, given) {
        const GivenNumber *number = static_cast<GivenNumber *>(lfirst(cell));
        if (number->base != base)
            continue;
        Datum values[kRetiredColumns] = {ObjectIdGetDatum(index_table), Int32GetDatum(number->id),
                                         ObjectIdGetDatum(base), Int64GetDatum(0)};
        bool nulls[kRetiredColumns] = {};
        if (!InsertDeleted(rel, values, nulls))
            elog(ERROR, "the number of a partition was changed by somebody else");
    }
    table_close(rel, NoLock);
}

void AtEOXactNumbers() {
    given = NIL;
}

namespace {

// Rows of a partition that is about to go, or has just gone.
int64 EstimateRows(Oid leaf) {
    int64 counted =
        DatumGetInt64(OidFunctionCall1(F_PG_STAT_GET_LIVE_TUPLES, ObjectIdGetDatum(leaf)));
    Relation rel = try_relation_open(leaf, AccessShareLock);
    if (!rel)
        return counted;
    double rows = 0;
    if (rel->rd_rel->relkind == RELKIND_RELATION) {
        BlockNumber pages;
        double visible;
        estimate_rel_size(rel, nullptr, &pages, &rows, &visible);
    }
    relation_close(rel, NoLock);
    return Max(counted, static_cast<int64>(rows));
}

} // namespace

void RetirePartition(Oid leaf) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    Assert(IsLocked(leaf, ShareLock) || IsLocked(number->base, ShareRowExclusiveLock));
    Datum values[kRetiredColumns];
    bool nulls[kRetiredColumns] = {};
    values[kRetiredId - 1] = Int32GetDatum(number->id);
    values[kRetiredBase - 1] = ObjectIdGetDatum(number->base);
    values[kRetiredEntries - 1] = Int64GetDatum(EstimateRows(leaf));
    ListCell *cell;
    foreach (cell, ListIndexTables(number->base)) {
        values[kRetiredTable - 1] = ObjectIdGetDatum(lfirst_oid(cell));
        InsertRow("retired_partition", values, nulls);
    }
    DeleteRow("partition", "partition_pkey", F_INT4EQ, Int32GetDatum(number->id));
    CommandCounterIncrement();
    Invalidate(number->base);
    if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(leaf)))
        CacheInvalidateRelcacheByRelid(leaf);
}

void SkipNumbers() {
    constexpr uint64 kLeast = 1000, kMost = 9000;
    Oid sequence = ExtensionRelation("partition_id_seq");
    for (uint64 i = pg_prng_uint64_range(&pg_global_prng_state, kLeast, kMost); i > 0; i--)
        nextval_internal(sequence, false);
}

void SkipLoadedNumber(int32 id) {
    constexpr int32 kMostByOthers = PG_INT32_MAX / 2;
    static constinit Oid known_sequence = InvalidOid;
    static constinit int64 known_value = 0;
    if (id <= 0 || (id > kMostByOthers && !superuser()))
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("partition number %d is out of range", id)));
    Oid sequence = ExtensionRelation("partition_id_seq");
    if (sequence == known_sequence && id <= known_value)
        return;
    LOCKTAG tag = SequenceTag(sequence);
    LockAcquire(&tag, ExclusiveLock, false, false);
    known_value = nextval_internal(sequence, false);
    if (known_value < id) {
        OwnerContext owner = EnterOwner(RelationOwner(sequence));
        DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence), Int64GetDatum(id));
        LeaveOwner(owner);
        known_value = id;
    }
    known_sequence = sequence;
    LockRelease(&tag, ExclusiveLock, false);
}

void RenumberPartition(Oid leaf) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    // Conflicts with nothing that is ever held.
    LockPart(number->base, LockedPart::Truncation, RowExclusiveLock);
    RetirePartition(leaf);
    AddPartition(number->base, leaf);
}

void WaitForTruncations(Oid base) {
    WaitForLockers(PartTag(base, LockedPart::Truncation), ShareLock, false);
}

void LockNumbers(Oid base) {
    LockPart(base, LockedPart::Numbers, ExclusiveLock);
}

void DeletePartitions(Oid base) {
    Assert(IsObjectLocked(RelationRelationId, base, static_cast<uint16>(LockedPart::Numbers),
                          ExclusiveLock));
    DeleteRow("partition", "partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base));
    DeleteRow("retired_partition", "retired_partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base));
    CommandCounterIncrement();
    Invalidate(base);
}

List *ListPartitions(Oid base) {
    return ReadOids("partition", "partition_base_idx", ObjectIdGetDatum(base), kPartRelation);
}

std::optional<PartitionNumber> FindPartitionNumber(Oid leaf) {
    Assert(IsTransactionState());
    std::optional<PartitionNumber> number;
    CatalogScan scan("partition", "partition_relation_key", F_OIDEQ, ObjectIdGetDatum(leaf),
                     AccessShareLock);
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        number = PartitionNumber{DatumGetInt32(scan.Get(tuple, kPartId, &isnull)),
                                 DatumGetObjectId(scan.Get(tuple, kPartBase, &isnull))};
    }
    scan.End();
    return number;
}

bool IsNumberTaken(int32 partition_id) {
    Relation rel = table_open(ExtensionRelation("partition"), AccessShareLock);
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    ScanKeyData key;
    ScanKeyInit(&key, kPartId, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(partition_id));
    SysScanDesc scan =
        systable_beginscan(rel, ExtensionRelation("partition_pkey"), true, &dirty, 1, &key);
    bool is_taken = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(rel, AccessShareLock);
    return is_taken;
}

Oid ReadPartition(int32 partition_id, Oid *base) {
    Oid leaf = InvalidOid;
    CatalogScan scan("partition", "partition_pkey", F_INT4EQ, Int32GetDatum(partition_id),
                     AccessShareLock);
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        leaf = DatumGetObjectId(scan.Get(tuple, kPartRelation, &isnull));
        *base = DatumGetObjectId(scan.Get(tuple, kPartBase, &isnull));
    }
    scan.End();
    return leaf;
}

int CountPartitionRows(Oid base, int limit) {
    CatalogScan scan("partition", "partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base),
                     AccessShareLock);
    int count = 0;
    while (count < limit && HeapTupleIsValid(scan.Next()))
        count++;
    scan.End();
    return count;
}

List *ListRetiredNumbers(Oid index_table) {
    Assert(IsTransactionState());
    return ListNumbers("retired_partition", "retired_partition_pkey", index_table);
}

void ForgetRetiredNumbers(Oid index_table, List *numbers) {
    Assert(IsLocked(index_table, RowExclusiveLock));
    CatalogScan scan("retired_partition", "retired_partition_pkey", F_OIDEQ,
                     ObjectIdGetDatum(index_table), RowExclusiveLock);
    Oid base = InvalidOid;
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        if (!list_member_int(numbers, DatumGetInt32(scan.Get(tuple, kRetiredId, &isnull))))
            continue;
        base = DatumGetObjectId(scan.Get(tuple, kRetiredBase, &isnull));
        CatalogTupleDelete(scan.relation, &tuple->t_self);
    }
    scan.End();
    CommandCounterIncrement();
    if (OidIsValid(base))
        Invalidate(base);
}

bool HasRetiredPartitions(Oid base) {
    CatalogScan scan("retired_partition", "retired_partition_base_idx", F_OIDEQ,
                     ObjectIdGetDatum(base), AccessShareLock);
    bool found = HeapTupleIsValid(scan.Next());
    scan.End();
    return found;
}

} // namespace index_table
