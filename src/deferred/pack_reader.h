// What a snapshot sees in the queue of an index table.
#pragma once

#include "deferred/page_hashes.h"

namespace index_table {

struct PackReader {
    const IndexTable *table;
    const Queue *queue;
    KeyHasher *hasher;
    Snapshot snapshot;
    Relation parts[kQueueParts];
    LOCKMODE lock;
};

// Opens the queue and locks its parts in `mode`, readers until they close it, others until the
// transaction ends: what is in them is not cleared away meanwhile. False where there is none that
// fits. The snapshot outlives the reader.
bool OpenPackReader(PackReader *reader, const IndexTable *table, Snapshot snapshot, LOCKMODE mode);
void ClosePackReader(PackReader *reader);

// Whether nothing at all is in the queue, for anybody. What this says also counts as read for
// SERIALIZABLE.
bool IsQueueEmpty(const PackReader *reader);
// About how many changes are queued, and in how many packs; from the parts' sizes and a look at
// some pages.
struct QueueSize {
    double blocks;
    double changes;
    double packs;
};
QueueSize EstimateQueue(const PackReader *reader);

// A pack; valid until the next.
struct Pack {
    int part;
    TupleTableSlot *slot;
    int count; // of identities
    bool is_set_aside;
    TimestampTz retry_at; // of those
};

// Calls visit(pack) for each pack that the snapshot sees until it returns false.
template <typename Visit>
void ForEachPack(const PackReader *reader, Visit visit);
// The same of packs that may have a wanted key, and perhaps of others.
template <typename Visit>
void ForEachWantedPack(const PackReader *reader, const WantedKeys &wanted, Visit visit);

// Calls consume(values) with each identity of a pack whose row may have, or have had, a wanted key;
// values are in the order of IndexTable::identity, in the current memory context. The same identity
// may come more than once.
template <typename Consume>
void ForEachIdentity(const PackReader *reader, const Pack &pack, const WantedKeys &wanted,
                     Consume consume);

// Of the templates:
struct PackScan {
    const PackReader *reader;
    const WantedKeys *wanted; // null: all
    int part;
    TableScanDesc scan; // null: the packs are known
    std::span<ItemPointerData> known;
    Size next;
    Pack pack; // its slot: null where no part is being scanned
};
PackScan BeginPackScan(const PackReader *reader, const WantedKeys *wanted);
bool NextPack(PackScan *scan);
void EndPackScan(PackScan *scan);

struct PackIdentities {
    const Queue *queue;
    Datum *arrays;
    Datum **elements; // of all; null: asked for one by one
    Datum *values;
};
PackIdentities BeginIdentities(const PackReader *reader, const Pack &pack, bool all);
Datum *IdentityAt(PackIdentities *identities, int place);
// The places of identities that have a wanted key, in order, each once; false where the pack does
// not tell.
bool FindPlaces(const PackReader *reader, const Pack &pack, const WantedKeys &wanted,
                std::span<uint16> *places);

template <typename Visit>
void ForEachPackOf(PackScan scan, Visit visit) {
    while (NextPack(&scan))
        if (!visit(const_cast<const Pack &>(scan.pack)))
            break;
    EndPackScan(&scan);
}

template <typename Visit>
void ForEachPack(const PackReader *reader, Visit visit) {
    ForEachPackOf(BeginPackScan(reader, nullptr), visit);
}

template <typename Visit>
void ForEachWantedPack(const PackReader *reader, const WantedKeys &wanted, Visit visit) {
    ForEachPackOf(BeginPackScan(reader, &wanted), visit);
}

template <typename Consume>
void ForEachIdentity(const PackReader *reader, const Pack &pack, const WantedKeys &wanted,
                     Consume consume) {
    std::span<uint16> places;
    if (wanted.count >= 0 && FindPlaces(reader, pack, wanted, &places)) {
        if (places.empty())
            return;
        PackIdentities identities = BeginIdentities(reader, pack, false);
        for (uint16 place : places)
            consume(IdentityAt(&identities, place));
        return;
    }
    PackIdentities identities = BeginIdentities(reader, pack, true);
    for (int place = 0; place < pack.count; place++)
        consume(IdentityAt(&identities, place));
}

} // namespace index_table
