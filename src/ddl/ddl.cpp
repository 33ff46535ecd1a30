// Event triggers: what DDL does to base tables, their partitions and index tables.
#include "ddl/ddl.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "ddl/drop.h"
#include "ddl/event.h"
#include "ddl/replication.h"
#include "ddl/row_types.h"
#include "ddl/triggers.h"
#include "ddl/typed_tables.h"
#include "global/public.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

// What is known of a command before it, for after it. Commands nest: those that the extension runs
// itself, and those of other event triggers.
struct PendingCommand {
    Node *parsetree;
    int level;              // of the subtransaction
    PendingChange *changes; // of columns
    List *captured;         // what PrepareOutboxChange() has noted
    Oid renamed;            // a relation
    Oid enabled_on;         // a relation of which triggers are enabled
    EnabledTriggers enabled;
};

constinit List *commands = nullptr; // innermost first; memory of the transaction

void AddCommand(const PendingCommand &command) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    PendingCommand *copy = palloc_object(PendingCommand);
    *copy = command;
    copy->level = GetCurrentTransactionNestLevel();
    commands = lcons(copy, commands);
    MemoryContextSwitchTo(caller);
}

// Ends a command; null where nothing was noted of it.
PendingCommand *TakeCommand(Node *parsetree) {
    ListCell *cell;
    foreach (cell, commands) {
        PendingCommand *command = static_cast<PendingCommand *>(lfirst(cell));
        if (command->parsetree != parsetree)
            continue;
        commands = foreach_delete_current(commands, cell);
        return command;
    }
    return nullptr;
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
    const AttrNumber *own = GetLiveColumns(rel, table->column_count);
    table_close(rel, AccessShareLock);
    return std::find(own, own + table->column_count, attno) != own + table->column_count;
}

[[noreturn]] void RaiseOwnColumn(const IndexTable *table, const char *name) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot alter column \"%s\" of index table \"%s\"", name,
                           get_rel_name(table->relid)),
                    errhint("Drop the index table with index_table.drop() and create another.")));
}

// The columns and partitions of an index table are the extension's; what else an owner may want to
// change is his.
void RefuseNewLayout(AlterTableStmt *statement, const IndexTable *table) {
    if (IsUnguarded())
        return;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (compat::ReplacedPartitions(command) != NIL && HasGuard(table->relid))
            RaiseOwnTable("change the partitions of", table->relid);
        switch (command->subtype) {
        case AT_ChangeOwner:
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("cannot change the owner of index table \"%s\"",
                                   get_rel_name(table->relid)),
                            errhint("It follows the owner of \"%s\".", get_rel_name(table->base))));
        case AT_AddColumn: // columns of the base table will be added
            if (table->options.strategy == Strategy::Denormalized)
                RaiseOwnTable("add a column to", table->relid);
            break;
        case AT_AlterColumnType:
        case AT_DropColumn:
            if (IsOwnColumn(table, command->name))
                RaiseOwnColumn(table, command->name);
            break;
        case AT_AttachPartition:
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize:
            if (HasGuard(table->relid))
                RaiseOwnTable("change the partitions of", table->relid);
            break;
        case AT_AddInherit:
        case AT_DropInherit:
            RaiseOwnTable("change the inheritance of", table->relid);
        case AT_SetLogged:
        case AT_SetUnLogged:
            RaiseOwnTable("change the persistence of", table->relid);
        default:
            break;
        }
    }
}

// A queue stays as it was made, but for where and how it is stored. Dumps switch its guard.
void RefuseNewQueue(AlterTableStmt *statement, Oid index_table) {
    ListCell *cell;
    foreach (cell, statement->cmds)
        switch (lfirst_node(AlterTableCmd, cell)->subtype) {
        case AT_SetRelOptions:
        case AT_ResetRelOptions:
        case AT_SetTableSpace:
        case AT_EnableTrig:
        case AT_EnableAlwaysTrig:
        case AT_EnableTrigAll:
        case AT_EnableTrigUser:
        case AT_DisableTrig:
        case AT_DisableTrigAll:
        case AT_DisableTrigUser:
            break;
        default:
            RaiseOwnQueue("alter", index_table);
        }
}

