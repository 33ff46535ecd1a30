#include "global/child_index.h"

#include "core/public.h"
#include "global/address.h"
#include "global/page.h"
#include "global/storage.h"

namespace index_table {
namespace {

constexpr uint32 kMagic = 0x1dece471;
constexpr uint32 kVersion = 1;

// What a session knows of a child, with its relation: gone whenever its row of pg_class changes. A
// look-up reads the first cache line of it and, as far as that goes, nothing else of the child's.
struct KnownChild {
    TransactionId changed_by; // invalid: not asked yet
    Oid heap;
    Buffer page; // that was read last: the child's first, or of the extent map while it has none
    bool is_partition;
    bool has_pages; // if not, `state` has what the file's number says, and the extent once known
    ChildState state;
};

// Null also where the relation is something else's by now, with a cache of its own.
KnownChild *KnownOf(Relation child) {
    KnownChild *known = static_cast<KnownChild *>(child->rd_amcache);
    return known && known->state.magic == kMagic ? known : nullptr;
}

void RaiseCorrupted(Relation child) {
    ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
                    errmsg("index \"%s\" is not a global index", RelationGetRelationName(child)),
                    errhint("REINDEX it.")));
}

std::optional<uint32> FindExtent(const ChildState *state, uint32 ordinal) {
    for (const ExtentRun &run : std::span(state->runs, state->run_count))
        if (ordinal >= run.ordinal && ordinal - run.ordinal < run.count)
            return run.extent + (ordinal - run.ordinal);
    return std::nullopt;
}

// Appends extents up to that with an ordinal.
void AddExtents(Relation child, Relation storage, Oid heap, uint32 ordinal) {
    MakePages(child, storage);
    Buffer buffer = PinChildPage(child);
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    ChildState state = *StateOn(BufferGetPage(buffer)); // others may have been faster
    while (state.extent_count <= ordinal) {
        Extent first = {.heap = heap,
                        .child = RelationGetRelid(child),
                        .token = state.token,
                        .ordinal = state.extent_count,
                        .has_pages = true};
        // Runs that grow with the partition stay few.
        uint32 count = Max(ordinal + 1 - state.extent_count, state.extent_count / 8);
        uint32 extent = GiveExtents(storage, first, &count);
        ExtentRun *last = state.run_count > 0 ? &state.runs[state.run_count - 1] : nullptr;
        if (last && last->extent + last->count == extent)
            last->count += count;
        else if (state.run_count < kMaxRuns)
            state.runs[state.run_count++] = {
                .ordinal = state.extent_count, .extent = extent, .count = count};
        else
            ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                            errmsg("the address space of global index \"%s\" is too scattered",
                                   RelationGetRelationName(child)),
                            errhint("REINDEX it.")));
        state.extent_count += count;
    }
    GenericXLogState *change = GenericXLogStart(child);
    *StateOn(GenericXLogRegisterBuffer(change, buffer, 0)) = state;
    GenericXLogFinish(change);
    UnlockReleaseBuffer(buffer);
}

// A page that stays as it is where it has been written already. Several may come at once to have a
// child rejoin, or to make its pages: the first does.
template <typename IsDue>
void WriteState(Relation child, const ChildState &state, IsDue is_due) {
    Buffer buffer = ExtendTo(child, 0);
    PageChange change = BeginChange(child, buffer);
    if (PageIsNew(change.page) || is_due(*StateOn(change.page))) {
        if (PageIsNew(change.page))
            ClearPage(change.page, sizeof(ChildState));
        *StateOn(change.page) = state;
        FinishChange(&change);
    } else {
        AbandonChange(&change);
    }
    ReleaseBuffer(buffer);
}

ChildState EmptyState(Oid storage, uint32 token) {
    return {.magic = kMagic, .version = kVersion, .storage = storage, .token = token};
}

ChildState StateOfExtent(Oid storage, uint32 token, uint32 extent) {
    ChildState state = EmptyState(storage, token);
    state.extent_count = state.run_count = 1;
    state.runs[0] = {.ordinal = 0, .extent = extent, .count = 1};
    return state;
}

// What the first page says, if there is one.
bool ReadState(Relation child, ChildState *state, Buffer *page) {
    if (RelationIsPermanent(child) && RelationGetNumberOfBlocks(child) == 0)
        return false;
    *page = ReadBuffer(child, 0);
    LockBuffer(*page, BUFFER_LOCK_SHARE);
    bool is_new = PageIsNew(BufferGetPage(*page));
    if (!is_new)
        *state = *StateOn(BufferGetPage(*page));
    UnlockReleaseBuffer(*page);
    if (is_new ? !RelationIsPermanent(child) : state->magic != kMagic)
        RaiseCorrupted(child);
    return !is_new;
}

