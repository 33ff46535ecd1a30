#include "exec/pass_through.h"

#include "exec/row_switch.h"

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

namespace {

bool IsSubqueryOfSet(const TargetEntry *column) {
    return IsA(column->expr, SubPlan) &&
           reinterpret_cast<SubPlan *>(column->expr)->subLinkType == MULTIEXPR_SUBLINK;
}

// The columns get a node below of their own, which is never run.
void ShowSubqueries(CustomScan *scan) {
    bool has_some = false;
    List *shown = NIL;
    ListCell *cell;
    foreach (cell, scan->custom_scan_tlist) {
        TargetEntry *column = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
        has_some = has_some || IsSubqueryOfSet(column);
        Node *expr = reinterpret_cast<Node *>(column->expr);
        if (!IsA(expr, Var) && !IsA(expr, SubPlan))
            column->expr =
                reinterpret_cast<Expr *>(makeVar(OUTER_VAR, column->resno, exprType(expr),
                                                 exprTypmod(expr), exprCollation(expr), 0));
        shown = lappend(shown, column);
    }
    if (!has_some)
        return;
    Result *columns = makeNode(Result);
    columns->plan.targetlist = scan->custom_scan_tlist;
    scan->scan.plan.lefttree = &columns->plan;
    scan->custom_scan_tlist = shown;
}

void ShowSubqueries(Plan *plan) {
    Plan *below = plan && IsA(plan, ModifyTable) ? outerPlan(plan) : nullptr;
    if (!below || !IsA(below, CustomScan))
        return;
    CustomScan *scan = reinterpret_cast<CustomScan *>(below);
    if (scan->methods == RowSwitchMethods() && !outerPlan(below))
        ShowSubqueries(scan);
}

} // namespace

void ShowSubqueries(PlannedStmt *plan) {
    ShowSubqueries(plan->planTree);
    ListCell *cell;
    foreach (cell, plan->subplans)
        ShowSubqueries(static_cast<Plan *>(lfirst(cell)));
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
