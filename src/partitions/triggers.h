// The triggers of base tables and their partitions: a row trigger, by which changes are captured,
// and a statement trigger, which announces statements and gives truncated partitions other numbers.
#pragma once

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {

constexpr char kRowTrigger[] = "index_table_maintain";
// The same of a table that refers to index tables. PostgreSQL fires triggers in the order of their
// names, and what a foreign key does when a key changes before what checks a row that refers to
// one: RI_ConstraintTrigger_a_… and _c_…. An index table learns of a row's key in between, for the
// check may be of a key that changes with it, or of the row itself.
constexpr char kEarlyRowTrigger[] = "RI_ConstraintTrigger_b_index_table";
constexpr char kStatementTrigger[] = "index_table_announce";

bool HasStatementTrigger(Oid relid);
// The statement trigger is not cloned: every table of the tree has its own. Nothing where it is
// there.
void CreateStatementTrigger(Oid relid);
bool IsRowTrigger(const char *name); // either
bool HasRowTrigger(Oid relid);
bool IsRowTriggerDisabled(Oid relid);
void CreateRowTrigger(Oid relid);
// Gives the row triggers of a table and all below it their earlier name where these refer to index
// tables. The caller holds ShareRowExclusiveLock on them.
void OrderRowTriggers(Oid relid);
// Drops one of them, if the relation and it are there.
void DropTrigger(Oid relid, const char *trigger);
void DropRowTrigger(Oid relid);

// Creates the triggers of a base table and its partitions that somebody has dropped. The base table
// is not open. Takes ShareRowExclusiveLock on them if there are any.
void RestoreTriggers(Oid base);

// Says that the triggers of one relation of a base table, or of an index table, are disabled.
void ReportDisabled(int level, Oid base, Oid relid);
// Warns of the first on which an index table depends whose are.
void WarnOfDisabled(const IndexTable *table);
// Raises 55000 where triggers of a base table are disabled: what is built would miss changes.
void RequireEnabled(Oid base);

// How changes are learned of.
struct TriggerNeeds {
    bool on_base;  // a row trigger on the base table, which PostgreSQL clones to its partitions
    bool on_local; // else one on each local leaf: foreign ones would have no batches and no direct
                   // modification
    bool queues;   // statement triggers with transition tables: for index tables with queues
};
// As the definitions of a base table's index tables are recorded.
TriggerNeeds FindTriggerNeeds(Oid base);
// What one more index table adds.
void AddTriggerNeeds(TriggerNeeds *needs, const IndexOptions &options, bool has_queue);

// Makes sure that the base table and its partitions have the triggers that are needed, and no
// others. Caller as for ReconcilePartitions; where triggers are to be dropped, AccessExclusiveLock
// is taken.
void EnsureTriggers(Oid base, const TriggerNeeds &needs);

// Of one table: those that queue changes; `is_root`: of the base table.
void CreateQueueTriggers(Oid relid, bool is_root);
void DropQueueTriggers(Oid relid);
// In which sessions one of ours fires that is not disabled: pg_trigger.tgenabled.
char QueueTriggerMode(const char *name);

} // namespace index_table
