#include "plan/or_clause.h"

namespace index_table {
namespace {

// What the planner must believe of a relation while it looks for paths for one arm.
struct Setting {
    List *baserestrictinfo;
    List *joininfo;
    bool has_eclass_joins;
    List *pathlist;
};

Setting Exchange(RelOptInfo *rel, const Setting &setting) {
    Setting before = {rel->baserestrictinfo, rel->joininfo, rel->has_eclass_joins, rel->pathlist};
    rel->baserestrictinfo = setting.baserestrictinfo;
    rel->joininfo = setting.joininfo;
    rel->has_eclass_joins = setting.has_eclass_joins;
    rel->pathlist = setting.pathlist;
    return before;
}

// Finds out anew which predicates are implied: what was once, the planner does not ask again.
void CheckPredicates(PlannerInfo *root, RelOptInfo *rel) {
    ListCell *cell;
    foreach (cell, rel->indexlist)
        lfirst_node(IndexOptInfo, cell)->predOK = false;
    check_index_predicates(root, rel);
}

// The cheapest index path for the clauses of an arm beside those that hold for all arms.
IndexPath *MatchArm(PlannerInfo *root, RelOptInfo *rel, List *arm, List *others) {
    Setting before = Exchange(rel, {.baserestrictinfo = list_concat_copy(arm, others)});
    CheckPredicates(root, rel);
    create_index_paths(root, rel);
    IndexPath *cheapest = nullptr;
    ListCell *cell, *clause;
    foreach (cell, rel->pathlist) {
        if (!IsA(lfirst(cell), IndexPath))
            continue;
        IndexPath *path = lfirst_node(IndexPath, cell);
        // One that uses nothing of the arm reads too much.
        bool uses_arm = false;
        foreach (clause, path->indexclauses)
            uses_arm = uses_arm || list_member_ptr(arm, lfirst_node(IndexClause, clause)->rinfo);
        if (uses_arm && (!cheapest || path->path.total_cost < cheapest->path.total_cost))
            cheapest = path;
    }
    Exchange(rel, before);
    CheckPredicates(root, rel);
    return cheapest;
}

} // namespace

List *MatchOr(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *restriction) {
    if (!restriction_is_or_clause(restriction))
        return NIL;
    List *others = list_delete_ptr(list_copy(rel->baserestrictinfo), restriction);
    List *paths = NIL;
    ListCell *cell;
    foreach (cell, reinterpret_cast<BoolExpr *>(restriction->orclause)->args) {
        Node *node = static_cast<Node *>(lfirst(cell));
        List *arm =
            is_andclause(node) ? reinterpret_cast<BoolExpr *>(node)->args : list_make1(node);
        ListCell *part;
        foreach (part, arm)
            if (!IsA(lfirst(part), RestrictInfo)) // an OR in an OR
                return NIL;
        IndexPath *path = MatchArm(root, rel, arm, others);
        if (!path)
            return NIL;
        // Its rows must be fetched, to tell which were there before.
        path->path.pathtype = T_IndexScan;
        path->path.pathkeys = NIL;
        path->indexscandir = ForwardScanDirection; // the only one of GiST and SP-GiST
        path->indexorderbys = NIL;
        path->indexorderbycols = NIL;
        paths = lappend(paths, path);
    }
    return paths;
}

} // namespace index_table
