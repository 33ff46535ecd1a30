// When captured changes are carried out: at the end of a statement, before a nested one starts,
// and at the latest before the transaction commits.
#pragma once

#include "catalog/public.h"
#include "maintenance/statements.h"

namespace index_table {

// Carries the changes captured so far at this transaction nest level into the index tables, so
// that what reads or alters them next finds them in step. May raise what writing a table raises.
void FlushChanges();

// The same where no statement around may bring more: unique keys are checked now.
void FlushAllChanges();

// Carries out everything that is captured, and what that defers. Raises what writing raises.
void FlushBeforeCommit();
// What other folders have to do before that; their errors abort the transaction. Once a function.
void CallBeforeCommit(void (*function)());

// Whether changes remain captured that belong to an outer nest level: an index table then lacks
// them until the subtransaction ends.
bool HasUnflushedChanges(Oid index_table);

// An index table that the user owns, in step: what functions for owners begin with. Raises 42501,
// 42809.
const IndexTable *GetOwnIndexTable(Oid relid);

// Before a query starts, with the executor's flags; after it has finished. Actions of foreign keys
// flush nothing.
void BeforeStart(QueryDesc *query, int flags);
void AfterFinish(QueryDesc *query);
void BeforeEnd(QueryDesc *query);

// A utility command that runs; lives on the C stack of whoever runs it. EndUtility() is also called
// after an error, in PG_FINALLY; AfterUtility() is not.
struct UtilityStatement {
    bool is_copy;
    bool is_truncate;
    ActiveStatement copying;
    const TruncateStmt *outer_truncate;
};
void BeginUtility(UtilityStatement *running, Node *command);
void EndUtility(UtilityStatement *running);
void AfterUtility(const UtilityStatement *running);

void InitializeMaintenance();

} // namespace index_table
