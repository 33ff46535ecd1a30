// Marking, deciding, comparing. PostgreSQL opens and plans every partition of a partitioned table
// before it looks at indexes. So the planner hook marks the base tables of a query as if they were
// plain tables, and when the planner asks about one (get_relation_info_hook; quals are simplified
// and views are resolved by then) it either stays so, with the index tables as its indexes, or
// becomes a partitioned table again. Where the plan costs more than beginning with all partitions,
// other plans are made, in which some of the tables are partitioned tables again.
#include "plan/planner.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/candidates.h"
#include "plan/clauses.h"
#include "plan/costs.h"
#include "plan/estimate.h"
#include "plan/examination.h"
#include "plan/plan_tree.h"
#include "plan/row_identity.h"
#include "plan/scan.h"

namespace index_table {
namespace {

constinit PlanningState planning = {};

// --- Examining ---------------------------------------------------------------

// What tells a reference to a base table from others of the query, in copies of it too: those that
// have the same name are treated alike.
Oid NameOf(const RangeTblEntry *rte) {
    return hash_combine(murmurhash32(rte->relid), string_hash(rte->eref->aliasname, NAMEDATALEN));
}

void Note(const RangeTblEntry *rte, Obstacle obstacle) {
    if (planning.examination)
        NoteReference(planning.examination, rte->relid, NameOf(rte), obstacle);
}

// A relation that a query names as it does not name a base table to be read, or is a partition.
void NoteUnmarked(const Query *query, Index index, const RangeTblEntry *rte) {
    if (!planning.examination || rte->rtekind != RTE_RELATION)
        return;
    Oid base = rte->relid;
    Obstacle obstacle = Obstacle::Unread;
    if (rte->tablesample)
        obstacle = Obstacle::Sample;
    else if (static_cast<int>(index) == query->resultRelation && query->commandType == CMD_INSERT)
        obstacle = Obstacle::Inserted;
    else if (static_cast<int>(index) == query->resultRelation)
        obstacle = CanChangeRows() ? Obstacle::UnmatchedTargets : Obstacle::Server;
    else if (!rte->inh)
        obstacle = Obstacle::Only;
    else if (rte->relkind != RELKIND_PARTITIONED_TABLE)
        obstacle = Obstacle::Plain;
    NoteReference(planning.examination, base, NameOf(rte), obstacle);
    if (!get_rel_relispartition(base))
        return;
    ListCell *cell;
    foreach (cell, get_partition_ancestors(base))
        NoteReference(planning.examination, lfirst_oid(cell), NameOf(rte), Obstacle::Partition);
}

// --- Marking -----------------------------------------------------------------

// A marked reference looks like ONLY of a plain table, which a partitioned table never does.
void Mark(RangeTblEntry *rte) {
    rte->inh = false;
    rte->relkind = RELKIND_RELATION;
    planning.has_marks = true;
}

void Unmark(RangeTblEntry *rte) {
    rte->inh = true;
    rte->relkind = RELKIND_PARTITIONED_TABLE;
}

bool MarkQuery(Query *query);

bool MarkSublinks(Node *node, void *context) {
    if (!node)
        return false;
    if (IsA(node, Query))
        return MarkQuery(reinterpret_cast<Query *>(node));
    return compat::WalkExpression(node, MarkSublinks, context);
}

// Whether the rows that a query changes may be found through index tables.
bool MayMarkTarget(const Query *query) {
    switch (query->commandType) {
    case CMD_UPDATE:
    case CMD_DELETE:
        return CanChangeRows();
    case CMD_MERGE:
        return CanChangeRows() && !compat::LooksAtUnmatchedTargets(query);
    default:
        return false;
    }
}

// Whether a function in FROM is one that the planner may replace by its query.
bool MayBeInlined(const RangeTblEntry *rte) {
    if (rte->rtekind != RTE_FUNCTION || list_length(rte->functions) != 1)
        return false;
    const FuncExpr *call =
        reinterpret_cast<FuncExpr *>(linitial_node(RangeTblFunction, rte->functions)->funcexpr);
    if (!IsA(call, FuncExpr) || !call->funcretset)
        return false;
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
    bool is_sql = HeapTupleIsValid(tuple) &&
                  reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->prolang == SQLlanguageId;
    if (HeapTupleIsValid(tuple))
        ReleaseSysCache(tuple);
    return is_sql;
}

bool MarkQuery(Query *query) {
    bool marks_target = MayMarkTarget(query);
    ListCell *cell;
    int index = 0;
    foreach (cell, query->rtable) {
        RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);
        index++;
        if (rte->rtekind == RTE_SUBQUERY) {
            MarkQuery(rte->subquery);
            continue;
        }
        planning.may_mark_late = planning.may_mark_late || (IsInstalled() && MayBeInlined(rte));
        if (rte->rtekind != RTE_RELATION || !rte->inh || rte->tablesample ||
            rte->relkind != RELKIND_PARTITIONED_TABLE ||
            (index == query->resultRelation && !marks_target)) {
            NoteUnmarked(query, index, rte);
            continue;
        }
        Note(rte, Obstacle::Unread);
        const Base *base = FindIndexedBase(rte->relid);
        if (base && ServesScans(base))
            Mark(rte);
    }
    foreach (cell, query->cteList)
        MarkSublinks(lfirst_node(CommonTableExpr, cell)->ctequery, nullptr);
    if (query->hasSubLinks)
        compat::WalkQuery(query, MarkSublinks, static_cast<void *>(nullptr),
                          QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
    return false;
}

// --- Look-ups of one row -----------------------------------------------------------

// Whether a condition, one of those joined by AND, says that a column equals a value.
bool Equals(Node *condition, const KeyColumn &column) {
    if (IsA(condition, BoolExpr) && reinterpret_cast<BoolExpr *>(condition)->boolop == AND_EXPR) {
        ListCell *cell;
        foreach (cell, reinterpret_cast<BoolExpr *>(condition)->args)
            if (Equals(static_cast<Node *>(lfirst(cell)), column))
                return true;
        return false;
    }
    OpExpr *comparison = reinterpret_cast<OpExpr *>(condition);
    if (!IsA(comparison, OpExpr) || list_length(comparison->args) != 2 ||
        (OidIsValid(column.collation) && comparison->inputcollid != column.collation))
        return false;
    for (int side = 0; side < 2; side++) {
        Node *own = StripRelabels(static_cast<Node *>(list_nth(comparison->args, side)));
        Node *value = static_cast<Node *>(list_nth(comparison->args, 1 - side));
        if (IsA(own, Var) && reinterpret_cast<Var *>(own)->varattno == column.attno &&
            (IsA(value, Const) || IsA(value, Param)))
            return op_in_opfamily(comparison->opno, get_opclass_family(column.opclass)) &&
                   op_mergejoinable(comparison->opno, exprType(own));
    }
    return false;
}

bool IsDetermined(const IndexTable *table, Node *conditions) {
    if (!table->options.is_unique || table->predicate || table->on_servers ||
        table->key.multi_valued >= 0 || table->is_special())
        return false;
    return std::all_of(
        table->key.columns, table->key.columns + table->key.count,
        [&](const KeyColumn &column) { return column.attno != 0 && Equals(conditions, column); });
}

// Whether a query asks one table for the row of a unique key, as most do. It is not planned twice
// (FindsOneEntry), and its copy would take a twentieth of the time.
bool LooksOneRowUp(const Query *query) {
    if (list_length(query->rtable) != 1 || query->hasSubLinks || query->cteList != NIL ||
        !query->jointree->quals)
        return false;
    const RangeTblEntry *rte = linitial_node(RangeTblEntry, query->rtable);
    const Base *base = rte->securityQuals == NIL ? FindIndexedBase(rte->relid) : nullptr;
    auto is_determined = [&](const IndexTable *table) {
        return ServesScans(table) && IsDetermined(table, query->jointree->quals);
    };
    return base && (std::any_of(base->tables, base->tables + base->table_count, is_determined) ||
                    std::any_of(base->globals, base->globals + base->global_count, is_determined));
}

// --- Deciding ----------------------------------------------------------------

// Columns other than a row's own, its ctid and tableoid, are not to be had through an index table;
// of rows in foreign partitions the ctid neither.
bool NeedsSystemColumns(PlannerInfo *root, RangeTblEntry *rte, Index relid, bool has_foreign) {
    Bitmapset *columns = bms_copy(compat::SelectedColumns(root, rte));
    pull_varattnos(reinterpret_cast<Node *>(rte->securityQuals), relid, &columns);
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        if (attno >= 0)
            return false;
        if (attno != TableOidAttributeNumber &&
            (has_foreign || attno != SelfItemPointerAttributeNumber))
            return true;
    }
    return false;
}

// Whether a reference is one that index tables can serve.
bool MayServe(const RelOptInfo *rel, const RangeTblEntry *rte) {
    return rel->reloptkind == RELOPT_BASEREL && !rte->tablesample;
}

// The planner answers min() and max() by queries of their own, planned by now: where index tables
// serve those, this one, which it will not run, need not be planned over every partition.
bool IsAnsweredByMinMax(PlannerInfo *root, Index relid) {
    bool found = false;
    ListCell *rel_cell, *path_cell, *cell;
    foreach (rel_cell, root->upper_rels[UPPERREL_GROUP_AGG])
        foreach (path_cell, lfirst_node(RelOptInfo, rel_cell)->pathlist) {
            if (!IsA(lfirst(path_cell), MinMaxAggPath))
                continue;
            found = true;
            foreach (cell, lfirst_node(MinMaxAggPath, path_cell)->mmaggregates) {
                PlannerInfo *subroot = lfirst_node(MinMaxAggInfo, cell)->subroot;
                RelOptInfo *rel = subroot->simple_rel_array[relid];
                if (!rel || !GetCandidates(rel))
                    return false;
            }
        }
    return found;
}

struct Persistence {
    Oid relid; // hash key
    bool has_unlogged;
};

// Whether a partition is unlogged.
bool HasUnlogged(Oid base) {
    static constinit KnownRelations<Persistence> known = {};
    if (const Persistence *found = known.Find(base, "index_table unlogged partitions"))
        return found->has_unlogged;
    bool has_unlogged = false;
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        has_unlogged =
            has_unlogged || get_rel_persistence(lfirst_oid(cell)) == RELPERSISTENCE_UNLOGGED;
    known.Add({base, has_unlogged});
    return has_unlogged;
}

// Whether rows of foreign partitions may be found through index tables for a use of them.
bool MayUseShards(PlannerInfo *root, const Base *base, RowUse use) {
    if (use == RowUse::Read)
        return true;
    // Nothing is to be left out because its entry has not come yet.
    if (std::any_of(base->tables, base->tables + base->table_count,
                    [](const IndexTable *table) { return LagsBehind(table); }))
        return false;
    // MERGE PostgreSQL does not have for foreign tables. A row that is locked on its server as it
    // is read cannot be looked at again where one of another table has been changed meanwhile.
    return use == RowUse::Change ? root->parse->commandType != CMD_MERGE
                                 : list_length(root->rowMarks) == 1;
}

// Whether the plan being made uses the table's indexes, which is compared with one that does not.
bool MayTakePart(const CandidateSet *set, const RangeTblEntry *rte) {
    if (GetTrial(rte))
        return true;
    if (list_member_oid(planning.native, NameOf(rte))) {
        // A foreign partition is asked through a cursor: the planner counts one round trip of two.
        Cost opening = planner_units::kPagesPerPartition * seq_page_cost +
                       (set->has_foreign ? planner_units::kRoundTrip : 0);
        planning.opening += set->partitions * opening;
        return false;
    }
    planning.doubted = list_append_unique_oid(planning.doubted, NameOf(rte));
    planning.native_start += set->native_start * planner_units::kAtMostPerMicrosecond;
    return true;
}

CandidateSet *Refuse(const RangeTblEntry *rte, Obstacle obstacle) {
    Note(rte, obstacle);
    return nullptr;
}

CandidateSet *FindServing(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
    const Base *base =
        MayServe(rel, rte) && !planning.is_replanning ? FindIndexedBase(rte->relid) : nullptr;
    if (!base)
        return nullptr;
    // PostgreSQL raises an error of them on a standby, unless the query leaves them out.
    if (RecoveryInProgress() && HasUnlogged(rte->relid))
        return Refuse(rte, Obstacle::Standby);
    bool has_foreign = HasForeignLeaves(base);
    if (has_foreign && !MayUseShards(root, base, GetRowUse(root, rel->relid)))
        return Refuse(rte, Obstacle::ForeignRows);
    if (NeedsSystemColumns(root, rte, rel->relid, has_foreign))
        return Refuse(rte, Obstacle::SystemColumn);
    if (IsAnsweredByMinMax(root, rel->relid))
        return OfferCandidates(root, rel, base, AllColumns(rel));
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        planning.considered = list_append_unique_oid(planning.considered, table->relid);
    Clauses clauses = CollectClauses(root, rel->relid);
    CandidateSet *set = OfferCandidates(root, rel, base, clauses.columns);
    Decision decision = set ? Decide(root, rel, set, &clauses) : Decision::Natively;
    if (decision == Decision::Natively)
        return Refuse(rte, set ? Obstacle::PartitionKey : Obstacle::None);
    Note(rte, Obstacle::None);
    if (decision == Decision::Compare && !MayTakePart(set, rte))
        return nullptr;
    ApplyMergedClauses(&clauses);
    set->merged = clauses.merged;
    return set;
}

// Undoes the mark: the planner learns what it would have learnt without it.
void PlanNatively(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
    Unmark(rte);
    DropRowIdentity(root, rel->relid);
    rel->pages = 0;
    rel->tuples = 0;
    rel->allvisfrac = 0;
    rel->fdw_private = nullptr;
    // Foreign keys are of no use to the parent of an inheritance tree.
    List *foreign_keys = NIL;
    ListCell *cell;
    foreach (cell, root->fkey_list)
        if (lfirst_node(ForeignKeyOptInfo, cell)->con_relid != rel->relid)
            foreign_keys = lappend(foreign_keys, lfirst(cell));
    root->fkey_list = foreign_keys;
    GetNativeInfo(root, rte->relid, rel);
}

// Forgets what the planner has learnt of a table's partitions.
void ForgetPartitions(RelOptInfo *rel) {
    rel->part_scheme = nullptr;
    rel->nparts = -1;
    rel->boundinfo = nullptr;
    rel->partition_qual = NIL;
    rel->partexprs = nullptr;
    rel->nullable_partexprs = nullptr;
}

// References that were not there to be marked: functions that were replaced by their queries bring
// them. They cost what they cost natively, once a session, to look at the partitions.
bool MarkLate(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
    bool may_mark = rte->relkind == RELKIND_PARTITIONED_TABLE && !planning.is_asking_natively &&
                    MayServe(rel, rte) && GetRowUse(root, rel->relid) != RowUse::Change;
    const Base *base = may_mark ? FindIndexedBase(rte->relid) : nullptr;
    if (!base || !ServesScans(base))
        return false;
    Mark(rte);
    ForgetPartitions(rel);
    return true;
}

// --- After planning ----------------------------------------------------------

// Whether a node of a plan scans a table as what it is not while it is marked. PostgreSQL scans no
// partitioned table itself.
bool ScansAsPlain(const Plan *plan, List *rtable) {
    switch (nodeTag(plan)) {
    case T_SeqScan:
    case T_SampleScan:
    case T_IndexScan:
    case T_IndexOnlyScan:
    case T_BitmapHeapScan:
    case T_TidScan:
    case T_TidRangeScan: {
        const Scan *scan = reinterpret_cast<const Scan *>(plan);
        const RangeTblEntry *rte = rt_fetch(scan->scanrelid, rtable);
        return rte->relkind == RELKIND_PARTITIONED_TABLE || IsMarked(rte);
    }
    default:
        return false;
    }
}

// The index tables and storages that a plan reads become entries of its range table: a cached plan
// then locks them before it is found valid, as it does the base tables.
void LockWithPlan(PlannedStmt *plan) {
    ListCell *cell;
    foreach (cell, planning.bases)
        WaitForTruncations(lfirst_oid(cell));
    foreach (cell, planning.used) {
        plan->relationOids = list_append_unique_oid(plan->relationOids, lfirst_oid(cell));
        HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            elog(ERROR, "cache lookup failed for relation %u", lfirst_oid(cell));
        Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
        RangeTblEntry *rte = makeNode(RangeTblEntry);
        rte->rtekind = RTE_RELATION;
        rte->relid = lfirst_oid(cell);
        rte->relkind = form->relkind;
        rte->rellockmode = AccessShareLock;
        rte->eref = makeAlias(NameStr(form->relname), NIL);
        ReleaseSysCache(tuple);
        compat::AppendRelation(plan, rte);
    }
}

// An index that is made or dropped on an index table may make another plan the better one.
void WatchIndexTables(PlannedStmt *plan) {
    plan->relationOids = list_concat_unique_oid(plan->relationOids, planning.considered);
}

// References that the planner never came to, in parts of the query that cannot yield rows.
void UnmarkRest(PlannedStmt *plan) {
    ListCell *cell;
    foreach (cell, plan->rtable) {
        RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);
        if (IsMarked(rte))
            Unmark(rte);
    }
}

