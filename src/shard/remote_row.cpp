#include "shard/remote_row.h"

#include "core/public.h"

namespace index_table {

struct RemoteRow {
    MemoryContext memory; // of everything
    QueryDesc *query;
    ModifyTableState *modify;
    TupleTableSlot *planned; // the row of the wrapper's scan
};

namespace {

// column = parameter, with the operator of the column's own order.
Expr *MakeEquals(Form_pg_attribute column, int parameter) {
    Oid opclass = GetDefaultOpClass(column->atttypid, BTREE_AM_OID);
    Oid input = get_opclass_input_type(opclass);
    Oid equals =
        get_opfamily_member(get_opclass_family(opclass), input, input, BTEqualStrategyNumber);
    Expr *left = reinterpret_cast<Expr *>(
        makeVar(1, column->attnum, column->atttypid, column->atttypmod, column->attcollation, 0));
    Param *right = makeNode(Param);
    right->paramkind = PARAM_EXTERN;
    right->paramid = parameter;
    right->paramtype = input;
    right->paramtypmod = -1;
    right->paramcollid = column->attcollation;
    right->location = -1;
    if (input != column->atttypid)
        left = reinterpret_cast<Expr *>(
            makeRelabelType(left, input, -1, column->attcollation, COERCE_IMPLICIT_CAST));
    return make_opclause(equals, BOOLOID, false, left, reinterpret_cast<Expr *>(right), InvalidOid,
                         column->attcollation);
}

// UPDATE leaf SET column = column, … WHERE identity.
Query *MakeUpdate(const RemoteIdentity &identity, const Bitmapset *updated, Oid user) {
    TupleDesc descriptor = RelationGetDescr(identity.leaf);
    ParseState *state = make_parsestate(nullptr);
    RangeTblEntry *rte =
        addRangeTableEntryForRelation(state, identity.leaf, RowExclusiveLock, nullptr, false, false)
            ->p_rte;
    Query *query = makeNode(Query);
    query->commandType = CMD_UPDATE;
    query->querySource = QSRC_ORIGINAL;
    query->canSetTag = true;
    query->resultRelation = 1;
    query->rtable = state->p_rtable;
    compat::SetUncheckedReader(query, state, rte, user);
    compat::SetUpdatedColumns(query, rte, bms_copy(updated));
    for (int member = -1; (member = bms_next_member(updated, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        Form_pg_attribute column = TupleDescAttr(descriptor, attno - 1);
        if (column->attgenerated)
            continue;
        Var *same = makeVar(1, attno, column->atttypid, column->atttypmod, column->attcollation, 0);
        query->targetList =
            lappend(query->targetList, makeTargetEntry(reinterpret_cast<Expr *>(same), attno,
                                                       pstrdup(NameStr(column->attname)), false));
    }
    List *conditions = NIL;
    for (int i = 0; i < identity.count; i++)
        conditions = lappend(conditions,
                             MakeEquals(TupleDescAttr(descriptor, identity.columns[i] - 1), i + 1));
    RangeTblRef *reference = makeNode(RangeTblRef);
    reference->rtindex = 1;
    query->jointree = makeFromExpr(list_make1(reference),
                                   reinterpret_cast<Node *>(make_ands_explicit(conditions)));
    free_parsestate(state);
    return query;
}

ParamListInfo MakeParameters(const RemoteIdentity &identity) {
    ParamListInfo parameters = makeParamList(identity.count);
    for (int i = 0; i < identity.count; i++) {
        Oid type =
            TupleDescAttr(RelationGetDescr(identity.leaf), identity.columns[i] - 1)->atttypid;
        parameters->params[i] = {.value = identity.values[i],
                                 .isnull = false,
                                 .pflags = PARAM_FLAG_CONST,
                                 .ptype =
                                     get_opclass_input_type(GetDefaultOpClass(type, BTREE_AM_OID))};
    }
    return parameters;
}

// Its rows are those of the scan below ModifyTable, which is not run itself.
RemoteRow *StartUpdate(PlannedStmt *plan, ParamListInfo parameters, Snapshot snapshot) {
    FAULT_POINT("remote_row.start_update");
    RemoteRow *row = palloc0_object(RemoteRow);
    row->memory = CurrentMemoryContext;
    // A part of the statement that runs: neither hooks nor statistics are to see it.
    row->query =
        CreateQueryDesc(plan, "", snapshot, InvalidSnapshot, None_Receiver, parameters, nullptr, 0);
    compat::StartUnchecked(row->query, EXEC_FLAG_SKIP_TRIGGERS); // they are the caller's
    row->modify = castNode(ModifyTableState, row->query->planstate);
    const ResultRelInfo *relinfo = row->modify->resultRelInfo;
    if (relinfo->ri_usesFdwDirectModify || !relinfo->ri_FdwRoutine ||
        !relinfo->ri_FdwRoutine->ExecForeignUpdate)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("rows of foreign table \"%s\" cannot be updated one by one",
                               RelationGetRelationName(relinfo->ri_RelationDesc))));
    return row;
}

} // namespace

RemoteRow *LockRemoteRow(const RemoteIdentity &identity, const Bitmapset *updated, Oid user,
                         Snapshot snapshot) {
    Assert(CheckRelationLockedByMe(identity.leaf, RowExclusiveLock, true));
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table remote row", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    ParamListInfo parameters = MakeParameters(identity);
    PlannedStmt *plan = compat::PlanWithoutHooks(MakeUpdate(identity, updated, user), parameters);
    RemoteRow *row = StartUpdate(plan, parameters, snapshot);
    MemoryContextSwitchTo(row->query->estate->es_query_cxt);
    row->planned = ExecProcNode(outerPlanState(row->modify));
    MemoryContextSwitchTo(caller);
    if (!TupIsNull(row->planned))
        return row;
    EndRemoteRow(row);
    return nullptr;
}

HeapTuple CopyRemoteRow(const RemoteRow *row) {
    bool isnull;
    Datum whole =
        ExecGetJunkAttribute(row->planned, row->modify->resultRelInfo->ri_RowIdAttNo, &isnull);
    if (isnull)
        elog(ERROR, "a foreign row came without its columns");
    HeapTupleHeader header = DatumGetHeapTupleHeader(whole);
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header),
                           .t_tableOid =
                               RelationGetRelid(row->modify->resultRelInfo->ri_RelationDesc),
                           .t_data = header};
    ItemPointerSetInvalid(&tuple.t_self);
    return heap_copytuple(&tuple);
}

bool WriteRemoteRow(RemoteRow *row, TupleTableSlot *slot) {
    EState *estate = row->query->estate;
    ResultRelInfo *relinfo = row->modify->resultRelInfo;
    // What the server returns goes into the slot, in the caller's memory.
    return relinfo->ri_FdwRoutine->ExecForeignUpdate(estate, relinfo, slot, row->planned) !=
           nullptr;
}

void EndRemoteRow(RemoteRow *row) {
    standard_ExecutorFinish(row->query);
    standard_ExecutorEnd(row->query);
    FreeQueryDesc(row->query);
    MemoryContextDelete(row->memory);
}

} // namespace index_table
