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

// The node below.
PlanState *Child(CustomScanState *node);
// For BeginCustomScan: starts the node below, whose slot becomes the node's own.
void BeginPassThrough(CustomScanState *node, EState *estate, int flags);
// For ReScanCustomScan.
void RescanPassThrough(CustomScanState *node);

} // namespace index_table
