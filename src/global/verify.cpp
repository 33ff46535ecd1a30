#include "global/verify.h"

#include "core/public.h"
#include "global/address.h"
#include "global/addressed_rows.h"
#include "global/child_index.h"
#include "global/follow_ddl.h"
#include "global/generations.h"
#include "global/storage.h"

namespace index_table {
namespace {

// A partition that stores rows.
struct VerifiedLeaf {
    Relation heap;
    Relation child;
    AddressedPartition *rows; // null: the child is no part of the global index
    TupleTableSlot *slot;
    IndexInfo *info;
    ExprState *predicate;
};

struct Verification {
    GlobalIndex index;
    const VerifyCalls *calls;
    Relation storage;
    Relation tree;
    bool has_keys;    // entries are read with the values they have
    bool is_scanned;  // else entries are what bulk deletion would be asked about
    bool omits_nulls; // rows with NULLs in their key may have no entry
    bool is_unique;
    bool nulls_distinct;
    int key_count;
    FmgrInfo *compare; // of key columns, where entries have them
    FmgrInfo *to_json;
    const char **names; // of key columns
    Snapshot snapshot;
    EState *estate;
    List *leaves;
    uint32 extent_count;
    VerifiedLeaf **leaf_of; // by extent; null: entries there lead nowhere
    Tuplesortstate *sort;
    int64 read; // entries and rows
};

// An entry that is being looked at, and, where it was read, what it has.
struct ReadEntry {
    ItemPointerData address;
    bool starts_key; // the one before it, if any, has another key
    int64 row;       // the code of the visible row with its key; 0: it leads to none
    IndexTuple tuple;
};

// As many as memory allows, in the tree's order.
struct Batch {
    MemoryContext memory;
    ReadEntry *entries;
    uint32 count;
    uint32 capacity; // grows with what there is
    uint32 most;
    Size size; // of tuples
    Size limit;
    int64 last_row; // that has the last key; 0: none has
};

// --- Values --------------------------------------------------------------------

// Code of keys is the partition's owner's, see BuildFromPartition().
struct Acting {
    Oid user;
    int security;
};

Acting ActFor(const VerifiedLeaf *leaf) {
    Acting saved;
    GetUserIdAndSecContext(&saved.user, &saved.security);
    SetUserIdAndSecContext(leaf->heap->rd_rel->relowner, saved.security);
    return saved;
}

void StopActing(const Acting &saved) {
    SetUserIdAndSecContext(saved.user, saved.security);
}

// What the row in a leaf's slot should have for an entry.
void ComputeValues(Verification *state, VerifiedLeaf *leaf, Datum *values, bool *nulls) {
    GetPerTupleExprContext(state->estate)->ecxt_scantuple = leaf->slot;
    FormIndexDatum(leaf->info, leaf->slot, state->estate, values, nulls);
}

bool IsIndexed(Verification *state, VerifiedLeaf *leaf) {
    if (!leaf->predicate)
        return true;
    ExprContext *context = GetPerTupleExprContext(state->estate);
    context->ecxt_scantuple = leaf->slot;
    return ExecQual(leaf->predicate, context);
}

// Whether the row in a leaf's slot may be without entry, or have one, as the access method likes.
bool MayBeLeftOut(Verification *state, VerifiedLeaf *leaf) {
    if (!state->omits_nulls)
        return false;
    Acting saved = ActFor(leaf);
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    ComputeValues(state, leaf, values, nulls);
    StopActing(saved);
    return std::any_of(nulls, nulls + state->key_count, [](bool isnull) { return isnull; });
}

Datum *ReadValues(Verification *state, const ReadEntry &entry, bool *nulls) {
    Datum *values = palloc_array(Datum, INDEX_MAX_KEYS);
    index_deform_tuple(entry.tuple, RelationGetDescr(state->tree), values, nulls);
    return values;
}

bool AreEqual(Verification *state, int column, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null)
        return a_null && b_null;
    return DatumGetInt32(FunctionCall2Coll(&state->compare[column],
                                           state->tree->rd_indcollation[column], a, b)) == 0;
}

bool AreAlike(Verification *state, int column, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null)
        return a_null && b_null;
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(state->tree), column);
    return datum_image_eq(a, b, att->attbyval, att->attlen);
}

// --- Problems ------------------------------------------------------------------

