// The executor's node: reads entries, finds the rows they lead to in the partitions, and checks
// that each row is what the entry promised.
#include "core/public.h"
#include "exec/overlay.h"
#include "exec/pass_through.h"
#include "exec/query_start.h"
#include "exec/remote_entries.h"
#include "exec/row_use.h"
#include "exec/scan_explain.h"
#include "exec/scan_state.h"
#include "shard/public.h"

namespace index_table {
namespace {

// A row that was yielded already.
struct SeenRow {
    Oid partition; // with `tid` the hash key
    ItemPointerData tid;
};

TupleDesc BaseDescriptor(const IndexTableScan *scan) {
    return RelationGetDescr(scan->css.ss.ss_currentRelation);
}

// --- Beginning ---------------------------------------------------------------

// The positions of an entry that an index has among its keys, or makes keys of.
Bitmapset *KeyPositions(const IndexTable *table, const SourcePlan *plan) {
    if (!plan->is_owner_index)
        return bms_add_range(nullptr, 0, table->key.count - 1);
    Bitmapset *positions = nullptr;
    Relation rel = table_open(plan->index_table, AccessShareLock);
    Relation index = index_open(plan->index, AccessShareLock);
    const AttrNumber *stored = StoredColumns(table, rel);
    Bitmapset *columns = nullptr;
    pull_varattnos(reinterpret_cast<Node *>(RelationGetIndexExpressions(index)), 1, &columns);
    for (int j = 0; j < index->rd_index->indnkeyatts; j++)
        columns = bms_add_member(columns, index->rd_index->indkey.values[j] -
                                              FirstLowInvalidHeapAttributeNumber);
    for (int i = 0; i < table->column_count; i++)
        if (bms_is_member(stored[i] - FirstLowInvalidHeapAttributeNumber, columns))
            positions = bms_add_member(positions, i);
    index_close(index, NoLock);
    table_close(rel, NoLock);
    return positions;
}

// The positions of an entry that the scan reads.
Bitmapset *NeededPositions(const IndexTableScan *scan, const ScanSource *source) {
    const IndexTable *table = source->table;
    Bitmapset *needed = bms_make_singleton(table->partition_position());
    if (scan->plan.mode == ScanMode::Rows) {
        for (int i = 0; i < table->identity_count; i++)
            needed = bms_add_member(needed, table->identity[i].position);
        return bms_add_members(bms_add_members(needed, source->ordered), source->deciding);
    }
    for (int i = 0; i < table->column_count; i++)
        if (list_member_int(scan->plan.columns, BaseColumn(table, i)))
            needed = bms_add_member(needed, i);
    return needed;
}

bool HasLongArray(Node *node, void *context) {
    if (!node)
        return false;
    const ScalarArrayOpExpr *clause = reinterpret_cast<ScalarArrayOpExpr *>(node);
    if (IsA(node, ScalarArrayOpExpr) && !OidIsValid(clause->hashfuncid))
        return true;
    return compat::WalkExpression(node, HasLongArray, context);
}

// To look for a row's value in an array may take as long as the array is, unless PostgreSQL hashes
// it, which it does where it is a constant.
Bitmapset *DecidingPositions(const IndexTableScan *scan, const ScanSource *source,
                             const SourcePlan *plan) {
    Node *recheck = reinterpret_cast<Node *>(scan->plan.recheck);
    if (scan->plan.mode != ScanMode::Rows || !HasLongArray(recheck, nullptr))
        return nullptr;
    Bitmapset *columns = nullptr;
    pull_varattnos(recheck, reinterpret_cast<Scan *>(scan->css.ss.ps.plan)->scanrelid, &columns);
    Bitmapset *positions = KeyPositions(source->table, plan);
    for (int i = -1; (i = bms_next_member(positions, i)) >= 0;)
        if (BaseColumn(source->table, i) != 0)
            columns = bms_del_member(columns, BaseColumn(source->table, i) -
                                                  FirstLowInvalidHeapAttributeNumber);
    return bms_is_empty(columns) ? positions : nullptr;
}

// Whether a row may be found by several values of a key that rows are not compared with.
bool MayRepeat(const IndexTable *table) {
    for (int i = 0; table->on_servers && i < table->key.count; i++)
        if (i != table->key.multi_valued && BaseColumn(table, i) == 0)
            return true;
    return false;
}

void OpenSource(IndexTableScan *scan, ScanSource *source, const SourcePlan *plan) {
    FAULT_POINT("scan_node.open_source");
    PlanState *node = &scan->css.ss.ps;
    if (OidIsValid(plan->root)) {
        source->addresses = BeginAddressScan(&scan->plan, plan, &scan->css.ss);
        if (scan->plan.mode == ScanMode::Entries)
            HoldColumns(source->addresses, scan->plan.columns);
        return;
    }
    source->table = GetIndexTable(plan->index_table);
    // On servers a key that changes may be found by the old value and by the new one.
    if (scan->plan.is_ordered || source->table->on_servers)
        source->ordered = KeyPositions(source->table, plan);
    scan->may_repeat = scan->may_repeat || MayRepeat(source->table);
    source->deciding = DecidingPositions(scan, source, plan);
    BeginEntrySource(&source->entries, source->table, plan, scan->plan.direction, node,
                     {.positions = NeededPositions(scan, source),
                      .is_ordered = scan->plan.is_ordered,
                      .by_distance = scan->plan.distances != NIL ? &scan->plan : nullptr,
                      .is_final = scan->plan.mode == ScanMode::Entries,
                      .lock = scan->plan.lock});
    if (source->entries.recompute)
        RequireThisBackend();
    BeginLeafReader(&source->leaves, source->table, scan->css.ss.ss_currentRelation,
                    node->state->es_snapshot, scan->plan.lock);
    if (scan->plan.mode == ScanMode::Rows && scan->needs.columns != NIL) {
        source->shards =
            BeginShardRows(source->table, scan->css.ss.ss_currentRelation, scan->needs);
        source->batch = BeginEntryBatch(&source->entries, &source->leaves, source->shards,
                                        scan->plan.first_batch);
        source->reading = source->batch;
    }
    source->group = -1;
    source->identity = palloc_array(Datum, source->table->identity_count);
    source->identity_nulls = palloc_array(bool, source->table->identity_count);
}

// Forgets which rows were yielded.
void StartSeeing(IndexTableScan *scan) {
    if (!scan->may_repeat)
        return;
    if (!scan->seen_memory)
        scan->seen_memory = AllocSetContextCreate(scan->css.ss.ps.state->es_query_cxt,
                                                  "index_table rows seen", ALLOCSET_DEFAULT_SIZES);
    if (scan->seen)
        hash_destroy(scan->seen);
    MemoryContextReset(scan->seen_memory);
    scan->seen_remotely = nullptr;
    scan->seen = MakeHashTable<SeenRow, SeenRow>("index_table rows seen", 64, scan->seen_memory);
}

bool IsSeen(IndexTableScan *scan, Oid partition, const ItemPointerData &tid) {
    if (!scan->seen)
        return false;
    SeenRow row;
    memset(&row, 0, sizeof(row));
    row.partition = partition;
    row.tid = tid;
    bool found;
    hash_search(scan->seen, &row, HASH_ENTER, &found);
    return found;
}

// Rows of foreign partitions are told apart by the identity that the first source has.
bool IsSeenRemotely(IndexTableScan *scan, const ScanSource *source, Oid partition,
                    const ShardRow *row) {
    if (!scan->may_repeat)
        return false;
    const IndexTable *table = scan->sources[0].table;
    AttrNumber attnos[INDEX_MAX_KEYS];
    NullableDatum identity[INDEX_MAX_KEYS];
    for (int i = 0; i < table->identity_count; i++) {
        attnos[i] = table->identity[i].base_attno;
        int place = GetPlace(source->shards, attnos[i]);
        if (row->nulls[place])
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("the identity of index table \"%s\" is null for a row of "
                                   "partition \"%s\"",
                                   get_rel_name(table->relid), get_rel_name(partition)),
                            errdetail("Rows that several index tables lead to cannot be told "
                                      "apart."),
                            errhint("Make the columns of the identity NOT NULL, or set "
                                    "index_table.enable_scan to off.")));
        identity[i] = {.value = row->values[place], .isnull = false};
    }
    if (!scan->seen_remotely)
        scan->seen_remotely =
            MakeIdentityMap(scan->seen_memory, BaseDescriptor(scan), attnos, table->identity_count);
    bool found;
    PutIdentity(scan->seen_remotely, partition, identity, &found);
    return found;
}

