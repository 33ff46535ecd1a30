// The rows of the catalog tables, read and written through the heap directly: no privileges, no
// planner, usable from triggers and event triggers.
#include "catalog/definition.h"
#include "catalog/rows.h"

namespace index_table {
namespace {

enum DefinitionColumn {
    kDefIndexTable = 1,
    kDefBase,
    kDefStrategy,
    kDefKey,
    kDefPredicate,
    kDefIdentity,
    kDefInclude,
    kDefIsUnique,
    kDefMaintenance,
    kDefLog,
    kDefNullsDistinct,
    kDefIsDeferrable,
    kDefInitiallyDeferred,
    kDefColumns = kDefInitiallyDeferred
};
enum PartitionColumn { kPartId = 1, kPartBase, kPartRelation, kPartColumns = kPartRelation };
enum RetiredColumn {
    kRetiredTable = 1,
    kRetiredId,
    kRetiredBase,
    kRetiredEntries,
    kRetiredColumns = kRetiredEntries
};

Datum NamesOf(Relation base, List *attnos) {
    int count = list_length(attnos);
    Datum *names = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), list_nth_int(attnos, i) - 1);
        names[i] = NameGetDatum(&att->attname);
    }
    ArrayType *array = construct_array(names, count, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR);
    return PointerGetDatum(array);
}

List *AttnosOf(Relation base, Datum names) {
    Datum *values;
    int count;
    deconstruct_array(DatumGetArrayTypeP(names), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
                      &values, nullptr, &count);
    List *attnos = NIL;
    for (int i = 0; i < count; i++)
        attnos = lappend_int(attnos, FindColumn(base, NameStr(*DatumGetName(values[i]))));
    return attnos;
}

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

Datum *IncludedNames(CatalogScan &scan, HeapTuple tuple, int *count) {
    bool isnull;
    Datum *names;
    deconstruct_array(DatumGetArrayTypeP(scan.Get(tuple, kDefInclude, &isnull)), NAMEOID,
                      NAMEDATALEN, false, TYPALIGN_CHAR, &names, nullptr, count);
    return names;
}

// Gives a row of definition another value in one column.
void UpdateDefinition(CatalogScan &scan, HeapTuple tuple, int column, Datum value, bool isnull) {
    Datum values[kDefColumns] = {};
    bool nulls[kDefColumns] = {};
    bool replace[kDefColumns] = {};
    values[column - 1] = value;
    nulls[column - 1] = isnull;
    replace[column - 1] = true;
    HeapTuple changed =
        heap_modify_tuple(tuple, RelationGetDescr(scan.relation), values, nulls, replace);
    CatalogTupleUpdate(scan.relation, &tuple->t_self, changed);
}

void SetIncludedNames(CatalogScan &scan, HeapTuple tuple, Datum *names, int count) {
    ArrayType *array = construct_array(names, count, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR);
    UpdateDefinition(scan, tuple, kDefInclude, PointerGetDatum(array), false);
}

// An OID in the row of an index table; InvalidOid where there is no row, or NULL.
Oid ReadDefinitionOid(Oid index_table, int column) {
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(index_table),
                     AccessShareLock);
    Oid oid = InvalidOid;
    if (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Datum value = scan.Get(tuple, column, &isnull);
        oid = isnull ? InvalidOid : DatumGetObjectId(value);
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

Strategy ParseStrategy(const char *name) {
    for (Strategy strategy : {Strategy::Normalized, Strategy::Partial, Strategy::Denormalized})
        if (strcmp(name, StrategyName(strategy)) == 0)
            return strategy;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown strategy \"%s\"", name),
             errhint("The strategies are normalized, partial and denormalized.")));
}

const char *StrategyName(Strategy strategy) {
    switch (strategy) {
    case Strategy::Normalized:
        return "normalized";
    case Strategy::Partial:
        return "partial";
    case Strategy::Denormalized:
        return "denormalized";
    }
    pg_unreachable();
}

