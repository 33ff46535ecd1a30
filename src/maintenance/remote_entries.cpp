#include "maintenance/remote_entries.h"

#include "core/public.h"
#include "maintenance/intent.h"
#include "maintenance/shard_writes.h"
#include "maintenance/storage.h"
#include "maintenance/violation.h"

namespace index_table {
namespace {

constexpr Size kDeletedAtOnce = 5000;
constexpr Size kArms = 50; // entries that a statement names one by one
constexpr int kMostParameters = 65535;

// An entry to be deleted.
struct Wanted {
    const Change *change;
    Datum *values; // by position
    bool *nulls;
    uint32 hash; // of the columns of the group
    bool has_nulls;
    bool is_found;
};

// A partition of the index table, and what is to be done there.
struct Part {
    Relation rel;
    const AttrNumber *attnos; // by position
    Wanted *deletes;
    Size delete_count;
    List *inserts; // Change
};

struct ServerWriter {
    const IndexTable *table;
    ChangeBuffer *buffer;
    EntryStorage storage;
    const AttrNumber *attnos; // of the index table itself
    bool more_to_come;
    Oid user;    // who makes the changes
    Part *parts; // by place
};

// --- Conditions --------------------------------------------------------------

// How a column of an entry is compared: the operator's type, and the operator.
struct Equality {
    Oid type;
    Oid array_type;
    Oid operator_oid;
    Oid collation;
};

Equality EqualityOf(const IndexTable *table, int position) {
    bool is_key = position < table->key.count;
    Oid opclass = is_key ? table->key.columns[position].opclass
                         : GetDefaultOpClass(table->types[position], BTREE_AM_OID);
    Oid input = get_opclass_input_type(opclass);
    Oid type = getBaseType(table->types[position]);
    if (type == VARCHAROID)
        type = TEXTOID;
    return {.type = type,
            .array_type = get_array_type(type),
            .operator_oid = get_opfamily_member(get_opclass_family(opclass), input, input,
                                                BTEqualStrategyNumber),
            .collation = get_typcollation(type)};
}

// A condition under construction; its parameters' values.
struct Conditions {
    const IndexTable *table;
    const Part *part;
    int count;
    int room;
    Oid *types;
    Datum *values;
};

Node *AddParameter(Conditions *conditions, Oid type, Datum value) {
    if (conditions->count == conditions->room) {
        conditions->room *= 2;
        conditions->types =
            static_cast<Oid *>(repalloc(conditions->types, sizeof(Oid) * conditions->room));
        conditions->values =
            static_cast<Datum *>(repalloc(conditions->values, sizeof(Datum) * conditions->room));
    }
    conditions->types[conditions->count] = type;
    conditions->values[conditions->count++] = value;
    Param *param = makeNode(Param);
    param->paramkind = PARAM_EXTERN;
    param->paramid = conditions->count;
    param->paramtype = type;
    param->paramtypmod = -1;
    param->paramcollid = get_typcollation(type);
    param->location = -1;
    return reinterpret_cast<Node *>(param);
}

Var *MakeColumn(const Conditions *conditions, int position) {
    AttrNumber attno = conditions->part->attnos[position];
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(conditions->part->rel), attno - 1);
    return makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0);
}

Node *AsOperand(Var *column, Oid type) {
    if (column->vartype == type)
        return reinterpret_cast<Node *>(column);
    return reinterpret_cast<Node *>(makeRelabelType(reinterpret_cast<Expr *>(column), type, -1,
                                                    column->varcollid, COERCE_IMPLICIT_CAST));
}

// column = ANY (values)
ScalarArrayOpExpr *AnyOf(Conditions *conditions, int position, Datum *values, int count) {
    Equality equality = EqualityOf(conditions->table, position);
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(equality.type, &length, &by_value, &align);
    ArrayType *array = construct_array(values, count, equality.type, length, by_value, align);
    Var *column = MakeColumn(conditions, position);
    ScalarArrayOpExpr *any = makeNode(ScalarArrayOpExpr);
    any->opno = equality.operator_oid;
    set_sa_opfuncid(any);
    any->useOr = true;
    any->inputcollid = column->varcollid;
    any->args = list_make2(AsOperand(column, equality.type),
                           AddParameter(conditions, equality.array_type, PointerGetDatum(array)));
    any->location = -1;
    return any;
}

