// The file of a child: the index that a partition has of a global index. It holds no entries, but
// says on its first page under which token the partition has which extents; the generations of its
// line pointers (generations.h) follow.
//
// The file is as transactional as any index's: TRUNCATE, REINDEX, VACUUM FULL make a new one, with
// a new token, ROLLBACK brings the old one back. So extents count only under the file's token.
//
// Most files are empty. What there is to say of a partition of one extent, from which VACUUM has
// never taken a row, is in the extent map: the token is the file's own number. Pages are made when
// there is more (MakePages), and stay. The partition's first extent says whether there are any, for
// those who have seen the file empty and go on using it.
#pragma once

#include "global/extent_map.h"

namespace index_table {

// Extents that follow one another, of the partition and in the address space.
struct ExtentRun {
    uint32 ordinal;
    uint32 extent;
    uint32 count;
};

// The first page. They grow with the partition: 256 are enough for the largest.
constexpr int kMaxRuns = 256;
struct ChildState {
    uint32 magic;
    uint32 version;
    Oid storage;         // of the global index that it is part of; InvalidOid: of none
    uint32 token;        // under which it has its extents: the number of its (first) file, mostly
    uint32 passes;       // of VACUUM since the last sweep began, that made entries stale
    uint32 is_passing;   // not 0: the last of them is not over, or was interrupted
    uint32 map_pages;    // pages of generations
    uint32 extent_count; // of the partition
    uint32 run_count;
    uint32 joins_later; // not 0: an unlogged partition that a crash has emptied
    ExtentRun runs[kMaxRuns];
};

// Prepares a new file, a fork of it: the child is part of no global index. That of a permanent
// child stays empty. The init fork is what an unlogged child's file is after a crash.
void InitializeChild(Relation child, ForkNumber fork);

// Makes a child whose file is new in this subtransaction, or was emptied in it, part of a global
// index, under a new token.
void JoinGlobalIndex(Relation child, Relation storage);

// Makes a child whose file a crash has emptied part of a global index again.
void RejoinGlobalIndex(Relation child, Relation storage);

// The state as this session has read it last, which tells storage, token and some of the extents
// for sure: they change with the file alone, but for a child that joins later. Of an empty file the
// storage is looked for, and locked meanwhile.
const ChildState *GetChildState(Relation child);
// Reads it again.
const ChildState *RefreshChildState(Relation child);

// Whether a child is a partition's in a global index whose storage this is. REQUIRES: the partition
// is locked.
bool BelongsTo(Relation child, Oid storage);
// The same, without waiting for any lock.
bool BelongsTo(Relation child, Relation storage);
// Whether rows of the partition get entries when they are written: the child belongs to the
// storage, or will with the first of them. Waits for no lock.
bool TakesEntries(Relation child, Relation storage);
// Whether an extent, as the map has it or had it, is the child's. Waits for no lock.
bool HasExtent(Relation child, Relation storage, uint32 number, const Extent &extent);
// Whether an index, of whatever kind, is that of the partition `heap`. The extent may be the
// child's.
bool IsChildOfPartition(Relation child, Oid heap, Relation storage, uint32 number,
                        const Extent &extent);
// Whether that cannot change back: no transaction that may roll back has given the child this file.
bool IsCertain(Relation child);
// Which transaction has given a child the file that it has, or one that came after it: entries of
// the file before are what snapshots find rows by to which it is in progress.
TransactionId FileChangedBy(Oid child);
TransactionId FileChangedBy(Relation child); // remembered with the relation
// Whether the child has another file than the one whose entries the snapshot was to find, or may
// have.
bool HasNewFileSince(Relation child, Snapshot snapshot);
// Whether entries that do not belong to a child, as this session sees it, never will, and no
// snapshot needs them. Not so where this session's transaction may have changed that.
bool IsGoneForGood(Relation child, Relation storage);

// The extent of a block of the partition; the partition is given one where it has none.
uint32 ExtentOfBlock(Relation child, Relation storage, Oid heap, BlockNumber block);

// The same where it has one; gives none.
std::optional<uint32> FindExtentOfBlock(Relation child, BlockNumber block);

// Whether the child has pages, as far as this session knows. Where it has none, others may make
// them.
bool HasPages(Relation child);
// The page that says what there is of a child, pinned: its first page, or, as long as this session
// knows of none, that of the extent map which says so.
struct StatePage {
    Buffer buffer;
    bool is_of_child;
    uint32 extent; // if not
};
// REQUIRES: the child belongs to the storage.
StatePage PinState(Relation child, Relation storage);
// Whether that page says now, without any lock, that the child has pages. If it does, and is none
// of them, NoticePages() believes it.
bool SaysHasPages(const StatePage &state);
void NoticePages(Relation child);
// Makes them, where there are none. REQUIRES: the child belongs to the storage.
void MakePages(Relation child, Relation storage);
// Where a child's file has been copied under another number, which it is about to have, the copy
// keeps the token: an empty one on a page. REQUIRES: the child is locked AccessExclusive.
void WriteCopiedFile(Relation child, Oid tablespace, uint32 number);

// Its first page, pinned. Its state may be changed under an exclusive lock. REQUIRES: HasPages().
Buffer PinChildPage(Relation child);
inline ChildState *StateOn(Page page) {
    return reinterpret_cast<ChildState *>(PageGetContents(page));
}

// Raises 55000 for a child: its global index has no entries of it, or is not built at all.
[[noreturn]] void RaiseNotBuilt(Relation child);

// The child of a partition in the global index with a storage; InvalidOid: none. Raises 55000 where
// there is one, whose file was put in the place of its own (as pg_repack does) without entries.
Oid FindChild(Relation partition, Oid storage);
// The root of an index that is a child, directly or through partitions between; InvalidOid: none.
Oid RootIndexOf(Relation child);

} // namespace index_table
