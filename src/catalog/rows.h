// Scans of the extension's own catalog tables, and what the cache is made from; shared by the files
// of catalog/ only.
#pragma once

#include "catalog/definition.h"

namespace index_table {

// A scan of a table in the extension's schema under a fresh catalog snapshot, through `index` for
// the rows whose first indexed column equals `value`, or of all rows where `index` is null.
// Trivially destructible: after an error PostgreSQL's resource owner closes what it holds.
struct CatalogScan {
    Relation relation;
    SysScanDesc scan;
    ScanKeyData key;
    LOCKMODE lock_mode;

    CatalogScan(const char *table, const char *index, Oid equality, Datum value,
                LOCKMODE lock_mode);
    HeapTuple Next(); // null at the end
    Datum Get(HeapTuple tuple, int column, bool *isnull);
    void End();
};

// A column of such rows, a list of OIDs.
List *ReadOids(const char *table, const char *index, Datum value, int column);

// The index tables of a base table, parsed: a list of IndexTable.
List *ReadDefinitions(Relation base);
// The leaf that has a number and its base table, InvalidOid where the number is not live.
Oid ReadPartition(int32 partition_id, Oid *base);
bool HasRetiredPartitions(Oid base);
int CountPartitionRows(Oid base, int limit);

// An index table with a serial number, and nothing else. In the current memory context.
IndexTable *NewIndexTable();
// For IndexTable::base_columns.
Var **MakeBaseColumns(Relation base, const IndexTable *table);

// The global indexes of a base table, complete or not, of which a change makes others complete: a
// list of OIDs. Locks nothing.
List *ListGlobalRoots(Oid base);
// Partitions of a table that store rows, counted up to `limit`. `visit` is called for partitioned
// tables among them before their partitions are read.
int CountLeaves(Oid parent, int limit, void (*visit)(Oid partitioned, Oid base), Oid base);

} // namespace index_table
