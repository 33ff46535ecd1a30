// Event triggers: what DDL does to base tables, their partitions and index tables.
#include "ddl/ddl.h"

#include "build/build.h"
#include "catalog/definition.h"
#include "compat/compat.h"
#include "ddl/triggers.h"
#include "maintenance/maintenance.h"

namespace index_table {
namespace {

EventTriggerData *GetEvent(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("not called by the event trigger manager")));
    return reinterpret_cast<EventTriggerData *>(fcinfo->context);
}

bool IsBase(Oid relid) {
    return OidIsValid(relid) && ListIndexTables(relid) != NIL;
}

// The definitions as parsed before a command that renames something; memory of this transaction.
constinit List *before_rename = nullptr;

bool IsRename(Node *parsetree) {
    return IsA(parsetree, RenameStmt) || IsA(parsetree, AlterObjectSchemaStmt) ||
           IsA(parsetree, AlterEnumStmt);
}

bool Drops(Node *parsetree) {
    if (!IsA(parsetree, AlterTableStmt))
        return IsA(parsetree, DropStmt) || IsA(parsetree, DropOwnedStmt);
    ListCell *cell;
    foreach (cell, castNode(AlterTableStmt, parsetree)->cmds)
        if (lfirst_node(AlterTableCmd, cell)->subtype == AT_DropColumn)
            return true;
    return false;
}

void RememberDefinitions() {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    before_rename = NIL;
    ListCell *cell;
    foreach (cell, ListBases())
        if (const Base *base = FindBase(lfirst_oid(cell)))
            for (IndexTable *table : std::span(base->tables, base->table_count))
                before_rename = lappend(before_rename, table);
    MemoryContextSwitchTo(caller);
}

void RefreshDefinitions() {
    ListCell *cell;
    foreach (cell, before_rename)
        RefreshDefinition(static_cast<IndexTable *>(lfirst(cell)));
    before_rename = NIL;
}

void OnTransactionEnd(XactEvent event, void *) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        before_rename = NIL;
}

bool UsesColumn(const IndexTable *table, AttrNumber attno) {
    Bitmapset *columns = nullptr;
    for (int i = 0; i < table->key.count; i++)
        columns = ReferencedColumns(columns, table->key.columns[i]);
    pull_varattnos(reinterpret_cast<Node *>(table->predicate), 1, &columns);
    return bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns) ||
           std::any_of(table->copied, table->copied + table->copied_count,
                       [=](const CopiedColumn &copy) { return copy.base_attno == attno; });
}

[[noreturn]] void RaiseCannotFollow(const char *action, const IndexTable *table) {
    ereport(
        ERROR,
        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
         errmsg("cannot %s because index table \"%s\" depends on it", action,
                get_rel_name(table->relid)),
         errhint("Drop the index table with index_table.drop(), and create it again afterwards.")));
}

// Whether a column of an index table is one that create() gave it.
bool IsOwnColumn(const IndexTable *table, const char *name) {
    AttrNumber attno = get_attnum(table->relid, name);
    Relation rel = table_open(table->relid, AccessShareLock);
    int position = -1;
    for (int i = 0; i < attno; i++)
        if (!TupleDescAttr(RelationGetDescr(rel), i)->attisdropped)
            position++;
    table_close(rel, AccessShareLock);
    return position >= 0 && position < table->column_count;
}

[[noreturn]] void RaiseOwnColumn(const IndexTable *table, const char *name) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot alter column \"%s\" of index table \"%s\"", name,
                           get_rel_name(table->relid)),
                    errhint("Drop the index table with index_table.drop() and create another.")));
}

// The columns of an index table are the extension's; what else an owner may want to change is his.
void RefuseNewLayout(AlterTableStmt *statement, const IndexTable *table) {
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (command->subtype == AT_ChangeOwner)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("cannot change the owner of index table \"%s\"",
                                   get_rel_name(table->relid)),
                            errhint("It follows the owner of \"%s\".", get_rel_name(table->base))));
        bool is_layout =
            command->subtype == AT_AlterColumnType || command->subtype == AT_DropColumn;
        if (is_layout && IsOwnColumn(table, command->name))
            RaiseOwnColumn(table, command->name);
    }
}

void RefuseNewName(RenameStmt *statement) {
    if (statement->renameType == OBJECT_SCHEMA && strcmp(statement->subname, "index_table") == 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot rename schema \"index_table\""),
                        errdetail("The extension index_table is found by this name.")));
    if (statement->renameType != OBJECT_COLUMN || !statement->relation)
        return;
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    const IndexTable *table = OidIsValid(relid) ? FindIndexTable(relid) : nullptr;
    if (table && IsOwnColumn(table, statement->subname))
        RaiseOwnColumn(table, statement->subname);
}

