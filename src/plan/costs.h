// What things cost, in two scales: microseconds, which were measured, and the planner's units, in
// which whole plans are compared. kPerMicrosecond leads from the first to the second.
#pragma once

#include "pg.h"

namespace index_table {

// Outer rows of a join for which shards are asked together.
constexpr double kRowsAtOnce = 1000;

// Microseconds that things take which the planner does not count, or not as an index table does
// them. Only their proportions matter.
namespace micros {
constexpr double kScan = 8;           // to begin with an index table
constexpr double kEntry = 0.3;        // to read an entry
constexpr double kLookup = 3;         // to find the entries of another key
constexpr double kFetch = 2.2;        // to find the row of an entry
constexpr double kFetchAddress = 0.6; // to fetch the row that an address leads to
constexpr double kOpenLeaf = 3;       // before the first row of a partition
constexpr double kPlanIndex = 7;     // to plan for an index of a partition, or the partition itself
constexpr double kPartition = 8;     // to open and probe it
constexpr double kPlanTarget = 13;   // more where its rows may be changed
constexpr double kTarget = 15;       // to open and probe it then
constexpr double kNativeFetch = 1.5; // to fetch a row through a local index
constexpr double kRoundTrip = 300;   // to a server, where partitions are foreign tables
constexpr double kShardRow = 4;      // to get a row from there
constexpr double kQueuedPage = 0.12; // to ask a page of a queue for a key
constexpr double kQueuedPack = 0.3;  // to read a pack
constexpr double kQueuedRow = 3;     // to find the row of an identity in it, and its entries
} // namespace micros

// In units of the planner, of which seq_page_cost is one: these stand beside paths of other
// relations, foreign tables among them, in one plan.
namespace planner_units {
// Opening a partition, in units of seq_page_cost.
constexpr double kPagesPerPartition = 1;
// Handing a row on from its partition, in units of cpu_tuple_cost: what PostgreSQL charges Append.
constexpr double kAppendedTuples = 0.5;
// Finding the row of an entry, beyond what an index scan pays for its heap: a descent of the
// partition's own index, in units of cpu_operator_cost.
constexpr double kOperatorsPerEntry = 80;
// A round trip to a server: PostgreSQL's default for one, fdw_startup_cost of postgres_fdw, by
// which it prices foreign tables of the same query.
constexpr Cost kRoundTrip = 100;
// A row that comes from there.
constexpr Cost kShardRow = 0.05;
// What takes a microsecond by the other scale.
constexpr Cost kPerMicrosecond = 0.09;
// What runs in a microsecond at most: pages are read one after the other and each row is looked at.
// Random reads of what is cached, which the planner takes for ten times as dear, run faster.
constexpr Cost kAtMostPerMicrosecond = 0.25;
// What makes the planner avoid a path where there is another.
constexpr Cost kProhibitive = 1e10;
} // namespace planner_units

} // namespace index_table
