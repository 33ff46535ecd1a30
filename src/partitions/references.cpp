#include "partitions/references.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "partitions/sweep.h"
#include "partitions/triggers.h"

namespace index_table {
namespace {

constexpr char kRemoved[] = "removed";

// A foreign key that points at an index table.
struct ForeignKey {
    Oid oid;
    char *name;
    Oid referencing;
    bool is_validated;
    int count;
    AttrNumber columns[INDEX_MAX_KEYS]; // of the referencing table
    AttrNumber keys[INDEX_MAX_KEYS];    // of the index table
    int positions[INDEX_MAX_KEYS];      // likewise, in the entry
    Oid operators[INDEX_MAX_KEYS];      // key = column
    Oid key_operators[INDEX_MAX_KEYS];  // key = key
};

// Null where it refers to columns that are not the extension's, or is gone.
ForeignKey *ReadForeignKey(Oid constraint, Relation rel, const IndexTable *table) {
    HeapTuple tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
    if (!HeapTupleIsValid(tuple))
        return nullptr;
    Form_pg_constraint form = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(tuple));
    ForeignKey *key = palloc_object(ForeignKey);
    *key = {.oid = constraint,
            .name = pstrdup(NameStr(form->conname)),
            .referencing = form->conrelid,
            .is_validated = form->convalidated};
    Oid ignored[INDEX_MAX_KEYS];
    DeconstructFkConstraintRow(tuple, &key->count, key->columns, key->keys, key->operators,
                               key->key_operators, ignored, nullptr, nullptr);
    ReleaseSysCache(tuple);
    const AttrNumber *own = GetLiveColumns(rel, table->column_count);
    for (int i = 0; i < key->count; i++) {
        key->positions[i] = std::find(own, own + table->column_count, key->keys[i]) - own;
        if (key->positions[i] == table->column_count)
            return nullptr;
    }
    return key;
}

// Found by the triggers: those of partitions of a referencing table have none of their own here.
List *ListForeignKeys(Relation rel, const IndexTable *table) {
    List *oids = NIL;
    List *keys = NIL;
    const TriggerDesc *triggers = rel->trigdesc;
    for (int i = 0; triggers && i < triggers->numtriggers; i++)
        if (RI_FKey_trigger_type(triggers->triggers[i].tgfoid) == RI_TRIGGER_PK)
            oids = list_append_unique_oid(oids, triggers->triggers[i].tgconstraint);
    ListCell *cell;
    foreach (cell, oids)
        if (ForeignKey *key = ReadForeignKey(lfirst_oid(cell), rel, table))
            keys = lappend(keys, key);
    return keys;
}

// Against writers, for the rest of the transaction, as when PostgreSQL detaches a partition.
void LockReferencing(List *keys) {
    ListCell *cell;
    foreach (cell, keys) {
        Oid referencing = static_cast<ForeignKey *>(lfirst(cell))->referencing;
        LockRelationOid(referencing, ShareLock);
        find_all_inheritors(referencing, ShareLock, nullptr);
    }
}

void AppendEquality(StringInfo sql, const char *left, Oid left_type, Oid oper, const char *right,
                    Oid right_type) {
    generate_operator_clause(sql, left, left_type, oper, right, right_type);
}

// removed.c1 = fk.email AND …, with the index table's collations.
void AppendJoin(StringInfo sql, const ForeignKey *key, const RemovedEntries *removed,
                Relation referencing) {
    for (int i = 0; i < key->count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(referencing), key->columns[i] - 1);
        Form_pg_attribute key_att = TupleDescAttr(removed->descriptor, key->positions[i]);
        appendStringInfoString(sql, i ? " AND " : "");
        AppendEquality(sql, psprintf("r.%s", NameStr(key_att->attname)), key_att->atttypid,
                       key->operators[i],
                       psprintf("fk.%s", quote_identifier(NameStr(att->attname))), att->atttypid);
        if (OidIsValid(key_att->attcollation) && key_att->attcollation != att->attcollation)
            appendStringInfo(sql, " COLLATE %s", generate_collation_name(key_att->attcollation));
    }
}

// A row that refers to a removed entry, and the entry's partition number.
char *ReferringQuery(const ForeignKey *key, const RemovedEntries *removed, Relation referencing,
                     bool skips_vanishing) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT r.c%d", removed->table->partition_position() + 1);
    for (int i = 0; i < key->count; i++)
        appendStringInfo(&sql, ", fk.%s",
                         quote_identifier(get_attname(key->referencing, key->columns[i], false)));
    bool is_partitioned = referencing->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
    appendStringInfo(&sql, " FROM %s%s AS fk JOIN %s AS r ON ", is_partitioned ? "" : "ONLY ",
                     QualifiedName(key->referencing), kRemoved);
    AppendJoin(&sql, key, removed, referencing);
    if (skips_vanishing)
        appendStringInfoString(&sql, " WHERE fk.tableoid OPERATOR(pg_catalog.<>) ALL ($1)");
    return sql.data;
}