// Before the command: refuses what index tables cannot follow.
void RefuseBeforeAlter(AlterTableStmt *statement) {
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    if (OidIsValid(relid))
        if (const IndexTable *table = FindIndexTable(RootOf(relid)))
            RefuseNewLayout(statement, table);
    const Base *base = OidIsValid(relid) ? FindBase(RootOf(relid)) : nullptr;
    if (!base)
        return;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        for (const IndexTable *table : std::span(base->tables, base->table_count)) {
            AttrNumber attno = command->name ? get_attnum(base->relid, command->name) : 0;
            if (command->subtype == AT_AlterColumnType && attno > 0 && UsesColumn(table, attno))
                RaiseCannotFollow(psprintf("alter the type of column \"%s\"", command->name),
                                  table);
            if (compat::SetsExpression(command) && attno > 0 && UsesColumn(table, attno))
                RaiseCannotFollow(psprintf("alter the expression of column \"%s\"", command->name),
                                  table);
            if (command->subtype == AT_SetLogged)
                RaiseCannotFollow("make the table logged", table);
            if (command->subtype == AT_SetUnLogged)
                RaiseCannotFollow("make the table unlogged", table);
        }
    }
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
    relation_close(base, NoLock);
}

// A base table stays the root of its partitions, and has no children by inheritance: rows would
// be reached, or enter, past its index tables.
void RefuseNewParent(RangeVar *child) {
    Oid relid = RangeVarGetRelid(child, NoLock, true);
    if (const IndexTable *table = OidIsValid(relid) ? FindIndexTable(relid) : nullptr)
        RaiseCannotFollow(psprintf("make \"%s\" a partition", child->relname), table);
    if (IsBase(relid))
        RaiseCannotFollow(psprintf("make \"%s\" a partition", child->relname),
                          FindBase(relid)->tables[0]);
}

void RefuseNewChild(List *parents) {
    ListCell *cell;
    foreach (cell, parents) {
        RangeVar *parent = lfirst_node(RangeVar, cell);
        Oid relid = RangeVarGetRelid(parent, NoLock, true);
        if (IsBase(relid) && get_rel_relkind(relid) == RELKIND_RELATION)
            RaiseCannotFollow(psprintf("inherit from \"%s\"", parent->relname),
                              FindBase(relid)->tables[0]);
    }
}

void ChangeOwner(Oid base, RoleSpec *owner) {
    ListCell *cell;
    foreach (cell, ListIndexTables(base)) {
        ListCell *relation;
        List *relations = find_all_inheritors(lfirst_oid(cell), AccessExclusiveLock, nullptr);
        Oid log = RecordedLog(lfirst_oid(cell));
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(log)))
            relations = lappend_oid(relations, log);
        foreach (relation, relations)
            ATExecChangeOwner(lfirst_oid(relation), get_rolespec_oid(owner, false), false,
                              AccessExclusiveLock);
    }
}

void FollowAlterTable(AlterTableStmt *statement) {
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    if (!OidIsValid(relid))
        return;
    bool moves_partitions = false;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        switch (command->subtype) {
        case AT_AttachPartition:
            RefuseNewParent(castNode(PartitionCmd, command->def)->name);
            moves_partitions = true;
            break;
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize:
            moves_partitions = true;
            if (IsBase(RootOf(relid)))
                DropStatementTriggers(
                    RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true));
            break;
        case AT_AddColumn:
            if (IsBase(relid))
                CopyNewColumn(relid, castNode(ColumnDef, command->def)->colname);
            break;
        case AT_AddInherit:
            RefuseNewChild(list_make1(command->def));
            break;
        case AT_ChangeOwner:
            ChangeOwner(relid, command->newowner);
            break;
        default:
            FollowTriggers(command, relid, statement->relation->inh);
            break;
        }
    }
    if (moves_partitions)
        FollowPartitions(relid);
}

void FollowCreate(CreateStmt *statement) {
    NoteTable();
    if (statement->partbound)
        FollowPartitions(RangeVarGetRelid(statement->relation, NoLock, true));
    else
        RefuseNewChild(statement->inhRelations);
}

