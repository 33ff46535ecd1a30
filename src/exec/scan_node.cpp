// The executor's node: reads entries, finds the rows they lead to in the partitions, and checks
// that each row is what the entry promised.
#include "core/public.h"
#include "exec/entry_batch.h"
#include "exec/entry_source.h"
#include "exec/identity_map.h"
#include "exec/leaf_reader.h"
#include "exec/query_start.h"
#include "exec/scan_plan.h"
#include "exec/shard_access.h"

namespace index_table {
namespace {

// An index table that is read.
struct Source {
    const IndexTable *table;
    EntrySource entries;
    LeafReader leaves;
    Bitmapset *ordered; // positions by which the plan relies on the entries' order
    Datum *identity;
    bool *identity_nulls;
    ShardRows *shards; // null: no partition is a foreign table
    EntryBatch *batch; // likewise
};

// A row that was yielded already.
struct SeenRow {
    Oid partition; // with `tid` the hash key
    ItemPointerData tid;
};

struct IndexTableScan {
    CustomScanState css;
    ScanPlan plan;
    ExprState *recheck;
    bool is_open;
    bool is_started;

    Source *sources;
    int current;
    HTAB *seen; // where there are several sources
    IdentityMap *seen_remotely;
    MemoryContext seen_memory;
    TupleTableSlot *row;    // of a leaf, of which the scan's tuple is made of
    AttrNumber last_column; // the last column of the base table that is needed

    // Every row of every partition.
    List *partitions;
    int next_partition;
    Relation leaf;
    ShardScan *shard_scan; // it is a foreign table
    TableScanDesc leaf_scan;
    TupleTableSlot *leaf_slot;
    AttrMap *leaf_map;

    ShardNeeds needs; // of rows in foreign partitions

    // Of rows that others have changed meanwhile.
    Oid again_leaf;
    AttrMap *again_map;

