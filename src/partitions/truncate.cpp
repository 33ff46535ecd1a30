#include "partitions/truncate.h"

#include "catalog/public.h"
#include "core/public.h"
#include "deferred/public.h"
#include "maintenance/public.h"
#include "partitions/membership.h"
#include "partitions/references.h"
#include "partitions/triggers.h"

namespace index_table {
namespace {

// A leaf that a TRUNCATE has given a number; in TopTransactionContext.
struct Truncated {
    uint64 id;
    Oid leaf;
    int32 number;
};
constinit List *truncated_leaves = nullptr; // of statements that run
constinit List *written_leaves = nullptr;   // of those that are over: written to meanwhile
constinit List *reentered_leaves = nullptr; // those that this was done for
constinit uint64 last_id = 0;

// Lives with the statement, which may end after the transaction.
struct TruncateEnd {
    MemoryContextCallback callback;
    uint64 id;
};

// The last that was registered is the first to be called.
void OnTruncateEnd(void *argument) {
    uint64 id = static_cast<TruncateEnd *>(argument)->id;
    for (int i = list_length(truncated_leaves) - 1; i >= 0; i--) {
        Truncated *truncated = static_cast<Truncated *>(list_nth(truncated_leaves, i));
        if (truncated->id != id)
            continue;
        truncated_leaves = list_delete_nth_cell(truncated_leaves, i);
        if (!IsWrittenPartition(truncated->number))
            return;
        MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
        written_leaves = lappend(written_leaves, truncated);
        MemoryContextSwitchTo(caller);
        return;
    }
}

// `statement` is freed when the TRUNCATE ends.
void RememberLeaf(Oid leaf, MemoryContext statement) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    Truncated *truncated = palloc_object(Truncated);
    *truncated = {.id = ++last_id, .leaf = leaf, .number = number->id};
    truncated_leaves = lappend(truncated_leaves, truncated);
    MemoryContextSwitchTo(caller);
    TruncateEnd *end =
        static_cast<TruncateEnd *>(MemoryContextAllocZero(statement, sizeof(TruncateEnd)));
    *end = {.callback = {.func = OnTruncateEnd, .arg = end}, .id = last_id};
    MemoryContextRegisterResetCallback(statement, &end->callback);
}

// Null `statement`: it is over.
void RenumberTruncated(Oid leaf, MemoryContext statement) {
    FAULT_POINT("truncate.renumber_truncated");
    if (IsForeign(leaf))
        RememberIntentOfAll(leaf);
    RenumberReferenced(leaf);
    if (statement)
        RememberLeaf(leaf, statement);
}

} // namespace

void FollowTruncate(List *foreign, List *numbers) {
    Assert(list_length(foreign) == list_length(numbers));
    ListCell *cell, *before;
    forboth(cell, foreign, before, numbers) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && number->id == lfirst_int(before))
            RenumberTruncated(lfirst_oid(cell), nullptr);
    }
    PrecedeShards();
}

void ReenterTruncated() {
    List *leaves = written_leaves;
    if (leaves == NIL)
        return;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    reentered_leaves = list_concat(reentered_leaves, leaves);
    MemoryContextSwitchTo(caller);
    written_leaves = NIL;
    FlushChanges();
    bool push_snapshot = !ActiveSnapshotSet();
    if (push_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    ListCell *cell;
    foreach (cell, leaves) {
        const Truncated *truncated = static_cast<Truncated *>(lfirst(cell));
        std::optional<PartitionNumber> number = FindPartitionNumber(truncated->leaf);
        if (!number || number->id != truncated->number)
            continue;
        LockRelationOid(number->base, RowExclusiveLock);
        OwnerContext owner = EnterOwner(RelationOwner(number->base));
        ReloadLeaf(number->base, truncated->leaf);
        LeaveOwner(owner);
    }
    if (push_snapshot)
        PopActiveSnapshot();
}

// Leaves that were given another number since have the one that they had.
void AtEOSubXactTruncated(bool commits) {
    if (commits || reentered_leaves == NIL)
        return;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    written_leaves = list_concat(written_leaves, reentered_leaves);
    MemoryContextSwitchTo(caller);
    reentered_leaves = NIL;
}

void AtEOXactTruncated() {
    truncated_leaves = nullptr;
    written_leaves = nullptr;
    reentered_leaves = nullptr;
}

void InitializeTruncation() {
    CallBeforeCommit(ReenterTruncated);
}

namespace {

// A session that loads a dump has not come to the end of it: what it creates in parallel with
// others may be there before rows are. Where the row trigger is disabled, whoever did it has the
// changes go untold: they are not refused.
void SettleRestored(Oid relid) {
    const Base *base = check_function_bodies ? FindBase(RootOf(relid)) : nullptr;
    bool may_be_disabled = base && (base->has_unusable || base->has_restored);
    if (base && !(may_be_disabled && IsRowTriggerDisabled(relid)))
        SettleBeforeChange(base);
}

// Whether a relation's own trigger sees to it that it is renumbered.
bool HasTruncateTrigger(Oid relid) {
    Relation rel = relation_open(relid, NoLock);
    const TriggerDesc *triggers = rel->trigdesc;
    bool found =
        triggers && std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                                [](const Trigger &trigger) {
                                    return TRIGGER_FOR_TRUNCATE(trigger.tgtype) &&
                                           trigger.tgenabled != TRIGGER_DISABLED &&
                                           strcmp(trigger.tgname, kStatementTrigger) == 0;
                                });
    relation_close(rel, NoLock);
    return found;
}

// Foreign tables have no TRUNCATE triggers on 15, nor where a dump of 15 was restored. TRUNCATE of
// a partitioned table fires those of every partitioned table below it.
void RenumberForeignChildren(Oid parent, MemoryContext statement) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(parent, NoLock))
        if (IsForeign(lfirst_oid(cell)) && !HasTruncateTrigger(lfirst_oid(cell)))
            RenumberTruncated(lfirst_oid(cell), statement);
}

} // namespace

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_announce) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.announce()");
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
        RaiseFiredWrongly("index_table.announce()", "BEFORE, FOR EACH STATEMENT");
    Oid relid = RelationGetRelid(trigger->tg_relation);
    if (!TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
        RefuseHypertable(relid);
        BeforeQueuing(relid);
        SettleRestored(relid);
        AnnounceStatement(relid);
        return kNoRow;
    }
    FlushChanges();
    // The function's own memory is reset sooner than what it belongs to.
    MemoryContext statement = MemoryContextGetParent(CurrentMemoryContext);
    PrecedeShardsAfter(statement);
    RenumberTruncated(relid, statement);
    if (trigger->tg_relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
        RenumberForeignChildren(relid, statement);
    return kNoRow;
}