// Of a child that nothing is known of: as if its file were empty.
KnownChild *Assume(Relation child) {
    KnownChild *known =
        static_cast<KnownChild *>(MemoryContextAllocZero(child->rd_indexcxt, sizeof(KnownChild)));
    known->heap = child->rd_index->indrelid;
    known->is_partition = child->rd_rel->relispartition;
    known->state = EmptyState(InvalidOid, compat::FileNumber(child));
    child->rd_amcache = known;
    return known;
}

// Reads what the file says.
KnownChild *Learn(Relation child) {
    ChildState state;
    Buffer page = InvalidBuffer;
    bool has_pages = ReadState(child, &state, &page);
    KnownChild *known = static_cast<KnownChild *>(child->rd_amcache);
    if (!known)
        known = Assume(child);
    if (has_pages) {
        known->state = state;
        known->page = page;
        known->has_pages = true;
    }
    return known;
}

KnownChild *Know(Relation child) {
    KnownChild *known = KnownOf(child);
    return known && !known->state.joins_later ? known : Learn(child);
}

// Looks for the first extent of a child without pages where its storage has it.
void Locate(Relation child, Relation storage) {
    uint32 token = compat::FileNumber(child);
    std::optional<uint32> extent = FindFirstExtent(storage, RelationGetRelid(child), token);
    KnownChild *known = Know(child);
    if (extent && !known->has_pages)
        known->state = StateOfExtent(RelationGetRelid(storage), token, *extent);
}

// The same, of the storage that its root has.
void LocateByName(Relation child) {
    Oid root = child->rd_rel->relispartition ? RootIndexOf(child) : InvalidOid;
    Oid oid = OidIsValid(root) ? get_relname_relid(StorageName(root).data, PG_TOAST_NAMESPACE)
                               : InvalidOid;
    Relation storage = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : nullptr;
    if (!storage)
        return;
    if (IsStorage(storage))
        Locate(child, storage);
    relation_close(storage, AccessShareLock);
}

const ChildState *Located(Relation child) {
    KnownChild *known = Know(child);
    if (!known->has_pages && !OidIsValid(known->state.storage)) {
        LocateByName(child); // which may have the session forget all
        known = Know(child);
    }
    return &known->state;
}

} // namespace

void InitializeChild(Relation child, ForkNumber fork) {
    if (RelationIsPermanent(child))
        return;
    // ambuildempty: nobody else looks at the fork of a file that has just been made.
    Buffer buffer = ReadBufferExtended(child, fork, P_NEW, RBM_NORMAL, nullptr);
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    GenericXLogState *change = GenericXLogStart(child);
    Page page = GenericXLogRegisterBuffer(change, buffer, GENERIC_XLOG_FULL_IMAGE);
    auto *state = reinterpret_cast<ChildState *>(ClearPage(page, sizeof(ChildState)));
    state->magic = kMagic;
    state->version = kVersion;
    state->joins_later = fork == INIT_FORKNUM;
    GenericXLogFinish(change);
    if (fork == INIT_FORKNUM) { // written ahead, though the relation is not
        EnterCriticalSection();
        log_newpage_buffer(buffer, true);
        LeaveCriticalSection();
    }
    UnlockReleaseBuffer(buffer);
}

namespace {

// TRUNCATE empties a file that is this subtransaction's own, and the number stays: entries of the
// rows before have it for their token. So another is written down, as for a child that rejoins, and
// nobody believes the extent any more that the file is empty.
void JoinInPlace(Relation child, Relation storage, uint32 former) {
    SetHasPages(storage, former);
    CacheInvalidateRelcache(storage); // sessions recall it
    WriteState(child, EmptyState(RelationGetRelid(storage), GetNewObjectId()),
               [](const ChildState &) { return true; });
    RefreshChildState(child);
}

} // namespace

