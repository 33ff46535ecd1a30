#include "ddl/drop.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "ddl/event.h"
#include "ddl/replication.h"
#include "ddl/triggers.h"
#include "drain/public.h"
#include "global/public.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

// --- Before ---------------------------------------------------------------------

// A partition of an index table goes with it, not without.
void RefuseDropOfPartition(Oid relid, List *dropped) {
    Oid root = RootOf(relid);
    if (root != relid && OidIsValid(RecordedBase(root)) && !list_member_oid(dropped, root) &&
        HasGuard(root))
        RaiseOwnTable("drop a partition of", root);
    Oid owner = root != relid ? QueueOwner(relid) : InvalidOid;
    if (OidIsValid(owner) && !list_member_oid(dropped, owner))
        RaiseOwnQueue("drop a part of", owner);
}

// The command takes this lock next. What may not be dropped, or goes with its base table, is left
// to PostgreSQL.
void RemoveNameBeforeDrop(Oid relid, List *dropped) {
    Oid base = OidIsValid(relid) ? RecordedBase(relid) : InvalidOid;
    if (!OidIsValid(base) || list_member_oid(dropped, base) || !compat::OwnsRelation(relid))
        return;
    LockRelationOid(relid, AccessExclusiveLock);
    RemoveConstraintName(relid);
}

// Whether an index table must keep the indexes that it requires: not while it is built, nor before
// it is one.
bool IsCheckedForIndexes(Oid index_table) {
    return OidIsValid(RecordedBase(index_table)) && !OidIsValid(RecordedLog(index_table)) &&
           HasGuard(index_table);
}

// Whether an index table keeps what it needs will be looked at after the command, in its base
// table: that is locked first everywhere.
void LockBaseBeforeDropIndex(Oid relid) {
    Oid table = OidIsValid(relid) ? IndexGetRelation(relid, true) : InvalidOid;
    Oid base = OidIsValid(table) ? RecordedBase(table) : InvalidOid;
    if (OidIsValid(base) && compat::OwnsRelation(table))
        LockRelationOid(base, AccessShareLock);
}

// DROP INDEX CONCURRENTLY commits before it drops: what would be refused afterwards is refused
// before.
void RefuseBeforeDropIndex(Oid relid, const List *dropped) {
    Oid table_oid = OidIsValid(relid) ? IndexGetRelation(relid, true) : InvalidOid;
    const IndexTable *table =
        OidIsValid(table_oid) && compat::OwnsRelation(table_oid) && IsCheckedForIndexes(table_oid)
            ? FindIndexTable(table_oid)
            : nullptr;
    if (table)
        CheckIndexes(table, dropped);
}

// Servers that a command drops, OIDs.
List *DroppedServers(const DropStmt *statement) {
    List *servers = NIL;
    ListCell *cell;
    if (statement->removeType != OBJECT_FOREIGN_SERVER && statement->removeType != OBJECT_FDW)
        return servers;
    SystemScan scan(ForeignServerRelationId);
    while (auto form = scan.Next<Form_pg_foreign_server>()) {
        foreach (cell, statement->objects) {
            const char *name = strVal(lfirst(cell));
            if (statement->removeType == OBJECT_FOREIGN_SERVER
                    ? strcmp(NameStr(form->srvname), name) == 0
                    : form->srvfdw == get_foreign_data_wrapper_oid(name, true))
                servers = lappend_oid(servers, form->oid);
        }
    }
    scan.End();
    return servers;
}

// Part of an index table would go with a server.
void RefuseDropOfServer(const DropStmt *statement) {
    List *servers = statement->behavior == DROP_CASCADE ? DroppedServers(statement) : NIL;
    if (servers == NIL)
        return; // or PostgreSQL does
    ListCell *base, *cell, *partition;
    foreach (base, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base)))
            foreach (partition, find_inheritance_children(lfirst_oid(cell), NoLock))
                if (IsForeign(lfirst_oid(partition)) &&
                    list_member_oid(servers, GetForeignTable(lfirst_oid(partition))->serverid))
                    ereport(ERROR,
                            (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
                             errmsg("cannot drop server \"%s\" because index table \"%s\" depends "
                                    "on it",
                                    ServerOf(lfirst_oid(partition))->servername,
                                    get_rel_name(lfirst_oid(cell))),
                             errhint("Use index_table.move_partition() or index_table.drop() "
                                     "first.")));
}

