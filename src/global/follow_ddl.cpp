#include "global/follow_ddl.h"

#include "core/public.h"
#include "global/child_index.h"
#include "global/online_build.h"
#include "global/operator_classes.h"
#include "global/parts.h"
#include "global/storage.h"
#include "global/sweep.h"

namespace index_table {
namespace {

bool IsRoot(Oid index) {
    return get_rel_relkind(index) == RELKIND_PARTITIONED_INDEX && !get_rel_relispartition(index) &&
           AccessMethodOf(index) == GlobalMethod();
}

// The table of what is attached: a table, or an index of one.
Oid TableOf(Oid relid) {
    char kind = get_rel_relkind(relid);
    return kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX
               ? IndexGetRelation(relid, true)
               : relid;
}

// The command of this transaction that has made a row of a catalog; nothing where it is older.
std::optional<CommandId> CommandOf(HeapTuple tuple) {
    if (!HeapTupleIsValid(tuple) ||
        !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
        return std::nullopt;
    return HeapTupleHeaderGetCmin(tuple->t_data);
}

// Since when a table is a partition of what it is directly a partition of.
std::optional<CommandId> CommandOfAttach(Oid partition) {
    SystemScan scan(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid,
                    partition);
    std::optional<CommandId> command = CommandOf(scan.Next());
    scan.End();
    return command;
}

// ATTACH makes the indexes that are missing after it has made a table a partition, and those have
// entered its rows. Others come as they were, maybe part of the same global index not long ago.
bool IsMadeByAttach(Oid child, Oid attached) {
    HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(child));
    std::optional<CommandId> made = CommandOf(tuple);
    if (HeapTupleIsValid(tuple))
        ReleaseSysCache(tuple);
    std::optional<CommandId> since = CommandOfAttach(attached);
    return made && since && *made >= *since;
}

// Children that have been attached as they were enter the rows of their partitions.
void EnterAttached(Oid root, Oid attached) {
    FAULT_POINT("follow_ddl.enter_attached");
    ListCell *cell;
    foreach (cell, find_all_inheritors(attached, NoLock, nullptr)) {
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_RELATION)
            continue;
        Relation leaf = table_open(lfirst_oid(cell), AccessShareLock);
        ListCell *index_cell;
        foreach (index_cell, RelationGetIndexList(leaf)) {
            Oid oid = lfirst_oid(index_cell);
            if (AccessMethodOf(oid) != GlobalMethod())
                continue;
            Relation child = index_open(oid, AccessShareLock);
            bool enters = RootIndexOf(child) == root && !IsMadeByAttach(oid, attached);
            char persistence = child->rd_rel->relpersistence;
            index_close(child, NoLock);
            if (enters)
                compat::ReindexIndex(oid, persistence);
        }
        table_close(leaf, NoLock);
    }
    DropFormerStorages(root);
}

// What has a tree. One that is not complete, because an online build goes on or was interrupted,
// takes entries, too; where somebody has made its root valid it is built anew.
void FollowIndexWithTree(const GlobalIndex &index, Oid attached) {
    bool is_valid = get_index_isvalid(index.root);
    if (is_valid && !IsComplete(index) && !IsBeingBuilt(index.root)) {
        LockIndexedTables(index.root, ShareLock);
        RebuildGlobalIndex(index.root);
        return;
    }
    if (is_valid && IsComplete(index) && !IsInPlace(index.root)) {
        LockIndexedTables(index.root, ShareLock);
        MoveTree(index.root);
    }
    if (OidIsValid(attached))
        EnterAttached(index.root, attached);
}

// Builds those of a table's global indexes that have no tree, and looks after the others. A table
// without any is not locked: who is changing a partition would wait for who changes the table, and
// may come to the partition next.
void CompleteIndexesOf(Oid base_oid, Oid attached, Children children) {
    if (get_rel_relkind(base_oid) != RELKIND_PARTITIONED_TABLE || !HasGlobalIndex(base_oid))
        return;
    Relation base = table_open(base_oid, AccessShareLock);
    ListCell *cell;
    foreach (cell, RelationGetIndexList(base)) {
        Oid root = lfirst_oid(cell);
        if (!IsRoot(root))
            continue;
        if (std::optional<GlobalIndex> index = FindGlobalIndex(root)) {
            FollowIndexWithTree(*index, attached);
        } else if (get_index_isvalid(root)) {
            LockIndexedTables(root, ShareLock);
            BuildGlobalIndex(root, children);
        }
    }
    table_close(base, NoLock);
}

// Partitioned tables below whose own indexes a command has made anew, as ALTER COLUMN TYPE does, it
// has locked.
void CompleteIndexesBelow(Oid table) {
    Relation rel = table_open(table, AccessShareLock);
    PartitionDesc partitions = RelationGetPartitionDesc(rel, true);
    for (int i = 0; i < partitions->nparts; i++) {
        Oid partition = partitions->oids[i];
        if (partitions->is_leaf[i] ||
            !CheckRelationOidLockedByMe(partition, AccessExclusiveLock, true))
            continue;
        CompleteIndexesOf(partition, InvalidOid, Children::New);
        CompleteIndexesBelow(partition);
    }
    table_close(rel, NoLock);
}

// The entries of a leaf are about to be stale.
void ReportLeavingLeaf(Oid partition) {
    Relation rel = try_relation_open(partition, AccessShareLock);
    if (!rel)
        return;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        if (AccessMethodOf(lfirst_oid(cell)) != GlobalMethod())
            continue;
        Relation child = index_open(lfirst_oid(cell), AccessShareLock);
        Oid oid = GetChildState(child)->storage;
        Relation storage = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : nullptr;
        if (storage) {
            if (IsStorage(storage))
                ReportStale(storage, static_cast<int64>(Max(rel->rd_rel->reltuples, 0)));
            relation_close(storage, AccessShareLock);
        }
        index_close(child, AccessShareLock);
    }
    relation_close(rel, AccessShareLock);
}

