#include "conflict/conflict_plan.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "exec/public.h"

namespace index_table {
namespace {

Plan *PlanCheck(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target_list, List *,
                List *children);

CustomPathMethods path_methods = {kConflictCheckName, PlanCheck, nullptr};
CustomScanMethods scan_methods = {kConflictCheckName, CreateConflictCheck};

const Base *BaseOfTarget(const Query *query) {
    if (query->commandType != CMD_INSERT || !query->onConflict || !IsInstalled())
        return nullptr;
    return FindBase(RootOf(rt_fetch(query->resultRelation, query->rtable)->relid));
}

// --- ON CONFLICT DO NOTHING --------------------------------------------------

Path *MakeCheckPath(RelOptInfo *rel, Path *child, const Base *base) {
    return MakePassThroughPath(rel, child, &path_methods, list_make1_oid(base->relid));
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
}

// --- ON CONFLICT with a target -----------------------------------------------

// Whether the columns and expressions of a conflict target are the key of an index table.
bool IsKey(const Query *query, const IndexTable *table, const AttrMap *map) {
    const Key &key = table->key;
    const List *elements = query->onConflict->arbiterElems;
    for (int i = 0; i < key.count; i++) {
        Node *column = static_cast<Node *>(copyObjectImpl(key.columns[i].whole));
        bool has_whole_row;
        if (map)
            column = map_variable_attnos(column, 1, 0, map, InvalidOid, &has_whole_row);
        ChangeVarNodes(column, 1, query->resultRelation, 0);
        bool found = false;
        ListCell *cell;
        foreach (cell, elements)
            found = found || equal(lfirst_node(InferenceElem, cell)->expr, column);
        if (!found)
            return false;
    }
    return list_length(elements) == key.count;
}

const IndexTable *FindTarget(const Query *query) {
    const Base *base = BaseOfTarget(query);
    if (!base)
        return nullptr;
    Oid target = rt_fetch(query->resultRelation, query->rtable)->relid;
    AttrMap *map = nullptr;
    if (target != base->relid) {
        Relation rel = table_open(target, AccessShareLock);
        Relation base_rel = table_open(base->relid, AccessShareLock);
        map = compat::MapColumnsByName(RelationGetDescr(rel), RelationGetDescr(base_rel));
        table_close(base_rel, AccessShareLock);
        table_close(rel, AccessShareLock);
    }
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (table->options.is_unique && IsKey(query, table, map))
            return table;
    return nullptr;
}

// The name of an index table whose key the conflict target of a statement is, or of one in its
// WITH; null where there is none.
const char *NameTarget(const Query *query) {
    const IndexTable *table = nullptr;
    if (query->onConflict && query->onConflict->arbiterElems != NIL)
        table = FindTarget(query);
    ListCell *cell;
    foreach (cell, query->cteList) {
        const Query *cte = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);
        if (!table && cte->onConflict && cte->onConflict->arbiterElems != NIL)
            table = FindTarget(cte);
    }
    return table ? get_rel_name(table->relid) : nullptr;
}

void AddHint(void *name) {
    if (geterrcode() == ERRCODE_INVALID_COLUMN_REFERENCE)
        errhint("The key of index table \"%s\" cannot be a conflict target. ON CONFLICT DO NOTHING "
                "without a target heeds it; to update the row that is there, UPDATE it first and "
                "insert where there is none.",
                static_cast<const char *>(name));
}

} // namespace

void AddConflictChecks(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *output) {
    const OnConflictExpr *conflict = root->parse->onConflict;
    if (stage != UPPERREL_FINAL || !conflict || conflict->action != ONCONFLICT_NOTHING ||
        conflict->arbiterElems != NIL || OidIsValid(conflict->constraint))
        return;
    const Base *base = BaseOfTarget(root->parse);
    if (!base)
        return;
    DependOn(root, base);
    if (ListConstrainedTables(base) == NIL)
        return;
    ListCell *cell;
    foreach (cell, output->pathlist)
        if (IsA(lfirst(cell), ModifyTablePath)) {
            ModifyTablePath *path = lfirst_node(ModifyTablePath, cell);
            path->subpath = MakeCheckPath(output, path->subpath, base);
        }
}

void BeginConflictHint(ErrorContextCallback *callback, const Query *query) {
    callback->callback = nullptr;
    const char *name = NameTarget(query);
    if (!name)
        return;
    *callback = {
        .previous = error_context_stack, .callback = AddHint, .arg = const_cast<char *>(name)};
    error_context_stack = callback;
}

void EndConflictHint(const ErrorContextCallback *callback) {
    if (callback->callback)
        error_context_stack = callback->previous;
}

void InitializeConflictPlan() {
    RegisterCustomScanMethods(&scan_methods);
}

} // namespace index_table
