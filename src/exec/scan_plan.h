// What the planner tells the executor of a scan: kept in a CustomScan as lists, which PostgreSQL
// can copy.
#pragma once

#include "pg.h"

namespace index_table {

enum class ScanMode : int {
    Rows,          // entries of an index table, and the rows they lead to
    Entries,       // entries alone
    AllPartitions, // every row of every partition
};

// One index table, or global index, that a scan reads.
struct SourcePlan {
    Oid root;            // of a global index; InvalidOid: an index table
    Oid index_table;     // of a global index its storage, and
    Oid index;           // its tree; of an index table that is partitioned, the partitioned one
    bool is_owner_index; // the index is its owner's, not the B-tree over the key
    List *quals;         // conditions on the index's columns: the column is on the left of each
    List *qual_columns;  // for each of them the index's columns, lists of attribute numbers
};

struct ScanPlan {
    ScanMode mode;
    ScanDirection direction;
    bool is_ordered;    // the plan relies on the order of the entries
    LOCKMODE lock;      // on partitions
    bool may_ship;      // foreign servers may check clauses before the scan does
    int first_batch;    // rows that are fetched from foreign partitions at first
    List *columns;      // columns of the base table that are needed, attribute numbers; NIL: all
    List *recheck;      // what the conditions were made of, over the base table's columns
    List *implied;      // conditions that the predicate implies, where entries alone are read
    List *entry_filter; // conditions among the clauses that an entry by distance must meet, before
                        // its row is looked up; over the base table's columns
    // Rows are read by these of the index's columns, the nearest first: expressions with the column
    // on the left.
    List *distances;
    List *distance_columns;   // for each of them a list of one of the index's columns
    List *distance_operators; // that compare them
    // More than one for conditions on different keys joined by OR: a row that several lead to is
    // yielded once.
    int source_count;
    SourcePlan *sources;
};

CustomScan *MakeCustomScan(const ScanPlan &plan, const CustomScanMethods *methods);
ScanPlan ReadScanPlan(const CustomScan *scan);

const CustomScanMethods *GetScanMethods(ScanMode mode);

void InitializeScanNode();

} // namespace index_table
