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

// The foreign partition that the entry leads to; null: it is local, or gone.
OpenLeaf *ForeignLeafOf(const EntryBatch *batch);
// The row there; null where there is none.
const ShardRow *ShardRowOf(const EntryBatch *batch);

} // namespace index_table
