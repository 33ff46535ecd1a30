// The index tables with queues that a table's changed rows are queued for, seen from that table.
#pragma once

#include "catalog/public.h"
#include "maintenance/public.h"

namespace index_table {

struct QueuedTable {
    LeafTable table;
    AttrNumber *identity; // in the relation's layout, as IndexTable::identity
};

struct QueuedRelation {
    CachedRelation cached;
    Oid base;
    uint64 base_serial;
    int count;
    QueuedTable *tables;
    bool has_expressions;
    AttrNumber max_attno; // that is looked at
    Bitmapset *generated; // of what is looked at, columns that new rows may come without
};

// Null where there are none (any more). Cached; valid memory until the transaction ends. Damaged
// index tables do not learn of changes.
const QueuedRelation *FindQueuedRelation(Relation rel);

void InitializeQueuedRelations();

} // namespace index_table
