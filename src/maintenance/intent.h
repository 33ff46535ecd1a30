// Intents: which rows of shards a transaction has changed, written down before any shard commits.
//
// postgres_fdw commits on the shards before this server does. What comes between, a crash, or
// another shard that fails to commit, leaves rows there whose entries were never committed here. So
// before the first shard commits, the identities of the rows are inserted into index_table.intent
// in tuples that everybody sees, whatever becomes of the transaction (frozen, as those of COPY
// FREEZE), flushed, and deleted by the transaction itself: when it commits they are gone with it;
// when it does not, they are there, and drain() reads the rows again. While it runs they are
// locked.
#pragma once

#include "maintenance/leaf.h"

namespace index_table {

// A row that the current transaction has changed, on a shard, or whose entries it changes on
// servers: those commit before this server does. The columns of every identity are there.
void RememberIntent(Relation rel, const Leaf *leaf, TupleTableSlot *row);
// Rows of a foreign partition that are not named, by TRUNCATE. REQUIRES PrecedeShards() once shards
// were told of it: none may have been reached by the session before.
void RememberIntentOfAll(Oid leaf);
void PrecedeShards();
// The same when memory is freed that lasts as long as the statement.
void PrecedeShardsAfter(MemoryContext statement);

// Whether postgres_fdw is told of commits after this library is, since this session has used it; to
// be called once it has used it.
bool PrecedesShards();
void PrecedeShardsFromNowOn();

// Whether postgres_fdw, if it is used now, might not be told that the transaction commits:
// PostgreSQL is calling callbacks already, and its own may not be among them, or may have been
// called.
bool IsTooLateForShards();

// An index table on servers that the current transaction writes, having given partitions numbers:
// they are written down like intents, as retired ones.
void RememberNumbered(const IndexTable *table);

// Also carries out, before shards commit, what is captured.
void InitializeIntents();

} // namespace index_table
