// The row trigger: captures what changed.
#include "maintenance/change_buffer.h"
#include "maintenance/speculative_entry.h"
#include "maintenance/own_entries.h"
#include "maintenance/entries.h"
#include "maintenance/flush.h"
#include "maintenance/foreign_guard.h"
#include "maintenance/intent.h"
#include "maintenance/leaf.h"
#include "maintenance/linked_updates.h"
#include "maintenance/statements.h"

namespace index_table {
namespace {

// What one execution of the trigger on one relation needs; lives with the query.
struct Capture {
    uint64 catalog_generation;
    uint64 buffer_generation;
    const Leaf *leaf;
    ExprContext *context; // null: no index table has expressions
    EntryMaker **makers;
    ChangeBuffer **buffers;
    EntryValues *entries; // by attribute number of the index table
    ForeignGuard *guard;  // null: not a foreign table, or no partition
    MemoryContext memory;
};

// Whether rows of a partition are being loaded from a dump of everything. pg_restore may create the
// row trigger before that, when it works in parallel: it belongs to the partitioned table. The
// statement trigger is the partition's own, and is created after its rows are there.
bool IsBeingRestored(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    return !check_function_bodies && // as dumps set it
           std::none_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                        [](const Trigger &trigger) {
                            return TRIGGER_FOR_BEFORE(trigger.tgtype) &&
                                   !TRIGGER_FOR_ROW(trigger.tgtype) &&
                                   get_func_namespace(trigger.tgfoid) == ExtensionSchema();
                        });
}

bool GetBuffers(Capture *capture) {
    const Leaf *leaf = capture->leaf;
    capture->buffers =
        static_cast<ChangeBuffer **>(palloc(sizeof(ChangeBuffer *) * leaf->table_count));
    for (int i = 0; i < leaf->table_count; i++) {
        capture->buffers[i] = GetChangeBuffer(leaf->tables[i].table);
        if (!capture->buffers[i])
            return false;
    }
    return true;
}

Capture *PrepareCapture(FunctionCallInfo fcinfo, Relation rel) {
    Capture *capture = static_cast<Capture *>(fcinfo->flinfo->fn_extra);
    if (capture && capture->catalog_generation == CacheGeneration() &&
        capture->buffer_generation == ChangeBufferGeneration())
        return capture;
    if (capture) {
        if (capture->context)
            FreeExprContext(capture->context, true);
        if (capture->guard)
            FreeForeignGuard(capture->guard);
        MemoryContextDelete(capture->memory);
        fcinfo->flinfo->fn_extra = nullptr;
    }
    MemoryContext memory =
        AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "index_table capture", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    capture = static_cast<Capture *>(palloc0(sizeof(Capture)));
    capture->memory = memory;
    capture->leaf = IsBeingRestored(rel) ? nullptr : FindLeaf(rel);
    // An index table that was dropped while its lock was waited for is no longer in the catalog.
    while (capture->leaf && !GetBuffers(capture))
        capture->leaf = FindLeaf(rel);
    if (const Leaf *leaf = capture->leaf) {
        RememberWrittenPartition(leaf->partition_id);
        capture->guard = leaf->is_foreign ? MakeForeignGuard(rel) : nullptr;
        int count = leaf->table_count;
        capture->makers = static_cast<EntryMaker **>(palloc(sizeof(EntryMaker *) * count));
        capture->entries = static_cast<EntryValues *>(palloc(sizeof(EntryValues) * count));
        for (int i = 0; i < count; i++) {
            if (leaf->tables[i].has_expressions && !capture->context)
                capture->context = CreateStandaloneExprContext();
            capture->makers[i] =
                MakeEntryMaker(&leaf->tables[i], leaf->partition_id, capture->context);
            int columns = capture->buffers[i]->descriptor->natts;
            capture->entries[i].values = static_cast<Datum *>(palloc0(sizeof(Datum) * columns));
            capture->entries[i].nulls = static_cast<bool *>(palloc(columns));
            memset(capture->entries[i].nulls, true, columns);
        }
    }
    // After everything that could have changed them.
    capture->catalog_generation = CacheGeneration();
    capture->buffer_generation = ChangeBufferGeneration();
    fcinfo->flinfo->fn_extra = capture;
    MemoryContextSwitchTo(caller);
    return capture;
}

// The command that wrote the new or deleted the old version of a base row. Entries carry it, so
// that within a transaction a row and its entries become visible together.
CommandId CommandOf(TriggerData *trigger) {
    // Rows of foreign tables carry none.
    if (trigger->tg_relation->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
        return StatementCommand();
    CommandId current = GetCurrentCommandId(true);
    bool is_delete = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
    HeapTuple tuple =
        TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
    if (trigger->tg_relation->rd_tableam != GetHeapamTableAmRoutine() || !tuple)
        return current;
    HeapTupleHeader header = tuple->t_data;
    if (is_delete)
        return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header))
                   ? HeapTupleHeaderGetCmax(header)
                   : current;
    return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header))
               ? HeapTupleHeaderGetCmin(header)
               : current;
}