// partition_id <> ALL (numbers)
ScalarArrayOpExpr *NoneOf(Conditions *conditions, Datum *numbers, int count) {
    ScalarArrayOpExpr *all =
        AnyOf(conditions, conditions->table->partition_position(), numbers, count);
    all->opno = get_negator(all->opno);
    set_sa_opfuncid(all);
    all->useOr = false;
    return all;
}

// column = value, or column IS NULL
Node *Equals(Conditions *conditions, int position, Datum value, bool isnull) {
    Var *column = MakeColumn(conditions, position);
    if (isnull) {
        NullTest *test = makeNode(NullTest);
        test->arg = reinterpret_cast<Expr *>(column);
        test->nulltesttype = IS_NULL;
        test->location = -1;
        return reinterpret_cast<Node *>(test);
    }
    Equality equality = EqualityOf(conditions->table, position);
    return reinterpret_cast<Node *>(
        make_opclause(equality.operator_oid, BOOLOID, false,
                      reinterpret_cast<Expr *>(AsOperand(column, equality.type)),
                      reinterpret_cast<Expr *>(AddParameter(conditions, equality.type, value)),
                      InvalidOid, column->varcollid));
}

// The columns that make up an entry's place: key, partition_id, identity.
int GroupCount(const IndexTable *table) {
    return table->group_count();
}

// Every combination of the columns' values: may name entries that are not wanted. Those that are
// named so belong to changed rows, whatever the key, if one column tells rows apart.
Node *ByArrays(Conditions *conditions, std::span<Wanted *> wanted) {
    List *tests = NIL;
    Datum *values = palloc_array(Datum, wanted.size());
    for (int position = 0; position < GroupCount(conditions->table); position++) {
        int count = 0;
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(conditions->part->rel),
                                              conditions->part->attnos[position] - 1);
        for (const Wanted *entry : wanted) {
            Datum value = entry->values[position];
            bool repeats =
                count > 0 && datum_image_eq(values[count - 1], value, att->attbyval, att->attlen);
            if (!repeats)
                values[count++] = value;
        }
        tests = lappend(tests, AnyOf(conditions, position, values, count));
    }
    return reinterpret_cast<Node *>(make_ands_explicit(tests));
}

// Entries by name, one after the other.
Node *ByArms(Conditions *conditions, std::span<Wanted *> wanted) {
    List *arms = NIL;
    for (const Wanted *entry : wanted) {
        List *tests = NIL;
        for (int position = 0; position < GroupCount(conditions->table); position++)
            tests = lappend(tests, Equals(conditions, position, entry->values[position],
                                          entry->nulls[position]));
        arms = lappend(arms, make_ands_explicit(tests));
    }
    return list_length(arms) == 1 ? static_cast<Node *>(linitial(arms))
                                  : reinterpret_cast<Node *>(make_orclause(arms));
}

// Whether entries are told apart by arrays well enough: rows are by a single column.
bool MayUseArrays(const IndexTable *table) {
    int identity = GroupCount(table) - table->key.count - 1;
    if (identity > 1)
        return false;
    for (int position = 0; position < GroupCount(table); position++)
        if (!OidIsValid(EqualityOf(table, position).array_type))
            return false;
    return true;
}

// --- Deletion ----------------------------------------------------------------

// DELETE FROM ONLY part WHERE condition [RETURNING every column, by position]
Query *MakeDelete(const ServerWriter *writer, const Part *part, Node *condition, bool returning) {
    ParseState *state = make_parsestate(nullptr);
    RangeTblEntry *rte =
        addRangeTableEntryForRelation(state, part->rel, RowExclusiveLock, nullptr, false, true)
            ->p_rte;
    Query *query = makeNode(Query);
    query->commandType = CMD_DELETE;
    query->querySource = QSRC_ORIGINAL;
    query->canSetTag = true;
    query->rtable = state->p_rtable;
    query->resultRelation = 1;
    compat::SetUncheckedReader(query, state, rte, RelationOwner(writer->table->relid));
    RangeTblRef *reference = makeNode(RangeTblRef);
    reference->rtindex = 1;
    query->jointree = makeFromExpr(list_make1(reference), condition);
    for (int position = 0; returning && position < writer->table->column_count; position++) {
        AttrNumber attno = part->attnos[position];
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(part->rel), attno - 1);
        Var *column = makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0);
        query->returningList = lappend(
            query->returningList, makeTargetEntry(reinterpret_cast<Expr *>(column), position + 1,
                                                  pstrdup(NameStr(att->attname)), false));
    }
    free_parsestate(state);
    return query;
}