void InsertDefinition(Relation base, const Definition &definition) {
    Datum values[kDefColumns];
    bool nulls[kDefColumns] = {};
    values[kDefIndexTable - 1] = ObjectIdGetDatum(definition.relid);
    values[kDefBase - 1] = ObjectIdGetDatum(definition.base);
    values[kDefStrategy - 1] = CStringGetTextDatum(StrategyName(definition.strategy));
    values[kDefKey - 1] = CStringGetTextDatum(definition.key);
    nulls[kDefPredicate - 1] = definition.predicate == nullptr;
    if (definition.predicate)
        values[kDefPredicate - 1] = CStringGetTextDatum(definition.predicate);
    values[kDefIdentity - 1] = NamesOf(base, definition.identity);
    values[kDefInclude - 1] = NamesOf(base, definition.include);
    values[kDefIsUnique - 1] = BoolGetDatum(definition.is_unique);
    values[kDefMaintenance - 1] = CStringGetTextDatum(definition.maintenance);
    values[kDefLog - 1] = ObjectIdGetDatum(definition.log);
    nulls[kDefLog - 1] = !OidIsValid(definition.log);
    values[kDefNullsDistinct - 1] = BoolGetDatum(definition.nulls_distinct);
    values[kDefIsDeferrable - 1] = BoolGetDatum(definition.is_deferrable);
    values[kDefInitiallyDeferred - 1] = BoolGetDatum(definition.initially_deferred);
    InsertRow("definition", values, nulls);
    CommandCounterIncrement();
    Invalidate(definition.base);
}

void DeleteDefinition(Oid relid) {
    Oid base = RecordedBase(relid);
    DeleteRow("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    DeleteRow("retired_partition", "retired_partition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    ForgetLoadedPartitions(relid);
    CommandCounterIncrement();
    if (OidIsValid(base))
        Invalidate(base);
}

void RefreshDefinition(const IndexTable *table) {
    Relation base = try_relation_open(table->base, AccessShareLock);
    if (!base)
        return;
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(table->relid),
                     RowExclusiveLock);
    bool changed = false;
    if (HeapTuple tuple = scan.Next()) {
        TupleDesc descriptor = RelationGetDescr(scan.relation);
        Datum values[kDefColumns] = {};
        bool nulls[kDefColumns] = {};
        bool replace[kDefColumns] = {};
        auto set = [&](int column, Datum value) {
            bool isnull;
            Datum stored = scan.Get(tuple, column, &isnull);
            if (isnull || !datum_image_eq(stored, value, false, -1)) {
                values[column - 1] = value;
                replace[column - 1] = changed = true;
            }
        };
        auto attnos = [](std::span<const CopiedColumn> columns) {
            List *list = NIL;
            for (const CopiedColumn &column : columns)
                list = lappend_int(list, column.base_attno);
            return list;
        };
        set(kDefKey, CStringGetTextDatum(DeparseKey(base, table->key)));
        if (table->predicate)
            set(kDefPredicate, CStringGetTextDatum(DeparsePredicate(base, table->predicate)));
        set(kDefIdentity,
            NamesOf(base, attnos({table->identity, static_cast<Size>(table->identity_count)})));
        set(kDefInclude,
            NamesOf(base, attnos({table->include, static_cast<Size>(table->include_count)})));
        if (changed)
            CatalogTupleUpdate(scan.relation, &tuple->t_self,
                               heap_modify_tuple(tuple, descriptor, values, nulls, replace));
    }
    scan.End();
    relation_close(base, AccessShareLock);
    if (changed) {
        CommandCounterIncrement();
        Invalidate(table->base);
    }
}

void ForgetIncludedColumn(Oid base, const char *name) {
    bool changed = false;
    CatalogScan scan("definition", "definition_base_idx", F_OIDEQ, ObjectIdGetDatum(base),
                     RowExclusiveLock);
    while (HeapTuple tuple = scan.Next()) {
        int count;
        Datum *names = IncludedNames(scan, tuple, &count);
        int kept = 0;
        for (int i = 0; i < count; i++)
            if (namestrcmp(DatumGetName(names[i]), name) != 0)
                names[kept++] = names[i];
        if (kept == count)
            continue;
        SetIncludedNames(scan, tuple, names, kept);
        changed = true;
    }
    scan.End();
    if (changed) {
        CommandCounterIncrement();
        Invalidate(base);
    }
}

// The transaction is that of the definition's row: a new version of it will do.
void NoteBuild(Oid relid) {
    // Partitions may join in different places of the tree at a time, under no lock in common.
    LockDatabaseObject(RelationRelationId, relid, 0, ExclusiveLock);
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        CatalogTupleUpdate(scan.relation, &tuple->t_self, heap_copytuple(tuple));
    scan.End();
    CommandCounterIncrement();
    Invalidate(RecordedBase(relid));
}