bool IsDefinition(const char *rule) {
    return strcmp(rule, kDefinitionRule) == 0;
}

// A definition is made by create(), or by loading a dump where there is none.
void RefuseNewDefinition(const RuleStmt *statement) {
    Oid relid = IsDefinition(statement->rulename) ? FindRelation(statement->relation) : InvalidOid;
    if (OidIsValid(relid) && OidIsValid(RecordedBase(relid)))
        RaiseOwnTable("change the definition of", relid);
}

// A dump has been here. What the index table holds, if it is one, will be looked at when it is
// needed: rows may be still to come.
void FollowNewRule(const RuleStmt *statement) {
    if (!IsDefinition(statement->rulename))
        return;
    RefuseNewDefinition(statement); // the name was another table's, before its lock was waited for
    RegisterRestored(FindRelation(statement->relation));
}

// The base table knows the key of an index table by name alone: that goes with the index table.
void RefuseOwnConstraint(const Base *base, const char *name, const char *action) {
    Oid constraint = get_relation_constraint_oid(base->relid, name, true);
    Oid relid = OidIsValid(constraint) ? IndexTableOfConstraint(constraint) : InvalidOid;
    if (OidIsValid(relid))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot %s constraint \"%s\" of \"%s\"", action, name,
                               get_rel_name(base->relid)),
                        errdetail("Index table \"%s\" keeps the key unique.", get_rel_name(relid)),
                        errhint("Drop the index table, or rename its index.")));
}

void RefuseNewName(RenameStmt *statement) {
    if (statement->renameType == OBJECT_RULE && IsDefinition(statement->subname)) {
        Oid relid = FindRelation(statement->relation);
        if (OidIsValid(relid) && OidIsValid(RecordedBase(relid)))
            RaiseOwnTable("rename the definition of", relid);
    }
    if (statement->renameType == OBJECT_SCHEMA && strcmp(statement->subname, "index_table") == 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot rename schema \"index_table\""),
                        errdetail("The extension index_table is found by this name.")));
    if (statement->renameType == OBJECT_TABCONSTRAINT) {
        Oid relid = FindRelation(statement->relation);
        if (const Base *base = OidIsValid(relid) ? FindBase(relid) : nullptr)
            RefuseOwnConstraint(base, statement->subname, "rename");
    }
    ListCell *cell;
    foreach (cell, ListRenamed(statement)) {
        const IndexTable *table = FindIndexTable(lfirst_oid(cell));
        if (table && IsOwnColumn(table, statement->subname))
            RaiseOwnColumn(table, statement->subname);
        if (Oid owner = QueueOwner(lfirst_oid(cell)))
            RaiseOwnQueue("alter", owner);
    }
}

// By its new name another may be found, which is earlier on the search path.
void RememberRenamed(RenameStmt *statement) {
    if (statement->renameType == OBJECT_INDEX || statement->renameType == OBJECT_TABLE ||
        statement->renameType == OBJECT_TABCONSTRAINT)
        AddCommand({.parsetree = reinterpret_cast<Node *>(statement),
                    .renamed = FindRelation(statement->relation)});
}

void FollowRename(RenameStmt *statement) {
    ListCell *cell;
    foreach (cell, ListRenamed(statement))
        FollowRenameOfOutboxTable(statement, lfirst_oid(cell));
    const PendingCommand *pending = TakeCommand(reinterpret_cast<Node *>(statement));
    Oid relid = pending ? pending->renamed : InvalidOid; // of what keeps a key unique
    if (OidIsValid(relid) && strchr("iI", get_rel_relkind(relid)))
        relid = IndexGetRelation(relid, true);
    if (OidIsValid(relid) && OidIsValid(RecordedBase(relid)))
        EnsureConstraintName(relid);
}

