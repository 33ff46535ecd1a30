// What PostgreSQL drops an index table with: dependencies on the base table, its columns, and what
// key and predicate use. A dump does not have them: they are made anew before they are needed.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Dropping a column that the index table cannot do without, or the base table, drops the index
// table, as it would an index; dropping an included column drops its copy.
void RecordDependencies(const IndexTable *table);
// Those of one included column.
void RecordCopyDependency(const IndexTable *table, const CopiedColumn &column);
// Forgets those on columns of the base table, attribute numbers; on all of it where that is NIL.
void ForgetDependencies(const IndexTable *table, List *columns);

// What is an index table no more keeps nobody from altering columns, functions and operator
// classes; it goes with the table that was its base.
void BecomePlain(Oid index_table, Oid base);

// Records dependencies of index tables that have none: of one base table, or of all.
void EnsureDependencies(Oid base);
void EnsureAllDependencies();

} // namespace index_table
