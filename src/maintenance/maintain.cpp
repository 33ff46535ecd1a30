// The row trigger: captures what changed.
#include "maintenance/maintain.h"

#include "core/public.h"
#include "maintenance/change_buffer.h"
#include "maintenance/entries.h"
#include "maintenance/flush.h"
#include "maintenance/foreign_guard.h"
#include "maintenance/intent.h"
#include "maintenance/leaf.h"
#include "maintenance/linked_updates.h"
#include "maintenance/own_entries.h"
#include "maintenance/remote_entries.h"
#include "maintenance/speculative_entry.h"
#include "maintenance/statements.h"
#include "maintenance/target_plan.h"

namespace index_table {
namespace {

// A row that was inserted, updated or deleted.
struct RowChange {
    Relation rel;
    TupleTableSlot *before; // null: it was inserted
    TupleTableSlot *after;  // null: it was deleted
    HeapTuple tuple;        // the new version, or that which is gone
};

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
    bool needs_intent;
    bool flushes_each; // row, at once
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

// Whether an index table learns of a partition's rows from queues alone, as those of foreign ones
// do that are built concurrently.
bool LearnsFromQueue(const Leaf *leaf, const IndexTable *table) {
    return OidIsValid(table->queue) ||
           (leaf->is_foreign && (table->options.is_deferred || OidIsValid(table->log)));
}

// Whether a commit on servers comes before this server's: on the row's, or on those of its entries.
bool NeedsIntent(const Leaf *leaf) {
    return std::any_of(leaf->tables, leaf->tables + leaf->table_count,
                       [leaf](const LeafTable &table) {
                           return (leaf->is_foreign || table.table->on_servers) &&
                                  !LearnsFromQueue(leaf, table.table);
                       });
}

// Whether `asks` says so of one of a leaf's index tables that foreign keys may point at.
template <typename Asks>
bool IsOneOf(const Leaf *leaf, Asks asks) {
    for (const LeafTable &table : std::span(leaf->tables, leaf->table_count)) {
        Relation rel = table.table->options.is_unique
                           ? try_relation_open(table.table->relid, RowExclusiveLock)
                           : nullptr;
        bool found = rel && asks(rel);
        if (rel)
            relation_close(rel, NoLock);
        if (found)
            return true;
    }
    return false;
}

// Whether a table refers to index tables.
bool RefersToIndexTables(Relation rel) {
    const TriggerDesc *triggers = rel->trigdesc;
    return triggers &&
           std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                       [](const Trigger &trigger) {
                           return RI_FKey_trigger_type(trigger.tgfoid) == RI_TRIGGER_FK &&
                                  OidIsValid(RecordedBase(RootOf(trigger.tgconstrrelid)));
                       });
}

// Whether foreign keys look in the middle of the statement at what a row's change makes of an index
// table, before anything has it flushed. Where keys refer to each other in a circle the row itself
// may change with its key, and then is not checked as it was: a check's own query is too late.
bool MustFlushEach(Relation rel, const Leaf *leaf) {
    if (RefersToIndexTables(rel) &&
        (compat::kForeignKeysLookDirectly || IsOneOf(leaf, IsReferencedByForeignKey)))
        return true;
    return compat::kForeignKeysLookDirectly && IsOneOf(leaf, IsLookedAtDirectly);
}

// `cached` is the caller's, made in `parent` and kept there from one call to the next.
Capture *PrepareCapture(Relation rel, void **cached, MemoryContext parent) {
    Capture *capture = static_cast<Capture *>(*cached);
    if (capture && capture->catalog_generation == CacheGeneration() &&
        capture->buffer_generation == ChangeBufferGeneration())
        return capture;
    if (capture) {
        if (capture->context)
            FreeExprContext(capture->context, true);
        if (capture->guard)
            FreeForeignGuard(capture->guard);
        MemoryContextDelete(capture->memory);
        *cached = nullptr;
    }
    MemoryContext memory =
        AllocSetContextCreate(parent, "index_table capture", ALLOCSET_SMALL_SIZES);
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
        capture->needs_intent = NeedsIntent(leaf);
        capture->flushes_each = MustFlushEach(rel, leaf);
        int count = leaf->table_count;
        capture->makers = static_cast<EntryMaker **>(palloc(sizeof(EntryMaker *) * count));
        capture->entries = static_cast<EntryValues *>(palloc(sizeof(EntryValues) * count));
        for (int i = 0; i < count; i++) {
            if (leaf->tables[i].table->on_servers)
                ReachServers(leaf->tables[i].table);
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
    *cached = capture;
    MemoryContextSwitchTo(caller);
    return capture;
}

// The command that wrote the new or deleted the old version of a base row. Entries carry it, so
// that within a transaction a row and its entries become visible together.
CommandId CommandOf(const RowChange &change) {
    // Rows of foreign tables carry none.
    if (change.rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
        return StatementCommand();
    CommandId current = GetCurrentCommandId(true);
    if (change.rel->rd_tableam != GetHeapamTableAmRoutine() || !change.tuple)
        return current;
    HeapTupleHeader header = change.tuple->t_data;
    if (!change.after)
        return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header))
                   ? HeapTupleHeaderGetCmax(header)
                   : current;
    return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header))
               ? HeapTupleHeaderGetCmin(header)
               : current;
}

