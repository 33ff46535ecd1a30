#include "maintenance/storage.h"

namespace index_table {

List *StorageOf(Oid index_table, LOCKMODE mode) {
    List *relations = NIL;
    ListCell *cell;
    foreach (cell, find_all_inheritors(index_table, mode, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
            relations = lappend_oid(relations, lfirst_oid(cell));
    return relations;
}

EntryStorage GetStorage(Relation index_table) {
    Assert(CheckRelationLockedByMe(index_table, AccessShareLock, true));
    if (index_table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return {.root = index_table, .count = 1};
    PartitionDesc partitions = RelationGetPartitionDesc(index_table, true);
    return {.root = index_table,
            .partition_key = RelationGetPartitionKey(index_table),
            .partitions = partitions,
            .count = partitions->nparts};
}

Relation OpenPart(const EntryStorage &storage, int place) {
    return storage.partition_key ? table_open(storage.partitions->oids[place], RowExclusiveLock)
                                 : storage.root;
}

void ClosePart(const EntryStorage &storage, Relation rel) {
    if (rel != storage.root)
        table_close(rel, NoLock);
}

int FindPlace(const EntryStorage &storage, Datum value, bool isnull) {
    PartitionKey key = storage.partition_key;
    Assert(key);
    uint64 hash = compute_partition_hash_value(key->partnatts, key->partsupfunc, key->partcollation,
                                               &value, &isnull);
    PartitionBoundInfo bounds = storage.partitions->boundinfo;
    return bounds ? bounds->indexes[hash % bounds->nindexes] : -1;
}

int RouteValue(const EntryStorage &storage, Datum value, bool isnull) {
    int place = FindPlace(storage, value, isnull);
    if (place < 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("a partition of the index table is missing"),
                        errhint("Drop the index table and create it again.")));
    return place;
}

ResultRelInfo *OpenForExecutor(EState *estate, Relation rel, bool speculative) {
    compat::InitRangeTable(estate, rel);
    // Under REPEATABLE READ PostgreSQL 19 fetches what conflicts by it. Whether that counts is for
    // callers to say, in every version.
    estate->es_snapshot = SnapshotAny;
    ResultRelInfo *relinfo = makeNode(ResultRelInfo);
    InitResultRelInfo(relinfo, rel, 1, nullptr, 0);
    ExecOpenIndices(relinfo, speculative);
    return relinfo;
}

void CloseForExecutor(EState *estate, ResultRelInfo *relinfo) {
    ExecResetTupleTable(estate->es_tupleTable, false);
    ExecCloseIndices(relinfo);
    FreeExecutorState(estate);
}

} // namespace index_table
