// Index tables are read by whoever may, and changed by the extension alone.
#pragma once

#include "pg.h"

namespace index_table {

constexpr char kGuard[] = "index_table_guard"; // the trigger

// The table that SQL has just created by this name, which belongs to the owner that the caller has
// entered, whomever an event trigger has given it to. Raises 55000 where one has dropped, renamed
// or moved it.
Oid FindCreated(const char *name, Oid schema);
// When a table and its partitions are complete: gives them to that owner, and takes all rights from
// others, of whom event triggers and ALTER DEFAULT PRIVILEGES may know. Index tables grant nothing
// by default.
void SecureCreated(Oid relid);
// After a statement that has altered a table of the extension: gives it, and its partitions, back
// to its owner, whom an event trigger may have been told of it. Caller holds AccessExclusiveLock.
void KeepOwner(Oid relid, Oid owner);

// Gives an index table, its partitions included, or a log the statement trigger that refuses direct
// changes. What the extension writes itself fires no statement triggers. Replicas, as
// session_replication_role calls them, may change everything, unless they load a dump.
void CreateGuard(Oid relid);

// Whether an index table has its guard. One without may be taken apart: pg_restore --clean drops
// triggers first.
bool HasGuard(Oid index_table);

// The index table that a relation is, is a partition of, or is the log or queue of, a part of that
// included; InvalidOid where it is none, as when it was restored without its definition.
Oid GuardedIndexTable(Oid relid);

// RunStatement() for statements that change an index table, or the definition of one.
void ExecuteUnguarded(const char *sql, uint64 *count = nullptr);
// The same for a plan of SPI, which is connected, under a snapshot.
void ExecuteUnguarded(SPIPlanPtr plan, Snapshot snapshot);
// Empties an index table, its partitions included, under AccessExclusiveLock. Logical
// replication is told of those that are published (ddl/replication.h).
void TruncateUnguarded(Oid relid);
// Whether such a statement is running.
bool IsUnguarded();

} // namespace index_table
