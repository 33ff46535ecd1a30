#include "global/extent_map.h"

#include "core/public.h"
#include "global/address.h"
#include "global/page.h"

namespace index_table {
namespace {

constexpr uint32 kMagic = 0x1dece47a;
constexpr uint32 kVersion = 1;

// The first page.
struct Head {
    uint32 magic;
    uint32 version;
    uint32 used;  // extents that were ever given
    uint32 free;  // of those
    uint32 limit; // of extents
};

// The others are arrays.
constexpr uint32 kPerPage = (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) / sizeof(Extent);
constexpr uint32 kWorthSearching = 64; // free extents

BlockNumber PageOf(uint32 extent) {
    return 1 + extent / kPerPage;
}

Extent *ExtentsOn(Page page) {
    return reinterpret_cast<Extent *>(PageGetContents(page));
}

Head *HeadOn(Page page) {
    Head *head = reinterpret_cast<Head *>(PageGetContents(page));
    if (PageIsNew(page) || head->magic != kMagic || head->version != kVersion)
        ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
                        errmsg("the storage of a global index has no extent map"),
                        errhint("REINDEX the index.")));
    return head;
}

// The first of `count` free extents in a row; nothing where there are not as many.
std::optional<uint32> FindFree(Relation storage, uint32 used, uint32 count) {
    uint32 found = 0;
    for (uint32 first = 0; first < used; first += kPerPage) {
        Buffer buffer = ReadBuffer(storage, PageOf(first));
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        const Extent *extents = ExtentsOn(BufferGetPage(buffer));
        uint32 end = Min(kPerPage, used - first);
        uint32 i = 0;
        for (; i < end && found < count; i++)
            found = OidIsValid(extents[i].child) ? 0 : found + 1;
        UnlockReleaseBuffer(buffer);
        if (found == count)
            return first + i - count;
    }
    return std::nullopt;
}

// Where `count` extents can be given; fewer if need be. REQUIRES: the head's page is locked.
uint32 FindPlace(Relation storage, const Head &head, uint32 *count) {
    if (head.free >= kWorthSearching && *count == 1)
        if (std::optional<uint32> found = FindFree(storage, head.used, 1))
            return *found;
    if (head.used < head.limit) {
        *count = Min(*count, head.limit - head.used);
        return head.used;
    }
    for (; *count > 0; *count /= 2)
        if (std::optional<uint32> found = FindFree(storage, head.used, *count))
            return *found;
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("the partitions have more blocks than a global index can address"),
                    errhint("VACUUM frees what partitions that were dropped or truncated had.")));
}

} // namespace

void InitializeExtentMap(Relation storage, uint32 limit) {
    Assert(limit <= kMaxExtents);
    Buffer buffer = ExtendTo(storage, 0);
    PageChange change = BeginChange(storage, buffer);
    *reinterpret_cast<Head *>(ClearPage(change.page, sizeof(Head))) =
        Head{.magic = kMagic, .version = kVersion, .used = 0, .free = 0, .limit = limit};
    FinishChange(&change);
    ReleaseBuffer(buffer);
}

namespace {

Head ReadHead(Relation storage) {
    Buffer buffer = ReadBuffer(storage, 0);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    Head head = *HeadOn(BufferGetPage(buffer));
    UnlockReleaseBuffer(buffer);
    return head;
}

} // namespace

bool IsHalfGiven(Relation storage) {
    Head head = ReadHead(storage);
    return head.used - head.free >= head.limit / 2;
}

Extent ReadExtent(Relation storage, uint32 number) {
    Buffer buffer = ReadBuffer(storage, PageOf(number));
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    Extent extent = PageIsNew(page) ? Extent{} : ExtentsOn(page)[number % kPerPage];
    UnlockReleaseBuffer(buffer);
    return extent;
}

namespace {

// What a session recalls of the map, with the storage's relation: one chunk of memory, gone
// whenever something about the storage changes.
struct Recalled {
    uint32 count;
    Extent extents[FLEXIBLE_ARRAY_MEMBER];
};
constexpr uint32 kFewRecalled = 64;
constexpr uint32 kMostRecalled = 65536; // 1 MB, for 4 TB of rows

void Remember(Relation storage, uint32 number, const Extent &extent) {
    if (number >= kMostRecalled)
        return;
    Recalled *known = static_cast<Recalled *>(storage->rd_amcache);
    if (!known || number >= known->count) {
        uint32 count = Max(kFewRecalled, pg_nextpower2_32(number + 1));
        Recalled *larger = static_cast<Recalled *>(MemoryContextAllocZero(
            CacheMemoryContext, offsetof(Recalled, extents) + sizeof(Extent) * count));
        larger->count = count;
        if (known) {
            std::copy_n(known->extents, known->count, larger->extents);
            pfree(known);
        }
        storage->rd_amcache = known = larger;
    }
    known->extents[number] = extent;
}

} // namespace

Extent RecallExtent(Relation storage, uint32 number) {
    const Recalled *known = static_cast<Recalled *>(storage->rd_amcache);
    if (known && number < known->count && OidIsValid(known->extents[number].child))
        return known->extents[number];
    return ReadAgain(storage, number);
}

