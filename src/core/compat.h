// Differences between PostgreSQL versions. The only folder that names PG_VERSION_NUM.
#pragma once

#include "pg.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "index_table supports PostgreSQL 15 to 19"
#endif

// PostgreSQL 19 as released, or about to be; while it was developed it was more like 18, but for
// ALTER TABLE … MERGE PARTITIONS and SPLIT PARTITION, which were taken back.
#define PG_RELEASED_19 (PG_VERSION_NUM >= 190000 && CATALOG_VERSION_NO >= 202610000)
#define PG_HAS_REARRANGING (PG_VERSION_NUM >= 190000 && !PG_RELEASED_19)

namespace index_table::compat {

// Maps the columns of `out` to those of `in` by name; null where the layouts are alike.
inline AttrMap *MapColumnsByName(TupleDesc in, TupleDesc out) {
#if PG_VERSION_NUM >= 160000
    return build_attrmap_by_name_if_req(in, out, false);
#else
    return build_attrmap_by_name_if_req(in, out);
#endif
}

// A descriptor whose columns have been set one by one is ready to be used.
inline TupleDesc FinishDescriptor(TupleDesc descriptor) {
#if PG_VERSION_NUM >= 190000
    TupleDescFinalize(descriptor);
#endif
    return descriptor;
}

// The number of a system catalog cache, as its callbacks get it.
#if PG_VERSION_NUM >= 190000
using CacheNumber = SysCacheIdentifier;
#else
using CacheNumber = int;
#endif

// The hook that may offer the planner more indexes of a relation. Since 19 it is called for other
// range table entries, too.
#if PG_VERSION_NUM >= 190000
inline constexpr build_simple_rel_hook_type *kRelationInfoHook = &build_simple_rel_hook;
using RelationInfoHook = build_simple_rel_hook_type;
#else
inline constexpr get_relation_info_hook_type *kRelationInfoHook = &get_relation_info_hook;
using RelationInfoHook = get_relation_info_hook_type;
#endif

// Plans a query without anybody's hook.
inline PlannedStmt *PlanWithoutHooks(Query *query, ParamListInfo parameters) {
#if PG_VERSION_NUM >= 190000
    return standard_planner(query, "", 0, parameters, nullptr);
#else
    return standard_planner(query, "", 0, parameters);
#endif
}

// Plans a query as the server does those of clients; parameters have no values.
inline PlannedStmt *PlanQuery(Query *query, int options) {
#if PG_VERSION_NUM >= 190000
    return planner(query, "", options, nullptr, nullptr);
#else
    return planner(query, "", options, nullptr);
#endif
}

// Raises 42501 where the user has not the privileges that a plan needs, as the executor does.
inline void CheckPrivileges(PlannedStmt *plan) {
#if PG_VERSION_NUM >= 160000
    ExecCheckPermissions(plan->rtable, plan->permInfos, true);
#else
    ExecCheckRTPerms(plan->rtable, true);
#endif
}

// Paths of the outer side of a semijoin that is planned as a join with distinct outer rows; NIL
// where rows cannot be made distinct.
inline List *DistinctPaths([[maybe_unused]] PlannerInfo *root, RelOptInfo *outer,
                           [[maybe_unused]] SpecialJoinInfo *semijoin) {
#if PG_VERSION_NUM >= 190000
    return outer->pathlist;
#else
    UniquePath *distinct = create_unique_path(root, outer, outer->cheapest_total_path, semijoin);
    return distinct ? list_make1(distinct) : NIL;
#endif
}

inline void StartCostingNestLoop(PlannerInfo *root, JoinCostWorkspace *workspace, JoinType type,
                                 Path *outer, Path *inner, JoinPathExtraData *extra) {
#if PG_VERSION_NUM >= 190000
    initial_cost_nestloop(root, workspace, type, PGS_NESTLOOP_PLAIN | PGS_CONSIDER_NONPARTIAL,
                          outer, inner, extra);
#else
    initial_cost_nestloop(root, workspace, type, outer, inner, extra);
#endif
}

// Whether the current user owns the relation.
inline bool OwnsRelation(Oid relid) {
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
    return pg_class_ownercheck(relid, GetUserId());
#endif
}

inline AclResult CheckSchemaPrivilege(Oid schema, Oid role, AclMode mode) {
#if PG_VERSION_NUM >= 160000
    return object_aclcheck(NamespaceRelationId, schema, role, mode);
#else
    return pg_namespace_aclcheck(schema, role, mode);
#endif
}

inline AclResult CheckFunctionPrivilege(Oid function, Oid role, AclMode mode) {
#if PG_VERSION_NUM >= 160000
    return object_aclcheck(ProcedureRelationId, function, role, mode);
#else
    return pg_proc_aclcheck(function, role, mode);
#endif
}

inline AclResult CheckServerPrivilege(Oid server, Oid role, AclMode mode) {
#if PG_VERSION_NUM >= 160000
    return object_aclcheck(ForeignServerRelationId, server, role, mode);
#else
    return pg_foreign_server_aclcheck(server, role, mode);
#endif
}

// Splits "schema.name"; raises 42602 for what is not a name.
inline List *SplitQualifiedName(const char *text) {
#if PG_VERSION_NUM >= 160000
    return stringToQualifiedNameList(text, nullptr);
#else
    return stringToQualifiedNameList(text);
#endif
}

// TRUNCATE of open tables, with their OIDs; `told`: those that logical decoding is told of.
inline void Truncate(List *relations, List *oids, List *told) {
#if PG_VERSION_NUM >= 160000
    ExecuteTruncateGuts(relations, oids, told, DROP_RESTRICT, false, false);
#else
    ExecuteTruncateGuts(relations, oids, told, DROP_RESTRICT, false);
#endif
}

// Which indexes are to be told of a new version of a tuple. Since 16, one that differs in columns
// of summarizing indexes (BRIN) alone is heap-only still: an entry for it in any other index would
// corrupt that.
enum class StaleIndexes { None, Summarizing, All };

// Updates the tuple at `tid` in place; `stale` counts if that succeeds, `failure` if not.
inline TM_Result UpdateTuple(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid,
                             StaleIndexes *stale, TM_FailureData *failure) {
    LockTupleMode lock_mode;
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes update_indexes = TU_None;
#if PG_RELEASED_19
    TM_Result result = table_tuple_update(rel, tid, slot, cid, 0, SnapshotSelf, InvalidSnapshot,
                                          true, failure, &lock_mode, &update_indexes);
#else
    TM_Result result = table_tuple_update(rel, tid, slot, cid, SnapshotSelf, InvalidSnapshot, true,
                                          failure, &lock_mode, &update_indexes);
#endif
    *stale = update_indexes == TU_All           ? StaleIndexes::All
             : update_indexes == TU_Summarizing ? StaleIndexes::Summarizing
                                                : StaleIndexes::None;
#else
    bool update_indexes = false;
    TM_Result result = table_tuple_update(rel, tid, slot, cid, SnapshotSelf, InvalidSnapshot, true,
                                          failure, &lock_mode, &update_indexes);
    *stale = update_indexes ? StaleIndexes::All : StaleIndexes::None;
#endif
    return result;
}

// Gives an executor state a range table of one relation: what PostgreSQL reports of a violated
// constraint, and which columns a trigger is told of, come from there.
inline void InitRangeTable(EState *estate, Relation rel) {
    RangeTblEntry *entry = makeNode(RangeTblEntry);
    entry->rtekind = RTE_RELATION;
    entry->relid = RelationGetRelid(rel);
    entry->relkind = rel->rd_rel->relkind;
    entry->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 180000
    List *permissions = NIL;
    addRTEPermissionInfo(&permissions, entry);
    ExecInitRangeTable(estate, list_make1(entry), permissions, bms_make_singleton(1));
#elif PG_VERSION_NUM >= 160000
    List *permissions = NIL;
    addRTEPermissionInfo(&permissions, entry);
    ExecInitRangeTable(estate, list_make1(entry), permissions);
#else
    ExecInitRangeTable(estate, list_make1(entry));
#endif
}

// Inserts index tuples for a slot through the executor: a new tuple, in all indexes of the
// relation. With `may_violate` violations of immediate constraints raise nothing; returns the
// indexes of those that may be violated.
inline List *InsertIndexTuples(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
                               bool may_violate) {
#if PG_VERSION_NUM >= 190000
    return ExecInsertIndexTuples(relinfo, estate, may_violate ? EIIT_NO_DUPE_ERROR : 0, slot, NIL,
                                 nullptr);
#elif PG_VERSION_NUM >= 160000
    return ExecInsertIndexTuples(relinfo, slot, estate, false, may_violate, nullptr, NIL, false);
#else
    return ExecInsertIndexTuples(relinfo, slot, estate, false, may_violate, nullptr, NIL);
#endif
}

// Likewise for a new version of a tuple, in those indexes that UpdateTuple() has found stale.
inline List *UpdateIndexTuples(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
                               bool may_violate, StaleIndexes stale) {
    if (stale == StaleIndexes::None)
        return NIL;
#if PG_VERSION_NUM >= 190000
    uint32 flags = EIIT_IS_UPDATE;
    if (may_violate)
        flags |= EIIT_NO_DUPE_ERROR;
    if (stale == StaleIndexes::Summarizing)
        flags |= EIIT_ONLY_SUMMARIZING;
    return ExecInsertIndexTuples(relinfo, estate, flags, slot, NIL, nullptr);
#elif PG_VERSION_NUM >= 160000
    return ExecInsertIndexTuples(relinfo, slot, estate, true, may_violate, nullptr, NIL,
                                 stale == StaleIndexes::Summarizing);
#else
    return ExecInsertIndexTuples(relinfo, slot, estate, true, may_violate, nullptr, NIL);
#endif
}

// Deletes the tuple at `tid`, whatever a snapshot would say of it; `failure` counts if that fails.
inline TM_Result DeleteTuple(Relation rel, ItemPointer tid, CommandId cid,
                             TM_FailureData *failure) {
#if PG_RELEASED_19
    return table_tuple_delete(rel, tid, cid, 0, SnapshotSelf, InvalidSnapshot, true, failure);
#else
    return table_tuple_delete(rel, tid, cid, SnapshotSelf, InvalidSnapshot, true, failure, false);
#endif
}

// Whether a row to be inserted conflicts with none of the relation's unique and exclusion
// constraints, those of `arbiters` where that is not NIL; else `conflict` is where the row is that
// it conflicts with. Waits for transactions that have yet to decide.
inline bool CheckIndexConstraints(ResultRelInfo *relinfo, TupleTableSlot *slot, EState *estate,
                                  ItemPointer conflict, List *arbiters = NIL) {
#if PG_VERSION_NUM >= 180000
    ItemPointerData none;
    ItemPointerSetInvalid(&none);
    return ExecCheckIndexConstraints(relinfo, slot, estate, conflict, &none, arbiters);
#else
    return ExecCheckIndexConstraints(relinfo, slot, estate, conflict, arbiters);
#endif
}

// Inserts index tuples for a slot that was inserted speculatively; false where it conflicts.
inline bool InsertIndexTuplesSpeculatively(ResultRelInfo *relinfo, TupleTableSlot *slot,
                                           EState *estate) {
    bool conflicts = false;
#if PG_VERSION_NUM >= 190000
    ExecInsertIndexTuples(relinfo, estate, EIIT_NO_DUPE_ERROR, slot, NIL, &conflicts);
#elif PG_VERSION_NUM >= 160000
    ExecInsertIndexTuples(relinfo, slot, estate, false, true, &conflicts, NIL, false);
#else
    ExecInsertIndexTuples(relinfo, slot, estate, false, true, &conflicts, NIL);
#endif
    return !conflicts;
}

// Deletes a tuple that nobody else changes, without waiting for who does.
inline TM_Result DeleteHeapTuple(Relation rel, ItemPointer tid, CommandId cid) {
    TM_FailureData failure;
#if PG_RELEASED_19
    return heap_delete(rel, tid, cid, 0, InvalidSnapshot, false, &failure);
#else
    return heap_delete(rel, tid, cid, InvalidSnapshot, false, &failure, false);
#endif
}

// How many relations a plan changes, and for each the number of its range table entry.
inline int CountChanged(const PlannedStmt *plan) {
#if PG_RELEASED_19
    return bms_num_members(plan->resultRelationRelids);
#else
    return list_length(plan->resultRelations);
#endif
}

template <typename Look>
void ForEachChanged(const PlannedStmt *plan, Look look) {
#if PG_RELEASED_19
    for (int rti = -1; (rti = bms_next_member(plan->resultRelationRelids, rti)) >= 0;)
        look(rti);
#else
    ListCell *cell;
    foreach (cell, plan->resultRelations)
        look(lfirst_int(cell));
#endif
}

// One more for the last of so many triggers of a relation, where EXPLAIN ANALYZE looks at them.
inline void AddTriggerInstrument(ResultRelInfo *relinfo, int count, int options) {
    if (!relinfo->ri_TrigInstrument)
        return;
#if PG_RELEASED_19
    auto *instruments = InstrAllocTrigger(count, options);
#else
    auto *instruments = InstrAlloc(count, options, false);
#endif
    std::copy_n(relinfo->ri_TrigInstrument, count - 1, instruments);
    relinfo->ri_TrigInstrument = instruments;
}

// expression_tree_walker and _mutator for callbacks of any context type. Before 16 they are
// declared with an empty parameter list, which C++ takes for no parameters.
template <typename Context>
bool WalkExpression(Node *node, bool (*walker)(Node *, Context *), Context *context) {
#if PG_VERSION_NUM >= 160000
    return expression_tree_walker_impl(
        node, reinterpret_cast<tree_walker_callback>(reinterpret_cast<void *>(walker)), context);
#else
    return expression_tree_walker(
        node, reinterpret_cast<bool (*)()>(reinterpret_cast<void *>(walker)), context);
#endif
}

template <typename Context>
Node *MutateExpression(Node *node, Node *(*mutator)(Node *, Context *), Context *context) {
#if PG_VERSION_NUM >= 160000
    return expression_tree_mutator_impl(
        node, reinterpret_cast<tree_mutator_callback>(reinterpret_cast<void *>(mutator)), context);
#else
    return expression_tree_mutator(
        node, reinterpret_cast<Node *(*)()>(reinterpret_cast<void *>(mutator)), context);
#endif
}

// query_tree_walker, likewise.
template <typename Context>
bool WalkQuery(Query *query, bool (*walker)(Node *, Context *), Context *context, int flags) {
#if PG_VERSION_NUM >= 160000
    return query_tree_walker_impl(
        query, reinterpret_cast<tree_walker_callback>(reinterpret_cast<void *>(walker)), context,
        flags);
#else
    return query_tree_walker(query, reinterpret_cast<bool (*)()>(reinterpret_cast<void *>(walker)),
                             context, flags);
#endif
}

// planstate_tree_walker, likewise.
inline bool WalkPlanStates(PlanState *node, bool (*walker)(PlanState *, void *), void *context) {
#if PG_VERSION_NUM >= 160000
    return planstate_tree_walker_impl(
        node, reinterpret_cast<planstate_tree_walker_callback>(reinterpret_cast<void *>(walker)),
        context);
#else
    return planstate_tree_walker(
        node, reinterpret_cast<bool (*)()>(reinterpret_cast<void *>(walker)), context);
#endif
}

// A set of things to wait for, to be freed before anything is raised.
inline WaitEventSet *MakeWaitEventSet(int count) {
#if PG_VERSION_NUM >= 170000
    return CreateWaitEventSet(CurrentResourceOwner, count);
#else
    return CreateWaitEventSet(CurrentMemoryContext, count);
#endif
}

// --- Changing rows -----------------------------------------------------------

// Raises where rows of the relation cannot be changed by a command, or by the actions of a MERGE.
inline void CheckChange(ResultRelInfo *result, CmdType command, List *actions) {
#if PG_VERSION_NUM >= 180000
    CheckValidResultRel(result, command, ONCONFLICT_NONE, actions);
#elif PG_VERSION_NUM >= 170000
    CheckValidResultRel(result, command, actions);
#else
    CheckValidResultRel(result, command);
#endif
#if PG_VERSION_NUM < 180000
    // Later minor versions ask for each action whether there is a replica identity.
    ListCell *cell;
    foreach (cell, actions) {
        CmdType each = lfirst_node(MergeAction, cell)->commandType;
        if (each != CMD_NOTHING)
            CheckCmdReplicaIdentity(result->ri_RelationDesc, each);
    }
#endif
}

// What the row in the way is checked for by ON CONFLICT DO UPDATE. Later minor versions do it
// before WHERE is looked at, and let views have a say.
template <typename Kind>
concept KnowsViewConflicts = requires {
    Kind::WCO_VIEW_CONFLICT_CHECK;
};
constexpr bool kChecksConflictFirst = KnowsViewConflicts<WCOKind>;

template <typename Kind>
constexpr auto ConflictChecks() {
    if constexpr (KnowsViewConflicts<Kind>)
        return std::array{Kind::WCO_RLS_CONFLICT_CHECK, Kind::WCO_VIEW_CONFLICT_CHECK};
    else
        return std::array{Kind::WCO_RLS_CONFLICT_CHECK};
}
constexpr auto kConflictChecks = ConflictChecks<WCOKind>();

// Fires BEFORE ROW UPDATE triggers; false where one of them keeps the row from being updated. The
// row is at `tid`, or, of a foreign table, is `existing`; the other one is null.
inline bool FireBeforeUpdate(EState *estate, EPQState *epq, ResultRelInfo *result, ItemPointer tid,
                             HeapTuple existing, TupleTableSlot *updated) {
    TM_FailureData failure;
#if PG_VERSION_NUM >= 180000
    TM_Result outcome;
    return ExecBRUpdateTriggers(estate, epq, result, tid, existing, updated, &outcome, &failure,
                                false);
#elif PG_VERSION_NUM >= 160000
    TM_Result outcome;
    return ExecBRUpdateTriggers(estate, epq, result, tid, existing, updated, &outcome, &failure);
#else
    return ExecBRUpdateTriggers(estate, epq, result, tid, existing, updated, &failure);
#endif
}

// What RETURNING says of a row that was updated, in the slot of the projection. `planned`: the row
// of the plan below.
inline TupleTableSlot *ProjectReturning(ResultRelInfo *result, TupleTableSlot *existing,
                                        TupleTableSlot *updated, TupleTableSlot *planned) {
    ProjectionInfo *projection = result->ri_projectReturning;
    ExprContext *context = projection->pi_exprContext;
    updated->tts_tableOid = RelationGetRelid(result->ri_RelationDesc);
    context->ecxt_scantuple = updated;
    context->ecxt_outertuple = planned;
#if PG_VERSION_NUM >= 180000
    existing->tts_tableOid = updated->tts_tableOid;
    context->ecxt_oldtuple = existing;
    context->ecxt_newtuple = updated;
    projection->pi_state.flags &= ~(EEO_FLAG_OLD_IS_NULL | EEO_FLAG_NEW_IS_NULL);
#else
    (void)existing;
#endif
    return ExecProject(projection);
}

// Whether a MERGE has actions for rows of its target that no source row matches.
inline bool LooksAtUnmatchedTargets([[maybe_unused]] const Query *query) {
#if PG_VERSION_NUM >= 170000
    ListCell *cell;
    foreach (cell, query->mergeActionList)
        if (lfirst_node(MergeAction, cell)->matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE)
            return true;
#endif
    return false;
}

inline bool IsForMatched(const MergeAction *action) {
#if PG_VERSION_NUM >= 170000
    return action->matchKind == MERGE_WHEN_MATCHED;
#else
    return action->matched;
#endif
}

inline List **MatchedActions(ResultRelInfo *result) {
#if PG_VERSION_NUM >= 170000
    return &result->ri_MergeActions[MERGE_WHEN_MATCHED];
#else
    return &result->ri_matchedMergeAction;
#endif
}

// The actions for source rows that match nothing.
inline void CopyUnmatchedActions(const ResultRelInfo *from, ResultRelInfo *to) {
#if PG_VERSION_NUM >= 170000
    to->ri_MergeActions[MERGE_WHEN_NOT_MATCHED_BY_TARGET] =
        from->ri_MergeActions[MERGE_WHEN_NOT_MATCHED_BY_TARGET];
#else
    to->ri_notMatchedMergeAction = from->ri_notMatchedMergeAction;
#endif
}

// What matched means, for those versions that look at it again; else NIL.
inline List *MergeJoinCondition([[maybe_unused]] const ModifyTable *plan) {
#if PG_VERSION_NUM >= 170000
    return static_cast<List *>(linitial(plan->mergeJoinConditions));
#else
    return NIL;
#endif
}

inline void SetMergeJoinCondition([[maybe_unused]] ResultRelInfo *result,
                                  [[maybe_unused]] ExprState *condition) {
#if PG_VERSION_NUM >= 170000
    result->ri_MergeJoinCondition = condition;
#endif
}

// On 15, which generated columns a change concerns is settled by whoever asks first; PostgreSQL
// asks when a statement starts.
inline void InitGeneratedColumns([[maybe_unused]] ResultRelInfo *result,
                                 [[maybe_unused]] ModifyTableState *modify) {
#if PG_VERSION_NUM >= 150002 && PG_VERSION_NUM < 160000
    const TupleConstr *constraints = RelationGetDescr(result->ri_RelationDesc)->constr;
    if (modify->operation != CMD_DELETE && constraints && constraints->has_generated_stored &&
        !result->ri_GeneratedExprs)
        ExecInitStoredGenerated(result, modify->ps.state, modify->operation);
#endif
}

// The columns of a partition that a command updates: those it names, and generated ones as far as
// the range table lists them (before 15.2).
struct RenamedColumns {
    Bitmapset *updated;
    Bitmapset *generated;
};

inline Bitmapset *RenameColumns(const Bitmapset *columns, const AttrMap *map) {
    Bitmapset *renamed = nullptr;
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        attno = attno > 0 ? map->attnums[attno - 1] : attno;
        renamed = bms_add_member(renamed, attno - FirstLowInvalidHeapAttributeNumber);
    }
    return renamed;
}

