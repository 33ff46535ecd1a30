#include "maintenance/writer.h"

#include "core/public.h"
#include "maintenance/storage.h"
#include "maintenance/target_plan.h"
#include "maintenance/unique_recheck.h"
#include "maintenance/violation.h"

namespace index_table {
namespace {

constexpr Size kBatchBytes = 64 * 1024;

// A relation that holds entries, opened.
struct Target {
    TargetPlan *plan;
    Relation rel;
    Relation *indexes; // the short way: opened as needed, by IndexOf()
    // The general way.
    EState *estate;
    ResultRelInfo *relinfo;
    // For looking entries up.
    IndexScanDesc search;
    IndexScanDesc null_search;
    TupleTableSlot *found;
    IndexScanDesc *conflicts; // by index: what constraints would not let be; opened as needed
    // For insertion.
    TupleTableSlot *single;
    TupleTableSlot **batch;
    int batch_slots;
};

} // namespace

struct EntryWriter {
    const IndexTable *table;
    bool mid_statement;
    bool ignores_references;
    bool checks_at_once; // what is deferrable, too
    uint64 opened_at;    // CacheGeneration()
    MemoryContext context;
    MemoryContext per_row;
    EntryStorage storage;
    ResultRelInfo *root_relinfo;   // of a partitioned one, for foreign keys that point at it
    EState *triggers;              // where user triggers may fire; fired when the writer is closed
    Target **targets;              // by place; of a partitioned one opened as needed
    TupleTableSlot *current_entry; // being written, for messages; null: none
};

namespace {

// Keeps foreign keys that point at an opened relation from learning what happens to it.
void IgnoreReferences(Target *target) {
    const TriggerDesc *triggers = target->relinfo ? target->relinfo->ri_TrigDesc : nullptr;
    if (!triggers)
        return;
    for (Trigger &trigger : std::span(triggers->triggers, triggers->numtriggers))
        if (RI_FKey_trigger_type(trigger.tgfoid) == RI_TRIGGER_PK)
            trigger.tgenabled = TRIGGER_DISABLED; // in the executor's own copy
}

// Has what an opened relation's triggers would defer checked when the writer is closed. Its
// deferrable constraints are checked by Recheck().
void CheckAtOnce(ResultRelInfo *relinfo) {
    TriggerDesc *triggers = relinfo->ri_TrigDesc; // the executor's own copy
    if (!triggers)
        return;
    for (Trigger &trigger : std::span(triggers->triggers, triggers->numtriggers))
        trigger.tgdeferrable = trigger.tginitdeferred = false;
}

Target *OpenTarget(EntryWriter *writer, int place) {
    MemoryContext caller = MemoryContextSwitchTo(writer->context);
    Target *target = static_cast<Target *>(palloc0(sizeof(Target)));
    target->rel = OpenPart(writer->storage, place);
    TargetPlan *plan = target->plan = GetTargetPlan(target->rel, writer->table);
    if (plan->general) {
        target->estate = CreateExecutorState();
        target->relinfo = OpenForExecutor(target->estate, target->rel, false);
        // Both are in the order of RelationGetIndexList.
        target->indexes = target->relinfo->ri_IndexRelationDescs;
        if (writer->ignores_references)
            IgnoreReferences(target);
        if (writer->checks_at_once)
            CheckAtOnce(target->relinfo);
    } else {
        target->indexes =
            static_cast<Relation *>(palloc0(sizeof(Relation) * Max(1, plan->index_count)));
    }
    MemoryContextSwitchTo(caller);
    return target;
}

Relation IndexOf(Target *target, int i) {
    if (!target->indexes[i])
        target->indexes[i] = index_open(target->plan->index_oids[i], RowExclusiveLock);
    return target->indexes[i];
}

void CloseTarget(const EntryWriter *writer, Target *target) {
    if (target->search)
        index_endscan(target->search);
    if (target->null_search)
        index_endscan(target->null_search);
    for (int i = 0; target->conflicts && i < target->plan->index_count; i++)
        if (target->conflicts[i])
            index_endscan(target->conflicts[i]);
    if (target->found)
        ExecDropSingleTupleTableSlot(target->found);
    if (target->single)
        ExecDropSingleTupleTableSlot(target->single);
    for (int i = 0; i < target->batch_slots; i++)
        ExecDropSingleTupleTableSlot(target->batch[i]);
    if (target->estate) {
        CloseForExecutor(target->estate, target->relinfo);
    } else {
        for (int i = 0; i < target->plan->index_count; i++)
            if (target->indexes[i])
                index_close(target->indexes[i], NoLock);
    }
    ClosePart(writer->storage, target->rel);
}

Target *TargetOf(EntryWriter *writer, HeapTuple entry) {
    int place = RouteEntry(writer->storage, entry);
    if (!writer->targets[place])
        writer->targets[place] = OpenTarget(writer, place);
    return writer->targets[place];
}

bool HasNullKey(const IndexTable *table, const Change &change) {
    return (change.null_mask & ((1U << table->key.count) - 1)) != 0;
}

// Enters a stored row into the B-trees.
void InsertIndexTuples(EntryWriter *writer, Target *target, TupleTableSlot *slot, bool null_key) {
    FAULT_POINT("writer.insert_index_tuples");
    writer->current_entry = slot;
    IndexUniqueCheck unique = writer->mid_statement ? UNIQUE_CHECK_PARTIAL : UNIQUE_CHECK_YES;
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    for (int i = 0; i < target->plan->index_count; i++) {
        IndexInfo *info = target->plan->index_infos[i];
        if (info->ii_Predicate != NIL && !null_key)
            continue;
        FormIndexDatum(info, slot, nullptr, values, nulls);
        bool is_certain =
            index_insert(IndexOf(target, i), values, nulls, &slot->tts_tid, target->rel,
                         info->ii_Unique ? unique : UNIQUE_CHECK_NO, false, info);
        if (info->ii_Unique && unique == UNIQUE_CHECK_PARTIAL && !is_certain)
            RecheckLater(writer->table, target->rel, target->plan->index_oids[i], &slot->tts_tid);
    }
}

// The general way: what ExecInsert and ExecUpdate do around a row.
//
// Of the indexes that the executor is not sure of, has those of immediate constraints checked again
// later. Returns those that triggers are to check.
List *RecheckUnsure(EntryWriter *writer, Target *target, TupleTableSlot *slot, List *unsure) {
    FAULT_POINT("writer.recheck_unsure");
    for (int i = 0; unsure != NIL && i < target->plan->index_count; i++)
        if ((writer->checks_at_once || target->indexes[i]->rd_index->indimmediate) &&
            list_member_oid(unsure, target->plan->index_oids[i]))
            RecheckLater(writer->table, target->rel, target->plan->index_oids[i], &slot->tts_tid);
    return writer->checks_at_once ? NIL : unsure;
}

// The same through the executor, for a new entry and for a new version of one. Return the indexes
// of constraints whose triggers are to check the row again.
List *InsertByExecutor(EntryWriter *writer, Target *target, TupleTableSlot *slot) {
    writer->current_entry = slot;
    return RecheckUnsure(
        writer, target, slot,
        compat::InsertIndexTuples(target->relinfo, slot, target->estate, writer->mid_statement));
}

List *UpdateByExecutor(EntryWriter *writer, Target *target, TupleTableSlot *slot,
                       compat::StaleIndexes stale) {
    writer->current_entry = slot;
    return RecheckUnsure(writer, target, slot,
                         compat::UpdateIndexTuples(target->relinfo, slot, target->estate,
                                                   writer->mid_statement, stale));
}

// Puts the entry of a change into a slot.
TupleTableSlot *HoldEntry(EntryWriter *writer, Target *target, const Change &change) {
    if (!target->single) {
        MemoryContext caller = MemoryContextSwitchTo(writer->context);
        target->single = MakeSingleTupleTableSlot(target->plan->descriptor, &TTSOpsHeapTuple);
        MemoryContextSwitchTo(caller);
    }
    ExecStoreHeapTuple(change.entry, target->single, false);
    return target->single;
}

// While an entry before this one waited for another transaction, partitions may have been
// truncated, detached or dropped whose entries were live when flushing began.
void MakeRoom(EntryWriter *writer, const Change &change) {
    AcceptInvalidationMessages();
    if (CacheGeneration() == writer->opened_at)
        return;
    const Base *base = FindBase(writer->table->base);
    if (base && base->has_retired)
        RemoveDeadDuplicates(writer, change);
}

// Returns where the entry is stored.
ItemPointerData InsertOne(EntryWriter *writer, Target *target, const Change &change) {
    MakeRoom(writer, change);
    TupleTableSlot *slot = HoldEntry(writer, target, change);
    if (!target->plan->general) {
        table_tuple_insert(target->rel, slot, change.command, 0, nullptr);
        InsertIndexTuples(writer, target, slot, HasNullKey(writer->table, change));
    } else {
        CheckConstraints(target->estate, target->relinfo, slot);
        table_tuple_insert(target->rel, slot, change.command, 0, nullptr);
        List *recheck = InsertByExecutor(writer, target, slot);
        ExecARInsertTriggers(target->estate, target->relinfo, slot, recheck, nullptr);
        ResetPerTupleExprContext(target->estate);
    }
    ItemPointerData tid = slot->tts_tid;
    ExecClearTuple(slot);
    return tid;
}

// Inserts a run of changes of one command into one target.
void InsertRun(EntryWriter *writer, Target *target, std::span<const Change> run) {
    if (target->batch_slots < static_cast<int>(run.size())) {
        MemoryContext caller = MemoryContextSwitchTo(writer->context);
        if (!target->batch)
            target->batch =
                static_cast<TupleTableSlot **>(palloc(sizeof(TupleTableSlot *) * kInsertedAtOnce));
        while (target->batch_slots < static_cast<int>(run.size()))
            target->batch[target->batch_slots++] =
                MakeSingleTupleTableSlot(target->plan->descriptor, &TTSOpsHeapTuple);
        MemoryContextSwitchTo(caller);
    }
    for (Size i = 0; i < run.size(); i++)
        ExecStoreHeapTuple(run[i].entry, target->batch[i], false);
    table_multi_insert(target->rel, target->batch, run.size(), run[0].command, 0, nullptr);
    for (Size i = 0; i < run.size(); i++) {
        MakeRoom(writer, run[i]);
        InsertIndexTuples(writer, target, target->batch[i], HasNullKey(writer->table, run[i]));
        ExecClearTuple(target->batch[i]);
        MemoryContextReset(writer->per_row);
    }
    CHECK_FOR_INTERRUPTS();
}

IndexScanDesc StartSearch(EntryWriter *writer, Target *target, bool null_key, ScanKeyData **keys,
                          int *key_count) {
    TargetPlan *plan = target->plan;
    bool use_null_index = null_key && plan->null_index >= 0;
    *keys = use_null_index ? plan->null_keys : plan->search_keys;
    *key_count = use_null_index ? plan->null_key_count : plan->search_key_count;
    IndexScanDesc *scan = use_null_index ? &target->null_search : &target->search;
    if (!*scan) {
        MemoryContext caller = MemoryContextSwitchTo(writer->context);
        int index = use_null_index ? plan->null_index : plan->search_index;
        // SnapshotSelf: the statement's snapshot can miss the entry that a concurrent updater of
        // the base row has just committed; the lock on the base row makes this one safe.
        *scan =
            compat::BeginIndexScan(target->rel, IndexOf(target, index), SnapshotSelf, *key_count);
        if (!target->found)
            target->found = table_slot_create(target->rel, nullptr);
        MemoryContextSwitchTo(caller);
    }
    return *scan;
}

// Compares stored and wanted columns [first, last) byte by byte. Older entries still hold what was
// in columns that are dropped by now.
bool HasColumns(Target *target, const Datum *values, const bool *nulls, int first, int last) {
    for (int i = first; i < last; i++) {
        bool isnull;
        Form_pg_attribute att = TupleDescAttr(target->plan->descriptor, i);
        if (att->attisdropped)
            continue;
        Datum stored = slot_getattr(target->found, i + 1, &isnull);
        if (isnull != nulls[i] ||
            (!isnull && !datum_image_eq(stored, values[i], att->attbyval, att->attlen)))
            return false;
    }
    return true;
}

// A command id, `wanted` if possible, that a change to a stored entry may carry.
CommandId CommandAfter(TupleTableSlot *stored, CommandId wanted) {
    HeapTupleHeader header = ExecFetchSlotHeapTuple(stored, false, nullptr)->t_data;
    if (!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header)))
        return wanted;
    CommandId written = HeapTupleHeaderGetCmin(header);
    if (written < wanted)
        return wanted;
    if (written >= GetCurrentCommandId(true))
        CommandCounterIncrement();
    return GetCurrentCommandId(true);
}