// Whether WHERE CURRENT OF may find its row in a query's plan, which it searches for a scan of the
// partition: PostgreSQL takes queries that lock rows, and those whose plan is a scan, but for
// LIMIT. What would need a Sort by every other plan is taken to need one.
bool MayBeOfCurrentRow(const Query *query) {
    if (query->rowMarks != NIL)
        return true;
    if (query->groupClause != NIL || query->groupingSets != NIL || query->hasAggs ||
        query->hasWindowFuncs || query->distinctClause != NIL || query->sortClause != NIL ||
        query->hasTargetSRFs || list_length(query->jointree->fromlist) != 1)
        return false;
    Node *only = static_cast<Node *>(linitial(query->jointree->fromlist));
    if (!IsA(only, RangeTblRef))
        return false;
    const RangeTblEntry *rte =
        rt_fetch(reinterpret_cast<RangeTblRef *>(only)->rtindex, query->rtable);
    return rte->rtekind != RTE_SUBQUERY || MayBeOfCurrentRow(rte->subquery);
}

// Cursors that cannot lock rows, by how they are declared, are not meant for WHERE CURRENT OF.
constexpr int kReadOnly = CURSOR_OPT_SCROLL | CURSOR_OPT_INSENSITIVE | CURSOR_OPT_HOLD;