// Before DROP TABLE and DROP INDEX.
void PrepareDropOf(DropStmt *statement) {
    RefuseDropOfServer(statement);
    if (statement->removeType != OBJECT_TABLE && statement->removeType != OBJECT_FOREIGN_TABLE &&
        statement->removeType != OBJECT_INDEX)
        return;
    List *dropped = NIL;
    ListCell *cell, *table;
    foreach (cell, statement->objects)
        dropped =
            lappend_oid(dropped, FindRelation(makeRangeVarFromNameList(lfirst_node(List, cell))));
    if (statement->removeType == OBJECT_INDEX) {
        foreach (cell, dropped)
            LockBaseBeforeDropIndex(lfirst_oid(cell));
        foreach (cell, statement->concurrent ? dropped : NIL)
            RefuseBeforeDropIndex(lfirst_oid(cell), dropped);
        return;
    }
    foreach (cell, dropped)
        if (OidIsValid(lfirst_oid(cell)))
            RefuseDropOfPartition(lfirst_oid(cell), dropped);
    foreach (cell, dropped)
        RemoveNameBeforeDrop(lfirst_oid(cell), dropped);
    foreach (cell, dropped)
        ReportLeaving(lfirst_oid(cell));
    foreach (cell, dropped) {
        List *index_tables = OidIsValid(lfirst_oid(cell)) ? ListIndexTables(lfirst_oid(cell)) : NIL;
        foreach (table, index_tables)
            WaitForBuild(lfirst_oid(table));
    }
}

// DROP TRIGGER by hand. Dumps with --clean do it, too, and hide notices.
void RememberDropOfTrigger(DropStmt *statement) {
    if (statement->removeType != OBJECT_TRIGGER)
        return;
    List *names = lfirst_node(List, list_head(statement->objects));
    if (list_length(names) < 2)
        return;
    const char *name = strVal(llast(names));
    if (strncmp(name, "index_table_", 12) != 0 && !IsRowTrigger(name))
        return;
    Oid relid =
        FindRelation(makeRangeVarFromNameList(list_copy_head(names, list_length(names) - 1)));
    Oid base = OidIsValid(relid) ? RootOf(relid) : InvalidOid;
    if (IsBase(base))
        ereport(NOTICE,
                (errmsg("index tables of \"%s\" do not follow its changes without this trigger",
                        get_rel_name(base)),
                 errhint("index_table.repair() creates it again, and mends what was missed.")));
}

// An index, on which nothing depends but what depends on its table, too: nothing may be written
// before.
bool DropsConcurrently(const Node *statement) {
    return IsA(statement, DropStmt) && reinterpret_cast<const DropStmt *>(statement)->concurrent;
}

constexpr char kExtension[] = "index_table";

Oid OwnerOfExtension() {
    SystemScan scan(ExtensionRelationId, ExtensionOidIndexId, Anum_pg_extension_oid,
                    get_extension_oid(kExtension, true));
    auto form = scan.Next<Form_pg_extension>();
    Oid owner = form ? form->extowner : InvalidOid;
    scan.End();
    return owner;
}

// By DROP EXTENSION, by DROP SCHEMA, whose name is the same, or with all that its owner has.
bool DropsExtension(const Node *command) {
    if (IsA(command, DropOwnedStmt))
        return list_member_oid(
            roleSpecsToIds(reinterpret_cast<const DropOwnedStmt *>(command)->roles),
            OwnerOfExtension());
    const DropStmt *statement = reinterpret_cast<const DropStmt *>(command);
    if (statement->removeType != OBJECT_EXTENSION && statement->removeType != OBJECT_SCHEMA)
        return false;
    ListCell *cell;
    foreach (cell, statement->objects)
        if (strcmp(strVal(lfirst(cell)), kExtension) == 0)
            return true;
    return false;
}

// Foreign keys to a table; those of partitions are parts of these.
List *ListReferencesTo(Oid table) {
    List *constraints = NIL;
    SystemScan scan(ConstraintRelationId);
    while (auto form = scan.Next<Form_pg_constraint>())
        if (form->contype == CONSTRAINT_FOREIGN && form->confrelid == table &&
            !OidIsValid(form->conparentid))
            constraints = lappend_oid(constraints, form->oid);
    scan.End();
    return constraints;
}

// Nothing keeps the keys up to date any more that foreign keys would be checked against.
void DropReferencesTo(Oid index_table) {
    ListCell *cell;
    foreach (cell, ListReferencesTo(index_table)) {
        ObjectAddress constraint;
        ObjectAddressSet(constraint, ConstraintRelationId, lfirst_oid(cell));
        ereport(NOTICE, (errmsg("drop cascades to %s", getObjectDescription(&constraint, false))));
        performDeletion(&constraint, DROP_CASCADE, 0);
    }
}