// Finds the entry of a change, preferring one with the same copies: only where the identity is not
// unique in the base table are there several.
//
// `command` becomes one that may delete the entry: a nested statement may have written it after the
// command that changed the base row.
bool FindEntry(EntryWriter *writer, Target *target, const Change &change, ItemPointer tid,
               CommandId *command) {
    const IndexTable *table = writer->table;
    ScanKeyData *keys;
    int key_count;
    IndexScanDesc scan = StartSearch(writer, target, HasNullKey(table, change), &keys, &key_count);
    TupleDesc descriptor = target->plan->descriptor;
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * descriptor->natts));
    bool *nulls = static_cast<bool *>(palloc(sizeof(bool) * descriptor->natts));
    heap_deform_tuple(change.entry, descriptor, values, nulls);
    for (int i = 0; i < key_count; i++) {
        int column = scan->indexRelation->rd_index->indkey.values[i] - 1;
        SetSearchValue(&keys[i], values[column], nulls[column]);
    }
    // A scan remembers killed items in the memory context it is first advanced in.
    MemoryContext per_row = MemoryContextSwitchTo(writer->context);
    index_rescan(scan, keys, key_count, nullptr, 0);
    bool found = false;
    while (index_getnext_slot(scan, ForwardScanDirection, target->found)) {
        if (!HasColumns(target, values, nulls, table->key.count, table->group_count()))
            continue;
        bool exact = HasColumns(target, values, nulls, 0, table->key.count) &&
                     HasColumns(target, values, nulls, table->group_count(), descriptor->natts);
        // In the middle of a statement this may be an older version of the entry, whose own
        // deletion is still to come.
        if (!exact && writer->mid_statement)
            continue;
        if (exact || !found) {
            *tid = target->found->tts_tid;
            *command = CommandAfter(target->found, change.command);
        }
        found = true;
        if (exact)
            break;
    }
    ExecClearTuple(target->found);
    MemoryContextSwitchTo(per_row);
    return found;
}