// A row that was deleted.
struct Deleted {
    Datum *values;
    bool *nulls;
    bool is_wanted;
};

// Runs a deletion; calls take(values, nulls) for what it returns. A part of the statement that
// runs: neither hooks nor statistics are to see it, and the guard is not asked.
template <typename Take>
void RunDelete(const ServerWriter *writer, const Part *part, const Conditions &conditions,
               Node *condition, bool returning, Take take) {
    PlannedStmt *plan =
        compat::PlanWithoutHooks(MakeDelete(writer, part, condition, returning), nullptr);
    ParamListInfo parameters = makeParamList(conditions.count);
    for (int i = 0; i < conditions.count; i++)
        parameters->params[i] = {.value = conditions.values[i],
                                 .isnull = false,
                                 .pflags = PARAM_FLAG_CONST,
                                 .ptype = conditions.types[i]};
    QueryDesc *query = CreateQueryDesc(plan, "", GetActiveSnapshot(), InvalidSnapshot,
                                       None_Receiver, parameters, nullptr, 0);
    compat::StartUnchecked(query, 0);
    EState *estate = query->estate;
    ListCell *cell;
    foreach (cell, estate->es_opened_result_relations)
        static_cast<ResultRelInfo *>(lfirst(cell))->ri_TrigDesc = nullptr;
    for (;;) {
        ResetPerTupleExprContext(estate);
        MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
        TupleTableSlot *slot = ExecProcNode(query->planstate);
        MemoryContextSwitchTo(caller);
        if (TupIsNull(slot))
            break;
        slot_getallattrs(slot);
        take(slot->tts_values, slot->tts_isnull);
    }
    standard_ExecutorFinish(query);
    standard_ExecutorEnd(query);
    FreeQueryDesc(query);
}

uint32 HashGroup(const ServerWriter *writer, const Datum *values, const bool *nulls) {
    TupleDesc descriptor = writer->buffer->descriptor;
    uint32 hash = 0;
    for (int i = 0; i < GroupCount(writer->table); i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, writer->attnos[i] - 1);
        hash = hash_combine(hash, nulls[i] ? 0 : HashImage(att, values[i]));
    }
    return hash;
}

bool HasColumns(const ServerWriter *writer, const Wanted &wanted, const Datum *values,
                const bool *nulls, int first, int last) {
    for (int i = first; i < last; i++) {
        Form_pg_attribute att = TupleDescAttr(writer->buffer->descriptor, writer->attnos[i] - 1);
        if (nulls[i] != wanted.nulls[i] ||
            (!nulls[i] && !IsSameImage(att, values[i], wanted.values[i])))
            return false;
    }
    return true;
}

// The wanted entry that a deleted row is; with `whole` its included columns must be the same, too.
Wanted *FindWanted(const ServerWriter *writer, std::span<Wanted *> wanted, const Datum *values,
                   const bool *nulls, bool whole) {
    uint32 hash = HashGroup(writer, values, nulls);
    int last = whole ? writer->table->column_count : GroupCount(writer->table);
    auto found =
        std::lower_bound(wanted.begin(), wanted.end(), hash,
                         [](const Wanted *entry, uint32 value) { return entry->hash < value; });
    for (; found != wanted.end() && (*found)->hash == hash; ++found)
        if (!(*found)->is_found && HasColumns(writer, **found, values, nulls, 0, last))
            return *found;
    return nullptr;
}

