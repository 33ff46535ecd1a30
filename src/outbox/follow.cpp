// What DDL does to tables with an outbox.
#include "catalog/public.h"
#include "core/public.h"
#include "outbox/outbox.h"

namespace index_table {
namespace {

struct OutboxPartition {
    Oid relid;
    Oid root;
};

// A captured table that a command may write anew.
struct OutboxStorage {
    Oid source;
    List *files; // of its leaves
    List *types; // of the columns that get others
};

constinit List *partitions = NIL; // of OutboxPartition, before something is dropped; memory of
                                  // the transaction

[[noreturn]] void RaiseHasOutbox(const char *action, Oid source) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot %s because table \"%s\" is captured", action, get_rel_name(source)),
             errhint("End that with index_table.release(), and capture it again "
                     "afterwards; then repair its index tables.")));
}

bool HasOutbox(Oid relid) {
    return OidIsValid(relid) && OidIsValid(QueueOf(relid));
}

bool IsIdentityColumn(Oid source, const char *name) {
    ListCell *cell;
    foreach (cell, OutboxIdentity(source))
        if (strcmp(static_cast<const char *>(lfirst(cell)), name) == 0)
            return true;
    return false;
}

// Whether a table shares the outbox of another, or is a partition of such.
bool HasOutboxBelow(Oid source, Oid relid) {
    return source == relid || (get_rel_relispartition(source) &&
                               list_member_oid(get_partition_ancestors(source), relid));
}

// The captured tables with rows in a table: the one whose outbox it shares, or partitions of it
// that are captured by themselves. OIDs.
List *OutboxesOf(Oid relid) {
    Oid root = OutboxRoot(relid);
    if (OidIsValid(root))
        return list_make1_oid(root);
    List *sources = NIL;
    ListCell *cell;
    foreach (cell, ListOutboxTables())
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))) &&
            HasOutboxBelow(lfirst_oid(cell), relid))
            sources = lappend_oid(sources, lfirst_oid(cell));
    return sources;
}

// Whether a command may change values, or write rows anew with no regard to older snapshots: who
// waits for it to end, and reads under one, finds no rows, and takes them for deleted.
bool MayWriteRows(const AlterTableCmd *command) {
    return command->subtype == AT_AlterColumnType || command->subtype == AT_AddColumn ||
           command->subtype == AT_SetAccessMethod || compat::SetsExpression(command);
}

bool MayWriteRows(const AlterTableStmt *statement) {
    ListCell *cell;
    foreach (cell, statement->cmds)
        if (MayWriteRows(lfirst_node(AlterTableCmd, cell)))
            return true;
    return false;
}

List *ListFiles(Oid source) {
    List *files = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(source, NoLock, nullptr)) {
        HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            continue;
        files = lappend_oid(files, reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relfilenode);
        ReleaseSysCache(tuple);
    }
    return files;
}

// Values are read as text elsewhere: what is stored as before may be another text by another type.
List *ListTypes(Oid source, const AlterTableStmt *statement) {
    List *types = NIL;
    ListCell *cell;
    foreach (cell, statement->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (command->subtype != AT_AlterColumnType)
            continue;
        Oid type = get_atttype(source, get_attnum(source, command->name));
        if (OidIsValid(type)) // else PostgreSQL raises that there is no such column
            type = getBaseType(type);
        types = lappend_oid(types, type == VARCHAROID ? TEXTOID : type);
    }
    return types;
}

// Whether values may be others than before the command. One that was not captured before, as far as
// could be seen without a lock, may be so by now.
bool MayHaveChanged(const List *before, const AlterTableStmt *statement, Oid source) {
    ListCell *cell;
    foreach (cell, statement->cmds)
        if (compat::SetsExpression(lfirst_node(AlterTableCmd, cell)))
            return true; // of a column that may be stored nowhere
    foreach (cell, before) {
        const OutboxStorage *storage = static_cast<OutboxStorage *>(lfirst(cell));
        if (storage->source == source)
            return !equal(storage->files, ListFiles(source)) ||
                   !equal(storage->types, ListTypes(source, statement));
    }
    return true;
}