// CREATE SCHEMA … CREATE TABLE … is one command.
void FollowCreateSchema(CreateSchemaStmt *statement) {
    ListCell *cell;
    foreach (cell, statement->schemaElts) {
        if (!IsA(lfirst(cell), CreateStmt))
            continue;
        CreateStmt *create = static_cast<CreateStmt *>(lfirst(cell));
        if (!create->relation->schemaname)
            create->relation->schemaname = statement->schemaname;
        FollowCreate(create);
    }
}

void ForgetDroppedRelation(Oid relid) {
    Oid base = RecordedBase(relid);
    if (OidIsValid(base))
        ForgetIndexTable(relid, base);
    else if (FindPartitionNumber(relid))
        RetirePartition(relid);
}

struct DroppedColumn {
    Oid relid;
    char *name;
};

// Reads pg_event_trigger_dropped_objects() into lists of OIDs and of DroppedColumn.
void ReadDroppedRelations(List **relations, List **columns) {
    MemoryContext caller = CurrentMemoryContext;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute("SELECT o.objid, o.objsubid, o.address_names[array_upper(o.address_names, 1)] "
                    "FROM pg_catalog.pg_event_trigger_dropped_objects() AS o "
                    "WHERE o.classid OPERATOR(pg_catalog.=) 1259",
                    true, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read the dropped objects");
    MemoryContext spi = MemoryContextSwitchTo(caller);
    for (uint64 i = 0; i < SPI_processed; i++) {
        bool isnull;
        HeapTuple row = SPI_tuptable->vals[i];
        TupleDesc descriptor = SPI_tuptable->tupdesc;
        Oid relid = DatumGetObjectId(SPI_getbinval(row, descriptor, 1, &isnull));
        if (DatumGetInt32(SPI_getbinval(row, descriptor, 2, &isnull)) == 0) {
            *relations = lappend_oid(*relations, relid);
            continue;
        }
        DroppedColumn *column = static_cast<DroppedColumn *>(palloc(sizeof(DroppedColumn)));
        *column = {.relid = relid, .name = SPI_getvalue(row, descriptor, 3)};
        *columns = lappend(*columns, column);
    }
    MemoryContextSwitchTo(spi);
    SPI_finish();
}

} // namespace

void InitializeDdl() {
    RegisterXactCallback(OnTransactionEnd, nullptr);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_on_ddl_start) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()))
        PG_RETURN_NULL();
    if (Drops(event->parsetree))
        EnsureDependencies();
    if (IsA(event->parsetree, DropStmt) || IsA(event->parsetree, DropOwnedStmt))
        PG_RETURN_NULL();
    FlushChanges();
    if (IsA(event->parsetree, RenameStmt))
        RefuseNewName(reinterpret_cast<RenameStmt *>(event->parsetree));
    if (IsRename(event->parsetree))
        RememberDefinitions();
    else if (IsA(event->parsetree, AlterTableStmt))
        RefuseBeforeAlter(reinterpret_cast<AlterTableStmt *>(event->parsetree));
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_on_ddl_end) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()))
        PG_RETURN_NULL();
    if (IsRename(event->parsetree))
        RefreshDefinitions();
    else if (IsA(event->parsetree, AlterTableStmt))
        FollowAlterTable(reinterpret_cast<AlterTableStmt *>(event->parsetree));
    else if (IsA(event->parsetree, CreateTrigStmt))
        NoteTrigger(reinterpret_cast<CreateTrigStmt *>(event->parsetree));
    else if (IsA(event->parsetree, CreateStmt))
        FollowCreate(reinterpret_cast<CreateStmt *>(event->parsetree));
    else if (IsA(event->parsetree, CreateSchemaStmt))
        FollowCreateSchema(reinterpret_cast<CreateSchemaStmt *>(event->parsetree));
    else if (IsA(event->parsetree, CreateForeignTableStmt))
        FollowCreate(&reinterpret_cast<CreateForeignTableStmt *>(event->parsetree)->base);
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_on_drop) {
    GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()) ||
        !OidIsValid(get_relname_relid("partition", ExtensionSchema())))
        PG_RETURN_NULL(); // the extension itself is being dropped
    List *relations = NIL;
    List *columns = NIL;
    ReadDroppedRelations(&relations, &columns);
    ListCell *cell;
    foreach (cell, relations)
        ForgetDroppedRelation(lfirst_oid(cell));
    foreach (cell, columns) {
        DroppedColumn *column = static_cast<DroppedColumn *>(lfirst(cell));
        ForgetIncludedColumn(column->relid, column->name);
    }
    PG_RETURN_NULL();
}