// An entry that a statement has deleted though nobody wanted it to.
Change *MakeInsert(ServerWriter *writer, const Change *like, const Deleted &row) {
    TupleDesc descriptor = writer->buffer->descriptor;
    Datum *values = palloc0_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    memset(nulls, true, descriptor->natts);
    for (int i = 0; i < writer->table->column_count; i++) {
        values[writer->attnos[i] - 1] = row.values[i];
        nulls[writer->attnos[i] - 1] = row.nulls[i];
    }
    Change *change = palloc_object(Change);
    *change = *like;
    change->entry = heap_form_tuple(descriptor, values, nulls);
    change->kind = ChangeKind::Insert;
    return change;
}

// Gives a row back to the buffer as the insertion that cancels a deletion of it.
void PutBack(ServerWriter *writer, const Change *like, const Deleted &row) {
    EntryValues entry = {.values = palloc0_array(Datum, writer->buffer->descriptor->natts),
                         .nulls = palloc_array(bool, writer->buffer->descriptor->natts)};
    memset(entry.nulls, true, writer->buffer->descriptor->natts);
    for (int i = 0; i < writer->table->column_count; i++) {
        entry.values[writer->attnos[i] - 1] = row.values[i];
        entry.nulls[writer->attnos[i] - 1] = row.nulls[i];
    }
    AddChange(writer->buffer, entry, ChangeKind::Insert, like->command);
}

[[noreturn]] void RaiseConcurrent(const IndexTable *table, const char *detail, const char *hint) {
    ereport(ERROR,
            (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
             errmsg("could not serialize access due to concurrent changes of index table \"%s\"",
                    get_rel_name(table->relid)),
             errdetail_internal("%s", detail), errhint("%s", hint),
             err_generic_string(PG_DIAG_TABLE_NAME, get_rel_name(table->relid))));
}

[[noreturn]] void RaiseMissing(const IndexTable *table) {
    RaiseConcurrent(table,
                    "Entries of changed rows are not there, as far as this transaction sees the "
                    "servers that hold them.",
                    "Run the transaction again. If it fails for good, the index table lacks "
                    "entries: index_table.repair() mends it.");
}

// One statement.
void Delete(ServerWriter *writer, Part *part, std::span<Wanted *> wanted, bool by_arrays) {
    FAULT_POINT("remote_entries.delete");
    Conditions conditions = {.table = writer->table, .part = part, .room = 16};
    conditions.types = palloc_array(Oid, conditions.room);
    conditions.values = palloc_array(Datum, conditions.room);
    Node *condition = by_arrays ? ByArrays(&conditions, wanted) : ByArms(&conditions, wanted);
    List *returned = NIL;
    MemoryContext memory = CurrentMemoryContext;
    RunDelete(writer, part, conditions, condition, true,
              [&](const Datum *values, const bool *nulls) {
                  MemoryContext caller = MemoryContextSwitchTo(memory);
                  Deleted *row = palloc0_object(Deleted);
                  int count = writer->table->column_count;
                  row->values = palloc_array(Datum, count);
                  row->nulls = palloc_array(bool, count);
                  for (int i = 0; i < count; i++) {
                      Form_pg_attribute att =
                          TupleDescAttr(writer->buffer->descriptor, writer->attnos[i] - 1);
                      row->nulls[i] = nulls[i];
                      if (!nulls[i])
                          row->values[i] = datumCopy(values[i], att->attbyval, att->attlen);
                  }
                  returned = lappend(returned, row);
                  MemoryContextSwitchTo(caller);
              });
    std::sort(wanted.begin(), wanted.end(),
              [](const Wanted *a, const Wanted *b) { return a->hash < b->hash; });
    ListCell *cell;
    // The very copy first.
    for (bool whole : {true, false})
        foreach (cell, returned) {
            Deleted *row = static_cast<Deleted *>(lfirst(cell));
            if (row->is_wanted || (!whole && writer->more_to_come))
                continue;
            Wanted *found = FindWanted(writer, wanted, row->values, row->nulls, whole);
            row->is_wanted = found != nullptr;
            if (found)
                found->is_found = true;
        }
    const Change *like = wanted[0]->change;
    foreach (cell, returned) {
        Deleted *row = static_cast<Deleted *>(lfirst(cell));
        if (row->is_wanted)
            continue;
        if (writer->more_to_come)
            PutBack(writer, like, *row);
        else
            part->inserts = lappend(part->inserts, MakeInsert(writer, like, *row));
    }
    for (Wanted *entry : wanted) {
        if (entry->is_found)
            continue;
        if (!writer->more_to_come)
            RaiseMissing(writer->table);
        KeepUnmatched(writer->buffer, *entry->change);
    }
    CHECK_FOR_INTERRUPTS();
}