// Registers removed entries as a table for SPI, to which it is connected.
void Register(const RemovedEntries *removed) {
    EphemeralNamedRelation relation =
        static_cast<EphemeralNamedRelation>(palloc0(sizeof(EphemeralNamedRelationData)));
    relation->md.name = pstrdup(kRemoved);
    relation->md.reliddesc = InvalidOid;
    relation->md.tupdesc = removed->descriptor;
    relation->md.enrtype = ENR_NAMED_TUPLESTORE;
    relation->md.enrtuples = static_cast<double>(removed->count);
    relation->reldata = removed->entries;
    tuplestore_rescan(removed->entries);
    if (SPI_register_relation(relation) != SPI_OK_REL_REGISTER)
        elog(ERROR, "cannot register removed entries");
}

// Runs a query over removed entries under the latest snapshot, as a foreign key's own queries do.
void RunOverRemoved(const char *sql, const RemovedEntries *removed, List *vanishing, long limit) {
    Register(removed);
    Oid type = OIDARRAYOID;
    SPIPlanPtr plan = SPI_prepare(sql, vanishing != NIL ? 1 : 0, &type);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    Datum *oids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(1, list_length(vanishing))));
    for (int i = 0; i < list_length(vanishing); i++)
        oids[i] = ObjectIdGetDatum(list_nth_oid(vanishing, i));
    Datum argument = PointerGetDatum(
        construct_array(oids, list_length(vanishing), OIDOID, sizeof(Oid), true, TYPALIGN_INT));
    int result = SPI_execute_snapshot(plan, &argument, nullptr, GetLatestSnapshot(),
                                      InvalidSnapshot, true, false, limit);
    if (result != SPI_OK_SELECT)
        elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
}

// Those of the removed entries whose key, as far as a foreign key is concerned, has no entry now.
// The caller is connected to SPI.
RemovedEntries *WithoutReturned(const ForeignKey *key, RemovedEntries *removed) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT r.* FROM %s AS r WHERE NOT EXISTS (SELECT FROM %s AS e WHERE ",
                     kRemoved, QualifiedName(removed->table->relid));
    for (int i = 0; i < key->count; i++) {
        Form_pg_attribute att = TupleDescAttr(removed->descriptor, key->positions[i]);
        appendStringInfoString(&sql, i ? " AND " : "");
        AppendEquality(
            &sql, psprintf("r.%s", NameStr(att->attname)), att->atttypid, key->key_operators[i],
            psprintf("e.%s",
                     quote_identifier(get_attname(removed->table->relid, key->keys[i], false))),
            att->atttypid);
    }
    appendStringInfoChar(&sql, ')');
    OwnerContext owner = EnterOwner(RelationOwner(removed->table->relid));
    SetForQuery("index_table.enable_scan", "off");
    RunOverRemoved(sql.data, removed, NIL, 0);
    RemovedEntries *left = BeginRemoval(removed->table);
    for (uint64 i = 0; i < SPI_processed; i++) {
        tuplestore_puttuple(left->entries, SPI_tuptable->vals[i]);
        left->count++;
    }
    SPI_unregister_relation(kRemoved);
    LeaveOwner(owner);
    return left;
}

// Why entries were removed, as far as messages say so.
enum class Removal { Partition, Truncation, Repair, NewForeignKey };

// "a, b)=(1, 2": the columns of one table, the values of a row's columns from the second on.
char *DescribeKey(const ForeignKey *key, HeapTuple row, TupleDesc descriptor, Oid relid,
                  const AttrNumber *columns) {
    StringInfoData names, values;
    initStringInfo(&names);
    initStringInfo(&values);
    for (int i = 0; i < key->count; i++) {
        const char *separator = i ? ", " : "";
        const char *value = SPI_getvalue(row, descriptor, i + 2);
        appendStringInfo(&names, "%s%s", separator, get_attname(relid, columns[i], false));
        appendStringInfo(&values, "%s%s", separator, value ? value : "null");
    }
    return psprintf("%s)=(%s", names.data, values.data);
}

