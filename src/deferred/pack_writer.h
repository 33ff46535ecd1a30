// Appending packs to the queue of an index table.
#pragma once

#include "deferred/key_hashes.h"

namespace index_table {

struct PackWriter {
    const IndexTable *table;
    const Queue *queue;
    KeyHasher *hasher;
    Relation part; // locked until the transaction ends
    MemoryContext memory;
    MemoryContext pack;    // of the identities of the pack being filled
    MemoryContext scratch; // of hash functions
    int limit;             // of identities in a pack
    int count;
    Size bytes;
    Datum **identities; // by column, then by place in the pack
    int hash_count;
    int hash_capacity;
    uint32 *hashes;
    uint16 *places;
};

// Opens that part of the queue which is not being emptied; not `avoided`, if that is valid. In the
// current memory context. Null where the index table has been dropped meanwhile; raises 55000 where
// only its queue is gone.
PackWriter *OpenPackWriter(const IndexTable *table, Oid avoided = InvalidOid);
// Adds an identity, its values in the order of IndexTable::identity; they are copied. Raises 23502
// for a null.
void AddIdentity(PackWriter *writer, const Datum *values, const bool *nulls);
// Adds a key that the identity added last had or has.
void AddKey(PackWriter *writer, Datum value, bool isnull);
// Makes room for another identity, after what belongs to the last one was added.
void FinishIdentity(PackWriter *writer);
void ClosePackWriter(PackWriter *writer);

// Appends one identity that is set aside.
void AppendFailed(PackWriter *writer, const Datum *values, const char *error, int tries,
                  TimestampTz retry_at);

} // namespace index_table
