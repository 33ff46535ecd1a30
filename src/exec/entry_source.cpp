#include "exec/entry_source.h"

#include "core/public.h"
#include "exec/entry_bitmap.h"
#include "exec/entry_quals.h"
#include "exec/overlay.h"
#include "exec/read_consistency.h"
#include "exec/remote_entries.h"
#include "maintenance/public.h"

namespace index_table {

// One relation that holds entries.
struct EntryPart {
    Relation rel;
    Relation index;
    IndexScanDesc scan;  // begun when first needed
    EntryBitmap *bitmap; // instead of that, where the source reads through bitmaps
    TupleTableSlot *slot;
    Buffer visibility;
    AttrNumber *index_columns; // of the needed positions, in the B-tree; 0: not there
    AttrNumber *columns;       // in the relation
};

namespace {

// --- Through an index --------------------------------------------------------

// As StoredColumns(), of a partition of the index table too.
const AttrNumber *FindColumns(const IndexTable *table, Relation rel) {
    const AttrNumber *stored =
        RelationGetRelid(rel) == table->relid ? StoredColumns(table, rel) : nullptr;
    return stored ? stored : GetLiveColumns(rel, table->column_count);
}

// Finds the needed columns in a part; false where some are not in its B-tree.
bool LocateColumns(const EntrySource *source, EntryPart *part) {
    const AttrNumber *live = FindColumns(source->table, part->rel);
    TupleDesc stored = RelationGetDescr(part->index);
    Form_pg_index form = part->index->rd_index;
    part->columns =
        static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * (source->needed_count + 1)));
    part->index_columns =
        static_cast<AttrNumber *>(palloc0(sizeof(AttrNumber) * (source->needed_count + 1)));
    bool all = true;
    for (int i = 0; i < source->needed_count; i++) {
        part->columns[i] = live[source->needed[i]];
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(part->rel), part->columns[i] - 1);
        for (int j = 0; j < form->indnatts; j++)
            // An operator class may store something else than the column's values.
            if (form->indkey.values[j] == part->columns[i] &&
                TupleDescAttr(stored, j)->atttypid == att->atttypid)
                part->index_columns[i] = j + 1;
        all = all && part->index_columns[i] != 0;
    }
    return all;
}

void AddPart(EntrySource *source, Oid relid, Oid index) {
    EntryPart *part = &source->parts[source->part_count++];
    part->rel = table_open(relid, AccessShareLock);
    part->index = index_open(index, AccessShareLock);
    part->visibility = InvalidBuffer;
    source->index_only = LocateColumns(source, part) && source->index_only;
}

void OpenParts(EntrySource *source) {
    source->index_only = true;
    if (source->rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE) {
        source->parts = palloc0_object(EntryPart);
        AddPart(source, RelationGetRelid(source->rel), source->plan->index);
        return;
    }
    List *children = find_inheritance_children(RelationGetRelid(source->rel), AccessShareLock);
    source->parts = palloc0_array(EntryPart, Max(1, list_length(children)));
    ListCell *cell;
    foreach (cell, children) {
        Relation child = table_open(lfirst_oid(cell), NoLock);
        Oid index = index_get_partition(child, source->plan->index);
        table_close(child, NoLock);
        if (!OidIsValid(index))
            elog(ERROR, "index \"%s\" is missing on \"%s\"", get_rel_name(source->plan->index),
                 get_rel_name(lfirst_oid(cell)));
        AddPart(source, lfirst_oid(cell), index);
    }
}

