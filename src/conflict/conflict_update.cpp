#include "conflict/conflict_update.h"

#include "core/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// A partition whose rows are updated.
struct UpdatedLeaf {
    ResultRelInfo *relinfo;
    TupleTableSlot *existing; // the row, locked
    TupleTableSlot *updated;
    TupleTableSlot *existing_in_target; // null: the layout is the same
    AttrMap *to_target;                 // the target's columns from the leaf's
    AttrMap *from_target;
    bool may_leave;             // SET, or a trigger, may change its partition key
    ExprState *partition_check; // null: none, or not made yet
    void *capture;
};

} // namespace

struct ConflictUpdate {
    ModifyTableState *modify;
    EState *estate;
    const IndexTable *arbiter;
    ConflictCheck *check;
    SpeculativeEntries *speculative;
    ResultRelInfo *target; // the table that the statement names
    NumberMap leaves;      // UpdatedLeaf by OID
    TupleTableSlot *proposed;
    Tuplestorestate *returned;
    // Of the row that is locked; null: none is.
    UpdatedLeaf *locked;
    OpenLeaf *open;
    TupleTableSlot *entry; // the arbiter's
    RemoteRow *remote;     // null: the row is here
};

namespace {

// --- Finding the partition -----------------------------------------------------

// Whether a partition is the table that the statement inserts into, or one of that.
bool IsInTarget(const ConflictUpdate *self, Oid leaf) {
    Oid target = RelationGetRelid(self->target->ri_RelationDesc);
    return target == self->arbiter->base || leaf == target ||
           list_member_oid(get_partition_ancestors(leaf), target);
}

// Whether an update may take a row out of its partition.
bool MayLeave(const ConflictUpdate *self, const OpenLeaf *open) {
    const TriggerDesc *triggers = open->rel->trigdesc;
    Relation target = self->target->ri_RelationDesc;
    if (!open->rel->rd_rel->relispartition)
        return false;
    // Of partitions of partitions, and of one that is named itself, it is not worth knowing.
    bool is_simple = open->depth == 1 && target->rd_rel->relkind == RELKIND_PARTITIONED_TABLE &&
                     !(triggers && triggers->trig_update_before_row);
    bool is_in_expression;
    return !is_simple || has_partition_attrs(target, ExecGetUpdatedCols(self->target, self->estate),
                                             &is_in_expression);
}

UpdatedLeaf *MakeUpdatedLeaf(ConflictUpdate *self, const OpenLeaf *open) {
    Relation rel = open->rel;
    List **slots = &self->estate->es_tupleTable;
    TupleDesc descriptor = RelationGetDescr(rel);
    TupleDesc target = RelationGetDescr(self->target->ri_RelationDesc);
    UpdatedLeaf *leaf = palloc0_object(UpdatedLeaf);
    leaf->existing = table_slot_create(rel, slots);
    leaf->updated = table_slot_create(rel, slots);
    leaf->may_leave = MayLeave(self, open);
    if (open->map || RelationGetRelid(self->target->ri_RelationDesc) != self->arbiter->base) {
        leaf->to_target = compat::MapColumnsByName(descriptor, target);
        leaf->from_target = compat::MapColumnsByName(target, descriptor);
    }
    if (leaf->to_target)
        leaf->existing_in_target = ExecInitExtraTupleSlot(self->estate, target, &TTSOpsVirtual);
    return leaf;
}

// A row of the leaf in the target's layout.
TupleTableSlot *ExistingInTarget(UpdatedLeaf *leaf) {
    if (!leaf->to_target)
        return leaf->existing;
    TupleTableSlot *row = leaf->existing_in_target;
    execute_attr_map_slot(leaf->to_target, leaf->existing, row);
    row->tts_tid = leaf->existing->tts_tid;
    row->tts_tableOid = leaf->existing->tts_tableOid;
    return row;
}

// What ModifyTable knows of a partition that it inserts into is all that is needed to update rows
// of it. The row that is there leads to it, as one that is inserted would.
ResultRelInfo *RouteTo(ConflictUpdate *self, Relation rel, TupleTableSlot *row) {
    ModifyTableState *modify = self->modify;
    if (!modify->mt_partition_tuple_routing)
        return self->target;
    ResultRelInfo *result = ExecFindPartition(
        modify, self->target, modify->mt_partition_tuple_routing, row, self->estate);
    if (RelationGetRelid(result->ri_RelationDesc) != RelationGetRelid(rel))
        elog(ERROR, "a row of \"%s\" belongs to \"%s\"", RelationGetRelationName(rel),
             RelationGetRelationName(result->ri_RelationDesc));
    compat::InitGeneratedColumns(result, modify);
    return result;
}

UpdatedLeaf *GetUpdatedLeaf(ConflictUpdate *self, OpenLeaf *open, TupleTableSlot *entry) {
    Oid relid = RelationGetRelid(open->rel);
    UpdatedLeaf *leaf = static_cast<UpdatedLeaf *>(self->leaves.Find(relid));
    if (leaf)
        return leaf;
    if (!IsInTarget(self, relid)) {
        if (self->arbiter->is_global())
            return nullptr;
        RaiseViolation(self->arbiter, entry);
    }
    MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
    leaf = MakeUpdatedLeaf(self, open);
    self->leaves.Add(relid, leaf, self->estate->es_query_cxt);
    MemoryContextSwitchTo(caller);
    return leaf;
}

// The row that is there is in leaf->existing.
void RouteByRow(ConflictUpdate *self, UpdatedLeaf *leaf, Relation rel) {
    if (leaf->relinfo)
        return;
    MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
    leaf->relinfo = RouteTo(self, rel, ExistingInTarget(leaf));
    MemoryContextSwitchTo(caller);
    // ModifyTable thinks that it inserts, no more.
    CheckCmdReplicaIdentity(rel, CMD_UPDATE);
}

// --- Locking -------------------------------------------------------------------

void EndForeignRow(ConflictUpdate *self) {
    if (self->remote)
        EndRemoteRow(self->remote);
    self->remote = nullptr;
}

[[noreturn]] void RaiseSecondTime() {
    ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
                    errmsg("%s command cannot affect row a second time", "ON CONFLICT DO UPDATE"),
                    errhint("Ensure that no rows proposed for insertion within the same command "
                            "have duplicate constrained values.")));
}

