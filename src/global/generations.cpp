#include "global/generations.h"

#include "global/address.h"
#include "global/child_index.h"
#include "global/page.h"

namespace index_table {
namespace {

// Of a page: so many bytes for each of so many blocks.
constexpr int kBytesPerBlock = MaxHeapTuplesPerPage / 2 + 1;
constexpr int kBlocksPerPage = (BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) / kBytesPerBlock;

BlockNumber MapPageOf(BlockNumber block) {
    return block / kBlocksPerPage;
}

uint8 *PlaceOf(char *contents, BlockNumber block, OffsetNumber offset) {
    return reinterpret_cast<uint8 *>(contents) + block % kBlocksPerPage * kBytesPerBlock +
           offset / 2;
}

uint32 Read(char *contents, const ItemPointerData *tid) {
    OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
    uint8 both = *PlaceOf(contents, ItemPointerGetBlockNumberNoCheck(tid), offset);
    return offset % 2 ? both >> 4 : both & 15;
}

void Advance(char *contents, BlockNumber block, OffsetNumber offset) {
    uint8 *both = PlaceOf(contents, block, offset);
    *both = offset % 2 ? static_cast<uint8>(*both + 0x10)
                       : static_cast<uint8>((*both & 0xF0) | ((*both + 1) & 0x0F));
}

// A line pointer has a new generation before it has a new row, whose transaction has ended before
// any snapshot that sees the row: no lock is needed to see the page counted then.
BlockNumber CountMapPages(Buffer state) {
    return *const_cast<const volatile uint32 *>(&StateOn(BufferGetPage(state))->map_pages);
}

void FinishPage(GenerationWriter *writer) {
    if (!BufferIsValid(writer->buffer))
        return;
    GenericXLogFinish(writer->state);
    UnlockReleaseBuffer(writer->buffer);
    writer->buffer = InvalidBuffer;
}

void OpenPage(GenerationWriter *writer, BlockNumber number) {
    writer->page_number = number;
    writer->map_pages = Max(writer->map_pages, number + 1);
    writer->buffer = ExtendTo(writer->child, number + 1);
    LockBuffer(writer->buffer, BUFFER_LOCK_EXCLUSIVE);
    bool is_new = PageIsNew(BufferGetPage(writer->buffer));
    writer->state = GenericXLogStart(writer->child);
    writer->page = GenericXLogRegisterBuffer(writer->state, writer->buffer,
                                             is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
    if (is_new)
        ClearPage(writer->page, kBlocksPerPage * kBytesPerBlock);
}

} // namespace

GenerationReader BeginGenerations(Relation child, Relation storage) {
    return {.child = child, .storage = storage, .state = {}, .page = InvalidBuffer};
}

namespace {

// Pins the child's first page; false where there is none yet.
bool FindPages(Relation child, Relation storage, StatePage *state) {
    if (!BufferIsValid(state->buffer))
        *state = PinState(child, storage);
    if (state->is_of_child)
        return true;
    if (!SaysHasPages(*state))
        return false;
    ReleaseBuffer(state->buffer);
    *state = {};
    NoticePages(child);
    *state = PinState(child, storage);
    return true;
}

} // namespace

uint32 ReadGeneration(GenerationReader *reader, const ItemPointerData *tid) {
    if (!FindPages(reader->child, reader->storage, &reader->state))
        return 0;
    BlockNumber number = MapPageOf(ItemPointerGetBlockNumberNoCheck(tid));
    if (number >= CountMapPages(reader->state.buffer))
        return 0;
    if (!BufferIsValid(reader->page) || reader->page_number != number) {
        if (BufferIsValid(reader->page))
            ReleaseBuffer(reader->page);
        reader->page = ReadBuffer(reader->child, number + 1);
        reader->page_number = number;
    }
    LockBuffer(reader->page, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(reader->page);
    uint32 generation = PageIsNew(page) ? 0 : Read(PageGetContents(page), tid);
    LockBuffer(reader->page, BUFFER_LOCK_UNLOCK);
    return generation;
}

void EndGenerations(GenerationReader *reader) {
    if (BufferIsValid(reader->page))
        ReleaseBuffer(reader->page);
    if (BufferIsValid(reader->state.buffer))
        ReleaseBuffer(reader->state.buffer);
}

uint32 GenerationOfTid(Relation child, Relation storage, const ItemPointerData *tid) {
    GenerationReader reader = BeginGenerations(child, storage);
    uint32 generation = ReadGeneration(&reader, tid);
    EndGenerations(&reader);
    return generation;
}

namespace {

Page LockPage(GenerationLocks *locks, BlockNumber number, Buffer buffer) {
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    locks->numbers[locks->count] = number;
    locks->buffers[locks->count++] = buffer;
    return BufferGetPage(buffer);
}

// Locks the first page, where the extent map says that there is one the map's. Pages of generations
// that it does not count yet could be counted meanwhile, and it could be made.
void LockState(Relation child, Relation storage, GenerationLocks *locks) {
    StatePage state = {};
    bool has_pages = FindPages(child, storage, &state);
    LockPage(locks, 0, state.buffer);
    locks->has_pages = has_pages;
    if (has_pages || !SaysHasPages(state))
        return;
    UnlockGenerations(locks); // they have just been made
    LockState(child, storage, locks);
}

} // namespace

std::optional<uint32> LockGeneration(Relation child, Relation storage, GenerationLocks *locks,
                                     const ItemPointerData *tid) {
    BlockNumber number = MapPageOf(ItemPointerGetBlockNumberNoCheck(tid)) + 1;
    if (locks->count == 0)
        LockState(child, storage, locks);
    if (!locks->has_pages || number > StateOn(BufferGetPage(locks->buffers[0]))->map_pages)
        return 0;
    for (int i = 1; i < locks->count; i++)
        if (locks->numbers[i] == number) {
            Page page = BufferGetPage(locks->buffers[i]);
            return PageIsNew(page) ? 0 : Read(PageGetContents(page), tid);
        }
    if (locks->count == kMaxGenerationLocks)
        return std::nullopt;
    Page page = LockPage(locks, number, ReadBuffer(child, number));
    return PageIsNew(page) ? 0 : Read(PageGetContents(page), tid);
}

void UnlockGenerations(GenerationLocks *locks) {
    for (int i = 0; i < locks->count; i++)
        UnlockReleaseBuffer(locks->buffers[i]);
    locks->count = 0;
}

GenerationWriter BeginNewGenerations(Relation child, Relation storage) {
    MakePages(child, storage);
    Buffer buffer = PinChildPage(child);
    PageChange change = BeginChange(child, buffer);
    StateOn(change.page)->passes++;
    StateOn(change.page)->is_passing = 1;
    FinishChange(&change);
    ReleaseBuffer(buffer);
    return {.child = child, .map_pages = 0, .buffer = InvalidBuffer};
}

void AdvanceGenerations(GenerationWriter *writer, const TidBatch &batch) {
    BlockNumber number = MapPageOf(batch.block);
    if (!BufferIsValid(writer->buffer) || writer->page_number != number) {
        FinishPage(writer);
        OpenPage(writer, number);
    }
    for (int i = 0; i < batch.count; i++)
        Advance(PageGetContents(writer->page), batch.block, batch.offsets[i]);
}

void EndNewGenerations(GenerationWriter *writer) {
    FinishPage(writer);
    Buffer buffer = PinChildPage(writer->child);
    PageChange change = BeginChange(writer->child, buffer);
    ChildState *state = StateOn(change.page);
    state->map_pages = Max(state->map_pages, writer->map_pages);
    state->is_passing = 0;
    FinishChange(&change);
    ReleaseBuffer(buffer);
}

GenerationMap CopyGenerations(Relation child) {
    GenerationMap map = {};
    RefreshChildState(child);
    if (!HasPages(child))
        return map;
    Buffer state = PinChildPage(child);
    map.page_count = CountMapPages(state);
    ReleaseBuffer(state);
    map.pages = palloc0_array(char *, Max(1, map.page_count));
    for (BlockNumber number = 0; number < map.page_count; number++) {
        Buffer buffer = ReadBuffer(child, number + 1);
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        if (!PageIsNew(BufferGetPage(buffer))) {
            map.pages[number] = static_cast<char *>(palloc(kBlocksPerPage * kBytesPerBlock));
            memcpy(map.pages[number], PageGetContents(BufferGetPage(buffer)),
                   kBlocksPerPage * kBytesPerBlock);
        }
        UnlockReleaseBuffer(buffer);
    }
    return map;
}

uint32 GenerationIn(const GenerationMap &map, const ItemPointerData *tid) {
    BlockNumber number = MapPageOf(ItemPointerGetBlockNumberNoCheck(tid));
    return number < map.page_count && map.pages[number] ? Read(map.pages[number], tid) : 0;
}

bool IsStaleGeneration(uint32 of_entry, uint32 known) {
    uint32 distance = (known - of_entry) % kGenerations;
    return distance >= 1 && distance <= kMaxPasses + 1;
}

} // namespace index_table
