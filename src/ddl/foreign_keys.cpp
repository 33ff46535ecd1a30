#include "ddl/foreign_keys.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

List *ListForeignKeys(const List *constraints, List *found) {
    ListCell *cell;
    foreach (cell, constraints) {
        Node *node = static_cast<Node *>(lfirst(cell));
        if (IsA(node, ColumnDef))
            found = ListForeignKeys(reinterpret_cast<ColumnDef *>(node)->constraints, found);
        else if (IsA(node, Constraint) &&
                 reinterpret_cast<Constraint *>(node)->contype == CONSTR_FOREIGN)
            found = lappend(found, node);
    }
    return found;
}

List *ListForeignKeysOf(Node *command) {
    if (IsA(command, CreateStmt))
        return ListForeignKeys(reinterpret_cast<CreateStmt *>(command)->tableElts, NIL);
    if (!IsA(command, AlterTableStmt))
        return NIL;
    List *found = NIL;
    ListCell *cell;
    foreach (cell, reinterpret_cast<AlterTableStmt *>(command)->cmds)
        if (Node *added = lfirst_node(AlterTableCmd, cell)->def)
            found = ListForeignKeys(list_make1(added), found);
    return found;
}

// The columns by number; null where one does not exist.
Bitmapset *FindColumns(Oid relid, const List *names) {
    Bitmapset *columns = nullptr;
    ListCell *cell;
    foreach (cell, names) {
        AttrNumber attno = get_attnum(relid, strVal(lfirst(cell)));
        if (attno <= 0)
            return nullptr;
        columns = bms_add_member(columns, attno);
    }
    return columns;
}

bool HasUniqueConstraint(Relation rel, const Bitmapset *columns) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        Bitmapset *own = nullptr;
        for (int i = 0; i < index->rd_index->indnkeyatts; i++)
            own = bms_add_member(own, Max(0, index->rd_index->indkey.values[i]));
        bool is_unique = index->rd_index->indisunique && bms_equal(own, columns);
        index_close(index, AccessShareLock);
        if (is_unique)
            return true;
    }
    return false;
}

bool HasKey(const IndexTable *table, const Bitmapset *columns) {
    if (!table->options.is_unique || table->predicate ||
        table->key.count != bms_num_members(columns))
        return false;
    for (int i = 0; i < table->key.count; i++)
        if (!table->base_columns[i] || !bms_is_member(table->base_columns[i]->varattno, columns))
            return false;
    return true;
}

const char *ListKeyColumns(const IndexTable *table) {
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < table->key.count; i++)
        appendStringInfo(&list, "%s%s", i > 0 ? ", " : "",
                         quote_identifier(get_attname(table->relid, i + 1, false)));
    return list.data;
}

void CheckReference(const Constraint *key) {
    // ALTER CONSTRAINT names no table.
    Oid relid = key->pktable && key->pk_attrs != NIL
                    ? RangeVarGetRelid(key->pktable, AccessShareLock, true)
                    : InvalidOid;
    if (!OidIsValid(relid))
        return;
    const Base *base = FindBase(relid);
    Bitmapset *columns = base ? FindColumns(relid, key->pk_attrs) : nullptr;
    if (!columns)
        return;
    Relation rel = table_open(relid, NoLock);
    bool is_unique = HasUniqueConstraint(rel, columns);
    table_close(rel, NoLock);
    for (const IndexTable *table : std::span(base->tables, is_unique ? 0 : base->table_count))
        if (HasKey(table, columns))
            ereport(ERROR, (errcode(ERRCODE_INVALID_FOREIGN_KEY),
                            errmsg("there is no unique constraint matching given keys for "
                                   "referenced table \"%s\"",
                                   get_rel_name(relid)),
                            errhint("The key is unique by index table \"%s\", which can be "
                                    "referenced: REFERENCES %s (%s).",
                                    get_rel_name(table->relid), QualifiedName(table->relid),
                                    ListKeyColumns(table))));
}

} // namespace

void CheckReferences(Node *command) {
    List *keys = ListForeignKeysOf(command);
    ListCell *cell;
    foreach (cell, IsInstalled() ? keys : NIL)
        CheckReference(lfirst_node(Constraint, cell));
}

} // namespace index_table
