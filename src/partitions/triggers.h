// The triggers of base tables and their partitions: a row trigger, by which changes are captured,
// and a statement trigger, which announces statements and gives truncated partitions other numbers.
#pragma once

#include "catalog/public.h"
#include "core/public.h"

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

// Calls `visit` with each trigger of a relation that calls a function of the extension: there may
// be no definition yet when a dump is restored.
template <typename Visit>
void ForEachOwnTrigger(Oid relid, LOCKMODE mode, Visit visit) {
    SystemScan scan(TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid, relid,
                    mode);
    while (HeapTuple tuple = scan.Next()) {
        Form_pg_trigger form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
        if (get_func_namespace(form->tgfoid) == ExtensionSchema())
            visit(scan.catalog, tuple, form);
    }
    scan.End();
}

// Of captured tables: an index table may be elsewhere.
bool IsOfOutbox(Form_pg_trigger form);
// One of those that base tables have. `name`: of one trigger; null: any.
bool HasOwnTrigger(Oid relid, const char *name, bool enabled);
// Says that the triggers of one relation of a base table are disabled.
void ReportDisabled(int level, Oid base, Oid relid);
// Warns of the first whose are.
void WarnOfDisabled(Oid base);

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
