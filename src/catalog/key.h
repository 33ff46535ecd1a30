// Keys and predicates of index tables: from SQL text to expressions over the base table and back.
//
// The text of a key is what stands between the parentheses of CREATE INDEX; beyond CREATE INDEX,
// one key column may be set-returning or array-valued and then makes one entry for each distinct
// element. Expressions refer to the base table as range table index 1.
#pragma once

#include "pg.h"

namespace index_table {

// How many key values a base row has in one key column.
enum class KeyShape : uint8 {
    Single,        // one value
    ArrayElements, // the elements of an array
    SetReturning,  // the rows of a set-returning function
};

struct KeyColumn {
    AttrNumber attno;  // the base column, where the key is a plain column; otherwise 0
    Expr *whole;       // the expression as written
    Expr *expr;        // the value; for a multi-valued key the array or the set-returning call
    Expr *per_element; // multi-valued: applied to each element (a CaseTestExpr); null: nothing
    KeyShape shape;
    NameData name; // its column in the index table
    Oid type;
    int32 typmod;
    Oid collation;
    Oid opclass; // of the B-tree access method
    bool descending;
    bool nulls_first;
};

struct Key {
    int count;
    KeyColumn *columns;
    int multi_valued; // which column has many values for a row; -1: none
};

// Parses a key. Raises 42601 for text that is not a key, 42703 for an unknown column, 42704 for a
// type without B-tree order, 42P17 for an expression that is not immutable, 0A000 for what cannot
// be a key. The result is in the current memory context.
Key ParseKey(Relation base, const char *text);

// Parses a predicate as after CREATE INDEX … WHERE. Errors as ParseKey.
Expr *ParsePredicate(Relation base, const char *text);

// Parses a comma-separated list of columns of the base table. Raises 42601, 42703, 42701.
List *ParseColumnList(Relation base, const char *text, const char *what);

// The attribute number of a user column; raises 42703 with the columns there are.
AttrNumber FindColumn(Relation base, const char *name);

// Raises for what a key or predicate cannot be: 0A000 for aggregates, subqueries, system columns;
// 42P17 where it is not immutable.
void CheckExpression(Node *expr, const char *what);

// Sets what follows from the expression of a key column: its value or values, their type and
// collation, the plain column that it may be.
void SetKeyExpression(KeyColumn *column, Expr *whole);

// The SQL text of a key or predicate for people to read, every name qualified but PostgreSQL's own.
// What runs is never made from text: who may create functions could change what it means. For
// create(), columns get the same names from it.
char *DeparseKey(Oid base, const Key &key, bool is_for_create = false);
char *DeparsePredicate(Oid base, Expr *predicate);

// Whether a key column has its type's own operator class: SQL need not name it, or its operators,
// so nobody needs to see their schemas.
bool IsDefaultOpclass(const KeyColumn &column);

// The columns of a key as PostgreSQL's messages show those of an index: 'town, lower(email)'.
char *DescribeKey(Oid base, const Key &key);

// The SQL text of one key column's value with its collation, columns prefixed with `alias`, under
// SecureSearchPath(). For a multi-valued column, the call that returns the set. And of a predicate.
char *DeparseKeyValue(Oid base, const KeyColumn &column, const char *alias);
char *DeparseForQuery(Oid base, Expr *predicate, const char *alias);

// Base columns that the key, a key column or an expression reads, offset by
// FirstLowInvalidHeapAttributeNumber as pull_varattnos does.
Bitmapset *ReferencedColumns(Bitmapset *columns, const KeyColumn &column);

} // namespace index_table
