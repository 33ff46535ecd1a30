#include "global/addressed_rows.h"

#include "core/public.h"
#include "global/address.h"
#include "global/child_index.h"
#include "global/generations.h"

namespace index_table {

struct AddressedPartition {
    Relation storage;
    Relation heap;
    Relation child;
    GenerationReader generations;
    IndexFetchTableData *fetch;
    Buffer visibility;
    uint32 extent; // whose ordinal is known, if `knows_extent`
    uint32 ordinal;
    bool knows_extent;
};

namespace {

// Whether it does is for as long as the partition is locked.
bool Has(const AddressedPartition *partition, uint32 number, const Extent &extent) {
    return HasExtent(partition->child, partition->storage, number, extent);
}

bool IsCurrent(AddressedPartition *partition, const ItemPointerData *address,
               const ItemPointerData *tid) {
    return ReadGeneration(&partition->generations, tid) == GenerationOf(address);
}

} // namespace

std::optional<ItemPointerData> LocateRow(AddressedPartition *partition,
                                         const ItemPointerData *address) {
    uint32 number = ExtentOf(address);
    if (!partition->knows_extent || partition->extent != number) {
        Extent extent = RecallExtent(partition->storage, number);
        if (!Has(partition, number, extent) &&
            !Has(partition, number, extent = ReadAgain(partition->storage, number)))
            return std::nullopt;
        partition->extent = number;
        partition->ordinal = extent.ordinal;
        partition->knows_extent = true;
    }
    return TidOf(address, partition->ordinal);
}

Relation HeapOf(const AddressedPartition *partition) {
    return partition->heap;
}

Relation ChildOf(const AddressedPartition *partition) {
    return partition->child;
}

bool IsReaddressed(const AddressedPartition *partition, Snapshot snapshot) {
    return HasNewFileSince(partition->child, snapshot);
}

Oid PartitionOf(Relation storage, const ItemPointerData *address) {
    return IsClaim(address) ? InvalidOid : ReadExtent(storage, ExtentOf(address)).heap;
}

Oid LikelyPartitionOf(Relation storage, const ItemPointerData *address) {
    return IsClaim(address) ? InvalidOid : RecallExtent(storage, ExtentOf(address)).heap;
}

namespace {

// The child that has an address's extent, as it mostly has still: null where it has not.
Relation OpenOwner(Relation storage, Relation partition, const ItemPointerData *address) {
    uint32 number = ExtentOf(address);
    Extent extent = RecallExtent(storage, number);
    Relation child =
        OidIsValid(extent.child) ? TryOpenRelation(extent.child, AccessShareLock) : nullptr;
    if (!child)
        return nullptr;
    if (IsChildOfPartition(child, RelationGetRelid(partition), storage, number, extent))
        return child;
    relation_close(child, NoLock);
    return nullptr;
}

// As PostgreSQL: an unlogged partition has no rows on a standby.
void CheckIsHere(Relation partition) {
    if (!RelationIsPermanent(partition) && RecoveryInProgress())
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot access temporary or unlogged relations during recovery")));
}

} // namespace

AddressedPartition *OpenAddressed(Relation storage, Relation partition,
                                  const ItemPointerData *address) {
    Assert(CheckRelationLockedByMe(partition, AccessShareLock, true));
    CheckIsHere(partition);
    if (Relation child = address ? OpenOwner(storage, partition, address) : nullptr)
        return OpenAddressedChild(storage, partition, child);
    Oid oid = FindChild(partition, RelationGetRelid(storage));
    if (!OidIsValid(oid))
        return nullptr;
    return OpenAddressedChild(storage, partition, index_open(oid, AccessShareLock));
}

AddressedPartition *OpenAddressedChild(Relation storage, Relation heap, Relation child) {
    AddressedPartition *opened = palloc0_object(AddressedPartition);
    opened->storage = storage;
    opened->heap = heap;
    opened->child = child;
    opened->generations = BeginGenerations(child, storage);
    opened->fetch = compat::BeginFetch(heap);
    opened->visibility = InvalidBuffer;
    return opened;
}

void CloseAddressed(AddressedPartition *partition) {
    if (BufferIsValid(partition->visibility))
        ReleaseBuffer(partition->visibility);
    table_index_fetch_end(partition->fetch);
    EndGenerations(&partition->generations);
    index_close(partition->child, NoLock);
    pfree(partition);
}

bool FetchAddressed(AddressedPartition *partition, const ItemPointerData *address,
                    Snapshot snapshot, TupleTableSlot *slot, bool *all_dead) {
    std::optional<ItemPointerData> tid = LocateRow(partition, address);
    if (!tid) {
        *all_dead = IsGoneForGood(partition->child, partition->storage);
        return false;
    }
    // Before the row: a stale entry may lead past the end of a heap that VACUUM has truncated.
    if (!IsCurrent(partition, address, &*tid)) {
        *all_dead = true;
        return false;
    }
    bool again = false;
    if (!table_index_fetch_tuple(partition->fetch, &*tid, snapshot, slot, &again, all_dead))
        return false;
    if (IsMVCCSnapshot(snapshot))
        return true;
    // What others are about to insert is seen, and may have the line pointer by now.
    ItemPointerData asked = TidOf(address, partition->ordinal);
    if (IsCurrent(partition, address, &asked))
        return true;
    *all_dead = true;
    return false;
}

// The visibility map first: a line pointer has its new generation before its page can become
// all-visible again, and before VACUUM can cut the page off.
bool IsAddressVisible(AddressedPartition *partition, const ItemPointerData *address) {
    std::optional<ItemPointerData> tid = LocateRow(partition, address);
    if (!tid)
        return false;
    bool visible = VM_ALL_VISIBLE(partition->heap, ItemPointerGetBlockNumberNoCheck(&*tid),
                                  &partition->visibility);
    return visible && IsCurrent(partition, address, &*tid);
}

} // namespace index_table
