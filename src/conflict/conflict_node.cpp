#include "conflict/conflict_node.h"

#include "conflict/conflict_check.h"
#include "conflict/conflict_plan.h"
#include "conflict/conflict_update.h"
#include "conflict/global_conflict.h"
#include "core/public.h"
#include "exec/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

CustomExecMethods exec_methods;

struct ConflictNode {
    CustomScanState css;
    ModifyTableState *modify; // the node above, found when the query has been started
    List *tables;             // of IndexTable; the arbiter alone where there is a target
    List *globals;            // likewise, unique global indexes
    bool has_target;          // other conflicts are errors
    Plan *plan;               // of the node above, while it runs another
    SpeculativeEntries *speculative;
    ConflictCheck *check;              // null: there was no conflict yet
    ConflictUpdate *update;            // null: nor is there anything to be done about one
    GlobalConflicts *global_conflicts; // null: there are no global indexes
    bool is_resolving;                 // those two have been made
    ExprContext *context;              // for keys and predicates
    TupleTableSlot *row;               // that was handed over last
    bool awaits_foreign;               // it went to a foreign table
    uint64 foreign_since;              // rows inserted before it
};

// A partition that rows are inserted into: what its trigger has to know.
struct CheckedLeaf {
    ConflictNode *self;
    ResultRelInfo *relinfo;
    EntryMaker **makers;       // by table; null: the partition is not in it
    GlobalKeys *global_keys;   // null: there are no global indexes
    bool checks_partition;     // rows may have another one's partition key
    TupleTableSlot *generated; // the row with its generated columns; null: it has none
    TupleTableSlot *scratch;
};

// An entry that a row is to have.
struct Wanted {
    int table;
    HeapTuple entry;
};

ConflictNode *ToConflictNode(CustomScanState *node) {
    return reinterpret_cast<ConflictNode *>(node);
}

void Link(CustomScanState *node, PlanState *parent) {
    if (IsA(parent, ModifyTableState))
        ToConflictNode(node)->modify = reinterpret_cast<ModifyTableState *>(parent);
}

// --- Checking a row ----------------------------------------------------------

// What PostgreSQL checks before it looks for conflicts.
void CheckRow(const CheckedLeaf *leaf, TupleTableSlot *row) {
    EState *estate = leaf->self->modify->ps.state;
    ResultRelInfo *relinfo = leaf->relinfo;
    Relation rel = relinfo->ri_RelationDesc;
    if (relinfo->ri_WithCheckOptions != NIL)
        ExecWithCheckOptions(WCO_RLS_INSERT_CHECK, relinfo, row, estate);
    if (rel->rd_att->constr)
        ExecConstraints(relinfo, row, estate);
    if (rel->rd_rel->relispartition && leaf->checks_partition)
        ExecPartitionCheck(relinfo, row, estate, true);
}

// The row with its generated columns.
TupleTableSlot *CompleteRow(const CheckedLeaf *leaf, TupleTableSlot *row) {
    row->tts_tableOid = RelationGetRelid(leaf->relinfo->ri_RelationDesc);
    if (!leaf->generated)
        return row;
    ExecCopySlot(leaf->generated, row);
    leaf->generated->tts_tableOid = row->tts_tableOid;
    ExecComputeStoredGenerated(leaf->relinfo, leaf->self->modify->ps.state, leaf->generated,
                               CMD_INSERT);
    return leaf->generated;
}

// Whether the row conflicts with one in its own partition.
bool ConflictsLocally(const CheckedLeaf *leaf, TupleTableSlot *row) {
    EState *estate = leaf->self->modify->ps.state;
    ItemPointerData tid;
    if (compat::CheckIndexConstraints(leaf->relinfo, row, estate, &tid))
        return false;
    Relation rel = leaf->relinfo->ri_RelationDesc;
    if (IsolationUsesXactSnapshot() &&
        table_tuple_fetch_row_version(rel, &tid, SnapshotAny, leaf->scratch))
        CheckConflictIsVisible(rel, leaf->scratch, estate->es_snapshot);
    ExecClearTuple(leaf->scratch);
    return true;
}

List *ListEntries(const CheckedLeaf *leaf, TupleTableSlot *row) {
    ConflictNode *self = leaf->self;
    List *entries = NIL;
    for (int i = 0; i < list_length(self->tables); i++)
        if (leaf->makers[i])
            ForEachEntry(leaf->makers[i], row, [&](const Datum *values, const bool *nulls) {
                Wanted *wanted = palloc_object(Wanted);
                *wanted = {i, FormEntry(self->speculative, i, values, nulls)};
                entries = lappend(entries, wanted);
            });
    return entries;
}

