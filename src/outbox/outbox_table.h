// Captured tables: the rows of index_table.captured, and a session cache of what the trigger needs.
//
// The queue of a captured table has the columns number, queued_at, changes, and then an array for
// each identity column, in order, whatever they are called.
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

// A captured table seen from a relation of its tree.
struct Captured {
    CachedRelation cached;
    Oid root;
    Oid queue;
    Oid sequence; // of numbers
    int identity_count;
    IdentityColumn *identity;
    AttrNumber max_attno;
};

// Null where the relation is not captured, nor what it is a partition of. Valid memory until the
// transaction ends. Raises 55000 where the queue is not what capture() made.
const Captured *FindCaptured(Relation rel);

// The table that a relation is captured with: itself, or the topmost table that it is a partition
// of; InvalidOid where it is not captured. Not cached.
Oid CapturedRoot(Oid relid);

// As recorded, not cached. InvalidOid: not captured, no queue.
Oid QueueOf(Oid captured);
Oid CapturedBy(Oid queue);
// Names of the identity columns as recorded, a list of char *.
List *CapturedIdentity(Oid captured);
List *ListCaptured(); // OIDs, those of dropped tables too

// Callers hold ShareRowExclusiveLock on the table.
void InsertCaptured(Oid captured, Oid queue, List *identity);
void DeleteCaptured(Oid captured);
void RenameCapturedColumn(Oid captured, const char *from, const char *to);

void InitializeCapturedCache();

} // namespace index_table