// The columns that rows of foreign partitions are to bring.
List *ColumnsOfShards(const IndexTableScan *scan) {
    Bitmapset *columns = nullptr;
    ListCell *cell;
    foreach (cell, scan->plan.columns)
        if (lfirst_int(cell) > 0)
            columns = bms_add_member(columns, lfirst_int(cell));
    TupleDesc descriptor = BaseDescriptor(scan);
    for (int i = 0; scan->plan.columns == NIL && i < descriptor->natts; i++)
        if (!TupleDescAttr(descriptor, i)->attisdropped)
            columns = bms_add_member(columns, i + 1);
    for (const SourcePlan &plan : std::span(scan->plan.sources, scan->plan.source_count)) {
        if (OidIsValid(plan.root))
            continue;
        const IndexTable *table = GetIndexTable(plan.index_table);
        for (int i = 0; i < table->identity_count; i++)
            columns = bms_add_member(columns, table->identity[i].base_attno);
        ScanSource source = {.table = table};
        Bitmapset *compared = scan->plan.is_ordered || table->on_servers
                                  ? KeyPositions(table, &plan)
                                  : DecidingPositions(scan, &source, &plan);
        for (int i = -1; (i = bms_next_member(compared, i)) >= 0;)
            if (BaseColumn(table, i) != 0)
                columns = bms_add_member(columns, BaseColumn(table, i));
    }
    // By their ctid the foreign data wrapper changes rows.
    List *attnos = UseOf(scan->plan.lock) == RowUse::Change
                       ? list_make1_int(SelfItemPointerAttributeNumber)
                       : NIL;
    for (int attno = -1; (attno = bms_next_member(columns, attno)) >= 0;)
        attnos = lappend_int(attnos, attno);
    return attnos;
}

} // namespace

