// Which partitions of a table may have a row of which some columns are known.
#pragma once

#include "pg.h"

namespace index_table {

struct RoutedTable;

struct Router {
    Relation root;
    int column_count; // that are known
    const AttrNumber *columns;
    MemoryContext memory;
    RoutedTable *tables; // partitioned ones below the root that were met, and itself
    bool no_wait;        // for locks of those below the root; the caller may set it
    bool is_busy;        // then: a lock was not available, and leaves are missing
};

// The caller keeps `root` open and `columns` valid; partitioned tables below it are locked with
// AccessShareLock until the transaction ends. In the current memory context, to be ended.
void BeginRouter(Router *router, Relation root, const AttrNumber *columns, int count);
// The leaves that may have a row with these values, or may have had it, a list of OIDs in the
// current memory context: where the columns determine it one, and default partitions, which lose
// values to others that are made. Leaves are not locked.
List *FindRoute(Router *router, const Datum *values, const bool *nulls);
void EndRouter(Router *router);

} // namespace index_table