    uint64 rows_fetched;
    uint64 stale_entries;
    uint64 partitions_visited;
};

IndexTableScan *ToScan(CustomScanState *node) {
    return reinterpret_cast<IndexTableScan *>(node);
}

TupleDesc BaseDescriptor(const IndexTableScan *scan) {
    return RelationGetDescr(scan->css.ss.ss_currentRelation);
}

// --- Beginning ---------------------------------------------------------------

// The positions of an entry that an index has among its keys.
Bitmapset *KeyPositions(const IndexTable *table, const SourcePlan *plan) {
    if (!plan->is_owner_index)
        return bms_add_range(nullptr, 0, table->key.count - 1);
    Bitmapset *positions = nullptr;
    Relation rel = table_open(plan->index_table, AccessShareLock);
    Relation index = index_open(plan->index, AccessShareLock);
    const AttrNumber *stored = StoredColumns(table, rel);
    for (int i = 0; i < table->column_count; i++)
        for (int j = 0; j < index->rd_index->indnkeyatts; j++)
            if (index->rd_index->indkey.values[j] == stored[i])
                positions = bms_add_member(positions, i);
    index_close(index, NoLock);
    table_close(rel, NoLock);
    return positions;
}

// The positions of an entry that the scan reads.
Bitmapset *NeededPositions(const IndexTableScan *scan, const Source *source) {
    const IndexTable *table = source->table;
    Bitmapset *needed = bms_make_singleton(table->partition_position());
    if (scan->plan.mode == ScanMode::Rows) {
        for (int i = 0; i < table->identity_count; i++)
            needed = bms_add_member(needed, table->identity[i].position);
        return bms_add_members(needed, source->ordered);
    }
    for (int i = 0; i < table->column_count; i++)
        if (list_member_int(scan->plan.columns, BaseColumn(table, i)))
            needed = bms_add_member(needed, i);
    return needed;
}

void OpenSource(IndexTableScan *scan, Source *source, const SourcePlan *plan) {
    PlanState *node = &scan->css.ss.ps;
    source->table = GetIndexTable(plan->index_table);
    if (scan->plan.is_ordered)
        source->ordered = KeyPositions(source->table, plan);
    BeginEntrySource(&source->entries, source->table, plan, scan->plan.direction, node,
                     NeededPositions(scan, source));
    if (source->entries.recompute)
        RequireThisBackend();
    BeginLeafReader(&source->leaves, source->table, scan->css.ss.ss_currentRelation,
                    node->state->es_snapshot, scan->plan.lock);
    if (scan->plan.mode == ScanMode::Rows && HasForeignLeaves(FindBase(source->table->base))) {
        source->shards =
            BeginShardRows(source->table, scan->css.ss.ss_currentRelation, scan->needs);
        source->batch = BeginEntryBatch(&source->entries, &source->leaves, source->shards,
                                        scan->plan.first_batch);
    }
    source->identity = palloc_array(Datum, source->table->identity_count);
    source->identity_nulls = palloc_array(bool, source->table->identity_count);
}

// Forgets which rows were yielded.
void StartSeeing(IndexTableScan *scan) {
    if (scan->plan.source_count < 2)
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
bool IsSeenRemotely(IndexTableScan *scan, const Source *source, Oid partition,
                    const ShardRow *row) {
    if (scan->plan.source_count < 2)
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
        const IndexTable *table = GetIndexTable(plan.index_table);
        for (int i = 0; i < table->identity_count; i++)
            columns = bms_add_member(columns, table->identity[i].base_attno);
        Bitmapset *ordered = scan->plan.is_ordered ? KeyPositions(table, &plan) : nullptr;
        for (int i = -1; (i = bms_next_member(ordered, i)) >= 0;)
            if (BaseColumn(table, i) != 0)
                columns = bms_add_member(columns, BaseColumn(table, i));
    }
    List *attnos = NIL;
    for (int attno = -1; (attno = bms_next_member(columns, attno)) >= 0;)
        attnos = lappend_int(attnos, attno);
    return attnos;
}

// What is needed of rows in foreign partitions, where there are some.
void FindNeeds(IndexTableScan *scan) {
    const Base *base = FindBase(RelationGetRelid(scan->css.ss.ss_currentRelation));
    if (scan->plan.mode == ScanMode::Entries || !base || !HasForeignLeaves(base))
        return;
    PlanState *node = &scan->css.ss.ps;
    scan->needs = {.columns = ColumnsOfShards(scan),
                   .quals = scan->plan.may_ship ? node->plan->qual : NIL,
                   .node = node,
                   .user = compat::ReaderOf(node->state,
                                            reinterpret_cast<const Scan *>(node->plan)->scanrelid),
                   .snapshot = node->state->es_snapshot};
}

void OpenSources(IndexTableScan *scan) {
    EState *estate = scan->css.ss.ps.state;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    FindNeeds(scan);
    scan->sources = palloc0_array(Source, Max(1, scan->plan.source_count));
    for (int i = 0; i < scan->plan.source_count; i++)
        OpenSource(scan, &scan->sources[i], &scan->plan.sources[i]);
    scan->is_open = true;
    MemoryContextSwitchTo(caller);
}

void Begin(CustomScanState *node, EState *estate, int flags) {
    IndexTableScan *scan = ToScan(node);
    scan->plan = ReadScanPlan(reinterpret_cast<CustomScan *>(node->ss.ps.plan));
    scan->recheck = ExecInitQual(scan->plan.recheck, &node->ss.ps);
    scan->last_column = scan->plan.columns == NIL ? BaseDescriptor(scan)->natts : 0;
    ListCell *cell;
    foreach (cell, scan->plan.columns)
        scan->last_column = Max(scan->last_column, lfirst_int(cell));
    // A scan that is to look at a row again is given that, unless it is part of a subquery.
    if (!(flags & EXEC_FLAG_EXPLAIN_ONLY) && !estate->es_epq_active)
        OpenSources(scan);
}

// --- Rows --------------------------------------------------------------------

// The scan's tuple from a partition's row.
TupleTableSlot *ToBaseRow(IndexTableScan *scan, TupleTableSlot *row, const AttrMap *map,
                          Oid partition) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    int natts = slot->tts_tupleDescriptor->natts;
    int last = scan->last_column;
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

// Whether the row has the entry's key, as far as that consists of columns: where the plan relies on
// the order, a row must not come at the place of a key that it no longer has.
bool HasKey(IndexTableScan *scan, const Source *source, const OpenLeaf *leaf) {
    for (int i = -1; (i = bms_next_member(source->ordered, i)) >= 0;) {
        AttrNumber attno = BaseColumn(source->table, i);
        if (attno == 0)
            continue;
        Form_pg_attribute att = TupleDescAttr(BaseDescriptor(scan), attno - 1);
        bool isnull;
        Datum value =
            slot_getattr(leaf->slot, leaf->map ? leaf->map->attnums[attno - 1] : attno, &isnull);
        if (isnull != source->entries.nulls[i] ||
            (!isnull &&
             !datum_image_eq(value, source->entries.values[i], att->attbyval, att->attlen)))
            return false;
    }
    return true;
}

// The scan's tuple from a foreign partition's row, which has the needed columns alone.
TupleTableSlot *FromShard(IndexTableScan *scan, const ShardRow *row, Oid partition) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    ExecClearTuple(slot);
    memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
    ListCell *cell;
    foreach (cell, scan->needs.columns) {
        int place = foreach_current_index(cell);
        slot->tts_values[lfirst_int(cell) - 1] = row->values[place];
        slot->tts_isnull[lfirst_int(cell) - 1] = row->nulls[place];
    }
    ExecStoreVirtualTuple(slot);
    slot->tts_tableOid = partition;
    ItemPointerSetInvalid(&slot->tts_tid);
    return slot;
}

// As HasKey, of a foreign partition's row.
bool ShardRowHasKey(IndexTableScan *scan, const Source *source, const ShardRow *row) {
    for (int i = -1; (i = bms_next_member(source->ordered, i)) >= 0;) {
        AttrNumber attno = BaseColumn(source->table, i);
        if (attno == 0)
            continue;
        Form_pg_attribute att = TupleDescAttr(BaseDescriptor(scan), attno - 1);
        int place = GetPlace(source->shards, attno);
        if (row->nulls[place] != source->entries.nulls[i] ||
            (!row->nulls[place] && !datum_image_eq(row->values[place], source->entries.values[i],
                                                   att->attbyval, att->attlen)))
            return false;
    }
    return true;
}

// FetchRow() of an entry that leads to a foreign partition.
TupleTableSlot *FetchFromShard(IndexTableScan *scan, Source *source) {
    const ShardRow *row = ShardRowOf(source->batch);
    Oid partition = RelationGetRelid(ForeignLeafOf(source->batch)->rel);
    if (!row)
        return nullptr;
    scan->rows_fetched++;
    if ((scan->plan.is_ordered && !ShardRowHasKey(scan, source, row)) ||
        IsSeenRemotely(scan, source, partition, row))
        return nullptr;
    ExprContext *context = scan->css.ss.ps.ps_ExprContext;
    context->ecxt_scantuple = FromShard(scan, row, partition);
    return ExecQual(scan->recheck, context) ? context->ecxt_scantuple : nullptr;
}

// The row that an entry leads to; null where it leads to none, or to one that is not asked for.
TupleTableSlot *FetchRow(IndexTableScan *scan, Source *source) {
    const IndexTable *table = source->table;
    const EntrySource &entries = source->entries;
    if (source->batch && ForeignLeafOf(source->batch))
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
    scan->rows_fetched++;
    scan->row = leaf->slot;
    if (source->batch && (!leaf->index || !leaf->index->rd_index->indisunique))
        RaiseNotUnique(table, RelationGetRelid(leaf->rel));
    if ((scan->plan.is_ordered && !HasKey(scan, source, leaf)) ||
        IsSeen(scan, RelationGetRelid(leaf->rel), leaf->slot->tts_tid))
        return nullptr;
    ExprContext *context = scan->css.ss.ps.ps_ExprContext;
    context->ecxt_scantuple = ToBaseRow(scan, leaf->slot, leaf->map, RelationGetRelid(leaf->rel));
    return ExecQual(scan->recheck, context) ? context->ecxt_scantuple : nullptr;
}

void StartSource(Source *source) {
    RestartEntries(&source->entries);
    if (source->batch)
        RestartBatch(source->batch);
}

// Reads the next entry of the sources, one after the other; null at the end.
Source *NextEntry(IndexTableScan *scan) {
    if (!scan->is_started) {
        scan->current = 0;
        StartSeeing(scan);
        StartSource(&scan->sources[0]);
        scan->is_started = true;
    }
    for (;;) {
        Source *source = &scan->sources[scan->current];
        if (source->batch ? NextBatched(source->batch) : ReadEntry(&source->entries))
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
    while (Source *source = NextEntry(scan)) {
        if (TupleTableSlot *slot = FetchRow(scan, source))
            return slot;
        scan->stale_entries++;
    }
    return nullptr;
}

// --- Entries alone -----------------------------------------------------------

TupleTableSlot *NextEntryAlone(IndexTableScan *scan) {
    TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
    while (Source *source = NextEntry(scan)) {
        const IndexTable *table = source->table;
        const EntrySource &entries = source->entries;
        int32 partition_id = DatumGetInt32(entries.values[table->partition_position()]);
        if (!IsReadable(&source->leaves, partition_id)) {
            scan->stale_entries++;
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
    scan->leaf_scan = table_beginscan(scan->leaf, scan->css.ss.ps.state->es_snapshot, 0, nullptr);
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

// --- The node ----------------------------------------------------------------

TupleTableSlot *Next(ScanState *node) {
    IndexTableScan *scan = reinterpret_cast<IndexTableScan *>(node);
    if (!scan->is_open)
        OpenSources(scan);
    TupleTableSlot *slot = nullptr;
    switch (scan->plan.mode) {
    case ScanMode::Rows:
        slot = NextThroughEntry(scan);
        break;
    case ScanMode::Entries:
        slot = NextEntryAlone(scan);
        break;
    case ScanMode::AllPartitions:
        slot = NextOfAll(scan);
        break;
    }
    return slot ? slot : ExecClearTuple(node->ss_ScanTupleSlot);
}

// Whether a row that others have changed is still one of those that the index conditions find.
bool Recheck(ScanState *node, TupleTableSlot *slot) {
    IndexTableScan *scan = reinterpret_cast<IndexTableScan *>(node);
    ExprContext *context = node->ps.ps_ExprContext;
    context->ecxt_scantuple = slot;
    return ExecQual(scan->recheck, context);
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

void End(CustomScanState *node) {
    IndexTableScan *scan = ToScan(node);
    if (!scan->is_open)
        return;
    CloseLeaf(scan);
    for (Source &source : std::span(scan->sources, scan->plan.source_count)) {
        if (source.shards)
            EndShardRows(source.shards);
        EndEntrySource(&source.entries);
        EndLeafReader(&source.leaves);
    }
}

void Rescan(CustomScanState *node) {
    IndexTableScan *scan = ToScan(node);
    ExecScanReScan(&node->ss);
    CloseLeaf(scan);
    scan->next_partition = 0;
    if (scan->plan.mode != ScanMode::AllPartitions)
        scan->is_started = false;
}

// --- EXPLAIN -----------------------------------------------------------------

void ExplainSource(const SourcePlan &source, List *context, ExplainState *es) {
    const char *name = get_rel_name(source.index_table);
    if (es->verbose)
        name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(source.index_table)),
                                          name);
    ExplainPropertyText("Index Table", name, es);
    if (source.is_owner_index)
        ExplainPropertyText("Index", get_rel_name(source.index), es);
    if (source.quals == NIL)
        return;
    Node *condition = reinterpret_cast<Node *>(make_ands_explicit(source.quals));
    ExplainPropertyText("Index Cond", deparse_expression(condition, context, es->verbose, false),
                        es);
}

ShardCounts CountShards(const IndexTableScan *scan) {
    ShardCounts all = {};
    for (const Source &source : std::span(scan->sources, scan->plan.source_count)) {
        ShardCounts own = GetCounts(source.shards);
        all.pipelined += own.pipelined;
        all.wrapped += own.wrapped;
        all.rows += own.rows;
    }
    return all;
}

// The way that was taken; the one that would be, where none was.
const char *DescribeWay(const IndexTableScan *scan) {
    constexpr const char *kPipelined = "pipelined";
    constexpr const char *kWrapped = "through foreign data wrapper";
    ShardCounts counts = {};
    if (scan->is_open && scan->sources[0].shards)
        counts = CountShards(scan);
    if (counts.pipelined > 0 && counts.wrapped > 0)
        return "pipelined, some through foreign data wrapper";
    if (counts.pipelined > 0 || counts.wrapped > 0)
        return counts.pipelined > 0 ? kPipelined : kWrapped;
    return MayPipeline() ? kPipelined : kWrapped;
}

// How rows of foreign partitions are asked for, and what the first of them would be asked.
void ExplainShards(IndexTableScan *scan, ExplainState *es) {
    const Base *base = FindBase(RelationGetRelid(scan->css.ss.ss_currentRelation));
    if (scan->plan.mode != ScanMode::Rows || !base || !HasForeignLeaves(base))
        return;
    ExplainPropertyText("Shards", DescribeWay(scan), es);
    if (!es->verbose)
        return;
    FindNeeds(scan);
    const IndexTable *table = GetIndexTable(scan->plan.sources[0].index_table);
    if (const char *sql = SampleStatement(table, scan->css.ss.ss_currentRelation, scan->needs))
        ExplainPropertyText("Remote SQL", sql, es);
}

void Explain(CustomScanState *node, List *ancestors, ExplainState *es) {
    IndexTableScan *scan = ToScan(node);
    List *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
    if (scan->plan.source_count == 1) {
        ExplainSource(scan->plan.sources[0], context, es);
    } else if (scan->plan.source_count > 1) {
        ExplainOpenGroup("Index Tables", "Index Tables", false, es);
        for (const SourcePlan &source : std::span(scan->plan.sources, scan->plan.source_count)) {
            ExplainOpenGroup("Source", nullptr, true, es);
            ExplainSource(source, context, es);
            ExplainCloseGroup("Source", nullptr, true, es);
        }
        ExplainCloseGroup("Index Tables", "Index Tables", false, es);
    }
    if (scan->plan.direction == BackwardScanDirection)
        ExplainPropertyText("Scan Direction", "Backward", es);
    ExplainShards(scan, es);
    if (!es->analyze || !scan->is_open)
        return;
    uint64 entries = 0, removed = 0, heap_fetches = 0, partitions = scan->partitions_visited;
    bool recomputed = false;
    for (const Source &source : std::span(scan->sources, scan->plan.source_count)) {
        entries += source.entries.entries_read;
        removed += source.entries.entries_removed;
        heap_fetches += source.entries.heap_fetches;
        partitions += source.leaves.opened;
        recomputed = recomputed || source.entries.recompute;
    }
    if (recomputed)
        ExplainPropertyText("Entries From", "base table", es);
    if (scan->plan.source_count > 0) {
        ExplainPropertyUInteger("Entries Read", nullptr, entries, es);
        if (removed > 0)
            ExplainPropertyUInteger("Entries Removed by Index Recheck", nullptr, removed, es);
        if (scan->plan.mode == ScanMode::Rows)
            ExplainPropertyUInteger("Rows Fetched", nullptr, scan->rows_fetched, es);
        if (scan->stale_entries > 0 || es->format != EXPLAIN_FORMAT_TEXT)
            ExplainPropertyUInteger("Entries Skipped", nullptr, scan->stale_entries, es);
        ExplainPropertyUInteger("Heap Fetches", nullptr, heap_fetches, es);
    }
    if (scan->sources[0].shards && scan->plan.source_count > 0) {
        ShardCounts shards = CountShards(scan);
        ExplainPropertyUInteger("Shard Statements", nullptr, shards.pipelined + shards.wrapped, es);
        ExplainPropertyUInteger("Shard Rows", nullptr, shards.rows, es);
    }
    if (scan->plan.mode != ScanMode::Entries)
        ExplainPropertyUInteger("Partitions Visited", nullptr, partitions, es);
}

CustomExecMethods MakeExecMethods(const char *name) {
    CustomExecMethods methods = {};
    methods.CustomName = name;
    methods.BeginCustomScan = Begin;
    methods.ExecCustomScan = Execute;
    methods.EndCustomScan = End;
    methods.ReScanCustomScan = Rescan;
    methods.ExplainCustomScan = Explain;
    return methods;
}

Node *CreateState(CustomScan *scan);

constexpr int kModes = 3;
CustomScanMethods scan_methods[kModes] = {{"Index Table Scan", CreateState},
                                          {"Index Table Only Scan", CreateState},
                                          {"All Partitions Scan", CreateState}};
CustomExecMethods exec_methods[kModes];

Node *CreateState(CustomScan *scan) {
    IndexTableScan *state =
        reinterpret_cast<IndexTableScan *>(newNode(sizeof(IndexTableScan), T_CustomScanState));
    state->css.methods = &exec_methods[static_cast<int>(ReadScanPlan(scan).mode)];
    return reinterpret_cast<Node *>(state);
}

} // namespace

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
