// The access method global: what PostgreSQL asks the children of a global index. They forward
// entries to the tree, and remember what VACUUM takes away.
#include "core/public.h"
#include "global/address.h"
#include "global/child_index.h"
#include "global/claims.h"
#include "global/enter_rows.h"
#include "global/generations.h"
#include "global/global_index.h"
#include "global/index_statement.h"
#include "global/operator_classes.h"
#include "global/options.h"
#include "global/storage.h"
#include "global/sweep.h"
#include "global/tree_info.h"
#include "global/unbuilt.h"

namespace index_table {
namespace {

// --- Entries -----------------------------------------------------------------

// Whether a child that is part of no global index is now. One whose root is not valid yet, as a
// dump restores it, is built with the last one.
bool Rejoin(Relation child) {
    Oid root = RootIndexOf(child);
    if (!OidIsValid(root) || !get_index_isvalid(root))
        return false;
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    const ChildState *state = GetChildState(child);
    if (OidIsValid(state->storage)) // somebody else has been faster
        return true;
    if (!index || !state->joins_later)
        RaiseNotBuilt(child);
    Relation storage = relation_open(index->storage, RowExclusiveLock);
    RejoinGlobalIndex(child, storage);
    relation_close(storage, NoLock);
    return true;
}

Relation OpenStorage(Relation child, LOCKMODE mode) {
    FAULT_POINT("index_method.open_storage");
    Relation storage = try_relation_open(GetChildState(child)->storage, mode);
    if (!storage || !IsStorage(storage)) // pg_upgrade has been here
        RaiseNotBuilt(child);
    return storage;
}

void InsertUnique(Relation child, Relation storage, Relation tree, Datum *values, bool *nulls,
                  ItemPointer address, bool unchanged, IndexInfo *info) {
    MemoryContext caller = CurrentMemoryContext;
    PG_TRY();
    { index_insert(tree, values, nulls, address, storage, UNIQUE_CHECK_YES, unchanged, info); }
    PG_CATCH();
    {
        if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
            PG_RE_THROW();
        MemoryContextSwitchTo(caller);
        FlushErrorState();
        RaiseDuplicate(child, values, nulls);
    }
    PG_END_TRY();
}

// The tree, and where a child's rows are in it.
struct Target {
    Relation child;
    Relation storage;
    Relation tree;
    Oid heap;
};

// Whether a row's key is compared with those of others: not that of a row that nobody finds any
// more but by an old snapshot.
enum class Keys { Compared, Ignored };

void InsertEntry(const Target &target, Datum *values, bool *nulls, ItemPointer tid, bool unchanged,
                 IndexInfo *info, Keys keys = Keys::Compared) {
    uint32 extent =
        ExtentOfBlock(target.child, target.storage, target.heap, ItemPointerGetBlockNumber(tid));
    ItemPointerData address =
        AddressOf(tid, extent, GenerationOfTid(target.child, target.storage, tid));
    ItemPointerData entry = ToEntry(target.tree, &address);
    if (target.tree->rd_index->indisunique && keys == Keys::Compared)
        InsertUnique(target.child, target.storage, target.tree, values, nulls, &entry, unchanged,
                     info);
    else
        index_insert(target.tree, values, nulls, &entry, target.storage, UNIQUE_CHECK_NO, unchanged,
                     info);
}

// B-trees keep nothing there: the child's own will do.
IndexInfo *InfoFor(const Target &target, IndexInfo *of_child) {
    return target.tree->rd_rel->relam == BTREE_AM_OID ? of_child
                                                      : GetTreeInfo(target.tree, of_child);
}

bool Insert(Relation child, Datum *values, bool *nulls, ItemPointer tid, Relation heap,
            IndexUniqueCheck, bool unchanged, IndexInfo *info) {
    if (!child->rd_rel->relispartition)
        return false;
    if (!OidIsValid(GetChildState(child)->storage) && !Rejoin(child))
        return false;
    Target target = {.child = child, .heap = RelationGetRelid(heap)};
    target.storage = OpenStorage(child, RowExclusiveLock);
    target.tree = OpenTree(target.storage, RowExclusiveLock);
    InsertEntry(target, values, nulls, tid, unchanged, InfoFor(target, info));
    index_close(target.tree, NoLock);
    relation_close(target.storage, NoLock);
    return false;
}

// The statement inserts no more. What its tree was told by the child's IndexInfo ends, too.
void EndInserts(Relation child, IndexInfo *info) {
    if (!info->ii_AmCache)
        return;
    Relation storage = OpenStorage(child, RowExclusiveLock);
    Relation tree = OpenTree(storage, RowExclusiveLock);
    if (IndexInfo *of_tree = FindTreeInfo(tree, info))
        compat::EndInserts(tree, of_tree);
    index_close(tree, NoLock);
    relation_close(storage, NoLock);
}

// --- Builds ------------------------------------------------------------------

// Whose rows are left to whoever makes the child, see LeaveRowsOut().
constinit Oid rows_left_out = InvalidOid;

constexpr int64 kReportEvery = 1024;

// The rows of a partition that joins a global index.
struct Load {
    const Target *target;
    IndexInfo *info;      // of the child
    Tuplesortstate *sort; // in the order of a B-tree
    Tuplesortstate *dead; // the same of rows that are dead to all but old snapshots; null: none yet
    MemoryContext row;    // for others, which have none
    double rows;
    int64 entered; // as progress reports it
};

// Which rows, if not all that anybody may see; null: all.
struct SeenRows {
    TableScanDesc scan;
    int64 before; // what progress has reported of others
};

void ReportSubphase(int64 subphase) {
    pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, subphase);
}

Tuplesortstate *BeginSort(const Target &target, int memory) {
    return tuplesort_begin_index_btree(target.storage, target.tree, false, false, memory, nullptr,
                                       TUPLESORT_NONE);
}

void SortRow(Relation, ItemPointer tid, Datum *values, bool *nulls, bool is_alive, void *state) {
    Load *load = static_cast<Load *>(state);
    if (!is_alive && !load->dead)
        load->dead = BeginSort(*load->target, work_mem);
    tuplesort_putindextuplevalues(is_alive ? load->sort : load->dead, load->target->tree, tid,
                                  values, nulls);
    load->rows++;
}

void ReportEntered(Load *load) {
    if (++load->entered % kReportEvery == 0)
        pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, load->entered);
}