// What is to become of the entries of one index table.
enum class Verdict { Insert, Skip, Again };

// Leaves the entries of an index table out of what is inserted speculatively: the statement itself
// is about to remove those they conflict with, or they conflict with each other. They are captured,
// and what still conflicts when the statement ends is an error.
List *LeaveToFlush(List *entries, int table) {
    List *rest = NIL;
    ListCell *cell;
    foreach (cell, entries)
        if (static_cast<Wanted *>(lfirst(cell))->table != table)
            rest = lappend(rest, lfirst(cell));
    return rest;
}

// Everything that is needed once there is a conflict.
void StartResolving(ConflictNode *self) {
    ModifyTableState *modify = self->modify;
    Oid base = linitial_oid(reinterpret_cast<CustomScan *>(self->css.ss.ps.plan)->custom_private);
    const Plan *plan = self->plan ? self->plan : modify->ps.plan;
    bool updates =
        reinterpret_cast<const ModifyTable *>(plan)->onConflictAction == ONCONFLICT_UPDATE;
    MemoryContext caller = MemoryContextSwitchTo(modify->ps.state->es_query_cxt);
    if (self->tables != NIL)
        self->check = MakeConflictCheck(base, self->tables, modify->ps.state, updates);
    List *arbiters = self->tables != NIL ? self->tables : self->globals;
    if (updates)
        self->update =
            MakeConflictUpdate(modify, static_cast<const IndexTable *>(linitial(arbiters)),
                               self->check, self->speculative);
    self->is_resolving = true;
    MemoryContextSwitchTo(caller);
}

// An entry with the key of a row is stored already.
Conflict Resolve(const CheckedLeaf *leaf, TupleTableSlot *row, int table, TupleTableSlot *stored) {
    ConflictNode *self = leaf->self;
    if (!self->is_resolving)
        StartResolving(self);
    if (!self->update)
        return CheckConflict(self->check, self->speculative, table, stored);
    OpenLeaf *found;
    Conflict conflict = FindConflictingRow(self->check, self->speculative, table, stored, &found);
    if (conflict != Conflict::Real)
        return conflict;
    if (!found) // its partition is out of the statement's reach
        RaiseViolation(static_cast<const IndexTable *>(linitial(self->tables)), stored);
    return LockConflictingRow(self->update, found, stored, leaf->relinfo, row) == LockedRow::Locked
               ? Conflict::Real
               : Conflict::Unsettled;
}

// A row, in its partition's slot, has a key of a unique global index.
Verdict ResolveGlobal(const CheckedLeaf *leaf, TupleTableSlot *row, OpenLeaf *found) {
    ConflictNode *self = leaf->self;
    EState *estate = self->modify->ps.state;
    if (!self->is_resolving)
        StartResolving(self);
    if (!self->update) {
        if (IsolationUsesXactSnapshot())
            CheckConflictIsVisible(found->rel, found->slot, estate->es_snapshot);
        RememberRead(found->rel, found->slot, estate->es_snapshot);
        ExecClearTuple(found->slot);
        return Verdict::Skip;
    }
    switch (LockConflictingRow(self->update, found, nullptr, leaf->relinfo, row)) {
    case LockedRow::Locked:
        return Verdict::Skip;
    case LockedRow::Changed:
        return Verdict::Again;
    case LockedRow::OutOfReach:
        break;
    }
    RaiseGlobalViolation(self->global_conflicts, leaf->global_keys);
}

Verdict LookForConflicts(const CheckedLeaf *leaf, TupleTableSlot *row, List **entries) {
    SpeculativeEntries *speculative = leaf->self->speculative;
    ListCell *cell;
    List *all = *entries;
    foreach (cell, all) {
        Wanted *wanted = static_cast<Wanted *>(lfirst(cell));
        TupleTableSlot *stored = FindConflict(speculative, wanted->table, wanted->entry);
        if (!stored)
            continue;
        switch (Resolve(leaf, row, wanted->table, stored)) {
        case Conflict::Real:
            return Verdict::Skip;
        case Conflict::Leaving:
            *entries = LeaveToFlush(*entries, wanted->table);
            break;
        case Conflict::Unsettled:
            return Verdict::Again;
        }
    }
    return Verdict::Insert;
}

