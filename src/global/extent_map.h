// The extent map of a global index: which partition each extent of the address space belongs to. It
// is what the storage relation's file holds, written ahead by generic WAL records.
//
// An extent is given to a child index under the child's token, which is new each time the child's
// file is (child_index.h); the first of them when there is a file. An extent whose token is not its
// child's, as the child's file now says, is abandoned: TRUNCATE, REINDEX or DETACH have been there,
// and entries that lead there are stale. ROLLBACK brings the file back, and the token with it. A
// sweep frees abandoned extents.
#pragma once

#include "pg.h"

namespace index_table {

struct Extent {
    Oid heap;     // the partition
    Oid child;    // its child index; InvalidOid: the extent is free
    uint32 token; // of the child's file
    // Which of the partition's extents it is, from 0.
    uint32 ordinal : 31;
    // The child's file has pages. Of the first extent it may become so, see child_index.h.
    uint32 has_pages : 1;
};

// Writes the map of a storage relation that has just been made. `limit`: how many extents there may
// be.
void InitializeExtentMap(Relation storage, uint32 limit);

// Whether so many extents have been given that they had better be given to rows alone.
bool IsHalfGiven(Relation storage);

// What the map says of an extent now; free where there is none. Where the token is the child's, and
// the child is locked, it stays so.
Extent ReadExtent(Relation storage, uint32 number);

// The same as this session has read it last. Where it tells of a child that has another token, or
// is gone, the extent may be another's by now: ReadAgain() tells.
Extent RecallExtent(Relation storage, uint32 number);
Extent ReadAgain(Relation storage, uint32 number);

// Gives extents in a row, `count` of them if there are as many, at least one; returns the first.
// Their ordinals go up from that of `first`. Raises 54000 where the address space is used up. May
// be called with the child's first page locked.
uint32 GiveExtents(Relation storage, const Extent &first, uint32 *count);

// The first extent that was given to a child under a token. Looks at all of the map, if need be.
std::optional<uint32> FindFirstExtent(Relation storage, Oid child, uint32 token);

// The page of the map that an extent is on, pinned; `recent`: a buffer that it may be in still.
Buffer PinExtent(Relation storage, uint32 number, Buffer recent);
// Whether the extent there has `has_pages`; without any lock.
bool SaysHasPages(Buffer buffer, uint32 number);
void SetHasPages(Relation storage, uint32 number);

// All of the map: the number of extents, and a copy.
Extent *CopyExtents(Relation storage, uint32 *count);

// Frees those that are marked in `abandoned`, of `count`, if they are as in `extents` still.
void FreeExtents(Relation storage, const Extent *extents, const bool *abandoned, uint32 count);

} // namespace index_table