void SetLog(Oid relid, Oid log) {
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        UpdateDefinition(scan, tuple, kDefLog, ObjectIdGetDatum(log), !OidIsValid(log));
    scan.End();
    CommandCounterIncrement();
    Invalidate(RecordedBase(relid));
}

void SetMaintenance(Oid relid, bool deferred) {
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next())
        UpdateDefinition(scan, tuple, kDefMaintenance,
                         CStringGetTextDatum(deferred ? "deferred" : "immediate"), false);
    scan.End();
    CommandCounterIncrement();
    Invalidate(RecordedBase(relid));
}

bool HasImmediate(Oid base) {
    bool found = false;
    CatalogScan scan("definition", "definition_base_idx", F_OIDEQ, ObjectIdGetDatum(base),
                     AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Datum maintenance = scan.Get(tuple, kDefMaintenance, &isnull);
        found = found || strcmp(TextDatumGetCString(maintenance), "deferred") != 0;
    }
    scan.End();
    return found;
}

List *ListLoadedPartitions(Oid relid) {
    return ListNumbers("loaded_partition", "loaded_partition_pkey", relid);
}

void NoteLoadedPartition(Oid relid, int32 partition_id) {
    Datum values[] = {ObjectIdGetDatum(relid), Int32GetDatum(partition_id)};
    bool nulls[2] = {};
    InsertRow("loaded_partition", values, nulls);
    CommandCounterIncrement();
}

void ForgetLoadedPartitions(Oid relid) {
    DeleteRow("loaded_partition", "loaded_partition_pkey", F_OIDEQ, ObjectIdGetDatum(relid));
    CommandCounterIncrement();
}

bool AppendIncludedColumn(Oid relid, const char *name) {
    bool added = false;
    CatalogScan scan("definition", "definition_pkey", F_OIDEQ, ObjectIdGetDatum(relid),
                     RowExclusiveLock);
    if (HeapTuple tuple = scan.Next()) {
        int count;
        Datum *names = IncludedNames(scan, tuple, &count);
        added = std::none_of(names, names + count, [=](Datum known) {
            return namestrcmp(DatumGetName(known), name) == 0;
        });
        if (added) {
            Datum *more = static_cast<Datum *>(palloc(sizeof(Datum) * (count + 1)));
            std::copy(names, names + count, more);
            NameData last;
            namestrcpy(&last, name);
            more[count] = NameGetDatum(&last);
            SetIncludedNames(scan, tuple, more, count + 1);
        }
    }
    scan.End();
    if (added) {
        CommandCounterIncrement();
        Invalidate(RecordedBase(relid));
    }
    return added;
}

List *ReadDefinitions(Relation base) {
    List *tables = NIL;
    CatalogScan scan("definition", "definition_base_idx", F_OIDEQ,
                     ObjectIdGetDatum(RelationGetRelid(base)), AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Definition definition = {};
        definition.relid = DatumGetObjectId(scan.Get(tuple, kDefIndexTable, &isnull));
        definition.base = RelationGetRelid(base);
        // Dropped while event triggers were off.
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(definition.relid)))
            continue;
        definition.strategy =
            ParseStrategy(TextDatumGetCString(scan.Get(tuple, kDefStrategy, &isnull)));
        definition.key = TextDatumGetCString(scan.Get(tuple, kDefKey, &isnull));
        Datum predicate = scan.Get(tuple, kDefPredicate, &isnull);
        if (!isnull)
            definition.predicate = TextDatumGetCString(predicate);
        definition.identity = AttnosOf(base, scan.Get(tuple, kDefIdentity, &isnull));
        definition.include = AttnosOf(base, scan.Get(tuple, kDefInclude, &isnull));
        definition.is_unique = DatumGetBool(scan.Get(tuple, kDefIsUnique, &isnull));
        definition.maintenance = TextDatumGetCString(scan.Get(tuple, kDefMaintenance, &isnull));
        Datum log = scan.Get(tuple, kDefLog, &isnull);
        definition.log = isnull ? InvalidOid : DatumGetObjectId(log);
        definition.nulls_distinct = DatumGetBool(scan.Get(tuple, kDefNullsDistinct, &isnull));
        definition.is_deferrable = DatumGetBool(scan.Get(tuple, kDefIsDeferrable, &isnull));
        definition.initially_deferred =
            DatumGetBool(scan.Get(tuple, kDefInitiallyDeferred, &isnull));
        IndexTable *table = MakeIndexTable(base, definition);
        table->built = HeapTupleHeaderGetXmin(tuple->t_data);
        tables = lappend(tables, table);
    }
    scan.End();
    return tables;
}

