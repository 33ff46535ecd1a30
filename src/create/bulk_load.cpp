#include "create/bulk_load.h"

#include "core/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

constexpr Size kBatchBytes = 256 * 1024;

// A relation being filled: the index table or one of its partitions.
struct LoadTarget {
    Relation rel;
    BulkInsertState state;
    MemoryContext batch;      // holds the tuples of the batch
    const AttrNumber *attnos; // of its columns; null: the query's columns are its own
    TupleTableSlot *slots[kInsertedAtOnce];
    int count;
    Size bytes;
};

struct BulkLoadReceiver {
    DestReceiver receiver;
    const IndexTable *table;
    bool is_sorted;
    int options;
    Progress *progress;
    EntryStorage storage;
    LoadTarget **targets; // by place; of a partitioned index table opened as needed
    MemoryContext context;
    CommandId command;
    int64 rows;
};

LoadTarget *OpenTarget(BulkLoadReceiver *self, int place) {
    MemoryContext caller = MemoryContextSwitchTo(self->context);
    LoadTarget *target = static_cast<LoadTarget *>(palloc0(sizeof(LoadTarget)));
    Relation rel = target->rel = OpenPart(self->storage, place);
    target->state = GetBulkInsertState();
    target->batch =
        AllocSetContextCreate(self->context, "index_table load batch", ALLOCSET_DEFAULT_SIZES);
    const AttrNumber *attnos = GetLiveColumns(rel, self->table->column_count);
    if (attnos[self->table->column_count - 1] != self->table->column_count)
        target->attnos = attnos;
    MemoryContextSwitchTo(caller);
    return target;
}

void WriteBatch(BulkLoadReceiver *self, LoadTarget *target) {
    FAULT_POINT("bulk_load.write_batch");
    if (target->count == 0)
        return;
    table_multi_insert(target->rel, target->slots, target->count, self->command, self->options,
                       target->state);
    for (int i = 0; i < target->count; i++)
        ExecClearTuple(target->slots[i]);
    target->count = 0;
    target->bytes = 0;
    MemoryContextReset(target->batch);
    CHECK_FOR_INTERRUPTS();
}

LoadTarget *TargetOf(BulkLoadReceiver *self, TupleTableSlot *slot) {
    int place = RouteEntry(self->storage, slot);
    if (!self->targets[place])
        self->targets[place] = OpenTarget(self, place);
    return self->targets[place];
}

void Startup(DestReceiver *receiver, int, TupleDesc) {
    BulkLoadReceiver *self = reinterpret_cast<BulkLoadReceiver *>(receiver);
    self->context = AllocSetContextCreate(CurrentMemoryContext, "index_table bulk load",
                                          ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(self->context);
    self->storage = GetStorage(table_open(self->table->relid, RowExclusiveLock));
    self->targets = palloc0_array(LoadTarget *, Max(1, self->storage.count));
    if (!self->storage.partition_key)
        self->targets[0] = OpenTarget(self, 0);
    MemoryContextSwitchTo(caller);
}

// In the current memory context.
HeapTuple MakeTuple(const BulkLoadReceiver *self, const LoadTarget *target, TupleTableSlot *slot) {
    if (!target->attnos)
        return ExecCopySlotHeapTuple(slot);
    // Included columns have been dropped.
    TupleDesc descriptor = RelationGetDescr(target->rel);
    Datum *values = palloc0_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    memset(nulls, true, descriptor->natts);
    for (int i = 0; i < self->table->column_count; i++)
        values[target->attnos[i] - 1] = slot_getattr(slot, i + 1, &nulls[target->attnos[i] - 1]);
    return heap_form_tuple(descriptor, values, nulls);
}

bool Receive(TupleTableSlot *slot, DestReceiver *receiver) {
    BulkLoadReceiver *self = reinterpret_cast<BulkLoadReceiver *>(receiver);
    // What comes unsorted is loaded while the base table is scanned, and counted there.
    if (self->rows == 0 && self->is_sorted)
        ReportPhase(self->progress, Phase::Loading);
    LoadTarget *target = TargetOf(self, slot);
    MemoryContext caller = MemoryContextSwitchTo(target->batch);
    HeapTuple tuple = MakeTuple(self, target, slot);
    MemoryContextSwitchTo(caller);
    TupleTableSlot **batch_slot = &target->slots[target->count];
    if (!*batch_slot) {
        caller = MemoryContextSwitchTo(self->context);
        *batch_slot = MakeSingleTupleTableSlot(RelationGetDescr(target->rel), &TTSOpsHeapTuple);
        MemoryContextSwitchTo(caller);
    }
    ExecStoreHeapTuple(tuple, *batch_slot, false);
    target->count++;
    target->bytes += tuple->t_len;
    if (target->count == kInsertedAtOnce || target->bytes >= kBatchBytes)
        WriteBatch(self, target);
    self->rows++;
    if (self->is_sorted)
        ReportRows(self->progress, self->rows);
    return true;
}

void Shutdown(DestReceiver *receiver) {
    BulkLoadReceiver *self = reinterpret_cast<BulkLoadReceiver *>(receiver);
    for (LoadTarget *target : std::span(self->targets, self->storage.count)) {
        if (!target)
            continue;
        WriteBatch(self, target);
        for (TupleTableSlot *slot : target->slots)
            if (slot)
                ExecDropSingleTupleTableSlot(slot);
        FreeBulkInsertState(target->state);
        table_finish_bulk_insert(target->rel, self->options);
        ClosePart(self->storage, target->rel);
    }
    table_close(self->storage.root, NoLock);
    MemoryContextDelete(self->context);
}

void Destroy(DestReceiver *receiver) {
    pfree(receiver);
}

} // namespace

DestReceiver *CreateBulkLoadReceiver(const IndexTable *table, bool is_sorted, bool freeze,
                                     Progress *progress) {
    Assert(IsKnown(table) && IsMemoryFreed());
    BulkLoadReceiver *self = static_cast<BulkLoadReceiver *>(palloc0(sizeof(BulkLoadReceiver)));
    self->receiver.receiveSlot = Receive;
    self->receiver.rStartup = Startup;
    self->receiver.rShutdown = Shutdown;
    self->receiver.rDestroy = Destroy;
    self->receiver.mydest = DestIntoRel;
    self->table = table;
    self->is_sorted = is_sorted;
    self->options = TABLE_INSERT_SKIP_FSM | (freeze ? TABLE_INSERT_FROZEN : 0);
    self->progress = progress;
    // Both before the query goes parallel, when neither may be assigned any more.
    GetCurrentTransactionId();
    self->command = GetCurrentCommandId(true);
    return &self->receiver;
}

} // namespace index_table
