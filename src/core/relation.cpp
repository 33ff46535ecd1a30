#include "core/relation.h"

#include "core/compat.h"
#include "core/system_scan.h"

namespace index_table {

void RaiseDropped(Oid relid) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("relation with OID %u does not exist", relid)));
}

Relation OpenRelation(Oid relid, LOCKMODE mode) {
    Assert(OidIsValid(relid));
    Relation rel = try_relation_open(relid, mode);
    if (!rel)
        RaiseDropped(relid);
    return rel;
}

Relation TryOpenRelation(Oid relid, LOCKMODE mode) {
    Assert(mode != NoLock);
    LockRelationOid(relid, mode);
    Relation rel = RelationIdGetRelation(relid);
    if (!rel) {
        UnlockRelationOid(relid, mode);
        return nullptr;
    }
    if (RelationUsesLocalBuffers(rel))
        MyXactFlags |= XACT_FLAGS_ACCESSEDTEMPNAMESPACE;
    pgstat_init_relation(rel);
    return rel;
}

namespace {

void InsertIndexEntries(Relation rel, HeapTuple tuple) {
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
    ExecStoreHeapTuple(tuple, slot, false);
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
        IndexInfo *info = BuildIndexInfo(index);
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        FormIndexDatum(info, slot, nullptr, values, nulls);
        index_insert(index, values, nulls, &tuple->t_self, rel, UNIQUE_CHECK_NO, false, info);
        index_close(index, NoLock);
    }
    ExecDropSingleTupleTableSlot(slot);
}

} // namespace

bool InsertDeleted(Relation rel, Datum *values, bool *nulls) {
    Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
    CommandId command = GetCurrentCommandId(true);
    heap_insert(rel, tuple, command, HEAP_INSERT_FROZEN | HEAP_INSERT_NO_LOGICAL, nullptr);
    if (rel->rd_rel->relhasindex)
        InsertIndexEntries(rel, tuple);
    // What is toasted of it, too.
    bool is_deleted = compat::DeleteHeapTuple(rel, &tuple->t_self, command) == TM_Ok;
    heap_freetuple(tuple);
    return is_deleted;
}

Oid RelationOwner(Oid relid) {
    Assert(IsTransactionState());
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        RaiseDropped(relid);
    Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

bool HasUniqueIndex(Relation rel, List *attnos, MayBeNull nulls) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            continue;
        Form_pg_index form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
        bool unique = form->indisunique && form->indisvalid && form->indimmediate &&
                      heap_attisnull(tuple, Anum_pg_index_indpred, nullptr);
        for (int i = 0; unique && i < form->indnkeyatts; i++) {
            AttrNumber attno = form->indkey.values[i];
            unique = list_member_int(attnos, attno) &&
                     (nulls == MayBeNull::Yes || compat::HoldsNoNull(RelationGetDescr(rel), attno));
        }
        ReleaseSysCache(tuple);
        if (unique)
            return true;
    }
    return false;
}

List *MapColumns(List *attnos, const AttrMap *map) {
    if (!map)
        return attnos;
    List *mapped = NIL;
    ListCell *cell;
    foreach (cell, attnos)
        mapped = lappend_int(mapped, map->attnums[lfirst_int(cell) - 1]);
    return mapped;
}

List *MapColumns(List *attnos, Relation from, Relation to) {
    return MapColumns(attnos,
                      compat::MapColumnsByName(RelationGetDescr(to), RelationGetDescr(from)));
}

bool FindParent(Oid partition, Parent *parent) {
    Assert(IsTransactionState());
    SystemScan scan(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid,
                    partition);
    HeapTuple tuple = scan.Next();
    bool is_found = HeapTupleIsValid(tuple);
    if (is_found) {
        Form_pg_inherits form = reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple));
        *parent = {.relid = form->inhparent,
                   .is_detach_pending = form->inhdetachpending,
                   .changed_by = HeapTupleHeaderGetXmin(tuple->t_data)};
    }
    scan.End();
    return is_found;
}

Oid RootOf(Oid relid) {
    Assert(IsTransactionState());
    while (get_rel_relispartition(relid)) {
        Parent parent;
        if (!FindParent(relid, &parent))
            break;
        relid = parent.relid;
    }
    return relid;
}

} // namespace index_table
