// Event triggers: what DDL does to base tables, their partitions and index tables.
#include "build/build.h"
#include "build/query.h"
#include "catalog/definition.h"
#include "maintenance/maintenance.h"

namespace index_table {
namespace {

EventTriggerData *GetEvent(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("not called by the event trigger manager")));
    return reinterpret_cast<EventTriggerData *>(fcinfo->context);
}

// The topmost table that a relation is a partition of; itself where it is none.
Oid RootOf(Oid relid) {
    if (!get_rel_relispartition(relid))
        return relid;
    List *ancestors = get_partition_ancestors(relid);
    return ancestors ? llast_oid(ancestors) : relid;
}

bool IsBase(Oid relid) { return OidIsValid(relid) && ListIndexTables(relid) != NIL; }

// The types of a base table's columns must be those of the entries.
void CheckColumnTypes(Relation base) {
    const Base *known = FindBase(RelationGetRelid(base));
    if (!known)
        return;
    for (const IndexTable *table : std::span(known->tables, known->table_count)) {
        Relation rel = table_open(table->relid, AccessShareLock);
        int position = 0;
        for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++) {
            Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
            if (att->attisdropped)
                continue;
            Oid expected = att->atttypid;
            if (position < table->key.count)
                expected = table->key.columns[position].type;
            for (const CopiedColumn &copy : std::span(table->copied, table->copied_count))
                if (copy.position == position)
                    expected = TupleDescAttr(RelationGetDescr(base), copy.base_attno - 1)->atttypid;
            if (expected != att->atttypid)
                ereport(ERROR,
                        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                         errmsg("cannot alter the type of a column used by index table \"%s\"",
                                RelationGetRelationName(rel)),
                         errhint("Drop the index table with index_table.drop(), alter the column, and "
                                 "create the index table again.")));
            position++;
        }
        table_close(rel, AccessShareLock);
    }
}

void FollowRename(RenameStmt *statement) {
    if (statement->renameType != OBJECT_COLUMN || !statement->relation)
        return;
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    if (!OidIsValid(relid) || !IsBase(relid))
        return;
    Relation base = relation_open(relid, AccessShareLock);
    AttrNumber attno = get_attnum(relid, statement->newname);
    if (attno > 0)
        UpdateDefinitionText(base, attno, statement->subname);
    relation_close(base, NoLock);
}

void FollowPartitions(Oid relid) {
    if (!OidIsValid(relid))
        return;
    Oid root = RootOf(relid);
    if (!IsBase(root))
        return;
    LockRelationOid(root, ShareRowExclusiveLock);
    Relation base = relation_open(root, NoLock);
    ReconcilePartitions(base);
    CheckColumnTypes(base);
    relation_close(base, NoLock);
}

void FollowAlterTable(AlterTableStmt *statement) {
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    if (!OidIsValid(relid))
        return;
    bool is_structural = false;
    bool is_detach = false;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        is_structural = is_structural || command->subtype == AT_AttachPartition ||
                        command->subtype == AT_AlterColumnType;
        is_detach = is_detach || command->subtype == AT_DetachPartition ||
                    command->subtype == AT_DetachPartitionFinalize;
        if (command->subtype == AT_ChangeOwner) {
            ListCell *table;
            foreach (table, ListIndexTables(relid))
                ATExecChangeOwner(lfirst_oid(table), get_rolespec_oid(command->newowner, false),
                                  false, AccessExclusiveLock);
        }
    }
    if (is_structural || is_detach)
        FollowPartitions(relid);
}

// Columns are recorded by name: those that are gone are taken out of the list of copies.
void ForgetDroppedRelation(Oid relid) {
    Oid base = RecordedBase(relid);
    if (OidIsValid(base)) {
        ForgetIndexTable(relid, base);
        return;
    }
    if (FindPartitionNumber(relid))
        RetirePartition(relid);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_on_ddl_end) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()))
        PG_RETURN_NULL();
    FlushChanges();
    switch (nodeTag(event->parsetree)) {
    case T_RenameStmt:
        FollowRename(reinterpret_cast<RenameStmt *>(event->parsetree));
        break;
    case T_AlterTableStmt:
        FollowAlterTable(reinterpret_cast<AlterTableStmt *>(event->parsetree));
        break;
    case T_CreateStmt:
        if (CreateStmt *create = reinterpret_cast<CreateStmt *>(event->parsetree); create->partbound)
            FollowPartitions(RangeVarGetRelid(create->relation, NoLock, true));
        break;
    case T_CreateForeignTableStmt: {
        CreateStmt *create = &reinterpret_cast<CreateForeignTableStmt *>(event->parsetree)->base;
        if (create->partbound)
            FollowPartitions(RangeVarGetRelid(create->relation, NoLock, true));
        break;
    }
    default:
        break;
    }
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_on_drop) {
    GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()) ||
        !OidIsValid(get_relname_relid("partition", ExtensionSchema())))
        PG_RETURN_NULL(); // the extension itself is being dropped
    List *relations = NIL;
    List *columns = NIL; // of index tables that lost a copy
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute("SELECT objid, objsubid, address_names[array_upper(address_names, 1)] "
                    "FROM pg_catalog.pg_event_trigger_dropped_objects() "
                    "WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass",
                    true, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read the dropped objects");
    MemoryContext spi = CurrentMemoryContext;
    for (uint64 i = 0; i < SPI_processed; i++) {
        bool isnull;
        HeapTuple row = SPI_tuptable->vals[i];
        TupleDesc descriptor = SPI_tuptable->tupdesc;
        Oid relid = DatumGetObjectId(SPI_getbinval(row, descriptor, 1, &isnull));
        int column = DatumGetInt32(SPI_getbinval(row, descriptor, 2, &isnull));
        MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
        if (column == 0)
            relations = lappend_oid(relations, relid);
        else
            columns = lappend(columns, list_make2(makeInteger(relid),
                                                  makeString(SPI_getvalue(row, descriptor, 3))));
        MemoryContextSwitchTo(spi);
    }
    SPI_finish();
    ListCell *cell;
    foreach (cell, relations)
        ForgetDroppedRelation(lfirst_oid(cell));
    foreach (cell, columns) {
        List *column = static_cast<List *>(lfirst(cell));
        ForgetIncludedColumn(intVal(linitial(column)), strVal(lsecond(column)));
    }
    PG_RETURN_NULL();
}
