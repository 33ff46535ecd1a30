// Outboxes: the rows of index_table.captured, and a session cache of what the trigger needs.
//
// The queue of a table with an outbox has the columns number, queued_at, changes, and then an array
// for each identity column, in order, whatever they are called.
#pragma once

#include "core/public.h"

namespace index_table {

constexpr AttrNumber kQueueNumber = 1;   // bigint, never used twice, in no particular order
constexpr AttrNumber kQueueQueuedAt = 2; // timestamptz
constexpr AttrNumber kQueueChanges = 3;  // integer: the length of the arrays; 0: reload
constexpr AttrNumber kQueueIdentity = 4; // the first array

struct IdentityColumn {
    AttrNumber attno; // in the layout of the relation
    Oid type;         // as the queue stores it
    int16 length;
    bool by_value;
    char align;
};

// The outbox of a table, seen from a relation of its tree.
struct Outbox {
    CachedRelation cached;
    Oid root;
    Oid queue;
    Oid sequence; // of numbers
    int identity_count;
    IdentityColumn *identity;
    AttrNumber max_attno;
    Bitmapset *generated; // of the identity, columns that new rows may come without
};

// Null where neither the relation nor what it is a partition of has one. Valid memory until the
// transaction ends. Raises 55000 where the queue is not what capture() made.
const Outbox *FindOutbox(Relation rel);

// The table whose outbox a relation shares: itself, or the topmost table that it is a partition
// of; InvalidOid where there is none. Not cached.
Oid OutboxRoot(Oid relid);

// Whether a queue that a dump names for a table is like what capture() makes. `identity`: an array
// of name.
bool FitsOutbox(Oid source, Oid queue, Datum identity);

// As recorded, not cached. InvalidOid: no outbox, no queue.
Oid QueueOf(Oid source);
Oid OutboxSource(Oid queue);
// Names of the identity columns as recorded, a list of char *.
List *OutboxIdentity(Oid source);
List *ListOutboxTables(); // OIDs, those of dropped tables too

// Callers hold ShareRowExclusiveLock on the table.
void InsertOutbox(Oid source, Oid queue, List *identity);
void DeleteOutbox(Oid source);
void RenameOutboxColumn(Oid source, const char *from, const char *to);

void InitializeOutboxCache();

} // namespace index_table
