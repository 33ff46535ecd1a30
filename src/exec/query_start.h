// Nodes of ours that have to know more of a query than PostgreSQL tells them when they begin: the
// node above them, and whether the whole query may run in parallel.
#pragma once

#include "pg.h"

namespace index_table {

// What the nodes of a query that is being started have asked for.
struct QueryStart {
    bool is_active;          // a query is being started
    List *links;             // of ParentLink
    bool needs_this_backend; // see RequireThisBackend
};

// Around the start of each query, which may start others (partitions are pruned by functions);
// returns what EndQueryStart() is to be given, also after an error. In between, when the query has
// been started, FinishQueryStart() does what was asked for.
QueryStart BeginQueryStart();
void FinishQueryStart(QueryDesc *query);
void EndQueryStart(const QueryStart &outer);

// When the query has been started, `link` is called with the node and the one above it, in the
// query's memory. REQUIRES a query that is being started.
using ParentLink = void (*)(CustomScanState *node, PlanState *parent);
void LinkToParent(CustomScanState *node, ParentLink link);

// The query being started must not use parallel workers: what it rests on is in this backend.
void RequireThisBackend();

} // namespace index_table
