#include "exec/address_scan.h"

#include "catalog/public.h"
#include "core/public.h"
#include "exec/entry_quals.h"

namespace index_table {
namespace {

void PrepareKeys(AddressScan *scan, const ScanPlan *plan) {
    BitmapKeys *keys = &scan->conditions;
    bool takes_arrays = scan->tree->rd_indam->amsearcharray;
    ExecIndexBuildScanKeys(scan->node, scan->tree, QualsOverIndex(scan->plan, scan->tree), false,
                           &keys->keys, &keys->key_count, &scan->runtime_keys,
                           &scan->runtime_key_count, takes_arrays ? nullptr : &keys->arrays,
                           takes_arrays ? nullptr : &keys->array_count);
    if (plan->distances != NIL)
        ExecIndexBuildScanKeys(scan->node, scan->tree, DistancesOverIndex(plan, scan->tree), true,
                               &scan->distances, &scan->distance_count, &scan->runtime_keys,
                               &scan->runtime_key_count, nullptr, nullptr);
    if (scan->runtime_key_count == 0 && keys->array_count == 0)
        return;
    ExprContext *own = scan->node->ps_ExprContext;
    ExecAssignExprContext(scan->node->state, scan->node);
    keys->context = scan->node->ps_ExprContext;
    scan->node->ps_ExprContext = own;
}

// Within one statement of READ COMMITTED its own snapshot will do. In a transaction with one
// snapshot, statements see partitions that have joined since, as they do natively.
Snapshot JoinedBefore(Snapshot snapshot) {
    if (!IsolationUsesXactSnapshot())
        return snapshot;
    return IsInParallelMode() ? nullptr : RegisterSnapshot(GetLatestSnapshot());
}

// A slot for rows of a partition: one for all partitions that store them as the base table would.
// What a partition with columns of its own has to add to its rows is in its own descriptor.
TupleTableSlot *SlotFor(AddressScan *scan, const AddressedLeaf *leaf) {
    TupleDesc descriptor = RelationGetDescr(leaf->rel);
    bool is_alike = !leaf->map && !(descriptor->constr && descriptor->constr->missing) &&
                    table_slot_callbacks(leaf->rel) == &TTSOpsBufferHeapTuple;
    if (!is_alike)
        return table_slot_create(leaf->rel, nullptr);
    if (!scan->slot)
        scan->slot = MakeSingleTupleTableSlot(RelationGetDescr(scan->base), &TTSOpsBufferHeapTuple);
    return scan->slot;
}

void OpenLeaf(AddressScan *scan, AddressedLeaf *leaf) {
    FAULT_POINT("address_scan.open_leaf");
    int depth;
    leaf->rel = OpenAttached(scan->viewer, leaf->relid, scan->lock, &depth);
    if (!leaf->rel)
        return;
    leaf->rows = OpenAddressed(scan->storage, leaf->rel, &scan->address);
    if (!leaf->rows) {
        relation_close(leaf->rel, NoLock);
        leaf->rel = nullptr;
        return;
    }
    leaf->map = MapToBase(leaf->rel, scan->base);
    leaf->slot = SlotFor(scan, leaf);
    scan->leaves_opened++;
}

AddressedLeaf *AddLeaf(AddressScan *scan, Oid relid) {
    MemoryContext caller = MemoryContextSwitchTo(scan->memory);
    AddressedLeaf *leaf = palloc0_object(AddressedLeaf);
    leaf->relid = relid;
    OpenLeaf(scan, leaf);
    leaf->next = scan->leaves;
    scan->leaves = leaf;
    scan->by_oid.Add(relid, leaf, scan->memory);
    MemoryContextSwitchTo(caller);
    return leaf;
}

void RescanTree(AddressScan *scan) {
    index_rescan(scan->scan, scan->conditions.keys, scan->conditions.key_count, scan->distances,
                 scan->distance_count);
}

// Reads the entries anew, now that the rows of a partition stay where they are. What was yielded
// comes again, up to the last of it, whose entry stays as long as the snapshot sees it. Rows of the
// partition are none of that; up to there they may come for the key of the last.
void Reread(AddressScan *scan, Oid late) {
    Assert(scan->is_ordered);
    RescanTree(scan);
    scan->late = scan->has_yielded ? late : InvalidOid;
}

// The same where entries come in no order in which something could be found again: reads all rows
// of the partition at once. None has been yielded: entries of theirs that were met would have
// opened it.
void ReadWhole(AddressScan *scan, AddressedLeaf *leaf) {
    Assert(!scan->whole);
    MemoryContext caller = MemoryContextSwitchTo(scan->memory);
    scan->whole_scan = compat::BeginTableScan(leaf->rel, scan->viewer.snapshot);
    MemoryContextSwitchTo(caller);
    scan->whole = leaf;
    leaf->is_whole = true;
}

void EndWhole(AddressScan *scan) {
    if (!scan->whole)
        return;
    ExecClearTuple(scan->whole->slot);
    table_endscan(scan->whole_scan);
    scan->whole = nullptr;
}

// Whether the entry is one of those that come again.
bool ComesAgain(AddressScan *scan, Oid relid) {
    if (!OidIsValid(scan->late))
        return false;
    if (ItemPointerEquals(&scan->address, &scan->last_yielded)) {
        scan->late = InvalidOid;
        return true;
    }
    return relid != scan->late;
}

AddressedLeaf *FindLeaf(AddressScan *scan, Oid relid) {
    if (scan->last && scan->last->relid == relid)
        return scan->last;
    scan->last = static_cast<AddressedLeaf *>(scan->by_oid.Find(relid));
    if (!scan->last)
        scan->last = AddLeaf(scan, relid);
    return scan->last;
}

// The partition that the entry leads to; null where it is not to be read.
AddressedLeaf *GetLeaf(AddressScan *scan) {
    Oid relid = OidIsValid(scan->late) ? PartitionOf(scan->storage, &scan->address)
                                       : LikelyPartitionOf(scan->storage, &scan->address);
    if (!OidIsValid(relid) || ComesAgain(scan, relid))
        return nullptr;
    AddressedLeaf *leaf = FindLeaf(scan, relid);
    if (!leaf->rel || !LocateRow(leaf->rows, &scan->address)) {
        relid = PartitionOf(scan->storage, &scan->address);
        if (!OidIsValid(relid))
            return nullptr;
        leaf = FindLeaf(scan, relid);
    }
    if (!leaf->rel || leaf->is_whole)
        return nullptr;
    if (leaf->is_met)
        return leaf;
    leaf->is_met = true;
    if (!IsReaddressed(leaf->rows, scan->viewer.snapshot))
        return leaf;
    if (scan->is_ordered)
        Reread(scan, relid);
    else
        ReadWhole(scan, leaf);
    return nullptr;
}

void RememberYielded(AddressScan *scan) {
    if (!scan->is_ordered || OidIsValid(scan->late))
        return;
    scan->last_yielded = scan->address;
    scan->has_yielded = true;
}

// Puts the row of an entry into the partition's slot; false where the snapshot sees none.
bool Fetch(AddressScan *scan, AddressedLeaf *leaf) {
    FAULT_POINT("address_scan.fetch");
    bool all_dead = false;
    if (FetchAddressed(leaf->rows, &scan->address, scan->viewer.snapshot, leaf->slot, &all_dead))
        return true;
    // As an index scan of PostgreSQL: what a primary server takes for dead a standby may see.
    if (scan->scan)
        scan->scan->kill_prior_tuple = all_dead && !scan->scan->xactStartedInRecovery;
    return false;
}

// --- Elements of arrays ------------------------------------------------------

// Forgets what was yielded; elements of an array may find the same rows.
void StartSeeing(AddressScan *scan) {
    if (scan->bitmap || scan->conditions.array_count == 0)
        return;
    if (!scan->seen_memory)
        scan->seen_memory = AllocSetContextCreate(scan->memory, "index_table addresses seen",
                                                  ALLOCSET_DEFAULT_SIZES);
    if (scan->seen)
        hash_destroy(scan->seen);
    MemoryContextReset(scan->seen_memory);
    scan->seen = MakeHashTable<ItemPointerData, ItemPointerData>("index_table addresses seen", 64,
                                                                 scan->seen_memory);
    scan->is_empty = !ExecIndexEvalArrayKeys(scan->conditions.context, scan->conditions.arrays,
                                             scan->conditions.array_count);
}

bool IsSeen(AddressScan *scan) {
    if (!scan->seen)
        return false;
    bool found;
    hash_search(scan->seen, &scan->address, HASH_ENTER, &found);
    return found;
}

bool NextElement(AddressScan *scan) {
    if (!scan->seen ||
        !ExecIndexAdvanceArrayKeys(scan->conditions.arrays, scan->conditions.array_count))
        return false;
    RescanTree(scan);
    return true;
}

// --- Through bitmaps ---------------------------------------------------------

// Those of the block that an address is in; none where it is stale.
int CountLinePointers(AddressScan *scan) {
    AddressedLeaf *leaf = GetLeaf(scan);
    std::optional<ItemPointerData> tid =
        leaf ? LocateRow(leaf->rows, &scan->address) : std::nullopt;
    if (!tid)
        return 0;
    BlockNumber block = ItemPointerGetBlockNumberNoCheck(&*tid);
    if (block >= leaf->blocks)
        leaf->blocks = RelationGetNumberOfBlocks(leaf->rel);
    if (block >= leaf->blocks)
        return 0;
    Buffer buffer = ReadBuffer(leaf->rel, block);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    int count = PageGetMaxOffsetNumber(BufferGetPage(buffer));
    UnlockReleaseBuffer(buffer);
    return count;
}

// The next address that may be meant. Of a lossy block every line pointer may, if it has the
// generation that was meant: a row's own version in the middle of a HOT chain shows nothing.
bool NextInBitmap(AddressScan *scan) {
    AddressBitmap *bitmap = scan->bitmap;
    while (scan->next_offset == scan->offset_count) {
        CHECK_FOR_INTERRUPTS();
        if (!NextAddressBlock(bitmap, scan->conditions))
            return false;
        scan->is_lossy = bitmap->page.count < 0;
        scan->recheck = bitmap->page.recheck || scan->is_lossy;
        scan->next_offset = 0;
        scan->offset_count = bitmap->page.count;
        if (!scan->is_lossy)
            continue;
        scan->address = AddressInBlock(bitmap, FirstOffsetNumber);
        scan->offset_count = CountLinePointers(scan);
        if (scan->whole)
            return true;
    }
    int number = scan->next_offset++;
    scan->address = AddressInBlock(bitmap, scan->is_lossy ? number + FirstOffsetNumber
                                                          : bitmap->page.offsets[number]);
    return true;
}

// The next row of a partition that is read itself.
bool NextOfWhole(AddressScan *scan) {
    if (table_scan_getnextslot(scan->whole_scan, ForwardScanDirection, scan->whole->slot)) {
        scan->recheck = true;
        return true;
    }
    EndWhole(scan);
    scan->recheck = scan->bitmap && (scan->bitmap->page.recheck || scan->is_lossy);
    return false;
}

} // namespace

AddressScan *BeginAddressScan(const ScanPlan *plan, const SourcePlan *source, ScanState *node) {
    FAULT_POINT("address_scan.begin_address_scan");
    Snapshot snapshot = node->ps.state->es_snapshot;
    AddressScan *scan = palloc0_object(AddressScan);
    scan->plan = source;
    scan->direction = plan->direction;
    scan->node = &node->ps;
    scan->base = node->ss_currentRelation;
    scan->viewer = {.base = RelationGetRelid(scan->base),
                    .snapshot = snapshot,
                    .joined_before = JoinedBefore(snapshot)};
    scan->lock = plan->lock;
    scan->memory = CurrentMemoryContext;
    // Workers have locks of their own.
    scan->storage = table_open(source->index_table, IsParallelWorker() ? AccessShareLock : NoLock);
    scan->tree = index_open(source->index, AccessShareLock);
    PrepareKeys(scan, plan);
    int key_count = scan->conditions.key_count;
    if (IsPacked(scan->tree))
        scan->bitmap = BeginAddressBitmap(scan->tree, snapshot, key_count);
    else
        scan->scan = compat::BeginIndexScan(scan->storage, scan->tree, snapshot, key_count,
                                            scan->distance_count);
    scan->is_ordered = scan->tree->rd_rel->relam == BTREE_AM_OID;
    return scan;
}

void RestartAddresses(AddressScan *scan) {
    EndWhole(scan);
    // They are locked by now: what is read of the tree from here on has all their rows.
    for (AddressedLeaf *leaf = scan->leaves; leaf; leaf = leaf->next)
        leaf->is_whole = false;
    if (scan->conditions.context)
        ResetExprContext(scan->conditions.context);
    if (scan->runtime_key_count > 0)
        ExecIndexEvalRuntimeKeys(scan->conditions.context, scan->runtime_keys,
                                 scan->runtime_key_count);
    StartSeeing(scan);
    if (scan->bitmap) {
        ResetAddressBitmap(scan->bitmap);
        scan->offset_count = scan->next_offset = 0;
    } else if (!scan->is_empty) {
        RescanTree(scan);
    }
    scan->has_yielded = false;
    scan->late = InvalidOid;
}

namespace {

bool NextInTree(AddressScan *scan) {
    // A B-tree scan remembers killed items in the memory context it is first advanced in.
    MemoryContext caller = MemoryContextSwitchTo(scan->memory);
    ItemPointer address = nullptr;
    do
        address = index_getnext_tid(scan->scan, scan->direction);
    while (!address && NextElement(scan));
    MemoryContextSwitchTo(caller);
    if (!address)
        return false;
    scan->address = *address;
    scan->recheck = scan->scan->xs_recheck;
    return true;
}

} // namespace

bool NextAddress(AddressScan *scan) {
    CHECK_FOR_INTERRUPTS();
    if (scan->whole && NextOfWhole(scan))
        return true;
    if (scan->is_empty || !(scan->bitmap ? NextInBitmap(scan) : NextInTree(scan)))
        return false;
    if (scan->whole) // met on the way
        return NextAddress(scan);
    scan->entries_read++;
    return true;
}

AddressedLeaf *FetchAddressedRow(AddressScan *scan) {
    if (scan->whole)
        return scan->whole;
    AddressedLeaf *leaf = GetLeaf(scan);
    if (!leaf || !Fetch(scan, leaf) || IsSeen(scan))
        return nullptr;
    RememberYielded(scan);
    return leaf;
}

void HoldColumns(AddressScan *scan, const List *columns) {
    const IndexTable *table = FindGlobalTable(scan->plan->index_table);
    if (!table)
        elog(ERROR, "global index \"%s\" is gone", get_rel_name(scan->plan->root));
    Assert(scan->scan);
    scan->scan->xs_want_itup = true;
    scan->held = palloc_array(HeldColumn, table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        AttrNumber attno = BaseColumn(table, i);
        if (attno != 0 && list_member_int(columns, attno))
            scan->held[scan->held_count++] = {.base = attno, .tree = TreeColumn(table, i)};
    }
}

namespace {

// Whether the snapshot sees the row of the entry just read. A row that is not read leaves no
// predicate lock.
bool SeesRow(AddressScan *scan, AddressedLeaf *leaf) {
    if (!IsolationIsSerializable() && IsAddressVisible(leaf->rows, &scan->address))
        return true;
    scan->heap_fetches++;
    if (!Fetch(scan, leaf))
        return false;
    ExecClearTuple(leaf->slot);
    return true;
}

} // namespace

bool ReadHeldColumns(AddressScan *scan, TupleTableSlot *row) {
    Assert(TTS_EMPTY(row) && !IsOfWhole(scan));
    AddressedLeaf *leaf = GetLeaf(scan);
    if (!leaf || !SeesRow(scan, leaf) || IsSeen(scan))
        return false;
    RememberYielded(scan);
    memset(row->tts_isnull, true, row->tts_tupleDescriptor->natts);
    const IndexScanDesc tree = scan->scan;
    for (const HeldColumn &column : std::span(scan->held, scan->held_count)) {
        bool *isnull = &row->tts_isnull[column.base - 1];
        row->tts_values[column.base - 1] =
            tree->xs_hitup ? heap_getattr(tree->xs_hitup, column.tree, tree->xs_hitupdesc, isnull)
                           : index_getattr(tree->xs_itup, column.tree, tree->xs_itupdesc, isnull);
    }
    ExecStoreVirtualTuple(row);
    return true;
}

void EndAddressScan(AddressScan *scan) {
    EndWhole(scan);
    if (scan->bitmap)
        EndAddressBitmap(scan->bitmap);
    else
        index_endscan(scan->scan);
    if (scan->seen)
        hash_destroy(scan->seen);
    for (AddressedLeaf *leaf = scan->leaves; leaf; leaf = leaf->next) {
        if (!leaf->rel)
            continue;
        if (leaf->slot != scan->slot)
            ExecDropSingleTupleTableSlot(leaf->slot);
        CloseAddressed(leaf->rows);
        relation_close(leaf->rel, NoLock);
    }
    if (scan->slot)
        ExecDropSingleTupleTableSlot(scan->slot);
    scan->by_oid.Destroy();
    if (scan->viewer.joined_before && scan->viewer.joined_before != scan->viewer.snapshot)
        UnregisterSnapshot(scan->viewer.joined_before);
    index_close(scan->tree, NoLock);
    table_close(scan->storage, NoLock);
}

} // namespace index_table