[[noreturn]] void RaiseViolation(const ForeignKey *key, const RemovedEntries *removed,
                                 Relation referencing, Removal removal, List *leaving) {
    HeapTuple row = SPI_tuptable->vals[0];
    TupleDesc descriptor = SPI_tuptable->tupdesc;
    const char *table = RelationGetRelationName(referencing);
    const char *index_table = get_rel_name(removed->table->relid);
    if (removal == Removal::NewForeignKey)
        ereport(ERROR,
                (errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
                 errmsg("insert or update on table \"%s\" violates foreign key constraint \"%s\"",
                        table, key->name),
                 errdetail("Key (%s) is not present in table \"%s\".",
                           DescribeKey(key, row, descriptor, key->referencing, key->columns),
                           index_table),
                 errtableconstraint(referencing, key->name)));
    const char *named = DescribeKey(key, row, descriptor, removed->table->relid, key->keys);
    if (removal == Removal::Repair)
        ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
                        errmsg("update or delete on table \"%s\" violates foreign key constraint "
                               "\"%s\" on table \"%s\"",
                               index_table, key->name, table),
                        errdetail("Key (%s) is still referenced from table \"%s\".", named, table),
                        errtableconstraint(referencing, key->name)));
    bool isnull;
    int32 number = DatumGetInt32(SPI_getbinval(row, descriptor, 1, &isnull));
    const char *partition = "";
    ListCell *cell;
    foreach (cell, leaving)
        if (static_cast<Leaving *>(lfirst(cell))->number == number)
            partition = static_cast<Leaving *>(lfirst(cell))->name;
    ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
                    removal == Removal::Truncation
                        ? errmsg("truncating \"%s\" violates foreign key constraint \"%s\"",
                                 partition, key->name)
                        : errmsg("removing partition \"%s\" violates foreign key constraint \"%s\"",
                                 partition, key->name),
                    errdetail("Key (%s) is still referenced from table \"%s\".", named, table),
                    errtableconstraint(referencing, key->name)));
}

// Raises 23503 where a row refers to a removed entry. With the rights of the referencing table's
// owner, as a foreign key's own queries: nobody else may be allowed to read it.
void CheckForeignKey(const ForeignKey *key, RemovedEntries *removed, Removal removal, List *leaving,
                     List *vanishing) {
    if (removed->count == 0 || list_member_oid(vanishing, key->referencing))
        return;
    bool may_return = removal == Removal::Repair || removal == Removal::NewForeignKey;
    Relation referencing = table_open(key->referencing, AccessShareLock);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (may_return)
        removed = WithoutReturned(key, removed);
    OwnerContext owner = EnterOwner(referencing->rd_rel->relowner);
    SetForQuery("index_table.enable_scan", "off");
    SetForQuery("work_mem", psprintf("%d", maintenance_work_mem));
    SetForQuery("hash_mem_multiplier", "1");
    RunOverRemoved(ReferringQuery(key, removed, referencing, vanishing != NIL), removed, vanishing,
                   1);
    if (SPI_processed > 0)
        RaiseViolation(key, removed, referencing, removal, leaving);
    LeaveOwner(owner);
    SPI_finish();
    table_close(referencing, NoLock);
}

void CheckForeignKeys(List *keys, RemovedEntries *removed, Removal removal, List *leaving,
                      List *vanishing) {
    CommandCounterIncrement();
    ListCell *cell;
    foreach (cell, keys)
        CheckForeignKey(static_cast<ForeignKey *>(lfirst(cell)), removed, removal, leaving,
                        vanishing);
}

List *NumbersOf(List *leaving) {
    List *numbers = NIL;
    ListCell *cell;
    foreach (cell, leaving)
        numbers = lappend_int(numbers, static_cast<Leaving *>(lfirst(cell))->number);
    return numbers;
}

void Remove(Oid base, List *leaving, Removal removal, List *vanishing, bool just_check) {
    ListCell *cell;
    foreach (cell, leaving != NIL ? ListIndexTables(base) : NIL) {
        if (!LockIfTriggersLook(lfirst_oid(cell)))
            continue;
        const IndexTable *table = GetIndexTable(lfirst_oid(cell));
        Relation rel = relation_open(table->relid, NoLock);
        List *keys = ListForeignKeys(rel, table);
        relation_close(rel, NoLock);
        LockReferencing(keys);
        RemovedEntries *removed = BeginRemoval(table);
        RemoveEntriesOf(table, NumbersOf(leaving), removed, just_check);
        bool is_replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
        if (removal != Removal::Truncation || !is_replica)
            CheckForeignKeys(keys, removed, removal, leaving, vanishing);
        tuplestore_end(removed->entries);
    }
}

// The leaves that the running command truncates with this one.
List *LeavesTruncatedWith(Oid base, List *truncated) {
    List *leaving = NIL;
    ListCell *cell;
    foreach (cell, truncated) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && number->base == base)
            AddLeaving(&leaving, lfirst_oid(cell), get_rel_name(lfirst_oid(cell)));
    }
    return leaving;
}

} // namespace