void BecomeAllPlain(bool drops_references) {
    ListCell *base, *cell;
    foreach (base, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base))) {
            if (drops_references)
                DropReferencesTo(lfirst_oid(cell));
            BecomePlain(lfirst_oid(cell), lfirst_oid(base));
        }
}

// Who may not drop it learns nothing, and locks nothing of others.
void PrepareDropOfExtension(DropBehavior behavior) {
    bool may_drop = has_privs_of_role(GetUserId(), OwnerOfExtension());
    if (behavior == DROP_RESTRICT && may_drop)
        RefuseLossOfQueues();
    PublishAll();
    BecomeAllPlain(behavior == DROP_CASCADE && may_drop);
}

// --- After ----------------------------------------------------------------------

void ForgetDroppedRelation(Oid relid) {
    Oid base = RecordedBase(relid);
    if (OidIsValid(base))
        ForgetIndexTable(relid, base);
    else if (FindPartitionNumber(relid)) {
        RemoveOwnEntries(relid);
        RetirePartition(relid);
    }
}

struct Dropped {
    List *relations; // OIDs
    List *names;     // of the relations
    List *columns;   // OIDs of relations that have lost some
    List *undefined; // RangeVars of index tables that have lost their definition
    bool indexes_alone;
};

// What pg_event_trigger_dropped_objects() says of relations and definitions.
Dropped ReadDropped() {
    Dropped dropped = {};
    bool has_index = false;
    bool has_table = false;
    MemoryContext caller = CurrentMemoryContext;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute("SELECT o.objid, o.objsubid, o.object_type, "
                    "o.address_names[array_upper(o.address_names, 1)], "
                    "o.address_names[1], o.address_names[2] "
                    "FROM pg_catalog.pg_event_trigger_dropped_objects() AS o "
                    "WHERE o.classid OPERATOR(pg_catalog.=) 1259 "
                    "OR o.classid OPERATOR(pg_catalog.=) 2618", // pg_class, pg_rewrite
                    true, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read the dropped objects");
    MemoryContext spi = MemoryContextSwitchTo(caller);
    for (uint64 i = 0; i < SPI_processed; i++) {
        bool isnull;
        HeapTuple row = SPI_tuptable->vals[i];
        TupleDesc descriptor = SPI_tuptable->tupdesc;
        Oid relid = DatumGetObjectId(SPI_getbinval(row, descriptor, 1, &isnull));
        if (strcmp(SPI_getvalue(row, descriptor, 3), "rule") == 0) {
            if (strcmp(SPI_getvalue(row, descriptor, 4), kDefinitionRule) == 0)
                dropped.undefined =
                    lappend(dropped.undefined, makeRangeVar(SPI_getvalue(row, descriptor, 5),
                                                            SPI_getvalue(row, descriptor, 6), -1));
            continue;
        }
        if (DatumGetInt32(SPI_getbinval(row, descriptor, 2, &isnull)) != 0) {
            dropped.columns = list_append_unique_oid(dropped.columns, relid);
            continue;
        }
        dropped.relations = lappend_oid(dropped.relations, relid);
        dropped.names = lappend(dropped.names, SPI_getvalue(row, descriptor, 4));
        const char *type = SPI_getvalue(row, descriptor, 3);
        has_index = has_index || strcmp(type, "index") == 0;
        has_table = has_table || strcmp(type, "table") == 0;
    }
    MemoryContextSwitchTo(spi);
    SPI_finish();
    dropped.indexes_alone = has_index && !has_table;
    return dropped;
}

// DROP RULE: what is left is a plain table.
void ForgetUndefined(RangeVar *name) {
    Oid relid = FindRelation(name);
    Oid base = OidIsValid(relid) ? RecordedBase(relid) : InvalidOid;
    if (!OidIsValid(base))
        return;
    ereport(NOTICE, (errmsg("\"%s\" is no index table any more", get_rel_name(relid)),
                     errdetail("Without its definition it does not follow \"%s\", and keeps no key "
                               "unique.",
                               get_rel_name(base)),
                     errhint("Drop it, and create another with index_table.create().")));
    ForgetIndexTable(relid, base);
    BecomePlain(relid, base);
}

// The base tables of which partitions were dropped. What foreign keys refer to of those goes first.
void ForgetDroppedRelations(const Dropped &dropped) {
    List *bases = NIL;
    List *all = NIL; // by base: of Leaving
    ListCell *cell, *name;
    forboth(cell, dropped.relations, name, dropped.names) {
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (!number)
            continue;
        int place = 0;
        while (place < list_length(bases) && list_nth_oid(bases, place) != number->base)
            place++;
        if (place == list_length(bases)) {
            bases = lappend_oid(bases, number->base);
            all = lappend(all, NIL);
        }
        List *leaving = static_cast<List *>(list_nth(all, place));
        AddLeaving(&leaving, lfirst_oid(cell), static_cast<const char *>(lfirst(name)));
        lfirst(list_nth_cell(all, place)) = leaving;
    }
    for (int i = 0; i < list_length(bases); i++)
        RemoveReferenced(list_nth_oid(bases, i), static_cast<List *>(list_nth(all, i)), false);
    foreach (cell, dropped.relations)
        ForgetDroppedRelation(lfirst_oid(cell));
    for (int i = 0; i < list_length(bases); i++)
        ForgetReferenced(list_nth_oid(bases, i), static_cast<List *>(list_nth(all, i)));
}

// After DROP TRIGGER: a table without its guard may no longer be the extension's.
void FollowDropOfTrigger(DropStmt *statement) {
    List *names = lfirst_node(List, list_head(statement->objects));
    if (list_length(names) < 2)
        return;
    const char *name = strVal(llast(names));
    Oid relid =
        FindRelation(makeRangeVarFromNameList(list_copy_head(names, list_length(names) - 1)));
    if (strcmp(name, kGuard) == 0)
        FollowReplicaIdentity(relid);
    else if (OidIsValid(relid))
        FollowDroppedTrigger(relid, name);
}

// Whether one of the indexes that this command has dropped may have been on a table. Nothing says
// any more which were, but the lock that such a table has: to look at others would wait for theirs.
bool MayHaveLostIndex(Oid relid) {
    return CheckRelationOidLockedByMe(relid, ShareUpdateExclusiveLock, true);
}

void CheckRemainingIndexes() {
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell)))
            if (MayHaveLostIndex(lfirst_oid(cell)) && IsCheckedForIndexes(lfirst_oid(cell)))
                if (const IndexTable *table = FindIndexTable(lfirst_oid(cell)))
                    CheckIndexes(table);
}