// Whether an entry that FindEntry() has just not found is worth another look: a shard commits a row
// before its entry is committed here, so a row of a foreign partition may be found, and changed,
// whose entry is yet to come. Waits for the transaction that has written it. No other row can have
// the same entry.
bool AwaitEntry(EntryWriter *writer, Target *target, const Change &change) {
    const IndexTable *table = writer->table;
    TupleDesc descriptor = target->plan->descriptor;
    Datum *values = palloc_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    heap_deform_tuple(change.entry, descriptor, values, nulls);
    ScanKeyData *keys; // as FindEntry() has set them
    int key_count;
    IndexScanDesc search =
        StartSearch(writer, target, HasNullKey(table, change), &keys, &key_count);
    int number = table->partition_position();
    if (!IsForeign(FindPartition(table->base, DatumGetInt32(values[number]))))
        return false;
    SnapshotData dirty;
    InitDirtySnapshot(dirty);
    IndexScanDesc scan =
        compat::BeginIndexScan(target->rel, search->indexRelation, &dirty, key_count);
    index_rescan(scan, keys, key_count, nullptr, 0);
    TransactionId other = InvalidTransactionId;
    ItemPointerData tid;
    while (!TransactionIdIsValid(other) &&
           index_getnext_slot(scan, ForwardScanDirection, target->found))
        if (TransactionIdIsValid(dirty.xmin) &&
            HasColumns(target, values, nulls, 0, table->group_count())) {
            other = dirty.xmin;
            tid = target->found->tts_tid;
        }
    index_endscan(scan);
    ExecClearTuple(target->found);
    if (!TransactionIdIsValid(other))
        return false;
    XactLockTableWait(other, target->rel, &tid, XLTW_Delete);
    return true;
}