// The index of a key may come after the definition when a dump is restored.
void FollowNewIndex(const IndexStmt *statement) {
    Oid relid = FindRelation(statement->relation);
    if (OidIsValid(relid) && OidIsValid(RecordedBase(relid)))
        EnsureConstraintName(relid);
    if (IsGlobal(statement)) {
        CheckOperatorClasses(relid);
        CompleteGlobalIndexes(relid, InvalidOid);
        // ON ONLY: as CONCURRENTLY begins.
        TryNewGlobalIndexes(relid, !statement->relation->inh);
        WarnOfNewGlobalIndex(relid);
    }
}

void WaitBeforeDropColumn(const Base *base, const char *name) {
    AttrNumber attno = get_attnum(base->relid, name);
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (attno > 0 && UsesColumn(table, attno))
            WaitForBuild(table->relid);
}

void CheckBeforeDetach(const RangeVar *name) {
    Oid partition = FindRelation(name);
    if (OidIsValid(partition) && get_rel_relispartition(partition))
        CheckLeaving(partition);
}

// Before the command: the entries of partitions that it drops are about to be stale.
void ReportReplaced(AlterTableStmt *statement) {
    ListCell *cell, *name;
    foreach (cell, statement->cmds)
        foreach (name, compat::ReplacedPartitions(lfirst_node(AlterTableCmd, cell)))
            ReportLeaving(FindRelation(lfirst_node(RangeVar, name)));
}

// Whether a command may write the rows of one partition anew, which are there for no older snapshot
// then, without that its table is locked.
bool RewritesAlone(const AlterTableCmd *command) {
    return command->subtype == AT_SetAccessMethod || command->subtype == AT_SetLogged ||
           command->subtype == AT_SetUnLogged || compat::SetsExpression(command);
}

// Takes the lock that the command takes next, as it does: when it has been waited for, an index
// table may be there that was not before, and others may wait for this command, see
// AnnounceRewrite(). Not for DROP COLUMN, which waits for builds first.
void LockBeforeAlter(AlterTableStmt *statement) {
    bool depends = false; // on what index tables there are
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (command->subtype == AT_DropColumn)
            return;
        depends = depends || command->subtype == AT_AlterColumnType || RewritesAlone(command) ||
                  command->subtype == AT_DropConstraint;
    }
    if (!depends)
        return;
    LOCKMODE mode = AlterTableGetLockLevel(statement->cmds);
    if (statement->objtype == OBJECT_TABLE)
        AlterTableLookupRelation(statement, mode);
    if (statement->objtype == OBJECT_TYPE)
        foreach (cell, ListAltered(statement))
            LockRelationOid(lfirst_oid(cell), mode);
}

// What is followed after a command that may change columns of a base table or rewrite it; null:
// nothing.
PendingChange *PrepareAlterOfBase(const AlterTableStmt *statement, const Base *base, Oid relid) {
    EnsureDependencies(base->relid);
    List *changed = NIL; // columns whose values may change
    const char *action = nullptr;
    bool rewrites = false; // perhaps
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        bool sets_expression = compat::SetsExpression(command);
        rewrites =
            rewrites || command->subtype == AT_AddColumn || command->subtype == AT_SetAccessMethod;
        // Its first transaction commits before anything can be looked at again.
        if (command->subtype == AT_DetachPartition &&
            castNode(PartitionCmd, command->def)->concurrent)
            CheckBeforeDetach(castNode(PartitionCmd, command->def)->name);
        if (command->subtype == AT_SetLogged)
            RaiseCannotFollow("make the table logged", base->tables[0]);
        if (command->subtype == AT_SetUnLogged)
            RaiseCannotFollow("make the table unlogged", base->tables[0]);
        if (command->subtype == AT_DropConstraint && relid == base->relid)
            RefuseOwnConstraint(base, command->name, "drop");
        if (command->subtype == AT_DropColumn)
            WaitBeforeDropColumn(base, command->name);
        if (command->subtype != AT_AlterColumnType && !sets_expression)
            continue;
        changed = lappend_int(changed, get_attnum(base->relid, command->name));
        action = psprintf(sets_expression ? "alter the expression of column \"%s\""
                                          : "alter the type of column \"%s\"",
                          command->name);
    }
    return changed == NIL && !rewrites ? nullptr : PrepareColumnChange(base, changed, action);
}