// The relation that REINDEX INDEX or TABLE names; InvalidOid: another form.
Oid ReindexedRelation(const ReindexStmt *statement) {
    return statement->relation && (statement->kind == REINDEX_OBJECT_INDEX ||
                                   statement->kind == REINDEX_OBJECT_TABLE)
               ? RangeVarGetRelid(statement->relation, NoLock, true)
               : InvalidOid;
}

// Nobody who writes to the indexed table would be locked out.
void RefuseReindexOfStorage(Oid relid) {
    bool is_index = get_rel_relkind(relid) == RELKIND_INDEX;
    Oid method = AccessMethodOf(is_index ? IndexGetRelation(relid, true) : relid);
    if (OidIsValid(method) && method == get_table_am_oid(kStorageMethod, true))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot reindex \"%s\", which stores a global index", get_rel_name(relid)),
                 errhint("REINDEX the global index.")));
}

[[noreturn]] void RaiseConcurrent() {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot reindex global indexes concurrently"),
                    errhint("Use REINDEX without CONCURRENTLY for them, and CONCURRENTLY for other "
                            "indexes one by one.")));
}

void RefuseWhileBuilt(Oid root) {
    if (IsBeingBuilt(root))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                        errmsg("global index \"%s\" is being built", get_rel_name(root)),
                        errhint("Wait until CREATE INDEX CONCURRENTLY is over; the view "
                                "index_table.progress shows how far it is.")));
}

bool IsConcurrent(const ReindexStmt *statement) {
    ListCell *cell;
    bool concurrent = false;
    foreach (cell, statement->params) {
        DefElem *option = lfirst_node(DefElem, cell);
        if (strcmp(option->defname, "concurrently") == 0)
            concurrent = defGetBoolean(option);
    }
    return concurrent;
}

// Of REINDEX INDEX of a whole index, all whose parts are in one tablespace. Whether it is to tell.
bool ReadOptions(const ReindexStmt *statement) {
    bool is_verbose = false;
    ListCell *cell;
    foreach (cell, statement->params) {
        DefElem *option = lfirst_node(DefElem, cell);
        if (strcmp(option->defname, "verbose") == 0) {
            is_verbose = defGetBoolean(option);
        } else if (strcmp(option->defname, "tablespace") == 0) {
            get_tablespace_oid(defGetString(option), false);
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("cannot move a global index by REINDEX"),
                            errhint("Use ALTER INDEX ... SET TABLESPACE.")));
        } else if (strcmp(option->defname, "concurrently") != 0) {
            ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
                            errmsg("unrecognized REINDEX option \"%s\"", option->defname)));
        }
    }
    return is_verbose;
}

