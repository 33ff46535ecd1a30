// The triggers of base tables and their partitions: a row trigger, by which changes are captured,
// and a statement trigger, which announces statements and gives truncated partitions other numbers.
#pragma once

#include "catalog/public.h"

namespace index_table {

constexpr char kRowTrigger[] = "index_table_maintain";
constexpr char kStatementTrigger[] = "index_table_announce";

bool HasStatementTrigger(Oid relid);
// The statement trigger is not cloned: every table of the tree has its own. Nothing where it is
// there.
void CreateStatementTrigger(Oid relid);
bool HasRowTrigger(Oid relid);
void CreateRowTrigger(Oid relid);
// Drops one of them, if the relation and it are there.
void DropTrigger(Oid relid, const char *trigger);

// Creates the triggers of a base table and its partitions that somebody has dropped. The base table
// is not open. Takes ShareRowExclusiveLock on them if there are any.
void RestoreTriggers(Oid base);

// Makes sure that the base table has its row trigger, which PostgreSQL clones to its partitions;
// or, where foreign ones are to have none (they would have no batches and no direct modification),
// its local leaves each their own. Caller as for ReconcilePartitions; where triggers are to be
// dropped, AccessExclusiveLock is taken.
void EnsureTriggers(Oid base, bool on_foreign);

} // namespace index_table