bool ReadsServers(const IndexTableScan *scan) {
    return std::any_of(scan->plan.sources, scan->plan.sources + scan->plan.source_count,
                       [](const SourcePlan &plan) {
                           return !OidIsValid(plan.root) &&
                                  GetIndexTable(plan.index_table)->on_servers;
                       });
}

void FindNeeds(IndexTableScan *scan) {
    const Base *base = FindBase(RelationGetRelid(scan->css.ss.ss_currentRelation));
    if (scan->plan.mode == ScanMode::Entries || !base ||
        (!HasForeignLeaves(base) && !ReadsServers(scan)))
        return;
    PlanState *node = &scan->css.ss.ps;
    RowUse use = UseOf(scan->plan.lock);
    Index rti = reinterpret_cast<const Scan *>(node->plan)->scanrelid;
    scan->needs = {.columns = ColumnsOfShards(scan),
                   .quals = scan->plan.may_ship ? node->plan->qual : NIL,
                   .node = node,
                   .user = compat::ReaderOf(node->state, rti),
                   .snapshot = node->state->es_snapshot,
                   .lock = StrengthFor(use, node->state, rti),
                   .keep = use == RowUse::Change};
}

namespace {

void OpenSources(IndexTableScan *scan) {
    EState *estate = scan->css.ss.ps.state;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    FindNeeds(scan);
    scan->sources = palloc0_array(ScanSource, Max(1, scan->plan.source_count));
    scan->may_repeat = scan->plan.source_count > 1;
    for (int i = 0; i < scan->plan.source_count; i++)
        OpenSource(scan, &scan->sources[i], &scan->plan.sources[i]);
    if (scan->plan.distances != NIL)
        scan->queue = BeginDistanceQueue(&scan->plan, &scan->css.ss.ps);
    scan->is_open = true;
    MemoryContextSwitchTo(caller);
}

// Makes the conditions that few scans check, when one first does. EXPLAIN wants to know of their
// subplans at once.
void Prepare(IndexTableScan *scan) {
    if (scan->is_prepared)
        return;
    PlanState *node = &scan->css.ss.ps;
    MemoryContext caller = MemoryContextSwitchTo(node->state->es_query_cxt);
    scan->recheck = ExecInitQual(scan->plan.recheck, node);
    scan->implied = ExecInitQual(scan->plan.implied, node);
    scan->is_prepared = true;
    MemoryContextSwitchTo(caller);
}

// Whether the row that the context has meets what the index conditions were made of.
bool IsMet(IndexTableScan *scan, ExprContext *context) {
    Prepare(scan);
    return ExecQual(scan->recheck, context);
}

void Begin(CustomScanState *node, EState *estate, int flags) {
    FAULT_POINT("scan_node.begin");
    IndexTableScan *scan = ToScan(node);
    scan->plan = ReadScanPlan(reinterpret_cast<CustomScan *>(node->ss.ps.plan));
    if (estate->es_plannedstmt->subplans != NIL)
        Prepare(scan);
    scan->last_column = scan->plan.columns == NIL ? BaseDescriptor(scan)->natts : 0;
    ListCell *cell;
    foreach (cell, scan->plan.columns)
        scan->last_column = Max(scan->last_column, lfirst_int(cell));
    // A scan that is to look at a row again is given that, unless it is part of a subquery.
    if (!(flags & EXEC_FLAG_EXPLAIN_ONLY) && !estate->es_epq_active)
        OpenSources(scan);
}

// --- Rows --------------------------------------------------------------------

// The scan's tuple from a partition's row, of which the columns up to `last` are needed.
TupleTableSlot *ToBaseRow(IndexTableScan *scan, TupleTableSlot *row, const AttrMap *map,
                          Oid partition, int last) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    int natts = slot->tts_tupleDescriptor->natts;
    ExecClearTuple(slot);
    if (!map) {
        slot_getsomeattrs(row, last);
        memcpy(slot->tts_values, row->tts_values, sizeof(Datum) * last);
        memcpy(slot->tts_isnull, row->tts_isnull, last);
    } else {
        for (int i = 0; i < last; i++) {
            slot->tts_isnull[i] = true;
            if (map->attnums[i] != 0)
                slot->tts_values[i] = slot_getattr(row, map->attnums[i], &slot->tts_isnull[i]);
        }
    }
    memset(slot->tts_isnull + last, true, natts - last);
    ExecStoreVirtualTuple(slot);
    slot->tts_tableOid = partition;
    slot->tts_tid = row->tts_tid;
    return slot;
}