[[noreturn]] void RaiseInvisible(TupleTableSlot *row) {
    bool isnull;
    Datum inserter = slot_getsysattr(row, MinTransactionIdAttributeNumber, &isnull);
    if (TransactionIdIsCurrentTransactionId(DatumGetTransactionId(inserter)))
        RaiseSecondTime();
    elog(ERROR, "attempted to lock invisible tuple");
}

void CheckMayLookAgain(TM_Result result) {
    if (!IsolationUsesXactSnapshot())
        return;
    ereport(ERROR,
            (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
             result == TM_Deleted ? errmsg("could not serialize access due to concurrent delete")
                                  : errmsg("could not serialize access due to concurrent update")));
}

// The row was found in `open`.
bool LockRow(ConflictUpdate *self, UpdatedLeaf *leaf, OpenLeaf *open) {
    FAULT_POINT("conflict_update.lock_row");
    EState *estate = self->estate;
    ItemPointerData tid = open->slot->tts_tid;
    if (!leaf->relinfo)
        ExecCopySlot(leaf->existing, open->slot);
    ExecClearTuple(open->slot);
    RouteByRow(self, leaf, open->rel);
    TM_FailureData failure;
    TM_Result result =
        table_tuple_lock(leaf->relinfo->ri_RelationDesc, &tid, estate->es_snapshot, leaf->existing,
                         estate->es_output_cid, ExecUpdateLockMode(estate, leaf->relinfo),
                         LockWaitBlock, 0, &failure);
    switch (result) {
    case TM_Ok:
        break;
    case TM_Invisible:
        RaiseInvisible(leaf->existing);
    case TM_Updated:
    case TM_Deleted:
        CheckMayLookAgain(result);
        ExecClearTuple(leaf->existing);
        return false;
    default:
        elog(ERROR, "unexpected state %d of a row that conflicts", static_cast<int>(result));
    }
    if (IsolationUsesXactSnapshot())
        CheckConflictIsVisible(leaf->relinfo->ri_RelationDesc, leaf->existing, estate->es_snapshot);
    return true;
}

// Columns of the leaf that SET names.
Bitmapset *UpdatedColumns(const ConflictUpdate *self, const UpdatedLeaf *leaf) {
    Bitmapset *columns = ExecGetUpdatedCols(self->target, self->estate);
    return leaf->to_target ? compat::RenameColumns(columns, leaf->to_target) : columns;
}

