#include "shard/remote_change.h"

#include "core/public.h"
#include "shard/connection.h"

namespace index_table {
namespace {

// The query as far as the wrapper looks at it.
PlannerInfo *DescribeQuery(const RemoteChange &change) {
    ParseState *state = make_parsestate(nullptr);
    RangeTblEntry *rte =
        addRangeTableEntryForRelation(state, change.leaf, RowExclusiveLock, nullptr, false, false)
            ->p_rte;
    Query *query = makeNode(Query);
    query->commandType = change.operation;
    query->rtable = state->p_rtable;
    query->resultRelation = change.rti;
    compat::SetUncheckedReader(query, state, rte, change.user);
    Bitmapset *updated = nullptr;
    ListCell *cell;
    foreach (cell, change.columns)
        updated = bms_add_member(updated, lfirst_int(cell) - FirstLowInvalidHeapAttributeNumber);
    compat::SetUpdatedColumns(query, rte, updated);

    RelOptInfo *rel = makeNode(RelOptInfo);
    rel->reloptkind = RELOPT_BASEREL;
    rel->relid = change.rti;
    PlannerInfo *root = makeNode(PlannerInfo);
    root->parse = query;
    root->glob = makeNode(PlannerGlobal);
    root->simple_rel_array_size = change.rti + 1;
    root->simple_rel_array = palloc0_array(RelOptInfo *, change.rti + 1);
    root->simple_rel_array[change.rti] = rel;
    root->simple_rte_array = palloc0_array(RangeTblEntry *, change.rti + 1);
    root->simple_rte_array[change.rti] = rte;
    free_parsestate(state);
    return root;
}

} // namespace

List *PlanRemoteChange(const RemoteChange &change) {
    Assert(CheckRelationLockedByMe(change.leaf, RowExclusiveLock, true));
    Assert(change.operation == CMD_UPDATE || change.operation == CMD_DELETE);
    FdwRoutine *wrapper = GetFdwRoutineForRelation(change.leaf, false);
    if (!IsOfPostgres(RelationGetRelid(change.leaf)) || !wrapper->PlanForeignModify)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("rows of foreign table \"%s\" cannot be changed through index tables",
                        RelationGetRelationName(change.leaf)),
                 errhint("Set index_table.enable_scan to off.")));
    ModifyTable *plan = makeNode(ModifyTable);
    plan->operation = change.operation;
    plan->resultRelations = list_make1_int(static_cast<int>(change.rti));
    if (change.returning != NIL)
        plan->returningLists = list_make1(change.returning);
    if (change.checks != NIL)
        plan->withCheckOptionLists = list_make1(change.checks);
    return wrapper->PlanForeignModify(DescribeQuery(change), plan, change.rti, 0);
}

const char *ChangeStatement(List *plan) {
    return plan != NIL && IsA(linitial(plan), String) ? strVal(linitial(plan)) : nullptr;
}

} // namespace index_table
