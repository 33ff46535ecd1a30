// The indexes of an index table, as statements.
#pragma once

#include "catalog/public.h"

namespace index_table {

// The parts of CREATE INDEX for an index table.
struct IndexParts {
    const char *name; // of the index table
    Oid schema;
    const char *target;
    const char *tablespace;
    const char *key;
    const char *columns; // the same without order
    const char *rest;    // of an entry's group
    const char *nulls;   // condition of a key that has a NULL
};

// In the current memory context.
IndexParts MakeIndexParts(const IndexTable *table);

} // namespace index_table
