// The queue of a foreign partition: the outbox on the server that has its rows, read and discarded
// through a connection of its own.
#pragma once

#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {

// A foreign partition whose table is captured on its server.
struct ShardQueue {
    Oid relid;
    Relation rel; // open, with the caller's lock
    const Leaf *leaf;
    ShardConnection *connection; // null: the partition is not foreign
    const char *table;           // its name on the server, or here
    int identity_count;          // columns of the identity there
    AttrNumber *identity;        // in the partition
    int column_count;            // that are read: what entries are made of, and the identity
    AttrNumber *columns;
    FmgrInfo *inputs; // of their types
    Oid *parameters;  // likewise
    const char *list; // as SQL, each preceded by %s
};

// A row of the partition whose change was queued.
struct QueuedRow {
    int64 number;
    Datum *identity;
    bool exists;
    Datum *values; // of the partition's columns; all but those that are read are NULL
    bool *nulls;
    bool is_contended; // a transaction in progress may be changing its entries
    const char *error; // why it could not be entered; null: it was
};

struct QueueBatch {
    const char *life; // of the server, in which its numbers may be discarded
    int number_count;
    int64 *numbers; // each once
    bool reload;    // rows came or went that are not among `rows`
    int row_count;
    QueuedRow *rows;
};

// Connects as `user`. `identity` keeps the names of the identity's columns there from one call to
// the next; NIL: they are asked for. False where the table has no outbox. Raises what
// OpenConnection and statements raise; 42P16 where the identity there has columns that entries here
// have not. In the current memory context.
bool OpenQueue(ShardQueue *queue, Relation rel, const Leaf *leaf, Oid user, List **identity);

// The same without a queue: rows are found by columns of the partition. False where one of them is
// not there, or not in the identity of every index table.
// A partition that is no foreign table is read here.
bool OpenShard(ShardQueue *queue, Relation rel, const Leaf *leaf, Oid user, List *identity);

// The oldest changes, and their rows as they are now, in the current memory context.
QueueBatch ReadBatch(const ShardQueue *queue, int size);
// One row, by the text of its identity.
QueuedRow ReadRow(const ShardQueue *queue, List *identity);
// The rows with the given identities, each once: an array literal for each column of the identity.
QueuedRow *ReadRows(const ShardQueue *queue, const char *const *identities, int *count);
// Text of an identity, as an array of text.
char *IdentityText(const ShardQueue *queue, const QueuedRow &row);
// Removes the numbers of a batch from the queue, those of rows that are contended excepted. False
// where the server is another by now, or has crashed: what was read is to be read again.
bool DiscardBatch(const ShardQueue *queue, const QueueBatch &batch);

} // namespace index_table
