// SQL that the extension runs itself: as the owner of the base table, past its row security, under
// a search_path that finds nothing of the user's.
#pragma once

#include "catalog/definition.h"
#include "catalog/names.h"
#include "catalog/owner.h"
#include "catalog/subtransaction.h"

namespace index_table {

// Connects to SPI, runs one statement and disconnects; raises where it fails.
void Execute(const char *sql);

// SELECT … FROM the base table: the entries that an index table should hold, its columns in order
// and named c1, c2, …; `ticket` is the second argument of index_table.count_row(). From the rows of
// `leaf` alone where that is valid. Keys and predicate are not in the text, which PrepareBound()
// alone understands: they are put into the parse tree as they are bound.
char *RecomputationQuery(Relation base, const IndexTable *table, int64 ticket,
                         Oid leaf = InvalidOid);

// SPI_prepare_cursor() for text that contains a RecomputationQuery() of `table`, which must be
// known as long as the plan is used. `types` are those of $1, $2, …; with any, the plan is run by
// OpenBound(). Raises where SPI fails. The plan refers to what is allocated in the current memory
// context.
struct Binding {
    const IndexTable *table;
    int count;
    Oid *types;
};
struct BoundPlan {
    SPIPlanPtr plan;
    Binding *binding;
};
BoundPlan PrepareBound(const char *sql, const IndexTable *table, int cursor_options, int count = 0,
                       const Oid *types = nullptr);
// One that SPI_keepplan() has kept, and what it refers to.
void FreeBound(const BoundPlan &bound);
// A read-only cursor over it; `nulls` as for SPI.
Portal OpenBound(const BoundPlan &plan, const Datum *values = nullptr, const char *nulls = nullptr);

// "town" AS c1, … : the columns of the index table named as those of RecomputationQuery. Raises
// 55000 where the table has been deprived of some.
void AppendStoredColumns(StringInfo sql, Relation rel, const IndexTable *table);

// A query of columns c1, c2, … in the index table's B-tree order.
char *InEntryOrder(const char *query, const IndexTable *table);

// A key column as CREATE INDEX writes it: "name" opclass DESC NULLS LAST.
void AppendKeyOrder(StringInfo sql, const KeyColumn &column, const char *name);

// A cast, ::citext, of a value to what an operator of an operator class compares: without it,
// another on a domain over that would be found by the operator's name. Empty where nobody can have
// made one.
const char *CastFor(Oid type, Oid input, Oid operator_oid);
const char *KeyCast(const KeyColumn &column);

// OPERATOR(schema.=) or another B-tree operator of a key column's operator class.
char *KeyOperator(const KeyColumn &column, StrategyNumber strategy);

} // namespace index_table
