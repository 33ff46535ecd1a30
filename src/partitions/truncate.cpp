#include "partitions/truncate.h"

#include "catalog/public.h"
#include "core/public.h"
#include "deferred/public.h"
#include "maintenance/public.h"
#include "partitions/references.h"
#include "partitions/triggers.h"

namespace index_table {
namespace {

void RenumberTruncated(Oid leaf) {
    FAULT_POINT("truncate.renumber_truncated");
    if (IsForeign(leaf))
        RememberIntentOfAll(leaf);
    RenumberReferenced(leaf);
}

} // namespace

void FollowTruncate(List *foreign, List *numbers) {
    Assert(list_length(foreign) == list_length(numbers));
    ListCell *cell, *before;
    forboth(cell, foreign, before, numbers) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (number && number->id == lfirst_int(before))
            RenumberTruncated(lfirst_oid(cell));
    }
    PrecedeShards();
}

namespace {

// A session that loads a dump has not come to the end of it: what it creates in parallel with
// others may be there before rows are.
void SettleRestored(Oid relid) {
    const Base *base = check_function_bodies ? FindBase(RootOf(relid)) : nullptr;
    if (base)
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
void RenumberForeignChildren(Oid parent) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(parent, NoLock))
        if (IsForeign(lfirst_oid(cell)) && !HasTruncateTrigger(lfirst_oid(cell)))
            RenumberTruncated(lfirst_oid(cell));
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
    PrecedeShardsAfter(MemoryContextGetParent(CurrentMemoryContext));
    RenumberTruncated(relid);
    if (trigger->tg_relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
        RenumberForeignChildren(relid);
    return kNoRow;
}
