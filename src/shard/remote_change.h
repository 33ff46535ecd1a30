// Changing rows of a foreign partition one by one, as the foreign data wrapper's own planner has it
// done, for an executor that was not planned with that partition.
#pragma once

#include "pg.h"

namespace index_table {

// A partition as a result relation of an UPDATE or DELETE.
struct RemoteChange {
    Relation leaf; // a foreign table, locked with RowExclusiveLock
    CmdType operation;
    Index rti;       // of the target in the query's range table, by which expressions name it
    List *columns;   // of the leaf, that the UPDATE sets
    List *returning; // expressions over the leaf's columns, and others
    List *checks;    // WithCheckOptions
    Oid user;        // as whom the server is asked; InvalidOid: the current user
};

// What the wrapper's BeginForeignModify takes. Nothing is sent. Raises 0A000 where the wrapper is
// not postgres_fdw: rows are found by the columns that it wants.
List *PlanRemoteChange(const RemoteChange &change);

// For EXPLAIN: the statement of such a plan.
const char *ChangeStatement(List *plan);

} // namespace index_table