Oid RecordedBase(Oid index_table) {
    return OidIsValid(ExtensionSchema()) ? ReadDefinitionOid(index_table, kDefBase) : InvalidOid;
}

Oid RecordedLog(Oid index_table) {
    return ReadDefinitionOid(index_table, kDefLog);
}

List *ListIndexTables(Oid base) {
    List *tables = NIL;
    CatalogScan scan("definition", "definition_base_idx", F_OIDEQ, ObjectIdGetDatum(base),
                     AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        tables = lappend_oid(tables, DatumGetObjectId(scan.Get(tuple, kDefIndexTable, &isnull)));
    }
    scan.End();
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

int32 AddPartition(Oid base, Oid leaf) {
    Datum values[kPartColumns];
    bool nulls[kPartColumns] = {};
    int32 id = nextval_internal(ExtensionRelation("partition_id_seq"), false);
    values[kPartId - 1] = Int32GetDatum(id);
    values[kPartBase - 1] = ObjectIdGetDatum(base);
    values[kPartRelation - 1] = ObjectIdGetDatum(leaf);
    InsertRow("partition", values, nulls);
    CommandCounterIncrement();
    CacheInvalidateRelcacheByRelid(leaf);
    return id;
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

namespace {

// Stands for all partitions of a base table.
constexpr uint16 kTruncation = 1;

} // namespace

void RenumberPartition(Oid leaf) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    // Conflicts with nothing that is ever held.
    LockDatabaseObject(RelationRelationId, number->base, kTruncation, RowExclusiveLock);
    RetirePartition(leaf);
    AddPartition(number->base, leaf);
}

void WaitForTruncations(Oid base) {
    LOCKTAG tag;
    SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, base, kTruncation);
    WaitForLockers(tag, ShareLock, false);
}

void DeletePartitions(Oid base) {
    DeleteRow("partition", "partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base));
    DeleteRow("retired_partition", "retired_partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base));
    CommandCounterIncrement();
    Invalidate(base);
}

void RaiseDropped(Oid relid) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("relation with OID %u does not exist", relid)));
}

Relation OpenRelation(Oid relid, LOCKMODE mode) {
    Relation rel = try_relation_open(relid, mode);
    if (!rel)
        RaiseDropped(relid);
    return rel;
}

bool FindParent(Oid partition, Parent *parent) {
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(partition));
    SysScanDesc scan =
        systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, nullptr, 1, &key);
    HeapTuple tuple = systable_getnext(scan);
    bool is_found = HeapTupleIsValid(tuple);
    if (is_found) {
        Form_pg_inherits form = reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple));
        *parent = {.relid = form->inhparent,
                   .is_detach_pending = form->inhdetachpending,
                   .changed_by = HeapTupleHeaderGetXmin(tuple->t_data)};
    }
    systable_endscan(scan);
    table_close(inherits, AccessShareLock);
    return is_found;
}

Oid RootOf(Oid relid) {
    while (get_rel_relispartition(relid)) {
        Parent parent;
        if (!FindParent(relid, &parent))
            break;
        relid = parent.relid;
    }
    return relid;
}

List *ListPartitions(Oid base) {
    List *leaves = NIL;
    CatalogScan scan("partition", "partition_base_idx", F_OIDEQ, ObjectIdGetDatum(base),
                     AccessShareLock);
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        leaves = lappend_oid(leaves, DatumGetObjectId(scan.Get(tuple, kPartRelation, &isnull)));
    }
    scan.End();
    return leaves;
}

std::optional<PartitionNumber> FindPartitionNumber(Oid leaf) {
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
    return ListNumbers("retired_partition", "retired_partition_pkey", index_table);
}

void ForgetRetiredNumbers(Oid index_table, List *numbers) {
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
