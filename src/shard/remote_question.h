// What a scan asks of foreign partitions of a base table, in terms of the base table: which columns
// of which rows. A question can be copied and compared; the values in it are parameters.
#pragma once

#include "pg.h"

namespace index_table {

struct RemoteQuestion {
    Oid base;
    Oid user;       // as whom servers are asked; InvalidOid: the current user
    List *columns;  // attribute numbers, of what each row brings; that of ctid may be among them
    List *identity; // attribute numbers, among `columns`: rows are those whose identity is given
                    // by arrays, parameters 1, 2, …; NIL: every row is meant
    bool or_null;   // and those of whose identity a part is null
    // Further conditions, over range table index 1. Their parameters come after those of the
    // identity. Where the identity has several columns rows may come that were not meant.
    List *conditions;
    // How rows are locked on their servers: as by FOR UPDATE and its likes.
    LockClauseStrength lock;
};

// The type of the array that identities are given as; InvalidOid where there is none.
Oid IdentityArrayType(Oid type);

// Makes those of `quals`, clauses on the relation `varno` as a plan has them, conditions that
// foreign servers might be asked to check; leaves out what only a query's own executor can
// evaluate, and what is not to be evaluated twice. `arguments` receives the expressions whose
// values are their parameters. Both lists are in the current memory context.
List *MakeRemoteConditions(List *quals, Index varno, int first_parameter, List **arguments);

} // namespace index_table