Verdict InsertAllSpeculatively(ConflictNode *self, List *entries) {
    ListCell *cell;
    int left = -1;
    foreach (cell, entries) {
        Wanted *wanted = static_cast<Wanted *>(lfirst(cell));
        if (wanted->table == left ||
            InsertSpeculatively(self->speculative, wanted->table, wanted->entry))
            continue;
        TupleTableSlot *stored = FindConflict(self->speculative, wanted->table, wanted->entry);
        if (stored ? IsOwnSpeculative(self->speculative, stored)
                   : ConflictsOtherwise(self->speculative, wanted->table, wanted->entry)) {
            left = wanted->table;
            TakeBackEntries(self->speculative, left);
            continue;
        }
        TakeBackEntries(self->speculative);
        return Verdict::Again;
    }
    return Verdict::Insert;
}

// Whether the row is to be inserted: its entries are inserted speculatively then.
bool Decide(const CheckedLeaf *leaf, TupleTableSlot *row) {
    FAULT_POINT("conflict_node.decide");
    ConflictNode *self = leaf->self;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (!self->has_target && !leaf->relinfo->ri_FdwRoutine && ConflictsLocally(leaf, row))
            return false;
        Verdict verdict = Verdict::Insert;
        if (leaf->global_keys)
            if (OpenLeaf *found =
                    FindGlobalConflict(self->global_conflicts, leaf->global_keys, row))
                verdict = ResolveGlobal(leaf, row, found);
        List *entries = verdict == Verdict::Insert ? ListEntries(leaf, row) : NIL;
        if (verdict == Verdict::Insert)
            verdict = LookForConflicts(leaf, row, &entries);
        if (verdict == Verdict::Insert)
            verdict = InsertAllSpeculatively(self, entries);
        if (verdict == Verdict::Insert && leaf->global_keys &&
            !ClaimGlobalKeys(self->global_conflicts, leaf->global_keys)) {
            TakeBackEntries(self->speculative);
            verdict = Verdict::Again;
        }
        if (verdict != Verdict::Again)
            return verdict == Verdict::Insert;
    }
}

// The trigger.
Datum CheckForConflicts(PG_FUNCTION_ARGS) {
    TriggerData *trigger = reinterpret_cast<TriggerData *>(fcinfo->context);
    CheckedLeaf *leaf = static_cast<CheckedLeaf *>(fcinfo->flinfo->fn_extra);
    TupleTableSlot *row = CompleteRow(leaf, trigger->tg_trigslot);
    bool is_foreign = leaf->relinfo->ri_FdwRoutine != nullptr;
    if (!is_foreign) // shards check their rows
        CheckRow(leaf, row);
    bool is_inserted = Decide(leaf, row);
    ResetExprContext(leaf->self->context);
    if (!is_inserted) {
        InstrCountTuples2(&leaf->self->modify->ps, 1);
        return kNoRow;
    }
    if (is_foreign) {
        leaf->self->foreign_since = leaf->self->modify->ps.state->es_processed;
        leaf->self->awaits_foreign = true;
        return PointerGetDatum(trigger->tg_trigtuple);
    }
    // Valid once it has been inserted: until then it may be that of the row it was read from.
    ItemPointerSetInvalid(&trigger->tg_trigslot->tts_tid);
    AwaitRow(leaf->self->speculative, leaf->relinfo->ri_RelationDesc, trigger->tg_trigslot,
             leaf->scratch);
    return PointerGetDatum(trigger->tg_trigtuple);
}

// --- The trigger of a partition ----------------------------------------------

constexpr char kTriggerName[] = "index table conflict check";

CheckedLeaf *MakeCheckedLeaf(ConflictNode *self, ResultRelInfo *relinfo) {
    EState *estate = self->modify->ps.state;
    Relation rel = relinfo->ri_RelationDesc;
    const Leaf *known = FindLeaf(rel);
    if (!known && !self->global_conflicts)
        return nullptr;
    CheckedLeaf *leaf = palloc0_object(CheckedLeaf);
    leaf->self = self;
    leaf->relinfo = relinfo;
    leaf->makers = palloc0_array(EntryMaker *, list_length(self->tables));
    for (int i = 0; i < list_length(self->tables); i++) {
        Oid wanted = static_cast<const IndexTable *>(list_nth(self->tables, i))->relid;
        for (int j = 0; known && j < known->table_count; j++)
            if (known->tables[j].table->relid == wanted)
                leaf->makers[i] =
                    MakeEntryMaker(&known->tables[j], known->partition_id, self->context);
    }
    if (self->global_conflicts)
        leaf->global_keys = MakeGlobalKeys(self->global_conflicts, relinfo);
    const TupleConstr *constraints = rel->rd_att->constr;
    if (constraints && constraints->has_generated_stored)
        leaf->generated = ExecInitExtraTupleSlot(estate, RelationGetDescr(rel), &TTSOpsVirtual);
    if (!relinfo->ri_FdwRoutine)
        leaf->scratch = table_slot_create(rel, &estate->es_tupleTable);
    return leaf;
}

