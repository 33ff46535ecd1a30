#include "ddl/typed_tables.h"

#include "core/public.h"
#include "ddl/event.h"

namespace index_table {
namespace {

Oid TypeOfTable(Oid relid) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        return InvalidOid;
    Oid type = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reloftype;
    ReleaseSysCache(tuple);
    return type;
}

List *ListTypedTables(const RangeVar *name) {
    Oid relid = FindRelation(name);
    Oid type = OidIsValid(relid) ? get_rel_type_id(relid) : InvalidOid;
    List *tables = NIL;
    if (OidIsValid(type))
        ForEachDependent(TypeRelationId, type, DEPENDENCY_NORMAL, [&](Oid class_id, Oid object) {
            if (class_id == RelationRelationId && TypeOfTable(object) == type)
                tables = list_append_unique_oid(tables, object);
        });
    return tables;
}

bool Cascades(const AlterTableStmt *statement) {
    ListCell *cell;
    foreach (cell, statement->cmds)
        if (lfirst_node(AlterTableCmd, cell)->behavior != DROP_CASCADE)
            return false;
    return true;
}

List *ListNamed(const RangeVar *name) {
    Oid relid = FindRelation(name);
    return OidIsValid(relid) ? list_make1_oid(relid) : NIL;
}

} // namespace

bool AltersTypedTables(Node *command) {
    if (IsA(command, RenameStmt))
        return ListRenamed(reinterpret_cast<RenameStmt *>(command)) != NIL;
    if (!IsA(command, AlterTableStmt))
        return false;
    auto *statement = reinterpret_cast<AlterTableStmt *>(command);
    if (Cascades(statement))
        AlterTableLookupRelation(statement, AlterTableGetLockLevel(statement->cmds));
    return ListAltered(statement) != NIL;
}

List *ListAltered(const AlterTableStmt *statement) {
    if (statement->objtype != OBJECT_TYPE)
        return ListNamed(statement->relation);
    return Cascades(statement) ? ListTypedTables(statement->relation) : NIL;
}

List *ListRenamed(const RenameStmt *statement) {
    if (statement->renameType == OBJECT_COLUMN && statement->relation)
        return ListNamed(statement->relation);
    return statement->renameType == OBJECT_ATTRIBUTE && statement->behavior == DROP_CASCADE
               ? ListTypedTables(statement->relation)
               : NIL;
}

} // namespace index_table
