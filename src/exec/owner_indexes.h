// The indexes that owners have made on their index tables, of any access method, beside those that
// create() makes: seen from the base table, so that queries on it can use them.
#pragma once

#include "catalog/public.h"

namespace index_table {

// One whose columns all lead back to the base table.
struct OwnerIndex {
    Oid relid;
    Oid method;
    bool by_bitmap;   // conditions are read through bitmaps, whatever else the method can do
    bool by_distance; // it yields entries by their distances from something
    bool is_ordered;  // a B-tree of plain columns
    bool has_local;   // the base table has an index of the same kind with one of the columns
    int key_count;
    // Over the base table as range table index 1:
    Expr **keys;
    Bitmapset **referenced; // the columns of each, offset as pull_varattnos does
    List *predicate;        // the index's own, a list of clauses
    Bitmapset *predicate_columns;
};

struct OwnerIndexes {
    int count;
    OwnerIndex *indexes;
};

// Those of an index table, ready for use or not. Cached with the definition: any change of the
// index table or its set of indexes has them looked for again. Opens the index table and its
// indexes when the cache has to be filled.
const OwnerIndexes *GetOwnerIndexes(const IndexTable *table);

// Whether an index of an index table, whose columns are `stored`, is a valid B-tree that begins
// with the key, in its order.
bool IsEntryIndex(Relation index, const IndexTable *table, const AttrNumber *stored);

// Whether an access method finds what a collation takes to be equal where that is not equal bytes.
bool FollowsCollations(Oid method);

// Whether something that `columns` (offset as above) can restrict is in the index, or they may
// imply its predicate.
bool ServesColumns(const OwnerIndex &owner_index, const Bitmapset *columns);

// Whether an index shows a query everything it should: it is valid, and not younger than what the
// transaction may see. Sets `transient` where it will be so later. `rel` is its index table.
bool IsReady(Relation rel, Relation index, bool *transient);

// An expression over an index table's columns, with each of them replaced by what `replace` makes
// of its position in an entry. Null where it refers to a column for which that is null, or which
// entries do not have.
using Replacement = Node *(*)(const IndexTable *table, int position, const Var *column);
Node *ReplaceColumns(const IndexTable *table, const AttrNumber *stored, Node *expr,
                     Replacement replace);

} // namespace index_table