// Gives a result relation one more trigger. What describes its triggers is this statement's own.
void AddTrigger(ResultRelInfo *relinfo, CheckedLeaf *leaf, MemoryContext memory) {
    TriggerDesc *triggers = relinfo->ri_TrigDesc;
    int count = triggers->numtriggers;
    Trigger *extended = palloc0_array(Trigger, count + 1);
    if (count > 0)
        memcpy(extended, triggers->triggers, sizeof(Trigger) * count);
    Trigger *added = &extended[count];
    added->tgfoid = F_BOOLEQ; // any: it is not looked up
    added->tgname = const_cast<char *>(kTriggerName);
    added->tgtype = TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT;
    added->tgenabled = TRIGGER_FIRES_ALWAYS;
    added->tgisinternal = true;
    triggers->triggers = extended;
    triggers->numtriggers = count + 1;
    triggers->trig_insert_before_row = true;

    FmgrInfo *functions = palloc0_array(FmgrInfo, count + 1);
    if (count > 0)
        memcpy(functions, relinfo->ri_TrigFunctions, sizeof(FmgrInfo) * count);
    functions[count].fn_addr = CheckForConflicts;
    functions[count].fn_oid = added->tgfoid;
    functions[count].fn_stats = TRACK_FUNC_ALL; // counts nowhere
    functions[count].fn_mcxt = memory;
    functions[count].fn_extra = leaf;
    relinfo->ri_TrigFunctions = functions;

    compat::AddTriggerInstrument(relinfo, count + 1, leaf->self->modify->ps.state->es_instrument);
}

// PostgreSQL checks whether a row that it has routed belongs to its partition if triggers may have
// changed it. This one does not: the check becomes one that says yes.
constinit ExprState always = {};

Datum SayYes(ExprState *, ExprContext *, bool *isnull) {
    *isnull = false;
    return BoolGetDatum(true);
}

void TrustRouting(ResultRelInfo *relinfo) {
    always.type = T_ExprState;
    always.evalfunc = SayYes;
    if (!relinfo->ri_PartitionCheckExpr)
        relinfo->ri_PartitionCheckExpr = &always;
}

void Prepare(ConflictNode *self, ResultRelInfo *relinfo) {
    const TriggerDesc *known = relinfo->ri_TrigDesc;
    if (known && known->numtriggers > 0 &&
        known->triggers[known->numtriggers - 1].tgname == kTriggerName)
        return;
    if (!known && self->globals == NIL)
        return;
    MemoryContext memory = self->modify->ps.state->es_query_cxt;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    if (!known)
        relinfo->ri_TrigDesc = palloc0_object(TriggerDesc);
    TriggerDesc *triggers = relinfo->ri_TrigDesc;
    if (CheckedLeaf *leaf = MakeCheckedLeaf(self, relinfo)) {
        leaf->checks_partition = !relinfo->ri_RootResultRelInfo || triggers->trig_insert_before_row;
        if (!leaf->checks_partition)
            TrustRouting(relinfo);
        AddTrigger(relinfo, leaf, memory);
    }
    MemoryContextSwitchTo(caller);
}

// --- The node ----------------------------------------------------------------

const IndexTable *GetArbiter(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    if (!table)
        table = FindGlobalTable(relid);
    if (!table)
        elog(ERROR, "the arbiter of a plan is gone"); // a plan is made anew when one goes
    return table;
}

void Begin(CustomScanState *node, EState *estate, int flags) {
    BeginPassThrough(node, estate, flags);
    ConflictNode *self = ToConflictNode(node);
    List *relations = reinterpret_cast<CustomScan *>(node->ss.ps.plan)->custom_private;
    self->has_target = list_length(relations) > 1;
    if (self->has_target) {
        const IndexTable *arbiter = GetArbiter(lsecond_oid(relations));
        (arbiter->is_global() ? self->globals : self->tables) =
            list_make1(const_cast<IndexTable *>(arbiter));
    } else if (const Base *base = FindIndexedBase(linitial_oid(relations))) {
        self->tables = ListConstrainedTables(base);
        self->globals = ListUniqueGlobals(base);
    }
    if (!estate->es_epq_active && !(flags & EXEC_FLAG_EXPLAIN_ONLY))
        LinkToParent(node, Link);
}