TupleTableSlot *ToBaseRow(IndexTableScan *scan, TupleTableSlot *row, const AttrMap *map,
                          Oid partition) {
    return ToBaseRow(scan, row, map, partition, scan->last_column);
}

// Whether the row has the entry's values at `positions`, as far as these are columns: where the
// plan relies on the order, a row must not come at the place of a key that it no longer has.
bool HasValues(IndexTableScan *scan, const ScanSource *source, const Bitmapset *positions,
               const OpenLeaf *leaf) {
    for (int i = -1; (i = bms_next_member(positions, i)) >= 0;) {
        AttrNumber attno = BaseColumn(source->table, i);
        if (attno == 0)
            continue;
        Form_pg_attribute att = TupleDescAttr(BaseDescriptor(scan), attno - 1);
        bool isnull;
        Datum value =
            slot_getattr(leaf->slot, leaf->map ? leaf->map->attnums[attno - 1] : attno, &isnull);
        if (isnull != source->entries.nulls[i] ||
            (!isnull && !IsSameImage(att, value, source->entries.values[i])))
            return false;
    }
    return true;
}

// The scan's tuple from a foreign partition's row, which has the needed columns alone.
TupleTableSlot *FromShard(IndexTableScan *scan, const ShardRow *row, Oid partition) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    ExecClearTuple(slot);
    memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
    ItemPointerSetInvalid(&slot->tts_tid);
    ListCell *cell;
    foreach (cell, scan->needs.columns) {
        int place = foreach_current_index(cell);
        if (lfirst_int(cell) == SelfItemPointerAttributeNumber) {
            slot->tts_tid = *reinterpret_cast<ItemPointer>(DatumGetPointer(row->values[place]));
            continue;
        }
        slot->tts_values[lfirst_int(cell) - 1] = row->values[place];
        slot->tts_isnull[lfirst_int(cell) - 1] = row->nulls[place];
    }
    ExecStoreVirtualTuple(slot);
    slot->tts_tableOid = partition;
    return slot;
}

// The same of a foreign partition's row.
bool HasValues(IndexTableScan *scan, const ScanSource *source, const Bitmapset *positions,
               const ShardRow *row) {
    for (int i = -1; (i = bms_next_member(positions, i)) >= 0;) {
        AttrNumber attno = BaseColumn(source->table, i);
        if (attno == 0)
            continue;
        Form_pg_attribute att = TupleDescAttr(BaseDescriptor(scan), attno - 1);
        int place = GetPlace(source->shards, attno);
        if (row->nulls[place] != source->entries.nulls[i] ||
            (!row->nulls[place] &&
             !IsSameImage(att, row->values[place], source->entries.values[i])))
            return false;
    }
    return true;
}

// FetchRow() of an entry that leads to a foreign partition.
TupleTableSlot *FetchFromShard(IndexTableScan *scan, ScanSource *source) {
    const ShardRow *row = ShardRowOf(source->reading);
    Oid partition = RelationGetRelid(ForeignLeafOf(source->reading)->rel);
    if (!row)
        return nullptr;
    source->rows_fetched++;
    if (!HasValues(scan, source, source->ordered, row) ||
        IsSeenRemotely(scan, source, partition, row))
        return nullptr;
    ExprContext *context = scan->css.ss.ps.ps_ExprContext;
    context->ecxt_scantuple = FromShard(scan, row, partition);
    bool is_decided = source->deciding && HasValues(scan, source, source->deciding, row);
    return is_decided || IsMet(scan, context) ? context->ecxt_scantuple : nullptr;
}

// The row of a partition as the scan's tuple; null where it was yielded already, or is not asked
// for.
TupleTableSlot *Yield(IndexTableScan *scan, const ScanSource *source, const OpenLeaf *leaf) {
    Oid partition = RelationGetRelid(leaf->rel);
    if (IsSeen(scan, partition, leaf->slot->tts_tid))
        return nullptr;
    ExprContext *context = scan->css.ss.ps.ps_ExprContext;
    context->ecxt_scantuple = ToBaseRow(scan, leaf->slot, leaf->map, partition);
    bool is_decided = source->deciding && HasValues(scan, source, source->deciding, leaf);
    return is_decided || IsMet(scan, context) ? context->ecxt_scantuple : nullptr;
}