// Queries that lock partitions as they come to them wait for this before they take their snapshots,
// see WaitForTruncations(). REQUIRES: the partition is locked, else who has it open would wait for
// who waits for him.
void AnnounceRewrite(Oid partition, const AlterTableStmt *statement) {
    bool any = false;
    ListCell *cell;
    foreach (cell, statement->cmds)
        any = any || RewritesAlone(lfirst_node(AlterTableCmd, cell));
    if (any)
        foreach (cell, get_partition_ancestors(partition))
            LockPart(lfirst_oid(cell), LockedPart::Truncation, RowExclusiveLock);
}

void PrepareAlterOf(Oid relid, AlterTableStmt *statement) {
    EnabledTriggers enabled = PrepareTriggers(statement, relid);
    AnnounceRewrite(relid, statement);
    RefuseAlterOfOutboxTable(statement, relid);
    if (const IndexTable *table = FindIndexTable(RootOf(relid)))
        RefuseNewLayout(statement, table);
    if (Oid owner = QueueOwner(relid))
        RefuseNewQueue(statement, owner);
    PendingCommand pending = {.parsetree = reinterpret_cast<Node *>(statement)};
    if (const Base *base = FindBase(RootOf(relid)))
        pending.changes = PrepareAlterOfBase(statement, base, relid);
    pending.captured = PrepareOutboxChange(statement, relid);
    if (enabled.of_index_tables || enabled.of_outbox)
        pending.enabled_on = relid;
    pending.enabled = enabled;
    if (pending.changes || pending.captured != NIL || OidIsValid(pending.enabled_on))
        AddCommand(pending);
    RefuseNewOptions(statement, relid);
    MirrorNewTypes(statement, relid);
}

// Before the command: refuses what cannot be followed, and notes what is to be.
void PrepareAlter(AlterTableStmt *statement) {
    LockBeforeAlter(statement);
    ReportReplaced(statement);
    ListCell *cell;
    foreach (cell, ListAltered(statement))
        PrepareAlterOf(lfirst_oid(cell), statement);
}

// What joins or leaves is locked by the command. The base table is not locked beyond what the
// command does: who writes to it holds that lock, and may come to want one that the command holds.
void FollowJoin(Oid partition) {
    Oid root = RootOf(partition);
    if (root == partition)
        return;
    CheckNewPartition(root, partition);
    if (!IsBase(root))
        return;
    JoinPartition(root, partition);
    OrderRowTriggers(partition);
}

// MERGE PARTITIONS and SPLIT PARTITION: the old partitions, which were dropped, have left as by
// DROP TABLE; rows have moved past all triggers. A table of the same name may be found earlier on
// the search path than where the new ones were made.
void FollowNewPartitions(const AlterTableCmd *command, Oid parent) {
    ListCell *cell;
    foreach (cell, compat::NewPartitions(command)) {
        RangeVar *name = lfirst_node(RangeVar, cell);
        Oid partition = get_relname_relid(name->relname, RangeVarGetCreationNamespace(name));
        if (!OidIsValid(partition) || !get_rel_relispartition(partition))
            elog(ERROR, "cannot find partition \"%s\"", name->relname);
        // The command has not made it: it would be made with the weaker lock of other commands.
        AlterTableCreateToastTable(partition, 0, AccessExclusiveLock);
        FollowJoin(partition);
        FollowNewPartition(partition, false);
        CompleteGlobalIndexes(parent, partition);
    }
}

void FollowDetach(const RangeVar *name) {
    Oid partition = FindRelation(name);
    if (OidIsValid(partition))
        LeavePartition(partition);
}

// A base table stays the root of its partitions, and has no children by inheritance: rows would
// be reached, or enter, past its index tables.
void RefuseNewParent(RangeVar *child) {
    Oid relid = FindRelation(child);
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
        Oid relid = FindRelation(parent);
        if (OidIsValid(relid) && FindIndexTable(relid))
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("cannot inherit from index table \"%s\"", parent->relname),
                            errdetail("Rows of its children would be taken for entries."),
                            errhint("Use CREATE TABLE ... (LIKE ...).")));
        if (IsBase(relid) && get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
            RaiseCannotFollow(psprintf("inherit from \"%s\"", parent->relname),
                              FindBase(relid)->tables[0]);
    }
}

