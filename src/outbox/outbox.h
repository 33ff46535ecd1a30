// The outbox of a captured table: who changes rows there appends their identities to its queue, in
// the same transaction; whoever keeps index tables elsewhere reads them and discards them.
//
// A row of the queue is a pack of identities, an array for each of their columns: a statement that
// changes many rows writes few. Nothing relies on the order of numbers. A row with no identities
// says that any row of the table may have come or gone.
#pragma once

#include "outbox/outbox_table.h"

namespace index_table {

constexpr int kPackSize = 500; // identities

// Appends that any row of a captured table may have come or gone. Takes the lock that writers take.
void EnqueueReload(Oid captured);

// Creates what a table of a captured tree lacks of triggers; drops those it has.
enum class CapturedAs { Root, Member, LonePartition };
void CreateCaptureTriggers(Oid relid, CapturedAs role);
void DropCaptureTriggers(Oid relid);
// In which sessions one of them fires that is not disabled: pg_trigger.tgenabled.
char CaptureTriggerMode(const char *name);
// A dump does not have what queues depend on: makes up for it.
void EnsureQueueDependencies();

// What DDL does to captured tables. Callers hold the locks that the commands take.
//
// Before a command:
void RefuseAlterOfCaptured(const AlterTableStmt *statement, Oid relid);
void NoteCapturedPartitions(); // something is to be dropped
// After it:
void FollowAlterOfCaptured(const AlterTableStmt *statement, Oid relid);
void FollowRenameOfCaptured(const RenameStmt *statement);
void FollowNewPartition(Oid partition, bool has_rows); // a table with PARTITION OF, or attached
void RefuseChildOfCaptured(List *parents);             // of RangeVar
void ForgetDroppedCaptured(List *dropped);             // OIDs of relations

// The transaction has ended.
void AtEOXactOutbox();

} // namespace index_table
