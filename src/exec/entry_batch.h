// Entries that are read ahead of the scan, so that the rows which they lead to in foreign
// partitions are fetched many at once. The scan gets them in their order.
#pragma once

#include "exec/entry_source.h"
#include "exec/shard_rows.h"

namespace index_table {

struct EntryBatch;

// A batch begins with `first` entries, those after it have more each, as far as work_mem allows.
EntryBatch *BeginEntryBatch(EntrySource *source, LeafReader *leaves, ShardRows *shards, int first);
// After RestartEntries.
void RestartBatch(EntryBatch *batch);
// Puts the next entry into the source's values; false at the end.
bool NextBatched(EntryBatch *batch);

// Instead of that: the entries of many scans of the source, so that the rows of all of them are
// fetched at once. Each scan is a group, by number.
void BeginGroups(EntryBatch *batch);
// Reads the entries of the source, which was restarted, no more than `most`, into another group.
// False where there is no room for one more.
bool AddGroup(EntryBatch *batch, int most);
void FetchGroups(EntryBatch *batch);
// NextBatched() yields the entries of a group from now on.
void StartGroup(EntryBatch *batch, int number);
// How many of the scan's entries are in the group begun last, and whether these are all.
int GroupSize(const EntryBatch *batch);
bool IsGroupComplete(const EntryBatch *batch);

// The foreign partition that the entry leads to; null: it is local, or gone.
OpenLeaf *ForeignLeafOf(const EntryBatch *batch);
// The row there; null where there is none.
const ShardRow *ShardRowOf(const EntryBatch *batch);

} // namespace index_table