// A B-tree keeps names as C strings.
Datum ForOutput(Verification *state, int column, Datum value, bool is_stored) {
    Form_pg_attribute in_tree = TupleDescAttr(RelationGetDescr(state->tree), column);
    Form_pg_attribute in_rows = TupleDescAttr(RelationGetDescr(state->storage), column);
    if (is_stored && in_tree->atttypid == CSTRINGOID && in_rows->atttypid == NAMEOID)
        return DirectFunctionCall1(namein, value);
    return value;
}

// jsonb_build_object() of names and values.
Datum DescribeKey(Verification *state, const Datum *values, const bool *nulls, bool is_stored) {
    LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
    InitFunctionCallInfoData(*fcinfo, state->to_json, 2 * state->key_count, InvalidOid, nullptr,
                             nullptr);
    for (int i = 0; i < state->key_count; i++) {
        fcinfo->args[2 * i] = {CStringGetTextDatum(state->names[i]), false};
        fcinfo->args[2 * i + 1] = {nulls[i] ? 0 : ForOutput(state, i, values[i], is_stored),
                                   nulls[i]};
    }
    return FunctionCallInvoke(fcinfo);
}

FmgrInfo *MakeKeyDescription(const Verification &state) {
    List *args = NIL;
    for (int i = 0; i < state.key_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(state.storage), i);
        args = lappend(args, makeNullConst(TEXTOID, -1, DEFAULT_COLLATION_OID));
        args = lappend(args, makeNullConst(att->atttypid, att->atttypmod, att->attcollation));
    }
    static_assert(2 * INDEX_MAX_KEYS <= FUNC_MAX_ARGS);
    FmgrInfo *function = palloc0_object(FmgrInfo);
    fmgr_info(F_JSONB_BUILD_OBJECT_ANY, function);
    fmgr_info_set_expr(
        reinterpret_cast<Node *>(makeFuncExpr(F_JSONB_BUILD_OBJECT_ANY, JSONBOID, args, InvalidOid,
                                              InvalidOid, COERCE_EXPLICIT_CALL)),
        function);
    return function;
}

void Report(Verification *state, const char *kind, const VerifiedLeaf *leaf,
            const ItemPointerData *row, const Datum *values, const bool *nulls, bool is_stored) {
    GlobalProblem problem = {.kind = kind,
                             .partition = RelationGetRelid(leaf->heap),
                             .row = *row,
                             .key = DescribeKey(state, values, nulls, is_stored)};
    state->calls->report(state->calls->state, problem);
}

// Of an entry, with what it has; where that was not read, with what its row has.
void ReportEntry(Verification *state, const char *kind, VerifiedLeaf *leaf, const ReadEntry &entry,
                 const ItemPointerData *row) {
    bool nulls[INDEX_MAX_KEYS];
    Assert(state->has_keys);
    Datum *values = ReadValues(state, entry, nulls);
    Report(state, kind, leaf, row, values, nulls, true);
}

// Of the row in the leaf's slot.
void ReportRow(Verification *state, const char *kind, VerifiedLeaf *leaf) {
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    Acting saved = ActFor(leaf);
    ComputeValues(state, leaf, values, nulls);
    StopActing(saved);
    Report(state, kind, leaf, &leaf->slot->tts_tid, values, nulls, false);
}

void CountRead(Verification *state) {
    CHECK_FOR_INTERRUPTS();
    // Entries are read first, then as many rows.
    state->calls->count(state->calls->state, ++state->read / 2);
}

// --- Entries -------------------------------------------------------------------

// What is sorted: a row's place, as an address without generation; the last bit tells entries from
// rows.
int64 CodeOf(const ItemPointerData *row, uint32 extent, bool is_entry) {
    ItemPointerData place = AddressOf(row, extent, 0);
    return (static_cast<int64>(ItemPointerGetBlockNumberNoCheck(&place)) << 16 |
            ItemPointerGetOffsetNumberNoCheck(&place))
               << 1 |
           (is_entry ? 1 : 0);
}

// Whether an index may have an entry for a line pointer.
bool MayHaveEntry(Relation heap, const ItemPointerData *tid) {
    BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
    if (block >= RelationGetNumberOfBlocks(heap))
        return false;
    Buffer buffer = ReadBuffer(heap, block);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
    bool may = false;
    if (!PageIsNew(page) && offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page)) {
        ItemId item = PageGetItemId(page, offset);
        may = ItemIdIsUsed(item) &&
              !(ItemIdIsNormal(item) && HeapTupleHeaderIsHeapOnly(reinterpret_cast<HeapTupleHeader>(
                                            PageGetItem(page, item))));
    }
    UnlockReleaseBuffer(buffer);
    return may;
}

