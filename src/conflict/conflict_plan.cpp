#include "conflict/conflict_plan.h"

#include "catalog/public.h"
#include "conflict/global_conflict.h"
#include "conflict/inference.h"
#include "core/public.h"
#include "exec/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

Plan *PlanCheck(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target_list, List *,
                List *children);

CustomPathMethods path_methods = {kConflictCheckName, PlanCheck, nullptr};
CustomScanMethods scan_methods = {kConflictCheckName, CreateConflictCheck};

const Base *BaseOfTarget(const Query *query) {
    if (query->commandType != CMD_INSERT || !query->onConflict || !IsInstalled())
        return nullptr;
    return FindIndexedBase(RootOf(rt_fetch(query->resultRelation, query->rtable)->relid));
}

Plan *PlanCheck(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target_list, List *,
                List *children) {
    return PlanPassThrough(path, target_list, children, &scan_methods);
}

// A plan is made anew when index tables, or their constraints, come or go.
void DependOn(PlannerInfo *root, const Base *base) {
    List **relations = &root->glob->relationOids;
    *relations = list_append_unique_oid(*relations, base->relid);
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        *relations = list_append_unique_oid(*relations, table->relid);
    for (const IndexTable *table : std::span(base->globals, base->global_count))
        *relations = list_append_unique_oid(*relations, table->relid);
}

// Servers tell of a conflict when the row is there already.
void RefuseOnServers(const Base *base) {
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (table->on_servers && table->options.is_unique)
            ereport(ERROR,
                    (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                     errmsg("ON CONFLICT DO NOTHING without a target cannot heed the key of index "
                            "table \"%s\", which is on servers",
                            get_rel_name(table->relid)),
                     errhint("Name a target, such as the primary key, or insert and handle "
                             "23505.")));
}

// The row in the way would not be returned.
void RefuseSelect(const IndexTable *arbiter) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("ON CONFLICT DO SELECT cannot be decided by the key of \"%s\"",
                    get_rel_name(arbiter->relid)),
             errhint("Use ON CONFLICT DO UPDATE with RETURNING, or DO NOTHING and SELECT.")));
}

} // namespace

bool IsConflictCheck(const Plan *plan) {
    return plan && IsA(plan, CustomScan) &&
           reinterpret_cast<const CustomScan *>(plan)->methods == &scan_methods;
}

void AddConflictChecks(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output) {
    OnConflictExpr *conflict = root->parse->onConflict;
    const Base *base = stage == UPPERREL_FINAL ? BaseOfTarget(root->parse) : nullptr;
    if (!base)
        return;
    bool has_target = conflict->arbiterElems != NIL || OidIsValid(conflict->constraint);
    DependOn(root, base);
    if (!has_target)
        RefuseOnServers(base);
    const IndexTable *arbiter = has_target ? InferArbiter(root, base) : nullptr;
    if (arbiter && compat::SelectsOnConflict(conflict))
        RefuseSelect(arbiter);
    if (has_target ? !arbiter
                   : ListConstrainedTables(base) == NIL && ListUniqueGlobals(base) == NIL)
        return;
    List *tables = list_make1_oid(base->relid);
    if (arbiter) {
        tables = lappend_oid(tables, arbiter->relid);
        // PostgreSQL finds no index for the target: it is not asked to.
        conflict->arbiterElems = NIL;
        conflict->arbiterWhere = nullptr;
        conflict->constraint = InvalidOid;
    }
    ListCell *cell;
    foreach (cell, output->pathlist)
        if (IsA(lfirst(cell), ModifyTablePath)) {
            ModifyTablePath *path = lfirst_node(ModifyTablePath, cell);
            path->subpath = MakePassThroughPath(output, path->subpath, &path_methods, tables);
        }
}

void InitializeConflictPlan() {
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
