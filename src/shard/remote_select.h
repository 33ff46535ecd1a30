// Statements for foreign partitions.
//
// Every statement is made by planning a query of the partition and taking what its foreign data
// wrapper made of it: what may be sent to a server, how types, columns and collations are written,
// is postgres_fdw's business, and there is one place that decides it. The same plan can be run
// here, whatever the wrapper.
//
// Plans and statements are kept for the session by question and partition, until something that
// they rest on changes: tables, servers, functions, types.
#pragma once

#include "shard/remote_question.h"

namespace index_table {

// A question that statements have been made for.
struct RemoteSelect;

// Keeps the result until UnpinSelect, or the transaction, ends it. `question` may be short-lived.
RemoteSelect *PinSelect(const RemoteQuestion &question);
void UnpinSelect(RemoteSelect *select);

// Types of the arrays that are its first parameters; InvalidOid where a column's values have none:
// rows with any are meant.
Oid IdentityParameterType(const RemoteSelect *select, int i);

// What a server is asked about one partition where that is not the wrapper's business. Part of a
// CombinedSelect.
struct LeafSelect {
    Oid leaf; // hash key
    Oid server;
    const char *sql;  // null: the wrapper is not postgres_fdw, or answers otherwise than by asking
    int *result;      // for each column of the question: the statement's column it is in, from 0
    int result_count; // the statement's columns
    int parameter_count;
    int *parameters;   // for $1, $2, …: which of the question's parameters it is, from 0
    bool is_selective; // the server finds rows by their identity
};

// Locks the partition with AccessShareLock. Valid as long as the select is pinned.
const LeafSelect *GetLeafSelect(RemoteSelect *select, Oid leaf);

// A plan whose rows are: a number, which of the partitions the row is of, from 0; then the
// question's columns. Its parameters are the arrays of the first partition's identities, those of
// the second, and so on, and then the question's others. Where they are on different servers that
// allow it (async_capable), they are asked at the same time. Its range table's relations are
// locked. Valid until the next is made, or the select is not pinned any more.
PlannedStmt *PlanRemoteSelect(RemoteSelect *select, const Oid *leaves, int count);

// What postgres_fdw asks a partition's server, in the way of that plan; null for other wrappers.
const char *WrapperStatement(RemoteSelect *select, Oid leaf);

// One statement for several partitions on one server, of the columns of PlanRemoteSelect's rows.
struct CombinedSelect {
    char *sql;
    int parameter_count;
    int *parameters; // for $1, $2, …: which of PlanRemoteSelect's parameters it is, from 0
};
CombinedSelect CombineSelects(const RemoteSelect *select, const LeafSelect *const *leaves,
                              int count);

// The transaction has ended.
void AtEOXactSelects();
void InitializeRemoteSelect();

} // namespace index_table