// Extents are given to files without rows as long as there are plenty.
void JoinGlobalIndex(Relation child, Relation storage) {
    Assert(!IsCertain(child));
    uint32 token = compat::FileNumber(child);
    if (std::optional<uint32> former = FindFirstExtent(storage, RelationGetRelid(child), token)) {
        JoinInPlace(child, storage, *former);
    } else if (RelationIsPermanent(child) && !IsHalfGiven(storage)) {
        uint32 count = 1;
        GiveExtents(storage,
                    {.heap = child->rd_index->indrelid,
                     .child = RelationGetRelid(child),
                     .token = token,
                     .ordinal = 0,
                     .has_pages = false},
                    &count);
        Locate(child, storage);
    } else {
        WriteState(child, EmptyState(RelationGetRelid(storage), token),
                   [](const ChildState &) { return true; });
        RefreshChildState(child);
    }
}

// Its file has the number that it had: another token is what no child has had.
void RejoinGlobalIndex(Relation child, Relation storage) {
    WriteState(child, EmptyState(RelationGetRelid(storage), GetNewObjectId()),
               [](const ChildState &state) { return state.joins_later != 0; });
    RefreshChildState(child);
}

const ChildState *GetChildState(Relation child) {
    return Located(child);
}

const ChildState *RefreshChildState(Relation child) {
    Learn(child);
    return Located(child);
}

bool BelongsTo(Relation child, Oid storage) {
    KnownChild *known = Know(child);
    return known->is_partition && Located(child)->storage == storage;
}

bool BelongsTo(Relation child, Relation storage) {
    KnownChild *known = Know(child);
    if (!known->is_partition)
        return false;
    if (!known->has_pages && !OidIsValid(known->state.storage))
        Locate(child, storage);
    return known->state.storage == RelationGetRelid(storage);
}

bool TakesEntries(Relation child, Relation storage) {
    return BelongsTo(child, storage) || Know(child)->state.joins_later;
}

bool IsChildOfPartition(Relation child, Oid heap, Relation storage, uint32 number,
                        const Extent &extent) {
    const KnownChild *known = KnownOf(child);
    bool is_index_of = known ? known->heap == heap
                             : child->rd_index && child->rd_index->indrelid == heap &&
                                   child->rd_rel->relam == GlobalMethod();
    return is_index_of && (HasExtent(child, storage, number, extent) || BelongsTo(child, storage));
}

bool HasExtent(Relation child, Relation storage, uint32 number, const Extent &extent) {
    if (extent.child != RelationGetRelid(child))
        return false;
    // What the extent says need not be asked of the file.
    bool is_empty = !extent.has_pages && extent.token == compat::FileNumber(child);
    KnownChild *known = !child->rd_amcache && is_empty ? Assume(child) : Know(child);
    if (extent.token != known->state.token || !known->is_partition)
        return false;
    if (!known->has_pages && !OidIsValid(known->state.storage) && extent.ordinal == 0)
        known->state = StateOfExtent(RelationGetRelid(storage), extent.token, number);
    return BelongsTo(child, storage);
}

StatePage PinState(Relation child, Relation storage) {
    KnownChild *known = Know(child);
    if (known->has_pages)
        return {.buffer = PinChildPage(child), .is_of_child = true};
    if (!BelongsTo(child, storage))
        RaiseCorrupted(child);
    uint32 extent = known->state.runs[0].extent;
    known->page = PinExtent(storage, extent, known->page);
    return {.buffer = known->page, .is_of_child = false, .extent = extent};
}

bool HasPages(Relation child) {
    return Know(child)->has_pages;
}

bool SaysHasPages(const StatePage &state) {
    return state.is_of_child || SaysHasPages(state.buffer, state.extent);
}

void NoticePages(Relation child) {
    if (!Learn(child)->has_pages)
        RaiseCorrupted(child);
}

void MakePages(Relation child, Relation storage) {
    if (!RelationIsPermanent(child) || RefreshChildState(child)->token != compat::FileNumber(child))
        return;
    const ChildState state = *GetChildState(child);
    if (state.run_count == 0) // it has got its page when it joined
        return;
    WriteState(child, state, [](const ChildState &) { return false; });
    // Before anything is written there that others have to know: they look at the extent.
    if (!ReadExtent(storage, state.runs[0].extent).has_pages)
        SetHasPages(storage, state.runs[0].extent);
    NoticePages(child);
}

void WriteCopiedFile(Relation child, Oid tablespace, uint32 number) {
    const ChildState *state = RefreshChildState(child);
    if (!RelationIsPermanent(child) || HasPages(child) || !OidIsValid(state->storage))
        return;
    alignas(4096) char page[BLCKSZ];
    ClearPage(page, sizeof(ChildState));
    *StateOn(page) = *state;
    compat::WriteFirstPage(tablespace, number, page);
}

