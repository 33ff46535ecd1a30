#include "exec/row_switch.h"

#include "catalog/public.h"
#include "core/public.h"
#include "exec/pass_through.h"
#include "exec/query_start.h"
#include "exec/row_use.h"
#include "shard/public.h"

namespace index_table {
namespace {

Node *CreateState(CustomScan *);

CustomScanMethods scan_methods = {"Index Table Row Switch", CreateState};
CustomExecMethods exec_methods;

// --- Switching ---------------------------------------------------------------

// A table that no row to be locked is of.
constexpr Oid kOfNoRow = RelationRelationId;

// A partition that rows have come from.
struct SwitchedLeaf {
    Oid relid;
    Relation rel;
    ResultRelInfo *result;    // for the target
    AttrMap *map;             // its columns for the base table's; null: the same layout
    TupleTableSlot *epq_slot; // where a row that others have changed is looked at again
    bool is_foreign;
    TupleTableSlot *converted; // a row of the child's with the leaf's own row in it
    compat::RenamedColumns updated_columns;
};

// What is switched for one relation of the query.
struct Switch {
    Index rowmark;     // 0: the target
    AttrNumber column; // of the child's rows, with the partition
    AttrNumber whole;  // for the target: with the whole row, where partitions are foreign tables
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

List *PlanLeafChange(const Switch *self, const SwitchedLeaf *leaf, EState *estate) {
    const ModifyTable *plan = self->plan;
    auto first = [](List *lists) {
        return lists == NIL ? NIL : static_cast<List *>(linitial(lists));
    };
    List *columns = plan->operation == CMD_UPDATE ? first(plan->updateColnosLists) : NIL;
    return PlanRemoteChange({.leaf = leaf->rel,
                             .operation = plan->operation,
                             .rti = self->rti,
                             .columns = MapColumns(columns, leaf->map),
                             .returning = MapExpression(self, leaf, first(plan->returningLists)),
                             .checks = MapExpression(self, leaf, first(plan->withCheckOptionLists)),
                             .user = compat::ReaderOf(estate, self->rti)});
}

// The row comes with the whole of what it was, which the foreign data wrapper and triggers want.
void InitForeign(const Switch *self, SwitchedLeaf *leaf) {
    ModifyTableState *modify = self->modify;
    ResultRelInfo *result = leaf->result;
    result->ri_RowIdAttNo = self->whole;
    if (leaf->map)
        leaf->converted = ExecInitExtraTupleSlot(
            modify->ps.state, ExecGetResultType(outerPlanState(modify)), &TTSOpsVirtual);
    result->ri_FdwRoutine->BeginForeignModify(modify, result,
                                              PlanLeafChange(self, leaf, modify->ps.state), 0, 0);
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
    if (leaf->is_foreign)
        InitForeign(self, leaf);
    // So that triggers find it, and its indexes are closed at the end.
    estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, result);
    modify->mt_nrels++;
}

SwitchedLeaf *OpenLeaf(Switch *self, Oid relid) {
    FAULT_POINT("row_switch.open_leaf");
    EState *estate = self->modify ? self->modify->ps.state : self->epq->parentestate;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    SwitchedLeaf *leaf = palloc0_object(SwitchedLeaf);
    leaf->relid = relid;
    leaf->rel = table_open(relid, LockModeFor(self->modify ? RowUse::Change : RowUse::Lock));
    leaf->map = compat::MapColumnsByName(RelationGetDescr(leaf->rel), RelationGetDescr(self->base));
    leaf->is_foreign = leaf->rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
    if (self->modify)
        AddResultRelation(self, leaf);
    self->leaves.Add(relid, leaf, estate->es_query_cxt);
    self->opened = lappend(self->opened, leaf);
    MemoryContextSwitchTo(caller);
    return leaf;
}

void SwitchTo(Switch *self, Oid relid) {
    FAULT_POINT("row_switch.switch_to");
    if (self->current && self->current->relid == relid)
        return;
    SwitchedLeaf *leaf = static_cast<SwitchedLeaf *>(self->leaves.Find(relid));
    bool is_new = !leaf;
    if (is_new)
        leaf = OpenLeaf(self, relid);
    if (self->mark) {
        self->mark->relation = leaf->rel;
        // Rows of foreign partitions were locked as they were read: to PostgreSQL they come from a
        // partition that this mark is not of.
        self->mark->relid = leaf->is_foreign ? kOfNoRow : relid;
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

// The child's row for the node above: the whole row in it as the partition has it.
TupleTableSlot *Convert(const Switch *self, TupleTableSlot *row) {
    EState *estate = self->modify->ps.state;
    MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
    const SwitchedLeaf *leaf = self->current;
    TupleTableSlot *converted = leaf->converted;
    slot_getallattrs(row);
    int natts = row->tts_tupleDescriptor->natts;
    ExecClearTuple(converted);
    memcpy(converted->tts_values, row->tts_values, sizeof(Datum) * natts);
    memcpy(converted->tts_isnull, row->tts_isnull, natts);
    HeapTupleHeader whole = DatumGetHeapTupleHeader(row->tts_values[self->whole - 1]);
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(whole), .t_data = whole};
    ItemPointerSetInvalid(&tuple.t_self);
    TupleDesc from = RelationGetDescr(self->base), to = RelationGetDescr(leaf->rel);
    Datum *values = palloc_array(Datum, from->natts + to->natts);
    bool *nulls = palloc_array(bool, from->natts + to->natts);
    heap_deform_tuple(&tuple, from, values, nulls);
    Datum *own = values + from->natts;
    bool *own_nulls = nulls + from->natts;
    std::fill(own_nulls, own_nulls + to->natts, true);
    for (int i = 0; i < from->natts; i++)
        if (leaf->map->attnums[i] != 0) {
            own[leaf->map->attnums[i] - 1] = values[i];
            own_nulls[leaf->map->attnums[i] - 1] = nulls[i];
        }
    converted->tts_values[self->whole - 1] = HeapTupleGetDatum(heap_form_tuple(to, own, own_nulls));
    MemoryContextSwitchTo(caller);
    return ExecStoreVirtualTuple(converted);
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
    const Base *base = FindIndexedBase(RelationGetRelid(self->base));
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
        ExecAuxRowMark *auxiliary = static_cast<ExecAuxRowMark *>(lfirst(cell));
        ExecRowMark *mark = auxiliary->rowmark;
        if (mark->rowmarkId != self->rowmark)
            continue;
        self->mark = mark;
        self->rti = mark->rti;
        self->base = mark->relation;
        const Base *base = FindIndexedBase(RelationGetRelid(self->base));
        if (base && HasForeignLeaves(base)) {
            // The mark of a child, which a row may be none of.
            auxiliary->toidAttNo = self->column;
            mark->prti = 0;
        }
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
        if (self->rowmark == 0)
            self->whole = ExecFindJunkAttributeInTlist(scan->scan.plan.targetlist, kWholeRowColumn);
        if (self->whole != InvalidAttrNumber) // some rows will be in slots of the switch's own
            node->ss.ps.resultopsfixed = false;
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
        if (!isnull && self->current->converted)
            return Convert(self, row); // the target is alone
    }
    return row;
}

void End(CustomScanState *node) {
    ListCell *cell, *leaf_cell;
    foreach (cell, ToSwitch(node)->switches) {
        Switch *self = static_cast<Switch *>(lfirst(cell));
        foreach (leaf_cell, self->opened) {
            SwitchedLeaf *leaf = static_cast<SwitchedLeaf *>(lfirst(leaf_cell));
            // The node above has ended what it knew of.
            if (leaf->is_foreign && self->modify && self->modify->mt_nrels == 1)
                leaf->result->ri_FdwRoutine->EndForeignModify(node->ss.ps.state, leaf->result);
            table_close(leaf->rel, NoLock);
        }
        self->leaves.Destroy();
    }
    ExecEndNode(Child(node));
}

// --- EXPLAIN -----------------------------------------------------------------

// The first of the base table's foreign partitions; InvalidOid where there is none.
Oid SampleLeaf(Oid base_relid) {
    const Base *base = FindIndexedBase(base_relid);
    Oid sample = InvalidOid;
    ListCell *cell;
    foreach (cell, base && HasForeignLeaves(base) ? ListPartitions(base_relid) : NIL)
        if (IsForeign(lfirst_oid(cell)) && (!OidIsValid(sample) || lfirst_oid(cell) < sample))
            sample = lfirst_oid(cell);
    return sample;
}

// How a row of a foreign partition is changed on its server: of the first partition.
void Explain(CustomScanState *node, List *ancestors, ExplainState *es) {
    const ModifyTable *plan =
        ancestors == NIL ? nullptr : static_cast<ModifyTable *>(linitial(ancestors));
    if (!es->verbose || !plan || !IsA(plan, ModifyTable) || plan->operation == CMD_MERGE)
        return;
    Switch self = {.plan = plan, .rti = static_cast<Index>(linitial_int(plan->resultRelations))};
    Oid base = rt_fetch(self.rti, es->rtable)->relid;
    Oid sample = SampleLeaf(base);
    if (!OidIsValid(sample))
        return;
    self.base = table_open(base, NoLock);
    SwitchedLeaf leaf = {.relid = sample, .rel = table_open(sample, RowExclusiveLock)};
    leaf.map = compat::MapColumnsByName(RelationGetDescr(leaf.rel), RelationGetDescr(self.base));
    if (const char *sql = ChangeStatement(PlanLeafChange(&self, &leaf, node->ss.ps.state)))
        ExplainPropertyText("Remote SQL", sql, es);
    table_close(leaf.rel, NoLock);
    table_close(self.base, NoLock);
}

Node *CreateState(CustomScan *) {
    return MakeNodeState<RowSwitch>(&exec_methods);
}

// --- Showing -----------------------------------------------------------------

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
    if (scan->methods == &scan_methods && !outerPlan(below))
        ShowSubqueries(scan);
}

} // namespace

const CustomScanMethods *RowSwitchMethods() {
    return &scan_methods;
}

void ShowSubqueries(PlannedStmt *plan) {
    ShowSubqueries(plan->planTree);
    ListCell *cell;
    foreach (cell, plan->subplans)
        ShowSubqueries(static_cast<Plan *>(lfirst(cell)));
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
    exec_methods.ExplainCustomScan = Explain;
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