// Whether a row that a global index has found meets conditions which the index may have answered
// too generously.
bool Passes(IndexTableScan *scan, ExprState *IndexTableScan::*conditions, TupleTableSlot *row) {
    Prepare(scan);
    ExprContext *context = scan->css.ss.ps.ps_ExprContext;
    context->ecxt_scantuple = row;
    if (ExecQualAndReset(scan->*conditions, context))
        return true;
    InstrCountFiltered2(&scan->css.ss, 1);
    return false;
}

// The next row of a global index. An entry has the key of every version of a row that it leads to.
TupleTableSlot *NextThroughAddress(IndexTableScan *scan, ScanSource *source) {
    AddressScan *addresses = source->addresses;
    const AddressedLeaf *leaf = FetchAddressedRow(addresses);
    if (!leaf) {
        source->stale_entries++;
        return nullptr;
    }
    source->rows_fetched++;
    scan->row = leaf->slot;
    if (IsSeen(scan, leaf->relid, leaf->slot->tts_tid))
        return nullptr;
    TupleTableSlot *row = ToBaseRow(scan, leaf->slot, leaf->map, leaf->relid);
    return !addresses->recheck || Passes(scan, &IndexTableScan::recheck, row) ? row : nullptr;
}

// The row that an entry leads to; null where it leads to none, or to one that is not asked for.
TupleTableSlot *FetchRow(IndexTableScan *scan, ScanSource *source) {
    FAULT_POINT("scan_node.fetch_row");
    const IndexTable *table = source->table;
    const EntrySource &entries = source->entries;
    if (source->reading && ForeignLeafOf(source->reading))
        return FetchFromShard(scan, source);
    OpenLeaf *leaf =
        GetLeaf(&source->leaves, DatumGetInt32(entries.values[table->partition_position()]));
    if (!leaf)
        return nullptr;
    for (int i = 0; i < table->identity_count; i++) {
        source->identity[i] = entries.values[table->identity[i].position];
        source->identity_nulls[i] = entries.nulls[table->identity[i].position];
    }
    SeekRows(&source->leaves, leaf, source->identity, source->identity_nulls);
    if (!NextRow(&source->leaves, leaf))
        return nullptr;
    source->rows_fetched++;
    scan->row = leaf->slot;
    if (source->batch && (!leaf->index || !leaf->index->rd_index->indisunique))
        RaiseNotUnique(table, RelationGetRelid(leaf->rel));
    return HasValues(scan, source, source->ordered, leaf) ? Yield(scan, source, leaf) : nullptr;
}

void StartSource(ScanSource *source) {
    source->starts++;
    if (source->addresses) {
        RestartAddresses(source->addresses);
        return;
    }
    source->reading = source->batch;
    if (source->group >= 0) {
        source->reading = source->ahead;
        StartGroup(source->ahead, source->group);
        return;
    }
    RestartEntries(&source->entries);
    if (source->batch)
        RestartBatch(source->batch);
}

// Goes on after what was read ahead: under one snapshot entries come in the same order again.
void ReadOn(ScanSource *source) {
    RestartEntries(&source->entries);
    for (int i = GroupSize(source->ahead); i > 0 && ReadEntry(&source->entries); i--)
        CHECK_FOR_INTERRUPTS();
    RestartBatch(source->batch);
    source->reading = source->batch;
}

bool ReadFrom(ScanSource *source) {
    if (source->addresses)
        return NextAddress(source->addresses);
    if (!source->reading)
        return ReadEntry(&source->entries);
    if (NextBatched(source->reading))
        return true;
    if (source->reading == source->batch || IsGroupComplete(source->ahead))
        return false;
    ReadOn(source);
    return NextBatched(source->reading);
}

// Reads the next entry of the sources, one after the other; null at the end.
ScanSource *NextEntry(IndexTableScan *scan) {
    if (!scan->is_started) {
        scan->current = 0;
        StartSeeing(scan);
        StartSource(&scan->sources[0]);
        scan->is_started = true;
    }
    for (;;) {
        ScanSource *source = &scan->sources[scan->current];
        if (ReadFrom(source))
            return source;
        if (scan->current == scan->plan.source_count - 1)
            return nullptr;
        StartSource(&scan->sources[++scan->current]);
    }
}

