// TRUNCATE of foreign tables, which have no TRUNCATE triggers on PostgreSQL 15, and where a dump of
// it was restored.
#include "catalog/public.h"
#include "ddl/ddl.h"
#include "maintenance/public.h"
#include "partitions/public.h"

namespace index_table {
TruncatedLeaves ListTruncatedForeign(Node *command) {
    TruncatedLeaves leaves = {};
    if (!IsA(command, TruncateStmt) || !IsInstalled())
        return leaves;
    ListCell *cell;
    foreach (cell, TruncatedRelations()) {
        if (!IsForeign(lfirst_oid(cell)))
            continue;
        if (std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell))) {
            leaves.foreign = lappend_oid(leaves.foreign, lfirst_oid(cell));
            leaves.numbers = lappend_int(leaves.numbers, number->id);
        }
    }
    return leaves;
}

} // namespace index_table
