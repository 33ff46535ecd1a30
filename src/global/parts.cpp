#include "global/parts.h"

#include "core/public.h"
#include "global/child_index.h"
#include "global/enter_rows.h"
#include "global/storage.h"

namespace index_table {
namespace {

// The statement for a part, from what it is a part of. That of a partitioned table is made alone.
IndexStmt *StatementOf(Relation table, Oid parent) {
    Relation above_index = index_open(parent, ShareUpdateExclusiveLock); // as it will be locked
    Relation above = table_open(above_index->rd_index->indrelid, AccessShareLock);
    AttrMap *map = compat::MapAllColumnsByName(RelationGetDescr(table), RelationGetDescr(above));
    Oid constraint;
    IndexStmt *statement = generateClonedIndexStmt(nullptr, above_index, map, &constraint);
    if (table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) {
        statement->relation = makeRangeVar(get_namespace_name(RelationGetNamespace(table)),
                                           pstrdup(RelationGetRelationName(table)), -1);
        statement->relation->inh = false;
    }
    table_close(above, NoLock);
    index_close(above_index, NoLock);
    return statement;
}

void MarkValid(Oid index) {
    if (!get_index_isvalid(index))
        index_set_state_flags(index, INDEX_CREATE_SET_VALID);
}

} // namespace

bool IsStranger(const GlobalIndex &index, Oid child_oid) {
    if (get_rel_relkind(child_oid) != RELKIND_INDEX ||
        !ConditionalLockRelationOid(child_oid, AccessShareLock))
        return false;
    bool is_stranger = false;
    if (Relation child = compat::TryOpenIndex(child_oid)) {
        is_stranger = !BelongsTo(child, index.storage);
        index_close(child, NoLock);
    }
    UnlockRelationOid(child_oid, AccessShareLock);
    return is_stranger;
}

Oid FindParentOfPart(const GlobalIndex &index, Oid table) {
    Parent parent;
    if (!FindParent(table, &parent) || parent.is_detach_pending)
        return InvalidOid;
    return FindPart(index, parent.relid);
}

Oid FindPart(const GlobalIndex &index, Oid table_oid) {
    if (table_oid == IndexGetRelation(index.root, true))
        return index.root;
    Oid parent = FindParentOfPart(index, table_oid);
    if (!OidIsValid(parent))
        return InvalidOid;
    Relation table = table_open(table_oid, AccessShareLock);
    Oid part = index_get_partition(table, parent);
    table_close(table, NoLock);
    return part;
}

Oid MakePart(Oid table_oid, Oid parent) {
    FAULT_POINT("parts.make_part");
    Relation table = table_open(table_oid, ShareLock);
    IndexStmt *statement = StatementOf(table, parent);
    table_close(table, NoLock);
    Oid part = InvalidOid;
    LeaveRowsOut(table_oid);
    PG_TRY();
    { part = compat::DefineIndexForOwner(table_oid, statement, parent); }
    PG_FINALLY();
    { LeaveRowsOut(InvalidOid); }
    PG_END_TRY();
    CommandCounterIncrement();
    return part;
}

List *ListUnfinished(const GlobalIndex &index) {
    List *finished = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(index.root, NoLock, nullptr))
        if (!IsStranger(index, lfirst_oid(cell)))
            finished = lappend_oid(finished, IndexGetRelation(lfirst_oid(cell), true));
    Oid base = IndexGetRelation(index.root, true);
    List *tables = OidIsValid(base) ? find_all_inheritors(base, NoLock, nullptr) : NIL;
    return list_difference_oid(tables, finished);
}

void MakeMissingParts(const GlobalIndex &index) {
    ListCell *cell;
    foreach (cell, ListUnfinished(index)) {
        Oid table = lfirst_oid(cell);
        Oid parent = FindParentOfPart(index, table);
        if (OidIsValid(parent) && !OidIsValid(FindPart(index, table)))
            MakePart(table, parent);
    }
}

void MarkComplete(const GlobalIndex &index) {
    FAULT_POINT("parts.mark_complete");
    LockPart(index.tree, LockedPart::Build, ExclusiveLock); // partitions may be joining
    MarkValid(index.tree);
    ListCell *cell;
    foreach (cell, find_all_inheritors(index.root, NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_PARTITIONED_INDEX)
            MarkValid(lfirst_oid(cell));
    CommandCounterIncrement();
    CacheInvalidateRelcacheByRelid(IndexGetRelation(index.root, false));
}

} // namespace index_table