// Whether an entry leads to a line pointer that no row is at for which it could have been made: the
// next row there would be found by it. VACUUM may take a line pointer between two looks, but not
// without giving it another generation before.
bool LeadsAstray(Relation storage, VerifiedLeaf *leaf, const ItemPointerData *address,
                 ItemPointerData *tid) {
    std::optional<ItemPointerData> place = LocateRow(leaf->rows, address);
    if (!place)
        return false;
    *tid = *place;
    auto is_current = [&] {
        return GenerationOfTid(leaf->child, storage, tid) == GenerationOf(address);
    };
    return is_current() && !MayHaveEntry(leaf->heap, tid) && is_current();
}

// Of an entry that leads to the row in the leaf's slot: null where it has what the row has.
const char *CompareWithRow(Verification *state, VerifiedLeaf *leaf, const ReadEntry &entry) {
    Acting saved = ActFor(leaf);
    Datum expected[INDEX_MAX_KEYS];
    bool expected_nulls[INDEX_MAX_KEYS];
    bool is_indexed = IsIndexed(state, leaf);
    if (is_indexed)
        ComputeValues(state, leaf, expected, expected_nulls);
    StopActing(saved);
    if (!is_indexed)
        return "stale";
    if (!state->has_keys)
        return nullptr;
    bool nulls[INDEX_MAX_KEYS];
    Datum *values = ReadValues(state, entry, nulls);
    const char *problem = nullptr;
    for (int i = 0; i < RelationGetDescr(state->tree)->natts; i++) {
        if (AreAlike(state, i, values[i], nulls[i], expected[i], expected_nulls[i]))
            continue;
        if (i < state->key_count &&
            !AreEqual(state, i, values[i], nulls[i], expected[i], expected_nulls[i]))
            return "stale";
        problem = "differs";
    }
    return problem;
}

void LookAtEntry(Verification *state, ReadEntry *entry) {
    uint32 extent = ExtentOf(&entry->address);
    VerifiedLeaf *leaf = !IsClaim(&entry->address) && extent < state->extent_count
                             ? state->leaf_of[extent]
                             : nullptr;
    if (!leaf || !leaf->rows)
        return;
    MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(state->estate));
    ItemPointerData tid;
    bool all_dead = false;
    if (FetchAddressed(leaf->rows, &entry->address, state->snapshot, leaf->slot, &all_dead)) {
        const ItemPointerData *row = &leaf->slot->tts_tid;
        const char *problem = CompareWithRow(state, leaf, *entry);
        bool is_its = (!problem || strcmp(problem, "stale") != 0) && !MayBeLeftOut(state, leaf);
        if (problem && state->has_keys)
            ReportEntry(state, problem, leaf, *entry, row);
        else if (problem)
            ReportRow(state, problem, leaf);
        if (is_its) {
            entry->row = CodeOf(row, extent, true);
            tuplesort_putdatum(state->sort, Int64GetDatum(entry->row), false);
        }
    } else if (LeadsAstray(state->storage, leaf, &entry->address, &tid)) {
        if (state->has_keys) {
            ReportEntry(state, "stale", leaf, *entry, &tid);
        } else {
            bool nulls[INDEX_MAX_KEYS];
            std::fill_n(nulls, lengthof(nulls), true);
            Datum values[INDEX_MAX_KEYS] = {};
            Report(state, "stale", leaf, &tid, values, nulls, false);
        }
    }
    ExecClearTuple(leaf->slot);
    MemoryContextSwitchTo(caller);
    ResetPerTupleExprContext(state->estate);
}

VerifiedLeaf *FindPlace(Verification *state, int64 code, ItemPointerData *tid) {
    ItemPointerData place;
    ItemPointerSet(&place, static_cast<BlockNumber>(code >> 17),
                   static_cast<OffsetNumber>(code >> 1));
    VerifiedLeaf *leaf = state->leaf_of[ExtentOf(&place)];
    *tid = *LocateRow(leaf->rows, &place);
    return leaf;
}

