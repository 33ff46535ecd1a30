#include "maintenance/speculative_entry.h"

#include "core/public.h"
#include "maintenance/storage.h"

namespace index_table {
namespace {

// A relation that holds entries, opened for speculative insertion.
struct SpeculativeTarget {
    Relation rel;
    EState *estate;
    ResultRelInfo *relinfo;
    List *arbiters;    // indexes that decide; NIL: all of constraints
    List *others;      // where there are arbiters: the others of constraints
    bool is_transient; // speculative entries are taken back before rows are captured
    TupleTableSlot *slot;
    TupleTableSlot *found;
};

struct SpeculativeEntry {
    int table;
    SpeculativeTarget *target;
    ItemPointerData tid;
    int removed_at; // of a transient one: the nest level at which it was taken back; 0: not yet
};

struct SpeculativeTable {
    const IndexTable *table;
    EntryStorage storage;        // its root is null: not opened yet
    SpeculativeTarget **targets; // by place; opened as needed
    const AttrNumber *attnos;    // by position
    Datum *values;               // by attribute number
    bool *nulls;
    List *transient;   // entries, those of rows that were inserted
    int removed_count; // the first ones, which have been taken back
    int removed_at;    // the highest nest level at which one was; 0: none
};

// In place of a table: rows whose updates were captured before their triggers fired; entries whose
// rows, in foreign tables, the command has inserted or updated.
constexpr int kCaptured = -1;
constexpr int kOfCommand = -2;

// The rows of a page whose entries were there before them.
struct SpeculativePage {
    struct Place {
        int table;
        Oid leaf;
        BlockNumber block;
    } place; // hash key
    uint64 rows[(MaxOffsetNumber + 64) / 64];
};

} // namespace

struct SpeculativeEntries {
    SpeculativeEntries *outer;
    MemoryContext memory;
    int nest_level;
    CommandId command;
    CommandId written; // with which entries were last written: their toasted parts have it
    bool has_target;
    int table_count;
    SpeculativeTable *tables;
    HTAB *pages;   // SpeculativePage; null: none yet
    List *foreign; // entries of rows in foreign tables
    // Of the current row:
    int entry_count;
    int entry_capacity;
    SpeculativeEntry *speculative;
    Relation leaf;
    TupleTableSlot *row; // null: none has been handed over
    TupleTableSlot *scratch;
};

namespace {

constinit SpeculativeEntries *innermost = nullptr;

bool HasConstraints(Relation rel) {
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        found = found || index->rd_index->indisunique || index->rd_index->indisexclusion;
        index_close(index, AccessShareLock);
    }
    return found;
}

bool FiresOnInsertion(Relation rel) {
    return rel->trigdesc && rel->trigdesc->trig_insert_after_row;
}

// The indexes that keep the key unique: owners may have added others.
List *ListKeyIndexes(const ResultRelInfo *relinfo, const IndexTable *table) {
    List *indexes = NIL;
    for (Relation index : std::span(relinfo->ri_IndexRelationDescs, relinfo->ri_NumIndices)) {
        bool is_key = index->rd_index->indisunique &&
                      index->rd_index->indnkeyatts == table->key.count &&
                      RelationGetIndexPredicate(index) == NIL;
        for (int i = 0; is_key && i < table->key.count; i++)
            is_key = index->rd_index->indkey.values[i] == i + 1 &&
                     index->rd_opfamily[i] == get_opclass_family(table->key.columns[i].opclass) &&
                     index->rd_indcollation[i] == table->key.columns[i].collation;
        if (is_key)
            indexes = lappend_oid(indexes, RelationGetRelid(index));
    }
    return indexes;
}

// The other indexes that an entry conflicts by.
List *ListOtherIndexes(const ResultRelInfo *relinfo, List *arbiters) {
    List *indexes = NIL;
    for (Relation index : std::span(relinfo->ri_IndexRelationDescs, relinfo->ri_NumIndices))
        if ((index->rd_index->indisunique || index->rd_index->indisexclusion) &&
            index->rd_index->indimmediate && !list_member_oid(arbiters, RelationGetRelid(index)))
            indexes = lappend_oid(indexes, RelationGetRelid(index));
    return indexes;
}

void OpenTable(SpeculativeEntries *speculative, SpeculativeTable *self) {
    MemoryContext caller = MemoryContextSwitchTo(speculative->memory);
    Relation root = table_open(self->table->relid, RowExclusiveLock);
    self->storage = GetStorage(root);
    self->attnos = GetLiveColumns(root, self->table->column_count);
    int natts = RelationGetDescr(root)->natts;
    self->values = static_cast<Datum *>(palloc0(sizeof(Datum) * natts));
    self->nulls = static_cast<bool *>(palloc(natts));
    memset(self->nulls, true, natts);
    self->targets = palloc0_array(SpeculativeTarget *, Max(1, self->storage.count));
    MemoryContextSwitchTo(caller);
}

SpeculativeTarget *OpenTarget(SpeculativeEntries *speculative, SpeculativeTable *self, int place) {
    MemoryContext caller = MemoryContextSwitchTo(speculative->memory);
    SpeculativeTarget *target = palloc0_object(SpeculativeTarget);
    Relation rel = target->rel = OpenPart(self->storage, place);
    target->estate = CreateExecutorState();
    target->relinfo = OpenForExecutor(target->estate, rel, true);
    target->slot = table_slot_create(rel, &target->estate->es_tupleTable);
    target->found = table_slot_create(rel, &target->estate->es_tupleTable);
    target->is_transient = FiresOnInsertion(rel);
    if (speculative->has_target) {
        target->arbiters = ListKeyIndexes(target->relinfo, self->table);
        target->others = ListOtherIndexes(target->relinfo, target->arbiters);
    }
    MemoryContextSwitchTo(caller);
    return target;
}

SpeculativeTarget *TargetOf(SpeculativeEntries *speculative, SpeculativeTable *self,
                            HeapTuple entry) {
    int place = RouteEntry(self->storage, entry);
    if (!self->targets[place])
        self->targets[place] = OpenTarget(speculative, self, place);
    return self->targets[place];
}

SpeculativeTarget *TargetOf(SpeculativeTable *self, const TupleTableSlot *entry) {
    for (SpeculativeTarget *target : std::span(self->targets, self->storage.count))
        if (target && target->found == entry)
            return target;
    elog(ERROR, "an entry is of no index table that was looked into");
}

// Deletes a stored entry, without triggers. One that is gone stays so.
void Remove(const SpeculativeEntries *speculative, SpeculativeTarget *target, ItemPointer tid) {
    // A command cannot delete what it has inserted.
    if (GetCurrentCommandId(true) <= Max(speculative->command, speculative->written))
        CommandCounterIncrement();
    TM_FailureData failure;
    compat::DeleteTuple(target->rel, tid, GetCurrentCommandId(true), &failure);
}

// Whether a stored entry exists: its partition's number is live.
bool IsLive(const IndexTable *table, const AttrNumber *attnos, TupleTableSlot *entry) {
    bool isnull;
    Datum partition = slot_getattr(entry, attnos[table->partition_position()], &isnull);
    return !isnull && OidIsValid(FindPartition(table->base, DatumGetInt32(partition)));
}

bool IsNoted(const SpeculativeEntries *speculative, int table, Oid leaf, ItemPointer row) {
    SpeculativePage::Place place = {table, leaf, ItemPointerGetBlockNumber(row)};
    if (!speculative->pages)
        return false;
    SpeculativePage *page =
        static_cast<SpeculativePage *>(hash_search(speculative->pages, &place, HASH_FIND, nullptr));
    int offset = ItemPointerGetOffsetNumber(row);
    return page && offset <= MaxOffsetNumber &&
           (page->rows[offset / 64] & UINT64CONST(1) << offset % 64) != 0;
}

void RememberRow(SpeculativeEntries *speculative, int table, Oid leaf, ItemPointer row) {
    SpeculativePage::Place place = {table, leaf, ItemPointerGetBlockNumber(row)};
    if (!speculative->pages)
        speculative->pages = MakeHashTable<SpeculativePage::Place, SpeculativePage>(
            "index_table rows with speculative entries", 16, speculative->memory);
    bool found;
    SpeculativePage *page =
        static_cast<SpeculativePage *>(hash_search(speculative->pages, &place, HASH_ENTER, &found));
    if (!found)
        memset(page->rows, 0, sizeof(page->rows));
    int offset = ItemPointerGetOffsetNumber(row);
    if (offset > MaxOffsetNumber)
        elog(ERROR, "unexpected row number %d in a page", offset);
    page->rows[offset / 64] |= UINT64CONST(1) << offset % 64;
}

void RemoveTransient(const SpeculativeEntries *speculative, SpeculativeTable *self) {
    for (; self->removed_count < list_length(self->transient); self->removed_count++) {
        SpeculativeEntry *inserted =
            static_cast<SpeculativeEntry *>(list_nth(self->transient, self->removed_count));
        if (inserted->removed_at > 0)
            continue;
        inserted->removed_at = self->removed_at = GetCurrentTransactionNestLevel();
        Remove(speculative, inserted->target, &inserted->tid);
    }
}

// Of a nest level that ends.
void EndLevelOfTransient(SpeculativeTable *self, bool commits, int level) {
    if (self->removed_at < level)
        return;
    self->removed_at = level - 1;
    ListCell *cell;
    foreach (cell, self->transient) {
        SpeculativeEntry *inserted = static_cast<SpeculativeEntry *>(lfirst(cell));
        if (inserted->removed_at >= level)
            inserted->removed_at = commits ? level - 1 : 0;
    }
    if (!commits)
        self->removed_count = 0;
}

// Whether one of the current row's entries in a table is transient: then all of them are.
bool IsTransient(const SpeculativeEntries *speculative, int table) {
    return std::any_of(speculative->speculative,
                       speculative->speculative + speculative->entry_count,
                       [=](const SpeculativeEntry &inserted) {
                           return inserted.table == table && inserted.target->is_transient;
                       });
}

// In place of a table that has transient entries of a row.
int InTransient(const SpeculativeEntries *speculative, int table) {
    return speculative->table_count + table;
}

} // namespace

