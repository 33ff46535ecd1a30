#include "maintenance/statements.h"

#include "catalog/public.h"

namespace index_table {
namespace {

constinit ActiveStatement *innermost = nullptr;

// Base tables that a statement changes which the hooks did not see begin, and the queries that they
// have seen begin inside it: the first to end that is none of them is that statement. Memory of the
// transaction.
constinit List *announced = nullptr;
constinit TimestampTz announced_at = 0; // the client's message
constinit int announced_level = 0;      // of the subtransaction
constinit List *begun = nullptr;

void Announce(Oid base) {
    if (announced == NIL) {
        announced_at = GetCurrentStatementStartTimestamp();
        announced_level = GetCurrentTransactionNestLevel();
    }
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    announced = list_append_unique_oid(announced, base);
    MemoryContextSwitchTo(caller);
}

void RememberBegun(QueryDesc *query) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    begun = list_append_unique_ptr(begun, query);
    MemoryContextSwitchTo(caller);
}

void ForgetAnnounced() {
    list_free(announced);
    list_free(begun);
    announced = begun = NIL;
}

constinit const TruncateStmt *truncate = nullptr;
constinit List *truncated_numbers = nullptr; // memory of the transaction

// Rows were changed by who knows whom.
constinit bool unknown = false;

Oid LookUpBase(Oid relid) {
    if (std::optional<PartitionNumber> number = FindPartitionNumber(relid))
        return number->base;
    return RootOf(relid);
}

// The base table that a relation belongs to; itself where it is no partition. Every statement asks,
// so the answers are kept as long as nothing at all changes.
Oid BaseOf(Oid relid) {
    struct KnownBase {
        Oid relid; // hash key
        Oid base;
    };
    static constinit KnownRelations<KnownBase> known = {};
    if (const KnownBase *found = known.Find(relid, "index_table bases of relations"))
        return found->base;
    Oid base = LookUpBase(relid);
    known.Add({relid, base});
    return base;
}

List *ChangedRelations(QueryDesc *query) {
    List *relids = NIL;
    compat::ForEachChanged(query->plannedstmt, [&](int rti) {
        relids = lappend_oid(relids, rt_fetch(rti, query->plannedstmt->rtable)->relid);
    });
    return relids;
}

bool Changes(ActiveStatement *statement, Oid base) {
    ListCell *cell;
    PlannedStmt *plan = statement->query ? statement->query->plannedstmt : nullptr;
    if (plan && compat::CountChanged(plan) == 1) {
        // Nearly always: not worth a list.
        bool found = false;
        compat::ForEachChanged(
            plan, [&](int rti) { found = BaseOf(rt_fetch(rti, plan->rtable)->relid) == base; });
        if (found)
            return true;
    } else if (!statement->bases_known) {
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

} // namespace

void EnterStatement(ActiveStatement *statement, QueryDesc *query, Oid copied) {
    *statement = {.outer = innermost, .query = query, .copied = copied};
    innermost = statement;
}

void LeaveStatement(ActiveStatement *statement) {
    Assert(innermost == statement);
    innermost = statement->outer;
    // A transaction may run millions of statements.
    list_free(statement->bases);
    list_free(statement->cascaded);
}

void RememberCascade(QueryDesc *query) {
    if (compat::CountChanged(query->plannedstmt) == 0)
        return;
    if (!innermost) {
        // The statement around it began before it had the library loaded.
        ListCell *cell;
        foreach (cell, ChangedRelations(query))
            Announce(BaseOf(lfirst_oid(cell)));
        RememberBegun(query);
        return;
    }
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    innermost->cascaded = list_concat_unique_oid(innermost->cascaded, ChangedRelations(query));
    MemoryContextSwitchTo(caller);
}

void AnnounceStatement(Oid relid) {
    Assert(OidIsValid(relid));
    if (announced != NIL)
        return;
    Oid base = BaseOf(relid);
    if (!innermost || !Changes(innermost, base))
        Announce(base);
}

void StatementBegins(QueryDesc *query) {
    if (announced == NIL)
        return;
    // COPY ends unseen, but not after the client's next message.
    if (!innermost && announced_at != GetCurrentStatementStartTimestamp())
        ForgetAnnounced();
    else if (query)
        RememberBegun(query);
}

bool StatementEnds(QueryDesc *query) {
    if (announced == NIL || list_member_ptr(begun, query))
        return false;
    ForgetAnnounced();
    return true;
}

bool QueryEnds(QueryDesc *query) {
    if (announced == NIL || !list_member_ptr(begun, query))
        return StatementEnds(query);
    begun = list_delete_ptr(begun, query);
    return false;
}

void RememberChange(Oid base) {
    Assert(OidIsValid(base));
    if (!IsBeingChanged(base))
        unknown = true;
}

bool IsBeingChanged(Oid base) {
    return IsBeingChanged(base, InvalidCommandId);
}

bool IsBeingChanged(Oid base, CommandId command) {
    if (unknown || list_member_oid(announced, base))
        return true;
    for (ActiveStatement *statement = innermost; statement; statement = statement->outer) {
        // What a statement itself changes, it does not see; its cascades have commands of their
        // own.
        bool is_seen = !statement->query || statement->cascaded ||
                       statement->query->estate->es_output_cid < command;
        if (is_seen && Changes(statement, base))
            return true;
    }
    return false;
}

CommandId StatementCommand() {
    CommandId current = GetCurrentCommandId(true);
    return innermost && innermost->query ? innermost->query->estate->es_output_cid : current;
}

const TruncateStmt *SetTruncate(const TruncateStmt *statement) {
    const TruncateStmt *outer = truncate;
    truncate = statement;
    truncated_numbers = nullptr;
    return outer;
}

namespace {

// The TRUNCATE that runs. Triggers of one that a client has sent may be what loads the library: no
// hook has seen that.
const TruncateStmt *RunningTruncate() {
    if (truncate || !ActivePortal)
        return truncate;
    ListCell *cell;
    foreach (cell, ActivePortal->stmts) {
        Node *command = lfirst_node(PlannedStmt, cell)->utilityStmt;
        if (command && IsA(command, TruncateStmt))
            return castNode(TruncateStmt, command);
    }
    return nullptr;
}

} // namespace

List *TruncatedRelations() {
    const TruncateStmt *running = RunningTruncate();
    List *relids = NIL;
    ListCell *cell;
    foreach (cell, running ? running->relations : NIL) {
        const RangeVar *name = lfirst_node(RangeVar, cell);
        Oid relid = RangeVarGetRelid(name, NoLock, true);
        if (OidIsValid(relid))
            relids = list_concat_unique_oid(relids,
                                            name->inh ? find_all_inheritors(relid, NoLock, nullptr)
                                                      : list_make1_oid(relid));
    }
    return relids;
}

void RememberTruncated(List *numbers) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    truncated_numbers = list_concat(truncated_numbers, numbers);
    MemoryContextSwitchTo(caller);
}

bool WasTruncated(int32 number) {
    return list_member_int(truncated_numbers, number);
}

void AtEOSubXactStatements(bool commits, int level) {
    if (announced == NIL || announced_level < level)
        return;
    if (commits)
        announced_level = level - 1;
    else
        ForgetAnnounced(); // the statement has failed
}

void AtEOXactStatements() {
    Assert(!innermost || proc_exit_inprogress);
    innermost = nullptr;
    announced = nullptr;
    begun = nullptr;
    unknown = false;
    truncate = nullptr;
    truncated_numbers = nullptr;
}

} // namespace index_table
