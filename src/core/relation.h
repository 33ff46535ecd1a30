// Relations of PostgreSQL's that may be gone, have owners, and belong to others as partitions.
#pragma once

#include "pg.h"

namespace index_table {

// Raises 42P01: the relation was dropped, perhaps while its lock was waited for.
[[noreturn]] void RaiseDropped(Oid relid);
// As relation_open(), but raises that.
Relation OpenRelation(Oid relid, LOCKMODE mode);

// Raises 42P01 where the relation is gone.
Oid RelationOwner(Oid relid);

// What pg_inherits says of a partition. False where it has just been detached.
struct Parent {
    Oid relid;
    bool is_detach_pending;   // by DETACH CONCURRENTLY
    TransactionId changed_by; // who said so
};
bool FindParent(Oid partition, Parent *parent);

// The topmost table that a relation is a partition of; itself where it is none. A partition that is
// about to be detached concurrently still is one.
Oid RootOf(Oid relid);

} // namespace index_table
