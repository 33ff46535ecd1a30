#include "deferred/merge_capture.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

// The node below a MERGE, of which each row is asked for when the one before has been dealt with.
struct Repaired {
    Repaired *next;
    PlanState *child;
    ExecProcNodeMtd proc; // its own
    TransitionCaptureState *capture;
    MemoryContextCallback end; // of the query
};

constinit Repaired *repaired = nullptr;

TupleTableSlot *NextRow(PlanState *child) {
    Repaired *found = repaired;
    while (found->child != child)
        found = found->next;
    found->capture->tcs_original_insert_tuple = nullptr;
    return found->proc(child);
}

void Forget(void *argument) {
    Repaired **link = &repaired;
    while (*link && *link != argument)
        link = &(*link)->next;
    if (*link)
        *link = (*link)->next;
}

bool IsOwn(const Trigger &trigger) {
    return get_func_namespace(trigger.tgfoid) == ExtensionSchema();
}

// A row that MERGE moves to another partition is one deleted and one inserted for transition
// tables, but triggers of those events fire only where MERGE has such actions: ours are to.
void FireForMoves(ModifyTableState *modify) {
    FAULT_POINT("merge_capture.fire_for_moves");
    Relation rel = modify->rootResultRelInfo->ri_RelationDesc;
    const TriggerDesc *triggers = rel->trigdesc;
    if (!(modify->mt_merge_subcommands & MERGE_UPDATE) ||
        rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE || !triggers)
        return;
    bool has_own = false, has_others = false;
    for (const Trigger &trigger : std::span(triggers->triggers, triggers->numtriggers)) {
        if (TRIGGER_FOR_ROW(trigger.tgtype))
            continue;
        bool fires =
            (TRIGGER_FOR_INSERT(trigger.tgtype) &&
             !(modify->mt_merge_subcommands & MERGE_INSERT)) ||
            (TRIGGER_FOR_DELETE(trigger.tgtype) && !(modify->mt_merge_subcommands & MERGE_DELETE));
        has_own = has_own || (IsOwn(trigger) && TRIGGER_USES_TRANSITION_TABLE(trigger.tgnewtable));
        has_others = has_others || (fires && !IsOwn(trigger));
    }
    if (!has_own)
        return;
    if (has_others)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("MERGE that updates \"%s\" must insert and delete, too",
                        RelationGetRelationName(rel)),
                 errdetail("It has index tables that are maintained deferred, and statement "
                           "triggers of its own, which would fire for rows that are moved to "
                           "another partition."),
                 errhint("Use UPDATE, or add WHEN NOT MATCHED AND false THEN INSERT DEFAULT VALUES "
                         "and WHEN MATCHED AND false THEN DELETE.")));
    modify->mt_merge_subcommands |= MERGE_INSERT | MERGE_DELETE;
}

bool Repair(PlanState *node, void *context) {
    if (!node)
        return false;
    ModifyTableState *modify = reinterpret_cast<ModifyTableState *>(node);
    if (IsA(node, ModifyTableState) && modify->operation == CMD_MERGE &&
        modify->mt_transition_capture) {
        FireForMoves(modify);
        MemoryContext memory = node->state->es_query_cxt;
        PlanState *child = outerPlanState(node);
        Repaired *added = static_cast<Repaired *>(MemoryContextAllocZero(memory, sizeof(Repaired)));
        *added = {.next = repaired,
                  .child = child,
                  .proc = child->ExecProcNodeReal,
                  .capture = modify->mt_transition_capture};
        added->end.func = Forget;
        added->end.arg = added;
        MemoryContextRegisterResetCallback(memory, &added->end);
        repaired = added;
        child->ExecProcNodeReal = NextRow;
    }
    return compat::WalkPlanStates(node, Repair, context);
}

bool Complete(PlanState *node, void *context) {
    if (!node)
        return false;
    ModifyTableState *modify = reinterpret_cast<ModifyTableState *>(node);
    if (IsA(node, ModifyTableState) && modify->operation == CMD_MERGE &&
        modify->mt_transition_capture && outerPlanState(node)->ExecProcNodeReal != NextRow) {
        if (modify->mt_transition_capture->tcs_original_insert_tuple &&
            modify->mt_merge_updated > 0)
            ereport(
                ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("the library \"index_table\" was not loaded when MERGE began"),
                 errdetail("This release of PostgreSQL may have told triggers of the wrong rows."),
                 errhint("It is loaded now: repeat the transaction. To have it loaded always, "
                         "set session_preload_libraries.")));
        int before = modify->mt_merge_subcommands;
        FireForMoves(modify);
        // Whatever has come to its end has fired already.
        int missed = modify->mt_done ? modify->mt_merge_subcommands & ~before : 0;
        if (missed & MERGE_INSERT)
            ExecASInsertTriggers(node->state, modify->rootResultRelInfo,
                                 modify->mt_transition_capture);
        if (missed & MERGE_DELETE)
            ExecASDeleteTriggers(node->state, modify->rootResultRelInfo,
                                 modify->mt_transition_capture);
    }
    return compat::WalkPlanStates(node, Complete, context);
}

void ForEachNode(QueryDesc *query, bool (*visit)(PlanState *, void *)) {
    if (query->plannedstmt->commandType != CMD_MERGE && !query->plannedstmt->hasModifyingCTE)
        return;
    visit(query->planstate, nullptr);
    ListCell *cell;
    foreach (cell, query->estate->es_subplanstates)
        visit(static_cast<PlanState *>(lfirst(cell)), nullptr);
}

} // namespace

void RepairMergeCapture(QueryDesc *query) {
    ForEachNode(query, Repair);
}

void CompleteMergeCapture(QueryDesc *query) {
    ForEachNode(query, Complete);
}

} // namespace index_table