TupleTableSlot *NextThroughEntry(IndexTableScan *scan) {
    if (scan->row) {
        ExecClearTuple(scan->row);
        scan->row = nullptr;
    }
    while (ScanSource *source = NextEntry(scan)) {
        TupleTableSlot *slot =
            source->addresses ? NextThroughAddress(scan, source) : FetchRow(scan, source);
        if (slot)
            return slot;
        source->stale_entries += !source->addresses;
    }
    return nullptr;
}

// --- Entries alone -----------------------------------------------------------

// The next of a global index. What else the query asks for, the index's predicate implies: not so
// where a partition is read itself.
TupleTableSlot *NextAddressAlone(IndexTableScan *scan, ScanSource *source) {
    AddressScan *addresses = source->addresses;
    TupleTableSlot *slot = ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
    if (IsOfWhole(addresses)) {
        const AddressedLeaf *leaf = FetchAddressedRow(addresses);
        ToBaseRow(scan, leaf->slot, leaf->map, leaf->relid, slot->tts_tupleDescriptor->natts);
        if (!Passes(scan, &IndexTableScan::implied, slot))
            return nullptr;
    } else if (!ReadHeldColumns(addresses, slot)) {
        source->stale_entries++;
        return nullptr;
    }
    return !addresses->recheck || Passes(scan, &IndexTableScan::recheck, slot) ? slot : nullptr;
}

TupleTableSlot *NextEntryAlone(IndexTableScan *scan) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    while (ScanSource *source = NextEntry(scan)) {
        if (source->addresses) {
            if (NextAddressAlone(scan, source))
                return slot;
            continue;
        }
        const IndexTable *table = source->table;
        const EntrySource &entries = source->entries;
        int32 partition_id = DatumGetInt32(entries.values[table->partition_position()]);
        if (!IsReadable(&source->leaves, partition_id)) {
            source->stale_entries++;
            continue;
        }
        ExecClearTuple(slot);
        memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
        for (int i = 0; i < entries.needed_count; i++) {
            int position = entries.needed[i];
            AttrNumber attno = BaseColumn(table, position);
            if (attno == 0)
                continue;
            slot->tts_values[attno - 1] = entries.values[position];
            slot->tts_isnull[attno - 1] = entries.nulls[position];
        }
        return ExecStoreVirtualTuple(slot);
    }
    return nullptr;
}

// --- All partitions ----------------------------------------------------------

// The leaves of a partitioned table that the active snapshot shows.
List *FindVisibleLeaves(Relation parent) {
    List *leaves = NIL;
    PartitionDesc partitions = RelationGetPartitionDesc(parent, true);
    for (int i = 0; i < partitions->nparts; i++) {
        if (partitions->is_leaf[i]) {
            leaves = lappend_oid(leaves, partitions->oids[i]);
            continue;
        }
        Relation child = table_open(partitions->oids[i], AccessShareLock);
        leaves = list_concat(leaves, FindVisibleLeaves(child));
        table_close(child, NoLock);
    }
    return leaves;
}

void CloseLeaf(IndexTableScan *scan) {
    if (!scan->leaf)
        return;
    if (scan->shard_scan) {
        EndShardScan(scan->shard_scan);
        scan->shard_scan = nullptr;
    } else {
        ExecDropSingleTupleTableSlot(scan->leaf_slot);
        table_endscan(scan->leaf_scan);
    }
    table_close(scan->leaf, NoLock);
    scan->leaf = nullptr;
}

void OpenLeafScan(IndexTableScan *scan) {
    if (scan->leaf->rd_rel->relkind == RELKIND_FOREIGN_TABLE) {
        scan->shard_scan = BeginShardScan(scan->css.ss.ss_currentRelation, scan->needs,
                                          RelationGetRelid(scan->leaf));
        return;
    }
    scan->leaf_scan = compat::BeginTableScan(scan->leaf, scan->css.ss.ps.state->es_snapshot);
    scan->leaf_slot = table_slot_create(scan->leaf, nullptr);
    scan->leaf_map = compat::MapColumnsByName(RelationGetDescr(scan->leaf), BaseDescriptor(scan));
}

bool OpenNextLeaf(IndexTableScan *scan) {
    EState *estate = scan->css.ss.ps.state;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    if (!scan->is_started) {
        PushActiveSnapshot(estate->es_snapshot);
        scan->partitions = FindVisibleLeaves(scan->css.ss.ss_currentRelation);
        PopActiveSnapshot();
        scan->is_started = true;
    }
    bool found = scan->next_partition < list_length(scan->partitions);
    if (found) {
        scan->leaf =
            table_open(list_nth_oid(scan->partitions, scan->next_partition++), scan->plan.lock);
        OpenLeafScan(scan);
        scan->partitions_visited++;
    }
    MemoryContextSwitchTo(caller);
    return found;
}

