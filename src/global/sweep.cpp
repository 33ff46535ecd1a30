#include "global/sweep.h"

#include "core/public.h"
#include "global/address.h"
#include "global/child_index.h"
#include "global/claims.h"
#include "global/generations.h"
#include "global/global_index.h"
#include "global/page.h"
#include "global/storage.h"

namespace index_table {
namespace {

// What is known of an extent's entries.
enum class Fate : uint8 {
    Unknown,   // free, locked by somebody, or needed by older snapshots: nothing is removed
    Abandoned, // nobody can reach them
    Known      // they are as old as their generations
};

// A child, as it was when the sweep began.
struct SweptChild {
    Oid oid;
    uint32 token;
    TransactionId file_changed_by;
    uint32 passes;
    GenerationMap generations;
};

struct SweepState {
    Relation tree;
    uint32 count; // of extents
    const Extent *extents;
    Fate *fates;
    const SweptChild **children; // by extent, where its fate is Known
    List *swept;                 // SweptChild
    Size memory;                 // of generations
    TransactionId oldest;        // that a snapshot takes to be in progress
    TransactionId horizon;       // snapshots to which it is in progress need what is abandoned
};

Size SizeOf(const GenerationMap &map) {
    Size size = sizeof(char *) * map.page_count;
    for (BlockNumber i = 0; i < map.page_count; i++)
        size += map.pages[i] ? BLCKSZ : 0;
    return size;
}

// What the child says of itself, if it can be asked now. What the lock shows has been committed.
Fate Look(Relation storage, const Extent &extent, SweptChild *swept) {
    if (!ConditionalLockRelationOid(extent.child, AccessShareLock))
        return Fate::Unknown;
    Fate fate = Fate::Abandoned;
    if (Relation child = compat::TryOpenIndex(extent.child)) {
        if (child->rd_rel->relam == GlobalMethod() && BelongsTo(child, storage)) {
            const ChildState *state = RefreshChildState(child);
            // A pass that goes on will make entries stale that the sweep does not know of.
            *swept = {.oid = extent.child,
                      .token = state->token,
                      .file_changed_by = FileChangedBy(extent.child),
                      .passes = state->passes - Min(state->passes, state->is_passing)};
            swept->generations = CopyGenerations(child);
            fate = Fate::Known;
        }
        if (!IsCertain(child))
            fate = Fate::Unknown;
        index_close(child, NoLock);
    }
    UnlockRelationOid(extent.child, AccessShareLock);
    return fate;
}

// Of an extent of a file that the child has no more.
Fate AbandonFormer(SweepState *state, const SweptChild &child) {
    TransactionId xid = child.file_changed_by;
    if (!TransactionIdPrecedes(xid, state->oldest))
        return Fate::Unknown;
    if (TransactionIdIsNormal(xid) &&
        (!TransactionIdIsValid(state->horizon) || TransactionIdFollows(xid, state->horizon)))
        state->horizon = xid;
    return Fate::Abandoned;
}

// Looks at children whose extents are not known yet, as many as memory allows, in the current
// memory context. False where all are.
bool LookAtSome(Relation storage, SweepState *state, bool *done) {
    Size limit = static_cast<Size>(maintenance_work_mem) * 1024;
    bool any = false;
    // Of a child, which may have several extents.
    struct Entry {
        Oid oid;
        Fate fate;
        SweptChild *child;
    };
    HTAB *seen = MakeHashTable<Oid, Entry>("index_table swept children", 256, CurrentMemoryContext);
    for (uint32 i = 0; i < state->count; i++) {
        const Extent &extent = state->extents[i];
        if (done[i] || !OidIsValid(extent.child))
            continue;
        bool found;
        auto *entry = static_cast<Entry *>(hash_search(seen, &extent.child, HASH_ENTER, &found));
        if (!found) {
            if (state->memory > limit) {
                hash_search(seen, &extent.child, HASH_REMOVE, nullptr);
                continue;
            }
            SweptChild child = {};
            entry->fate = Look(storage, extent, &child);
            entry->child = palloc_object(SweptChild);
            *entry->child = child;
            if (entry->fate == Fate::Known) {
                state->swept = lappend(state->swept, entry->child);
                state->memory += SizeOf(child.generations);
            }
        }
        any = done[i] = true;
        state->fates[i] = entry->fate;
        if (entry->fate == Fate::Known && entry->child->token != extent.token)
            state->fates[i] = AbandonFormer(state, *entry->child);
        state->children[i] = entry->child;
    }
    hash_destroy(seen);
    return any;
}

bool IsStale(ItemPointer entry, void *argument) {
    const SweepState *state = static_cast<SweepState *>(argument);
    ItemPointerData address = FromEntry(state->tree, entry);
    if (IsClaim(&address))
        return StateOf(&address) == ClaimState::Over;
    uint32 number = ExtentOf(&address);
    if (number >= state->count || state->fates[number] == Fate::Unknown)
        return false;
    if (state->fates[number] == Fate::Abandoned)
        return true;
    ItemPointerData tid = TidOf(&address, state->extents[number].ordinal);
    return IsStaleGeneration(GenerationOf(&address),
                             GenerationIn(state->children[number]->generations, &tid));
}

// As VACUUM and ANALYZE have counted them.
double CountRows(Relation storage) {
    double rows = 0;
    ListCell *cell;
    foreach (cell, ListChildren(RootOfStorage(storage), NoLock)) {
        Oid heap = IndexGetRelation(lfirst_oid(cell), true);
        HeapTuple tuple =
            OidIsValid(heap) ? SearchSysCache1(RELOID, ObjectIdGetDatum(heap)) : nullptr;
        if (!HeapTupleIsValid(tuple))
            continue;
        rows += Max(reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples, 0);
        ReleaseSysCache(tuple);
    }
    return rows;
}

IndexBulkDeleteResult *RemoveStale(Relation storage, SweepState *state,
                                   BufferAccessStrategy strategy) {
    Relation tree = state->tree;
    IndexVacuumInfo info = {};
    info.index = tree;
    compat::SetHeap(&info, storage);
    info.estimated_count = true;
    info.message_level = DEBUG2;
    // GIN has no count of its own.
    info.num_heap_tuples = CountRows(storage);
    info.strategy = strategy;
    // Bulk deletion tells standbys nothing: mostly rows have gone before their entries do.
    if (TransactionIdIsValid(state->horizon) && RelationNeedsWAL(tree))
        compat::ConflictOnStandbys(tree, storage, state->horizon);
    IndexBulkDeleteResult *result = index_bulk_delete(&info, nullptr, IsStale, state);
    return index_vacuum_cleanup(&info, result);
}

// Entries older than the sweep are gone. Passes meanwhile have made others stale.
void ForgetPasses(Relation storage, const SweptChild *swept) {
    if (!ConditionalLockRelationOid(swept->oid, AccessShareLock))
        return;
    if (Relation child = compat::TryOpenIndex(swept->oid)) {
        // A file that it has got since has none of them, and maybe no page.
        if (swept->passes > 0 && BelongsTo(child, storage) &&
            RefreshChildState(child)->token == swept->token && HasPages(child)) {
            Buffer buffer = PinChildPage(child);
            PageChange change = BeginChange(child, buffer);
            ChildState *state = StateOn(change.page);
            state->passes -= Min(state->passes, swept->passes);
            FinishChange(&change);
            ReleaseBuffer(buffer);
        }
        index_close(child, NoLock);
    }
    UnlockRelationOid(swept->oid, AccessShareLock);
}

} // namespace

int64 Sweep(Relation storage, BufferAccessStrategy strategy) {
    FAULT_POINT("sweep.sweep");
    TimestampTz began = GetCurrentTimestamp();
    Assert(CheckRelationLockedByMe(storage, ShareUpdateExclusiveLock, true));
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table sweep", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Relation tree = OpenTree(storage, RowExclusiveLock);
    SweepState state = {.tree = tree, .oldest = GetOldestNonRemovableTransactionId(storage)};
    Extent *extents = CopyExtents(storage, &state.count);
    state.extents = extents;
    state.fates = palloc0_array(Fate, state.count + 1);
    state.children = palloc0_array(const SweptChild *, state.count + 1);
    bool *done = palloc0_array(bool, state.count + 1);
    bool *abandoned = palloc0_array(bool, state.count + 1);
    // What is known of children lives until the tree has been read with it.
    MemoryContext batch =
        AllocSetContextCreate(memory, "index_table sweep batch", ALLOCSET_DEFAULT_SIZES);
    IndexBulkDeleteResult result = {};
    double removed = 0;
    MemoryContextSwitchTo(batch);
    LookAtSome(storage, &state, done);
    do {
        result = *RemoveStale(storage, &state, strategy);
        removed += result.tuples_removed;
        for (uint32 i = 0; i < state.count; i++) {
            abandoned[i] = state.fates[i] == Fate::Abandoned;
            state.fates[i] = Fate::Unknown;
        }
        FreeExtents(storage, extents, abandoned, state.count);
        ListCell *cell;
        foreach (cell, state.swept)
            ForgetPasses(storage, static_cast<SweptChild *>(lfirst(cell)));
        state.swept = NIL;
        state.memory = 0;
        state.horizon = InvalidTransactionId;
        MemoryContextReset(batch);
    } while (LookAtSome(storage, &state, done));
    compat::ReportVacuum(storage, tree, result.num_pages, result.num_index_tuples);
    index_close(tree, NoLock);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
    RecordWork(RootOfStorage(storage), Work::Vacuum, began, static_cast<int64>(removed));
    return static_cast<int64>(removed);
}

namespace {

// A scan of this session's keeps pages of a hash or GIN index pinned, which a sweep would wait for.
void RefuseOwnScans(Relation storage) {
    Relation tree = OpenTree(storage, RowExclusiveLock);
    bool is_scanned = tree->rd_refcnt > 1 && tree->rd_rel->relam != BTREE_AM_OID;
    index_close(tree, NoLock);
    if (is_scanned)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                        errmsg("cannot sweep \"%s\" because it is being used by active queries in "
                               "this session",
                               get_rel_name(RootOfStorage(storage)))));
}

} // namespace

