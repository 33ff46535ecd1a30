#include "conflict/returning.h"

#include "conflict/conflict_node.h"
#include "conflict/conflict_plan.h"
#include "core/public.h"
#include "exec/public.h"

namespace index_table {
namespace {

Node *CreateState(CustomScan *);

CustomScanMethods scan_methods = {"Index Table Returning", CreateState};
CustomExecMethods exec_methods;

// --- Planning ----------------------------------------------------------------

// The columns of the node below, as the node above sees them.
List *PassOn(List *below) {
    List *above = NIL;
    ListCell *cell;
    foreach (cell, below) {
        TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
        Node *column = reinterpret_cast<Node *>(entry->expr);
        entry->expr =
            reinterpret_cast<Expr *>(makeVar(INDEX_VAR, entry->resno, exprType(column),
                                             exprTypmod(column), exprCollation(column), 0));
        above = lappend(above, entry);
    }
    return above;
}

// The plan is finished: nobody will look at the columns any more but who runs and explains it.
Plan *WithReturning(Plan *plan) {
    if (!plan || !IsA(plan, ModifyTable) || !IsConflictCheck(outerPlan(plan)))
        return plan;
    ModifyTable *modify = reinterpret_cast<ModifyTable *>(plan);
    if (modify->returningLists == NIL || modify->onConflictAction != ONCONFLICT_UPDATE)
        return plan;
    CustomScan *scan = makeNode(CustomScan);
    scan->scan.plan = *plan;
    scan->scan.plan.type = T_CustomScan;
    scan->scan.plan.targetlist = PassOn(plan->targetlist);
    scan->scan.plan.lefttree = nullptr;
    modify->plan.initPlan = NIL; // the columns refer to them: they belong to the topmost node
    scan->methods = &scan_methods;
    scan->custom_plans = list_make1(plan);
    scan->custom_scan_tlist = plan->targetlist;
    return &scan->scan.plan;
}

// --- Executing ---------------------------------------------------------------

struct Returning {
    CustomScanState css;
    PlanState *check;
    Tuplestorestate *updated; // rows to be returned before `inserted`; null: none
    TupleTableSlot *inserted;
    TupleTableSlot *slot;
};

Returning *ToReturning(CustomScanState *node) {
    return reinterpret_cast<Returning *>(node);
}

void Begin(CustomScanState *node, EState *estate, int flags) {
    Returning *self = ToReturning(node);
    const CustomScan *scan = reinterpret_cast<CustomScan *>(node->ss.ps.plan);
    PlanState *modify =
        ExecInitNode(static_cast<Plan *>(linitial(scan->custom_plans)), estate, flags);
    node->custom_ps = list_make1(modify);
    self->check = outerPlanState(modify);
    self->slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(modify), &TTSOpsMinimalTuple);
    // Rows come from either node.
    node->ss.ps.resultopsset = true;
    node->ss.ps.resultopsfixed = false;
}

TupleTableSlot *Execute(CustomScanState *node) {
    Returning *self = ToReturning(node);
    if (!self->updated) {
        self->inserted = ExecProcNode(Child(node));
        self->updated = RowsReturnedByUpdates(self->check);
    }
    if (!self->updated)
        return self->inserted;
    if (tuplestore_gettupleslot(self->updated, true, false, self->slot))
        return self->slot;
    tuplestore_clear(self->updated);
    self->updated = nullptr;
    return self->inserted;
}

void End(CustomScanState *node) {
    ExecEndNode(Child(node));
}

Node *CreateState(CustomScan *) {
    return MakeNodeState<Returning>(&exec_methods);
}

} // namespace

void AddReturning(PlannedStmt *plan) {
    plan->planTree = WithReturning(plan->planTree);
    ListCell *cell;
    foreach (cell, plan->subplans)
        lfirst(cell) = WithReturning(static_cast<Plan *>(lfirst(cell)));
}

void InitializeReturning() {
    exec_methods.CustomName = scan_methods.CustomName;
    exec_methods.BeginCustomScan = Begin;
    exec_methods.ExecCustomScan = Execute;
    exec_methods.EndCustomScan = End;
    exec_methods.ReScanCustomScan = RescanPassThrough;
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
