#include "exec/row_switch.h"

#include "core/public.h"
#include "exec/pass_through.h"
#include "exec/query_start.h"
#include "catalog/public.h"
#include "exec/row_use.h"

namespace index_table {
namespace {

Node *CreateState(CustomScan *);

CustomScanMethods scan_methods = {"Index Table Row Switch", CreateState};
CustomExecMethods exec_methods;

// --- Switching ---------------------------------------------------------------

// A partition that rows have come from.
struct SwitchedLeaf {
    Oid relid;
    Relation rel;
    ResultRelInfo *result;    // for the target
    AttrMap *map;             // its columns for the base table's; null: the same layout
    TupleTableSlot *epq_slot; // where a row that others have changed is looked at again
    compat::RenamedColumns updated_columns;
};

// What is switched for one relation of the query.
struct Switch {
    Index rowmark;     // 0: the target
    AttrNumber column; // of the child's rows, with the partition
    // Of the node above, found when the query has been started:
    ModifyTableState *modify; // for the target
    const ModifyTable *plan;  // its plan
    ExecRowMark *mark;        // for a row mark
    EPQState *epq;
    Index rti;
    Relation base;
    int capacity; // of the array of result relations
    NumberMap leaves;
    List *opened; // all leaves
    SwitchedLeaf *current;
};

struct RowSwitch {
    CustomScanState css;
    List *switches;
};

RowSwitch *ToSwitch(CustomScanState *node) {
    return reinterpret_cast<RowSwitch *>(node);
}

List *MapColumns(List *columns, const AttrMap *map) {
    if (!map)
        return columns;
    List *mapped = NIL;
    ListCell *cell;
    foreach (cell, columns)
        mapped = lappend_int(mapped, map->attnums[lfirst_int(cell) - 1]);
    return mapped;
}

// An expression over the base table's columns, for the leaf's.
template <typename T>
T *MapExpression(const Switch *self, const SwitchedLeaf *leaf, T *expression) {
    if (!leaf->map || !expression)
        return expression;
    bool has_whole_row;
    return reinterpret_cast<T *>(
        map_variable_attnos(reinterpret_cast<Node *>(expression), self->rti, 0, leaf->map,
                            RelationGetForm(leaf->rel)->reltype, &has_whole_row));
}

void InitChecks(const Switch *self, const SwitchedLeaf *leaf, ResultRelInfo *result) {
    if (self->plan->withCheckOptionLists == NIL)
        return;
    result->ri_WithCheckOptions =
        MapExpression(self, leaf, static_cast<List *>(linitial(self->plan->withCheckOptionLists)));
    ListCell *cell;
    foreach (cell, result->ri_WithCheckOptions) {
        List *qual = reinterpret_cast<List *>(lfirst_node(WithCheckOption, cell)->qual);
        result->ri_WithCheckOptionExprs =
            lappend(result->ri_WithCheckOptionExprs, ExecInitQual(qual, &self->modify->ps));
    }
}

void InitReturning(const Switch *self, const SwitchedLeaf *leaf, ResultRelInfo *result) {
    ModifyTableState *modify = self->modify;
    if (self->plan->returningLists == NIL)
        return;
    result->ri_returningList =
        MapExpression(self, leaf, static_cast<List *>(linitial(self->plan->returningLists)));
    result->ri_projectReturning = ExecBuildProjectionInfo(
        result->ri_returningList, modify->ps.ps_ExprContext, modify->ps.ps_ResultTupleSlot,
        &modify->ps, RelationGetDescr(leaf->rel));
}

void InitUpdate(const Switch *self, const SwitchedLeaf *leaf, ResultRelInfo *result) {
    ModifyTableState *modify = self->modify;
    EState *estate = modify->ps.state;
    result->ri_oldTupleSlot = table_slot_create(leaf->rel, &estate->es_tupleTable);
    result->ri_newTupleSlot = table_slot_create(leaf->rel, &estate->es_tupleTable);
    result->ri_projectNew = ExecBuildUpdateProjection(
        outerPlan(self->plan)->targetlist, false,
        MapColumns(static_cast<List *>(linitial(self->plan->updateColnosLists)), leaf->map),
        RelationGetDescr(leaf->rel), modify->ps.ps_ExprContext, result->ri_newTupleSlot,
        &modify->ps);
    result->ri_projectNewInfoValid = true;
}

void InitMerge(const Switch *self, const SwitchedLeaf *leaf, ResultRelInfo *result) {
    ModifyTableState *modify = self->modify;
    ExecInitMergeTupleSlots(modify, result);
    if (List *condition = compat::MergeJoinCondition(self->plan))
        compat::SetMergeJoinCondition(
            result, ExecInitQual(MapExpression(self, leaf, condition), &modify->ps));
    // What is inserted goes to the base table, whatever partition it was looked for in.
    compat::CopyUnmatchedActions(&modify->resultRelInfo[0], result);
    ListCell *cell;
    foreach (cell, static_cast<List *>(linitial(self->plan->mergeActionLists))) {
        MergeAction *action = lfirst_node(MergeAction, cell);
        if (!compat::IsForMatched(action))
            continue;
        if (leaf->map) {
            action = static_cast<MergeAction *>(copyObjectImpl(action));
            action->qual = MapExpression(self, leaf, action->qual);
            action->targetList = MapExpression(self, leaf, action->targetList);
            action->updateColnos = MapColumns(action->updateColnos, leaf->map);
        }
        MergeActionState *state = makeNode(MergeActionState);
        state->mas_action = action;
        state->mas_whenqual = ExecInitQual(reinterpret_cast<List *>(action->qual), &modify->ps);
        if (action->commandType == CMD_UPDATE)
            state->mas_proj = ExecBuildUpdateProjection(
                action->targetList, true, action->updateColnos, RelationGetDescr(leaf->rel),
                modify->ps.ps_ExprContext, result->ri_newTupleSlot, &modify->ps);
        List **actions = compat::MatchedActions(result);
        *actions = lappend(*actions, state);
    }
}

// Makes the leaf known to the node above, as it would have been from the start.
void AddResultRelation(Switch *self, SwitchedLeaf *leaf) {
    ModifyTableState *modify = self->modify;
    EState *estate = modify->ps.state;
    if (modify->mt_nrels == self->capacity)
        elog(ERROR, "partitions have joined \"%s\" unexpectedly",
             RelationGetRelationName(self->base));
    ResultRelInfo *result = &modify->resultRelInfo[modify->mt_nrels]; // after the base table
    InitResultRelInfo(result, leaf->rel, self->rti, modify->rootResultRelInfo,
                      estate->es_instrument);
    compat::CheckChange(result, modify->operation,
                        modify->operation == CMD_MERGE
                            ? static_cast<List *>(linitial(self->plan->mergeActionLists))
                            : NIL);
    result->ri_RowIdAttNo = modify->resultRelInfo[0].ri_RowIdAttNo;
    if (!modify->ps.ps_ExprContext)
        ExecAssignExprContext(estate, &modify->ps);
    InitChecks(self, leaf, result);
    InitReturning(self, leaf, result);
    if (modify->operation == CMD_UPDATE)
        InitUpdate(self, leaf, result);
    else if (modify->operation == CMD_MERGE)
        InitMerge(self, leaf, result);
    leaf->result = result;
    // So that triggers find it, and its indexes are closed at the end.
    estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, result);
    modify->mt_nrels++;
}

SwitchedLeaf *OpenLeaf(Switch *self, Oid relid) {
    EState *estate = self->modify ? self->modify->ps.state : self->epq->parentestate;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    SwitchedLeaf *leaf = palloc0_object(SwitchedLeaf);
    leaf->relid = relid;
    leaf->rel = table_open(relid, LockModeFor(self->modify ? RowUse::Change : RowUse::Lock));
    leaf->map = compat::MapColumnsByName(RelationGetDescr(leaf->rel), RelationGetDescr(self->base));
    if (self->modify)
        AddResultRelation(self, leaf);
    self->leaves.Add(relid, leaf, estate->es_query_cxt);
    self->opened = lappend(self->opened, leaf);
    MemoryContextSwitchTo(caller);
    return leaf;
}

void SwitchTo(Switch *self, Oid relid) {
    if (self->current && self->current->relid == relid)
        return;
    SwitchedLeaf *leaf = static_cast<SwitchedLeaf *>(self->leaves.Find(relid));
    bool is_new = !leaf;
    if (is_new)
        leaf = OpenLeaf(self, relid);
    if (self->mark) {
        self->mark->relation = leaf->rel;
        self->mark->relid = relid;
    }
    // PostgreSQL has one slot for a relation of the query: the leaf tells which row it can hold.
    TupleTableSlot **slot = &self->epq->relsubs_slot[self->rti - 1];
    if (self->current)
        self->current->epq_slot = *slot;
    *slot = leaf->epq_slot;
    self->current = leaf;
    if (self->modify && self->modify->operation != CMD_DELETE)
        compat::RenameUpdatedColumns(self->modify->ps.state, self->rti, leaf->map,
                                     &leaf->updated_columns);
    if (self->modify && is_new)
        compat::InitGeneratedColumns(leaf->result, self->modify);
}

// All rows have passed: the node above becomes what it was. LockRows forgets its slots then.
void Finish(Switch *self) {
    ListCell *cell;
    foreach (cell, self->opened)
        static_cast<SwitchedLeaf *>(lfirst(cell))->epq_slot = nullptr;
    if (self->modify) {
        compat::RenameUpdatedColumns(self->modify->ps.state, self->rti, nullptr, nullptr);
        self->modify->mt_nrels = 1; // EXPLAIN names them
    }
    self->current = nullptr;
}

// --- The node above ----------------------------------------------------------

// Partitions that rows are routed to (what is inserted, or moves) are made ready by PostgreSQL,
// with the actions of MERGE: it fails over some of those, and uses none.
void HideMergeActions(ModifyTableState *modify) {
    ModifyTable *plan = palloc_object(ModifyTable);
    *plan = *reinterpret_cast<ModifyTable *>(modify->ps.plan);
    plan->mergeActionLists = list_make1(NIL);
    modify->ps.plan = &plan->plan;
}

// A result relation is found by its place in an array that must not move: it is made for all
// partitions there are. Pages of it that are not used cost nothing.
void LinkModify(Switch *self, ModifyTableState *modify) {
    ResultRelInfo *root = modify->rootResultRelInfo;
    constexpr int kSpare = 8;
    constexpr int kAll = 1 << 24;
    self->modify = modify;
    self->plan = reinterpret_cast<ModifyTable *>(modify->ps.plan);
    if (modify->operation == CMD_MERGE)
        HideMergeActions(modify);
    self->epq = &modify->mt_epqstate;
    self->rti = root->ri_RangeTableIndex;
    self->base = root->ri_RelationDesc;
    const Base *base = FindBase(RelationGetRelid(self->base));
    self->capacity = 1 + (base ? CountPartitions(base, kAll) : 0) + kSpare;
    ResultRelInfo *results = static_cast<ResultRelInfo *>(MemoryContextAllocHuge(
        modify->ps.state->es_query_cxt, sizeof(ResultRelInfo) * self->capacity));
    results[0] = modify->resultRelInfo[0];
    modify->resultRelInfo = results;
}

void LinkLockRows(Switch *self, LockRowsState *lock) {
    self->epq = &lock->lr_epqstate;
    ListCell *cell;
    foreach (cell, lock->lr_arowMarks) {
        ExecRowMark *mark = static_cast<ExecAuxRowMark *>(lfirst(cell))->rowmark;
        if (mark->rowmarkId != self->rowmark)
            continue;
        self->mark = mark;
        self->rti = mark->rti;
        self->base = mark->relation;
    }
}

void Link(CustomScanState *node, PlanState *parent) {
    ListCell *cell;
    foreach (cell, ToSwitch(node)->switches) {
        Switch *self = static_cast<Switch *>(lfirst(cell));
        if (IsA(parent, ModifyTableState))
            LinkModify(self, reinterpret_cast<ModifyTableState *>(parent));
        else if (IsA(parent, LockRowsState))
            LinkLockRows(self, reinterpret_cast<LockRowsState *>(parent));
    }
}

// --- The node ----------------------------------------------------------------

void Begin(CustomScanState *node, EState *estate, int flags) {
    BeginPassThrough(node, estate, flags);
    if (estate->es_epq_active || (flags & EXEC_FLAG_EXPLAIN_ONLY))
        return;
    ListCell *cell;
    CustomScan *scan = reinterpret_cast<CustomScan *>(node->ss.ps.plan);
    foreach (cell, scan->custom_private) {
        Switch *self = palloc0_object(Switch);
        self->rowmark = lfirst_int(cell);
        self->column = ExecFindJunkAttributeInTlist(scan->scan.plan.targetlist,
                                                    PartitionColumnName(self->rowmark));
        if (self->column == InvalidAttrNumber)
            elog(ERROR, "the rows to be changed come without their partition");
        ToSwitch(node)->switches = lappend(ToSwitch(node)->switches, self);
    }
    LinkToParent(node, Link);
}

TupleTableSlot *Execute(CustomScanState *node) {
    TupleTableSlot *row = ExecProcNode(Child(node));
    ListCell *cell;
    foreach (cell, ToSwitch(node)->switches) {
        Switch *self = static_cast<Switch *>(lfirst(cell));
        if (TupIsNull(row)) {
            Finish(self);
            continue;
        }
        bool isnull;
        Datum partition = slot_getattr(row, self->column, &isnull);
        if (!isnull) // null in an outer join
            SwitchTo(self, DatumGetObjectId(partition));
    }
    return row;
}

void End(CustomScanState *node) {
    ListCell *cell, *leaf;
    foreach (cell, ToSwitch(node)->switches) {
        Switch *self = static_cast<Switch *>(lfirst(cell));
        foreach (leaf, self->opened)
            table_close(static_cast<SwitchedLeaf *>(lfirst(leaf))->rel, NoLock);
        self->leaves.Destroy();
    }
    ExecEndNode(Child(node));
}

Node *CreateState(CustomScan *) {
    RowSwitch *state = reinterpret_cast<RowSwitch *>(newNode(sizeof(RowSwitch), T_CustomScanState));
    state->css.methods = &exec_methods;
    return reinterpret_cast<Node *>(state);
}

} // namespace