bool HasGlobal(Oid relid) {
    if (get_rel_relkind(relid) == RELKIND_INDEX ||
        get_rel_relkind(relid) == RELKIND_PARTITIONED_INDEX)
        return AccessMethodOf(relid) == GlobalMethod();
    Relation rel = try_relation_open(relid, AccessShareLock);
    if (!rel)
        return false;
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel))
        found = found || AccessMethodOf(lfirst_oid(cell)) == GlobalMethod();
    relation_close(rel, NoLock);
    return found;
}

// Whether a partition, at any level, has one that its table need not have.
bool HasGlobalBelow(Oid relid) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
        if (HasGlobal(lfirst_oid(cell)))
            return true;
    return false;
}

// Of a schema, or, InvalidOid, of the database.
bool HasGlobalIn(Oid schema) {
    SystemScan scan(RelationRelationId);
    bool found = false;
    while (auto form = found ? nullptr : scan.Next<Form_pg_class>())
        found = form->relam == GlobalMethod() && form->relkind == RELKIND_INDEX &&
                (!OidIsValid(schema) || form->relnamespace == schema);
    scan.End();
    return found;
}

// PostgreSQL would not know before it has made copies of other indexes, and would leave them.
void RefuseConcurrentReindex(const ReindexStmt *statement, Oid relid) {
    if (!IsConcurrent(statement))
        return;
    bool has_global = false;
    if (OidIsValid(relid))
        has_global = HasGlobalBelow(relid);
    else if (statement->kind == REINDEX_OBJECT_DATABASE)
        has_global = HasGlobalIn(InvalidOid);
    else if (statement->kind == REINDEX_OBJECT_SCHEMA)
        if (Oid schema = get_namespace_oid(statement->name, true); OidIsValid(schema))
            has_global = HasGlobalIn(schema);
    if (has_global)
        RaiseConcurrent();
}

// Rows get other addresses, and entries of them would be made for the copy that PostgreSQL drops.
void RefuseConcurrentRepack(const RangeVar *table) {
    Oid relid = RangeVarGetRelid(table, NoLock, true);
    if (!OidIsValid(relid) || !HasGlobalBelow(relid))
        return;
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot repack \"%s\" concurrently, which has a global index", table->relname),
             errhint("Use REPACK without CONCURRENTLY.")));
}

// The roots that ALTER INDEX ALL IN TABLESPACE is about to move.
List *ListMoved(const AlterTableMoveAllStmt *statement) {
    Oid from = get_tablespace_oid(statement->orig_tablespacename, true);
    List *owners = roleSpecsToIds(statement->roles);
    List *moved = NIL;
    ListCell *cell;
    foreach (cell, ListGlobalRoots()) {
        Oid root = lfirst_oid(cell);
        Oid space = get_rel_tablespace(root);
        if ((OidIsValid(space) ? space : MyDatabaseTableSpace) == from &&
            (owners == NIL || list_member_oid(owners, RelationOwner(root))) &&
            compat::OwnsRelation(root))
            moved = lappend_oid(moved, root);
    }
    return moved;
}

void LockAtOnce(Oid relid) {
    if (!ConditionalLockRelationOid(relid, ShareLock))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                        errmsg("aborting because lock on relation \"%s.%s\" is not available",
                               get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid))));
}

} // namespace

void LockBeforeMoveAll(const AlterTableMoveAllStmt *statement) {
    if (statement->objtype != OBJECT_INDEX || !OidIsValid(GlobalMethod()))
        return;
    ListCell *cell, *table;
    foreach (cell, ListMoved(statement)) {
        Oid base = IndexGetRelation(lfirst_oid(cell), true);
        if (!OidIsValid(base))
            continue;
        if (statement->nowait) {
            LockAtOnce(base);
            foreach (table, find_all_inheritors(base, NoLock, nullptr))
                LockAtOnce(lfirst_oid(table));
        }
        LockIndexedTables(lfirst_oid(cell), ShareLock);
    }
}

