// Relations of PostgreSQL's that may be gone, have owners, and belong to others as partitions.
#pragma once

#include "pg.h"

namespace index_table {

// Raises 42P01: the relation was dropped, perhaps while its lock was waited for.
[[noreturn]] void RaiseDropped(Oid relid);
// As relation_open(), but raises that.
Relation OpenRelation(Oid relid, LOCKMODE mode);

// As try_relation_open(), of a relation that others may have dropped, this transaction has not. The
// relation cache says whether it is there; the catalog cache, which would know each partition once
// more, is not asked.
Relation TryOpenRelation(Oid relid, LOCKMODE mode);

// Raises 42P01 where the relation is gone.
Oid RelationOwner(Oid relid);

// Whether a unique index of a relation, checked at once and over all rows, has no columns but
// these: then they tell rows apart, where none of its columns is NULL, for which `nulls` asks.
// Indexes are not locked: this runs at the end of DDL, too, where waiting for one could deadlock.
enum class MayBeNull { Yes, No };
bool HasUniqueIndex(Relation rel, List *attnos, MayBeNull nulls);

// The columns of `to` that are called like these of `from`, where one is a partition of the other.
List *MapColumns(List *attnos, Relation from, Relation to);
// The same by a map; null: the same layout.
List *MapColumns(List *attnos, const AttrMap *map);

// Inserts a row that everybody sees at once, whatever becomes of this transaction, and deletes it:
// when the transaction commits it is gone, when that fails it is there. False where somebody has
// taken it in between: it stays, or goes, as he wants. Unique indexes are not asked. The caller has
// locked the relation as writers do, and flushes WAL before it counts on it.
bool InsertDeleted(Relation rel, Datum *values, bool *nulls);

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
