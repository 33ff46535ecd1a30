#include "deferred/pack_writer.h"

#include "core/public.h"

namespace index_table {
namespace {

constexpr int kPackSize = 500;     // identities
constexpr Size kPackBytes = 7000;  // so that most packs are not toasted
constexpr int kMaxPlaces = 0xffff; // of a hash

// Whoever empties a part keeps writers out of it, who take the other one. Null where it has been
// dropped.
Relation OpenPart(const Queue *queue, Oid avoided) {
    for (Oid part : queue->parts)
        if (part != avoided && ConditionalLockRelationOid(part, RowExclusiveLock))
            return try_relation_open(part, NoLock);
    return try_relation_open(queue->parts[queue->parts[0] == avoided], RowExclusiveLock);
}

// Null where the index table has been dropped, perhaps while its queue was waited for.
const Queue *OpenQueue(const IndexTable *table, Oid avoided, Relation *part) {
    for (;;) {
        const Queue *queue = FindQueue(table);
        *part = queue ? OpenPart(queue, avoided) : nullptr;
        if (*part)
            return queue;
        if (!OidIsValid(RecordedBase(table->relid)) ||
            !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->relid)))
            return nullptr;
        if (!queue)
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("the queue of index table \"%s\" is gone", get_rel_name(table->relid)),
                     errhint("index_table.repair() makes it anew.")));
        CHECK_FOR_INTERRUPTS();
    }
}

struct Failure {
    const char *error;
    int tries;
    TimestampTz retry_at;
};

void WritePack(PackWriter *writer, const Failure *failure) {
    FAULT_POINT("pack_writer.write_pack");
    const Queue *queue = writer->queue;
    MemoryContext caller = MemoryContextSwitchTo(writer->pack);
    TupleDesc descriptor = RelationGetDescr(writer->part);
    Datum *values = palloc0_array(Datum, descriptor->natts);
    bool *nulls = palloc_array(bool, descriptor->natts);
    memset(nulls, true, descriptor->natts);
    auto put = [=](AttrNumber attno, Datum value) {
        values[attno - 1] = value;
        nulls[attno - 1] = false;
    };
    put(kPackPart, Int16GetDatum(RelationGetRelid(writer->part) == queue->parts[0] ? 1 : 2));
    put(kPackTime, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()));
    put(kPackCount, Int32GetDatum(writer->count));
    if (writer->hasher->is_usable && !failure)
        put(kPackKeys, PointerGetDatum(PackHashes(writer->hasher, writer->hashes, writer->places,
                                                  writer->hash_count)));
    if (failure) {
        put(kPackError, CStringGetTextDatum(failure->error));
        put(kPackTries, Int32GetDatum(failure->tries));
        put(kPackRetryAt, TimestampTzGetDatum(failure->retry_at));
    }
    for (int i = 0; i < queue->identity_count; i++) {
        const QueueColumn &column = queue->identity[i];
        put(kPackIdentity + i,
            PointerGetDatum(construct_array(writer->identities[i], writer->count, column.type,
                                            column.length, column.by_value, column.align)));
    }
    heap_insert(writer->part, heap_form_tuple(descriptor, values, nulls), GetCurrentCommandId(true),
                0, nullptr);
    pgstat_count_heap_insert(writer->part, 1);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(writer->pack);
    writer->count = writer->hash_count = 0;
    writer->bytes = 0;
}

// What the function leaves behind, such as values without their short headers, does not last.
uint32 Hash(PackWriter *writer, Datum value, bool isnull) {
    MemoryContext caller = MemoryContextSwitchTo(writer->scratch);
    uint32 hash = HashKey(writer->hasher, value, isnull);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(writer->scratch);
    return hash;
}

} // namespace

PackWriter *OpenPackWriter(const IndexTable *table, Oid avoided) {
    Relation part;
    const Queue *queue = OpenQueue(table, avoided, &part);
    if (!queue)
        return nullptr;
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table packs", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    PackWriter *writer = palloc0_object(PackWriter);
    writer->table = table;
    writer->memory = memory;
    writer->queue = queue;
    writer->hasher = GetKeyHasher(table);
    writer->pack = AllocSetContextCreate(memory, "index_table pack", ALLOCSET_DEFAULT_SIZES);
    writer->scratch = AllocSetContextCreate(memory, "index_table hash", ALLOCSET_SMALL_SIZES);
    writer->part = part;
    writer->identities = palloc0_array(Datum *, queue->identity_count);
    MemoryContextSwitchTo(caller);
    return writer;
}