// What became of an attempt to delete or replace a stored entry.
enum class Outcome { Done, Gone, Again };

Outcome OutcomeOf(TM_Result result) {
    switch (result) {
    case TM_Ok:
        return Outcome::Done;
    case TM_SelfModified:
    case TM_Deleted:
        return Outcome::Gone;
    case TM_Updated: // repaired or swept meanwhile
        return Outcome::Again;
    default:
        elog(ERROR, "unexpected state of an entry: %d", static_cast<int>(result));
    }
}

} // namespace

bool DeleteStoredEntry(EntryWriter *writer, Oid storage, ItemPointer tid) {
    Assert(ItemPointerIsValid(tid));
    int place = 0;
    while (writer->storage.partition_key && writer->storage.partitions->oids[place] != storage)
        if (++place == writer->storage.count)
            return false;
    if (!writer->targets[place])
        writer->targets[place] = OpenTarget(writer, place);
    Target *target = writer->targets[place];
    ItemPointerData current = *tid;
    Outcome outcome;
    do {
        TM_FailureData failure;
        outcome = OutcomeOf(
            compat::DeleteTuple(target->rel, &current, GetCurrentCommandId(true), &failure));
        if (outcome == Outcome::Again)
            current = failure.ctid;
    } while (outcome == Outcome::Again);
    if (outcome == Outcome::Done && target->plan->general)
        ExecARDeleteTriggers(target->estate, target->relinfo, &current, nullptr, nullptr, false);
    return outcome == Outcome::Done;
}

