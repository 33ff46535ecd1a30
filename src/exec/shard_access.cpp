#include "exec/shard_access.h"

#include "maintenance/public.h"

namespace index_table {
namespace {

constinit int shard_access = static_cast<int>(ShardAccess::Auto);
constinit int unreachable = 0;

constexpr config_enum_entry kAccess[] = {{"auto", static_cast<int>(ShardAccess::Auto), false},
                                         {"fdw", static_cast<int>(ShardAccess::Wrapper), false},
                                         {nullptr, 0, false}};
constexpr config_enum_entry kUnreachable[] = {
    {"error", 0, false}, {"skip", 1, false}, {nullptr, 0, false}};

} // namespace

bool MayPipeline() {
    return shard_access == static_cast<int>(ShardAccess::Auto) && !IsolationUsesXactSnapshot() &&
           !MayHaveWrittenToShards();
}

bool SkipsUnreachable() {
    // Leaving them out takes a subtransaction.
    return unreachable != 0 && !IsInParallelMode();
}

void InitializeShardAccess() {
    DefineCustomEnumVariable(
        "index_table.shard_access", "How queries read rows of shards through index tables.",
        "\"auto\" asks all servers at once, over connections of its own, in transactions under "
        "READ "
        "COMMITTED that have written to none; \"fdw\" always asks through postgres_fdw.",
        &shard_access, static_cast<int>(ShardAccess::Auto), kAccess, PGC_USERSET, GUC_EXPLAIN,
        nullptr, nullptr, nullptr);
    DefineCustomEnumVariable(
        "index_table.unreachable_shards",
        "What queries do that need a shard that is not reachable.",
        "\"error\" raises; \"skip\" returns the rows of the others, with a warning.", &unreachable,
        0, kUnreachable, PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

} // namespace index_table
