// Rows that a queue names by their identities, and the entries that they have.
#pragma once

#include "exec/leaf_reader.h"
#include "maintenance/public.h"

namespace index_table {

// A leaf that may have such rows.
struct QueuedLeaf {
    QueuedLeaf *next;
    Oid relid;
    int32 partition_id; // 0: it has none, and no entries
    EntryMaker *maker;
    bool is_busy; // not locked, because another session has locked it
};

struct QueuedRows {
    const IndexTable *table;
    Router router;
    AttrNumber *columns; // of the router: the identity's
    LeafReader reader;
    QueuedLeaf *leaves; // that were met
    MemoryContext memory;
    ExprContext *context; // of the makers
};

// As BeginLeafReader(). In the current memory context.
void BeginQueuedRows(QueuedRows *rows, const IndexTable *table, Relation base, Snapshot snapshot,
                     LOCKMODE lock);
void EndQueuedRows(QueuedRows *rows);

// The leaves that may have rows with an identity, or may have had them, a list of QueuedLeaf * in
// the current memory context: as a rule one.
List *FindQueuedLeaves(QueuedRows *rows, const Datum *identity);

// Locks those leaves without waiting for the locks of others. False where one is not available:
// what was locked stays locked.
bool TryLockQueuedLeaves(QueuedRows *rows, const Datum *identity);

// Whether the row just read has an identity: a leaf may lack an index over all of its columns.
bool HasIdentity(const QueuedRows *rows, const OpenLeaf *open, const Datum *identity);

// Calls consume(values, nulls) for each entry that a leaf's rows with an identity have. The values,
// by position, live until the next call. Raises what key expressions raise; the caller is in
// EnterOwner() of the base table, whose owner they are evaluated as.
template <typename Consume>
void ForEachQueuedEntry(QueuedRows *rows, QueuedLeaf *leaf, const Datum *identity,
                        Consume consume) {
    OpenLeaf *open = leaf->partition_id != 0 ? GetLeaf(&rows->reader, leaf->partition_id) : nullptr;
    if (!open)
        return;
    bool nulls[INDEX_MAX_KEYS] = {};
    SeekRows(&rows->reader, open, identity, nulls);
    bool is_found_by_all = open->index && open->key_count == rows->table->identity_count;
    while (NextRow(&rows->reader, open)) {
        if (is_found_by_all || HasIdentity(rows, open, identity))
            ForEachEntry(leaf->maker, open->slot, consume);
        ResetExprContext(rows->context);
    }
}

} // namespace index_table