EntryWriter *OpenWriter(const IndexTable *table, bool mid_statement, MemoryContext context) {
    Assert(IsKnown(table) && IsTransactionState() && !IsInParallelMode());
    Relation root = try_relation_open(table->relid, RowExclusiveLock);
    if (!root)
        return nullptr;
    MemoryContext caller = MemoryContextSwitchTo(context);
    EntryWriter *writer = static_cast<EntryWriter *>(palloc0(sizeof(EntryWriter)));
    writer->table = table;
    writer->mid_statement = mid_statement;
    // Nothing may be deferred beyond a security-restricted operation: what is deferred is fired
    // with the rights of whoever commits.
    writer->checks_at_once = InSecurityRestrictedOperation();
    writer->opened_at = CacheGeneration();
    writer->context = context;
    writer->per_row =
        AllocSetContextCreate(context, "index_table writer per row", ALLOCSET_DEFAULT_SIZES);
    writer->storage = GetStorage(root);
    writer->targets =
        static_cast<Target **>(palloc0(sizeof(Target *) * Max(1, writer->storage.count)));
    if (!writer->storage.partition_key)
        writer->targets[0] = OpenTarget(writer, 0);
    GetCurrentCommandId(true); // this command writes
    if (HasRowTriggers(root) || writer->storage.partition_key) {
        writer->triggers = CreateExecutorState();
        AfterTriggerBeginQuery();
    }
    MemoryContextSwitchTo(caller);
    return writer;
}

void IgnoreReferences(EntryWriter *writer) {
    writer->ignores_references = true;
    for (Target *target : std::span(writer->targets, writer->storage.count))
        if (target)
            IgnoreReferences(target);
}

void CloseWriter(EntryWriter *writer) {
    writer->current_entry = nullptr;
    if (writer->triggers) {
        AfterTriggerEndQuery(writer->triggers);
        ExecResetTupleTable(writer->triggers->es_tupleTable, false);
        ExecCloseResultRelations(writer->triggers);
        FreeExecutorState(writer->triggers);
    }
    for (Target *target : std::span(writer->targets, writer->storage.count))
        if (target)
            CloseTarget(writer, target);
    table_close(writer->storage.root, NoLock);
    MemoryContextDelete(writer->per_row);
}