void EnterSorted(Load *load, Tuplesortstate *sort, Keys keys) {
    FAULT_POINT("index_method.enter_sorted");
    const Target &target = *load->target;
    ReportSubphase(keys == Keys::Compared ? PROGRESS_BTREE_PHASE_PERFORMSORT_1
                                          : PROGRESS_BTREE_PHASE_PERFORMSORT_2);
    tuplesort_performsort(sort);
    ReportSubphase(PROGRESS_BTREE_PHASE_LEAF_LOAD);
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    while (IndexTuple tuple = tuplesort_getindextuple(sort, true)) {
        CHECK_FOR_INTERRUPTS();
        index_deform_tuple(tuple, RelationGetDescr(target.tree), values, nulls);
        ItemPointerData tid = tuple->t_tid;
        InsertEntry(target, values, nulls, &tid, false, InfoFor(target, load->info), keys);
        ReportEntered(load);
    }
    tuplesort_end(sort);
}

void EnterRow(Relation, ItemPointer tid, Datum *values, bool *nulls, bool, void *state) {
    FAULT_POINT("index_method.enter_row");
    Load *load = static_cast<Load *>(state);
    MemoryContext caller = MemoryContextSwitchTo(load->row);
    InsertEntry(*load->target, values, nulls, tid, false, InfoFor(*load->target, load->info));
    ReportEntered(load);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(load->row);
    load->rows++;
}

// A partition may have versions of rows, older than its index, that have another key than the
// entries which lead to them: the tree is not for snapshots that may see those any more, as
// PostgreSQL has it for an index that is made of such rows.
void ForbidOlderSnapshots(const Target &target) {
    Oid tree = RelationGetRelid(target.tree);
    LockPart(tree, LockedPart::Build, ExclusiveLock); // partitions may join in several places
    Relation indexes = table_open(IndexRelationId, RowExclusiveLock);
    HeapTuple tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(tree));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for index %u", tree);
    reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple))->indcheckxmin = true;
    CatalogTupleUpdate(indexes, &tuple->t_self, tuple);
    CacheInvalidateRelcache(target.storage); // plans read it
    heap_freetuple(tuple);
    table_close(indexes, RowExclusiveLock);
}