Extent ReadAgain(Relation storage, uint32 number) {
    Extent extent = ReadExtent(storage, number);
    Remember(storage, number, extent);
    return extent;
}

std::optional<uint32> FindFirstExtent(Relation storage, Oid child, uint32 token) {
    // Children are mostly looked for in the order in which they were given their extents.
    static constinit uint32 likely_page = 0;
    uint32 used = ReadHead(storage).used;
    uint32 pages = (used + kPerPage - 1) / kPerPage;
    for (uint32 i = 0; i < pages; i++) {
        uint32 page = (likely_page + i) % pages;
        uint32 first = page * kPerPage;
        Buffer buffer = ReadBuffer(storage, PageOf(first));
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        const Extent *extents = ExtentsOn(BufferGetPage(buffer));
        const Extent *end = extents + Min(kPerPage, used - first);
        const Extent *found = std::find_if(extents, end, [&](const Extent &extent) {
            return extent.child == child && extent.token == token && extent.ordinal == 0;
        });
        uint32 number = first + static_cast<uint32>(found - extents);
        bool is_found = found != end;
        UnlockReleaseBuffer(buffer);
        if (is_found) {
            likely_page = page;
            return number;
        }
    }
    return std::nullopt;
}

Buffer PinExtent(Relation storage, uint32 number, Buffer recent) {
    BlockNumber block = PageOf(number);
    return compat::ReadRecent(storage, block, recent) ? recent : ReadBuffer(storage, block);
}

bool SaysHasPages(Buffer buffer, uint32 number) {
    const volatile Extent *extents = ExtentsOn(BufferGetPage(buffer));
    return extents[number % kPerPage].has_pages;
}

void SetHasPages(Relation storage, uint32 number) {
    Buffer buffer = ReadBuffer(storage, PageOf(number));
    PageChange change = BeginChange(storage, buffer);
    ExtentsOn(change.page)[number % kPerPage].has_pages = true;
    FinishChange(&change);
    ReleaseBuffer(buffer);
}

uint32 GiveExtents(Relation storage, const Extent &first, uint32 *count) {
    Buffer head_buffer = ReadBuffer(storage, 0);
    LockBuffer(head_buffer, BUFFER_LOCK_EXCLUSIVE);
    Head head = *HeadOn(BufferGetPage(head_buffer));
    uint32 place = FindPlace(storage, head, count);
    // One page at a time: an extent that a crash leaves without its child knowing is abandoned.
    *count = Min(*count, kPerPage - place % kPerPage);
    Buffer buffer = ExtendTo(storage, PageOf(place));
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    GenericXLogState *state = GenericXLogStart(storage);
    Page page = GenericXLogRegisterBuffer(
        state, buffer, PageIsNew(BufferGetPage(buffer)) ? GENERIC_XLOG_FULL_IMAGE : 0);
    if (PageIsNew(page))
        ClearPage(page, sizeof(Extent) * kPerPage);
    for (uint32 i = 0; i < *count; i++) {
        Extent given = first;
        given.ordinal += i;
        ExtentsOn(page)[place % kPerPage + i] = given;
    }
    Head *changed = HeadOn(GenericXLogRegisterBuffer(state, head_buffer, 0));
    changed->used = Max(head.used, place + *count);
    changed->free -= place < head.used ? *count : 0;
    GenericXLogFinish(state);
    UnlockReleaseBuffer(buffer);
    UnlockReleaseBuffer(head_buffer);
    return place;
}

Extent *CopyExtents(Relation storage, uint32 *count) {
    *count = ReadHead(storage).used;
    Extent *copy = palloc_array(Extent, Max(1, *count));
    for (uint32 first = 0; first < *count; first += kPerPage) {
        Buffer buffer = ReadBuffer(storage, PageOf(first));
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        std::copy_n(ExtentsOn(BufferGetPage(buffer)), Min(kPerPage, *count - first), copy + first);
        UnlockReleaseBuffer(buffer);
    }
    return copy;
}

void FreeExtents(Relation storage, const Extent *extents, const bool *abandoned, uint32 count) {
    for (uint32 first = 0; first < count; first += kPerPage) {
        uint32 end = Min(kPerPage, count - first);
        if (std::none_of(abandoned + first, abandoned + first + end, [](bool is) { return is; }))
            continue;
        Buffer head_buffer = ReadBuffer(storage, 0);
        LockBuffer(head_buffer, BUFFER_LOCK_EXCLUSIVE);
        Buffer buffer = ReadBuffer(storage, PageOf(first));
        LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
        GenericXLogState *state = GenericXLogStart(storage);
        Extent *stored = ExtentsOn(GenericXLogRegisterBuffer(state, buffer, 0));
        Head *head = HeadOn(GenericXLogRegisterBuffer(state, head_buffer, 0));
        for (uint32 i = 0; i < end; i++)
            if (abandoned[first + i] && OidIsValid(stored[i].child) &&
                stored[i].child == extents[first + i].child &&
                stored[i].token == extents[first + i].token) {
                stored[i] = Extent{};
                head->free++;
            }
        GenericXLogFinish(state);
        UnlockReleaseBuffer(buffer);
        UnlockReleaseBuffer(head_buffer);
    }
}

} // namespace index_table
