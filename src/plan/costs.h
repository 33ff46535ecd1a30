// What things cost. Two scales, which are not each other's: one tells whether index tables are
// worth their while, the other is the planner's, for the paths that it chooses among then.
#pragma once

#include "pg.h"

namespace index_table {

// Outer rows of a join for which shards are asked together.
constexpr double kRowsAtOnce = 1000;

// Microseconds that things take, by which index tables and PostgreSQL's own way are weighed against
// each other. Measured; only their proportions matter.
namespace micros {
constexpr double kScan = 8;           // to begin with an index table
constexpr double kEntry = 0.3;        // to read an entry
constexpr double kLookup = 3;         // to find the entries of another key
constexpr double kFetch = 2.2;        // to find the row of an entry
constexpr double kFetchAddress = 0.6; // to fetch the row that an address leads to
constexpr double kOpenLeaf = 3;       // before the first row of a partition
constexpr double kPlanPartition = 7;  // to plan for a partition natively
constexpr double kPartition = 8;      // to open and probe it
constexpr double kPlanTarget = 20;    // the two for a partition whose rows may be changed
constexpr double kTarget = 15;
constexpr double kProbe = 3;         // to probe it again
constexpr double kNativeFetch = 1.5; // to fetch a row through a local index
constexpr double kHashed = 0.25;     // to scan and hash a row natively
constexpr double kFiltered = 0.1;    // to scan a row natively where no index serves
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
// What makes the planner avoid a path where there is another.
constexpr Cost kProhibitive = 1e10;
} // namespace planner_units

} // namespace index_table