RemovedEntries *BeginRemoval(const IndexTable *table) {
    Assert(IsKnown(table) && IsMemoryFreed());
    RemovedEntries *removed = static_cast<RemovedEntries *>(palloc0(sizeof(RemovedEntries)));
    removed->table = table;
    Relation rel = relation_open(table->relid, AccessShareLock);
    const AttrNumber *own = GetLiveColumns(rel, table->column_count);
    removed->descriptor = CreateTemplateTupleDesc(table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), own[i] - 1);
        TupleDescInitEntry(removed->descriptor, i + 1, psprintf("c%d", i + 1), att->atttypid,
                           att->atttypmod, 0);
        TupleDescInitEntryCollation(removed->descriptor, i + 1, att->attcollation);
    }
    compat::FinishDescriptor(removed->descriptor);
    relation_close(rel, NoLock);
    removed->entries = tuplestore_begin_heap(true, false, work_mem);
    return removed;
}

void RememberRemoved(RemovedEntries *removed, const Datum *values, const bool *nulls) {
    tuplestore_putvalues(removed->entries, removed->descriptor, const_cast<Datum *>(values),
                         const_cast<bool *>(nulls));
    removed->count++;
}

namespace {

// Those of a deferrable constraint look at entries when the transaction ends.
bool HasDeferrableConstraint(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    return triggers && std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                                   [](const Trigger &trigger) {
                                       return trigger.tgfoid == F_UNIQUE_KEY_RECHECK;
                                   });
}

} // namespace

bool LockIfTriggersLook(Oid index_table) {
    // One that is being built is not unique yet, and locked for long.
    if (OidIsValid(RecordedLog(index_table)))
        return false;
    Relation rel = try_relation_open(index_table, RowExclusiveLock);
    if (!rel)
        return false;
    bool triggers_look = IsReferencedByForeignKey(rel) || HasDeferrableConstraint(rel);
    relation_close(rel, NoLock);
    return triggers_look;
}

void CheckAfterRepair(RemovedEntries *removed) {
    Assert(IsLocked(removed->table->relid, RowExclusiveLock));
    Relation rel = relation_open(removed->table->relid, NoLock);
    List *keys = ListForeignKeys(rel, removed->table);
    relation_close(rel, NoLock);
    CheckForeignKeys(keys, removed, Removal::Repair, NIL, NIL);
}

void AddLeaving(List **leaving, Oid leaf, const char *name) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    Leaving *one = palloc_object(Leaving);
    *one = {.number = number->id, .name = name};
    *leaving = lappend(*leaving, one);
}

void RemoveReferenced(Oid base, List *leaving, bool just_check) {
    Remove(base, leaving, Removal::Partition, NIL, just_check);
}

void ForgetReferenced(Oid base, List *leaving) {
    ListCell *cell;
    foreach (cell, leaving != NIL ? ListIndexTables(base) : NIL)
        if (LockIfTriggersLook(lfirst_oid(cell)))
            ForgetRetiredNumbers(lfirst_oid(cell), NumbersOf(leaving));
}

void RenumberReferenced(Oid leaf) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    if (!WasTruncated(number->id)) {
        List *truncated = list_append_unique_oid(TruncatedRelations(), leaf);
        List *leaving = LeavesTruncatedWith(number->base, truncated);
        Remove(number->base, leaving, Removal::Truncation, truncated, false);
        RememberTruncated(NumbersOf(leaving));
    }
    List *leaving = NIL;
    AddLeaving(&leaving, leaf, get_rel_name(leaf));
    RemoveOwnEntries(leaf);
    RenumberPartition(leaf);
    ForgetReferenced(number->base, leaving);
}

void FollowConstraints(Oid relid) {
    if (OidIsValid(RecordedBase(relid)) && ListRetiredNumbers(relid) != NIL &&
        LockIfTriggersLook(relid))
        SweepEntries(GetIndexTable(relid));
}

void FollowForeignKeys(Oid referencing) {
    Relation rel = try_relation_open(referencing, AccessShareLock);
    if (!rel)
        return;
    OrderRowTriggers(referencing);
    List *foreign_keys = rel->rd_rel->relkind == RELKIND_RELATION ||
                                 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE
                             ? copyObject(RelationGetFKeyList(rel))
                             : NIL;
    relation_close(rel, NoLock);
    ListCell *cell;
    foreach (cell, foreign_keys) {
        ForeignKeyCacheInfo *info = lfirst_node(ForeignKeyCacheInfo, cell);
        if (!OidIsValid(RecordedBase(info->confrelid)) ||
            ListRetiredNumbers(info->confrelid) == NIL)
            continue;
        const IndexTable *table = GetIndexTable(info->confrelid);
        RemovedEntries *removed = BeginRemoval(table);
        SweepEntries(table, removed);
        Relation index_table = relation_open(table->relid, AccessShareLock);
        ForeignKey *key = ReadForeignKey(info->conoid, index_table, table);
        relation_close(index_table, NoLock);
        if (key && key->is_validated)
            CheckForeignKeys(list_make1(key), removed, Removal::NewForeignKey, NIL, NIL);
        tuplestore_end(removed->entries);
    }
}

} // namespace index_table
