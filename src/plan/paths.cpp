// Custom paths for base tables that are scanned through their index tables. The planner has made
// index paths over the candidates by its own rules; each becomes a custom path of the same cost and
// order, and a custom plan when it is chosen.
#include "plan/paths.h"

#include "core/public.h"
#include "plan/candidates.h"
#include "plan/costs.h"
#include "plan/estimate.h"
#include "exec/public.h"
#include "plan/multi_valued.h"
#include "plan/or_clause.h"
#include "plan/planner.h"
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
    Cost cost = rows * planner_units::kOperatorsPerEntry * cpu_operator_cost;
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

void AddIndexPath(PlannerInfo *root, RelOptInfo *rel, IndexPath *path) {
    const Candidate *candidate = FindCandidate(rel, path->indexinfo);
    if (!candidate)
        return;
    bool by_bitmap = candidate->owner_index && candidate->owner_index->by_bitmap;
    if (by_bitmap && path->indexclauses == NIL && candidate->owner_index->predicate == NIL)
        return; // all of it, in no order
    CustomPath *custom = Wrap(&path->path);
    if (candidate->is_partitioned)
        custom->path.pathkeys = NIL;
    if (by_bitmap)
        CostBitmap(root, candidate, path, custom);
    const CandidateSet *set = GetCandidates(rel);
    if (path->path.pathtype == T_IndexScan) {
        custom->path.total_cost += CostOfFetching(root, set, candidate, path);
        if (set->has_foreign)
            RememberShards(custom);
    }
    add_path(rel, &custom->path);
}

// Paths through keys of many values, which the planner cannot match.
void AddElementPaths(PlannerInfo *root, RelOptInfo *rel, const CandidateSet *set) {
    for (Candidate &candidate : std::span(set->candidates, set->count)) {
        if (candidate.table->key.multi_valued < 0)
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
void AddOrPaths(PlannerInfo *root, RelOptInfo *rel) {
    const CandidateSet *set = GetCandidates(rel);
    ListCell *cell, *arm;
    foreach (cell, rel->baserestrictinfo) {
        List *arms = MatchOr(root, rel, lfirst_node(RestrictInfo, cell));
        if (arms == NIL)
            continue;
        CustomPath *custom = Wrap(static_cast<Path *>(linitial(arms)));
        custom->custom_private = arms;
        custom->path.pathkeys = NIL;
        custom->path.rows = rel->rows;
        custom->path.startup_cost = 0;
        custom->path.total_cost = 0;
        foreach (arm, arms) {
            IndexPath *path = lfirst_node(IndexPath, arm);
            custom->path.total_cost +=
                path->path.total_cost +
                CostOfFetching(root, set, FindCandidate(rel, path->indexinfo), path);
        }
        if (set->has_foreign)
            RememberShards(custom);
        add_path(rel, &custom->path);
    }
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

// The clauses that are left to be checked on the rows of a single index path.
List *RemainingClauses(const RelOptInfo *rel, const IndexPath *path, List *clauses) {
    bool entries_alone = path->path.pathtype == T_IndexOnlyScan;
    List *remaining = NIL;
    ListCell *cell;
    foreach (cell, clauses) {
        RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
        // What the predicate implies may concern columns that entries do not hold.
        bool implied = entries_alone && list_member_ptr(rel->baserestrictinfo, restriction) &&
                       !list_member_ptr(path->indexinfo->indrestrictinfo, restriction);
        if (!implied && !is_redundant_with_indexclauses(restriction, path->indexclauses))
            remaining = lappend(remaining, restriction);
    }
    return remaining;
}

// Rows that are worth fetching at once while it is not known how many will be asked for.
int FirstBatch(PlannerInfo *root, const Path *path) {
    constexpr int kAll = 1000;
    constexpr int kFew = 20;
    const Query *query = root->parse;
    bool needs_all = query->hasAggs || query->groupClause != NIL || query->distinctClause != NIL ||
                     query->hasWindowFuncs || (root->sort_pathkeys != NIL && path->pathkeys == NIL);
    if (needs_all)
        return kAll;
    if (root->limit_tuples > 0)
        return static_cast<int>(Min(root->limit_tuples + 1, static_cast<double>(kAll)));
    return root->tuple_fraction > 0 ? kFew : kAll;
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
            source->index_table = candidate->table->relid;
            source->index = candidate->info->indexoid;
            source->is_owner_index = candidate->owner_index != nullptr;
            AddIndexClauses(&plan, source, path->indexclauses);
            RememberUse(candidate->table);
        }
        if (plan.source_count == 1)
            filter = RemainingClauses(rel, first, clauses);
        else
            plan.recheck = NIL; // each is a part of a clause only; all clauses are in the filter
    }
    filter = extract_actual_clauses(filter, false);
    plan.columns = NeededColumns(rel, list_concat(list_copy(filter), plan.recheck));
    CustomScan *scan = MakeCustomScan(plan, GetScanMethods(plan.mode));
    scan->scan.plan.targetlist = target_list;
    scan->scan.plan.qual = filter;
    scan->scan.scanrelid = rel->relid;
    scan->flags = best->flags;
    return &scan->scan.plan;
}

} // namespace

void AddPaths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) {
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
    custom->path.total_cost += set->partitions * planner_units::kPagesPerPartition * seq_page_cost;
    if (set->has_foreign) {
        custom->path.total_cost +=
            set->partitions * planner_units::kRoundTrip + rel->tuples * planner_units::kShardRow;
        RememberShards(custom);
    }
    if (GetScanPolicy() == ScanPolicy::Force)
        custom->path.total_cost += planner_units::kProhibitive;
    add_path(rel, &custom->path);
    foreach (cell, native)
        if (IsA(lfirst(cell), IndexPath))
            AddIndexPath(root, rel, lfirst_node(IndexPath, cell));
    AddElementPaths(root, rel, set);
    if (!rel->lateral_relids)
        AddOrPaths(root, rel);
}

} // namespace index_table
