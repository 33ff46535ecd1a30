// Rows of a foreign partition, found by identity: one query for many of them.
//
// The query runs through the partition's own foreign data wrapper, as the current user (whose user
// mapping it takes, as when the base table is read) and without asking for privileges on the
// partition: who reads a base table needs none on its partitions.
#pragma once

#include "catalog/definition.h"

namespace index_table {

struct ForeignRows;
// `map` gives the partition's columns for the base table's, null where they are alike. Allocated in
// the current memory context; the relation stays open as long as it is used.
ForeignRows *OpenForeignRows(const IndexTable *table, Relation base, Relation leaf,
                             const AttrMap *map);

// An identity, in the order of IndexTable::identity.
struct RowIdentity {
    Datum *values;
    bool *nulls;
};

// Whether the rows with an identity were read already.
bool HasForeignRows(const ForeignRows *rows, const RowIdentity &identity);
// Reads the rows with any of these identities, under the active snapshot; forgets those read
// before.
void ReadForeignRows(ForeignRows *rows, std::span<const RowIdentity> identities);

// Begins to find the rows with an identity; reads them where they were not.
void SeekForeignRows(ForeignRows *rows, const RowIdentity &identity);
// The next one, in the partition's row type; null at the end. Some may have another identity. Valid
// until rows are read again.
HeapTuple NextForeignRow(ForeignRows *rows);

} // namespace index_table
