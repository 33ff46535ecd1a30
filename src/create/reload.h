// Filling an index table anew where it stands: its name, indexes, privileges and whatever else its
// owner gave it stay.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Raises as CheckExpression does for what the key and the predicate of a definition are by now.
void CheckExpressions(const Definition &definition);

// Whether an index table uses a column of its base table: in its key or predicate, or as a copy.
bool UsesColumn(const IndexTable *table, AttrNumber attno);

// The type of a column of an index table, by position.
struct ColumnType {
    Oid type;
    int32 typmod;
    Oid collation;
};
ColumnType WantedType(Relation base, const IndexTable *table, int position);

// Whether an index table can be reloaded: what its owner has added to it must not need to be
// checked row by row, or fire. Otherwise returns what stands in the way, for a message.
const char *ObstacleToReload(const IndexTable *table);

// Empties an index table for readers and writers alike. The caller is in EnterOwner().
void Empty(const IndexTable *table);

// The two sides of one command that changes the type or the expression of columns of a base table,
// or what is stored in them. Before: index tables let go of `columns` (attribute numbers), which
// PostgreSQL would not touch otherwise. Raises 0A000 where an index table cannot follow. After:
// they take the new types, and are reloaded where rows were written anew; then all index tables of
// the base table are as if built by this transaction. Without `columns` that alone. What is pending
// lives as long as the transaction.
struct PendingChange;
PendingChange *PrepareColumnChange(const Base *base, List *columns, const char *action);
void FollowColumnChange(const PendingChange *pending);

} // namespace index_table
