// What a command alters: the relation that it names or, of ALTER TYPE … CASCADE, the tables of a
// composite type, CREATE TABLE … OF.
#pragma once

#include "pg.h"

namespace index_table {

// Whether a command of the tag ALTER TYPE can alter tables: what it does to enums, owners, names
// and schemas of types does not. Locks the type as ALTER TYPE does next, and so keeps its tables.
bool AltersTypedTables(Node *command);

// OIDs of what is altered, or has a column renamed; NIL where there is none, and where ALTER TYPE
// without CASCADE raises that there is any. Nothing is locked.
List *ListAltered(const AlterTableStmt *statement);
List *ListRenamed(const RenameStmt *statement);

} // namespace index_table
