// Where a row is, among all partitions of a table.
//
// An address has the form of a TID, so that access methods keep it where they keep those. Its block
// number counts blocks of all partitions together: the address space is cut into extents, which the
// extent map (extent_map.h) gives to partitions one by one as they grow. Its offset holds the line
// pointer and, above it, the generation of the line pointer (generations.h): VACUUM gives a line
// pointer that it takes from a row the next generation, and entries with an older one are stale.
//
// An access method that yields bitmaps alone has no room for a generation in the offset (GIN keeps
// 11 bits of it, and a TIDBitmap wants a line pointer there): what such a tree holds is packed,
// with the generation in the low bits of the block number. All code has addresses as they are
// above: they are packed when they are handed to the access method, and unpacked when they come
// from it.
#pragma once

#include "pg.h"

namespace index_table {

// Blocks of an extent: 64 MB of the default size.
constexpr int kExtentBits = 13;
constexpr BlockNumber kExtentBlocks = BlockNumber{1} << kExtentBits;
// The last extents are nobody's: addresses there are claims (claims.h).
constexpr uint32 kClaimExtents = 16;
constexpr uint32 kMaxExtents = (uint32{1} << (32 - kExtentBits)) - kClaimExtents;

constexpr int kLinePointerBits = 11; // enough for blocks of 32 kB
constexpr uint32 kGenerations = 16;
static_assert(MaxHeapTuplesPerPage < (1 << kLinePointerBits));

// What is left of an extent in a packed address: 15 bits. The last is nobody's: there are block
// numbers with a meaning of their own.
constexpr int kGenerationBits = 4;
static_assert(kGenerations == 1 << kGenerationBits);
constexpr uint32 kMaxPackedExtents = (uint32{1} << (32 - kExtentBits - kGenerationBits)) - 1;

inline uint32 ExtentOf(const ItemPointerData *address) {
    return ItemPointerGetBlockNumberNoCheck(address) >> kExtentBits;
}

inline uint32 GenerationOf(const ItemPointerData *address) {
    return ItemPointerGetOffsetNumberNoCheck(address) >> kLinePointerBits;
}

// A claim holds the id of its transaction: 4 bits in the extent, 13 in the block, 15 in the offset.
inline bool IsClaim(const ItemPointerData *address) {
    return ExtentOf(address) >= kMaxExtents;
}

inline TransactionId ClaimerOf(const ItemPointerData *address) {
    return (ExtentOf(address) - kMaxExtents) << 28 |
           (ItemPointerGetBlockNumberNoCheck(address) & (kExtentBlocks - 1)) << 15 |
           (ItemPointerGetOffsetNumberNoCheck(address) & 0x7FFF);
}

inline ItemPointerData ClaimOf(TransactionId xid) {
    ItemPointerData address;
    ItemPointerSet(&address,
                   (kMaxExtents + (xid >> 28)) << kExtentBits | (xid >> 15 & (kExtentBlocks - 1)),
                   static_cast<OffsetNumber>(0x8000 | (xid & 0x7FFF)));
    return address;
}

// `ordinal`: which of its partition's extents it is, from 0.
inline ItemPointerData TidOf(const ItemPointerData *address, uint32 ordinal) {
    ItemPointerData tid;
    ItemPointerSet(&tid,
                   ordinal << kExtentBits |
                       (ItemPointerGetBlockNumberNoCheck(address) & (kExtentBlocks - 1)),
                   ItemPointerGetOffsetNumberNoCheck(address) & ((1 << kLinePointerBits) - 1));
    return tid;
}

inline ItemPointerData AddressOf(const ItemPointerData *tid, uint32 extent, uint32 generation) {
    ItemPointerData address;
    ItemPointerSet(&address,
                   extent << kExtentBits |
                       (ItemPointerGetBlockNumberNoCheck(tid) & (kExtentBlocks - 1)),
                   generation << kLinePointerBits | ItemPointerGetOffsetNumberNoCheck(tid));
    return address;
}

// Whether the entries of a tree, which is open, are packed.
inline bool IsPacked(Relation tree) {
    return !tree->rd_indam->amgettuple;
}

// REQUIRES: the extent is less than kMaxPackedExtents; so it is no claim.
inline ItemPointerData PackAddress(const ItemPointerData *address) {
    Assert(ExtentOf(address) < kMaxPackedExtents);
    ItemPointerData packed;
    ItemPointerSet(&packed,
                   ItemPointerGetBlockNumberNoCheck(address) << kGenerationBits |
                       GenerationOf(address),
                   ItemPointerGetOffsetNumberNoCheck(address) & ((1 << kLinePointerBits) - 1));
    return packed;
}

inline ItemPointerData UnpackAddress(const ItemPointerData *packed) {
    BlockNumber block = ItemPointerGetBlockNumberNoCheck(packed);
    ItemPointerData address;
    ItemPointerSet(&address, block >> kGenerationBits,
                   (block & (kGenerations - 1)) << kLinePointerBits |
                       ItemPointerGetOffsetNumberNoCheck(packed));
    return address;
}

// An entry's address, as a tree holds it, and back.
inline ItemPointerData ToEntry(Relation tree, const ItemPointerData *address) {
    return IsPacked(tree) ? PackAddress(address) : *address;
}

inline ItemPointerData FromEntry(Relation tree, const ItemPointerData *entry) {
    return IsPacked(tree) ? UnpackAddress(entry) : *entry;
}

} // namespace index_table
