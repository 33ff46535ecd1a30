// Mending what a transaction that failed between the commits of shards and of this server has left:
// its intents name the rows (maintenance/intent.h).
#pragma once

#include "maintenance/public.h"

namespace index_table {

enum class SweepResult {
    Done, // nothing left, or what is left cannot be mended now
    More, // to be called again, after a commit
    Wait, // likewise, but others have to end first
};

// Reads the rows again that intents of a partition name, brings its index tables into step with
// them and removes the intents: some of them, in the current transaction. Intents of transactions
// in progress are not touched. Where entries are on servers, writers wait until the transaction
// ends. The caller holds RowExclusiveLock on base and partition, and is the
// only one who drains it. Raises what asking the shard and writing entries raises.
SweepResult SweepIntents(Relation rel, const Leaf *leaf);

// The partitions that intents name, whoever's they are, a list of OIDs.
List *ListIntents();

// Removes intents of tables that are no more.
void ForgetIntentsOfDropped();

} // namespace index_table
