#include "maintenance/statements.h"

#include "catalog/definition.h"

namespace index_table {
namespace {

constinit ActiveStatement *innermost = nullptr;

// There may be statements around that were never seen: the library was loaded in this transaction,
// a foreign key action ran while the transaction committed, or this is a logical replication
// worker, which fires triggers itself.
constinit bool unseen = false;

Oid BaseOf(Oid relid) {
    if (std::optional<PartitionNumber> number = FindPartitionNumber(relid))
        return number->base;
    if (!get_rel_relispartition(relid))
        return relid;
    List *ancestors = get_partition_ancestors(relid);
    return ancestors ? llast_oid(ancestors) : relid;
}

List *ChangedRelations(QueryDesc *query) {
    List *relids = NIL;
    ListCell *cell;
    foreach (cell, query->plannedstmt->resultRelations)
        relids = lappend_oid(relids, rt_fetch(lfirst_int(cell), query->plannedstmt->rtable)->relid);
    return relids;
}

bool Changes(ActiveStatement *statement, Oid base) {
    ListCell *cell;
    if (!statement->bases_known) {
        MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
        if (statement->query)
            foreach (cell, ChangedRelations(statement->query))
                statement->bases =
                    list_append_unique_oid(statement->bases, BaseOf(lfirst_oid(cell)));
        else if (OidIsValid(statement->copied))
            statement->bases = list_make1_oid(BaseOf(statement->copied));
        statement->bases_known = true;
        MemoryContextSwitchTo(caller);
    }
    if (list_member_oid(statement->bases, base))
        return true;
    foreach (cell, statement->cascaded)
        if (BaseOf(lfirst_oid(cell)) == base)
            return true;
    return false;
}

void OnTransactionEnd(XactEvent event, void *) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) {
        innermost = nullptr;
        unseen = false;
    }
}

} // namespace

void EnterStatement(ActiveStatement *statement, QueryDesc *query, Oid copied) {
    *statement = {.outer = innermost, .query = query, .copied = copied};
    innermost = statement;
}

void LeaveStatement(ActiveStatement *statement) {
    innermost = statement->outer;
}

void NoteCascade(QueryDesc *query) {
    if (query->plannedstmt->resultRelations == NIL)
        return;
    if (!innermost) {
        unseen = true;
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    innermost->cascaded = list_concat_unique_oid(innermost->cascaded, ChangedRelations(query));
    MemoryContextSwitchTo(caller);
}

bool IsBeingChanged(Oid base) {
    if (unseen || IsLogicalWorker())
        return true;
    for (ActiveStatement *statement = innermost; statement; statement = statement->outer)
        if (Changes(statement, base))
            return true;
    return false;
}

void InitializeStatements() {
    unseen = IsTransactionState();
    RegisterXactCallback(OnTransactionEnd, nullptr);
}

} // namespace index_table
