// What DDL does to captured tables.
#include "catalog/public.h"
#include "core/public.h"
#include "outbox/outbox.h"

namespace index_table {
namespace {

struct CapturedPartition {
    Oid relid;
    Oid root;
};

constinit List *partitions = NIL; // of CapturedPartition, before something is dropped; memory of
                                  // the transaction

[[noreturn]] void RaiseCaptured(const char *action, Oid captured) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot %s because table \"%s\" is captured", action, get_rel_name(captured)),
             errhint("End that with index_table.release(), and capture it again "
                     "afterwards; then repair its index tables.")));
}

bool IsCaptured(Oid relid) {
    return OidIsValid(relid) && OidIsValid(QueueOf(relid));
}

bool IsIdentityColumn(Oid captured, const char *name) {
    ListCell *cell;
    foreach (cell, CapturedIdentity(captured))
        if (strcmp(static_cast<const char *>(lfirst(cell)), name) == 0)
            return true;
    return false;
}

// Whether a table is captured with another, or is a captured partition of it.
bool IsCapturedBelow(Oid captured, Oid relid) {
    return captured == relid || (get_rel_relispartition(captured) &&
                                 list_member_oid(get_partition_ancestors(captured), relid));
}

// A partition that has left the captured table `root`.
void FollowLeaving(Oid root, Oid partition) {
    if (IsCaptured(RootOf(partition)))
        return; // not yet
    ListCell *cell;
    foreach (cell, find_all_inheritors(partition, AccessExclusiveLock, nullptr))
        DropCaptureTriggers(lfirst_oid(cell));
    EnqueueReload(root);
}

} // namespace

void RefuseAlterOfCaptured(const AlterTableStmt *statement, Oid relid) {
    bool is_queue = OidIsValid(CapturedBy(relid));
    Oid captured = CapturedRoot(relid);
    List *all = OidIsValid(captured) || is_queue ? NIL : ListCaptured();
    ListCell *cell;
    foreach (cell, all) // a partition of it, by itself
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))) &&
            IsCapturedBelow(lfirst_oid(cell), relid))
            captured = lfirst_oid(cell);
    if (!is_queue && !OidIsValid(captured))
        return;
    foreach (cell, statement->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        bool drops_or_alters =
            command->subtype == AT_AlterColumnType || command->subtype == AT_DropColumn;
        if (is_queue && drops_or_alters)
            RaiseCaptured(psprintf("change column \"%s\" of the queue", command->name),
                          CapturedBy(relid));
        if (is_queue)
            continue;
        if (command->subtype == AT_AlterColumnType && IsIdentityColumn(captured, command->name))
            RaiseCaptured(psprintf("alter the type of column \"%s\"", command->name), captured);
        if (command->subtype == AT_SetUnLogged)
            RaiseCaptured("make the table unlogged", captured);
    }
}

void FollowAlterOfCaptured(const AlterTableStmt *statement, Oid relid) {
    ListCell *cell;
    foreach (cell, statement->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        switch (command->subtype) {
        case AT_AttachPartition: {
            Oid partition =
                RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
            if (IsCaptured(partition))
                RaiseCaptured(psprintf("make \"%s\" a partition", get_rel_name(partition)),
                              partition);
            if (OidIsValid(partition))
                FollowNewPartition(partition, true);
            break;
        }
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize: {
            Oid partition =
                RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
            if (OidIsValid(partition) && IsCaptured(RootOf(relid)))
                FollowLeaving(RootOf(relid), partition);
            break;
        }
        case AT_AddInherit:
            if (IsCaptured(relid))
                RaiseCaptured(psprintf("have \"%s\" inherit", get_rel_name(relid)), relid);
            RefuseChildOfCaptured(list_make1(command->def));
            break;
        case AT_ChangeOwner:
            if (IsCaptured(relid))
                ATExecChangeOwner(QueueOf(relid), get_rolespec_oid(command->newowner, false), false,
                                  AccessExclusiveLock);
            break;
        default:
            break;
        }
    }
}

void FollowRenameOfCaptured(const RenameStmt *statement) {
    if (statement->renameType != OBJECT_COLUMN || !statement->relation)
        return;
    Oid relid = RangeVarGetRelid(statement->relation, NoLock, true);
    ListCell *cell;
    foreach (cell, OidIsValid(relid) ? ListCaptured() : NIL)
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))) &&
            IsCapturedBelow(lfirst_oid(cell), relid))
            RenameCapturedColumn(lfirst_oid(cell), statement->subname, statement->newname);
}

void FollowNewPartition(Oid partition, bool has_rows) {
    Oid root = RootOf(partition);
    if (root == partition || !IsCaptured(root))
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(partition, NoLock, nullptr)) {
        Oid relid = lfirst_oid(cell);
        if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
            RaiseCaptured(psprintf("make foreign table \"%s\" a partition", get_rel_name(relid)),
                          root);
        if (get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT)
            RaiseCaptured(psprintf("make unlogged table \"%s\" a partition", get_rel_name(relid)),
                          root);
        CreateCaptureTriggers(relid, CapturedAs::Member);
    }
    if (has_rows)
        EnqueueReload(root);
}

void RefuseChildOfCaptured(List *parents) {
    ListCell *cell;
    foreach (cell, parents) {
        Oid parent = RangeVarGetRelid(lfirst_node(RangeVar, cell), NoLock, true);
        if (IsCaptured(parent) && get_rel_relkind(parent) == RELKIND_RELATION)
            RaiseCaptured(psprintf("inherit from \"%s\"", get_rel_name(parent)), parent);
    }
}

void NoteCapturedPartitions() {
    EnsureQueueDependencies();
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    ListCell *cell, *leaf;
    foreach (cell, ListCaptured()) {
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE)
            continue;
        foreach (leaf, find_all_inheritors(lfirst_oid(cell), NoLock, nullptr)) {
            CapturedPartition *partition = palloc_object(CapturedPartition);
            *partition = {.relid = lfirst_oid(leaf), .root = lfirst_oid(cell)};
            partitions = lappend(partitions, partition);
        }
    }
    MemoryContextSwitchTo(caller);
}

void ForgetDroppedCaptured(List *dropped) {
    ListCell *cell, *noted;
    foreach (cell, dropped) {
        Oid queue = QueueOf(lfirst_oid(cell));
        if (!OidIsValid(queue))
            continue;
        DeleteCaptured(lfirst_oid(cell));
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)))
            continue;
        ObjectAddress address;
        ObjectAddressSet(address, RelationRelationId, queue);
        performDeletion(&address, DROP_RESTRICT, 0);
    }
    foreach (cell, dropped) {
        Oid captured = CapturedBy(lfirst_oid(cell));
        if (OidIsValid(captured) && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(captured)))
            ereport(ERROR, (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
                            errmsg("cannot drop the queue of captured table \"%s\"",
                                   get_rel_name(captured)),
                            errhint("Use index_table.release().")));
    }
    List *reloaded = NIL;
    foreach (noted, partitions) {
        const CapturedPartition *partition = static_cast<CapturedPartition *>(lfirst(noted));
        if (!list_member_oid(dropped, partition->relid) || !IsCaptured(partition->root) ||
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
