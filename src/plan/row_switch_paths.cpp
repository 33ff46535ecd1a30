#include "plan/row_switch_paths.h"

#include "exec/public.h"
#include "plan/candidates.h"
#include "plan/planner.h"

namespace index_table {
namespace {

Plan *PlanSwitch(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target_list, List *,
                 List *children) {
    return PlanPassThrough(path, target_list, children, RowSwitchMethods());
}

CustomPathMethods path_methods = {"Index Table Row Switch", PlanSwitch, nullptr};

// The switch passes on what its child yields. `rowmarks`: the numbers of the row marks whose
// partitions it switches; 0 for the target of UPDATE, DELETE or MERGE.
Path *MakeSwitchPath(RelOptInfo *rel, Path *child, List *rowmarks) {
    return MakePassThroughPath(rel, child, &path_methods, rowmarks);
}

bool IsServed(PlannerInfo *root, Index relid) {
    RelOptInfo *rel = root->simple_rel_array[relid];
    return rel && rel->reloptkind == RELOPT_BASEREL && !root->simple_rte_array[relid]->inh &&
           GetCandidates(rel);
}

// What is changed or locked of base tables that are read through index tables.
List *ListRowmarks(PlannerInfo *root) {
    const Query *query = root->parse;
    if (query->resultRelation != 0 && query->commandType != CMD_INSERT)
        return IsServed(root, query->resultRelation) ? list_make1_int(0) : NIL;
    List *rowmarks = NIL;
    ListCell *cell;
    foreach (cell, root->rowMarks) {
        PlanRowMark *mark = lfirst_node(PlanRowMark, cell);
        if (RowMarkRequiresRowShareLock(mark->markType) && IsServed(root, mark->rti))
            rowmarks = lappend_int(rowmarks, mark->rowmarkId);
    }
    return rowmarks;
}

} // namespace

void AddRowSwitches(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output) {
    List *rowmarks = stage == UPPERREL_FINAL && IsPlanningScans() ? ListRowmarks(root) : NIL;
    if (rowmarks == NIL)
        return;
    ListCell *cell;
    foreach (cell, output->pathlist) {
        Path *path = static_cast<Path *>(lfirst(cell));
        if (IsA(path, LimitPath))
            path = reinterpret_cast<LimitPath *>(path)->subpath;
        Path **child = nullptr;
        if (IsA(path, ModifyTablePath))
            child = &reinterpret_cast<ModifyTablePath *>(path)->subpath;
        else if (IsA(path, LockRowsPath))
            child = &reinterpret_cast<LockRowsPath *>(path)->subpath;
        if (child)
            *child = MakeSwitchPath(output, *child, rowmarks);
    }
}

} // namespace index_table