// Whether a row is deleted from its partition because an UPDATE puts it into another.
bool IsMovingAway(TriggerData *trigger) {
    return TRIGGER_FIRED_BY_DELETE(trigger->tg_event) && trigger->tg_trigtuple &&
           trigger->tg_relation->rd_tableam == GetHeapamTableAmRoutine() &&
           HeapTupleHeaderIndicatesMovedPartitions(trigger->tg_trigtuple->t_data);
}

// Whether any of these columns differ, byte by byte: what a BEFORE trigger changed is not in the
// statement's list of columns, and values that compare equal need not be the same.
bool Differs(TupleTableSlot *before, TupleTableSlot *after, const AttrNumber *attnos, int count) {
    TupleDesc descriptor = after->tts_tupleDescriptor;
    for (int i = 0; i < count; i++) {
        int index = attnos[i] - 1;
        if (before->tts_isnull[index] != after->tts_isnull[index])
            return true;
        if (before->tts_isnull[index])
            continue;
        Form_pg_attribute att = TupleDescAttr(descriptor, index);
        Datum a = before->tts_values[index];
        Datum b = after->tts_values[index];
        if (att->attlen == -1) {
            Size length = VARSIZE_ANY(DatumGetPointer(a));
            if (length == VARSIZE_ANY(DatumGetPointer(b)) &&
                memcmp(DatumGetPointer(a), DatumGetPointer(b), length) == 0)
                continue; // a toasted value that stayed is the same pointer
        }
        if (!datum_image_eq(a, b, att->attbyval, att->attlen))
            return true;
    }
    return false;
}

// Whether an index table learns of a foreign partition's rows from the trigger.
bool HasImmediate(const Leaf *leaf) {
    return std::any_of(leaf->tables, leaf->tables + leaf->table_count,
                       [](const LeafTable &table) { return !table.table->options.is_deferred; });
}

void CaptureRow(Capture *capture, int i, TupleTableSlot *row, ChangeKind kind, CommandId command) {
    ChangeBuffer *buffer = capture->buffers[i];
    const IndexTable *table = buffer->table;
    EntryValues &entry = capture->entries[i];
    ForEachEntry(capture->makers[i], row, [&](const Datum *values, const bool *nulls) {
        for (int position = 0; position < table->column_count; position++) {
            entry.values[buffer->attnos[position] - 1] = values[position];
            entry.nulls[buffer->attnos[position] - 1] = nulls[position];
        }
        AddChange(buffer, entry, kind, command);
    });
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_maintain) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.maintain()");
    if (!TRIGGER_FIRED_AFTER(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        RaiseFiredWrongly("index_table.maintain()", "AFTER, FOR EACH ROW");

    Capture *capture = PrepareCapture(fcinfo, trigger->tg_relation);
    const Leaf *leaf = capture->leaf;
    if (!leaf)
        return PointerGetDatum(nullptr);

    bool is_update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    TupleTableSlot *before =
        TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? nullptr : trigger->tg_trigslot;
    TupleTableSlot *after = is_update                                    ? trigger->tg_newslot
                            : TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ? trigger->tg_trigslot
                                                                         : nullptr;
    if (before)
        slot_getsomeattrs(before, leaf->max_attno);
    if (after)
        slot_getsomeattrs(after, leaf->max_attno);
    if (after && capture->guard)
        CheckStaysInPartition(capture->guard, after);
    if (is_update && !Differs(before, after, leaf->used, leaf->used_count))
        return PointerGetDatum(nullptr);

    RememberChange(leaf->base_relid);
    if (leaf->is_foreign && HasImmediate(leaf)) {
        if (before)
            RememberIntent(trigger->tg_relation, leaf, before);
        if (after)
            RememberIntent(trigger->tg_relation, leaf, after);
    }
    CommandId command = CommandOf(trigger);
    bool moves_away = IsMovingAway(trigger);
    bool full = false;
    for (int i = 0; i < leaf->table_count; i++) {
        const LeafTable &table = leaf->tables[i];
        if (leaf->is_foreign && table.table->options.is_deferred)
            continue;
        if (is_update && leaf->table_count > 1 &&
            !Differs(before, after, table.used, table.used_count))
            continue;
        bool is_speculative =
            !leaf->is_foreign &&
            IsSpeculative(table.table->relid, RelationGetRelid(trigger->tg_relation),
                          &trigger->tg_trigslot->tts_tid);
        if (is_speculative && !before)
            continue; // it is stored already
        ChangeBuffer *buffer = capture->buffers[i];
        bool may_link = table.table->options.is_unique && table.table->key.multi_valued < 0;
        uint32 sequence = buffer->sequence;
        if (before)
            CaptureRow(capture, i, before, ChangeKind::Delete, command);
        if (may_link && moves_away && buffer->sequence == sequence + 1)
            OpenLastHalf(buffer);
        if (may_link && !before && buffer->open_count > 0)
            JoinHalf(buffer, command);
        if (after)
            CaptureRow(capture, i, after, ChangeKind::Insert, command);
        if (may_link && after && buffer->sequence == sequence + 2)
            LinkLastTwo(buffer);
        full = full || IsFull(buffer);
    }
    if (capture->context)
        ResetExprContext(capture->context);
    if (full)
        FlushChanges();
    return PointerGetDatum(nullptr);
}
