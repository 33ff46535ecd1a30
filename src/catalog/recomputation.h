// SQL that the extension runs itself: as the owner of the base table, past its row security, under
// a search_path that finds nothing of the user's.
#pragma once

#include "catalog/definition.h"
#include "core/public.h"

namespace index_table {

// SELECT … FROM the base table: the entries that an index table should hold, its columns in order
// and named c1, c2, …; `ticket` is the second argument of index_table.count_row(). From the rows of
// `leaf` alone where that is valid. Keys and predicate are not in the text, which PrepareBound()
// alone understands: they are put into the parse tree as they are bound.
char *RecomputationQuery(Relation base, const IndexTable *table, int64 ticket,
                         Oid leaf = InvalidOid);

// SPI_prepare_cursor() for text that contains a RecomputationQuery() of `table` or a
// BoundCondition(), which must be known as long as the plan is used. `types` are those of $1, $2,
// …; with any, the plan is run by OpenBound(). Raises where SPI fails. The plan refers to what is
// allocated in the current memory context.
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
// For SPI_execute_plan_with_paramlist(); `nulls` as for SPI.
ParamListInfo BoundParameters(const BoundPlan &plan, const Datum *values, const char *nulls);
// A read-only cursor over it.
Portal OpenBound(const BoundPlan &plan, const Datum *values = nullptr, const char *nulls = nullptr);

// "town" AS c1, … : the columns of the index table named as those of RecomputationQuery. Raises
// 55000 where the table has been deprived of some.
void AppendStoredColumns(StringInfo sql, Relation rel, const IndexTable *table);

// A query of columns c1, c2, … in the index table's B-tree order.
char *InEntryOrder(const char *query, const IndexTable *table);

// A key column as CREATE INDEX writes it: "name" opclass DESC NULLS LAST.
void AppendKeyOrder(StringInfo sql, const KeyColumn &column, const char *name);

// For the text of PrepareBound(): the comparison of a column of the relation called `alias` with a
// parameter by a B-tree operator of an operator class.
char *BoundCondition(const char *alias, const char *column, Oid opclass, StrategyNumber strategy,
                     int parameter);

// ASC or DESC or USING, with NULLS FIRST or LAST: what follows an expression of a type in ORDER BY.
// An operator class that is not the type's own is named by an operator, whose schema the role must
// see. True where the expression is cast first: then it must not be the name of an output column.
bool AppendDirection(StringInfo sql, Oid type, Oid opclass, bool descending, bool nulls_first);

} // namespace index_table