// Locks the row on its shard. The entry says that it is there: where the shard does not show it,
// this transaction's snapshot there is too old.
bool LockForeignRow(ConflictUpdate *self, UpdatedLeaf *leaf, OpenLeaf *open,
                    TupleTableSlot *entry) {
    if (IsOfCommand(self->speculative, entry))
        RaiseSecondTime();
    if (IsolationUsesXactSnapshot())
        CheckConflictIsVisible(RelationOfEntry(self->speculative, 0, entry), entry,
                               self->estate->es_snapshot);
    const IndexTable *table = self->arbiter;
    AttrNumber *columns = palloc_array(AttrNumber, table->identity_count);
    Datum *values = palloc_array(Datum, table->identity_count);
    for (int i = 0; i < table->identity_count; i++) {
        AttrNumber attno = table->identity[i].base_attno;
        bool isnull;
        columns[i] = open->map ? open->map->attnums[attno - 1] : attno;
        values[i] = Stored(table, entry, table->identity[i].position, &isnull);
    }
    Bitmapset *updated = UpdatedColumns(self, leaf);
    MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
    self->remote = LockRemoteRow(
        {.leaf = open->rel, .count = table->identity_count, .columns = columns, .values = values},
        updated, compat::ReaderOf(self->estate, self->target->ri_RangeTableIndex),
        self->estate->es_snapshot);
    if (self->remote)
        ExecForceStoreHeapTuple(CopyRemoteRow(self->remote), leaf->existing, true);
    MemoryContextSwitchTo(caller);
    if (self->remote && HasKey(self->check, 0, open, leaf->existing, entry)) {
        leaf->existing->tts_tableOid = RelationGetRelid(open->rel);
        RouteByRow(self, leaf, open->rel);
        return true;
    }
    EndForeignRow(self);
    ExecClearTuple(leaf->existing);
    if (IsStillStored(self->speculative, 0, entry))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to concurrent update"),
                        errdetail("Partition \"%s\" was read before the row came there.",
                                  RelationGetRelationName(open->rel)),
                        errhint("The transaction might succeed if retried.")));
    return false;
}

// --- Updating ------------------------------------------------------------------

[[noreturn]] void RaiseLeavesPartition() {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("invalid ON UPDATE specification"),
             errdetail("The result tuple would appear in a different partition than the "
                       "original tuple.")));
}

// Policies, and conditions of views.
void CheckPolicies(ConflictUpdate *self, const UpdatedLeaf *leaf, WCOKind kind,
                   TupleTableSlot *row) {
    if (leaf->relinfo->ri_WithCheckOptions != NIL)
        ExecWithCheckOptions(kind, leaf->relinfo, row, self->estate);
}

void ComputeGenerated(ConflictUpdate *self, UpdatedLeaf *leaf) {
    Relation rel = leaf->relinfo->ri_RelationDesc;
    leaf->updated->tts_tableOid = RelationGetRelid(rel);
    const TupleConstr *constraints = RelationGetDescr(rel)->constr;
    if (constraints && constraints->has_generated_stored)
        ExecComputeStoredGenerated(leaf->relinfo, self->estate, leaf->updated, CMD_UPDATE);
    ExecMaterializeSlot(leaf->updated);
}

// Not by what ModifyTable knows of the partition: that is for rows that were routed to it.
bool StaysInPartition(ConflictUpdate *self, UpdatedLeaf *leaf) {
    ExprContext *context = GetPerTupleExprContext(self->estate);
    if (!leaf->partition_check) {
        MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
        leaf->partition_check = ExecPrepareCheck(
            RelationGetPartitionQual(leaf->relinfo->ri_RelationDesc), self->estate);
        MemoryContextSwitchTo(caller);
    }
    context->ecxt_scantuple = leaf->updated;
    return ExecCheck(leaf->partition_check, context);
}

// What is checked before a row is written; BEFORE triggers have been fired.
void CheckUpdatedRow(ConflictUpdate *self, UpdatedLeaf *leaf) {
    ComputeGenerated(self, leaf);
    if (leaf->may_leave && !StaysInPartition(self, leaf))
        RaiseLeavesPartition();
    CheckPolicies(self, leaf, WCO_RLS_UPDATE_CHECK, leaf->updated);
    if (RelationGetDescr(leaf->relinfo->ri_RelationDesc)->constr)
        ExecConstraints(leaf->relinfo, leaf->updated, self->estate);
}

