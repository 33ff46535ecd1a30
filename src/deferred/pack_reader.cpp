#include "deferred/pack_reader.h"

#include "core/public.h"

namespace index_table {

bool OpenPackReader(PackReader *reader, const IndexTable *table, Snapshot snapshot, LOCKMODE mode) {
    const Queue *queue = FindQueue(table);
    while (queue) {
        for (Oid part : queue->parts)
            LockRelationOid(part, mode);
        const Queue *locked = FindQueue(table); // locks may have been waited for
        if (locked && std::equal(std::begin(queue->parts), std::end(queue->parts), locked->parts)) {
            *reader = {.table = table,
                       .queue = locked,
                       .hasher = GetKeyHasher(table),
                       .snapshot = snapshot,
                       .lock = mode};
            for (int i = 0; i < kQueueParts; i++)
                reader->parts[i] = table_open(locked->parts[i], NoLock);
            return true;
        }
        for (Oid part : queue->parts)
            UnlockRelationOid(part, mode);
        queue = locked;
    }
    return false;
}

void ClosePackReader(PackReader *reader) {
    for (Relation part : reader->parts)
        table_close(part, reader->lock == AccessShareLock ? AccessShareLock : NoLock);
}

bool IsQueueEmpty(const PackReader *reader) {
    bool is_empty = true;
    for (Relation part : reader->parts) {
        PredicateLockRelation(part, reader->snapshot);
        is_empty = is_empty && RelationGetNumberOfBlocks(part) == 0;
    }
    return is_empty;
}

namespace {

// Packs and changes on a page, as its line pointers have them, drained ones included.
QueueSize CountPage(Relation part, BlockNumber block) {
    QueueSize size = {};
    TupleDesc descriptor = RelationGetDescr(part);
    Buffer buffer = ReadBuffer(part, block);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    ForEachTuple(part, buffer, [&](HeapTuple tuple, OffsetNumber) {
        if (tuple->t_data->t_infomask & HEAP_XMAX_COMMITTED)
            return;
        bool isnull;
        size.packs++;
        size.changes += DatumGetInt32(heap_getattr(tuple, kPackCount, descriptor, &isnull));
    });
    UnlockReleaseBuffer(buffer);
    return size;
}

} // namespace

QueueSize EstimateQueue(const PackReader *reader) {
    constexpr BlockNumber kSample = 4;
    QueueSize size = {};
    for (Relation part : reader->parts) {
        BlockNumber blocks = RelationGetNumberOfBlocks(part);
        BlockNumber looked_at = Min(blocks, kSample);
        size.blocks += blocks;
        QueueSize sample = {};
        for (BlockNumber i = 0; i < looked_at; i++) {
            // From the last on: what is at the beginning is drained first.
            QueueSize page = CountPage(part, blocks - 1 - i * (blocks / looked_at));
            sample.packs += page.packs;
            sample.changes += page.changes;
        }
        if (looked_at > 0) {
            size.packs += sample.packs * blocks / looked_at;
            size.changes += sample.changes * blocks / looked_at;
        }
    }
    return size;
}

PackScan BeginPackScan(const PackReader *reader, const WantedKeys *wanted) {
    return {.reader = reader, .wanted = wanted, .part = -1};
}

namespace {

bool NextPart(PackScan *scan) {
    EndPackScan(scan);
    const PackReader *reader = scan->reader;
    while (++scan->part < kQueueParts) {
        Relation part = reader->parts[scan->part];
        PredicateLockRelation(part, reader->snapshot);
        if (RelationGetNumberOfBlocks(part) == 0)
            continue;
        scan->next = 0;
        if (scan->wanted && FindWantedPacks(part, reader->hasher, *scan->wanted, &scan->known)) {
            if (scan->known.empty())
                continue;
        } else
            scan->scan = compat::BeginTableScan(part, reader->snapshot);
        scan->pack = {.part = scan->part, .slot = table_slot_create(part, nullptr)};
        return true;
    }
    return false;
}

bool NextTuple(PackScan *scan) {
    if (scan->scan)
        return table_scan_getnextslot(scan->scan, ForwardScanDirection, scan->pack.slot);
    Relation part = scan->reader->parts[scan->part];
    while (scan->next < scan->known.size())
        if (table_tuple_fetch_row_version(part, &scan->known[scan->next++], scan->reader->snapshot,
                                          scan->pack.slot))
            return true;
    return false;
}

} // namespace

bool NextPack(PackScan *scan) {
    while (scan->pack.slot || NextPart(scan)) {
        Pack *pack = &scan->pack;
        if (!NextTuple(scan)) {
            EndPackScan(scan);
            continue;
        }
        slot_getsomeattrs(pack->slot, kPackRetryAt);
        pack->count = DatumGetInt32(pack->slot->tts_values[kPackCount - 1]);
        pack->is_set_aside = !pack->slot->tts_isnull[kPackRetryAt - 1];
        pack->retry_at =
            pack->is_set_aside ? DatumGetTimestampTz(pack->slot->tts_values[kPackRetryAt - 1]) : 0;
        CHECK_FOR_INTERRUPTS();
        return true;
    }
    return false;
}

void EndPackScan(PackScan *scan) {
    if (!scan->pack.slot)
        return;
    ExecDropSingleTupleTableSlot(scan->pack.slot);
    scan->pack.slot = nullptr;
    if (scan->scan)
        table_endscan(scan->scan);
    scan->scan = nullptr;
}

PackIdentities BeginIdentities(const PackReader *reader, const Pack &pack, bool all) {
    const Queue *queue = reader->queue;
    PackIdentities identities = {.queue = queue};
    identities.arrays = palloc_array(Datum, queue->identity_count);
    identities.values = palloc_array(Datum, queue->identity_count);
    identities.elements = all ? palloc_array(Datum *, queue->identity_count) : nullptr;
    for (int i = 0; i < queue->identity_count; i++) {
        bool isnull;
        Datum stored = slot_getattr(pack.slot, kPackIdentity + i, &isnull);
        ArrayType *array = isnull ? nullptr : DatumGetArrayTypeP(stored);
        if (!array || ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != pack.count ||
            ARR_LBOUND(array)[0] != 1 || ARR_ELEMTYPE(array) != queue->identity[i].type ||
            array_contains_nulls(array))
            elog(ERROR, "a pack of queue \"%s\" is damaged", get_rel_name(queue->cached.relid));
        identities.arrays[i] = PointerGetDatum(array);
        const QueueColumn &column = queue->identity[i];
        int count;
        if (all)
            deconstruct_array(array, column.type, column.length, column.by_value, column.align,
                              &identities.elements[i], nullptr, &count);
    }
    return identities;
}

Datum *IdentityAt(PackIdentities *identities, int place) {
    const Queue *queue = identities->queue;
    for (int i = 0; i < queue->identity_count; i++) {
        const QueueColumn &column = queue->identity[i];
        int subscript = place + 1;
        bool isnull;
        identities->values[i] =
            identities->elements
                ? identities->elements[i][place]
                : array_get_element(identities->arrays[i], 1, &subscript, -1, column.length,
                                    column.by_value, column.align, &isnull);
    }
    return identities->values;
}

bool FindPlaces(const PackReader *reader, const Pack &pack, const WantedKeys &wanted,
                std::span<uint16> *places) {
    KeyHashes hashes;
    if (pack.slot->tts_isnull[kPackKeys - 1] ||
        !ReadHashes(reader->hasher, DatumGetByteaPP(pack.slot->tts_values[kPackKeys - 1]), &hashes))
        return false;
    int found = 0;
    uint16 *all = nullptr;
    for (uint32 hash : std::span(wanted.hashes, wanted.count)) {
        const uint32 *end = hashes.hashes + hashes.count;
        for (const uint32 *at = std::lower_bound(hashes.hashes, end, hash); at < end && *at == hash;
             at++) {
            if (!all)
                all = palloc_array(uint16, hashes.count);
            all[found++] = hashes.places[at - hashes.hashes];
        }
    }
    std::sort(all, all + found);
    *places = std::span(all, std::unique(all, all + found) - all);
    for (uint16 place : *places)
        if (place >= pack.count)
            elog(ERROR, "a pack of queue \"%s\" is damaged",
                 get_rel_name(reader->queue->cached.relid));
    return true;
}

} // namespace index_table
