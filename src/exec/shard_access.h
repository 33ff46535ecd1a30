// Settings of how shards are read.
#pragma once

#include "pg.h"

namespace index_table {

// index_table.shard_access
enum class ShardAccess : int {
    Auto,    // all servers at once where that is right
    Wrapper, // through the foreign data wrapper, in its transaction
};

// Whether this transaction may read shards over connections of this session's own: it has written
// to none, and every statement of it sees what is committed when it begins.
bool MayPipeline();

// index_table.unreachable_shards: whether rows of shards that cannot be reached are left out.
bool SkipsUnreachable();

void InitializeShardAccess();

} // namespace index_table