// The partition of the index table that holds a key which is given; -1 where any may.
int FindPart(EntrySource *source) {
    if (source->plan->is_owner_index || source->rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return -1;
    for (int i = 0; i < source->key_count; i++) {
        const ScanKeyData &key = source->keys[i];
        if (key.sk_attno != 1 || key.sk_strategy != BTEqualStrategyNumber ||
            (key.sk_flags & (SK_SEARCHARRAY | SK_SEARCHNULL | SK_SEARCHNOTNULL | SK_ROW_HEADER)) ||
            (OidIsValid(key.sk_subtype) && key.sk_subtype != source->index->rd_opcintype[0]))
            continue;
        if (key.sk_flags & SK_ISNULL)
            return -1;
        EntryStorage storage = GetStorage(source->rel);
        int place = FindPlace(storage, key.sk_argument, false);
        for (int part = 0; place >= 0 && part < source->part_count; part++)
            if (RelationGetRelid(source->parts[part].rel) == storage.partitions->oids[place])
                return part;
        return -1;
    }
    return -1;
}

void StartPart(EntrySource *source) {
    EntryPart *part = &source->parts[source->current];
    if (!part->slot)
        part->slot = table_slot_create(part->rel, nullptr);
    if (source->by_bitmap) {
        if (!part->bitmap)
            part->bitmap = BeginEntryBitmap(part->rel, part->index, source->snapshot,
                                            source->bitmap_keys->key_count);
        ResetEntryBitmap(part->bitmap);
        return;
    }
    if (!part->scan) {
        part->scan = compat::BeginIndexScan(part->rel, part->index, source->snapshot,
                                            source->key_count, source->distance_count);
        part->scan->xs_want_itup = source->index_only;
    }
    index_rescan(part->scan, source->keys, source->key_count, source->distances,
                 source->distance_count);
}

// The next entry of a part, from the B-tree alone where the heap page is known to be visible.
bool ReadFromIndex(EntrySource *source, EntryPart *part) {
    ScanDirection direction = source->direction;
    while (ItemPointer tid = index_getnext_tid(part->scan, direction)) {
        CHECK_FOR_INTERRUPTS();
        if (VM_ALL_VISIBLE(part->rel, ItemPointerGetBlockNumber(tid), &part->visibility)) {
            // The tuple is not read, so its page stands for it.
            PredicateLockPage(part->rel, ItemPointerGetBlockNumber(tid), source->snapshot);
        } else {
            source->heap_fetches++;
            if (!index_fetch_heap(part->scan, part->slot))
                continue;
            ExecClearTuple(part->slot);
        }
        for (int i = 0; i < source->needed_count; i++)
            source->values[source->needed[i]] =
                index_getattr(part->scan->xs_itup, part->index_columns[i], part->scan->xs_itupdesc,
                              &source->nulls[source->needed[i]]);
        return true;
    }
    return false;
}

void TakeFromSlot(EntrySource *source, const EntryPart *part) {
    source->heap_fetches++;
    for (int i = 0; i < source->needed_count; i++)
        source->values[source->needed[i]] =
            slot_getattr(part->slot, part->columns[i], &source->nulls[source->needed[i]]);
}

bool ReadFromHeap(EntrySource *source, EntryPart *part) {
    if (!index_getnext_slot(part->scan, source->direction, part->slot))
        return false;
    CHECK_FOR_INTERRUPTS();
    TakeFromSlot(source, part);
    return true;
}

// Whether the entry just read meets conditions.
bool Passes(EntrySource *source, ExprState *conditions) {
    ExprContext *context = source->node->ps_ExprContext;
    TupleTableSlot *slot = source->filter_slot;
    ExecClearTuple(slot);
    memcpy(slot->tts_values, source->values, sizeof(Datum) * source->table->column_count);
    memcpy(slot->tts_isnull, source->nulls, source->table->column_count);
    ExecStoreVirtualTuple(slot);
    TupleTableSlot *scanned = context->ecxt_scantuple;
    context->ecxt_scantuple = slot;
    bool passes = ExecQual(conditions, context);
    context->ecxt_scantuple = scanned;
    ResetExprContext(context);
    return passes;
}

// Those of the index.
bool PassesFilter(EntrySource *source) {
    return Passes(source, source->filter);
}

// What the index finds may be more than is looked for: the entry is asked before its row is.
bool ReadFromBitmap(EntrySource *source, EntryPart *part) {
    bool recheck;
    while (NextBitmapTuple(part->bitmap, *source->bitmap_keys, part->slot, &recheck)) {
        CHECK_FOR_INTERRUPTS();
        TakeFromSlot(source, part);
        if (!recheck || PassesFilter(source))
            return true;
        source->entries_removed++;
    }
    return false;
}

// The same of one that comes by its distance.
bool ReadByDistance(EntrySource *source, EntryPart *part) {
    while (ReadFromHeap(source, part)) {
        source->told = ToldBy(part->scan);
        if (part->scan->xs_recheck && !PassesFilter(source))
            source->entries_removed++;
        else if (source->row_filter && !Passes(source, source->row_filter))
            source->entries_filtered++;
        else
            return true;
    }
    return false;
}

bool ReadFromPart(EntrySource *source, EntryPart *part) {
    if (source->by_bitmap)
        return ReadFromBitmap(source, part);
    if (source->by_distance)
        return ReadByDistance(source, part);
    return source->index_only ? ReadFromIndex(source, part) : ReadFromHeap(source, part);
}

void PrepareKeys(EntrySource *source) {
    List *quals = QualsOverIndex(source->plan, source->index);
    BitmapKeys *bitmap = source->by_bitmap ? palloc0_object(BitmapKeys) : nullptr;
    source->bitmap_keys = bitmap;
    ExecIndexBuildScanKeys(source->node, source->index, quals, false, &source->keys,
                           &source->key_count, &source->runtime_keys, &source->runtime_key_count,
                           bitmap ? &bitmap->arrays : nullptr,
                           bitmap ? &bitmap->array_count : nullptr);
    if (source->by_distance)
        ExecIndexBuildScanKeys(source->node, source->index,
                               DistancesOverIndex(source->by_distance, source->index), true,
                               &source->distances, &source->distance_count, &source->runtime_keys,
                               &source->runtime_key_count, nullptr, nullptr);
    if (source->runtime_key_count > 0 || (bitmap && bitmap->array_count > 0)) {
        ExprContext *own = source->node->ps_ExprContext;
        ExecAssignExprContext(source->node->state, source->node);
        source->runtime_context = source->node->ps_ExprContext;
        source->node->ps_ExprContext = own;
    }
    if (bitmap) {
        bitmap->keys = source->keys;
        bitmap->key_count = source->key_count;
        bitmap->context = source->runtime_context;
    }
}

// Makes ready to check the conditions on entries.
void PrepareFilter(EntrySource *source) {
    const IndexTable *table = source->table;
    const AttrNumber *live = FindColumns(table, source->rel);
    TupleDesc descriptor = CreateTemplateTupleDesc(table->column_count);
    for (int i = 0; i < table->column_count; i++)
        TupleDescCopyEntry(descriptor, i + 1, RelationGetDescr(source->rel), live[i]);
    compat::FinishDescriptor(descriptor);
    source->filter_slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsVirtual);
    List *quals = QualsOverEntry(source->plan, table, source->index, live);
    source->filter = ExecInitQual(quals, source->node);
    Bitmapset *columns = nullptr;
    pull_varattnos(reinterpret_cast<Node *>(quals), 1, &columns);
    if (source->by_distance && source->by_distance->entry_filter != NIL) {
        Index relid = reinterpret_cast<const Scan *>(source->node->plan)->scanrelid;
        List *clauses = ClausesOverEntry(source->by_distance->entry_filter, table, relid);
        source->row_filter = ExecInitQual(clauses, source->node);
        pull_varattnos(reinterpret_cast<Node *>(clauses), 1, &columns);
    }
    for (int i = 0; i < table->column_count; i++)
        if (bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, columns))
            source->filtered = bms_add_member(source->filtered, i);
}

