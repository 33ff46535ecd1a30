// Custom paths for base tables that are scanned through their index tables. The planner has made
// index paths over the candidates by its own rules; each becomes a custom path of the same cost and
// order, and a custom plan when it is chosen.
#include "plan/paths.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/candidates.h"
#include "plan/clauses.h"
#include "plan/costs.h"
#include "plan/estimate.h"
#include "plan/examination.h"
#include "plan/multi_valued.h"
#include "plan/or_clause.h"
#include "plan/planner.h"
#include "plan/queue_cost.h"
#include "plan/row_identity.h"
#include "plan/scan.h"

namespace index_table {
namespace {

// --- Paths -------------------------------------------------------------------

Plan *PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best, List *target_list,
               List *clauses, List *custom_plans);

CustomPathMethods path_methods = {"Index Table Scan", PlanScan, nullptr};

CustomPath *Wrap(const Path *path) {
    CustomPath *custom = makeNode(CustomPath);
    custom->path = *path;
    custom->path.type = T_CustomPath;
    custom->path.pathtype = T_CustomScan;
    custom->path.parallel_aware = false;
    custom->flags = CUSTOMPATH_SUPPORT_PROJECTION;
    custom->methods = &path_methods;
    custom->custom_private = list_make1(const_cast<Path *>(path));
    return custom;
}

// What the rows of an index path cost beyond what the planner has counted.
Cost CostOfFetching(PlannerInfo *root, const CandidateSet *set, const Candidate *candidate,
                    const IndexPath *path) {
    double rows = CountFetchedRows(root, candidate, path);
    Cost cost = candidate->table->is_global()
                    ? 0
                    : rows * planner_units::kOperatorsPerEntry * cpu_operator_cost;
    if (set->has_foreign)
        cost += planner_units::kRoundTrip * Min(rows, set->partitions) +
                rows * planner_units::kShardRow;
    return cost;
}

// Connections to servers are this process's. No row comes before the first round trip is over.
void RememberShards(CustomPath *custom) {
    custom->path.parallel_safe = false;
    custom->path.startup_cost += planner_units::kRoundTrip;
    custom->path.total_cost = Max(custom->path.total_cost, custom->path.startup_cost);
}

// A bitmap is complete before the first entry comes. What the planner has counted for pages of the
// base table is for every entry that is read, of which only those that meet the conditions lead
// there.
void CostBitmap(PlannerInfo *root, const Candidate *candidate, const IndexPath *path,
                CustomPath *custom) {
    double entries = clamp_row_est(path->indexselectivity * candidate->info->tuples);
    double share = Min(1, CountFetchedRows(root, candidate, path) / entries);
    Cost index = Min(path->indextotalcost, custom->path.total_cost);
    custom->path.startup_cost = Max(custom->path.startup_cost, index);
    custom->path.total_cost =
        index + (custom->path.total_cost - index) * share + entries * cpu_tuple_cost;
}

// The same of a global index, which leads to rows in the order of their addresses, as PostgreSQL's
// bitmaps do.
void CostByAddress(PlannerInfo *root, RelOptInfo *rel, IndexPath *path, CustomPath *custom) {
    Path heap = {};
    heap.type = T_BitmapHeapPath;
    heap.pathtype = T_BitmapHeapScan;
    heap.parent = rel;
    heap.pathtarget = rel->reltarget;
    heap.param_info = path->path.param_info;
    cost_bitmap_heap_scan(&heap, root, rel, heap.param_info, &path->path, 1);
    custom->path.startup_cost = heap.startup_cost;
    custom->path.total_cost = heap.total_cost;
}

// Elements of arrays that are looked for one by one come in no order: a path by distance leaves
// such conditions to be checked on rows.
IndexPath *WithoutArrays(PlannerInfo *root, const Candidate *candidate, IndexPath *path) {
    if (candidate->takes_arrays || path->indexorderbys == NIL)
        return path;
    List *clauses = NIL;
    ListCell *cell;
    foreach (cell, path->indexclauses) {
        IndexClause *clause = lfirst_node(IndexClause, cell);
        if (!IsA(linitial_node(RestrictInfo, clause->indexquals)->clause, ScalarArrayOpExpr))
            clauses = lappend(clauses, clause);
    }
    if (list_length(clauses) == list_length(path->indexclauses))
        return path;
    return create_index_path(root, path->indexinfo, clauses, path->indexorderbys,
                             path->indexorderbycols, path->path.pathkeys, path->indexscandir,
                             path->path.pathtype == T_IndexOnlyScan, PATH_REQ_OUTER(&path->path), 1,
                             false);
}

// The same rows in no order: where a query wants all of them sorting may be the better way.
IndexPath *WithoutDistances(PlannerInfo *root, const IndexPath *path) {
    return create_index_path(root, path->indexinfo, path->indexclauses, NIL, NIL, NIL,
                             ForwardScanDirection, path->path.pathtype == T_IndexOnlyScan,
                             PATH_REQ_OUTER(&path->path), 1, false);
}

// An index scan by distance reads entries one by one, whatever else its access method can do.
bool ReadsBitmaps(const Candidate *candidate, const IndexPath *path) {
    return candidate->by_bitmap && path->indexorderbys == NIL;
}

// What is queued is read before the first entry comes.
void AddQueue(const Candidate *candidate, const IndexPath *path, CustomPath *custom) {
    Cost cost = CostOfQueue(candidate, LooksKeysUp(path)) * planner_units::kPerMicrosecond;
    custom->path.startup_cost += cost;
    custom->path.total_cost += cost;
}

// What asking the servers of an index table costs: all entries come before the first row.
void AddServers(const Candidate *candidate, const IndexPath *path, CustomPath *custom) {
    if (!candidate->table->on_servers)
        return;
    double entries = clamp_row_est(path->indexselectivity * candidate->info->tuples);
    Cost cost = planner_units::kRoundTrip + entries * planner_units::kShardRow;
    custom->path.startup_cost += cost;
    custom->path.total_cost += cost;
    custom->path.parallel_safe = false;
}

// What a path through a candidate costs.
void CostScan(PlannerInfo *root, RelOptInfo *rel, const Candidate *candidate, IndexPath *path,
              CustomPath *custom) {
    if (ReadsBitmaps(candidate, path) && candidate->owner_index)
        CostBitmap(root, candidate, path, custom);
    else if (ReadsBitmaps(candidate, path))
        CostByAddress(root, rel, path, custom);
    const CandidateSet *set = GetCandidates(rel);
    if (path->path.pathtype == T_IndexScan) {
        custom->path.total_cost += CostOfFetching(root, set, candidate, path);
        if (set->has_foreign && !ReadsBitmaps(candidate, path))
            custom->path.total_cost =
                Min(custom->path.total_cost, CostOfLookup(root, rel, path, 1));
        if (set->has_foreign)
            RememberShards(custom);
    }
    AddQueue(candidate, path, custom);
    AddServers(candidate, path, custom);
}

void AddIndexPath(PlannerInfo *root, RelOptInfo *rel, IndexPath *path) {
    const Candidate *candidate = FindCandidate(rel, path->indexinfo);
    if (!candidate || !CanAskServers(candidate, path))
        return;
    bool has_predicate = candidate->owner_index ? candidate->owner_index->predicate != NIL
                                                : path->indexinfo->indpred != NIL;
    if (candidate->by_distance_only && path->indexorderbys == NIL)
        return;
    if (ReadsBitmaps(candidate, path) && path->indexclauses == NIL && !has_predicate)
        return; // all of it, in no order
    if (path->indexorderbys != NIL && path->indexclauses != NIL)
        AddIndexPath(root, rel, WithoutDistances(root, path));
    path = WithoutArrays(root, candidate, path);
    CustomPath *custom = Wrap(&path->path);
    if (candidate->is_partitioned)
        custom->path.pathkeys = NIL;
    CostScan(root, rel, candidate, path, custom);
    add_path(rel, &custom->path);
}

// Paths through keys of many values, which the planner cannot match.
void AddElementPaths(PlannerInfo *root, RelOptInfo *rel, const CandidateSet *set) {
    for (Candidate &candidate : std::span(set->candidates, set->count)) {
        if (candidate.table->key.multi_valued < 0 || candidate.is_left_out)
            continue;
        IndexOptInfo *info = makeNode(IndexOptInfo);
        *info = *candidate.info;
        info->indpred = NIL;
        info->indrestrictinfo = rel->baserestrictinfo;
        ListCell *cell;
        foreach (cell, rel->baserestrictinfo) {
            RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
            Expr *element = MatchElement(&candidate, rel->baserestrictinfo, restriction);
            if (!element)
                continue;
            IndexClause *clause = makeNode(IndexClause);
            clause->rinfo = restriction;
            clause->indexquals =
                list_make1(compat::MakeRestrictInfo(root, element, restriction->security_level));
            clause->lossy = true;
            clause->indexcol = 0;
            IndexPath *path =
                create_index_path(root, info, list_make1(clause), NIL, NIL, NIL,
                                  ForwardScanDirection, false, rel->lateral_relids, 1.0, false);
            AddIndexPath(root, rel, path);
        }
    }
}

// Paths for conditions on different keys joined by OR: one after the other, each row once.
void AddOrPaths(PlannerInfo *root, RelOptInfo *rel, const Trial *trial) {
    auto is_left_out = [=](const ListCell &path) {
        return FindCandidate(rel, lfirst_node(IndexPath, &path)->indexinfo)->is_left_out;
    };
    // Beside the index that is tried one of these paths may read others.
    List *indexes = rel->indexlist;
    const CandidateSet *set = GetCandidates(rel);
    if (trial)
        rel->indexlist = NIL;
    for (const Candidate &candidate : std::span(set->candidates, trial ? set->count : 0))
        rel->indexlist = lappend(rel->indexlist, candidate.info);
    ListCell *cell, *arm;
    foreach (cell, rel->baserestrictinfo) {
        List *arms = MatchOr(root, rel, lfirst_node(RestrictInfo, cell));
        if (arms == NIL ||
            (trial && std::all_of(arms->elements, arms->elements + arms->length, is_left_out)))
            continue;
        CustomPath *custom = nullptr;
        bool can_ask = true;
        foreach (arm, arms) {
            IndexPath *path = lfirst_node(IndexPath, arm);
            const Candidate *candidate = FindCandidate(rel, path->indexinfo);
            can_ask = can_ask && CanAskServers(candidate, path);
            CustomPath *own = Wrap(&path->path);
            CostScan(root, rel, candidate, path, own);
            if (!custom) {
                custom = own;
                continue;
            }
            custom->path.total_cost += own->path.total_cost;
            custom->path.parallel_safe = custom->path.parallel_safe && own->path.parallel_safe;
        }
        if (!can_ask)
            continue;
        custom->custom_private = arms;
        custom->path.rows = rel->rows;
        add_path(rel, &custom->path);
    }
    rel->indexlist = indexes;
}

// What a trial learns. Where the index has no path, the scan of all partitions costs what it does:
// another reference of the same name may have one.
void ReportTrial(const RelOptInfo *rel, const CandidateSet *set, Trial *trial, Path *all) {
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        trial->lacks_predicate = trial->lacks_predicate ||
                                 (!candidate.is_left_out && candidate.table->key.multi_valued < 0 &&
                                  candidate.info->indpred != NIL && !candidate.info->predOK);
    if (list_length(rel->pathlist) == 1 && linitial(rel->pathlist) == all)
        all->total_cost -= planner_units::kProhibitive;
}

// --- Plans -------------------------------------------------------------------

// Columns of the base table that the scan must yield; NIL: all of them.
List *NeededColumns(const RelOptInfo *rel, List *clauses) {
    Bitmapset *columns = nullptr;
    pull_varattnos(reinterpret_cast<Node *>(clauses), rel->relid, &columns);
    // What the scan yields computed, below an outer join, needs columns that nothing else does:
    // attr_needed does not have those.
    pull_varattnos(reinterpret_cast<Node *>(rel->reltarget->exprs), rel->relid, &columns);
    for (int attno = rel->min_attr; attno <= rel->max_attr; attno++)
        if (rel->attr_needed[attno - rel->min_attr])
            columns = bms_add_member(columns, attno - FirstLowInvalidHeapAttributeNumber);
    List *attnos = NIL;
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        if (attno == 0)
            return NIL;
        attnos = lappend_int(attnos, attno);
    }
    // NIL means all; the first column is as cheap as none.
    return attnos ? attnos : list_make1_int(TableOidAttributeNumber);
}