const CustomScanMethods *RowSwitchMethods() {
    return &scan_methods;
}

bool CanChangeRows() {
    static constinit bool is_known = false;
    static constinit bool can_change = false;
    if (is_known)
        return can_change;
    // PostgreSQL clears the struct: that shows how large it is there.
    constexpr Size kRoom = 2 * sizeof(ResultRelInfo);
    constexpr unsigned char kUntouched = 0xA5;
    unsigned char *probe = static_cast<unsigned char *>(palloc(kRoom));
    memset(probe, kUntouched, kRoom);
    Relation rel = table_open(RelationRelationId, AccessShareLock);
    InitResultRelInfo(reinterpret_cast<ResultRelInfo *>(probe), rel, 0, nullptr, 0);
    table_close(rel, AccessShareLock);
    Size size = kRoom;
    while (size > 0 && probe[size - 1] == kUntouched)
        size--;
    pfree(probe);
    can_change = size == sizeof(ResultRelInfo);
    is_known = true;
    if (!can_change)
        ereport(LOG,
                (errmsg("index tables do not serve UPDATE, DELETE and MERGE on this server"),
                 errdetail("The library was built for a PostgreSQL whose result relations have %zu "
                           "bytes; here they have %zu.",
                           sizeof(ResultRelInfo), size),
                 errhint("Build it against the headers of this server.")));
    return can_change;
}

void InitializeRowSwitch() {
    exec_methods.CustomName = scan_methods.CustomName;
    exec_methods.BeginCustomScan = Begin;
    exec_methods.ExecCustomScan = Execute;
    exec_methods.EndCustomScan = End;
    exec_methods.ReScanCustomScan = RescanPassThrough;
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
