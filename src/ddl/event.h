// What event triggers of all kinds of commands have in common.
#pragma once

#include "pg.h"

namespace index_table {

// Raises where the function was not called as an event trigger.
EventTriggerData *GetEvent(FunctionCallInfo fcinfo);

// Does what follows a command, which has no snapshot where it has committed in between, as DETACH
// CONCURRENTLY does: catalogs may have to be written.
template <typename Work>
void WithSnapshot(Work work) {
    bool has_snapshot = ActiveSnapshotSet();
    if (!has_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    work();
    if (!has_snapshot)
        PopActiveSnapshot();
}

// As the command finds it, without a lock; InvalidOid: there is none.
Oid FindRelation(const RangeVar *name);
bool IsBase(Oid relid);

// The index table of which a relation is the queue, or a part of that; InvalidOid: none.
Oid QueueOwner(Oid relid);

// `what`: what cannot be done to an index table, or to the queue of one.
[[noreturn]] void RaiseOwnTable(const char *what, Oid relid);
[[noreturn]] void RaiseOwnQueue(const char *what, Oid index_table);

// A command that drops an index table with its base table, or with a column, locks the base table
// first. A concurrent build goes the other way round: it must be over before.
void WaitForBuild(Oid index_table);

} // namespace index_table