// --- From the queue ----------------------------------------------------------

// Lays what is queued over the entries, if anything is; where it cannot be known they are
// recomputed.
void PrepareOverlay(EntrySource *source, const EntryNeeds &needs) {
    Relation base = reinterpret_cast<ScanState *>(source->node)->ss_currentRelation;
    Overlay *overlay = OpenOverlay(source->table, base, source->snapshot, needs.lock);
    if (!overlay) {
        source->recompute = true;
        return;
    }
    if (IsQueueEmpty(&overlay->packs)) {
        CloseOverlay(overlay);
        return;
    }
    source->overlay = overlay;
    source->held_values = palloc0_array(Datum, source->table->column_count);
    source->held_nulls = palloc0_array(bool, source->table->column_count);
    if (source->is_ordered)
        OrderOverlay(overlay, source->index, FindColumns(source->table, source->rel),
                     source->direction == BackwardScanDirection);
}

// What tells whether a stored entry counts, and where it comes.
Bitmapset *AddOverlayPositions(const EntrySource *source, Bitmapset *positions) {
    const IndexTable *table = source->table;
    for (int i = 0; i < table->identity_count; i++)
        positions = bms_add_member(positions, table->identity[i].position);
    return bms_add_members(positions, OrderPositions(source->overlay));
}

