#include "plan/join_paths.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/candidates.h"
#include "plan/costs.h"
#include "plan/estimate.h"
#include "plan/paths.h"
#include "plan/queue_cost.h"

namespace index_table {
namespace {

Plan *PlanOuterRows(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target_list, List *,
                    List *children) {
    return PlanPassThrough(path, target_list, children, OuterRowsMethods());
}

CustomPathMethods path_methods = {"Index Table Read Ahead", PlanOuterRows, nullptr};

Path *MakeOuterPath(PlannerInfo *root, Path *child) {
    Path *path = MakePassThroughPath(child->parent, child, &path_methods,
                                     list_make1_int(FirstBatch(root, child)));
    path->parallel_safe = false;
    path->total_cost += child->rows * cpu_tuple_cost;
    return path;
}

// The path on the inner side of a join that scans an index table, by which shards or index servers
// are read: below what nodes of one child make of its rows. Those are subqueries', with a planner
// of their own: `root` becomes that.
Path *FindScan(PlannerInfo **root, Path *path) {
    while (path) {
        switch (nodeTag(path)) {
        case T_CustomPath: {
            const CandidateSet *set = GetCandidates(path->parent);
            if (!GetIndexPath(path) || !set)
                return nullptr;
            const Candidate *candidate = FindCandidate(path->parent, GetIndexPath(path)->indexinfo);
            return set->has_foreign || (candidate && candidate->table->on_servers) ? path : nullptr;
        }
        case T_SubqueryScanPath:
            *root = path->parent->subroot;
            path = reinterpret_cast<SubqueryScanPath *>(path)->subpath;
            break;
        case T_ProjectionPath:
            path = reinterpret_cast<ProjectionPath *>(path)->subpath;
            break;
        case T_SortPath:
        case T_IncrementalSortPath: // begins like the other
            path = reinterpret_cast<SortPath *>(path)->subpath;
            break;
        case T_LimitPath:
            path = reinterpret_cast<LimitPath *>(path)->subpath;
            break;
        case T_AggPath:
            path = reinterpret_cast<AggPath *>(path)->subpath;
            break;
        default:
            return nullptr;
        }
    }
    return nullptr;
}

// `inner`, as it costs where outer rows are read ahead. Null where that gains nothing.
Path *MakeInnerPath(PlannerInfo *root, Path *inner, double outer_rows) {
    const Path *scan = FindScan(&root, inner);
    if (!scan)
        return nullptr;
    Cost saved = scan->total_cost -
                 CostOfLookup(root, scan->parent, GetIndexPath(scan), Min(outer_rows, kRowsAtOnce));
    if (saved <= 0)
        return nullptr;
    Size size = IsA(inner, CustomPath) ? sizeof(CustomPath) : sizeof(SubqueryScanPath);
    Path *path = static_cast<Path *>(palloc(size));
    memcpy(path, inner, size);
    path->total_cost -= saved;
    path->startup_cost = Max(0, Min(path->startup_cost - saved, path->total_cost));
    return path;
}

// As try_nestloop_path of the planner, which knows more ways of being right.
void AddNestLoop(PlannerInfo *root, RelOptInfo *joinrel, Path *outer, Path *inner, JoinType type,
                 JoinPathExtraData *extra) {
    Relids outer_needs = PATH_REQ_OUTER(outer);
    Relids inner_needs = PATH_REQ_OUTER(inner);
    Relids needs = calc_nestloop_required_outer(outer->parent->relids, outer_needs,
                                                inner->parent->relids, inner_needs);
    if (needs && (root->placeholder_list != NIL || !bms_overlap(needs, extra->param_source_rels)))
        return;
    if (compat::DependsOn(extra->sjinfo, outer_needs) ||
        compat::DependsOn(extra->sjinfo, inner_needs))
        return;
    Path *cheaper = MakeInnerPath(root, inner, outer->rows);
    if (!cheaper)
        return;
    JoinCostWorkspace workspace;
    Path *ahead = MakeOuterPath(root, outer);
    compat::StartCostingNestLoop(root, &workspace, type, ahead, cheaper, extra);
    add_path(joinrel,
             reinterpret_cast<Path *>(create_nestloop_path(
                 root, joinrel, type, &workspace, extra, ahead, cheaper, extra->restrictlist,
                 build_join_pathkeys(root, joinrel, type, ahead->pathkeys), needs)));
}

} // namespace

void AddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
                  JoinType type, JoinPathExtraData *extra) {
    if (inner->rtekind == RTE_RELATION) {
        const CandidateSet *set = GetCandidates(inner);
        if (!set || (!set->has_foreign && !set->has_servers))
            return;
    } else if (inner->rtekind != RTE_SUBQUERY || !inner->lateral_relids) {
        return;
    }
    List *outers = outer->pathlist;
    if (type == JOIN_UNIQUE_OUTER) {
        outers = compat::DistinctPaths(root, outer, extra->sjinfo);
        type = JOIN_INNER;
    }
    if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI)
        return;
    ListCell *outer_cell, *inner_cell;
    foreach (inner_cell, inner->pathlist) {
        Path *path = static_cast<Path *>(lfirst(inner_cell));
        if (!bms_overlap(PATH_REQ_OUTER(path), outer->relids))
            continue;
        foreach (outer_cell, outers) {
            Path *driving = static_cast<Path *>(lfirst(outer_cell));
            if (!bms_overlap(PATH_REQ_OUTER(driving), inner->relids))
                AddNestLoop(root, joinrel, driving, path, type, extra);
        }
    }
}

} // namespace index_table
