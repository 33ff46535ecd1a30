// Rows of partitions, found by the addresses that a tree yields.
#pragma once

#include "pg.h"

namespace index_table {

// A partition whose rows are fetched by address, through one global index.
struct AddressedPartition;

// The partition that an address leads to, as the extent map has it now; InvalidOid: to none any
// more, and the entry is stale. Opens and locks nothing.
Oid PartitionOf(Relation storage, const ItemPointerData *address);
// The same as this session has read the map last: another partition may have the extent by now,
// where LocateRow() does not find the address in this one.
Oid LikelyPartitionOf(Relation storage, const ItemPointerData *address);

// REQUIRES: the partition is open and locked, with AccessShareLock at least, for as long as the
// result is used. Null where it has no child of this global index (it has been detached). Faster
// with an address that leads there. Allocated in the current memory context.
AddressedPartition *OpenAddressed(Relation storage, Relation partition,
                                  const ItemPointerData *address = nullptr);
// The same with its child, which is open and locked; CloseAddressed closes it.
AddressedPartition *OpenAddressedChild(Relation storage, Relation partition, Relation child);
void CloseAddressed(AddressedPartition *partition);

// Whether its rows may have got other addresses since the snapshot was taken: TRUNCATE, VACUUM
// FULL, CLUSTER, REINDEX.
bool IsReaddressed(const AddressedPartition *partition, Snapshot snapshot);

// Fetches the row that an address leads to and the snapshot sees; false, and `slot` as it was,
// where it leads to none. `slot` is one of table_slot_create(partition); its tts_tid becomes the
// row's own. `all_dead`: no snapshot will see a row there, so the entry may be forgotten
// (IndexScanDesc::kill_prior_tuple). With an MVCC snapshot an entry leads to one row at most.
bool FetchAddressed(AddressedPartition *partition, const ItemPointerData *address,
                    Snapshot snapshot, TupleTableSlot *slot, bool *all_dead);

// The same without its row, where the partition's visibility map says that everybody sees it.
bool IsAddressVisible(AddressedPartition *partition, const ItemPointerData *address);

// The partition's own address of an entry's row; nothing where the entry is stale for its extent.
std::optional<ItemPointerData> LocateRow(AddressedPartition *partition,
                                         const ItemPointerData *address);
Relation HeapOf(const AddressedPartition *partition);
Relation ChildOf(const AddressedPartition *partition);

} // namespace index_table