void RethrowError(const EntryWriter *writer) {
    TranslateViolation(writer->table, writer->current_entry);
    PG_RE_THROW();
}

void InsertEntries(EntryWriter *writer, std::span<const Change> changes) {
    FAULT_POINT("writer.insert_entries");
    Assert(std::all_of(changes.begin(), changes.end(),
                       [](const Change &change) { return change.kind == ChangeKind::Insert; }));
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    for (Size start = 0; start < changes.size();) {
        Target *target = TargetOf(writer, changes[start].entry);
        Size end = start + 1;
        Size bytes = changes[start].entry->t_len;
        if (!target->plan->general)
            while (end < changes.size() && end - start < kInsertedAtOnce && bytes < kBatchBytes &&
                   changes[end].command == changes[start].command &&
                   TargetOf(writer, changes[end].entry) == target)
                bytes += changes[end++].entry->t_len;
        if (end - start == 1)
            InsertOne(writer, target, changes[start]);
        else
            InsertRun(writer, target, changes.subspan(start, end - start));
        MemoryContextReset(writer->per_row);
        start = end;
    }
    MemoryContextSwitchTo(caller);
}

namespace {

// Deletes the entry of a change and returns where it was; `is_moving`: to be inserted elsewhere.
bool DeleteEntry(EntryWriter *writer, Target *target, const Change &change, bool is_moving,
                 ItemPointer tid) {
    FAULT_POINT("writer.delete_entry");
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    Outcome outcome = Outcome::Again;
    while (outcome == Outcome::Again) {
        CommandId command;
        if (!FindEntry(writer, target, change, tid, &command)) {
            if (AwaitEntry(writer, target, change))
                continue;
            outcome = Outcome::Gone;
            break;
        }
        TM_FailureData failure;
        TM_Result result = compat::DeleteTuple(target->rel, tid, command, &failure);
        outcome = OutcomeOf(result);
        if (outcome == Outcome::Done && target->plan->general)
            ExecARDeleteTriggers(target->estate, target->relinfo, tid, nullptr, nullptr, is_moving);
    }
    MemoryContextReset(writer->per_row);
    MemoryContextSwitchTo(caller);
    return outcome == Outcome::Done;
}

// A key that changes may take its entry to another partition of the index table. To foreign keys
// that is an update of the whole table, as it is where PostgreSQL moves a row.
bool MoveEntry(EntryWriter *writer, Target *from, Target *to, const Change &old_change,
               const Change &new_change) {
    ItemPointerData tid;
    if (!DeleteEntry(writer, from, old_change, true, &tid))
        return false;
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    ItemPointerData new_tid = InsertOne(writer, to, new_change);
    if (from->plan->general && to->plan->general &&
        IsReferencedByForeignKey(writer->storage.root) && !writer->ignores_references) {
        if (!writer->root_relinfo) {
            MemoryContextSwitchTo(writer->context);
            writer->root_relinfo = makeNode(ResultRelInfo);
            InitResultRelInfo(writer->root_relinfo, writer->storage.root, 1, nullptr, 0);
            if (writer->checks_at_once)
                CheckAtOnce(writer->root_relinfo);
            MemoryContextSwitchTo(writer->per_row);
        }
        TupleTableSlot *slot = HoldEntry(writer, to, new_change);
        slot->tts_tid = new_tid;
        ExecARUpdateTriggers(from->estate, writer->root_relinfo, from->relinfo, to->relinfo, &tid,
                             nullptr, slot, NIL, nullptr, true);
        ExecClearTuple(slot);
    }
    MemoryContextReset(writer->per_row);
    MemoryContextSwitchTo(caller);
    return true;
}

} // namespace

bool DeleteEntry(EntryWriter *writer, const Change &change) {
    Assert(change.kind == ChangeKind::Delete);
    ItemPointerData tid;
    return DeleteEntry(writer, TargetOf(writer, change.entry), change, false, &tid);
}