// Statement triggers queue what is changed, and those of a parent's statements are the parent's.
void RefuseNewHeir(Oid relid) {
    ListCell *cell;
    foreach (cell, ListIndexTables(relid))
        if (OidIsValid(RecordedQueue(lfirst_oid(cell))))
            ereport(ERROR,
                    (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                     errmsg("cannot have \"%s\" inherit from another table because index table "
                            "\"%s\" is maintained deferred",
                            get_rel_name(relid), get_rel_name(lfirst_oid(cell))),
                     errhint("Use index_table.set_maintenance(%s, 'immediate') before.",
                             quote_literal_cstr(QualifiedName(lfirst_oid(cell))))));
}

void ChangeOwner(Oid base, RoleSpec *owner) {
    ListCell *cell;
    foreach (cell, ListIndexTables(base)) {
        ListCell *relation;
        List *relations = find_all_inheritors(lfirst_oid(cell), AccessExclusiveLock, nullptr);
        Oid log = RecordedLog(lfirst_oid(cell));
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(log)))
            relations = lappend_oid(relations, log);
        Oid queue = RecordedQueue(lfirst_oid(cell));
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)))
            relations =
                list_concat(relations, find_all_inheritors(queue, AccessExclusiveLock, nullptr));
        foreach (relation, relations)
            ATExecChangeOwner(lfirst_oid(relation), get_rolespec_oid(owner, false), false,
                              AccessExclusiveLock);
    }
}

// A queue is where its index table is.
void FollowNewSchema(const AlterObjectSchemaStmt *statement) {
    Oid schema = get_namespace_oid(statement->newschema, true);
    Oid relid = statement->relation && OidIsValid(schema)
                    ? get_relname_relid(statement->relation->relname, schema)
                    : InvalidOid;
    Oid queue = OidIsValid(relid) ? RecordedQueue(relid) : InvalidOid;
    if (!OidIsValid(queue) || !HasGuard(queue))
        return;
    // By whoever moves the index table: its owner may have no rights in the schema.
    ListCell *cell;
    foreach (cell, find_all_inheritors(queue, AccessExclusiveLock, nullptr))
        if (get_rel_namespace(lfirst_oid(cell)) != schema)
            ExecuteUnguarded(psprintf("ALTER TABLE %s SET SCHEMA %s",
                                      QualifiedName(lfirst_oid(cell)),
                                      quote_identifier(statement->newschema)));
    KeepOwner(queue, RelationOwner(relid));
}

// A partition that has been detached: a partitioned table goes on with global indexes of its own.
void LeaveGlobalIndexes(Oid detached) {
    ReportLeaving(detached);
    CompleteGlobalIndexes(detached, InvalidOid, Children::Former);
    NoteLoneIndexes(detached);
}

// `captured`: what PrepareOutboxChange() has noted.
void FollowAlterOf(Oid relid, AlterTableStmt *statement, List *captured) {
    FollowAlterOfOutboxTable(statement, relid);
    FollowOutboxChange(captured, statement, relid);
    FollowReplicaIdentity(relid);
    CheckOperatorClasses(relid);
    Oid attached = InvalidOid;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        switch (command->subtype) {
        case AT_AttachPartition:
            attached = FindRelation(castNode(PartitionCmd, command->def)->name);
            RefuseNewParent(castNode(PartitionCmd, command->def)->name);
            FollowJoin(FindRelation(castNode(PartitionCmd, command->def)->name));
            break;
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize:
            FollowDetach(castNode(PartitionCmd, command->def)->name);
            LeaveGlobalIndexes(FindRelation(castNode(PartitionCmd, command->def)->name));
            break;
        case AT_AddColumn:
            if (IsBase(relid))
                CopyNewColumn(relid, castNode(ColumnDef, command->def)->colname);
            FollowForeignKeys(relid);
            break;
        case AT_AddInherit:
            RefuseNewChild(list_make1(command->def));
            RefuseNewHeir(relid);
            break;
        case AT_AddConstraint:
        case AT_ValidateConstraint:
            FollowForeignKeys(relid);
            FollowConstraints(relid);
            break;
        case AT_ChangeOwner:
            ChangeOwner(relid, command->newowner);
            break;
        default:
            FollowNewPartitions(command, relid);
            FollowTriggers(command, relid, statement->relation->inh);
            break;
        }
    }
    CompleteGlobalIndexes(relid, attached);
    WarnOfLoneIndexes(attached);
}