double EnterRows(const Target &target, Relation heap, IndexInfo *info, const SeenRows *seen) {
    Load load = {.target = &target, .info = info, .entered = seen ? seen->before : 0};
    TableScanDesc scan = seen ? seen->scan : nullptr;
    ReportSubphase(PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
    if (target.tree->rd_rel->relam == BTREE_AM_OID) {
        load.sort = BeginSort(target, maintenance_work_mem);
        table_index_build_scan(heap, target.child, info, true, true, SortRow, &load, scan);
        EnterSorted(&load, load.sort, Keys::Compared);
        if (load.dead)
            EnterSorted(&load, load.dead, Keys::Ignored);
    } else {
        load.row = AllocSetContextCreate(CurrentMemoryContext, "index_table entered row",
                                         ALLOCSET_DEFAULT_SIZES);
        table_index_build_scan(heap, target.child, info, true, true, EnterRow, &load, scan);
        MemoryContextDelete(load.row);
    }
    if (info->ii_BrokenHotChain)
        ForbidOlderSnapshots(target);
    return load.rows;
}

// TRUNCATE of a partition is told to queries that open partitions as they go on: they wait for it
// before they take their snapshot, see WaitForTruncations().
void AnnounceTruncation(Relation heap, Oid root) {
    bool is_truncated = compat::HasNewFile(heap) && RelationGetNumberOfBlocks(heap) == 0 &&
                        heap->rd_createSubid == InvalidSubTransactionId;
    if (is_truncated)
        LockPart(IndexGetRelation(root, false), LockedPart::Truncation, RowExclusiveLock);
}

// What rows had entries before is stale now, where the partition had this child already.
void ReportFormerRows(const Target &target) {
    if (target.child->rd_createSubid == InvalidSubTransactionId)
        ReportStale(target.storage, compat::CountLiveRows(target.heap));
}

// Whether this is REINDEX, of whatever: not what gives the partition a new file, nor a new index.
bool IsReindexed(Relation heap, Relation child) {
    return !compat::HasNewFile(heap) && child->rd_createSubid == InvalidSubTransactionId;
}

// A partition that is created or attached, TRUNCATE, REINDEX, VACUUM FULL, CLUSTER. While the
// global index itself is made, children have nothing to join yet, or are joined by their rows
// later. Where rows are not looked at, what is known of their number stays.
IndexBuildResult *Build(Relation heap, Relation child, IndexInfo *info) {
    FAULT_POINT("index_method.build");
    if (info->ii_Concurrent)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot build a global index concurrently")));
    IndexBuildResult *result = static_cast<IndexBuildResult *>(palloc0(sizeof(IndexBuildResult)));
    result->heap_tuples = heap->rd_rel->reltuples;
    InitializeChild(child, MAIN_FORKNUM);
    Oid root = child->rd_rel->relispartition ? RootIndexOf(child) : InvalidOid;
    if (!OidIsValid(root))
        RefuseTimescale(RelationGetRelid(heap));
    std::optional<GlobalIndex> index = OidIsValid(root) ? FindGlobalIndex(root) : std::nullopt;
    if (!index && OidIsValid(root) && LacksTree(root)) {
        if (IsReindexed(heap, child))
            BuildBeforeCommit(root);
        else
            WarnOfNotBuilt(root);
    }
    if (!index) { // the rows have not been counted: what statistics say of them stays
        result->heap_tuples = result->index_tuples = -1;
        return result;
    }
    AnnounceTruncation(heap, root);
    Target target = {.child = child, .heap = RelationGetRelid(heap)};
    target.storage = relation_open(index->storage, RowExclusiveLock);
    target.tree = OpenTree(target.storage, RowExclusiveLock);
    JoinGlobalIndex(child, target.storage);
    ReportFormerRows(target);
    if (target.heap != rows_left_out)
        result->heap_tuples = result->index_tuples = EnterRows(target, heap, info, nullptr);
    index_close(target.tree, NoLock);
    relation_close(target.storage, NoLock);
    return result;
}

// An unlogged partition is empty after a crash, and what entries it had are of another file.
void BuildEmpty(Relation child) {
    InitializeChild(child, INIT_FORKNUM);
}

// --- VACUUM ------------------------------------------------------------------

// The child's part of what a tree holds.
struct OwnEntries {
    Relation child;
    Relation storage;
    Relation tree;
    IndexBulkDeleteCallback is_dead;
    void *state;
    uint32 extent; // the last looked at
    Extent known;
};

bool IsOwnDead(ItemPointer entry, void *argument) {
    OwnEntries *own = static_cast<OwnEntries *>(argument);
    ItemPointerData address = FromEntry(own->tree, entry);
    uint32 extent = ExtentOf(&address);
    if (IsClaim(&address))
        return false;
    if (extent != own->extent) {
        own->known = ReadExtent(own->storage, extent);
        own->extent = extent;
    }
    if (own->known.child != RelationGetRelid(own->child) ||
        own->known.token != GetChildState(own->child)->token)
        return false;
    ItemPointerData tid = TidOf(&address, own->known.ordinal);
    return own->is_dead(&tid, own->state);
}

// One at a time goes through a tree. Who waits holds a lock on a partition that no sweep waits for.
void LockOutSweeps(Relation storage) {
    LockRelationOid(RelationGetRelid(storage), ShareUpdateExclusiveLock);
}

void LetSweepsIn(Relation storage) {
    UnlockRelationOid(RelationGetRelid(storage), ShareUpdateExclusiveLock);
}

void DeleteEagerly(IndexVacuumInfo *info, Relation storage, IndexBulkDeleteResult *stats,
                   IndexBulkDeleteCallback is_dead, void *state) {
    LockOutSweeps(storage);
    Relation tree = OpenTree(storage, RowExclusiveLock);
    OwnEntries own = {.child = info->index,
                      .storage = storage,
                      .tree = tree,
                      .is_dead = is_dead,
                      .state = state,
                      .extent = kMaxExtents};
    IndexVacuumInfo of_tree = *info;
    of_tree.index = tree;
    compat::SetHeap(&of_tree, storage);
    of_tree.report_progress = false;
    of_tree.estimated_count = true;
    IndexBulkDeleteResult *result = index_bulk_delete(&of_tree, nullptr, IsOwnDead, &own);
    stats->tuples_removed += result->tuples_removed;
    index_close(tree, NoLock);
    LetSweepsIn(storage);
}

// Whether line pointers can get another generation, for which a sweep may be due.
bool HasNextGeneration(Relation child, Relation storage) {
    if (RefreshChildState(child)->passes < kMaxPasses)
        return true;
    LockOutSweeps(storage);
    if (RefreshChildState(child)->passes >= kMaxPasses)
        Sweep(storage, nullptr);
    LetSweepsIn(storage);
    return RefreshChildState(child)->passes < kMaxPasses; // the sweep may have met a lock
}

// Line pointers that VACUUM is about to take from rows get their next generation.
void DeleteLazily(Relation child, Relation storage, IndexBulkDeleteResult *stats, void *state) {
    FAULT_POINT("index_method.delete_lazily");
    GenerationWriter writer = BeginNewGenerations(child, storage);
    int64 count = compat::ForEachDeadRow(
        state, [&](BlockNumber block, const OffsetNumber *offsets, int found) {
            AdvanceGenerations(&writer, {.block = block, .offsets = offsets, .count = found});
        });
    EndNewGenerations(&writer);
    stats->tuples_removed += static_cast<double>(count);
    ReportStale(storage, count);
}

IndexBulkDeleteResult *BulkDelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
                                  IndexBulkDeleteCallback is_dead, void *state) {
    if (!stats)
        stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));
    Relation child = info->index;
    Oid oid = RefreshChildState(child)->storage;
    Relation storage = OidIsValid(oid) && BelongsTo(child, oid)
                           ? try_relation_open(oid, RowExclusiveLock)
                           : nullptr;
    if (!storage)
        return stats;
    if (IsStorage(storage)) {
        if (GetGlobalOptions(child).vacuum == GlobalVacuum::Eager ||
            !HasNextGeneration(child, storage))
            DeleteEagerly(info, storage, stats, is_dead, state);
        else
            DeleteLazily(child, storage, stats, state);
    }
    relation_close(storage, NoLock);
    return stats;
}