bool ReplaceEntry(EntryWriter *writer, const Change &old_change, const Change &new_change) {
    FAULT_POINT("writer.replace_entry");
    Assert(old_change.kind == ChangeKind::Delete && new_change.kind == ChangeKind::Insert);
    Target *target = TargetOf(writer, old_change.entry);
    if (Target *other = TargetOf(writer, new_change.entry); other != target)
        return MoveEntry(writer, target, other, old_change, new_change);
    MakeRoom(writer, new_change);
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    Outcome outcome = Outcome::Again;
    while (outcome == Outcome::Again) {
        ItemPointerData tid;
        CommandId command;
        if (!FindEntry(writer, target, old_change, &tid, &command)) {
            if (AwaitEntry(writer, target, old_change))
                continue;
            outcome = Outcome::Gone;
            break;
        }
        TupleTableSlot *slot = HoldEntry(writer, target, new_change);
        if (target->plan->general)
            CheckConstraints(target->estate, target->relinfo, slot);
        compat::StaleIndexes stale;
        TM_FailureData failure;
        TM_Result result = compat::UpdateTuple(target->rel, &tid, slot, command, &stale, &failure);
        outcome = OutcomeOf(result);
        if (outcome != Outcome::Done)
            continue;
        if (!target->plan->general) {
            if (stale == compat::StaleIndexes::All) // B-trees do not summarize
                InsertIndexTuples(writer, target, slot, HasNullKey(writer->table, new_change));
            continue;
        }
        List *recheck = UpdateByExecutor(writer, target, slot, stale);
        ExecARUpdateTriggers(target->estate, target->relinfo, nullptr, nullptr, &tid, nullptr, slot,
                             recheck, nullptr, false);
        ResetPerTupleExprContext(target->estate);
    }
    if (target->single)
        ExecClearTuple(target->single);
    MemoryContextReset(writer->per_row);
    MemoryContextSwitchTo(caller);
    return outcome == Outcome::Done;
}

