// Captured changes of one index table, waiting for the end of the statement.
//
// A change is an entry, whole, with +1 or -1. Before it is carried out a batch is netted: +1 and -1
// of the same entry cancel whatever their order (an AFTER trigger of one row may change other rows
// of the statement before their own triggers run), and what is left of one row or one unique key
// becomes an update in place.
//
// Changes carry the transaction nest level they were captured at. A flush takes those of the
// current level only: an outer level's changes, made in a subtransaction, would vanish with it.
#pragma once

#include "catalog/public.h"

namespace index_table {

enum class ChangeKind : int8 { Delete = -1, Insert = 1 };

struct Change {
    uint64 key_prefix;      // of the first key column; orders roughly as the key does
    uint64 identity_prefix; // likewise of the first column after partition_id
    HeapTuple entry;
    uint32 null_mask; // of key, partition number and identity
    uint32 sequence;
    uint32 key_length;      // bytes of the key at the start of the entry's data
    uint32 identity_offset; // where the identity begins there
    uint32 group_length;    // where it ends
    CommandId command;      // of the base row's change
    int32 nest_level;
    ChangeKind kind;
    bool is_linked; // half of the update of a row: a deletion, or the insertion captured next to it
    bool is_kept;   // by a flush before
};

// The deletion of a row that moves to another partition, whose insertion is still to come.
struct OpenHalf {
    uint32 sequence;
    CommandId command;
    int32 nest_level;
};

// An entry in the making: values by attribute number of the index table.
struct EntryValues {
    Datum *values;
    bool *nulls;
};

struct ChangeBuffer {
    ChangeBuffer *next;
    const IndexTable *table; // as of table_serial; memory of this transaction
    uint64 table_serial;
    Oid relid;
    TupleDesc descriptor;          // of the index table
    TupleDesc key_descriptor;      // its first columns: the key
    TupleDesc identity_descriptor; // and partition_id
    TupleDesc group_descriptor;    // and the identity
    const AttrNumber *attnos;      // of the live columns, in order
    MemoryContext context;
    MemoryContext entries; // holds the tuples
    MemoryContext array;   // holds `changes`
    Size entry_bytes;
    Oid user; // with whose rights the changes were captured; InvalidOid: several
    Change *changes;
    uint32 count;
    uint32 capacity;
    uint32 sequence;
    OpenHalf *open_halves; // innermost last
    uint32 open_count;
    uint32 open_capacity;
    uint32 wait_until; // entries on servers are not written earlier while a statement runs
    int32 held_level;  // of nesting at which HoldChanges() was called; 0: nowhere
};

// What a netted batch comes to. Replacements pair old[i] with replacement[i].
struct NetChanges {
    Change *deletes;
    uint32 delete_count;
    Change *inserts;
    uint32 insert_count;
    Change *replaced;
    Change *replacements;
    uint32 replace_count;
    uint32 linked_count; // the first ones are updates of single rows
};

// The buffer of an index table; made when there is none. Buffers outlive transactions, empty. Null
// where the index table has just been dropped.
ChangeBuffer *GetChangeBuffer(const IndexTable *table);
ChangeBuffer *FirstChangeBuffer();
ChangeBuffer *FindChangeBuffer(Oid index_table);

// Changes when a buffer ceases to exist.
uint64 ChangeBufferGeneration();

// Adds a change. Values are copied, toasted ones in full.
void AddChange(ChangeBuffer *buffer, const EntryValues &entry, ChangeKind kind, CommandId command);

// How many changes were ever captured.
uint64 CapturedChanges();

// Whether so much is captured that it should be flushed inside the statement.
bool IsFull(const ChangeBuffer *buffer);

// Whether the two halves of a row's update stay together when its key changes, in an update in
// place of the entry (linked_updates.h), and whether open halves wait in the buffer.
enum class Linking : uint8 { None, HoldHalves, AllHalves };

// Takes the changes of the current nest level out of the buffer and nets them. The arrays and
// tuples belong to `batch`, which the caller deletes. Replacements are to be carried out in order.
NetChanges TakeChanges(ChangeBuffer *buffer, MemoryContext batch, Linking linking);

// Puts back a deletion whose entry is not there yet, for the insertion may still be captured, or
// what would take a key that may still be given up.
void KeepUnmatched(ChangeBuffer *buffer, const Change &change);
// The same for both halves of an update.
void KeepUnmatched(ChangeBuffer *buffer, const Change &old_change, const Change &new_change);

// Carries a buffer's changes into the index table though it is being built. Raises 23505 where a
// unique key repeats.
void ApplyChanges(ChangeBuffer *buffer);
// Until then nothing else flushes the buffer, whatever statements functions in keys run.
void HoldChanges(ChangeBuffer *buffer);

#ifdef USE_ASSERT_CHECKING
// For Assert: whether nothing is captured.
bool AreBuffersEmpty();
#endif

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactChangeBuffers();
void AtEOSubXactChangeBuffers(bool commits, int level);

} // namespace index_table
