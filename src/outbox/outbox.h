// The outbox of a table: who changes rows there appends their identities to its
// queue, in the same transaction; whoever keeps index tables elsewhere reads them and discards
// them.
//
// A row of the queue is a pack of identities, an array for each of their columns: a statement that
// changes many rows writes few. Nothing relies on the order of numbers. A row with no identities
// says that any row of the table may have come or gone.
#pragma once

#include "outbox/outbox_table.h"

namespace index_table {

constexpr int kPackSize = 500; // identities
// Numbers that a session takes from a queue's sequence at once: what that is incremented by.
constexpr int kNumbersAtOnce = 1000;

// Appends that any row of a table with an outbox may have come or gone. Takes the lock that writers
// take.
void EnqueueReload(Oid source);

// Creates what a table of a tree with an outbox lacks of triggers; drops those it has.
enum class OutboxRole { Root, Member, LonePartition };
void CreateOutboxTriggers(Oid relid, OutboxRole role);
void DropOutboxTriggers(Oid relid);
bool HasOutboxTriggers(Oid relid); // any
// In which sessions one of them fires that is not disabled: pg_trigger.tgenabled.
char OutboxTriggerMode(const char *name);
// A dump does not have what queues depend on: makes up for it.
void EnsureQueueDependencies();

// What DDL does to tables with an outbox. Callers hold the locks that the commands take.
//
// Before a command:
void RefuseAlterOfOutboxTable(const AlterTableStmt *statement, Oid relid);
void RememberOutboxPartitions(); // something is to be dropped
void RefuseLossOfQueues();       // the extension is to be dropped: 2BP01 where changes are queued
// What captured tables with rows in the table are like, for FollowOutboxChange(); memory of the
// transaction. NIL where values stay as they are.
List *PrepareOutboxChange(const AlterTableStmt *statement, Oid relid);
// After it:
void FollowAlterOfOutboxTable(const AlterTableStmt *statement, Oid relid);
// Queues a reload where values may have changed.
void FollowOutboxChange(List *before, const AlterTableStmt *statement, Oid relid);
void FollowDroppedColumns(List *relids); // OIDs of relations that have lost columns
void FollowRenameOfOutboxTable(const RenameStmt *statement, Oid relid); // of a column
void FollowNewPartition(Oid partition, bool has_rows); // a table with PARTITION OF, or attached
void RefuseChildOfOutboxTable(List *parents);          // of RangeVar
void ForgetDroppedOutboxTables(List *dropped);         // OIDs of relations

// The transaction has ended.
void AtEOXactOutbox();

} // namespace index_table