namespace {

// Brings what a constraint's index has for the entry in `slot` into scan keys. False where a NULL
// keeps it out of every conflict.
bool MakeConflictKeys(Target *target, int i, TupleTableSlot *slot, ScanKeyData *keys) {
    Relation index = IndexOf(target, i);
    IndexInfo *info = target->plan->general ? target->relinfo->ri_IndexRelationInfo[i]
                                            : target->plan->index_infos[i];
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    if (target->plan->general)
        GetPerTupleExprContext(target->estate)->ecxt_scantuple = slot;
    FormIndexDatum(info, slot, target->estate, values, nulls);
    for (int k = 0; k < info->ii_NumIndexKeyAttrs; k++) {
        if (nulls[k] && !info->ii_NullsNotDistinct)
            return false;
        StrategyNumber strategy =
            info->ii_ExclusionOps ? info->ii_ExclusionStrats[k] : BTEqualStrategyNumber;
        RegProcedure procedure = info->ii_ExclusionOps ? info->ii_ExclusionProcs[k]
                                                       : SearchProcedure(index, k, strategy);
        ScanKeyEntryInitialize(&keys[k], nulls[k] ? SK_ISNULL | SK_SEARCHNULL : 0, k + 1, strategy,
                               InvalidOid, index->rd_indcollation[k], procedure, values[k]);
    }
    return true;
}

// Starts to read what a constraint's index would not let be beside the entry in `slot`, into
// target->found; null: nothing. In the writer's memory, as in FindEntry.
IndexScanDesc SeekConflicts(EntryWriter *writer, Target *target, int i, TupleTableSlot *slot) {
    ScanKeyData keys[INDEX_MAX_KEYS];
    if (!MakeConflictKeys(target, i, slot, keys))
        return nullptr;
    int key_count = IndexRelationGetNumberOfKeyAttributes(IndexOf(target, i));
    MemoryContext per_row = MemoryContextSwitchTo(writer->context);
    if (!target->conflicts)
        target->conflicts = static_cast<IndexScanDesc *>(
            palloc0(sizeof(IndexScanDesc) * target->plan->index_count));
    IndexScanDesc &scan = target->conflicts[i];
    if (!scan)
        scan = compat::BeginIndexScan(target->rel, IndexOf(target, i), SnapshotSelf, key_count);
    if (!target->found)
        target->found = table_slot_create(target->rel, nullptr);
    index_rescan(scan, keys, key_count, nullptr, 0);
    MemoryContextSwitchTo(per_row);
    return scan;
}

// The next entry is in target->found.
bool NextConflict(EntryWriter *writer, Target *target, IndexScanDesc scan) {
    MemoryContext per_row = MemoryContextSwitchTo(writer->context); // as in FindEntry
    bool found = index_getnext_slot(scan, ForwardScanDirection, target->found);
    MemoryContextSwitchTo(per_row);
    return found;
}

void RemoveDeadConflicts(EntryWriter *writer, Target *target, int i, TupleTableSlot *slot) {
    const IndexTable *table = writer->table;
    IndexScanDesc scan = SeekConflicts(writer, target, i, slot);
    while (scan && NextConflict(writer, target, scan)) {
        bool isnull;
        int32 partition =
            DatumGetInt32(slot_getattr(target->found, table->partition_position() + 1, &isnull));
        TM_FailureData failure;
        if (isnull || !OidIsValid(FindPartition(table->base, partition)))
            compat::DeleteTuple(target->rel, &target->found->tts_tid, GetCurrentCommandId(true),
                                &failure);
    }
    if (scan)
        ExecClearTuple(target->found);
}

// Whether the entry in `slot` would stand beside another in a unique index; `own` is an entry, or
// null, that it replaces.
bool IsTaken(EntryWriter *writer, Target *target, int i, TupleTableSlot *slot, HeapTuple own) {
    IndexScanDesc scan = SeekConflicts(writer, target, i, slot);
    if (!scan)
        return false;
    TupleDesc descriptor = target->plan->descriptor;
    Datum *values = palloc_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    if (own)
        heap_deform_tuple(own, descriptor, values, nulls);
    bool found = false;
    while (!found && NextConflict(writer, target, scan))
        found = !own || !HasColumns(target, values, nulls, 0, writer->table->group_count());
    ExecClearTuple(target->found);
    return found;
}

} // namespace

bool IsTaken(EntryWriter *writer, const Change &change, const Change *replaced) {
    Target *target = TargetOf(writer, change.entry);
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    TupleTableSlot *slot = HoldEntry(writer, target, change);
    bool found = false;
    for (int i = 0; !found && i < target->plan->index_count; i++) {
        const IndexInfo *info = target->plan->index_infos[i];
        found = info->ii_ReadyForInserts && info->ii_Unique &&
                IsTaken(writer, target, i, slot, replaced ? replaced->entry : nullptr);
    }
    ExecClearTuple(slot);
    if (target->estate)
        ResetPerTupleExprContext(target->estate);
    MemoryContextReset(writer->per_row);
    MemoryContextSwitchTo(caller);
    return found;
}

void RemoveDeadDuplicates(EntryWriter *writer, const Change &change) {
    FAULT_POINT("writer.remove_dead_duplicates");
    Target *target = TargetOf(writer, change.entry);
    if (!target->plan->has_constraints)
        return;
    MemoryContext caller = MemoryContextSwitchTo(writer->per_row);
    TupleTableSlot *slot = HoldEntry(writer, target, change);
    for (int i = 0; i < target->plan->index_count; i++) {
        const IndexInfo *info = target->plan->index_infos[i];
        // One that CREATE INDEX CONCURRENTLY has not filled yet, or failed to, has no pages.
        if (info->ii_ReadyForInserts && (info->ii_Unique || info->ii_ExclusionOps))
            RemoveDeadConflicts(writer, target, i, slot);
    }
    ExecClearTuple(slot);
    if (target->estate)
        ResetPerTupleExprContext(target->estate);
    MemoryContextReset(writer->per_row);
    MemoryContextSwitchTo(caller);
}

void InitializeWriters() {
    InitializeTargetPlans();
}

} // namespace index_table
