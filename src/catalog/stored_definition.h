// Where definitions are stored: in a rule of the index table, which is never carried out.
//
//   CREATE RULE index_table_definition AS ON DELETE TO customers_by_lower DO ALSO
//       SELECT lower(b.email) AS lower, b.customer_id, 'normalized keys=1 identity=1' AS options
//         FROM customers b ORDER BY (lower(b.email));
//
// It selects the columns of an entry in order, but partition_id, and orders them as the B-tree
// does. So PostgreSQL binds its functions, operators, collations and columns, once, and renames,
// dumps, restores and upgrades them as it does those of a view; psql's \d shows it. It is disabled.
//
// ORDER BY says operators, which several operator classes may share. One that is not its type's own
// is declared by a second statement, for which ON CONFLICT is the one place in SQL: INSERT INTO …
// DEFAULT VALUES ON CONFLICT (k text_pattern_ops) DO NOTHING.
//
// After the options may stand, as constants, the log of a concurrent build, a regclass, and the
// queue of deferred maintenance, an index_table.relation: in a dump without the queue it is 0, no
// error.
//
// The rule has no dependencies of its own but on its table and the extension: the index table has
// them, as an index would (dependencies.h).
#pragma once

#include "catalog/index_options.h"
#include "catalog/key.h"

namespace index_table {

struct Definition {
    Oid relid;
    Oid base;
    Key key;
    Expr *predicate; // null: none
    List *identity;  // attribute numbers of the base table
    List *include;   // likewise
    IndexOptions options;
    Oid log;   // takes the changes while it is being built; InvalidOid: it is complete
    Oid queue; // takes the identities of changed rows, see queue_table.h; InvalidOid: none
};

constexpr char kDefinitionRule[] = "index_table_definition";

// Reads the definition of a relation; null where it has none. Nothing is locked. Raises 55000 where
// the rule is not one that StoreDefinition() makes. In the current memory context.
Definition *ReadDefinition(Oid relid);

// Gives `definition.relid` its rule, in place of one that it may have. The caller owns the index
// table, which is locked with AccessExclusiveLock.
void StoreDefinition(const Definition &definition);

// The text of the statement that makes the rule; run later, when types of columns have changed, it
// binds its names anew, as ALTER TYPE does for indexes.
char *DefinitionStatement(const Definition &definition);
void StoreDefinition(Oid relid, const char *statement);

// Changes of what is stored. The first adds a column to those included; the second takes out those
// that the base table no longer has, false where there is none.
void StoreIncludedColumn(Oid relid, AttrNumber base_attno);
bool ForgetDroppedColumns(Oid relid);
// Gives columns of identity and included ones the types that the base table's have by now; keys and
// predicates stay as they were bound.
void StoreColumnTypes(Oid relid);
void StoreLog(Oid relid, Oid log);
void StoreMaintenance(Oid relid, bool deferred, Oid queue);
void StoreVisibility(Oid relid, bool visible);

// Takes from the rule the dependencies that PostgreSQL gives it.
void ReleaseDefinition(Oid relid);

} // namespace index_table