void FollowDrop(Node *command) {
    Dropped dropped = ReadDropped();
    ListCell *cell;
    ForgetDroppedRelations(dropped);
    foreach (cell, dropped.relations) {
        ForgetDrainErrors(lfirst_oid(cell));
        ForgetCounts(lfirst_oid(cell));
    }
    ForgetDroppedOutboxTables(dropped.relations);
    FollowDroppedColumns(dropped.columns);
    foreach (cell, dropped.columns)
        ForgetIncludedColumns(lfirst_oid(cell));
    foreach (cell, dropped.undefined)
        ForgetUndefined(static_cast<RangeVar *>(lfirst(cell)));
    if (dropped.indexes_alone) {
        CheckRemainingIndexes();
        KeepLocal(MayHaveLostIndex); // it may have been a replica identity
    }
    if (IsA(command, DropStmt) &&
        reinterpret_cast<DropStmt *>(command)->removeType == OBJECT_TRIGGER)
        FollowDropOfTrigger(reinterpret_cast<DropStmt *>(command));
}

} // namespace

void PrepareDrop(Node *statement) {
    if (!DropsConcurrently(statement)) {
        EnsureAllDependencies();
        RememberOutboxPartitions();
    }
    if (IsA(statement, DropOwnedStmt)) {
        if (DropsExtension(statement))
            PrepareDropOfExtension(reinterpret_cast<DropOwnedStmt *>(statement)->behavior);
        return;
    }
    DropStmt *drop = reinterpret_cast<DropStmt *>(statement);
    PrepareDropOf(drop);
    RememberDropOfTrigger(drop);
    if (DropsExtension(statement))
        PrepareDropOfExtension(drop->behavior);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_on_drop) {
    EventTriggerData *event = GetEvent(fcinfo);
    if (!OidIsValid(ExtensionSchema()) ||
        !OidIsValid(get_relname_relid("partition", ExtensionSchema())))
        PG_RETURN_NULL(); // the extension itself is being dropped
    WithSnapshot([=] { FollowDrop(event->parsetree); });
    PG_RETURN_NULL();
}