// Before 16, result relations that share a range table entry share its updated columns, too: makes
// them those of a partition with the columns in `map`, for the base table's; null restores them.
// `renamed` caches the result. From 16 on, PostgreSQL maps them itself.
inline void RenameUpdatedColumns([[maybe_unused]] EState *estate, [[maybe_unused]] Index rti,
                                 [[maybe_unused]] const AttrMap *map,
                                 [[maybe_unused]] RenamedColumns *renamed) {
#if PG_VERSION_NUM < 160000
    ListCell *cell = list_nth_cell(estate->es_range_table, rti - 1);
    RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
    RangeTblEntry *planned = rt_fetch(rti, estate->es_plannedstmt->rtable);
    if (!map) {
        if (entry != planned)
            lfirst(cell) = planned;
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    if (entry == planned) {
        // The plan may be in a cache.
        estate->es_range_table = list_copy(estate->es_range_table);
        entry = palloc_object(RangeTblEntry);
        *entry = *planned;
        lfirst(list_nth_cell(estate->es_range_table, rti - 1)) = entry;
    }
    if (!renamed->updated)
        *renamed = {.updated = RenameColumns(planned->updatedCols, map),
                    .generated = RenameColumns(planned->extraUpdatedCols, map)};
    MemoryContextSwitchTo(caller);
    entry->updatedCols = renamed->updated;
    entry->extraUpdatedCols = renamed->generated;
#endif
}

// Adds a relation to those that a plan locks before it runs. No privileges on it are checked.
inline void AppendRelation(PlannedStmt *plan, RangeTblEntry *rte) {
    plan->rtable = lappend(plan->rtable, rte);
#if PG_VERSION_NUM >= 180000
    plan->unprunableRelids = bms_add_member(plan->unprunableRelids, list_length(plan->rtable));
#endif
}

// Columns that a query selects from a relation, as far as privileges are concerned: offset by
// FirstLowInvalidHeapAttributeNumber.
inline Bitmapset *SelectedColumns(PlannerInfo *root, RangeTblEntry *rte) {
#if PG_VERSION_NUM >= 160000
    return rte->perminfoindex ? getRTEPermissionInfo(root->parse->rteperminfos, rte)->selectedCols
                              : nullptr;
#else
    return rte->selectedCols;
#endif
}

// The role whose privileges a reference to a relation needs.
inline Oid CheckedUser(PlannerInfo *root, RangeTblEntry *rte) {
    Oid user;
#if PG_VERSION_NUM >= 160000
    user = rte->perminfoindex ? getRTEPermissionInfo(root->parse->rteperminfos, rte)->checkAsUser
                              : InvalidOid;
#else
    user = rte->checkAsUser;
#endif
    return OidIsValid(user) ? user : GetUserId();
}

// A query that was not parsed reads what `state` has in its range table, whose only entry is `rte`,
// as `user` (InvalidOid: the current one), without privileges being checked.
inline void SetUncheckedReader([[maybe_unused]] Query *query, [[maybe_unused]] ParseState *state,
                               [[maybe_unused]] RangeTblEntry *rte, Oid user) {
#if PG_VERSION_NUM >= 160000
    RTEPermissionInfo *permissions = getRTEPermissionInfo(state->p_rteperminfos, rte);
    permissions->requiredPerms = 0;
    permissions->checkAsUser = user;
    query->rteperminfos = state->p_rteperminfos;
#else
    rte->requiredPerms = 0;
    rte->checkAsUser = user;
#endif
}

// Starts such a query. PostgreSQL with assertions wants every relation to be asked for something:
// that is what the user may do, reading if possible, which a standby allows; a superuser is asked
// for who may do nothing.
inline void StartUnchecked(QueryDesc *query, int flags) {
#if PG_VERSION_NUM >= 160000 && defined(USE_ASSERT_CHECKING)
    ListCell *cell;
    foreach (cell, query->plannedstmt->permInfos) {
        RTEPermissionInfo *permissions = lfirst_node(RTEPermissionInfo, cell);
        Oid user = OidIsValid(permissions->checkAsUser) ? permissions->checkAsUser : GetUserId();
        AclMode held =
            pg_class_aclmask(permissions->relid, user, ACL_ALL_RIGHTS_RELATION, ACLMASK_ALL);
        bool asks_reading = (held & ACL_SELECT) != 0 || held == 0 || XactReadOnly;
        if (asks_reading && (held & ACL_SELECT) == 0)
            permissions->checkAsUser = BOOTSTRAP_SUPERUSERID;
        permissions->requiredPerms = asks_reading ? ACL_SELECT : held;
    }
#endif
    standard_ExecutorStart(query, flags);
}

// The columns that such a query updates, offset by FirstLowInvalidHeapAttributeNumber.
inline void SetUpdatedColumns([[maybe_unused]] Query *query, RangeTblEntry *rte,
                              Bitmapset *columns) {
#if PG_VERSION_NUM >= 160000
    getRTEPermissionInfo(query->rteperminfos, rte)->updatedCols = columns;
#else
    rte->updatedCols = columns;
#endif
}

// As whom a query that runs reads a relation of its range table; InvalidOid: the current user.
inline Oid ReaderOf(EState *estate, Index rti) {
    RangeTblEntry *rte = exec_rt_fetch(rti, estate);
#if PG_VERSION_NUM >= 160000
    return rte->perminfoindex ? getRTEPermissionInfo(estate->es_rteperminfos, rte)->checkAsUser
                              : InvalidOid;
#else
    return rte->checkAsUser;
#endif
}

// Whether the planner itself sees that an index serves key = 1 OR key = 2.
constexpr bool kMatchesOrClauses = PG_VERSION_NUM >= 180000;

// A clause to estimate by.
inline RestrictInfo *MakeRestrictInfo(PlannerInfo *root, Expr *clause, Index security_level) {
#if PG_VERSION_NUM >= 160000
    return make_restrictinfo(root, clause, true, false, false, false, security_level, nullptr,
                             nullptr, nullptr);
#else
    return make_restrictinfo(root, clause, true, false, false, security_level, nullptr, nullptr,
                             nullptr);
#endif
}

// Whether a path that needs `relids` can only come above the outer join. Since 16, outer joins are
// among those.
inline bool DependsOn([[maybe_unused]] const SpecialJoinInfo *join,
                      [[maybe_unused]] const Bitmapset *relids) {
#if PG_VERSION_NUM >= 160000
    return join->ojrelid != 0 && bms_is_member(join->ojrelid, relids);
#else
    return false;
#endif
}

// An access method's cost estimator; before 16 declared with an empty parameter list.
using CostEstimator = void (*)(PlannerInfo *, IndexPath *, double, Cost *, Cost *, Selectivity *,
                               double *, double *);
inline void SetCostEstimator(IndexOptInfo *info, CostEstimator estimator) {
#if PG_VERSION_NUM >= 160000
    info->amcostestimate =
        reinterpret_cast<decltype(info->amcostestimate)>(reinterpret_cast<void *>(estimator));
#else
    info->amcostestimate = reinterpret_cast<void (*)()>(reinterpret_cast<void *>(estimator));
#endif
}

// That of an access method.
inline CostEstimator CostEstimatorOf(Oid method) {
    return GetIndexAmRoutineByAmId(method, false)->amcostestimate;
}

// --- Connecting to shards ------------------------------------------------------

// Whether this session's client has proved itself by SCRAM in a way that can be passed on:
// since 18.
inline bool HasScramKeys() {
#if PG_VERSION_NUM >= 180000
    return MyProcPort && MyProcPort->has_scram_keys;
#else
    return false;
#endif
}

#if PG_VERSION_NUM >= 180000
inline const char *EncodeScramKey(const uint8 *key, int length) {
    int room = pg_b64_enc_len(length);
    char *text = static_cast<char *>(palloc0(room + 1));
    if (pg_b64_encode(key, length, text, room) < 0)
        elog(ERROR, "could not encode a SCRAM key");
    return text;
}
#endif

// REQUIRES: HasScramKeys(). In text form, in the current memory context.
inline const char *ScramClientKey() {
#if PG_VERSION_NUM >= 180000
    return EncodeScramKey(MyProcPort->scram_ClientKey, sizeof(MyProcPort->scram_ClientKey));
#else
    return nullptr;
#endif
}

inline const char *ScramServerKey() {
#if PG_VERSION_NUM >= 180000
    return EncodeScramKey(MyProcPort->scram_ServerKey, sizeof(MyProcPort->scram_ServerKey));
#else
    return nullptr;
#endif
}

#if PG_VERSION_NUM >= 160000 && defined(ENABLE_GSS)
extern "C" bool be_gssapi_get_delegation(Port *port);
#endif

// Whether the client has delegated its GSSAPI credentials to this session: since 16.
inline bool HasDelegatedCredentials() {
#if PG_VERSION_NUM >= 160000 && defined(ENABLE_GSS)
    return MyProcPort && be_gssapi_get_delegation(MyProcPort);
#else
    return false;
#endif
}

// Whether a connection was made with those.
inline bool UsedDelegatedCredentials([[maybe_unused]] PGconn *conn) {
#if PG_VERSION_NUM >= 160000 && defined(ENABLE_GSS)
    return HasDelegatedCredentials() && PQconnectionUsedGSSAPI(conn);
#else
    return false;
#endif
}

// Whether foreign tables may have TRUNCATE triggers: since 16.
constexpr bool kForeignTablesHaveTruncateTriggers = PG_VERSION_NUM >= 160000;

// A row in pg_constraint that makes a name known as that of a constraint of a table, and enforces
// nothing; dropped with the table.
inline Oid CreateConstraintRow(Oid relid, const char *name) {
#if PG_VERSION_NUM >= 180000
    return CreateConstraintEntry(name, get_rel_namespace(relid), CONSTRAINT_TRIGGER, false, false,
                                 true, true, InvalidOid, relid, nullptr, 0, 0, InvalidOid,
                                 InvalidOid, InvalidOid, nullptr, nullptr, nullptr, nullptr, 0, ' ',
                                 ' ', nullptr, 0, ' ', nullptr, nullptr, nullptr, true, 0, true,
                                 false, true);
#else
    return CreateConstraintEntry(name, get_rel_namespace(relid), CONSTRAINT_TRIGGER, false, false,
                                 true, InvalidOid, relid, nullptr, 0, 0, InvalidOid, InvalidOid,
                                 InvalidOid, nullptr, nullptr, nullptr, nullptr, 0, ' ', ' ',
                                 nullptr, 0, ' ', nullptr, nullptr, nullptr, true, 0, true, true);
#endif
}

// The sequence of an identity column; InvalidOid where it is none.
inline Oid IdentitySequence(Relation rel, AttrNumber attno) {
#if PG_VERSION_NUM >= 170000
    return getIdentitySequence(rel, attno, true);
#else
    return getIdentitySequence(RelationGetRelid(rel), attno, true);
#endif
}

// The primary key's index, unless it is deferrable.
inline Oid GetPrimaryKey(Relation rel) {
#if PG_VERSION_NUM >= 180000
    return RelationGetPrimaryKeyIndex(rel, false);
#else
    return RelationGetPrimaryKeyIndex(rel);
#endif
}

inline bool HasConstraints(Oid domain) {
#if PG_VERSION_NUM >= 190000
    return DomainHasConstraints(domain, nullptr);
#else
    return DomainHasConstraints(domain);
#endif
}

// How an operator sorts; false where it is not one to sort by.
inline bool GetOrdering(Oid sort_operator, Oid *opfamily, bool *descending) {
    Oid type;
#if PG_VERSION_NUM >= 180000
    CompareType direction = COMPARE_INVALID;
    constexpr CompareType kDescending = COMPARE_GT;
#else
    int16 direction = 0;
    constexpr int16 kDescending = BTGreaterStrategyNumber;
#endif
    bool found = get_ordering_op_properties(sort_operator, opfamily, &type, &direction);
    *descending = direction == kDescending;
    return found;
}

// Whether a column holds no NULL: since 18, NOT NULL may be declared of rows to come alone.
inline bool HoldsNoNull(TupleDesc descriptor, AttrNumber attno) {
#if PG_VERSION_NUM >= 180000
    return TupleDescCompactAttr(descriptor, attno - 1)->attnullability == ATTNULLABLE_VALID;
#else
    return TupleDescAttr(descriptor, attno - 1)->attnotnull;
#endif
}

// Whether a column is generated when it is read, and stored nowhere: since 18.
inline bool IsVirtual(Form_pg_attribute att) {
#if PG_VERSION_NUM >= 180000
    return att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#else
    return false;
#endif
}

// Whether partitions may generate columns that the table above does not: before 16.
inline constexpr bool kPartitionsGenerateAlone = PG_VERSION_NUM < 160000;

// Whether a command has a generated column computed anew in every row: since 17.
inline bool SetsExpression(const AlterTableCmd *command) {
#if PG_VERSION_NUM >= 170000
    return command->subtype == AT_SetExpression;
#else
    return false;
#endif
}

// Whether PostgreSQL looks in the index that a foreign key points at without a query of its own,
// before which what is captured would be flushed: since 19.
constexpr bool kForeignKeysLookDirectly = PG_RELEASED_19;

// The table that REPACK (CONCURRENTLY) rewrites; null for other commands. Since 19.
inline const RangeVar *RepackedConcurrently([[maybe_unused]] const Node *command) {
#if PG_RELEASED_19
    if (!IsA(command, RepackStmt))
        return nullptr;
    const auto *statement = reinterpret_cast<const RepackStmt *>(command);
    bool is_concurrent = false;
    ListCell *cell;
    foreach (cell, statement->params)
        if (DefElem *option = lfirst_node(DefElem, cell);
            strcmp(option->defname, "concurrently") == 0)
            is_concurrent = defGetBoolean(option);
    return is_concurrent && statement->relation ? statement->relation->relation : nullptr;
#else
    return nullptr;
#endif
}

// ON CONFLICT DO SELECT: since 19.
inline bool SelectsOnConflict([[maybe_unused]] const OnConflictExpr *conflict) {
#if PG_VERSION_NUM >= 190000
    return conflict->action == ONCONFLICT_SELECT;
#else
    return false;
#endif
}

// The partitions that MERGE PARTITIONS and SPLIT PARTITION make, and those that they take the rows
// of and drop: lists of RangeVars; NIL for other commands. No release has these yet.
inline List *NewPartitions([[maybe_unused]] const AlterTableCmd *command) {
    List *names = NIL;
#if PG_HAS_REARRANGING
    if (command->subtype == AT_MergePartitions)
        names = list_make1(castNode(PartitionCmd, command->def)->name);
    if (command->subtype == AT_SplitPartition) {
        ListCell *cell;
        foreach (cell, castNode(PartitionCmd, command->def)->partlist)
            names = lappend(names, lfirst_node(SinglePartitionSpec, cell)->name);
    }
#endif
    return names;
}

inline List *ReplacedPartitions([[maybe_unused]] const AlterTableCmd *command) {
#if PG_HAS_REARRANGING
    if (command->subtype == AT_MergePartitions)
        return castNode(PartitionCmd, command->def)->partlist;
    if (command->subtype == AT_SplitPartition)
        return list_make1(castNode(PartitionCmd, command->def)->name);
#endif
    return NIL;
}

// Base64 of bytes, which 18 takes to be unsigned. Return the length, negative on failure.
inline int EncodeBase64(const char *bytes, int length, char *text, int room) {
#if PG_VERSION_NUM >= 180000
    return pg_b64_encode(reinterpret_cast<const uint8 *>(bytes), length, text, room);
#else
    return pg_b64_encode(bytes, length, text, room);
#endif
}

inline int DecodeBase64(const char *text, int length, char *bytes, int room) {
#if PG_VERSION_NUM >= 180000
    return pg_b64_decode(text, length, reinterpret_cast<uint8 *>(bytes), room);
#else
    return pg_b64_decode(text, length, bytes, room);
#endif
}

// Scans of a table, and of rows that entries of an index lead to. Since 19 they may be told what
// they are for.
inline TableScanDesc BeginTableScan(Relation rel, Snapshot snapshot) {
#if PG_RELEASED_19
    return table_beginscan(rel, snapshot, 0, nullptr, SO_NONE);
#else
    return table_beginscan(rel, snapshot, 0, nullptr);
#endif
}

inline TableScanDesc BeginTidRangeScan(Relation rel, Snapshot snapshot, ItemPointer first,
                                       ItemPointer last) {
#if PG_RELEASED_19
    return table_beginscan_tidrange(rel, snapshot, first, last, SO_NONE);
#else
    return table_beginscan_tidrange(rel, snapshot, first, last);
#endif
}

inline IndexFetchTableData *BeginFetch(Relation rel) {
#if PG_RELEASED_19
    return table_index_fetch_begin(rel, SO_NONE);
#else
    return table_index_fetch_begin(rel);
#endif
}

inline IndexScanDesc BeginIndexScan(Relation rel, Relation index, Snapshot snapshot, int keys,
                                    int orderings = 0) {
#if PG_RELEASED_19
    return index_beginscan(rel, index, snapshot, nullptr, keys, orderings, SO_NONE);
#elif PG_VERSION_NUM >= 180000
    return index_beginscan(rel, index, snapshot, nullptr, keys, orderings);
#else
    return index_beginscan(rel, index, snapshot, keys, orderings);
#endif
}

// A scan of an index that fills bitmaps.
inline IndexScanDesc BeginBitmapScan(Relation index, Snapshot snapshot, int keys) {
#if PG_VERSION_NUM >= 180000
    return index_beginscan_bitmap(index, snapshot, nullptr, keys);
#else
    return index_beginscan_bitmap(index, snapshot, keys);
#endif
}

// Going over a bitmap of tuples, a page of the table at a time.
#if PG_VERSION_NUM >= 180000
using BitmapIterator = TBMPrivateIterator;
#else
using BitmapIterator = TBMIterator;
#endif

struct BitmapPage {
    BlockNumber block;
    bool recheck; // whether the tuples are what was looked for must be checked
    int count;    // of offsets; negative: any tuple of the page may be meant
    OffsetNumber offsets[MaxHeapTuplesPerPage];
};

inline BitmapIterator *BeginBitmapIteration(TIDBitmap *bitmap) {
#if PG_VERSION_NUM >= 180000
    return tbm_begin_private_iterate(bitmap);
#else
    return tbm_begin_iterate(bitmap);
#endif
}

// The next page; false at the end.
inline bool NextBitmapPage(BitmapIterator *iterator, BitmapPage *page) {
#if PG_VERSION_NUM >= 180000
    TBMIterateResult result;
    if (!tbm_private_iterate(iterator, &result))
        return false;
    page->block = result.blockno;
    page->recheck = result.recheck;
    page->count =
        result.lossy ? -1 : tbm_extract_page_tuple(&result, page->offsets, MaxHeapTuplesPerPage);
#else
    const TBMIterateResult *result = tbm_iterate(iterator);
    if (!result)
        return false;
    page->block = result->blockno;
    page->recheck = result->recheck;
    page->count = result->ntuples;
    for (int i = 0; i < result->ntuples; i++)
        page->offsets[i] = result->offsets[i];
#endif
    return true;
}

inline void EndBitmapIteration(BitmapIterator *iterator) {
#if PG_VERSION_NUM >= 180000
    tbm_end_private_iterate(iterator);
#else
    tbm_end_iterate(iterator);
#endif
}

// Has values of an index column compared in its order, or in reverse.
inline void PrepareIndexSort(Relation index, bool reverse, SortSupport sort) {
#if PG_VERSION_NUM >= 180000
    PrepareSortSupportFromIndexRel(index, reverse, sort);
#else
    PrepareSortSupportFromIndexRel(index, reverse ? BTGreaterStrategyNumber : BTLessStrategyNumber,
                                   sort);
#endif
}

// Pins a block of a relation that was in a buffer when it was read last, if it still is; false for
// InvalidBuffer.
inline bool ReadRecent(Relation rel, BlockNumber block, Buffer recent) {
    if (!BufferIsValid(recent))
        return false;
#if PG_VERSION_NUM >= 160000
    return ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, recent);
#else
    return ReadRecentBuffer(rel->rd_node, MAIN_FORKNUM, block, recent);
#endif
}