// A trial is planned as if the setting were on.
bool IsEnabled() {
    const Examination *examination = planning.examination;
    return GetScanPolicy() != ScanPolicy::Off ||
           (examination && (examination->is_survey || OidIsValid(examination->trial.name)));
}

// For who asks what was decided.
void Report(const PlannedStmt *plan) {
    Examination *examination = planning.examination;
    if (!examination)
        return;
    MemoryContext caller = MemoryContextSwitchTo(examination->context);
    examination->cost = CostOf(plan, planning);
    examination->native = list_copy(planning.native);
    MemoryContextSwitchTo(caller);
}

bool IsPlannedNatively(const Query *query, int options) {
    if (options & kPlanNatively)
        return true;
    bool is_declared = options & CURSOR_OPT_FAST_PLAN;
    return is_declared && !(options & kReadOnly) && MayBeOfCurrentRow(query);
}

} // namespace

PlanningState CurrentPlanning() {
    return planning;
}

void BeginPlanning(Query *query, int options) {
    planning = {.examination = TakeExamination()};
    planning.is_active = IsEnabled() && !IsPlannedNatively(query, options);
    if (planning.examination)
        planning.native = list_copy(planning.examination->trial.native);
    if (planning.is_active)
        MarkQuery(query);
}

Query *CopyForAlternatives(const Query *query, bool may_lose_paths) {
    bool may_be_doubted = planning.has_marks && (may_lose_paths || !LooksOneRowUp(query));
    return may_be_doubted || planning.may_mark_late ? static_cast<Query *>(copyObjectImpl(query))
                                                    : nullptr;
}