void FollowMoveAll(const AlterTableMoveAllStmt *statement) {
    if (statement->objtype != OBJECT_INDEX || !OidIsValid(GlobalMethod()))
        return;
    ListCell *cell;
    foreach (cell, ListGlobalRoots())
        if (CheckRelationOidLockedByMe(lfirst_oid(cell), AccessExclusiveLock, true))
            CompleteGlobalIndexes(lfirst_oid(cell), InvalidOid);
}

void CompleteGlobalIndexes(Oid relid, Oid attached, Children children) {
    if (!OidIsValid(relid) || !OidIsValid(GlobalMethod()))
        return;
    if (IsBinaryUpgrade)
        return;
    attached = OidIsValid(attached) ? TableOf(attached) : InvalidOid;
    Oid table = TableOf(relid);
    CompleteIndexesOf(table, attached, children);
    ListCell *cell;
    foreach (cell, get_partition_ancestors(table))
        CompleteIndexesOf(lfirst_oid(cell), attached, children);
    if (!OidIsValid(attached) && get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE)
        CompleteIndexesBelow(table);
}

void ReportLeaving(Oid partition) {
    if (!OidIsValid(partition) || !OidIsValid(GlobalMethod()))
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(partition, NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
            ReportLeavingLeaf(lfirst_oid(cell));
}

bool ReindexGlobal(Node *command) {
    if (const RangeVar *table = compat::RepackedConcurrently(command);
        table && OidIsValid(GlobalMethod()))
        RefuseConcurrentRepack(table);
    if (!IsA(command, ReindexStmt) || !OidIsValid(GlobalMethod()))
        return false;
    const auto *statement = reinterpret_cast<ReindexStmt *>(command);
    Oid relid = ReindexedRelation(statement);
    RefuseConcurrentReindex(statement, relid);
    if (!OidIsValid(relid))
        return false;
    RefuseReindexOfStorage(relid);
    if (!HasGlobal(relid))
        return false;
    if (statement->kind != REINDEX_OBJECT_INDEX || !IsRoot(relid))
        return false;
    std::optional<GlobalIndex> index = FindGlobalIndex(relid);
    if (!index && !get_index_isvalid(relid)) // made ON ONLY: its parts are yet to be attached
        return false;
    if (!compat::OwnsRelation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(relid));
    PreventCommandIfReadOnly("REINDEX");
    PreventCommandDuringRecovery("REINDEX");
    bool is_verbose = ReadOptions(statement);
    RebuildWholeIndex(relid);
    if (is_verbose)
        ereport(INFO, (errmsg("index \"%s\" was reindexed", get_rel_name(relid))));
    return true;
}

void RebuildWholeIndex(Oid root) {
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    if (index && !IsComplete(*index))
        RefuseWhileBuilt(root);
    LockIndexedTables(root, ShareLock);
    PushActiveSnapshot(GetTransactionSnapshot());
    // Whoever has dropped it meanwhile, or completed it, is through now.
    index = FindGlobalIndex(root);
    if (index && !IsComplete(*index))
        MakeMissingParts(*index);
    RebuildGlobalIndex(root);
    index = FindGlobalIndex(root);
    if (index && !IsComplete(*index))
        MarkComplete(*index);
    PopActiveSnapshot();
}

void RefuseConcurrentCopy(Oid relid) {
    auto is_concurrent = [](Form_pg_index form) { return !form->indisready && !form->indisvalid; };
    auto is_global = [](Form_pg_class form) {
        return form->relkind == RELKIND_INDEX && form->relam == GlobalMethod();
    };
    if (LookAtNew<Form_pg_index>(IndexRelationId, IndexRelidIndexId, Anum_pg_index_indexrelid,
                                 relid, is_concurrent) &&
        LookAtNew<Form_pg_class>(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid,
                                 is_global))
        RaiseConcurrent();
}

void FollowMove(Oid relid) {
    if (get_rel_relkind(relid) != RELKIND_INDEX || AccessMethodOf(relid) != GlobalMethod())
        return;
    Relation child = index_open(relid, AccessShareLock);
    LookAtNew<Form_pg_class>(
        RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid, [&](Form_pg_class form) {
            Oid tablespace = form->reltablespace;
            if (tablespace != child->rd_rel->reltablespace)
                WriteCopiedFile(child, OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace,
                                form->relfilenode);
            return true;
        });
    index_close(child, NoLock);
}

} // namespace index_table
