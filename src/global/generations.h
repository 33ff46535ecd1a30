// Generations of a partition's line pointers: how often VACUUM has taken each from a row, as far as
// entries could tell, 4 bits each. They stand in the child's file behind its first page, for the
// blocks up to the last one that VACUUM found dead rows on; all others have generation 0.
//
// VACUUM gives a line pointer its next generation after its row is dead to everybody and before
// another can have it. So whoever finds an entry's generation to be the line pointer's, before or
// after he has looked at the row, knows that the entry is of that row.
#pragma once

#include "global/child_index.h"

namespace index_table {

// Generations of line pointers of one partition, read with pages pinned.
struct GenerationReader {
    Relation child;
    Relation storage;
    StatePage state; // InvalidBuffer: nothing has been read
    Buffer page;     // of generations, the last that was looked at; InvalidBuffer: none
    BlockNumber page_number;
};
GenerationReader BeginGenerations(Relation child, Relation storage);
// REQUIRES: the child belongs to the storage.
uint32 ReadGeneration(GenerationReader *reader, const ItemPointerData *tid);
void EndGenerations(GenerationReader *reader);

// One alone.
uint32 GenerationOfTid(Relation child, Relation storage, const ItemPointerData *tid);

// Generations that are read and do not change before they are unlocked.
constexpr int kMaxGenerationLocks = 8;
struct GenerationLocks {
    int count;      // the first is what PinState() pins
    bool has_pages; // which is the child's first
    Buffer buffers[kMaxGenerationLocks];
    BlockNumber numbers[kMaxGenerationLocks];
};
// Nothing where too many pages would have to be locked. TIDs come in order.
std::optional<uint32> LockGeneration(Relation child, Relation storage, GenerationLocks *locks,
                                     const ItemPointerData *tid);
void UnlockGenerations(GenerationLocks *locks);

// Gives line pointers their next generations. `tids` come block by block. Counts as one pass from
// the beginning: one that is interrupted may have been made in part.
struct TidBatch {
    BlockNumber block;
    const OffsetNumber *offsets;
    int count;
};
struct GenerationWriter {
    Relation child;
    BlockNumber map_pages;
    Buffer buffer; // InvalidBuffer: none is being changed
    GenericXLogState *state;
    Page page;
    BlockNumber page_number;
};
GenerationWriter BeginNewGenerations(Relation child, Relation storage);
void AdvanceGenerations(GenerationWriter *writer, const TidBatch &batch);
void EndNewGenerations(GenerationWriter *writer);

// A copy of all generations of a child, to be asked again and again.
struct GenerationMap {
    BlockNumber page_count;
    char **pages; // null: all 0
};
GenerationMap CopyGenerations(Relation child);
uint32 GenerationIn(const GenerationMap &map, const ItemPointerData *tid);

// Whether an entry's generation is older than its line pointer's, as that was known some passes
// ago.
bool IsStaleGeneration(uint32 of_entry, uint32 known);
// After so many passes entries may be taken for newer than they are: a sweep must come before.
constexpr uint32 kMaxPasses = 7;

} // namespace index_table