bool HasLostPaths(const PlannedStmt *plan) {
    return planning.has_marks &&
           AnyNode(plan, [=](const Plan *node) { return ScansAsPlain(node, plan->rtable); });
}

void BeginReplanning() {
    planning = {.is_active = true,
                .has_marks = true,
                .is_replanning = true,
                .examination = planning.examination};
}

Cost CostOf(const PlannedStmt *plan, const PlanningState &state) {
    // Of two that cost the same the one with a scan of all partitions is not taken: PostgreSQL's
    // own can be parallel, and leaves out partitions while it runs.
    constexpr double kLastChoice = 1.1;
    const Plan *top = plan->planTree;
    return top->total_cost * (state.scanned != NIL ? kLastChoice : 1) + state.opening +
           compat::CountDisabled(top) * planner_units::kProhibitive;
}

List *ListAlternatives(const PlannedStmt *plan) {
    if (planning.examination && OidIsValid(planning.examination->trial.name))
        return NIL;
    bool forces = GetScanPolicy() == ScanPolicy::Force;
    if (planning.doubted == NIL ||
        (forces ? planning.scanned == NIL : CostOf(plan, planning) <= planning.native_start))
        return NIL;
    List *alternatives = NIL;
    if (planning.scanned != NIL && list_difference_oid(planning.doubted, planning.scanned) != NIL)
        alternatives = lappend(alternatives, planning.scanned);
    if (alternatives == NIL || !forces)
        alternatives = lappend(alternatives, planning.doubted);
    return alternatives;
}