TupleTableSlot *NextOfAll(IndexTableScan *scan) {
    while (scan->leaf || OpenNextLeaf(scan)) {
        if (scan->shard_scan) {
            if (const ShardRow *row = NextShardRow(scan->shard_scan))
                return FromShard(scan, row, RelationGetRelid(scan->leaf));
        } else if (table_scan_getnextslot(scan->leaf_scan, ForwardScanDirection, scan->leaf_slot))
            return ToBaseRow(scan, scan->leaf_slot, scan->leaf_map, RelationGetRelid(scan->leaf));
        CloseLeaf(scan);
    }
    return nullptr;
}

// --- By distance -------------------------------------------------------------

TupleTableSlot *NextOfSources(IndexTableScan *scan) {
    return scan->plan.mode == ScanMode::Entries ? NextEntryAlone(scan) : NextThroughEntry(scan);
}

// What is known of where the row just read comes.
ToldDistances ToldOf(const ScanSource *source) {
    if (!source->addresses)
        return source->entries.told;
    return IsOfWhole(source->addresses) ? ToldDistances{} : ToldBy(source->addresses->scan);
}

// Whether the row just read comes next. Where not, it is queued: what is told of its distance is a
// lower bound, or nothing, or one that is queued is nearer.
bool IsNext(IndexTableScan *scan, const ToldDistances &told, TupleTableSlot *row) {
    DistanceQueue *queue = scan->queue;
    if (!told.is_ordered) {
        PushRow(queue, row, Measure(queue, row));
        return false;
    }
    const Distances *nearest = NearestRow(queue);
    bool takes_bounds = told.bounds.values && TakesBounds(queue);
    if (told.is_exact && takes_bounds) {
        Reach(queue, told.bounds);
        if (!nearest || CompareDistances(queue, told.bounds, *nearest) <= 0)
            return true;
        PushRow(queue, row, told.bounds);
        return false;
    }
    Distances measured = Measure(queue, row);
    // An access method that tells no distances is taken at its word.
    Reach(queue, takes_bounds ? told.bounds : measured);
    int order = CompareDistances(queue, measured, Reached(queue));
    if (order < 0)
        elog(ERROR, "index returned rows in wrong order");
    if (order == 0 && (!nearest || CompareDistances(queue, measured, *nearest) <= 0))
        return true;
    PushRow(queue, row, measured);
    return false;
}

// As PostgreSQL's index scan reorders rows.
TupleTableSlot *NextByDistance(IndexTableScan *scan) {
    const ScanSource *source = &scan->sources[0];
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        const Distances *nearest = NearestRow(scan->queue);
        if (scan->has_ended && !nearest)
            return nullptr;
        // Rows of a partition that is read itself come in any order. So do those that are queued
        // for an index table: before all others, when nothing is reached.
        bool is_between = source->addresses && IsOfWhole(source->addresses);
        if (nearest && (scan->has_ended ||
                        (!is_between && HasReached(scan->queue) &&
                         CompareDistances(scan->queue, *nearest, Reached(scan->queue)) <= 0))) {
            PopRow(scan->queue, slot);
            return slot;
        }
        if (!NextOfSources(scan))
            scan->has_ended = true;
        else if (IsNext(scan, ToldOf(source), slot))
            return slot;
    }
}

// --- The node ----------------------------------------------------------------

TupleTableSlot *Next(ScanState *node) {
    IndexTableScan *scan = reinterpret_cast<IndexTableScan *>(node);
    if (!scan->is_open)
        OpenSources(scan);
    TupleTableSlot *slot = nullptr;
    if (scan->plan.mode == ScanMode::AllPartitions)
        slot = NextOfAll(scan);
    else
        slot = scan->queue ? NextByDistance(scan) : NextOfSources(scan);
    return slot ? slot : ExecClearTuple(node->ss_ScanTupleSlot);
}

// Whether a row that others have changed is still one of those that the index conditions find.
bool Recheck(ScanState *node, TupleTableSlot *slot) {
    IndexTableScan *scan = reinterpret_cast<IndexTableScan *>(node);
    ExprContext *context = node->ps.ps_ExprContext;
    context->ecxt_scantuple = slot;
    return IsMet(scan, context);
}

