#include "maintenance/own_entries.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/storage.h"
#include "maintenance/writer.h"

namespace index_table {
namespace {

// Numbers of partitions, in TopTransactionContext: few, as a rule, and each statement adds to them.
struct WrittenPartitions {
    int32 *ids;
    int count;
    int capacity;
};
constinit WrittenPartitions written = {};

void RemoveFrom(EntryWriter *writer, const IndexTable *table, Oid storage, int32 partition_id) {
    Relation rel = table_open(storage, RowExclusiveLock);
    AttrNumber attno = LiveColumn(rel, table, table->partition_position());
    TupleTableSlot *slot = table_slot_create(rel, nullptr);
    TableScanDesc scan = compat::BeginTableScan(rel, SnapshotSelf);
    while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
        bool isnull;
        Datum xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);
        if (TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin)) &&
            DatumGetInt32(slot_getattr(slot, attno, &isnull)) == partition_id && !isnull)
            DeleteStoredEntry(writer, storage, &slot->tts_tid);
        CHECK_FOR_INTERRUPTS();
    }
    table_endscan(scan);
    ExecDropSingleTupleTableSlot(slot);
    table_close(rel, NoLock);
}

} // namespace

bool IsWrittenPartition(int32 partition_id) {
    return std::find(written.ids, written.ids + written.count, partition_id) !=
           written.ids + written.count;
}

void RememberWrittenPartition(int32 partition_id) {
    Assert(IsTransactionState() && partition_id > 0);
    if (IsWrittenPartition(partition_id))
        return;
    if (written.count == written.capacity) {
        int capacity = Max(16, written.capacity * 2);
        int32 *ids = static_cast<int32 *>(
            MemoryContextAlloc(TopTransactionContext, sizeof(int32) * capacity));
        std::copy(written.ids, written.ids + written.count, ids);
        if (written.ids)
            pfree(written.ids);
        written.ids = ids;
        written.capacity = capacity;
    }
    written.ids[written.count++] = partition_id;
}

void RemoveOwnEntries(Oid leaf) {
    FAULT_POINT("own_entries.remove_own_entries");
    if (written.count == 0)
        return;
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number || !IsWrittenPartition(number->id))
        return;
    // The base table may be dropped with it, and its index tables too.
    const Base *base = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(number->base))
                           ? FindBase(number->base)
                           : nullptr;
    CommandCounterIncrement(); // what this command has written, it can delete
    for (int i = 0; base && i < base->table_count; i++) {
        const IndexTable *table = base->tables[i];
        if (OidIsValid(table->log)) // its constraints are still to come
            continue;
        MemoryContext context = AllocSetContextCreate(
            CurrentMemoryContext, "index_table own entries", ALLOCSET_DEFAULT_SIZES);
        MemoryContext caller = MemoryContextSwitchTo(context);
        // Nobody's triggers on the index table run with the rights of whoever drops a partition.
        OwnerContext owner = EnterOwner(RelationOwner(base->relid));
        if (EntryWriter *writer = OpenWriter(table, false, context)) {
            IgnoreReferences(writer); // they have been looked at
            ListCell *cell;
            foreach (cell, StorageOf(table->relid, RowExclusiveLock))
                RemoveFrom(writer, table, lfirst_oid(cell), number->id);
            CloseWriter(writer);
        }
        LeaveOwner(owner);
        MemoryContextSwitchTo(caller);
        MemoryContextDelete(context);
    }
    CommandCounterIncrement();
}

void AtEOXactOwnEntries() {
    written = {};
}

} // namespace index_table