// Adds the hashes of what a condition on the first column says it equals. False where that is not
// known.
bool AddWanted(EntrySource *source, const ScanKeyData &key, WantedKeys *wanted) {
    KeyHasher *hasher = source->overlay->packs.hasher;
    if (key.sk_flags & (SK_ROW_HEADER | SK_SEARCHNOTNULL))
        return false;
    if (key.sk_flags & SK_SEARCHNULL) {
        wanted->hashes[wanted->count++] = HashKey(hasher, 0, true);
        return true;
    }
    if (key.sk_strategy != BTEqualStrategyNumber)
        return false;
    if (key.sk_flags & SK_ISNULL) // nothing equals it
        return true;
    Oid type = OidIsValid(key.sk_subtype) ? key.sk_subtype : hasher->input;
    FmgrInfo *hash = &hasher->hash;
    FmgrInfo other;
    if (type != hasher->input) {
        if (!FindHashOf(hasher, type, &other))
            return false;
        hash = &other;
    }
    auto add = [&](Datum value) {
        wanted->hashes[wanted->count++] =
            DatumGetUInt32(FunctionCall1Coll(hash, hasher->collation, value));
    };
    if (!(key.sk_flags & SK_SEARCHARRAY)) {
        add(key.sk_argument);
        return true;
    }
    ArrayType *array = DatumGetArrayTypeP(key.sk_argument);
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
    Datum *values;
    bool *nulls;
    int count;
    deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &count);
    wanted->hashes = palloc_array(uint32, Max(1, count));
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            add(values[i]);
    return true;
}

// The keys that the scan is about.
WantedKeys FindWanted(EntrySource *source) {
    WantedKeys wanted = {.count = 0, .hashes = palloc_array(uint32, 1)};
    if (source->overlay->packs.hasher->is_usable && !source->plan->is_owner_index)
        for (int i = 0; i < source->key_count; i++)
            if (source->keys[i].sk_attno == 1 && AddWanted(source, source->keys[i], &wanted)) {
                std::sort(wanted.hashes, wanted.hashes + wanted.count);
                wanted.count = static_cast<int>(
                    std::unique(wanted.hashes, wanted.hashes + wanted.count) - wanted.hashes);
                return wanted;
            }
    return {.count = -1, .hashes = nullptr};
}

void RestartOverlay(EntrySource *source) {
    Overlay *overlay = source->overlay;
    source->has_ended = source->has_held = false;
    MemoryContext caller =
        MemoryContextSwitchTo(source->node->ps_ExprContext->ecxt_per_tuple_memory);
    StartOverlay(overlay, FindWanted(source));
    MemoryContextSwitchTo(caller);
    FilterOverlay(overlay, [source](const OverlayEntry &entry) {
        memcpy(source->values, entry.values, sizeof(Datum) * source->table->column_count);
        memcpy(source->nulls, entry.nulls, source->table->column_count);
        return PassesFilter(source);
    });
    if (source->is_ordered)
        SortOverlay(overlay);
}

// --- From the base table -----------------------------------------------------

