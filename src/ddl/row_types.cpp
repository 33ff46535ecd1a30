#include "ddl/row_types.h"

#include "catalog/public.h"
#include "core/public.h"
#include "ddl/event.h"
#include "ddl/typed_tables.h"

namespace index_table {
namespace {

bool ChangesColumns(const AlterTableStmt *statement) {
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableType kind = lfirst_node(AlterTableCmd, cell)->subtype;
        if (kind == AT_AddColumn || kind == AT_DropColumn)
            return true;
    }
    return false;
}

List *ListRowTypes(const AlterTableStmt *statement) {
    Oid relid = FindRelation(statement->relation);
    if (!OidIsValid(relid))
        return NIL;
    List *relids = statement->objtype == OBJECT_TABLE && statement->relation->inh
                       ? find_all_inheritors(relid, NoLock, nullptr)
                       : list_make1_oid(relid);
    if (statement->objtype == OBJECT_TYPE)
        relids = list_concat(relids, ListAltered(statement)); // and their rows
    List *types = NIL;
    ListCell *cell;
    foreach (cell, relids)
        types = lappend_oid(types, get_rel_type_id(lfirst_oid(cell)));
    return types;
}

// The type of the column that an index table is partitioned by; InvalidOid: it is not. Read without
// a lock, or the definition: the command has nothing to do with most of them, and waits for none.
Oid PartitionKeyType(Oid relid) {
    HeapTuple tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        return InvalidOid;
    AttrNumber attno =
        reinterpret_cast<Form_pg_partitioned_table>(GETSTRUCT(tuple))->partattrs.values[0];
    ReleaseSysCache(tuple);
    return get_atttype(relid, attno);
}

} // namespace

void RefuseNewHashes(const AlterTableStmt *statement) {
    if (!ChangesColumns(statement))
        return;
    List *row_types = NIL;
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell))) {
            Oid relid = lfirst_oid(cell);
            Oid type = PartitionKeyType(relid);
            if (!OidIsValid(type) || !ContainsComposite(type))
                continue;
            if (row_types == NIL)
                row_types = ListRowTypes(statement);
            if (ContainsAny(type, row_types))
                ereport(ERROR,
                        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                         errmsg("cannot alter \"%s\" because index table \"%s\" is partitioned by "
                                "values of its type",
                                statement->relation->relname, get_rel_name(relid)),
                         errhint("Drop the index table with index_table.drop(), and create it "
                                 "again afterwards.")));
        }
}

} // namespace index_table