// The newest version of a row that is changed or locked, in the layout of its partition, which is
// told by its type.
TupleTableSlot *LookAgain(CustomScanState *node, TupleTableSlot *row) {
    IndexTableScan *scan = ToScan(node);
    ExprContext *context = node->ss.ps.ps_ExprContext;
    ResetExprContext(context);
    if (TupIsNull(row))
        return nullptr;
    Oid leaf = get_typ_typrelid(row->tts_tupleDescriptor->tdtypeid);
    if (leaf != scan->again_leaf) {
        MemoryContext caller = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
        scan->again_map = compat::MapColumnsByName(row->tts_tupleDescriptor, BaseDescriptor(scan));
        scan->again_leaf = leaf;
        MemoryContextSwitchTo(caller);
    }
    TupleTableSlot *slot = ToBaseRow(scan, row, scan->again_map, leaf);
    if (!Recheck(&node->ss, slot) || !ExecQual(node->ss.ps.qual, context))
        return nullptr;
    return node->ss.ps.ps_ProjInfo ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

TupleTableSlot *Execute(CustomScanState *node) {
    EPQState *epq = node->ss.ps.state->es_epq_active;
    Index rti = reinterpret_cast<Scan *>(node->ss.ps.plan)->scanrelid;
    if (epq && epq->relsubs_slot[rti - 1] && !epq->relsubs_done[rti - 1]) {
        epq->relsubs_done[rti - 1] = true;
        if (TupleTableSlot *slot = LookAgain(node, epq->relsubs_slot[rti - 1]))
            return slot;
        const ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
        return ExecClearTuple(projection ? projection->pi_state.resultslot
                                         : node->ss.ss_ScanTupleSlot);
    }
    return ExecScan(&node->ss, Next, Recheck);
}

// Adds what a source has done to what is known of its index table, or global index.
void CountSource(const ScanSource &source) {
    if (source.starts == 0)
        return;
    const AddressScan *addresses = source.addresses;
    Counts *counts = CountsOf(addresses ? addresses->plan->root : source.table->relid);
    if (!counts)
        return;
    counts->lookups += source.starts;
    counts->entries_read += addresses ? addresses->entries_read : source.entries.entries_read;
    counts->rows_fetched += source.rows_fetched;
    counts->entries_skipped +=
        source.stale_entries + (addresses ? 0 : source.entries.entries_removed);
    for (const ShardRows *rows : {source.shards, source.shards_ahead})
        if (rows)
            counts->shard_statements += GetCounts(rows).pipelined + GetCounts(rows).wrapped;
    if (source.entries.remote)
        counts->shard_statements += CountStatements(source.entries.remote);
}

void End(CustomScanState *node) {
    IndexTableScan *scan = ToScan(node);
    if (!scan->is_open)
        return;
    CloseLeaf(scan);
    for (ScanSource &source : std::span(scan->sources, scan->plan.source_count)) {
        CountSource(source);
        if (source.addresses) {
            EndAddressScan(source.addresses);
            continue;
        }
        if (source.shards_ahead) {
            TakeLeftOut(source.shards, source.shards_ahead);
            EndShardRows(source.shards_ahead);
        }
        if (source.shards)
            EndShardRows(source.shards);
        EndEntrySource(&source.entries);
        EndLeafReader(&source.leaves);
    }
}

void Rescan(CustomScanState *node) {
    IndexTableScan *scan = ToScan(node);
    ExecScanReScan(&node->ss);
    if (scan->plan.mode == ScanMode::AllPartitions && scan->is_started && scan->needs.keep)
        elog(ERROR, "rows of shards that are changed cannot be read again");
    CloseLeaf(scan);
    scan->next_partition = 0;
    scan->has_ended = false;
    if (scan->queue)
        ResetDistanceQueue(scan->queue);
    if (scan->plan.mode != ScanMode::AllPartitions)
        scan->is_started = false;
}

// --- Methods -----------------------------------------------------------------

CustomExecMethods MakeExecMethods(const char *name) {
    CustomExecMethods methods = {};
    methods.CustomName = name;
    methods.BeginCustomScan = Begin;
    methods.ExecCustomScan = Execute;
    methods.EndCustomScan = End;
    methods.ReScanCustomScan = Rescan;
    methods.ExplainCustomScan = ExplainScan;
    return methods;
}

Node *CreateState(CustomScan *scan);

constexpr int kModes = 3;
CustomScanMethods scan_methods[kModes] = {{"Index Table Scan", CreateState},
                                          {"Index Table Only Scan", CreateState},
                                          {"All Partitions Scan", CreateState}};
CustomExecMethods exec_methods[kModes];

Node *CreateState(CustomScan *scan) {
    return MakeNodeState<IndexTableScan>(&exec_methods[static_cast<int>(ReadScanPlan(scan).mode)]);
}

} // namespace

bool IsIndexTableScan(const CustomScanState *node) {
    return node->methods >= exec_methods && node->methods < exec_methods + kModes;
}

const CustomScanMethods *GetScanMethods(ScanMode mode) {
    return &scan_methods[static_cast<int>(mode)];
}

void InitializeScanNode() {
    for (int i = 0; i < kModes; i++) {
        exec_methods[i] = MakeExecMethods(scan_methods[i].CustomName);
        RegisterCustomScanMethods(&scan_methods[i]);
    }
}

} // namespace index_table
