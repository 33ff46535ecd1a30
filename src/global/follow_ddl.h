// What DDL does to global indexes that PostgreSQL does not do by itself.
#pragma once

#include "global/storage.h"
#include "pg.h"

namespace index_table {

// After a command that may have made indexes of a partitioned table, or have attached to it. The
// table is that of `relid`, a partition or an index of it: builds those of its global indexes, and
// of the tables that it is a partition of, that have no tree yet. `attached`, a table or an index
// (InvalidOid: none), has come as it was: its partitions enter their rows. `children` are those
// of indexes that are built. Raises 23505 as CREATE INDEX does.
void CompleteGlobalIndexes(Oid relid, Oid attached, Children children = Children::New);

// Before a partition is dropped or detached, with what is below it: its entries will be stale.
void ReportLeaving(Oid partition);

// REINDEX INDEX of a root, REINDEX CONCURRENTLY: true where it has been carried out here. Raises
// 0A000 for CONCURRENTLY.
bool ReindexGlobal(Node *command);

// What REINDEX INDEX of a root does: the tree is made anew, and completed where it was not. Waits
// for writers and keeps them out until the end of the transaction. Raises 55006 while it is being
// built, 23505 where a key that is to be unique repeats.
void RebuildWholeIndex(Oid root);

// ALTER INDEX ALL IN TABLESPACE … SET TABLESPACE, which leaves out what is in pg_toast: before it
// the tables of the global indexes that it moves are locked, as their trees will need them after
// it. Raises 55006 where it is not to wait.
void LockBeforeMoveAll(const AlterTableMoveAllStmt *statement);
void FollowMoveAll(const AlterTableMoveAllStmt *statement);

// When a relation is made: raises 0A000 where it is a copy of a child, as REINDEX CONCURRENTLY
// makes it. Of SCHEMA and DATABASE, and where the library has not been loaded before, nothing is
// told earlier; later the copy would stay.
void RefuseConcurrentCopy(Oid relid);

// When a relation is altered: if it is a child whose file goes to another tablespace, the file that
// it is about to have says what the one before does.
void FollowMove(Oid relid);

} // namespace index_table
