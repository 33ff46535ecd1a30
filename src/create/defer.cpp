#include "create/defer.h"

#include "core/public.h"
#include "create/base_table.h"
#include "create/online.h"
#include "deferred/public.h"
#include "maintenance/public.h"
#include "partitions/public.h"

namespace index_table {

namespace {

// With the locks on base table and leaves.
void DeferLocked(const IndexTable *table, List *leaves) {
    FAULT_POINT("defer.defer_locked");
    bool has_queue = !HasForeign(leaves);
    RequestDrainWorker();
    if (table->options.is_deferred && has_queue == (FindQueue(table) != nullptr))
        return;
    CheckIsComplete(table);
    CheckIsTrusted(table);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    CheckMayDefer(table, leaves);
    SetMaintenance(table->relid, true, has_queue ? CreateQueue(table) : InvalidOid);
    if (has_queue)
        EnsureIdentityIndex(table, PositionsOf(table));
    LeaveOwner(owner);
}

bool LockAtOnce(Oid base) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock))
            return false;
    return true;
}

} // namespace

void Defer(const IndexTable *table) {
    Oid base = table->base;
    FlushChanges();
    // Triggers come and go: writers wait.
    table = LockIndexTable(table, AccessExclusiveLock);
    DeferLocked(table, FindLeaves(base, AccessExclusiveLock));
    EnsureTriggers(base, FindTriggerNeeds(base));
}

void DeferGently(const IndexTable *table) {
    Oid relid = table->relid;
    Oid base = table->base;
    LockOutWriters(base);
    table = FindIndexTable(relid);
    if (!table) // dropped meanwhile
        return;
    DeferLocked(table, FindLeaves(base, NoLock));
    TriggerNeeds needs = FindTriggerNeeds(base);
    if (HasRowTrigger(base) && !needs.on_base && !LockAtOnce(base))
        needs.on_base = true;
    EnsureTriggers(base, needs);
}

} // namespace index_table