// All at once: a portal that stayed open would be closed by a subtransaction that fails, or before
// the cursor that this belongs to. What SPI returns goes with the connection.
void RecomputeAll(EntrySource *source) {
    MemoryContext caller = MemoryContextSwitchTo(source->memory);
    source->recomputed = tuplestore_begin_heap(true, false, work_mem);
    MemoryContextSwitchTo(caller);
    PushActiveSnapshot(source->snapshot);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    bool is_btree = source->index->rd_rel->relam == BTREE_AM_OID;
    Oid order = source->plan->is_owner_index && is_btree ? source->plan->index : InvalidOid;
    EntryScan scan =
        BeginRecomputation(source->table, source->direction == BackwardScanDirection, order);
    HeapTuple entry = NextEntry(&scan);
    MemoryContext spi = MemoryContextSwitchTo(source->memory);
    source->recomputed_slot =
        MakeSingleTupleTableSlot(CreateTupleDescCopy(scan.batch->tupdesc), &TTSOpsMinimalTuple);
    MemoryContextSwitchTo(spi);
    for (; entry; entry = NextEntry(&scan))
        tuplestore_puttuple(source->recomputed, entry);
    EndEntryScan(&scan);
    SPI_finish();
    PopActiveSnapshot();
}

bool Recompute(EntrySource *source) {
    if (!source->recomputed)
        RecomputeAll(source);
    TupleTableSlot *slot = source->recomputed_slot;
    while (tuplestore_gettupleslot(source->recomputed, true, false, slot)) {
        CHECK_FOR_INTERRUPTS();
        slot_getallattrs(slot);
        memcpy(source->values, slot->tts_values, sizeof(Datum) * source->table->column_count);
        memcpy(source->nulls, slot->tts_isnull, source->table->column_count);
        if (PassesFilter(source))
            return true;
    }
    return false;
}

} // namespace

void BeginEntrySource(EntrySource *source, const IndexTable *table, const SourcePlan *plan,
                      ScanDirection direction, PlanState *node, const EntryNeeds &needs) {
    Assert(IsKnown(table));
    Assert(IsLocked(table->relid, AccessShareLock) || IsParallelWorker());
    *source = {.table = table,
               .plan = plan,
               .direction = direction,
               .node = node,
               .snapshot = node->state->es_snapshot,
               .memory = CurrentMemoryContext,
               .by_distance = needs.by_distance,
               .is_ordered = needs.is_ordered && !needs.by_distance,
               .is_read = needs.lock == AccessShareLock};
    source->values = palloc0_array(Datum, table->column_count);
    source->nulls = palloc0_array(bool, table->column_count);
    source->rel = table_open(plan->index_table, AccessShareLock);
    source->index = index_open(plan->index, AccessShareLock);
    source->by_bitmap = plan->is_owner_index && source->index->rd_rel->relam != BTREE_AM_OID &&
                        !source->by_distance;
    source->recompute = !ShowsBase(table, source->snapshot);
    if (!source->recompute && OidIsValid(table->queue) && (needs.is_final || !ReadsEventually()))
        PrepareOverlay(source, needs);
    bool is_remote = table->on_servers && !source->recompute;
    if (source->recompute || source->by_bitmap || source->by_distance || source->overlay ||
        is_remote)
        PrepareFilter(source);
    Bitmapset *read = bms_union(needs.positions, source->filtered);
    if (source->overlay)
        read = AddOverlayPositions(source, read);
    if (is_remote)
        read = bms_add_member(read, 0);
    source->needed = palloc_array(int, table->column_count);
    for (int member = -1; (member = bms_next_member(read, member)) >= 0;)
        source->needed[source->needed_count++] = member;
    if (source->recompute)
        return;
    if (!is_remote)
        OpenParts(source);
    PrepareKeys(source);
    if (is_remote)
        source->remote = BeginRemoteEntries(source);
}

