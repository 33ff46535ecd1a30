#include "conflict/conflict_node.h"

#include "core/public.h"
#include "maintenance/public.h"
#include "conflict/conflict_check.h"
#include "conflict/conflict_plan.h"
#include "exec/public.h"

namespace index_table {
namespace {

CustomExecMethods exec_methods;

struct ConflictNode {
    CustomScanState css;
    ModifyTableState *modify; // the node above, found when the query has been started
    List *tables;             // of IndexTable
    SpeculativeEntries *speculative;
    ConflictCheck *check;
    ExprContext *context; // for keys and predicates
};

// A partition that rows are inserted into: what its trigger has to know.
struct CheckedLeaf {
    ConflictNode *self;
    ResultRelInfo *relinfo;
    EntryMaker **makers;       // by table; null: the partition is not in it
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
    if (rel->rd_rel->relispartition)
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

Verdict LookForConflicts(ConflictNode *self, List **entries) {
    ListCell *cell;
    List *all = *entries;
    foreach (cell, all) {
        Wanted *wanted = static_cast<Wanted *>(lfirst(cell));
        TupleTableSlot *stored = FindConflict(self->speculative, wanted->table, wanted->entry);
        if (!stored)
            continue;
        switch (CheckConflict(self->check, self->speculative, wanted->table, stored)) {
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
        if (stored && IsOwnSpeculative(self->speculative, stored)) {
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
    ConflictNode *self = leaf->self;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (ConflictsLocally(leaf, row))
            return false;
        List *entries = ListEntries(leaf, row);
        Verdict verdict = LookForConflicts(self, &entries);
        if (verdict == Verdict::Insert)
            verdict = InsertAllSpeculatively(self, entries);
        if (verdict != Verdict::Again)
            return verdict == Verdict::Insert;
    }
}

// The trigger.
Datum CheckForConflicts(PG_FUNCTION_ARGS) {
    TriggerData *trigger = reinterpret_cast<TriggerData *>(fcinfo->context);
    CheckedLeaf *leaf = static_cast<CheckedLeaf *>(fcinfo->flinfo->fn_extra);
    TupleTableSlot *row = CompleteRow(leaf, trigger->tg_trigslot);
    CheckRow(leaf, row);
    bool is_inserted = Decide(leaf, row);
    ResetExprContext(leaf->self->context);
    if (!is_inserted) {
        InstrCountTuples2(&leaf->self->modify->ps, 1);
        return PointerGetDatum(nullptr);
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
    if (!known)
        return nullptr;
    CheckedLeaf *leaf = palloc0_object(CheckedLeaf);
    leaf->self = self;
    leaf->relinfo = relinfo;
    leaf->makers = palloc0_array(EntryMaker *, list_length(self->tables));
    for (int i = 0; i < list_length(self->tables); i++) {
        Oid wanted = static_cast<const IndexTable *>(list_nth(self->tables, i))->relid;
        for (const LeafTable &table : std::span(known->tables, known->table_count))
            if (table.table->relid == wanted)
                leaf->makers[i] = MakeEntryMaker(&table, known->partition_id, self->context);
    }
    const TupleConstr *constraints = rel->rd_att->constr;
    if (constraints && constraints->has_generated_stored)
        leaf->generated = ExecInitExtraTupleSlot(estate, RelationGetDescr(rel), &TTSOpsVirtual);
    leaf->scratch = table_slot_create(rel, &estate->es_tupleTable);
    return leaf;
}

// Gives a result relation one more trigger. What describes its triggers is this statement's own.
void AddTrigger(ResultRelInfo *relinfo, CheckedLeaf *leaf, MemoryContext memory) {
    TriggerDesc *triggers = relinfo->ri_TrigDesc;
    int count = triggers->numtriggers;
    Trigger *extended = palloc0_array(Trigger, count + 1);
    memcpy(extended, triggers->triggers, sizeof(Trigger) * count);
    Trigger *added = &extended[count];
    added->tgfoid = triggers->triggers[0].tgfoid; // any: it is not looked up
    added->tgname = const_cast<char *>(kTriggerName);
    added->tgtype = TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT;
    added->tgenabled = TRIGGER_FIRES_ALWAYS;
    added->tgisinternal = true;
    triggers->triggers = extended;
    triggers->numtriggers = count + 1;
    triggers->trig_insert_before_row = true;

    FmgrInfo *functions = palloc0_array(FmgrInfo, count + 1);
    memcpy(functions, relinfo->ri_TrigFunctions, sizeof(FmgrInfo) * count);
    functions[count].fn_addr = CheckForConflicts;
    functions[count].fn_oid = added->tgfoid;
    functions[count].fn_stats = TRACK_FUNC_ALL; // counts nowhere
    functions[count].fn_mcxt = memory;
    functions[count].fn_extra = leaf;
    relinfo->ri_TrigFunctions = functions;

    if (relinfo->ri_TrigInstrument) {
        EState *estate = leaf->self->modify->ps.state;
        Instrumentation *instruments = InstrAlloc(count + 1, estate->es_instrument, false);
        memcpy(instruments, relinfo->ri_TrigInstrument, sizeof(Instrumentation) * count);
        relinfo->ri_TrigInstrument = instruments;
    }
}

void Prepare(ConflictNode *self, ResultRelInfo *relinfo) {
    TriggerDesc *triggers = relinfo->ri_TrigDesc;
    if (!triggers || triggers->numtriggers == 0 || relinfo->ri_FdwRoutine ||
        triggers->triggers[triggers->numtriggers - 1].tgname == kTriggerName)
        return;
    MemoryContext memory = self->modify->ps.state->es_query_cxt;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    if (CheckedLeaf *leaf = MakeCheckedLeaf(self, relinfo))
        AddTrigger(relinfo, leaf, memory);
    MemoryContextSwitchTo(caller);
}

// --- The node ----------------------------------------------------------------

void Begin(CustomScanState *node, EState *estate, int flags) {
    BeginPassThrough(node, estate, flags);
    CustomScan *scan = reinterpret_cast<CustomScan *>(node->ss.ps.plan);
    if (const Base *base = FindBase(linitial_oid(scan->custom_private)))
        ToConflictNode(node)->tables = ListConstrainedTables(base);
    if (!estate->es_epq_active && !(flags & EXEC_FLAG_EXPLAIN_ONLY))
        LinkToParent(node, Link);
}

// Everything that is needed once there is a row.
void Start(ConflictNode *self) {
    EState *estate = self->modify->ps.state;
    CustomScan *scan = reinterpret_cast<CustomScan *>(self->css.ss.ps.plan);
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    self->context = CreateExprContext(estate);
    self->speculative = BeginSpeculation(self->tables, estate->es_output_cid);
    self->check = MakeConflictCheck(linitial_oid(scan->custom_private), self->tables, estate);
    MemoryContextSwitchTo(caller);
}

TupleTableSlot *Execute(CustomScanState *node) {
    ConflictNode *self = ToConflictNode(node);
    if (self->speculative)
        SettleRow(self->speculative);
    TupleTableSlot *row = ExecProcNode(Child(node));
    if (TupIsNull(row) || self->tables == NIL || !self->modify)
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
        EndConflictCheck(self->check);
        EndSpeculation(self->speculative);
    }
    ExecEndNode(Child(node));
}

void Explain(CustomScanState *node, List *, ExplainState *explain) {
    List *names = NIL;
    ListCell *cell;
    foreach (cell, ToConflictNode(node)->tables)
        names = lappend(names, get_rel_name(static_cast<IndexTable *>(lfirst(cell))->relid));
    ExplainPropertyList("Index Tables", names, explain);
}

} // namespace

Node *CreateConflictCheck(CustomScan *) {
    ConflictNode *state =
        reinterpret_cast<ConflictNode *>(newNode(sizeof(ConflictNode), T_CustomScanState));
    state->css.methods = &exec_methods;
    return reinterpret_cast<Node *>(state);
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