List *ListConstrainedTables(const Base *base) {
    List *tables = NIL;
    for (IndexTable *table : std::span(base->tables, base->table_count)) {
        if (OidIsValid(table->log))
            continue; // it is being built: nothing is enforced yet
        if (table->on_servers)
            continue; // its servers keep its key, when the entry is written
        Relation rel = try_relation_open(table->relid, AccessShareLock);
        if (!rel)
            continue;
        if (HasConstraints(rel))
            tables = lappend(tables, table);
        relation_close(rel, AccessShareLock);
    }
    return tables;
}

SpeculativeEntries *BeginSpeculation(List *tables, CommandId command, bool has_target) {
    Assert(IsTransactionState());
    MemoryContext memory = AllocSetContextCreate(CurTransactionContext, "index_table speculation",
                                                 ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    SpeculativeEntries *speculative = palloc0_object(SpeculativeEntries);
    speculative->memory = memory;
    speculative->nest_level = GetCurrentTransactionNestLevel();
    speculative->command = command;
    speculative->has_target = has_target;
    speculative->table_count = list_length(tables);
    speculative->tables = palloc0_array(SpeculativeTable, speculative->table_count);
    for (int i = 0; i < speculative->table_count; i++)
        speculative->tables[i].table = static_cast<const IndexTable *>(list_nth(tables, i));
    speculative->entry_capacity = speculative->table_count;
    speculative->speculative = palloc_array(SpeculativeEntry, speculative->entry_capacity);
    MemoryContextSwitchTo(caller);
    speculative->outer = innermost;
    innermost = speculative;
    return speculative;
}

void EndSpeculation(SpeculativeEntries *speculative) {
    for (SpeculativeEntries **link = &innermost; *link; link = &(*link)->outer)
        if (*link == speculative) {
            *link = speculative->outer;
            break;
        }
    for (SpeculativeTable &self : std::span(speculative->tables, speculative->table_count)) {
        if (!self.storage.root)
            continue;
        for (SpeculativeTarget *target : std::span(self.targets, self.storage.count)) {
            if (!target)
                continue;
            CloseForExecutor(target->estate, target->relinfo);
            ClosePart(self.storage, target->rel);
        }
        table_close(self.storage.root, NoLock);
    }
    MemoryContextDelete(speculative->memory);
}

HeapTuple FormEntry(SpeculativeEntries *speculative, int table, const Datum *values,
                    const bool *nulls) {
    Assert(table >= 0 && table < speculative->table_count);
    SpeculativeTable *self = &speculative->tables[table];
    if (!self->storage.root)
        OpenTable(speculative, self);
    TupleDesc descriptor = RelationGetDescr(self->storage.root);
    for (int i = 0; i < self->table->column_count; i++) {
        int index = self->attnos[i] - 1;
        self->values[index] = values[i];
        self->nulls[index] = nulls[i];
        // As captured entries are stored.
        if (TupleDescAttr(descriptor, index)->attlen == -1 && !nulls[i])
            self->values[index] = PointerGetDatum(
                pg_detoast_datum(reinterpret_cast<struct varlena *>(DatumGetPointer(values[i]))));
    }
    return heap_form_tuple(descriptor, self->values, self->nulls);
}

namespace {

TupleTableSlot *Find(SpeculativeEntries *speculative, SpeculativeTable *self,
                     SpeculativeTarget *target, HeapTuple entry, List *indexes) {
    TupleTableSlot *found = nullptr;
    while (!found) {
        CHECK_FOR_INTERRUPTS();
        ItemPointerData tid;
        ExecForceStoreHeapTuple(entry, target->slot, false);
        bool is_free = compat::CheckIndexConstraints(target->relinfo, target->slot, target->estate,
                                                     &tid, indexes);
        ResetPerTupleExprContext(target->estate);
        if (is_free)
            break;
        if (!table_tuple_fetch_row_version(target->rel, &tid, SnapshotAny, target->found))
            continue;
        AcceptInvalidationMessages(); // which partitions there are
        if (IsLive(self->table, self->attnos, target->found))
            found = target->found;
        else
            Remove(speculative, target, &tid);
    }
    ExecClearTuple(target->slot);
    return found;
}

} // namespace

TupleTableSlot *FindConflict(SpeculativeEntries *speculative, int table, HeapTuple entry) {
    FAULT_POINT("speculative_entry.find_conflict");
    Assert(table >= 0 && table < speculative->table_count && HeapTupleIsValid(entry));
    SpeculativeTable *self = &speculative->tables[table];
    SpeculativeTarget *target = TargetOf(speculative, self, entry);
    return Find(speculative, self, target, entry, target->arbiters);
}

bool ConflictsOtherwise(SpeculativeEntries *speculative, int table, HeapTuple entry) {
    Assert(table >= 0 && table < speculative->table_count && HeapTupleIsValid(entry));
    SpeculativeTable *self = &speculative->tables[table];
    SpeculativeTarget *target = TargetOf(speculative, self, entry);
    // Not by the arbiters: by now somebody else may have the key, which is no error.
    return target->others != NIL && Find(speculative, self, target, entry, target->others);
}

Relation RelationOfEntry(SpeculativeEntries *speculative, int table, const TupleTableSlot *entry) {
    return TargetOf(&speculative->tables[table], entry)->rel;
}

bool IsOfCommand(const SpeculativeEntries *speculative, TupleTableSlot *entry) {
    return IsNoted(speculative, kOfCommand, entry->tts_tableOid, &entry->tts_tid);
}

void RememberUpdated(SpeculativeEntries *speculative, TupleTableSlot *entry) {
    RememberRow(speculative, kOfCommand, entry->tts_tableOid, &entry->tts_tid);
}

bool IsStillStored(SpeculativeEntries *speculative, int table, TupleTableSlot *entry) {
    Assert(table >= 0 && table < speculative->table_count && !TTS_EMPTY(entry));
    SpeculativeTarget *target = TargetOf(&speculative->tables[table], entry);
    ItemPointerData tid = entry->tts_tid;
    bool is_there = table_tuple_fetch_row_version(target->rel, &tid, SnapshotSelf, target->slot);
    ExecClearTuple(target->slot);
    return is_there;
}

bool InsertSpeculatively(SpeculativeEntries *speculative, int table, HeapTuple entry) {
    FAULT_POINT("speculative_entry.insert_speculatively");
    Assert(table >= 0 && table < speculative->table_count && HeapTupleIsValid(entry));
    SpeculativeTarget *target = TargetOf(speculative, &speculative->tables[table], entry);
    TupleTableSlot *slot = target->slot;
    ExecForceStoreHeapTuple(entry, slot, false);
    CheckConstraints(target->estate, target->relinfo, slot);
    speculative->written = GetCurrentCommandId(true);
    uint32 token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
    table_tuple_insert_speculative(target->rel, slot, speculative->command, 0, nullptr, token);
    bool is_ours = compat::InsertIndexTuplesSpeculatively(target->relinfo, slot, target->estate);
    table_tuple_complete_speculative(target->rel, slot, token, is_ours);
    SpeculativeInsertionLockRelease(GetCurrentTransactionId());
    ResetPerTupleExprContext(target->estate);
    if (is_ours) {
        if (speculative->entry_count == speculative->entry_capacity) {
            speculative->entry_capacity *= 2;
            speculative->speculative = repalloc_array(speculative->speculative, SpeculativeEntry,
                                                      speculative->entry_capacity);
        }
        speculative->speculative[speculative->entry_count++] = {table, target, slot->tts_tid, 0};
    }
    ExecClearTuple(slot);
    return is_ours;
}

bool IsOwnSpeculative(const SpeculativeEntries *speculative, TupleTableSlot *entry) {
    for (SpeculativeEntry &inserted : std::span(speculative->speculative, speculative->entry_count))
        if (inserted.target->found == entry && ItemPointerEquals(&inserted.tid, &entry->tts_tid))
            return true;
    return false;
}

void TakeBackEntries(SpeculativeEntries *speculative) {
    for (SpeculativeEntry &inserted : std::span(speculative->speculative, speculative->entry_count))
        Remove(speculative, inserted.target, &inserted.tid);
    speculative->entry_count = 0;
}

void TakeBackEntries(SpeculativeEntries *speculative, int table) {
    int kept = 0;
    for (SpeculativeEntry &inserted :
         std::span(speculative->speculative, speculative->entry_count)) {
        if (inserted.table == table)
            Remove(speculative, inserted.target, &inserted.tid);
        else
            speculative->speculative[kept++] = inserted;
    }
    speculative->entry_count = kept;
}

void AwaitRow(SpeculativeEntries *speculative, Relation leaf, TupleTableSlot *row,
              TupleTableSlot *scratch) {
    Assert(!speculative->row);
    speculative->leaf = leaf;
    speculative->row = row;
    speculative->scratch = scratch;
}

void SettleRow(SpeculativeEntries *speculative) {
    FAULT_POINT("speculative_entry.settle_row");
    TupleTableSlot *row = speculative->row;
    if (!row)
        return;
    speculative->row = nullptr;
    ItemPointerData tid = row->tts_tid;
    // A row that lost a race for another constraint was inserted, and killed: then nobody inserted
    // it. Whether it has been changed since does not matter.
    bool is_inserted =
        ItemPointerIsValid(&tid) &&
        table_tuple_fetch_row_version(speculative->leaf, &tid, SnapshotAny, speculative->scratch);
    if (is_inserted) {
        bool isnull;
        Datum inserter =
            slot_getsysattr(speculative->scratch, MinTransactionIdAttributeNumber, &isnull);
        is_inserted = TransactionIdIsCurrentTransactionId(DatumGetTransactionId(inserter));
    }
    ExecClearTuple(speculative->scratch);
    if (!is_inserted) {
        TakeBackEntries(speculative);
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(speculative->memory);
    for (const SpeculativeEntry &inserted :
         std::span(speculative->speculative, speculative->entry_count)) {
        SpeculativeTable *self = &speculative->tables[inserted.table];
        bool is_transient = IsTransient(speculative, inserted.table);
        RememberRow(speculative,
                    is_transient ? InTransient(speculative, inserted.table) : inserted.table,
                    RelationGetRelid(speculative->leaf), &tid);
        if (!is_transient)
            continue;
        SpeculativeEntry *kept = palloc_object(SpeculativeEntry);
        *kept = inserted;
        self->transient = lappend(self->transient, kept);
    }
    speculative->entry_count = 0;
    MemoryContextSwitchTo(caller);
}

void SettleForeignRow(SpeculativeEntries *speculative, bool is_inserted) {
    if (!is_inserted) {
        TakeBackEntries(speculative);
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(speculative->memory);
    for (const SpeculativeEntry &inserted :
         std::span(speculative->speculative, speculative->entry_count)) {
        SpeculativeEntry *kept = palloc_object(SpeculativeEntry);
        *kept = inserted;
        speculative->foreign = lappend(speculative->foreign, kept);
        RememberRow(speculative, kOfCommand, RelationGetRelid(inserted.target->rel), &kept->tid);
    }
    speculative->entry_count = 0;
    MemoryContextSwitchTo(caller);
}

void TakeBackForeign(SpeculativeEntries *speculative) {
    ListCell *cell;
    foreach (cell, speculative->foreign) {
        SpeculativeEntry *inserted = static_cast<SpeculativeEntry *>(lfirst(cell));
        Remove(speculative, inserted->target, &inserted->tid);
    }
    speculative->foreign = NIL;
}

void RememberCaptured(SpeculativeEntries *speculative, Oid leaf, ItemPointer row) {
    Assert(ItemPointerIsValid(row));
    RememberRow(speculative, kCaptured, leaf, row);
}

bool WasCaptured(Oid leaf, ItemPointer row) {
    if (!ItemPointerIsValid(row))
        return false; // of a foreign table
    for (SpeculativeEntries *speculative = innermost; speculative; speculative = speculative->outer)
        if (IsNoted(speculative, kCaptured, leaf, row))
            return true;
    return false;
}

bool IsSpeculative(Oid index_table, Oid leaf, ItemPointer row) {
    Assert(ItemPointerIsValid(row));
    for (SpeculativeEntries *speculative = innermost; speculative;
         speculative = speculative->outer) {
        SettleRow(speculative);
        for (int i = 0; i < speculative->table_count; i++) {
            SpeculativeTable *self = &speculative->tables[i];
            if (self->table->relid != index_table)
                continue;
            if (IsNoted(speculative, i, leaf, row))
                return true;
            if (IsNoted(speculative, InTransient(speculative, i), leaf, row)) {
                RemoveTransient(speculative, self);
                return false;
            }
        }
    }
    return false;
}

void AtEOXactSpeculation() {
    innermost = nullptr;
}

void AtEOSubXactSpeculation(bool commits, int level) {
    // Their relations are closed by the resource owner, their memory goes with the transaction.
    while (!commits && innermost && innermost->nest_level >= level)
        innermost = innermost->outer;
    for (SpeculativeEntries *speculative = innermost; speculative; speculative = speculative->outer)
        for (SpeculativeTable &self : std::span(speculative->tables, speculative->table_count))
            EndLevelOfTransient(&self, commits, level);
}

} // namespace index_table