// Where there is a target all conflicts that are none of the arbiter's are errors, and what is done
// about those of the arbiter is done here: ModifyTable is to insert, no more. It has prepared
// itself for what the statement says, and fires its triggers when all rows have passed.
void InsertPlainly(ConflictNode *self) {
    self->plan = self->modify->ps.plan;
    ModifyTable *plan = palloc_object(ModifyTable);
    *plan = *reinterpret_cast<ModifyTable *>(self->plan);
    plan->onConflictAction = ONCONFLICT_NONE;
    self->modify->ps.plan = &plan->plan;
}

// Everything that is needed once there is a row.
void Start(ConflictNode *self) {
    EState *estate = self->modify->ps.state;
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    self->context = CreateExprContext(estate);
    self->speculative = BeginSpeculation(self->tables, estate->es_output_cid, self->has_target);
    if (self->globals != NIL) {
        const auto *plan = reinterpret_cast<ModifyTable *>(self->modify->ps.plan);
        self->global_conflicts =
            MakeGlobalConflicts(self->globals, estate, plan->onConflictAction == ONCONFLICT_UPDATE);
    }
    if (self->has_target)
        InsertPlainly(self);
    MemoryContextSwitchTo(caller);
}

// The row before has passed: it was inserted, or left out, or another one is to be updated.
void FinishRow(ConflictNode *self) {
    SettleRow(self->speculative);
    if (self->global_conflicts)
        DropGlobalClaims(self->global_conflicts);
    if (self->awaits_foreign) {
        // Only the main part of a statement counts its rows; in others, one that the server has
        // left out keeps its key until all have passed.
        const ModifyTableState *modify = self->modify;
        SettleForeignRow(self->speculative, !modify->canSetTag || modify->ps.state->es_processed >
                                                                      self->foreign_since);
        self->awaits_foreign = false;
    }
    if (self->update)
        UpdateLockedRow(self->update, self->row);
}

// All rows have passed: triggers are next.
void FinishRows(ConflictNode *self) {
    TakeBackForeign(self->speculative);
    if (self->plan)
        self->modify->ps.plan = self->plan;
}

TupleTableSlot *Execute(CustomScanState *node) {
    ConflictNode *self = ToConflictNode(node);
    if (self->speculative)
        FinishRow(self);
    TupleTableSlot *row = self->row = ExecProcNode(Child(node));
    if (TupIsNull(row) && self->speculative)
        FinishRows(self);
    if (TupIsNull(row) || (self->tables == NIL && self->globals == NIL) || !self->modify)
        return row;
    if (!self->speculative)
        Start(self);
    ModifyTableState *modify = self->modify;
    ResultRelInfo *target = modify->resultRelInfo;
    if (modify->mt_partition_tuple_routing)
        target = ExecFindPartition(modify, target, modify->mt_partition_tuple_routing, row,
                                   modify->ps.state);
    Prepare(self, target);
    return row;
}

void End(CustomScanState *node) {
    ConflictNode *self = ToConflictNode(node);
    if (self->speculative) {
        if (self->check)
            EndConflictCheck(self->check);
        if (self->global_conflicts)
            EndGlobalConflicts(self->global_conflicts);
        EndSpeculation(self->speculative);
    }
    ExecEndNode(Child(node));
}

void Explain(CustomScanState *node, List *, ExplainState *explain) {
    List *names = NIL;
    ListCell *cell;
    foreach (cell, ToConflictNode(node)->tables)
        names = lappend(names, get_rel_name(static_cast<IndexTable *>(lfirst(cell))->relid));
    bool has_target = ToConflictNode(node)->has_target;
    if (names != NIL)
        ExplainPropertyList(has_target ? "Conflict Arbiter Index Tables" : "Index Tables", names,
                            explain);
    names = NIL;
    foreach (cell, ToConflictNode(node)->globals)
        names = lappend(names, get_rel_name(static_cast<IndexTable *>(lfirst(cell))->root));
    if (names != NIL)
        ExplainPropertyList(has_target ? "Conflict Arbiter Global Indexes" : "Global Indexes",
                            names, explain);
}

} // namespace

Tuplestorestate *RowsReturnedByUpdates(PlanState *check) {
    const ConflictNode *self = ToConflictNode(reinterpret_cast<CustomScanState *>(check));
    return self->update ? ReturnedRows(self->update) : nullptr;
}

Node *CreateConflictCheck(CustomScan *) {
    return MakeNodeState<ConflictNode>(&exec_methods);
}

void InitializeConflictCheck() {
    exec_methods.CustomName = kConflictCheckName;
    exec_methods.BeginCustomScan = Begin;
    exec_methods.ExecCustomScan = Execute;
    exec_methods.EndCustomScan = End;
    exec_methods.ReScanCustomScan = RescanPassThrough;
    exec_methods.ExplainCustomScan = Explain;
    InitializeConflictPlan();
}

} // namespace index_table