void DeleteFromPart(ServerWriter *writer, Part *part) {
    if (part->delete_count == 0)
        return;
    bool may_use_arrays = MayUseArrays(writer->table);
    Wanted **arrays = palloc_array(Wanted *, part->delete_count);
    Wanted **arms = palloc_array(Wanted *, part->delete_count);
    Size array_count = 0, arm_count = 0;
    for (Wanted &entry : std::span(part->deletes, part->delete_count))
        if (may_use_arrays && !entry.has_nulls)
            arrays[array_count++] = &entry;
        else
            arms[arm_count++] = &entry;
    for (Size i = 0; i < array_count; i += kDeletedAtOnce)
        Delete(writer, part, {arrays + i, Min(kDeletedAtOnce, array_count - i)}, true);
    for (Size i = 0; i < arm_count; i += kArms)
        Delete(writer, part, {arms + i, Min(kArms, arm_count - i)}, false);
}

// The numbers of live partitions.
List *LiveNumbers(const IndexTable *table) {
    List *numbers = NIL;
    ListCell *cell;
    foreach (cell, ListPartitions(table->base))
        if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell)))
            numbers = lappend_int(numbers, number->id);
    return numbers;
}

// Entries of no partition that have the keys of those that are to be inserted: of truncated and
// dropped ones, or of what a transaction has given a number and has failed here. One that may yet
// commit here has committed on the server before: so numbers are looked at once more, afterwards.
void DeleteDead(ServerWriter *writer, Part *part, List *live) {
    const IndexTable *table = writer->table;
    int count = list_length(part->inserts);
    Datum *values = palloc_array(Datum, Max(count, list_length(live)));
    Conditions conditions = {.table = table, .part = part, .room = 16};
    conditions.types = palloc_array(Oid, conditions.room);
    conditions.values = palloc_array(Datum, conditions.room);
    List *tests = NIL;
    ListCell *cell;
    for (int position = 0; position < table->key.count; position++) {
        if (!OidIsValid(EqualityOf(table, position).array_type))
            continue;
        int found = 0;
        bool has_null = false;
        foreach (cell, part->inserts) {
            bool isnull;
            Datum value =
                heap_getattr(static_cast<Change *>(lfirst(cell))->entry, writer->attnos[position],
                             writer->buffer->descriptor, &isnull);
            has_null = has_null || isnull;
            if (!isnull)
                values[found++] = value;
        }
        Node *any = reinterpret_cast<Node *>(AnyOf(&conditions, position, values, found));
        if (has_null)
            any = reinterpret_cast<Node *>(
                make_orclause(list_make2(any, Equals(&conditions, position, 0, true))));
        tests = lappend(tests, any);
    }
    foreach (cell, live)
        values[foreach_current_index(cell)] = Int32GetDatum(lfirst_int(cell));
    tests = lappend(tests, NoneOf(&conditions, values, list_length(live)));
    List *deleted = NIL;
    RunDelete(writer, part, conditions, reinterpret_cast<Node *>(make_ands_explicit(tests)), true,
              [&](const Datum *entry, const bool *) {
                  deleted = list_append_unique_int(
                      deleted, DatumGetInt32(entry[table->partition_position()]));
              });
    foreach (cell, deleted)
        if (IsNumberTaken(lfirst_int(cell)))
            RaiseConcurrent(table,
                            "Keys of new entries are those of a partition that another "
                            "transaction attaches or truncates.",
                            "Run the transaction again.");
}

// --- Insertion ---------------------------------------------------------------

// A partition opened for insertion, as COPY opens it.
struct Insertion {
    EState *estate;
    ResultRelInfo *relinfo;
};