// False where triggers have left nothing to do.
bool WriteRow(ConflictUpdate *self, UpdatedLeaf *leaf, ItemPointer tid,
              compat::StaleIndexes *stale) {
    TM_FailureData failure;
    TM_Result result = compat::UpdateTuple(leaf->relinfo->ri_RelationDesc, tid, leaf->updated,
                                           self->estate->es_output_cid, stale, &failure);
    if (result == TM_Ok)
        return true;
    if (result != TM_SelfModified)
        elog(ERROR, "unexpected state %d of a row that is locked", static_cast<int>(result));
    if (failure.cmax != self->estate->es_output_cid)
        ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                        errmsg("tuple to be updated was already modified by an operation triggered "
                               "by the current command"),
                        errhint("Consider using an AFTER trigger instead of a BEFORE trigger to "
                                "propagate changes to other rows.")));
    return false;
}

// A key that has changed is to be known to the rows that follow: the one it had is free, the one
// it has is taken.
void CaptureChangedKey(ConflictUpdate *self, UpdatedLeaf *leaf) {
    if (self->arbiter->is_global()) // its entries are there already
        return;
    if (HasKey(self->check, 0, self->open, leaf->updated, self->entry))
        return;
    Relation rel = leaf->relinfo->ri_RelationDesc;
    CaptureUpdate(rel, leaf->existing, leaf->updated, &leaf->capture, self->estate->es_query_cxt);
    RememberCaptured(self->speculative, RelationGetRelid(rel), &leaf->updated->tts_tid);
    FlushChanges();
}

void ReturnRow(ConflictUpdate *self, UpdatedLeaf *leaf, TupleTableSlot *planned) {
    if (!leaf->relinfo->ri_projectReturning)
        return;
    TupleTableSlot *row =
        compat::ProjectReturning(leaf->relinfo, leaf->existing, leaf->updated, planned);
    if (!self->returned) {
        MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
        self->returned = tuplestore_begin_heap(false, false, work_mem);
        MemoryContextSwitchTo(caller);
    }
    tuplestore_puttupleslot(self->returned, row);
}

// Writes what SET has made of the row, with its index entries and triggers; false where there is
// nothing left to do.
bool WriteLocally(ConflictUpdate *self, UpdatedLeaf *leaf) {
    EState *estate = self->estate;
    ResultRelInfo *relinfo = leaf->relinfo;
    ItemPointerData tid = leaf->existing->tts_tid;
    if (relinfo->ri_RelationDesc->rd_rel->relhasindex && !relinfo->ri_IndexRelationDescs)
        ExecOpenIndices(relinfo, false);
    if (relinfo->ri_TrigDesc && relinfo->ri_TrigDesc->trig_update_before_row &&
        !compat::FireBeforeUpdate(estate, &self->modify->mt_epqstate, relinfo, &tid, nullptr,
                                  leaf->updated))
        return false;
    CheckUpdatedRow(self, leaf);
    compat::StaleIndexes stale;
    if (!WriteRow(self, leaf, &tid, &stale))
        return false;
    List *recheck = compat::UpdateIndexTuples(relinfo, leaf->updated, estate, false, stale);
    ExecARUpdateTriggers(estate, relinfo, nullptr, nullptr, &tid, nullptr, leaf->updated, recheck,
                         self->modify->mt_oc_transition_capture, false);
    list_free(recheck);
    CaptureChangedKey(self, leaf);
    return true;
}

// The same of a row on a shard, which checks it; as ModifyTable does it for foreign tables.
bool WriteRemotely(ConflictUpdate *self, UpdatedLeaf *leaf) {
    EState *estate = self->estate;
    ResultRelInfo *relinfo = leaf->relinfo;
    bool is_copy; // it is the slot's own
    HeapTuple existing = ExecFetchSlotHeapTuple(leaf->existing, false, &is_copy);
    if (relinfo->ri_TrigDesc && relinfo->ri_TrigDesc->trig_update_before_row &&
        !compat::FireBeforeUpdate(estate, &self->modify->mt_epqstate, relinfo, nullptr, existing,
                                  leaf->updated))
        return false;
    ComputeGenerated(self, leaf);
    if (!WriteRemoteRow(self->remote, leaf->updated))
        return false;
    RememberUpdated(self->speculative, self->entry);
    leaf->updated->tts_tableOid = leaf->existing->tts_tableOid;
    ExecARUpdateTriggers(estate, relinfo, nullptr, nullptr, nullptr, existing, leaf->updated, NIL,
                         self->modify->mt_oc_transition_capture, false);
    return true;
}

