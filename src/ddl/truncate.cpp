// TRUNCATE of foreign tables, which have no TRUNCATE triggers on PostgreSQL 15, and where a dump of
// it was restored.
#include "ddl/ddl.h"

#include "build/build.h"
#include "catalog/definition.h"
#include "maintenance/statements.h"

namespace index_table {
namespace {

ProcessUtility_hook_type previous_utility;

void OnProcessUtility(PlannedStmt *statement, const char *text, bool read_only,
                      ProcessUtilityContext context, ParamListInfo params,
                      QueryEnvironment *environment, DestReceiver *receiver,
                      QueryCompletion *completion) {
    List *foreign = NIL;
    List *numbers = NIL;
    if (IsA(statement->utilityStmt, TruncateStmt) && IsInstalled()) {
        ListCell *cell;
        foreach (cell, TruncatedRelations()) {
            if (!IsForeign(lfirst_oid(cell)))
                continue;
            if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell))) {
                foreign = lappend_oid(foreign, lfirst_oid(cell));
                numbers = lappend_int(numbers, number->id);
            }
        }
    }
    if (previous_utility)
        previous_utility(statement, text, read_only, context, params, environment, receiver,
                         completion);
    else
        standard_ProcessUtility(statement, text, read_only, context, params, environment, receiver,
                                completion);
    FollowTruncate(foreign, numbers);
}

} // namespace

void InitializeTruncation() {
    previous_utility = ProcessUtility_hook;
    ProcessUtility_hook = OnProcessUtility;
}

} // namespace index_table