void RestartEntries(EntrySource *source) {
    if (source->recompute) {
        if (source->recomputed)
            tuplestore_rescan(source->recomputed);
        return;
    }
    if (source->runtime_context)
        ResetExprContext(source->runtime_context);
    if (source->runtime_key_count > 0) {
        ExecIndexEvalRuntimeKeys(source->runtime_context, source->runtime_keys,
                                 source->runtime_key_count);
    }
    if (source->remote) {
        RestartRemote(source->remote);
        return;
    }
    if (source->overlay)
        RestartOverlay(source);
    int part = FindPart(source);
    source->current = part >= 0 ? part : 0;
    if (source->part_count > 0)
        StartPart(source);
}

namespace {

// The next entry that is stored.
bool ReadStored(EntrySource *source) {
    while (source->current < source->part_count) {
        EntryPart *part = &source->parts[source->current];
        if (ReadFromPart(source, part))
            return true;
        if (FindPart(source) >= 0 || source->current == source->part_count - 1)
            return false;
        if (part->bitmap)
            ResetEntryBitmap(part->bitmap);
        source->current++;
        StartPart(source);
    }
    return false;
}

// The next one that counts, into `values`.
bool ReadCounting(EntrySource *source) {
    while (!source->has_ended) {
        if (!ReadStored(source))
            source->has_ended = true;
        else if (!IsQueued(source->overlay, source->values, source->nulls))
            return true;
    }
    return false;
}

void Exchange(EntrySource *source) {
    std::swap(source->values, source->held_values);
    std::swap(source->nulls, source->held_nulls);
}

bool ReadFromOverlay(EntrySource *source) {
    Overlay *overlay = source->overlay;
    if (overlay->next == overlay->count)
        return false;
    const OverlayEntry &entry = overlay->entries[overlay->next++];
    memcpy(source->values, entry.values, sizeof(Datum) * source->table->column_count);
    memcpy(source->nulls, entry.nulls, source->table->column_count);
    return true;
}

// Stored and queued entries, in the order of the index where that matters. By distance queued ones
// come first, in any order, which is told.
bool ReadMerged(EntrySource *source) {
    Overlay *overlay = source->overlay;
    if (!source->is_ordered)
        return ReadFromOverlay(source) || ReadCounting(source);
    if (!source->has_held) {
        source->has_held = ReadCounting(source);
        Exchange(source);
    }
    if (overlay->next < overlay->count &&
        (!source->has_held || CompareOverlay(overlay, overlay->entries[overlay->next],
                                             source->held_values, source->held_nulls) <= 0))
        return ReadFromOverlay(source);
    if (!source->has_held)
        return false;
    Exchange(source);
    source->has_held = false;
    return true;
}

// The next from servers that meets the conditions.
bool ReadRemote(EntrySource *source) {
    while (NextRemote(source->remote)) {
        CHECK_FOR_INTERRUPTS();
        if (PassesFilter(source))
            return true;
        source->entries_removed++;
    }
    return false;
}

} // namespace

bool ReadEntry(EntrySource *source) {
    Assert(source->table);
    source->told = {};
    bool found = source->recompute ? Recompute(source)
                 : source->remote  ? ReadRemote(source)
                 : source->overlay ? ReadMerged(source)
                                   : ReadStored(source);
    source->entries_read += found;
    return found;
}

void EndEntrySource(EntrySource *source) {
    if (source->recomputed_slot)
        ExecDropSingleTupleTableSlot(source->recomputed_slot);
    if (source->recomputed)
        tuplestore_end(source->recomputed);
    if (source->remote)
        EndRemoteEntries(source->remote);
    if (source->overlay)
        CloseOverlay(source->overlay);
    if (source->filter_slot)
        ExecDropSingleTupleTableSlot(source->filter_slot);
    for (EntryPart &part : std::span(source->parts, source->part_count)) {
        if (BufferIsValid(part.visibility))
            ReleaseBuffer(part.visibility);
        if (part.slot)
            ExecDropSingleTupleTableSlot(part.slot);
        if (part.bitmap)
            EndEntryBitmap(part.bitmap);
        if (part.scan)
            index_endscan(part.scan);
        index_close(part.index, NoLock);
        table_close(part.rel, NoLock);
    }
    index_close(source->index, NoLock);
    table_close(source->rel, NoLock);
}

} // namespace index_table