// Autovacuum of a partition that nothing is deleted from comes by: GIN moves what it has put off.
void TidyTree(const IndexVacuumInfo *info) {
    Oid oid = RefreshChildState(info->index)->storage;
    Relation storage = OidIsValid(oid) && BelongsTo(info->index, oid)
                           ? try_relation_open(oid, RowExclusiveLock)
                           : nullptr;
    if (!storage)
        return;
    if (IsStorage(storage) && RelationGetIndexList(storage) != NIL) {
        Relation tree = OpenTree(storage, RowExclusiveLock);
        IndexVacuumInfo of_tree = *info;
        of_tree.index = tree;
        compat::SetHeap(&of_tree, storage);
        of_tree.analyze_only = true; // reads no more than it must
        if (tree->rd_rel->relam != BTREE_AM_OID)
            index_vacuum_cleanup(&of_tree, nullptr);
        index_close(tree, NoLock);
    }
    relation_close(storage, NoLock);
}

IndexBulkDeleteResult *VacuumCleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats) {
    if (compat::IsAutovacuum() && GetGlobalOptions(info->index).method != BTREE_AM_OID)
        TidyTree(info);
    if (info->analyze_only)
        return stats;
    // Whoever looks for a duplicate key waits for the transaction that truncates the partition.
    if (!XLogStandbyInfoActive())
        GetTopTransactionId();
    if (!stats)
        stats = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));
    stats->num_pages = RelationGetNumberOfBlocks(info->index);
    stats->num_index_tuples = info->num_heap_tuples;
    stats->estimated_count = info->estimated_count || RelationGetIndexPredicate(info->index) != NIL;
    return stats;
}