bool IsCertain(Relation child) {
    return child->rd_createSubid == InvalidSubTransactionId && !compat::HasNewFile(child);
}

namespace {

// Who has changed a child's row of pg_class last, which has its file.
struct FileChange {
    TransactionId xid;
    CommandId cid; // of this session's transaction
};

FileChange LastFileChange(Oid child) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(child));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for relation %u", child);
    FileChange change = {.xid = HeapTupleHeaderGetXmin(tuple->t_data)};
    if (TransactionIdIsCurrentTransactionId(change.xid))
        change.cid = HeapTupleHeaderGetCmin(tuple->t_data);
    ReleaseSysCache(tuple);
    return change;
}

} // namespace

TransactionId FileChangedBy(Oid child) {
    return LastFileChange(child).xid;
}

TransactionId FileChangedBy(Relation child) {
    KnownChild *known = KnownOf(child);
    if (known && TransactionIdIsValid(known->changed_by))
        return known->changed_by;
    TransactionId xid = FileChangedBy(RelationGetRelid(child));
    if (KnownChild *still = KnownOf(child))
        still->changed_by = xid;
    return xid;
}

bool HasNewFileSince(Relation child, Snapshot snapshot) {
    TransactionId xid = FileChangedBy(child);
    if (TransactionIdIsCurrentTransactionId(xid))
        return LastFileChange(RelationGetRelid(child)).cid >= snapshot->curcid;
    return XidInMVCCSnapshot(xid, snapshot);
}

bool IsGoneForGood(Relation child, Relation storage) {
    if (!IsCertain(child) || !child->rd_rel->relispartition)
        return false;
    TransactionId xid = FileChangedBy(child);
    return !TransactionIdIsNormal(xid) || GlobalVisCheckRemovableXid(storage, xid);
}

uint32 ExtentOfBlock(Relation child, Relation storage, Oid heap, BlockNumber block) {
    if (std::optional<uint32> found = FindExtentOfBlock(child, block))
        return *found;
    uint32 ordinal = block >> kExtentBits;
    AddExtents(child, storage, heap, ordinal);
    return *FindExtent(RefreshChildState(child), ordinal);
}

std::optional<uint32> FindExtentOfBlock(Relation child, BlockNumber block) {
    uint32 ordinal = block >> kExtentBits;
    if (std::optional<uint32> found = FindExtent(GetChildState(child), ordinal))
        return found;
    return FindExtent(RefreshChildState(child), ordinal);
}

// Mostly it is in the buffer that it was in. Finding it by its name would count a read for
// statistics, of each child that a session comes to: that costs more than the reading.
Buffer PinChildPage(Relation child) {
    KnownChild *known = KnownOf(child);
    if (!known || RelationUsesLocalBuffers(child))
        return ReadBuffer(child, 0);
    if (!compat::ReadRecent(child, 0, known->page))
        known->page = ReadBuffer(child, 0);
    return known->page;
}

Oid RootIndexOf(Relation child) {
    List *ancestors = get_partition_ancestors(RelationGetRelid(child));
    Oid root = ancestors == NIL ? InvalidOid : llast_oid(ancestors);
    list_free(ancestors);
    return root;
}

void RaiseNotBuilt(Relation child) {
    Oid root = RootIndexOf(child);
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("global index \"%s\" is not built",
                           OidIsValid(root) ? get_rel_name(root) : RelationGetRelationName(child)),
                    errhint("REINDEX INDEX builds it.")));
}

namespace {

bool HasLostItsFile(Relation child, Oid storage) {
    const ChildState *state = GetChildState(child);
    return child->rd_rel->relispartition && !OidIsValid(state->storage) && !state->joins_later &&
           get_relname_relid(StorageName(RootIndexOf(child)).data, PG_TOAST_NAMESPACE) == storage;
}

} // namespace

Oid FindChild(Relation partition, Oid storage) {
    Oid method = GlobalMethod();
    Oid found = InvalidOid;
    List *indexes = RelationGetIndexList(partition);
    ListCell *cell;
    foreach (cell, indexes) {
        if (AccessMethodOf(lfirst_oid(cell)) != method)
            continue;
        Relation child = index_open(lfirst_oid(cell), AccessShareLock);
        if (BelongsTo(child, storage))
            found = RelationGetRelid(child);
        else if (HasLostItsFile(child, storage))
            RaiseNotBuilt(child);
        index_close(child, NoLock);
    }
    list_free(indexes);
    return found;
}

} // namespace index_table