// Rows of one key, of which the first may be in the batch before.
void ReportRepeated(Verification *state, Batch *batch) {
    for (uint32 i = 0; i < batch->count; i++) {
        const ReadEntry &entry = batch->entries[i];
        if (entry.starts_key)
            batch->last_row = 0;
        if (entry.row == 0)
            continue;
        if (batch->last_row != 0 && batch->last_row != entry.row) {
            MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(state->estate));
            ItemPointerData tid;
            VerifiedLeaf *leaf = FindPlace(state, entry.row, &tid);
            ReportEntry(state, "not unique", leaf, entry, &tid);
            MemoryContextSwitchTo(caller);
            ResetPerTupleExprContext(state->estate);
        }
        batch->last_row = entry.row;
    }
}

// In the order of addresses, so that pages of partitions are read once.
void LookAtBatch(Verification *state, Batch *batch) {
    FAULT_POINT("verify.look_at_batch");
    auto *order = static_cast<uint32 *>(
        MemoryContextAlloc(batch->memory, sizeof(uint32) * Max(batch->count, 1)));
    for (uint32 i = 0; i < batch->count; i++)
        order[i] = i;
    std::sort(order, order + batch->count, [&](uint32 a, uint32 b) {
        return ItemPointerCompare(&batch->entries[a].address, &batch->entries[b].address) < 0;
    });
    for (uint32 i = 0; i < batch->count; i++) {
        LookAtEntry(state, &batch->entries[order[i]]);
        CountRead(state);
    }
    if (state->is_unique)
        ReportRepeated(state, batch);
    batch->count = 0;
    batch->size = 0;
    MemoryContextReset(batch->memory);
}

// Whether an entry has another key than the one before, as unique indexes see it.
bool HasOtherKey(Verification *state, IndexTuple before, IndexTuple now) {
    bool other = !before;
    for (int i = 0; !other && i < state->key_count; i++) {
        bool before_null, now_null;
        Datum a = index_getattr(before, i + 1, RelationGetDescr(state->tree), &before_null);
        Datum b = index_getattr(now, i + 1, RelationGetDescr(state->tree), &now_null);
        other =
            (now_null && state->nulls_distinct) || !AreEqual(state, i, a, before_null, b, now_null);
    }
    return other;
}

constexpr uint32 kFirstCapacity = 1024;

Batch MakeBatch() {
    Batch batch = {};
    batch.memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table entries", ALLOCSET_DEFAULT_SIZES);
    batch.limit = static_cast<Size>(maintenance_work_mem) * 1024 / 4;
    batch.most =
        static_cast<uint32>(Min(batch.limit, MaxAllocSize) / (sizeof(ReadEntry) + sizeof(uint32)));
    batch.capacity = Min(kFirstCapacity, batch.most);
    batch.entries = palloc_array(ReadEntry, batch.capacity);
    return batch;
}

// The place of the next, which is counted by the caller.
ReadEntry *NextEntry(Batch *batch) {
    if (batch->count == batch->capacity) {
        batch->capacity = Min(batch->capacity * 2, batch->most);
        batch->entries =
            static_cast<ReadEntry *>(repalloc(batch->entries, sizeof(ReadEntry) * batch->capacity));
    }
    return &batch->entries[batch->count];
}

void LookAtBatchIfFull(Verification *state, Batch *batch, IndexTuple *before) {
    if (batch->count < batch->most && batch->size < batch->limit)
        return;
    const ReadEntry &last = batch->entries[batch->count - 1];
    if (*before)
        pfree(*before);
    *before = last.tuple ? CopyIndexTuple(last.tuple) : nullptr;
    LookAtBatch(state, batch);
}

void ScanEntries(Verification *state, Batch *batch) {
    IndexTuple before = nullptr; // the last of the batch before
    IndexScanDesc scan = compat::BeginIndexScan(state->storage, state->tree, state->snapshot, 0);
    scan->xs_want_itup = state->has_keys;
    index_rescan(scan, nullptr, 0, nullptr, 0);
    while (ItemPointer address = index_getnext_tid(scan, ForwardScanDirection)) {
        CHECK_FOR_INTERRUPTS();
        ReadEntry *entry = NextEntry(batch);
        *entry = {.address = *address};
        if (state->has_keys) {
            MemoryContext caller = MemoryContextSwitchTo(batch->memory);
            entry->tuple = CopyIndexTuple(scan->xs_itup);
            if (state->is_unique)
                entry->starts_key =
                    HasOtherKey(state, batch->count > 0 ? entry[-1].tuple : before, entry->tuple);
            MemoryContextSwitchTo(caller);
            batch->size += MAXALIGN(IndexTupleSize(entry->tuple)) + 16;
        }
        batch->count++;
        LookAtBatchIfFull(state, batch, &before);
    }
    index_endscan(scan);
}

