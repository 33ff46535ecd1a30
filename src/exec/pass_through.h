// What custom nodes that pass on the rows of the node below them have in common.
#pragma once

#include "pg.h"

namespace index_table {

// A path like `child`, which it has below it.
Path *MakePassThroughPath(RelOptInfo *rel, Path *child, const CustomPathMethods *methods,
                          List *custom_private);

// For PlanCustomPath.
Plan *PlanPassThrough(CustomPath *path, List *target_list, List *children,
                      const CustomScanMethods *methods);

// The state of a custom node, whose first member is a CustomScanState called css.
template <typename State>
Node *MakeNodeState(const CustomExecMethods *methods) {
    State *state = reinterpret_cast<State *>(newNode(sizeof(State), T_CustomScanState));
    state->css.methods = methods;
    return reinterpret_cast<Node *>(state);
}

// The node below.
PlanState *Child(CustomScanState *node);
// For BeginCustomScan: starts the node below, whose slot becomes the node's own.
void BeginPassThrough(CustomScanState *node, EState *estate, int flags);
// For ReScanCustomScan.
void RescanPassThrough(CustomScanState *node);

} // namespace index_table