Insertion BeginInsertion(Relation rel) {
    Insertion insertion = {.estate = CreateExecutorState()};
    MemoryContext caller = MemoryContextSwitchTo(insertion.estate->es_query_cxt);
    compat::InitRangeTable(insertion.estate, rel);
    ResultRelInfo *relinfo = insertion.relinfo = makeNode(ResultRelInfo);
    InitResultRelInfo(relinfo, rel, 1, nullptr, 0);
    relinfo->ri_TrigDesc = nullptr;
    ModifyTableState *node = makeNode(ModifyTableState);
    node->ps.state = insertion.estate;
    node->operation = CMD_INSERT;
    node->mt_nrels = 1;
    node->resultRelInfo = node->rootResultRelInfo = relinfo;
    relinfo->ri_FdwRoutine->BeginForeignInsert(node, relinfo);
    MemoryContextSwitchTo(caller);
    return insertion;
}

void EndInsertion(const Insertion &insertion) {
    insertion.relinfo->ri_FdwRoutine->EndForeignInsert(insertion.estate, insertion.relinfo);
    FreeExecutorState(insertion.estate);
}

void InsertRun(const Part *part, const Insertion &insertion, int first, int count,
               TupleTableSlot **slots) {
    for (int i = 0; i < count; i++)
        ExecStoreHeapTuple(static_cast<Change *>(list_nth(part->inserts, first + i))->entry,
                           slots[i], false);
    int inserted = count;
    MemoryContext caller = MemoryContextSwitchTo(insertion.estate->es_query_cxt);
    insertion.relinfo->ri_FdwRoutine->ExecForeignBatchInsert(insertion.estate, insertion.relinfo,
                                                             slots, nullptr, &inserted);
    MemoryContextSwitchTo(caller);
    for (int i = 0; i < count; i++)
        ExecClearTuple(slots[i]);
    CHECK_FOR_INTERRUPTS();
}

void InsertIntoPart(ServerWriter *writer, Part *part) {
    FAULT_POINT("remote_entries.insert_into_part");
    int count = list_length(part->inserts);
    if (count == 0)
        return;
    int most = Min(kInsertedAtOnce, kMostParameters / RelationGetNumberOfAttributes(part->rel));
    // Of equal size, but for the last: each other size is a statement to be prepared.
    int runs = (count + most - 1) / most;
    int size = (count + runs - 1) / runs;
    TupleTableSlot **slots = palloc_array(TupleTableSlot *, size);
    for (int i = 0; i < size; i++)
        slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(part->rel), &TTSOpsHeapTuple);
    Insertion insertion = BeginInsertion(part->rel);
    for (int i = 0; i < count; i += size)
        InsertRun(part, insertion, i, Min(size, count - i), slots);
    EndInsertion(insertion);
    for (int i = 0; i < size; i++)
        ExecDropSingleTupleTableSlot(slots[i]);
}

void InsertAll(ServerWriter *writer) {
    PG_TRY();
    {
        for (Part &part : std::span(writer->parts, writer->storage.count))
            InsertIntoPart(writer, &part);
    }
    PG_CATCH();
    {
        TranslateRemoteViolation(writer->table, writer->user);
        PG_RE_THROW();
    }
    PG_END_TRY();
}

// Where a key repeats that the statement may yet free, its insertions wait.
void InsertEarly(ServerWriter *writer) {
    const char *error = TryInSubtransaction(
        [&] { InsertAll(writer); },
        [](const ErrorData *raised) { return raised->sqlerrcode == ERRCODE_UNIQUE_VIOLATION; });
    if (!error)
        return;
    ListCell *cell;
    for (Part &part : std::span(writer->parts, writer->storage.count))
        foreach (cell, part.inserts)
            KeepUnmatched(writer->buffer, *static_cast<Change *>(lfirst(cell)));
}

// --- Both --------------------------------------------------------------------

Part *PartOf(ServerWriter *writer, HeapTuple entry) {
    int place = RouteEntry(writer->storage, entry);
    Part *part = &writer->parts[place];
    if (!part->rel) {
        part->rel = OpenPart(writer->storage, place);
        part->attnos = GetLiveColumns(part->rel, writer->table->column_count);
    }
    return part;
}