void FollowAlterTable(AlterTableStmt *statement) {
    List *captured = NIL;
    List *pendings = NIL;
    // Entries have the old types until then.
    while (PendingCommand *pending = TakeCommand(reinterpret_cast<Node *>(statement))) {
        if (pending->changes)
            FollowColumnChange(pending->changes);
        captured = list_concat(captured, pending->captured);
        pendings = lappend(pendings, pending);
    }
    ListCell *cell;
    foreach (cell, ListAltered(statement))
        FollowAlterOf(lfirst_oid(cell), statement, captured);
    foreach (cell, pendings) {
        const PendingCommand *pending = static_cast<PendingCommand *>(lfirst(cell));
        if (OidIsValid(pending->enabled_on))
            FollowEnabled(pending->enabled_on, pending->enabled);
    }
}

void FollowCreate(CreateStmt *statement) {
    Oid relid = FindRelation(statement->relation);
    // One that was there before, which the command has left alone, and not locked.
    if (statement->if_not_exists && !CheckRelationOidLockedByMe(relid, AccessExclusiveLock, true))
        return;
    if (statement->partbound) {
        if (Oid owner = QueueOwner(FindRelation(linitial_node(RangeVar, statement->inhRelations))))
            RaiseOwnQueue("add a part to", owner);
        FollowJoin(FindRelation(statement->relation));
        if (OidIsValid(relid))
            FollowNewPartition(relid, false);
    } else {
        RefuseNewChild(statement->inhRelations);
        RefuseChildOfOutboxTable(statement->inhRelations);
        CompleteGlobalIndexes(relid, InvalidOid); // LIKE … INCLUDING INDEXES
        WarnOfLoneIndexes(relid);
    }
    if (OidIsValid(relid))
        FollowForeignKeys(relid);
}

// Publications and subscriptions; ALTER EXTENSION … ADD, by which pg_upgrade restores the extension
// after tables and their triggers.
void FollowReplication(Node *parsetree) {
    switch (nodeTag(parsetree)) {
    case T_CreatePublicationStmt:
        FollowPublication(reinterpret_cast<CreatePublicationStmt *>(parsetree)->pubobjects);
        break;
    case T_AlterPublicationStmt: {
        auto *statement = reinterpret_cast<AlterPublicationStmt *>(parsetree);
        FollowPublication(statement->action == AP_DropObjects ? NIL : statement->pubobjects);
        break;
    }
    case T_CreateSubscriptionStmt:
        FollowSubscription(reinterpret_cast<CreateSubscriptionStmt *>(parsetree)->subname);
        break;
    case T_AlterSubscriptionStmt:
        FollowSubscription(reinterpret_cast<AlterSubscriptionStmt *>(parsetree)->subname);
        break;
    case T_AlterExtensionContentsStmt:
        KeepAllLocal();
        break;
    default:
        break;
    }
}

// CREATE INDEX in CREATE SCHEMA: nothing was told of it before.
void FollowCreateIndex(const IndexStmt *statement, const char *schema) {
    const RangeVar *table = statement->relation;
    Oid namespace_oid = get_namespace_oid(table->schemaname ? table->schemaname : schema, true);
    Oid relid = get_relname_relid(table->relname, namespace_oid);
    if (IsGlobal(statement)) {
        Relation rel = relation_open(relid, AccessShareLock);
        CheckLoneIndex(statement, rel);
        relation_close(rel, NoLock);
    }
    CheckOperatorClasses(relid);
    CompleteGlobalIndexes(relid, InvalidOid);
}

