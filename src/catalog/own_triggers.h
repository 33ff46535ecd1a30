// The triggers that call functions of the extension: those of base tables and their partitions, of
// index tables, queues and logs, and of captured tables.
//
// Somebody may disable them. Changes that are made meanwhile are told to nobody, so index tables
// that depend on one that is disabled are not believed (TableState::Missed).
#pragma once

#include "catalog/definition.h"
#include "core/public.h"

namespace index_table {

// Calls `visit` with each such trigger of a relation, which need not have a definition yet while a
// dump is restored.
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
// Whether a relation has one that is enabled, or disabled, and not of an outbox. `name`: of one
// trigger; null: any.
bool HasOwnTrigger(Oid relid, const char *name, bool enabled);

// A relation of a base table's tree that has one that is disabled; InvalidOid: none has. Locks
// nothing.
Oid FindDisabled(Oid base);
// The same, of all on which an index table depends: its base table, itself, its queue and its log.
Oid FindDisabledFor(const IndexTable *table);

} // namespace index_table