// The columns of the index on the left of a condition.
List *QualColumns(const IndexClause *clause, Expr *qual) {
    if (!IsA(qual, RowCompareExpr))
        return list_make1_int(clause->indexcol + 1);
    List *columns = NIL;
    ListCell *cell;
    int count = list_length(reinterpret_cast<RowCompareExpr *>(qual)->largs);
    foreach (cell, clause->indexcols)
        if (list_length(columns) < count)
            columns = lappend_int(columns, lfirst_int(cell) + 1);
    return columns;
}

void AddIndexClauses(ScanPlan *plan, SourcePlan *source, List *index_clauses) {
    ListCell *cell, *qual_cell;
    foreach (cell, index_clauses) {
        IndexClause *clause = lfirst_node(IndexClause, cell);
        foreach (qual_cell, clause->indexquals) {
            Expr *qual = lfirst_node(RestrictInfo, qual_cell)->clause;
            source->quals = lappend(source->quals, copyObjectImpl(qual));
            source->qual_columns = lappend(source->qual_columns, QualColumns(clause, qual));
        }
        if (!clause->lossy)
            plan->recheck = lappend(plan->recheck, copyObjectImpl(clause->rinfo->clause));
    }
}

// The distances by which an index path is ordered.
void AddDistances(ScanPlan *plan, const IndexPath *path) {
    ListCell *expr_cell, *column_cell, *key_cell;
    forthree(expr_cell, path->indexorderbys, column_cell, path->indexorderbycols, key_cell,
             path->path.pathkeys) {
        Node *expr = static_cast<Node *>(lfirst(expr_cell));
        Oid type = exprType(expr);
        Oid less = get_opfamily_member(lfirst_node(PathKey, key_cell)->pk_opfamily, type, type,
                                       BTLessStrategyNumber);
        if (!OidIsValid(less))
            elog(ERROR, "type %u has no order", type);
        plan->distances = lappend(plan->distances, copyObjectImpl(expr));
        plan->distance_columns =
            lappend(plan->distance_columns, list_make1_int(lfirst_int(column_cell) + 1));
        plan->distance_operators = lappend_oid(plan->distance_operators, less);
    }
}