void BeginAlternative(const List *native) {
    planning = {.is_active = true,
                .has_marks = true,
                .native = list_copy(native),
                .examination = planning.examination};
}

void FinishPlan(PlannedStmt *plan) {
    Report(plan);
    if (!planning.has_marks)
        return;
    UnmarkRest(plan);
    LockWithPlan(plan);
    WatchIndexTables(plan);
}

void EndPlanning(const PlanningState &outer) {
    planning = outer;
}

Trial *GetTrial(const RangeTblEntry *rte) {
    Examination *examination = planning.examination;
    return examination && OidIsValid(examination->trial.name) &&
                   examination->trial.name == NameOf(rte)
               ? &examination->trial
               : nullptr;
}

bool ForcesIndexes(const RangeTblEntry *rte) {
    return GetScanPolicy() == ScanPolicy::Force || GetTrial(rte);
}

void OfferIndexTables(PlannerInfo *root, bool inhparent, RelOptInfo *rel) {
    if (!planning.is_active)
        return;
    RangeTblEntry *rte = root->simple_rte_array[rel->relid];
    if (inhparent ? !MarkLate(root, rel, rte) : !IsMarked(rte))
        return;
    rel->indexlist = NIL; // the partitioned indexes of the parent
    CandidateSet *set = FindServing(root, rel, rte);
    if (!set) {
        PlanNatively(root, rel, rte);
        return;
    }
    rel->fdw_private = set;
    AddRowIdentity(root, rel->relid, rte);
}

bool IsPlanningScans() {
    return planning.has_marks;
}

void RememberScanOfAll(const RangeTblEntry *rte) {
    planning.scanned = list_append_unique_oid(planning.scanned, NameOf(rte));
}

void RememberUse(const IndexTable *table) {
    Assert(IsKnown(table));
    planning.used = list_append_unique_oid(planning.used, table->relid);
    planning.bases = list_append_unique_oid(planning.bases, table->base);
}

void GetNativeInfo(PlannerInfo *root, Oid relid, RelOptInfo *rel) {
    planning.is_asking_natively = true;
    get_relation_info(root, relid, true, rel);
    planning.is_asking_natively = false;
}

bool IsMarked(const RangeTblEntry *rte) {
    return planning.has_marks && rte->rtekind == RTE_RELATION && !rte->inh &&
           rte->relkind == RELKIND_RELATION &&
           get_rel_relkind(rte->relid) == RELKIND_PARTITIONED_TABLE;
}

void RestoreRelationKind(RangeTblEntry *rte) {
    Assert(IsMarked(rte));
    rte->relkind = RELKIND_PARTITIONED_TABLE;
}
} // namespace index_table
