// Running a question's plan: the way that goes through PostgreSQL's executor and the foreign data
// wrapper, in its transaction and under its snapshot.
#pragma once

#include "shard/remote_select.h"

namespace index_table {

// A question as it is being asked.
struct RemoteQuery {
    RemoteSelect *select;
    Snapshot snapshot;
    ExprContext *context; // of `arguments`; null: there are none
    int column_count;
    int identity_count;
    List *arguments; // ExprStates of the question's parameters beyond the identity's
    Oid *argument_types;
};

// A question whose conditions are those of `quals` that servers may check: clauses of a scan's node
// on its relation. Without any, `node` may be null. Lives in the current memory context.
RemoteQuery *BeginRemoteQuery(RemoteQuestion question, List *quals, PlanState *node,
                              Snapshot snapshot);
void EndRemoteQuery(RemoteQuery *query);

// Values for a question to `count` partitions, as PlanRemoteSelect numbers them: the arguments' are
// computed now, the arrays' are left for the caller.
ParamListInfo MakeParameters(const RemoteQuery *query, int count);

// Rows of partitions. Fewer columns than a row are a bug of the wrapper's.
struct RemoteRun;
RemoteRun *BeginRemoteRun(const RemoteQuery *query, const Oid *leaves, int count,
                          ParamListInfo parameters);
// The number of the row's partition, from 0, and its columns, valid until the next; -1 at the end.
int NextRemoteRow(RemoteRun *run, Datum **values, bool **nulls);
void EndRemoteRun(RemoteRun *run);

} // namespace index_table