// The clauses that are left to be checked on the rows of a single index path. What entries alone
// need not be checked for goes to `implied`.
List *RemainingClauses(const RelOptInfo *rel, const IndexPath *path, List *clauses,
                       List **implied_clauses) {
    bool entries_alone = path->path.pathtype == T_IndexOnlyScan;
    List *remaining = NIL;
    ListCell *cell;
    foreach (cell, clauses) {
        RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
        // What the predicate implies may concern columns that entries do not hold.
        bool implied = entries_alone && list_member_ptr(rel->baserestrictinfo, restriction) &&
                       !list_member_ptr(path->indexinfo->indrestrictinfo, restriction);
        if (implied)
            *implied_clauses = lappend(*implied_clauses, copyObjectImpl(restriction->clause));
        else if (!is_redundant_with_indexclauses(restriction, path->indexclauses))
            remaining = lappend(remaining, restriction);
    }
    return remaining;
}

// Those of the clauses that entries by distance are checked for: of these many are read.
List *EntryFilter(const RelOptInfo *rel, const IndexPath *path, const List *clauses) {
    const Candidate *candidate = FindCandidate(rel, path->indexinfo);
    List *filter = NIL;
    ListCell *cell;
    foreach (cell, path->indexorderbys != NIL && path->path.pathtype == T_IndexScan ? clauses : NIL)
        if (RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
            CanFilterEntries(rel, candidate, restriction))
            filter = lappend(filter, copyObjectImpl(restriction->clause));
    return filter;
}

