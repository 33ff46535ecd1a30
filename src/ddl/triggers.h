// ALTER TABLE … ENABLE, DISABLE and DROP TRIGGER of the extension's own triggers, on base tables,
// index tables and queues.
//
// While one is disabled rows may change of which an index table does not learn. So it counts as one
// that has missed changes (TableState::Missed): nobody reads it, and writers are told where a key
// cannot be kept unique. It is repaired when the last of its triggers is enabled. Dumps of data
// alone disable and enable them, too, and may bring the entries besides: then what they have
// brought is looked at as what is restored is (maintenance/settle.h).
#pragma once

#include "pg.h"

namespace index_table {

// Of a relation: whether triggers are about to be enabled that are disabled.
struct EnabledTriggers {
    bool of_index_tables; // by which index tables here follow a base table, or their guards
    bool of_outbox;
};

// Before such a statement on `relid`, which is not locked yet: locks what the commands of it will
// need. Those who do not own the table lock nothing.
EnabledTriggers PrepareTriggers(const AlterTableStmt *statement, Oid relid);
// Follows a command of such a statement that has been carried out on `relid`, and on its partitions
// where `recursed`. The caller of ALTER TABLE holds its locks.
void FollowTriggers(const AlterTableCmd *command, Oid relid, bool recursed);
// After the statement: repairs index tables whose triggers are all enabled again, and queues that
// any row of a captured table may have changed.
void FollowEnabled(Oid relid, EnabledTriggers enabled);
// After DROP TRIGGER of a table.
void FollowDroppedTrigger(Oid relid, const char *name);

} // namespace index_table