// Whether a row is deleted from its partition because an UPDATE puts it into another.
bool IsMovingAway(const RowChange &change) {
    return !change.after && change.tuple && change.rel->rd_tableam == GetHeapamTableAmRoutine() &&
           HeapTupleHeaderIndicatesMovedPartitions(change.tuple->t_data);
}

void CaptureRow(Capture *capture, int i, TupleTableSlot *row, ChangeKind kind, CommandId command) {
    FAULT_POINT("maintain.capture_row");
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

// Captures a change for every index table that it concerns. Returns whether it is to be flushed: a
// buffer is full, or others will look for it.
bool CaptureChange(Capture *capture, const RowChange &change) {
    const Leaf *leaf = capture->leaf;
    TupleTableSlot *before = change.before, *after = change.after;
    if (before)
        slot_getsomeattrs(before, leaf->max_attno);
    if (after)
        slot_getsomeattrs(after, leaf->max_attno);
    if (after && capture->guard)
        CheckStaysInPartition(capture->guard, after);
    bool is_update = before && after;
    if (is_update && !Differs(before, after, leaf->used, leaf->used_count))
        return false;

    RememberChange(leaf->base_relid);
    if (capture->needs_intent) {
        if (before)
            RememberIntent(change.rel, leaf, before);
        if (after)
            RememberIntent(change.rel, leaf, after);
    }
    CommandId command = CommandOf(change);
    bool moves_away = IsMovingAway(change);
    bool full = capture->flushes_each;
    for (int i = 0; i < leaf->table_count; i++) {
        const LeafTable &table = leaf->tables[i];
        if (LearnsFromQueue(leaf, table.table))
            continue;
        if (is_update && leaf->table_count > 1 &&
            !Differs(before, after, table.used, table.used_count))
            continue;
        bool is_speculative =
            !leaf->is_foreign && IsSpeculative(table.table->relid, RelationGetRelid(change.rel),
                                               &(before ? before : after)->tts_tid);
        if (is_speculative && !before)
            continue; // it is stored already
        ChangeBuffer *buffer = capture->buffers[i];
        bool may_link = table.table->options.is_unique && table.table->key.multi_valued < 0;
        uint32 sequence = buffer->sequence;
        if (may_link && moves_away) // whether the row has an entry, or not
            CloseHalves(buffer, command);
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
    return full;
}

} // namespace

void CaptureUpdate(Relation rel, TupleTableSlot *before, TupleTableSlot *after, void **cached,
                   MemoryContext memory) {
    bool is_copy;
    Capture *capture = PrepareCapture(rel, cached, memory);
    if (!capture->leaf)
        return;
    HeapTuple tuple = ExecFetchSlotHeapTuple(after, true, &is_copy);
    CaptureChange(capture, {.rel = rel, .before = before, .after = after, .tuple = tuple});
    if (is_copy)
        heap_freetuple(tuple);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_maintain) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.maintain()");
    TriggerEvent event = trigger->tg_event;
    if (!TRIGGER_FIRED_AFTER(event) || !TRIGGER_FIRED_FOR_ROW(event))
        RaiseFiredWrongly("index_table.maintain()", "AFTER, FOR EACH ROW");
    RowChange change = {.rel = trigger->tg_relation,
                        .before = OldRow(trigger),
                        .after = NewRow(trigger),
                        .tuple = TRIGGER_FIRED_BY_UPDATE(event) ? trigger->tg_newtuple
                                                                : trigger->tg_trigtuple};
    Capture *capture =
        PrepareCapture(change.rel, &fcinfo->flinfo->fn_extra, fcinfo->flinfo->fn_mcxt);
    if (!capture->leaf)
        return kNoRow;
    bool was_captured = change.before && change.after &&
                        WasCaptured(RelationGetRelid(change.rel), &change.after->tts_tid);
    if (was_captured ? capture->flushes_each : CaptureChange(capture, change))
        FlushChanges();
    return kNoRow;
}
