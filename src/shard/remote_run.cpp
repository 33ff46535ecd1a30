#include "shard/remote_run.h"

#include "core/public.h"

namespace index_table {

struct RemoteRun {
    QueryDesc *query;
    char *partitions; // their names, for errors
    ErrorContextCallback context;
};

namespace {

char *ListNames(const Oid *leaves, int count) {
    constexpr int kNamed = 5;
    StringInfoData names;
    initStringInfo(&names);
    for (int i = 0; i < Min(count, kNamed); i++)
        appendStringInfo(&names, "%s\"%s\"", i == 0 ? "" : ", ", get_rel_name(leaves[i]));
    if (count > kNamed)
        appendStringInfo(&names, " and %d others", count - kNamed);
    return names.data;
}

// Whose rows were asked for when a server could not be reached, or had a complaint.
void DescribeRun(void *argument) {
    errcontext("reading rows of partition %s", static_cast<RemoteRun *>(argument)->partitions);
}

// In the errors of what a run does while it is alive.
template <typename Action>
auto WithContext(RemoteRun *run, Action action) {
    run->context = {.previous = error_context_stack, .callback = DescribeRun, .arg = run};
    error_context_stack = &run->context;
    auto result = action();
    error_context_stack = run->context.previous;
    return result;
}

} // namespace

RemoteQuery *BeginRemoteQuery(RemoteQuestion question, List *quals, PlanState *node,
                              Snapshot snapshot) {
    Assert(snapshot && IsMemoryFreed());
    RemoteQuery *query = palloc0_object(RemoteQuery);
    query->snapshot = snapshot;
    query->column_count = list_length(question.columns);
    query->identity_count = list_length(question.identity);
    Index varno = node ? reinterpret_cast<Scan *>(node->plan)->scanrelid : 0;
    List *arguments;
    question.conditions = MakeRemoteConditions(quals, varno, query->identity_count + 1, &arguments);
    query->select = PinSelect(question);
    query->context = node ? node->ps_ExprContext : nullptr;
    query->arguments = ExecInitExprList(arguments, node);
    query->argument_types = palloc_array(Oid, list_length(arguments) + 1);
    ListCell *cell;
    foreach (cell, arguments)
        query->argument_types[foreach_current_index(cell)] =
            exprType(static_cast<Node *>(lfirst(cell)));
    return query;
}

void EndRemoteQuery(RemoteQuery *query) {
    UnpinSelect(query->select);
}

ParamListInfo MakeParameters(const RemoteQuery *query, int count) {
    Assert(count > 0);
    int arrays = count * query->identity_count;
    ParamListInfo parameters = makeParamList(arrays + list_length(query->arguments));
    for (int i = 0; i < arrays; i++)
        parameters->params[i] = {
            .pflags = PARAM_FLAG_CONST,
            .ptype = IdentityParameterType(query->select, i % query->identity_count)};
    ListCell *cell;
    foreach (cell, query->arguments) {
        int i = foreach_current_index(cell);
        Oid type = query->argument_types[i];
        ParamExternData *parameter = &parameters->params[arrays + i];
        *parameter = {.pflags = PARAM_FLAG_CONST, .ptype = type};
        Datum value = ExecEvalExprSwitchContext(static_cast<ExprState *>(lfirst(cell)),
                                                query->context, &parameter->isnull);
        int16 length;
        bool by_value;
        get_typlenbyval(type, &length, &by_value);
        if (!parameter->isnull)
            parameter->value = datumCopy(value, by_value, length);
    }
    return parameters;
}

RemoteRun *BeginRemoteRun(const RemoteQuery *query, const Oid *leaves, int count,
                          ParamListInfo parameters) {
    Assert(count > 0);
    RemoteRun *run = palloc0_object(RemoteRun);
    run->partitions = ListNames(leaves, count);
    PlannedStmt *plan = PlanRemoteSelect(query->select, leaves, count);
    // A part of the statement that runs, not one of its own: neither hooks nor statistics are to
    // see it.
    run->query = CreateQueryDesc(plan, "", query->snapshot, InvalidSnapshot, None_Receiver,
                                 parameters, nullptr, 0);
    WithContext(run, [&] {
        compat::StartUnchecked(run->query, 0);
        return 0;
    });
    return run;
}

int NextRemoteRow(RemoteRun *run, Datum **values, bool **nulls) {
    EState *estate = run->query->estate;
    ResetPerTupleExprContext(estate);
    MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
    TupleTableSlot *slot = WithContext(run, [&] { return ExecProcNode(run->query->planstate); });
    MemoryContextSwitchTo(caller);
    if (TupIsNull(slot))
        return -1;
    slot_getallattrs(slot);
    *values = slot->tts_values + 1;
    *nulls = slot->tts_isnull + 1;
    return DatumGetInt32(slot->tts_values[0]);
}

void EndRemoteRun(RemoteRun *run) {
    WithContext(run, [&] {
        standard_ExecutorFinish(run->query);
        standard_ExecutorEnd(run->query);
        return 0;
    });
    FreeQueryDesc(run->query);
    pfree(run);
}

} // namespace index_table
