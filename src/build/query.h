// SQL that the extension runs itself: as the owner of the base table, past its row security, under
// a search_path that finds nothing of the user's.
#pragma once

#include "catalog/definition.h"
#include "catalog/owner.h"
#include "catalog/subtransaction.h"

namespace index_table {

// Connects to SPI, runs one statement and disconnects; raises where it fails.
void Execute(const char *sql);

// "schema"."name"
char *QualifiedName(Oid relid);
// The same of a type, without a modifier: "character" would be character(1).
char *QualifiedTypeName(Oid type);

// SELECT … FROM the base table: the entries that an index table should hold, its columns in order
// and named c1, c2, …; `ticket` is the second argument of index_table.count_row(). From the rows of
// `leaf` alone where that is valid.
char *RecomputationQuery(Relation base, const IndexTable *table, const char *ticket,
                         Oid leaf = InvalidOid);

// "town" AS c1, … : the columns of the index table named as those of RecomputationQuery. Raises
// 55000 where the table has been deprived of some.
void AppendStoredColumns(StringInfo sql, Relation rel, const IndexTable *table);

// ORDER BY the index table's B-tree order over columns c1, c2, ….
char *OrderByEntry(const IndexTable *table);

// A key column as CREATE INDEX writes it: "name" opclass DESC NULLS LAST.
void AppendKeyOrder(StringInfo sql, const KeyColumn &column, const char *name);

// OPERATOR(schema.=) or another B-tree operator of a key column's operator class.
char *KeyOperator(const KeyColumn &column, StrategyNumber strategy);

// OPERATOR(schema.name)
char *OperatorName(Oid op);

} // namespace index_table
