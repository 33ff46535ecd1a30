// What a partition's row trigger must know: the leaf's number, and where the entries' columns are
// in the leaf's own row layout.
#pragma once

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {

// One index table seen from one leaf. Expressions and attribute numbers are the leaf's.
struct LeafTable {
    const IndexTable *table;
    AttrNumber *key_attnos; // 0 where the key column is an expression
    Expr **key_exprs;
    Expr **per_element;
    Expr *predicate;
    AttrNumber *copied_attnos; // as IndexTable::copied
    bool has_expressions;
    int used_count; // columns of the row that the entries depend on
    AttrNumber *used;
};

struct Leaf {
    CachedRelation cached;
    int32 partition_id;
    bool is_foreign;
    const Base *base;
    Oid base_relid;
    uint64 base_serial; // of the base that the tables point into
    int table_count;
    LeafTable *tables;
    int used_count; // union of the tables' used columns
    AttrNumber *used;
    AttrNumber max_attno;
};

// The leaf for a relation whose rows change; null where it has no index tables (any more). Cached;
// valid memory until the transaction ends. Raises 55000 for a partition without a number.
const Leaf *FindLeaf(Relation rel);

// An index table seen from relations of a given layout: `map` gives their columns for the base
// table's, null where they are alike. Allocated in the current memory context.
LeafTable MakeLeafTable(const IndexTable *table, const AttrMap *map);

void InitializeLeafCache();

} // namespace index_table