void EnqueueReloads(List *sources) {
    ListCell *cell;
    foreach (cell, sources)
        EnqueueReload(lfirst_oid(cell));
}

// A partition that has left the table `root`.
void FollowLeaving(Oid root, Oid partition) {
    if (HasOutbox(RootOf(partition)))
        return; // not yet
    ListCell *cell;
    foreach (cell, find_all_inheritors(partition, AccessExclusiveLock, nullptr))
        DropOutboxTriggers(lfirst_oid(cell));
    EnqueueReload(root);
}

} // namespace

void RefuseAlterOfOutboxTable(const AlterTableStmt *statement, Oid relid) {
    bool is_queue = OidIsValid(OutboxSource(relid));
    List *sources = is_queue ? NIL : OutboxesOf(relid);
    ListCell *cell, *source;
    foreach (cell, is_queue || sources != NIL ? statement->cmds : NIL) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        bool drops_or_alters =
            command->subtype == AT_AlterColumnType || command->subtype == AT_DropColumn;
        if (is_queue && drops_or_alters)
            RaiseHasOutbox(psprintf("change column \"%s\" of the queue", command->name),
                           OutboxSource(relid));
        foreach (source, sources)
            if (command->subtype == AT_AlterColumnType &&
                IsIdentityColumn(lfirst_oid(source), command->name))
                RaiseHasOutbox(psprintf("alter the type of column \"%s\"", command->name),
                               lfirst_oid(source));
        if (command->subtype == AT_SetUnLogged && sources != NIL)
            RaiseHasOutbox("make the table unlogged", linitial_oid(sources));
    }
}

List *PrepareOutboxChange(const AlterTableStmt *statement, Oid relid) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    List *before = NIL;
    ListCell *cell;
    foreach (cell, MayWriteRows(statement) ? OutboxesOf(relid) : NIL) {
        OutboxStorage *storage = palloc_object(OutboxStorage);
        *storage = {.source = lfirst_oid(cell),
                    .files = ListFiles(lfirst_oid(cell)),
                    .types = ListTypes(lfirst_oid(cell), statement)};
        before = lappend(before, storage);
    }
    MemoryContextSwitchTo(caller);
    return before;
}

void FollowOutboxChange(List *before, const AlterTableStmt *statement, Oid relid) {
    ListCell *cell;
    foreach (cell, MayWriteRows(statement) ? OutboxesOf(relid) : NIL)
        if (MayHaveChanged(before, statement, lfirst_oid(cell)))
            EnqueueReload(lfirst_oid(cell));
}

void FollowDroppedColumns(List *relids) {
    List *sources = NIL;
    ListCell *cell;
    foreach (cell, relids)
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))))
            sources = list_concat_unique_oid(sources, OutboxesOf(lfirst_oid(cell)));
    EnqueueReloads(sources);
}

void FollowAlterOfOutboxTable(const AlterTableStmt *statement, Oid relid) {
    ListCell *cell;
    foreach (cell, statement->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        switch (command->subtype) {
        case AT_AttachPartition: {
            Oid partition =
                RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
            if (HasOutbox(partition))
                RaiseHasOutbox(psprintf("make \"%s\" a partition", get_rel_name(partition)),
                               partition);
            if (OidIsValid(partition))
                FollowNewPartition(partition, true);
            break;
        }
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize: {
            Oid partition =
                RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
            if (OidIsValid(partition) && HasOutbox(RootOf(relid)))
                FollowLeaving(RootOf(relid), partition);
            break;
        }
        case AT_AddInherit:
            if (HasOutbox(relid))
                RaiseHasOutbox(psprintf("have \"%s\" inherit", get_rel_name(relid)), relid);
            RefuseChildOfOutboxTable(list_make1(command->def));
            break;
        case AT_ChangeOwner:
            if (HasOutbox(relid))
                ATExecChangeOwner(QueueOf(relid), get_rolespec_oid(command->newowner, false), false,
                                  AccessExclusiveLock);
            break;
        default:
            break;
        }
    }
}