Plan *PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best, List *target_list,
               List *clauses, List *custom_plans) {
    List *paths = best->custom_private;
    ScanPlan plan = {.mode = ScanMode::AllPartitions,
                     .direction = ForwardScanDirection,
                     .lock = LockModeFor(GetRowUse(root, rel->relid)),
                     // What row security hides must not be shown to conditions of others'.
                     .may_ship = planner_rt_fetch(rel->relid, root)->securityQuals == NIL,
                     .first_batch = FirstBatch(root, &best->path)};
    List *filter = clauses;
    if (IsA(linitial(paths), IndexPath)) {
        IndexPath *first = linitial_node(IndexPath, paths);
        plan.mode = first->path.pathtype == T_IndexOnlyScan ? ScanMode::Entries : ScanMode::Rows;
        // An index without an order has no direction either.
        if (first->indexscandir == BackwardScanDirection)
            plan.direction = BackwardScanDirection;
        plan.is_ordered = best->path.pathkeys != NIL;
        plan.sources = static_cast<SourcePlan *>(palloc0(sizeof(SourcePlan) * list_length(paths)));
        ListCell *cell;
        foreach (cell, paths) {
            IndexPath *path = lfirst_node(IndexPath, cell);
            const Candidate *candidate = FindCandidate(rel, path->indexinfo);
            SourcePlan *source = &plan.sources[plan.source_count++];
            source->root = candidate->table->root;
            source->index_table = candidate->table->relid;
            source->index = candidate->info->indexoid;
            source->is_owner_index = candidate->owner_index != nullptr;
            AddIndexClauses(&plan, source, path->indexclauses);
            RememberUse(candidate->table);
        }
        AddDistances(&plan, first);
        if (plan.source_count == 1)
            filter = RemainingClauses(rel, first, clauses, &plan.implied);
        plan.entry_filter =
            WithoutMerged(GetCandidates(rel)->merged, EntryFilter(rel, first, filter));
        if (plan.source_count > 1)
            plan.recheck = NIL; // each is a part of a clause only; all clauses are in the filter
    }
    if (plan.mode == ScanMode::AllPartitions)
        RememberScanOfAll(planner_rt_fetch(rel->relid, root));
    filter = WithoutMerged(GetCandidates(rel)->merged, extract_actual_clauses(filter, false));
    List *checked = list_concat_copy(filter, plan.recheck);
    plan.columns = NeededColumns(rel, list_concat(checked, plan.distances));
    CustomScan *scan = MakeCustomScan(plan, GetScanMethods(plan.mode));
    scan->scan.plan.targetlist = target_list;
    scan->scan.plan.qual = filter;
    scan->scan.scanrelid = rel->relid;
    scan->flags = best->flags;
    return &scan->scan.plan;
}

} // namespace