void AddDelete(ServerWriter *writer, const Change *change, Size most) {
    Part *part = PartOf(writer, change->entry);
    if (!part->deletes)
        part->deletes =
            static_cast<Wanted *>(palloc_extended(sizeof(Wanted) * most, MCXT_ALLOC_HUGE));
    Wanted *entry = &part->deletes[part->delete_count++];
    int count = writer->table->column_count;
    *entry = {
        .change = change, .values = palloc_array(Datum, count), .nulls = palloc_array(bool, count)};
    for (int i = 0; i < count; i++) {
        entry->values[i] = heap_getattr(change->entry, writer->attnos[i],
                                        writer->buffer->descriptor, &entry->nulls[i]);
        entry->has_nulls = entry->has_nulls || (i < GroupCount(writer->table) && entry->nulls[i]);
    }
    entry->hash = HashGroup(writer, entry->values, entry->nulls);
}

void AddInsert(ServerWriter *writer, Change *change) {
    Part *part = PartOf(writer, change->entry);
    part->inserts = lappend(part->inserts, change);
}

// This transaction itself may have retired some.
bool MayMeetDeadEntries(const IndexTable *table) {
    return table->options.is_unique && ListRetiredNumbers(table->relid) != NIL;
}

} // namespace

void ReachServers(const IndexTable *table) {
    Assert(table->on_servers);
    if (PrecedesShards())
        return;
    if (IsTooLateForShards())
        ereport(
            ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot write to index table \"%s\" when the transaction is about to commit",
                    get_rel_name(table->relid)),
             errdetail("Its servers were not used by this session before."),
             errhint("Have the library loaded before: set session_preload_libraries to "
                     "index_table.")));
    Relation root = table_open(table->relid, RowExclusiveLock);
    EntryStorage storage = GetStorage(root);
    if (storage.count > 0) {
        Relation rel = OpenPart(storage, 0);
        OwnerContext owner = EnterOwner(root->rd_rel->relowner);
        EndInsertion(BeginInsertion(rel));
        LeaveOwner(owner);
        ClosePart(storage, rel);
    }
    table_close(root, NoLock);
    PrecedeShardsFromNowOn();
}

void WriteToServers(ChangeBuffer *buffer, const NetChanges &net, bool more_to_come) {
    const IndexTable *table = buffer->table;
    Assert(IsKnown(table) && table->on_servers);
    Relation root = try_relation_open(table->relid, RowExclusiveLock);
    if (!root)
        return;
    ReachServers(table);
    RememberShardWrite();
    if (HasGivenNumbers(table->base))
        RememberNumbered(table);
    ServerWriter writer = {.table = table,
                           .buffer = buffer,
                           .storage = GetStorage(root),
                           .attnos = GetLiveColumns(root, table->column_count),
                           .more_to_come = more_to_come,
                           .user = GetUserId()};
    writer.parts = palloc0_array(Part, Max(1, writer.storage.count));
    Size deletes = net.delete_count + net.replace_count;
    for (const Change &change : std::span(net.deletes, net.delete_count))
        AddDelete(&writer, &change, deletes);
    for (const Change &change : std::span(net.replaced, net.replace_count))
        AddDelete(&writer, &change, deletes);
    for (Change &change : std::span(net.replacements, net.replace_count))
        AddInsert(&writer, &change);
    for (Change &change : std::span(net.inserts, net.insert_count))
        AddInsert(&writer, &change);

    OwnerContext owner = EnterOwner(root->rd_rel->relowner);
    UseLosslessText(); // images are of text; LeaveOwner() ends it
    // Deletions first: one statement may hand a unique key from one row to another.
    for (Part &part : std::span(writer.parts, writer.storage.count))
        DeleteFromPart(&writer, &part);
    if (MayMeetDeadEntries(table)) {
        List *live = LiveNumbers(table);
        for (Part &part : std::span(writer.parts, writer.storage.count))
            if (part.inserts != NIL)
                DeleteDead(&writer, &part, live);
    }
    if (more_to_come && table->options.is_unique)
        InsertEarly(&writer);
    else
        InsertAll(&writer);
    LeaveOwner(owner);
    for (Part &part : std::span(writer.parts, writer.storage.count))
        if (part.rel)
            ClosePart(writer.storage, part.rel);
    table_close(root, NoLock);
}

} // namespace index_table