struct Collected {
    Relation tree;
    Tuplesortstate *addresses;
};

// Is called with a page of the tree locked.
bool CollectEntry(ItemPointer entry, void *argument) {
    auto *collected = static_cast<Collected *>(argument);
    ItemPointerData address = FromEntry(collected->tree, entry);
    tuplesort_putdatum(
        collected->addresses,
        Int64GetDatum(static_cast<int64>(ItemPointerGetBlockNumberNoCheck(&address)) << 16 |
                      ItemPointerGetOffsetNumberNoCheck(&address)),
        false);
    return false;
}

// Bulk deletion that deletes nothing: every access method reads all of its entries for it. A row
// has several in GIN, and in hash while a bucket is split.
void CollectEntries(Verification *state, Batch *batch) {
    Collected collected = {.tree = state->tree,
                           .addresses = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid,
                                                              false, maintenance_work_mem / 4,
                                                              nullptr, TUPLESORT_NONE)};
    IndexVacuumInfo info = {};
    info.index = state->tree;
    compat::SetHeap(&info, state->storage);
    info.estimated_count = true;
    info.message_level = DEBUG2;
    LockRelation(state->storage, ShareUpdateExclusiveLock);
    index_bulk_delete(&info, nullptr, CollectEntry, &collected);
    UnlockRelation(state->storage, ShareUpdateExclusiveLock);
    tuplesort_performsort(collected.addresses);
    IndexTuple none = nullptr;
    int64 last = -1, code;
    while (compat::GetSortedInt64(collected.addresses, &code)) {
        if (code == last)
            continue;
        last = code;
        ReadEntry *entry = NextEntry(batch);
        batch->count++;
        *entry = {};
        ItemPointerSet(&entry->address, static_cast<BlockNumber>(code >> 16),
                       static_cast<OffsetNumber>(code));
        LookAtBatchIfFull(state, batch, &none);
    }
    tuplesort_end(collected.addresses);
}

void LookAtEntries(Verification *state) {
    Batch batch = MakeBatch();
    if (state->is_scanned)
        ScanEntries(state, &batch);
    else
        CollectEntries(state, &batch);
    LookAtBatch(state, &batch);
    pfree(batch.entries);
    MemoryContextDelete(batch.memory);
}

// --- Rows ----------------------------------------------------------------------

void LookAtRows(Verification *state, VerifiedLeaf *leaf) {
    FAULT_POINT("verify.look_at_rows");
    TableScanDesc scan =
        table_beginscan_strat(leaf->heap, state->snapshot, 0, nullptr, true, false);
    while (table_scan_getnextslot(scan, ForwardScanDirection, leaf->slot)) {
        MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(state->estate));
        Acting saved = ActFor(leaf);
        bool is_indexed = IsIndexed(state, leaf);
        StopActing(saved);
        if (is_indexed && !MayBeLeftOut(state, leaf)) {
            const ItemPointerData *row = &leaf->slot->tts_tid;
            std::optional<uint32> extent =
                leaf->rows ? FindExtentOfBlock(leaf->child, ItemPointerGetBlockNumber(row))
                           : std::nullopt;
            // One that was given since has entries that were not read.
            if (extent && *extent < state->extent_count)
                tuplesort_putdatum(state->sort, Int64GetDatum(CodeOf(row, *extent, false)), false);
            else
                ReportRow(state, "missing", leaf);
        }
        MemoryContextSwitchTo(caller);
        ResetPerTupleExprContext(state->estate);
        CountRead(state);
    }
    table_endscan(scan);
    ExecClearTuple(leaf->slot);
}

// How many rows and entries are there for a row's place.
void LookAtPlace(Verification *state, int64 code, int rows, int entries) {
    if (rows == entries || (rows == 0 && entries == 0))
        return;
    ItemPointerData tid;
    VerifiedLeaf *leaf = FindPlace(state, code, &tid);
    MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(state->estate));
    if (table_tuple_fetch_row_version(leaf->heap, &tid, state->snapshot, leaf->slot))
        ReportRow(state, entries < rows ? "missing" : "duplicate", leaf);
    ExecClearTuple(leaf->slot);
    MemoryContextSwitchTo(caller);
    ResetPerTupleExprContext(state->estate);
}