int FirstBatch(PlannerInfo *root, const Path *path) {
    constexpr double kUnknown = 1000;
    constexpr double kMost = 10000;
    constexpr int kFew = 20;
    constexpr int kOverhead = 200; // of a row in memory
    constexpr double kMargin = 1.2;
    double room = work_mem * 1024.0 / (path->pathtarget->width + kOverhead);
    int all = static_cast<int>(Max(kUnknown, Min(Min(path->rows * kMargin, room), kMost)));
    const Query *query = root->parse;
    bool needs_all = query->hasAggs || query->groupClause != NIL || query->distinctClause != NIL ||
                     query->hasWindowFuncs || (root->sort_pathkeys != NIL && path->pathkeys == NIL);
    if (needs_all)
        return all;
    if (root->limit_tuples > 0)
        return static_cast<int>(Min(root->limit_tuples + 1, static_cast<double>(all)));
    return root->tuple_fraction > 0 ? kFew : all;
}

// What the planner has counted for pages of the base table is none of it.
Cost CostOfLookup(PlannerInfo *root, RelOptInfo *rel, const IndexPath *path, double at_once) {
    const CandidateSet *set = GetCandidates(rel);
    const Candidate *candidate = FindCandidate(rel, path->indexinfo);
    double rows = CountFetchedRows(root, candidate, path);
    double entries = clamp_row_est(path->indexselectivity * candidate->info->tuples);
    at_once = Max(at_once, 1);
    double trips = candidate->table->on_servers ? 1 : 0;
    if (set->has_foreign)
        trips += 1 + Min(at_once * rows, set->partitions);
    double here =
        micros::kLookup + entries * micros::kEntry + CostOfQueue(candidate, LooksKeysUp(path));
    Cost each = planner_units::kShardRow + cpu_tuple_cost +
                planner_units::kOperatorsPerEntry * cpu_operator_cost +
                rel->baserestrictcost.per_tuple;
    return trips * planner_units::kRoundTrip / at_once + here * planner_units::kPerMicrosecond +
           rows * each;
}

