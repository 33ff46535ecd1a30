// Plain SELECTs on a base table through its index tables.
//
// planner.cpp decides, before PostgreSQL expands the partitions, whether an index table serves a
// base table in a query; candidates.cpp shows PostgreSQL's planner the index tables as indexes, so
// that it matches clauses, sort orders and parameters by its own rules; paths.cpp makes custom
// paths and plans of what it chose; scan_node.cpp runs them.
#pragma once

namespace index_table {

// The setting index_table.enable_scan.
enum class ScanPolicy : int {
    Off,   // every query is planned as without the extension
    On,    // index tables are used where they promise to be faster
    Force, // wherever they can be used
};
ScanPolicy GetScanPolicy();
// Whether this session uses index tables that are invisible to queries.
bool UsesInvisible();

void InitializePlanning();

} // namespace index_table