void AddIdentity(PackWriter *writer, const Datum *values, const bool *nulls) {
    const Queue *queue = writer->queue;
    if (writer->count == writer->limit) {
        int grown = writer->limit == 0 ? 4 : Min(kPackSize, writer->limit * 8);
        for (int i = 0; i < queue->identity_count; i++) {
            Datum *larger =
                static_cast<Datum *>(MemoryContextAlloc(writer->memory, sizeof(Datum) * grown));
            std::copy(writer->identities[i], writer->identities[i] + writer->count, larger);
            writer->identities[i] = larger;
        }
        writer->limit = grown;
    }
    MemoryContext caller = MemoryContextSwitchTo(writer->pack);
    for (int i = 0; i < queue->identity_count; i++) {
        const QueueColumn &column = queue->identity[i];
        if (nulls[i])
            ereport(ERROR,
                    (errcode(ERRCODE_NOT_NULL_VIOLATION),
                     errmsg("null value in column \"%s\", by which index table \"%s\" finds "
                            "rows of \"%s\"",
                            get_attname(writer->table->base, writer->table->identity[i].base_attno,
                                        true),
                            get_rel_name(writer->table->relid), get_rel_name(writer->table->base)),
                     errhint("Declare it NOT NULL.")));
        Datum value = values[i];
        if (!column.by_value) {
            value = column.length == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value))
                                        : datumCopy(value, false, column.length);
            writer->bytes += datumGetSize(value, false, column.length);
        } else
            writer->bytes += sizeof(Datum);
        writer->identities[i][writer->count] = value;
    }
    MemoryContextSwitchTo(caller);
    writer->count++;
}

void AddKey(PackWriter *writer, Datum value, bool isnull) {
    if (!writer->hasher->is_usable)
        return;
    uint32 hash = Hash(writer, value, isnull);
    if (writer->hash_count == writer->hash_capacity) {
        int grown = Max(8, writer->hash_capacity * 4);
        uint32 *hashes = static_cast<uint32 *>(
            MemoryContextAlloc(writer->memory, (sizeof(uint32) + sizeof(uint16)) * grown));
        uint16 *places = reinterpret_cast<uint16 *>(hashes + grown);
        std::copy(writer->hashes, writer->hashes + writer->hash_count, hashes);
        std::copy(writer->places, writer->places + writer->hash_count, places);
        writer->hashes = hashes;
        writer->places = places;
        writer->hash_capacity = grown;
    }
    writer->hashes[writer->hash_count] = hash;
    writer->places[writer->hash_count++] = writer->count - 1;
}

void FinishIdentity(PackWriter *writer) {
    static_assert(kPackSize < kMaxPlaces);
    // Each key of the identity once: most rows have the same before and after.
    int first = writer->hash_count;
    while (first > 0 && writer->places[first - 1] == writer->count - 1)
        first--;
    uint32 *begin = writer->hashes + first, *end = writer->hashes + writer->hash_count;
    std::sort(begin, end);
    int kept = static_cast<int>(std::unique(begin, end) - begin);
    writer->hash_count = first + kept;
    writer->bytes += (sizeof(uint32) + sizeof(uint16)) * kept;
    // One more of the kind would be too much.
    if (writer->count == kPackSize || writer->bytes + writer->bytes / writer->count > kPackBytes)
        WritePack(writer, nullptr);
}

void ClosePackWriter(PackWriter *writer) {
    if (writer->count > 0)
        WritePack(writer, nullptr);
    table_close(writer->part, NoLock);
    MemoryContextDelete(writer->memory);
}

void AppendFailed(PackWriter *writer, const Datum *values, const char *error, int tries,
                  TimestampTz retry_at) {
    Assert(writer->count == 0);
    bool nulls[INDEX_MAX_KEYS] = {};
    AddIdentity(writer, values, nulls);
    Failure failure = {.error = error, .tries = tries, .retry_at = retry_at};
    WritePack(writer, &failure);
}

} // namespace index_table