// Whether this session holds a lock in exactly this mode.
inline bool HoldsLock(const LOCKTAG &tag, LOCKMODE mode) {
#if PG_VERSION_NUM >= 170000
    return LockHeldByMe(&tag, mode, false);
#else
    return LockHeldByMe(&tag, mode);
#endif
}

// --- Access methods ----------------------------------------------------------

// Whether a relation got its file in this transaction, which may roll back.
inline bool HasNewFile(Relation rel) {
#if PG_VERSION_NUM >= 160000
    return rel->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
    return rel->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

// Whether it got its file in this subtransaction, and loses it if that rolls back.
inline bool HasFileOfThisLevel(Relation rel) {
    SubTransactionId level = GetCurrentSubTransactionId();
#if PG_VERSION_NUM >= 160000
    return rel->rd_createSubid == level || rel->rd_newRelfilelocatorSubid == level;
#else
    return rel->rd_createSubid == level || rel->rd_newRelfilenodeSubid == level;
#endif
}

// An index that the caller has locked; null where it is gone.
inline Relation TryOpenIndex(Oid relid) {
    Relation rel = try_relation_open(relid, NoLock);
    if (rel && rel->rd_rel->relkind != RELKIND_INDEX) {
        relation_close(rel, NoLock);
        return nullptr;
    }
    return rel;
}

// The transaction of a lock's holder; invalid where it has no id (yet).
inline TransactionId TransactionOf(VirtualTransactionId holder) {
    if (!LocalTransactionIdIsValid(holder.localTransactionId))
        return InvalidTransactionId; // a lock of a session
    bool more;
    TransactionId prepared = TwoPhaseGetXidByVirtualXID(holder, &more);
    if (TransactionIdIsValid(prepared))
        return prepared;
#if PG_VERSION_NUM >= 170000
    if (holder.procNumber == INVALID_PROC_NUMBER)
        return holder.localTransactionId;
    PGPROC *process = ProcNumberGetProc(holder.procNumber);
#else
    if (holder.backendId == InvalidBackendId)
        return holder.localTransactionId;
    PGPROC *process = BackendIdGetProc(holder.backendId);
#endif
    if (!process)
        return InvalidTransactionId;
    TransactionId xid = process->xid;
    pg_read_barrier();
#if PG_VERSION_NUM >= 170000
    bool is_same = process->vxid.lxid == holder.localTransactionId;
#else
    bool is_same = process->lxid == holder.localTransactionId;
#endif
    return is_same ? xid : InvalidTransactionId; // not of what the process has begun since
}

inline TransactionId TransactionOf(const LockInstanceData &lock) {
#if PG_VERSION_NUM >= 170000
    return TransactionOf(lock.vxid);
#else
    return TransactionOf(VirtualTransactionId{lock.backend, lock.lxid});
#endif
}

#if PG_VERSION_NUM >= 160000
using FileLocator = RelFileLocator;
#else
using FileLocator = RelFileNode;
#endif

// The number of a relation's file, which changes when the file does.
inline uint32 FileNumber(Relation rel) {
#if PG_VERSION_NUM >= 160000
    return rel->rd_locator.relNumber;
#else
    return rel->rd_node.relNode;
#endif
}

// Writes the first page of a permanent relation's file of this transaction's, which nobody has
// opened: the relation has another file as yet, in the same database. `page` is aligned for I/O.
inline void WriteFirstPage(Oid tablespace, uint32 number, Page page) {
    FileLocator file = {};
#if PG_VERSION_NUM >= 160000
    file.spcOid = tablespace;
    file.dbOid = MyDatabaseId;
    file.relNumber = number;
#else
    file.spcNode = tablespace;
    file.dbNode = MyDatabaseId;
    file.relNode = number;
#endif
#if PG_VERSION_NUM >= 170000
    SMgrRelation smgr = smgropen(file, INVALID_PROC_NUMBER);
#else
    SMgrRelation smgr = smgropen(file, InvalidBackendId);
#endif
    if (XLogIsNeeded())
        log_newpage(&file, MAIN_FORKNUM, 0, page, true);
#if PG_RELEASED_19
    PageSetChecksum(page, 0);
#else
    PageSetChecksumInplace(page, 0);
#endif
    smgrextend(smgr, MAIN_FORKNUM, 0, page, false);
    smgrimmedsync(smgr, MAIN_FORKNUM);
}

using FileMaker = void (*)(Relation, const FileLocator *, char, TransactionId *, MultiXactId *);

inline FileMaker GetFileMaker(const TableAmRoutine *routine) {
#if PG_VERSION_NUM >= 160000
    return routine->relation_set_new_filelocator;
#else
    return routine->relation_set_new_filenode;
#endif
}

inline void SetFileMaker(TableAmRoutine *routine, FileMaker maker) {
#if PG_VERSION_NUM >= 160000
    routine->relation_set_new_filelocator = maker;
#else
    routine->relation_set_new_filenode = maker;
#endif
}

// The table of the index that is being vacuumed, which versions since 16 ask for.
inline void SetHeap([[maybe_unused]] IndexVacuumInfo *info, [[maybe_unused]] Relation heap) {
#if PG_VERSION_NUM >= 160000
    info->heaprel = heap;
#endif
}

// What the handler of an access method returns of a routine that is there for good: before 19
// PostgreSQL frees it.
inline const IndexAmRoutine *HandOut(const IndexAmRoutine &routine) {
#if PG_VERSION_NUM >= 190000
    return &routine;
#else
    IndexAmRoutine *copy = palloc_object(IndexAmRoutine);
    *copy = routine;
    return copy;
#endif
}

// After the last row that a statement inserts into an index with an IndexInfo: nothing to do before
// 17.
inline void SetEndOfInserts([[maybe_unused]] IndexAmRoutine *method,
                            [[maybe_unused]] void (*end)(Relation, IndexInfo *)) {
#if PG_VERSION_NUM >= 170000
    method->aminsertcleanup = end;
#endif
}

inline void EndInserts([[maybe_unused]] Relation index, [[maybe_unused]] IndexInfo *info) {
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
#endif
}

inline bool IsAutovacuum() {
#if PG_VERSION_NUM >= 170000
    return AmAutoVacuumWorkerProcess();
#else
    return IsAutoVacuumWorkerProcess();
#endif
}

inline void DelayVacuum() {
#if PG_VERSION_NUM >= 180000
    vacuum_delay_point(false);
#else
    vacuum_delay_point();
#endif
}

// Calls `look` for each block with rows that VACUUM is about to take away, with their line
// pointers' numbers; `state` is what VACUUM hands to bulk deletion. Returns how many they are.
template <typename Look>
int64 ForEachDeadRow(void *state, Look look) {
    int64 count = 0;
#if PG_VERSION_NUM >= 170000
    TidStoreIter *iterator = TidStoreBeginIterate(static_cast<TidStore *>(state));
    while (TidStoreIterResult *result = TidStoreIterateNext(iterator)) {
#if PG_VERSION_NUM >= 180000
        OffsetNumber offsets[MaxOffsetNumber];
        int found = TidStoreGetBlockOffsets(result, offsets, lengthof(offsets));
        look(result->blkno, static_cast<const OffsetNumber *>(offsets), found);
#else
        int found = result->num_offsets;
        look(result->blkno, static_cast<const OffsetNumber *>(result->offsets), found);
#endif
        count += found;
    }
    TidStoreEndIterate(iterator);
#else
    const VacDeadItems *dead = static_cast<VacDeadItems *>(state);
    OffsetNumber offsets[MaxHeapTuplesPerPage];
    for (int first = 0, end; first < dead->num_items; first = end) {
        BlockNumber block = ItemPointerGetBlockNumber(&dead->items[first]);
        for (end = first;
             end < dead->num_items && ItemPointerGetBlockNumber(&dead->items[end]) == block; end++)
            offsets[end - first] = ItemPointerGetOffsetNumber(&dead->items[end]);
        look(block, static_cast<const OffsetNumber *>(offsets), end - first);
        count += end - first;
    }
#endif
    return count;
}

// What pg_class says of a relation's size.
inline void RecordSize(Relation rel, BlockNumber pages, double rows, bool has_index) {
#if PG_VERSION_NUM >= 180000
    vac_update_relstats(rel, pages, rows, 0, 0, has_index, InvalidTransactionId, InvalidMultiXactId,
                        nullptr, nullptr, false);
#else
    vac_update_relstats(rel, pages, rows, 0, has_index, InvalidTransactionId, InvalidMultiXactId,
                        nullptr, nullptr, false);
#endif
}

// After a table without rows of its own was vacuumed: what pg_class and the statistics say.
inline void ReportVacuum(Relation table, Relation index, BlockNumber pages, double rows) {
    RecordSize(table, 1, rows, true);
    RecordSize(index, pages, rows, false);
#if PG_VERSION_NUM >= 190000
    pgstat_report_vacuum(table, static_cast<PgStat_Counter>(rows), 0, GetCurrentTimestamp());
#elif PG_VERSION_NUM >= 180000
    pgstat_report_vacuum(RelationGetRelid(table), false, static_cast<PgStat_Counter>(rows), 0,
                         GetCurrentTimestamp());
#else
    pgstat_report_vacuum(RelationGetRelid(table), false, static_cast<PgStat_Counter>(rows), 0);
#endif
}

// Has standbys cancel what reads by snapshots to which a transaction may be in progress, as GiST
// does before it uses a page again.
inline void ConflictOnStandbys(Relation index, Relation table, TransactionId horizon) {
    FullTransactionId next = ReadNextFullTransactionId();
    uint32 epoch = EpochFromFullTransactionId(next) - (horizon > XidFromFullTransactionId(next));
    FullTransactionId full = FullTransactionIdFromEpochAndXid(epoch, horizon);
#if PG_VERSION_NUM >= 160000
    gistXLogPageReuse(index, table, InvalidBlockNumber, full);
#else
    gistXLogPageReuse(index, InvalidBlockNumber, full);
#endif
}

// Rows of a table, as statistics count them.
inline int64 CountLiveRows(Oid relid) {
    const PgStat_StatTabEntry *entry = pgstat_fetch_stat_tabentry(relid);
    if (!entry)
        return 0;
#if PG_VERSION_NUM >= 160000
    return entry->live_tuples;
#else
    return entry->n_live_tuples;
#endif
}

inline Oid OperatorClassOf(Relation index, int column) {
    bool isnull;
    Datum classes =
        SysCacheGetAttr(INDEXRELID, index->rd_indextuple, Anum_pg_index_indclass, &isnull);
    return reinterpret_cast<oidvector *>(DatumGetPointer(classes))->values[column];
}

// The next of sorted integers; false at the end.
inline bool GetSortedInt64(Tuplesortstate *sort, int64 *value) {
    Datum datum;
    bool isnull;
#if PG_VERSION_NUM >= 160000
    bool found = tuplesort_getdatum(sort, true, false, &datum, &isnull, nullptr);
#else
    bool found = tuplesort_getdatum(sort, true, &datum, &isnull, nullptr);
#endif
    if (found)
        *value = DatumGetInt64(datum);
    return found;
}

// Makes an index of a relation of PostgreSQL's own kind, with columns 1, 2, …. `parameters`: of the
// operator classes, as pg_attribute has them.
inline Oid CreateIndex(Relation table, const char *name, IndexInfo *info, List *columns, Oid method,
                       Oid tablespace, Oid *collations, Oid *classes, Datum *parameters,
                       int16 *options, Datum storage, uint16 flags) {
#if PG_VERSION_NUM >= 170000
    return index_create(table, name, InvalidOid, InvalidOid, InvalidOid, InvalidOid, info, columns,
                        method, tablespace, collations, classes, parameters, options, nullptr,
                        storage, flags, 0, true, true, nullptr);
#else
    info->ii_OpclassOptions = parameters;
    return index_create(table, name, InvalidOid, InvalidOid, InvalidOid, InvalidOid, info, columns,
                        method, tablespace, collations, classes, options, storage, flags, 0, true,
                        true, nullptr);
#endif
}

// Makes an index for the owner of a table, who need not be allowed to create anything in its
// schema. `parent`: the partitioned index that it is part of; InvalidOid: none.
inline Oid DefineIndexForOwner(Oid table, IndexStmt *statement, Oid parent) {
#if PG_VERSION_NUM >= 190000
    return DefineIndex(nullptr, table, statement, InvalidOid, parent, InvalidOid, -1, true, false,
                       true, false, true)
        .objectId;
#elif PG_VERSION_NUM >= 160000
    return DefineIndex(table, statement, InvalidOid, parent, InvalidOid, -1, true, false, true,
                       false, true)
        .objectId;
#else
    return DefineIndex(table, statement, InvalidOid, parent, InvalidOid, true, false, true, false,
                       true)
        .objectId;
#endif
}

// The columns of `in` for those of `out`, by name; each must be there.
inline AttrMap *MapAllColumnsByName(TupleDesc in, TupleDesc out) {
#if PG_VERSION_NUM >= 160000
    return build_attrmap_by_name(in, out, false);
#else
    return build_attrmap_by_name(in, out);
#endif
}

// Constraints are checked.
inline void ReindexIndex(Oid index, char persistence) {
    ReindexParams params = {};
    params.options = 0;
#if PG_VERSION_NUM >= 170000
    reindex_index(nullptr, index, false, persistence, &params);
#else
    reindex_index(index, false, persistence, &params);
#endif
}

// A name for LWLocks, as wait events have it: of the process that makes them, which gives it a
// number, and of others that come to know that.
inline int NewTranche(const char *name) {
#if PG_VERSION_NUM >= 190000
    return LWLockNewTrancheId(name);
#else
    int tranche = LWLockNewTrancheId();
    LWLockRegisterTranche(tranche, name);
    return tranche;
#endif
}

inline void NameTranche([[maybe_unused]] int tranche, [[maybe_unused]] const char *name) {
#if PG_VERSION_NUM < 190000
    LWLockRegisterTranche(tranche, name);
#endif
}

// Shared memory that the first who asks for it has made, and `format` has filled, and that stays
// until the server stops; null before 17. `name` is shorter than NAMEDATALEN.
template <void (*format)(void *)>
void *AttachSegment([[maybe_unused]] const char *name, [[maybe_unused]] Size size) {
#if PG_VERSION_NUM >= 190000
    bool found;
    return GetNamedDSMSegment(
        name, size, [](void *memory, void *) { format(memory); }, &found, nullptr);
#elif PG_VERSION_NUM >= 170000
    bool found;
    return GetNamedDSMSegment(name, size, format, &found);
#else
    return nullptr;
#endif
}

// Nodes of a plan that settings such as enable_sort turn off. Before PostgreSQL 18 they are dear
// instead.
inline int CountDisabled(const Plan *plan) {
#if PG_VERSION_NUM >= 180000
    return plan->disabled_nodes;
#else
    (void)plan;
    return 0;
#endif
}

} // namespace index_table::compat