int64 SweepGlobalIndex(const GlobalIndex &index) {
    if (!compat::OwnsRelation(index.root))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(index.root));
    Relation storage = try_relation_open(index.storage, ShareUpdateExclusiveLock);
    if (!storage) // dropped meanwhile
        return 0;
    RefuseOwnScans(storage);
    int64 removed = Sweep(storage, nullptr);
    relation_close(storage, NoLock);
    return removed;
}

List *ListGlobalRoots() {
    Oid method = GlobalMethod();
    List *roots = NIL;
    if (!OidIsValid(method))
        return NIL;
    SystemScan scan(RelationRelationId);
    while (auto form = scan.Next<Form_pg_class>())
        if (form->relam == method && form->relkind == RELKIND_PARTITIONED_INDEX &&
            !form->relispartition)
            roots = lappend_oid(roots, form->oid);
    scan.End();
    return roots;
}

int64 SweepOwnGlobalIndexes() {
    int64 removed = 0;
    ListCell *cell;
    foreach (cell, ListGlobalRoots()) {
        std::optional<GlobalIndex> index = FindGlobalIndex(lfirst_oid(cell));
        if (index && compat::OwnsRelation(index->root))
            removed += SweepGlobalIndex(*index);
    }
    return removed;
}

void ReportStale(Relation storage, int64 count) {
    if (count > 0)
        pgstat_update_heap_dead_tuples(storage, static_cast<int>(-Min(count, int64{INT_MAX})));
}

} // namespace index_table