// CREATE SCHEMA … CREATE TABLE … is one command.
void FollowCreateSchema(CreateSchemaStmt *statement) {
    ListCell *cell;
    foreach (cell, statement->schemaElts) {
        if (IsA(lfirst(cell), IndexStmt))
            FollowCreateIndex(lfirst_node(IndexStmt, cell), statement->schemaname);
        if (!IsA(lfirst(cell), CreateStmt))
            continue;
        CreateStmt *create = static_cast<CreateStmt *>(lfirst(cell));
        if (!create->relation->schemaname)
            create->relation->schemaname = statement->schemaname;
        FollowCreate(create);
    }
}

void Follow(Node *command) {
    if (IsA(command, RenameStmt))
        FollowRename(reinterpret_cast<RenameStmt *>(command));
    else if (IsA(command, IndexStmt))
        FollowNewIndex(reinterpret_cast<IndexStmt *>(command));
    else if (IsA(command, AlterObjectSchemaStmt))
        FollowNewSchema(reinterpret_cast<AlterObjectSchemaStmt *>(command));
    else if (IsA(command, RuleStmt))
        FollowNewRule(reinterpret_cast<RuleStmt *>(command));
    else if (IsA(command, AlterTableStmt))
        FollowAlterTable(reinterpret_cast<AlterTableStmt *>(command));
    else if (IsA(command, AlterTableMoveAllStmt))
        FollowMoveAll(reinterpret_cast<AlterTableMoveAllStmt *>(command));
    else if (IsA(command, CreateTrigStmt))
        FollowNewTrigger(reinterpret_cast<CreateTrigStmt *>(command));
    else if (IsA(command, CreateStmt))
        FollowCreate(reinterpret_cast<CreateStmt *>(command));
    else if (IsA(command, CreateSchemaStmt))
        FollowCreateSchema(reinterpret_cast<CreateSchemaStmt *>(command));
    else if (IsA(command, CreateForeignTableStmt))
        FollowCreate(&reinterpret_cast<CreateForeignTableStmt *>(command)->base);
    else
        FollowReplication(command);
}

} // namespace

void AtEOXactCommands() {
    commands = NIL;
}

void AtEOSubXactCommands(bool commits, int level) {
    ListCell *cell;
    foreach (cell, commands)
        if (!commits && static_cast<PendingCommand *>(lfirst(cell))->level >= level)
            commands = foreach_delete_current(commands, cell);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_on_ddl_start) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()))
        PG_RETURN_NULL();
    if (IsA(event->parsetree, DropStmt) || IsA(event->parsetree, DropOwnedStmt)) {
        PrepareDrop(event->parsetree);
        PG_RETURN_NULL();
    }
    if (IsA(event->parsetree, AlterTableStmt))
        RefuseNewHashes(reinterpret_cast<AlterTableStmt *>(event->parsetree));
    if (event->tag == CMDTAG_ALTER_TYPE && !AltersTypedTables(event->parsetree))
        PG_RETURN_NULL();
    FlushChanges();
    if (IsA(event->parsetree, RenameStmt)) {
        RefuseNewName(reinterpret_cast<RenameStmt *>(event->parsetree));
        RememberRenamed(reinterpret_cast<RenameStmt *>(event->parsetree));
    }
    if (IsA(event->parsetree, RuleStmt))
        RefuseNewDefinition(reinterpret_cast<RuleStmt *>(event->parsetree));
    if (IsA(event->parsetree, AlterTableStmt))
        PrepareAlter(reinterpret_cast<AlterTableStmt *>(event->parsetree));
    if (IsA(event->parsetree, AlterTableMoveAllStmt))
        LockBeforeMoveAll(reinterpret_cast<AlterTableMoveAllStmt *>(event->parsetree));
    if (IsA(event->parsetree, IndexStmt) &&
        IsGlobal(reinterpret_cast<IndexStmt *>(event->parsetree)))
        PrepareGlobalIndex(reinterpret_cast<IndexStmt *>(event->parsetree));
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_on_ddl_end) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()))
        PG_RETURN_NULL();
    WithSnapshot([=] { Follow(event->parsetree); });
    PG_RETURN_NULL();
}
