#include "exec/outer_rows.h"

#include "core/public.h"
#include "exec/pass_through.h"
#include "exec/query_start.h"
#include "exec/scan_ahead.h"

namespace index_table {
namespace {

constexpr int kMostRows = 1000;
constexpr int kGrowth = 4;

struct OuterRows {
    CustomScanState css;
    NestLoopState *join;    // null: nothing is gained from reading ahead
    CustomScanState *inner; // likewise
    TupleTableSlot *slot;
    MemoryContext memory; // of the rows
    MinimalTuple *rows;
    int count;
    int next;
    int limit; // of the next rows read ahead
    bool has_ended;
    uint64 batches;
};

OuterRows *ToOuterRows(CustomScanState *node) {
    return reinterpret_cast<OuterRows *>(node);
}

int FirstRows(const OuterRows *outer) {
    const CustomScan *plan = reinterpret_cast<CustomScan *>(outer->css.ss.ps.plan);
    return Min(kMostRows, linitial_int(plan->custom_private));
}

// The scan on the inner side. Nodes between it and the join yield what they make of its rows alone:
// none sets parameters, or scans twice.
PlanState *FindInnerScan(PlanState *node) {
    while (node) {
        switch (nodeTag(node)) {
        case T_CustomScanState:
            return node;
        case T_SubqueryScanState:
            node = reinterpret_cast<SubqueryScanState *>(node)->subplan;
            break;
        case T_LimitState:
        case T_ResultState:
        case T_SortState:
        case T_IncrementalSortState:
        case T_UniqueState:
        case T_AggState:
        case T_GroupState:
        case T_WindowAggState:
        case T_MemoizeState:
            node = outerPlanState(node);
            break;
        default:
            return nullptr;
        }
    }
    return nullptr;
}

// The parameters that the join sets for each outer row.
Bitmapset *ParametersOf(const NestLoopState *join) {
    Bitmapset *parameters = nullptr;
    ListCell *cell;
    foreach (cell, reinterpret_cast<NestLoop *>(join->js.ps.plan)->nestParams)
        parameters = bms_add_member(parameters, lfirst_node(NestLoopParam, cell)->paramno);
    return parameters;
}

// Those that its inner side has from elsewhere: they stay what they are as long as it runs.
Bitmapset *SteadyParameters(const Plan *join) {
    Bitmapset *parameters = bms_copy(join->extParam);
    ListCell *plan_cell, *cell;
    foreach (plan_cell, join->initPlan)
        foreach (cell, lfirst_node(SubPlan, plan_cell)->setParam)
            parameters = bms_add_member(parameters, lfirst_int(cell));
    return parameters;
}

void Link(CustomScanState *node, PlanState *parent) {
    OuterRows *outer = ToOuterRows(node);
    if (!IsA(parent, NestLoopState))
        return;
    NestLoopState *join = reinterpret_cast<NestLoopState *>(parent);
    CustomScanState *inner =
        reinterpret_cast<CustomScanState *>(FindInnerScan(innerPlanState(parent)));
    if (!inner || !PrepareAhead(inner, ParametersOf(join), SteadyParameters(parent->plan)))
        return;
    outer->join = join;
    outer->inner = inner;
}

void Begin(CustomScanState *node, EState *estate, int flags) {
    OuterRows *outer = ToOuterRows(node);
    BeginPassThrough(node, estate, flags);
    node->ss.ps.resultops = &TTSOpsMinimalTuple;
    node->ss.ps.resultopsfixed = true;
    outer->slot =
        ExecInitExtraTupleSlot(estate, ExecGetResultType(Child(node)), &TTSOpsMinimalTuple);
    outer->memory = AllocSetContextCreate(estate->es_query_cxt, "index_table outer rows",
                                          ALLOCSET_DEFAULT_SIZES);
    outer->rows = palloc_array(MinimalTuple, kMostRows);
    outer->limit = FirstRows(outer);
    if (!estate->es_epq_active)
        LinkToParent(node, Link);
}

// As the join does before it scans its inner side.
void SetParameters(const OuterRows *outer, TupleTableSlot *row) {
    ListCell *cell;
    foreach (cell, reinterpret_cast<NestLoop *>(outer->join->js.ps.plan)->nestParams) {
        const NestLoopParam *parameter = lfirst_node(NestLoopParam, cell);
        ParamExecData *value = &outer->css.ss.ps.state->es_param_exec_vals[parameter->paramno];
        value->value = slot_getattr(row, parameter->paramval->varattno, &value->isnull);
    }
}

// Reads the next rows, and what the inner side has for them.
void Fill(OuterRows *outer) {
    ExecClearTuple(outer->slot);
    MemoryContextReset(outer->memory);
    outer->count = outer->next = 0;
    Size most = static_cast<Size>(work_mem) * 1024 / 2;
    BeginAhead(outer->inner);
    bool has_room = true;
    while (has_room && outer->count < outer->limit &&
           MemoryContextMemAllocated(outer->memory, true) < most) {
        TupleTableSlot *row = ExecProcNode(Child(&outer->css));
        outer->has_ended = TupIsNull(row);
        if (outer->has_ended)
            break;
        MemoryContext caller = MemoryContextSwitchTo(outer->memory);
        MinimalTuple copy = ExecCopySlotMinimalTuple(row);
        MemoryContextSwitchTo(caller);
        outer->rows[outer->count++] = copy;
        SetParameters(outer, ExecStoreMinimalTuple(copy, outer->slot, false));
        has_room = ReadAhead(outer->inner);
    }
    if (outer->count > 0) {
        FetchAhead(outer->inner);
        outer->batches++;
    }
    outer->limit = Min(kMostRows, outer->limit * kGrowth);
}

TupleTableSlot *Execute(CustomScanState *node) {
    OuterRows *outer = ToOuterRows(node);
    if (!outer->inner) {
        TupleTableSlot *row = ExecProcNode(Child(node));
        return TupIsNull(row) ? ExecClearTuple(outer->slot) : ExecCopySlot(outer->slot, row);
    }
    if (outer->next == outer->count && !outer->has_ended)
        Fill(outer);
    if (outer->next == outer->count)
        return ExecClearTuple(outer->slot);
    UseAhead(outer->inner, outer->next);
    return ExecStoreMinimalTuple(outer->rows[outer->next++], outer->slot, false);
}

void End(CustomScanState *node) {
    ExecEndNode(Child(node));
}

void Rescan(CustomScanState *node) {
    OuterRows *outer = ToOuterRows(node);
    ExecClearTuple(outer->slot);
    outer->count = outer->next = 0;
    outer->has_ended = false;
    outer->limit = FirstRows(outer);
    if (outer->inner)
        UseAhead(outer->inner, -1);
    RescanPassThrough(node);
}

void Explain(CustomScanState *node, List *, ExplainState *es) {
    if (es->analyze)
        ExplainPropertyUInteger("Batches", nullptr, ToOuterRows(node)->batches, es);
}

CustomExecMethods exec_methods = {};

Node *CreateState(CustomScan *) {
    return MakeNodeState<OuterRows>(&exec_methods);
}

CustomScanMethods scan_methods = {"Index Table Read Ahead", CreateState};

} // namespace

const CustomScanMethods *OuterRowsMethods() {
    return &scan_methods;
}

void InitializeOuterRows() {
    exec_methods.CustomName = scan_methods.CustomName;
    exec_methods.BeginCustomScan = Begin;
    exec_methods.ExecCustomScan = Execute;
    exec_methods.EndCustomScan = End;
    exec_methods.ReScanCustomScan = Rescan;
    exec_methods.ExplainCustomScan = Explain;
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
