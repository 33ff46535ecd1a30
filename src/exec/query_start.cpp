#include "exec/query_start.h"

#include "core/public.h"

namespace index_table {
namespace {

constinit QueryStart starting = {};

struct Link {
    CustomScanState *node;
    ParentLink link;
};

bool LinkChildren(PlanState *parent, void *context) {
    if (!parent)
        return false;
    ListCell *cell;
    foreach (cell, starting.links) {
        const Link *link = static_cast<Link *>(lfirst(cell));
        if (outerPlanState(parent) == &link->node->ss.ps)
            link->link(link->node, parent);
    }
    return compat::WalkPlanStates(parent, LinkChildren, context);
}

void LinkNodes(QueryDesc *query) {
    MemoryContext caller = MemoryContextSwitchTo(query->estate->es_query_cxt);
    ListCell *cell;
    LinkChildren(query->planstate, nullptr);
    foreach (cell, query->estate->es_subplanstates)
        LinkChildren(static_cast<PlanState *>(lfirst(cell)), nullptr);
    MemoryContextSwitchTo(caller);
}

void ForbidWorkers(QueryDesc *query) {
    // The plan may be in a cache.
    PlannedStmt *alone = makeNode(PlannedStmt);
    *alone = *query->plannedstmt;
    alone->parallelModeNeeded = false;
    query->plannedstmt = alone;
}

} // namespace

QueryStart BeginQueryStart() {
    QueryStart outer = starting;
    starting = {.is_active = true};
    return outer;
}

void FinishQueryStart(QueryDesc *query) {
    Assert(starting.is_active && query->planstate);
    if (starting.links != NIL)
        LinkNodes(query);
    if (starting.needs_this_backend && query->plannedstmt->parallelModeNeeded)
        ForbidWorkers(query);
}

void EndQueryStart(const QueryStart &outer) {
    Assert(starting.is_active);
    starting = outer;
}

void LinkToParent(CustomScanState *node, ParentLink link) {
    Assert(starting.is_active);
    Link *wanted = palloc_object(Link);
    *wanted = {.node = node, .link = link};
    starting.links = lappend(starting.links, wanted);
}

void RequireThisBackend() {
    Assert(starting.is_active);
    starting.needs_this_backend = true;
}

} // namespace index_table
