// Operator classes of the access method global: mirrors of those of trees' access methods, by which
// CREATE INDEX finds that a type can be a key. The tree itself uses its method's.
//
// The mirror of a B-tree class has its input type and comparison, and in general its name and
// schema; it is the default of its type where the other one is. That of another method's class has
// its input type and one of its functions, which tells it from others; its name says the method,
// gin_array_ops, and it is never a default. CREATE EXTENSION makes those of PostgreSQL's own
// classes. Others are made when they are needed, by a superuser, for they give nobody anything:
// they are dumped with what is in their schema, and go with their class.
#pragma once

#include "pg.h"

namespace index_table {

// Support functions of access method global: those that identify a class (see the file), and the
// one that reads a class's parameters.
constexpr int kMirrorFunctions = 12;
constexpr int kParametersInMirror = 7;

// Before CREATE INDEX … USING global on a table, which is open and locked as the command will lock
// it: makes sure that every column's operator class for the tree's method, named or the default of
// its type, has a mirror, and that the command finds it. Raises 42704 where a type has no default,
// or the method no class of a name.
void MirrorOperatorClasses(IndexStmt *statement, Relation base, Oid method);

// Whether a relation is a global index: a root, or a child; whether a table has one. Lock nothing.
bool IsGlobalIndex(Oid index);
bool HasGlobalIndex(Oid base);

// Before ALTER TABLE: the same for columns' new types, where the table has global indexes. Raises
// 0A000 for one that the operator class of an index by another method than B-trees does not take.
void MirrorNewTypes(const AlterTableStmt *statement, Oid base);

// After commands that make indexes without CREATE INDEX: raises 0A000 where a column of a global
// index of a table got a class that is not the mirror of its type's own.
void CheckOperatorClasses(Oid base);

// The operator class of an access method that a mirror stands for; raises 42704 where it is gone.
Oid MirroredOperatorClass(Oid mirror, Oid method);

} // namespace index_table