void UpdateRow(ConflictUpdate *self, UpdatedLeaf *leaf, TupleTableSlot *planned) {
    FAULT_POINT("conflict_update.update_row");
    if (self->remote ? !WriteRemotely(self, leaf) : !WriteLocally(self, leaf))
        return;
    if (self->modify->canSetTag)
        self->estate->es_processed++;
    CheckPolicies(self, leaf, WCO_VIEW_CHECK, leaf->updated);
    ReturnRow(self, leaf, planned);
}

// Policies and views may not let the row be updated.
void CheckConflicting(ConflictUpdate *self, UpdatedLeaf *leaf) {
    for (WCOKind kind : compat::kConflictChecks)
        CheckPolicies(self, leaf, kind, leaf->existing);
}

// What SET makes of the row that is there and the one that was proposed; false: WHERE says to leave
// it alone.
bool MakeUpdatedRow(ConflictUpdate *self, UpdatedLeaf *leaf) {
    ModifyTableState *modify = self->modify;
    const auto *set = self->target->ri_onConflict;
    ExprContext *context = modify->ps.ps_ExprContext;
    context->ecxt_scantuple = ExistingInTarget(leaf);
    context->ecxt_innertuple = self->proposed;
    context->ecxt_outertuple = nullptr;
    if (compat::kChecksConflictFirst)
        CheckConflicting(self, leaf);
    if (!ExecQual(set->oc_WhereClause, context)) {
        InstrCountFiltered1(&modify->ps, 1);
        if (!self->remote)
            RememberRead(leaf->relinfo->ri_RelationDesc, leaf->existing, self->estate->es_snapshot);
        return false;
    }
    if (!compat::kChecksConflictFirst)
        CheckConflicting(self, leaf);
    ExecProject(set->oc_ProjInfo);
    if (leaf->from_target)
        execute_attr_map_slot(leaf->from_target, set->oc_ProjSlot, leaf->updated);
    else
        ExecCopySlot(leaf->updated, set->oc_ProjSlot);
    ExecMaterializeSlot(leaf->updated);
    return true;
}

} // namespace

ConflictUpdate *MakeConflictUpdate(ModifyTableState *modify, const IndexTable *arbiter,
                                   ConflictCheck *check, SpeculativeEntries *speculative) {
    EState *estate = modify->ps.state;
    ConflictUpdate *self = palloc0_object(ConflictUpdate);
    self->modify = modify;
    self->estate = estate;
    self->arbiter = arbiter;
    self->check = check;
    self->speculative = speculative;
    self->target = modify->rootResultRelInfo;
    self->proposed = ExecInitExtraTupleSlot(estate, RelationGetDescr(self->target->ri_RelationDesc),
                                            &TTSOpsVirtual);
    return self;
}

LockedRow LockConflictingRow(ConflictUpdate *self, OpenLeaf *open, TupleTableSlot *entry,
                             ResultRelInfo *relinfo, TupleTableSlot *proposed) {
    Assert(!self->locked);
    UpdatedLeaf *leaf = GetUpdatedLeaf(self, open, entry);
    if (!leaf)
        return LockedRow::OutOfReach;
    if (open->is_foreign ? !LockForeignRow(self, leaf, open, entry) : !LockRow(self, leaf, open))
        return LockedRow::Changed;
    // It outlives the trigger's memory, as PostgreSQL's map does.
    MemoryContext caller = MemoryContextSwitchTo(self->estate->es_query_cxt);
    TupleConversionMap *map = ExecGetChildToRootMap(relinfo);
    MemoryContextSwitchTo(caller);
    if (map)
        execute_attr_map_slot(map->attrMap, proposed, self->proposed);
    else
        ExecCopySlot(self->proposed, proposed);
    ExecMaterializeSlot(self->proposed);
    self->locked = leaf;
    self->open = open;
    self->entry = entry;
    return LockedRow::Locked;
}

void UpdateLockedRow(ConflictUpdate *self, TupleTableSlot *planned) {
    UpdatedLeaf *leaf = self->locked;
    if (!leaf)
        return;
    self->locked = nullptr;
    if (MakeUpdatedRow(self, leaf))
        UpdateRow(self, leaf, planned);
    EndForeignRow(self);
    ExecClearTuple(leaf->existing);
    ExecClearTuple(leaf->updated);
    ExecClearTuple(self->proposed);
}

Tuplestorestate *ReturnedRows(const ConflictUpdate *self) {
    return self->returned;
}

} // namespace index_table
