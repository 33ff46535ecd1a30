#include "exec/pass_through.h"

namespace index_table {

Path *MakePassThroughPath(RelOptInfo *rel, Path *child, const CustomPathMethods *methods,
                          List *custom_private) {
    CustomPath *path = makeNode(CustomPath);
    path->path = *child;
    path->path.type = T_CustomPath;
    path->path.pathtype = T_CustomScan;
    path->path.parent = rel;
    path->path.parallel_aware = false;
    path->methods = methods;
    path->custom_paths = list_make1(child);
    path->custom_private = custom_private;
    return &path->path;
}

Plan *PlanPassThrough(CustomPath *path, List *target_list, List *children,
                      const CustomScanMethods *methods) {
    Assert(list_length(children) == 1);
    CustomScan *scan = makeNode(CustomScan);
    Plan *child = static_cast<Plan *>(linitial(children));
    scan->scan.plan.targetlist = target_list;
    scan->flags = path->flags;
    scan->methods = methods;
    scan->custom_plans = children;
    scan->custom_scan_tlist = static_cast<List *>(copyObjectImpl(child->targetlist));
    scan->custom_private = path->custom_private;
    return &scan->scan.plan;
}

PlanState *Child(CustomScanState *node) {
    return static_cast<PlanState *>(linitial(node->custom_ps));
}

void BeginPassThrough(CustomScanState *node, EState *estate, int flags) {
    CustomScan *scan = reinterpret_cast<CustomScan *>(node->ss.ps.plan);
    PlanState *child =
        ExecInitNode(static_cast<Plan *>(linitial(scan->custom_plans)), estate, flags);
    node->custom_ps = list_make1(child);
    node->ss.ps.resultops = ExecGetResultSlotOps(child, &node->ss.ps.resultopsfixed);
    node->ss.ps.resultopsset = true;
}

void RescanPassThrough(CustomScanState *node) {
    PlanState *child = Child(node);
    if (node->ss.ps.chgParam)
        UpdateChangedParamSet(child, node->ss.ps.chgParam);
    if (!child->chgParam)
        ExecReScan(child);
}

} // namespace index_table