// --- What the planner asks ---------------------------------------------------

// Children cannot be scanned.
void EstimateCost(PlannerInfo *, IndexPath *, double, Cost *startup, Cost *total,
                  Selectivity *selectivity, double *correlation, double *pages) {
    *startup = *total = get_float8_infinity();
    *selectivity = 1;
    *correlation = 0;
    *pages = 1;
}

bool Validate(Oid) {
    return true;
}

[[noreturn]] void RaiseNoScan(Relation child) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot scan \"%s\", which is a part of a global index",
                           RelationGetRelationName(child))));
}

IndexScanDesc BeginScan(Relation child, int, int) {
    RaiseNoScan(child);
}

void Rescan(IndexScanDesc, ScanKey, int, ScanKey, int) {}

void EndScan(IndexScanDesc) {}

} // namespace

void LeaveRowsOut(Oid partition) {
    rows_left_out = partition;
}

int64 EnterSeenRows(Relation heap, Relation child, Snapshot snapshot, int64 rows_before) {
    Assert(CheckRelationLockedByMe(heap, AccessShareLock, true) &&
           CheckRelationLockedByMe(child, RowExclusiveLock, true));
    OwnerContext owner = EnterOwner(heap->rd_rel->relowner);
    IndexInfo *info = BuildIndexInfo(child);
    info->ii_Concurrent = true; // what such a scan is expected to be of
    Target target = {.child = child, .heap = RelationGetRelid(heap)};
    target.storage = OpenStorage(child, RowExclusiveLock);
    target.tree = OpenTree(target.storage, RowExclusiveLock);
    SeenRows seen = {.scan = table_beginscan_strat(heap, snapshot, 0, nullptr, true, true),
                     .before = rows_before};
    double rows = EnterRows(target, heap, info, &seen);
    index_close(target.tree, NoLock);
    relation_close(target.storage, NoLock);
    LeaveOwner(owner);
    return static_cast<int64>(rows);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_global_handler) {
    static constinit IndexAmRoutine routine = {};
    IndexAmRoutine *method = &routine;
    method->type = T_IndexAmRoutine;
    method->amstrategies = BTMaxStrategyNumber;
    method->amsupport = kMirrorFunctions;
    method->amoptsprocnum = kParametersInMirror;
    method->amcanorder = true;
    method->amcanmulticol = true;
    method->amoptionalkey = true;
    method->amsearchnulls = true;
    method->ampredlocks = true; // the tree's
    method->amcaninclude = true;
    method->ambuild = Build;
    method->ambuildempty = BuildEmpty;
    method->aminsert = Insert;
    compat::SetEndOfInserts(method, EndInserts);
    method->ambulkdelete = BulkDelete;
    method->amvacuumcleanup = VacuumCleanup;
    method->amcostestimate = EstimateCost;
    method->amoptions = GlobalOptionsOf;
    method->amvalidate = Validate;
    method->ambeginscan = BeginScan;
    method->amrescan = Rescan;
    method->amendscan = EndScan;
    PG_RETURN_POINTER(compat::HandOut(routine));
}
