#include "deferred/page_hashes.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

constexpr BlockNumber kMaxBlocks = 2048; // of a part that are remembered

// What is known of a page, in one piece of memory.
struct KnownPage {
    XLogRecPtr lsn;
    Buffer buffer; // that it was in
    int count;
    int unknown_count;     // packs that do not tell their keys
    uint32 *hashes;        // in order
    OffsetNumber *offsets; // of the packs that have them
    OffsetNumber *unknown;
};

struct KnownPart {
    CachedRelation cached;
    uint64 stamp;
    BlockNumber capacity;
    KnownPage **pages;
};

constinit RelationCache parts = {};

KnownPart *GetPart(Oid relid, uint64 stamp, BlockNumber blocks) {
    KnownPart *part = reinterpret_cast<KnownPart *>(FindCached(&parts, relid));
    if (part && part->stamp != stamp) {
        ForgetCached(&parts, &part->cached);
        part = nullptr;
    }
    if (!part) {
        MemoryContext context = AllocSetContextCreate(
            CurrentMemoryContext, "index_table pages of a queue", ALLOCSET_DEFAULT_SIZES);
        part = static_cast<KnownPart *>(MemoryContextAllocZero(context, sizeof(KnownPart)));
        part->cached = {.relid = relid, .valid = true, .context = context};
        part->stamp = stamp;
        PutCached(&parts, &part->cached);
    }
    if (part->capacity < blocks) {
        BlockNumber grown = Min(kMaxBlocks, Max(blocks, part->capacity * 2));
        KnownPage **pages = static_cast<KnownPage **>(
            MemoryContextAllocZero(part->cached.context, sizeof(KnownPage *) * grown));
        std::copy(part->pages, part->pages + part->capacity, pages);
        part->pages = pages;
        part->capacity = grown;
    }
    return part;
}

// What is found on a page.
struct Found {
    int count;
    int capacity;
    struct Item {
        uint32 hash;
        OffsetNumber offset;
    } * items;
    int unknown_count;
    OffsetNumber unknown[MaxHeapTuplesPerPage];
};

void AddHashes(Found *found, const KeyHashes &hashes, OffsetNumber offset) {
    if (found->count + static_cast<int>(hashes.count) > found->capacity) {
        int grown = Max(1024, (found->count + static_cast<int>(hashes.count)) * 2);
        Found::Item *items = palloc_array(Found::Item, grown);
        std::copy(found->items, found->items + found->count, items);
        found->items = items;
        found->capacity = grown;
    }
    for (uint32 hash : std::span(hashes.hashes, hashes.count))
        found->items[found->count++] = {.hash = hash, .offset = offset};
}

// The caller holds the buffer's lock.
void ReadPage(Relation part, KeyHasher *hasher, Buffer buffer, Found *found) {
    TupleDesc descriptor = RelationGetDescr(part);
    ForEachTuple(part, buffer, [=](HeapTuple tuple, OffsetNumber offset) {
        bool isnull;
        Datum keys = heap_getattr(tuple, kPackKeys, descriptor, &isnull);
        varlena *stored = reinterpret_cast<varlena *>(DatumGetPointer(keys));
        KeyHashes hashes;
        if (!isnull && !VARATT_IS_EXTERNAL(stored) && !VARATT_IS_COMPRESSED(stored) &&
            ReadHashes(hasher, reinterpret_cast<bytea *>(stored), &hashes))
            AddHashes(found, hashes, offset);
        else
            found->unknown[found->unknown_count++] = offset;
    });
}

KnownPage *MakePage(const Found &found, XLogRecPtr lsn, MemoryContext memory) {
    Size size = sizeof(KnownPage) + (sizeof(uint32) + sizeof(OffsetNumber)) * found.count +
                sizeof(OffsetNumber) * found.unknown_count;
    KnownPage *page = static_cast<KnownPage *>(MemoryContextAlloc(memory, size));
    *page = {.lsn = lsn,
             .buffer = InvalidBuffer,
             .count = found.count,
             .unknown_count = found.unknown_count};
    page->hashes = reinterpret_cast<uint32 *>(page + 1);
    page->offsets = reinterpret_cast<OffsetNumber *>(page->hashes + found.count);
    page->unknown = page->offsets + found.count;
    std::sort(found.items, found.items + found.count,
              [](const Found::Item &a, const Found::Item &b) { return a.hash < b.hash; });
    for (int i = 0; i < found.count; i++) {
        page->hashes[i] = found.items[i].hash;
        page->offsets[i] = found.items[i].offset;
    }
    std::copy(found.unknown, found.unknown + found.unknown_count, page->unknown);
    return page;
}