void CompareSorted(Verification *state) {
    tuplesort_performsort(state->sort);
    int64 last = -1, code;
    int rows = 0, entries = 0;
    while (compat::GetSortedInt64(state->sort, &code)) {
        CHECK_FOR_INTERRUPTS();
        if (last >> 1 != code >> 1) {
            LookAtPlace(state, last, rows, entries);
            rows = entries = 0;
        }
        (code & 1 ? entries : rows)++;
        last = code;
    }
    LookAtPlace(state, last, rows, entries);
}

// --- What there is to compare --------------------------------------------------

VerifiedLeaf *OpenLeafOf(Verification *state, Oid child_oid) {
    Oid heap_oid = IndexGetRelation(child_oid, true);
    Relation heap = OidIsValid(heap_oid) ? try_relation_open(heap_oid, AccessShareLock) : nullptr;
    if (!heap)
        return nullptr;
    if (RecoveryInProgress() && !RelationIsPermanent(heap)) {
        relation_close(heap, NoLock);
        return nullptr;
    }
    VerifiedLeaf *leaf = palloc0_object(VerifiedLeaf);
    leaf->heap = heap;
    leaf->child = index_open(child_oid, AccessShareLock); // after the partition, as DDL does
    leaf->slot = table_slot_create(heap, nullptr);
    Acting saved = ActFor(leaf); // constants are folded
    leaf->info = BuildIndexInfo(leaf->child);
    if (leaf->info->ii_Predicate != NIL)
        leaf->predicate = ExecPrepareQual(leaf->info->ii_Predicate, state->estate);
    StopActing(saved);
    if (BelongsTo(leaf->child, RelationGetRelid(state->storage)))
        leaf->rows = OpenAddressedChild(state->storage, heap, leaf->child);
    return leaf;
}

void CloseLeaf(VerifiedLeaf *leaf) {
    ExecDropSingleTupleTableSlot(leaf->slot);
    if (leaf->rows)
        CloseAddressed(leaf->rows);
    else
        index_close(leaf->child, NoLock);
    relation_close(leaf->heap, NoLock);
}

// Extents that are given later are of rows that the snapshot does not see, but where entries are
// missing: see LookAtRows().
void FindLeavesOfExtents(Verification *state) {
    Extent *extents = CopyExtents(state->storage, &state->extent_count);
    state->leaf_of = palloc0_array(VerifiedLeaf *, state->extent_count + 1);
    NumberMap by_child = {};
    ListCell *cell;
    foreach (cell, state->leaves) {
        auto *leaf = static_cast<VerifiedLeaf *>(lfirst(cell));
        if (leaf->rows)
            by_child.Add(RelationGetRelid(leaf->child), leaf, CurrentMemoryContext);
    }
    for (uint32 i = 0; i < state->extent_count; i++) {
        auto *leaf = OidIsValid(extents[i].child)
                         ? static_cast<VerifiedLeaf *>(by_child.Find(extents[i].child))
                         : nullptr;
        if (leaf && GetChildState(leaf->child)->token == extents[i].token)
            state->leaf_of[i] = leaf;
    }
    by_child.Destroy();
    pfree(extents);
}

// Bulk deletion writes, and waits for pages that a scan of this session's has pinned.
void CheckCanCollect(const Verification &state) {
    if (RecoveryInProgress())
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot verify global index \"%s\" during recovery",
                               get_rel_name(state.index.root)),
                        errdetail("Its access method, \"%s\", does not read an index as a whole.",
                                  get_am_name(state.tree->rd_rel->relam)),
                        errhint("Verify it on the primary.")));
    if (state.tree->rd_refcnt > 1)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                        errmsg("cannot verify \"%s\" because it is being used by active queries in "
                               "this session",
                               get_rel_name(state.index.root))));
}