IndexPath *GetIndexPath(const Path *path) {
    const CustomPath *custom = reinterpret_cast<const CustomPath *>(path);
    if (!IsA(path, CustomPath) || custom->methods != &path_methods ||
        list_length(custom->custom_private) != 1 ||
        !IsA(linitial(custom->custom_private), IndexPath))
        return nullptr;
    IndexPath *index = linitial_node(IndexPath, custom->custom_private);
    // By distance entries of the same one may come in another order the next time.
    return index->path.pathtype == T_IndexScan && index->indexorderbys == NIL ? index : nullptr;
}

void AddPaths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
    Trial *trial = GetTrial(rte);
    if (trial)
        trial->finds_nothing = trial->finds_nothing || IS_DUMMY_REL(rel);
    if (!IsMarked(rte))
        return;
    CandidateSet *set = GetCandidates(rel);
    RestoreRelationKind(rte);
    if (!set || IS_DUMMY_REL(rel))
        return;
    // Other paths, over what looks like one small table, may have put index paths out of the list.
    ListCell *cell;
    bool others = false;
    foreach (cell, rel->pathlist)
        others = others || !IsA(lfirst(cell), IndexPath);
    if (others) {
        rel->pathlist = NIL;
        create_index_paths(root, rel);
    }
    List *native = rel->pathlist;
    rel->pathlist = NIL;
    rel->partial_pathlist = NIL;
    Path *all = create_seqscan_path(root, rel, rel->lateral_relids, 0);
    CustomPath *custom = Wrap(all);
    custom->path.total_cost += set->partitions * planner_units::kPagesPerPartition * seq_page_cost +
                               rel->tuples * planner_units::kAppendedTuples * cpu_tuple_cost;
    if (set->has_foreign) {
        custom->path.total_cost +=
            set->partitions * planner_units::kRoundTrip + rel->tuples * planner_units::kShardRow;
        RememberShards(custom);
        // Read again it would show changes of this statement.
        if (GetRowUse(root, rel->relid) == RowUse::Change)
            custom->path.total_cost += planner_units::kProhibitive;
    }
    if (ForcesIndexes(rte))
        custom->path.total_cost += planner_units::kProhibitive;
    add_path(rel, &custom->path);
    foreach (cell, native)
        if (IsA(lfirst(cell), IndexPath))
            AddIndexPath(root, rel, lfirst_node(IndexPath, cell));
    AddElementPaths(root, rel, set);
    if (!rel->lateral_relids)
        AddOrPaths(root, rel, trial);
    if (trial)
        ReportTrial(rel, set, trial, &custom->path);
}

} // namespace index_table