void FollowRenameOfOutboxTable(const RenameStmt *statement, Oid relid) {
    List *sources = OutboxesOf(relid);
    ListCell *cell;
    foreach (cell, sources)
        RenameOutboxColumn(lfirst_oid(cell), statement->subname, statement->newname);
    // Elsewhere a column is known by its name, which another may have had before.
    EnqueueReloads(sources);
}

void FollowNewPartition(Oid partition, bool has_rows) {
    Oid root = RootOf(partition);
    if (root == partition || !HasOutbox(root))
        return;
    AnnounceGenerated(partition);
    ListCell *cell;
    foreach (cell, find_all_inheritors(partition, NoLock, nullptr)) {
        Oid relid = lfirst_oid(cell);
        if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
            RaiseHasOutbox(psprintf("make foreign table \"%s\" a partition", get_rel_name(relid)),
                           root);
        if (get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT)
            RaiseHasOutbox(psprintf("make unlogged table \"%s\" a partition", get_rel_name(relid)),
                           root);
        CreateOutboxTriggers(relid, OutboxRole::Member);
    }
    if (has_rows)
        EnqueueReload(root);
}

void RefuseChildOfOutboxTable(List *parents) {
    ListCell *cell;
    foreach (cell, parents) {
        Oid parent = RangeVarGetRelid(lfirst_node(RangeVar, cell), NoLock, true);
        if (HasOutbox(parent) && get_rel_relkind(parent) == RELKIND_RELATION)
            RaiseHasOutbox(psprintf("inherit from \"%s\"", get_rel_name(parent)), parent);
    }
}

void RememberOutboxPartitions() {
    EnsureQueueDependencies();
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    ListCell *cell, *leaf;
    foreach (cell, ListOutboxTables()) {
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE)
            continue;
        foreach (leaf, find_all_inheritors(lfirst_oid(cell), NoLock, nullptr)) {
            OutboxPartition *partition = palloc_object(OutboxPartition);
            *partition = {.relid = lfirst_oid(leaf), .root = lfirst_oid(cell)};
            partitions = lappend(partitions, partition);
        }
    }
    MemoryContextSwitchTo(caller);
}

void ForgetDroppedOutboxTables(List *dropped) {
    ListCell *cell, *noted;
    foreach (cell, dropped) {
        Oid queue = QueueOf(lfirst_oid(cell));
        if (!OidIsValid(queue))
            continue;
        DeleteOutbox(lfirst_oid(cell));
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)))
            continue;
        ObjectAddress address;
        ObjectAddressSet(address, RelationRelationId, queue);
        performDeletion(&address, DROP_RESTRICT, 0);
    }
    foreach (cell, dropped) {
        Oid source = OutboxSource(lfirst_oid(cell));
        if (!OidIsValid(source) || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(source)))
            continue;
        // Not locked before: who writes to it waits for the queue.
        if (HasOutboxTriggers(source))
            ereport(ERROR,
                    (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
                     errmsg("cannot drop the queue of captured table \"%s\"", get_rel_name(source)),
                     errhint("Use index_table.release().")));
        // pg_restore --clean drops triggers, then queues.
        LockRelationOid(source, ShareRowExclusiveLock);
        DeleteOutbox(source);
    }
    List *reloaded = NIL;
    foreach (noted, partitions) {
        const OutboxPartition *partition = static_cast<OutboxPartition *>(lfirst(noted));
        if (!list_member_oid(dropped, partition->relid) || !HasOutbox(partition->root) ||
            list_member_oid(reloaded, partition->root))
            continue;
        EnqueueReload(partition->root);
        reloaded = lappend_oid(reloaded, partition->root);
    }
}

void AtEOXactOutbox() {
    partitions = NIL;
}

} // namespace index_table