void DescribeTree(Verification *state) {
    Relation root = index_open(state->index.root, AccessShareLock);
    state->has_keys = state->tree->rd_rel->relam == BTREE_AM_OID;
    state->is_unique = state->has_keys && state->tree->rd_index->indisunique;
    state->nulls_distinct = !state->tree->rd_index->indnullsnotdistinct;
    state->key_count = root->rd_index->indnkeyatts;
    state->names = palloc_array(const char *, state->key_count);
    for (int i = 0; i < state->key_count; i++)
        state->names[i] = pstrdup(NameStr(TupleDescAttr(RelationGetDescr(root), i)->attname));
    if (state->has_keys) {
        state->compare = palloc0_array(FmgrInfo, state->key_count);
        for (int i = 0; i < state->key_count; i++)
            fmgr_info_copy(&state->compare[i], index_getprocinfo(state->tree, i + 1, BTORDER_PROC),
                           CurrentMemoryContext);
    }
    state->to_json = MakeKeyDescription(*state);
    index_close(root, NoLock);
    Oid method = state->tree->rd_rel->relam;
    state->is_scanned = state->has_keys || method == GIST_AM_OID || method == SPGIST_AM_OID;
    // Hash does, methods of extensions may.
    state->omits_nulls = !state->is_scanned && method != GIN_AM_OID;
    if (!state->is_scanned)
        CheckCanCollect(*state);
}

} // namespace

bool IsOwnGlobalIndex(Oid relid) {
    Oid method = GlobalMethod();
    if (!OidIsValid(method) || AccessMethodOf(relid) != method)
        return false;
    const char *name = get_rel_name(relid);
    if (get_rel_relispartition(relid)) {
        Relation child = relation_open(relid, AccessShareLock);
        Oid root = RootIndexOf(child);
        relation_close(child, AccessShareLock);
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                 errmsg("\"%s\" is a part of a global index", name),
                 OidIsValid(root) ? errhint("It is part of \"%s\".", get_rel_name(root)) : 0));
    }
    if (!compat::OwnsRelation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, name);
    return true;
}

namespace {

[[noreturn]] void RaiseNoTree(Oid relid) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("global index \"%s\" is not built", get_rel_name(relid)),
             get_index_isvalid(relid)
                 ? errhint("REINDEX INDEX builds it, if it is that of a partitioned table.")
                 : errhint("Partitions lack their parts of it: ALTER INDEX ... ATTACH PARTITION "
                           "adds them. Or drop it, and create another.")));
}

} // namespace

std::optional<GlobalIndex> FindOwnGlobalIndex(Oid relid) {
    if (!IsOwnGlobalIndex(relid))
        return std::nullopt;
    std::optional<GlobalIndex> index = FindGlobalIndex(relid);
    if (!index)
        RaiseNoTree(relid);
    return index;
}

void CheckCanBuild(Oid relid) {
    if (!FindGlobalIndex(relid) &&
        (get_rel_relkind(relid) != RELKIND_PARTITIONED_INDEX || !get_index_isvalid(relid)))
        RaiseNoTree(relid);
}

int64 EstimateRows(const GlobalIndex &index) {
    double rows = 0;
    ListCell *cell;
    foreach (cell, ListIndexedPartitions(index.root)) {
        Relation leaf = TryOpenRelation(lfirst_oid(cell), AccessShareLock);
        if (!leaf)
            continue;
        rows += Max(leaf->rd_rel->reltuples, 0);
        table_close(leaf, NoLock);
    }
    return static_cast<int64>(rows);
}

void VerifyGlobalIndex(const GlobalIndex &index, const VerifyCalls &calls) {
    Verification state = {.index = index, .calls = &calls};
    Assert(IsInOwner());
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "index_table verification",
                                                 ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    state.storage = OpenRelation(index.storage, AccessShareLock);
    state.tree = index_open(index.tree, AccessShareLock);
    state.estate = CreateExecutorState();
    DescribeTree(&state);
    ListCell *cell;
    foreach (cell, ListChildren(index.root, NoLock))
        if (VerifiedLeaf *leaf = OpenLeafOf(&state, lfirst_oid(cell)))
            state.leaves = lappend(state.leaves, leaf);
    PushActiveSnapshot(GetLatestSnapshot());
    state.snapshot = GetActiveSnapshot();
    FindLeavesOfExtents(&state);
    state.sort = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
                                       maintenance_work_mem / 2, nullptr, TUPLESORT_NONE);
    LookAtEntries(&state);
    foreach (cell, state.leaves)
        LookAtRows(&state, static_cast<VerifiedLeaf *>(lfirst(cell)));
    CompareSorted(&state);
    tuplesort_end(state.sort);
    PopActiveSnapshot();
    foreach (cell, state.leaves)
        CloseLeaf(static_cast<VerifiedLeaf *>(lfirst(cell)));
    FreeExecutorState(state.estate);
    index_close(state.tree, NoLock);
    relation_close(state.storage, NoLock);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

} // namespace index_table