// A page as it is now. An LSN of 0 is that of a page that is new, or not logged.
const KnownPage *GetPage(Relation part, KeyHasher *hasher, KnownPart *known, BlockNumber block,
                         MemoryContext scratch) {
    KnownPage *page = known->pages[block];
    bool is_pinned = page && compat::ReadRecent(part, block, page->buffer);
    Buffer buffer = is_pinned ? page->buffer : ReadBuffer(part, block);
    if (!page || page->lsn == InvalidXLogRecPtr || page->lsn != BufferGetLSNAtomic(buffer)) {
        MemoryContext caller = MemoryContextSwitchTo(scratch);
        Found *found = palloc0_object(Found);
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        XLogRecPtr lsn = BufferGetLSNAtomic(buffer);
        ReadPage(part, hasher, buffer, found);
        LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
        KnownPage *made = MakePage(*found, lsn, known->cached.context);
        known->pages[block] = made;
        if (page)
            pfree(page);
        page = made;
        MemoryContextSwitchTo(caller);
        MemoryContextReset(scratch);
    }
    page->buffer = buffer;
    ReleaseBuffer(buffer);
    return page;
}

struct Matches {
    int count;
    int capacity;
    ItemPointerData *packs;
};

void AddMatch(Matches *matches, BlockNumber block, OffsetNumber offset) {
    if (matches->count == matches->capacity) {
        int grown = Max(16, matches->capacity * 2);
        ItemPointerData *packs = palloc_array(ItemPointerData, grown);
        std::copy(matches->packs, matches->packs + matches->count, packs);
        matches->packs = packs;
        matches->capacity = grown;
    }
    ItemPointerData *match = &matches->packs[matches->count++]; // ItemPointerSet is a macro
    ItemPointerSet(match, block, offset);
}

void AddMatches(Matches *matches, const KnownPage *page, const WantedKeys &wanted,
                BlockNumber block) {
    int first = matches->count;
    const uint32 *begin = page->hashes, *end = begin + page->count;
    for (uint32 hash : std::span(wanted.hashes, wanted.count))
        for (const uint32 *at = std::lower_bound(begin, end, hash); at < end && *at == hash; at++)
            AddMatch(matches, block, page->offsets[at - begin]);
    for (OffsetNumber offset : std::span(page->unknown, page->unknown_count))
        AddMatch(matches, block, offset);
    // Several keys of one pack.
    auto less = [](const ItemPointerData &a, const ItemPointerData &b) {
        return ItemPointerGetOffsetNumberNoCheck(&a) < ItemPointerGetOffsetNumberNoCheck(&b);
    };
    auto equal = [](const ItemPointerData &a, const ItemPointerData &b) {
        return ItemPointerGetOffsetNumberNoCheck(&a) == ItemPointerGetOffsetNumberNoCheck(&b);
    };
    if (matches->count - first > 1) {
        std::sort(matches->packs + first, matches->packs + matches->count, less);
        matches->count = static_cast<int>(
            std::unique(matches->packs + first, matches->packs + matches->count, equal) -
            matches->packs);
    }
}

} // namespace

bool FindWantedPacks(Relation part, KeyHasher *hasher, const WantedKeys &wanted,
                     std::span<ItemPointerData> *packs) {
    BlockNumber blocks = RelationGetNumberOfBlocks(part);
    if (wanted.count < 0 || blocks > kMaxBlocks || !RelationNeedsWAL(part))
        return false;
    Matches matches = {};
    KnownPart *known = GetPart(RelationGetRelid(part), hasher->stamp, blocks);
    MemoryContext scratch =
        AllocSetContextCreate(CurrentMemoryContext, "index_table page", ALLOCSET_DEFAULT_SIZES);
    for (BlockNumber block = 0; block < blocks; block++)
        AddMatches(&matches, GetPage(part, hasher, known, block, scratch), wanted, block);
    MemoryContextDelete(scratch);
    *packs = {matches.packs, static_cast<Size>(matches.count)};
    return true;
}

void InitializePageHashes() {
    InitializeRelationCache(&parts, "index_table pages of queues");
}

} // namespace index_table
