#include "core/router.h"

#include "core/compat.h"

namespace index_table {

// A partitioned table.
struct RoutedTable {
    RoutedTable *next;
    Relation rel;
    PartitionKey key;
    PartitionDesc partitions;
    bool is_determined; // the known columns are all that its partition key has
    int *places;        // of the partition key's columns among the known ones
};

namespace {

bool FindPlaces(const Router *router, RoutedTable *table) {
    const AttrMap *map =
        compat::MapColumnsByName(RelationGetDescr(table->rel), RelationGetDescr(router->root));
    for (int i = 0; i < table->key->partnatts; i++) {
        table->places[i] = -1;
        for (int j = 0; table->key->partattrs[i] != 0 && j < router->column_count; j++) {
            AttrNumber attno = router->columns[j];
            if ((map ? map->attnums[attno - 1] : attno) == table->key->partattrs[i])
                table->places[i] = j;
        }
        if (table->places[i] < 0)
            return false;
    }
    return true;
}

// Null where its lock is not available and is not waited for.
RoutedTable *OpenTable(Router *router, Oid relid) {
    for (RoutedTable *table = router->tables; table; table = table->next)
        if (RelationGetRelid(table->rel) == relid)
            return table;
    if (!router->no_wait)
        LockRelationOid(relid, AccessShareLock);
    else if (!ConditionalLockRelationOid(relid, AccessShareLock)) {
        router->is_busy = true;
        return nullptr;
    }
    MemoryContext caller = MemoryContextSwitchTo(router->memory);
    RoutedTable *table = palloc0_object(RoutedTable);
    table->rel = table_open(relid, NoLock);
    table->key = RelationGetPartitionKey(table->rel);
    table->partitions = RelationGetPartitionDesc(table->rel, false);
    table->places = palloc_array(int, table->key->partnatts);
    table->is_determined = FindPlaces(router, table);
    table->next = router->tables;
    router->tables = table;
    MemoryContextSwitchTo(caller);
    return table;
}

// As get_partition_for_tuple(); -1: none takes it.
int FindPartitionIndex(const RoutedTable *table, const Datum *known, const bool *known_nulls) {
    PartitionKey key = table->key;
    PartitionBoundInfo bounds = table->partitions->boundinfo;
    Datum values[PARTITION_MAX_KEYS];
    bool nulls[PARTITION_MAX_KEYS];
    bool has_null = false;
    for (int i = 0; i < key->partnatts; i++) {
        values[i] = known[table->places[i]];
        nulls[i] = known_nulls[table->places[i]];
        has_null = has_null || nulls[i];
    }
    bool is_equal = false;
    int found = -1;
    if (table->partitions->nparts == 0)
        return -1;
    switch (key->strategy) {
    case PARTITION_STRATEGY_HASH:
        return bounds->indexes[compute_partition_hash_value(key->partnatts, key->partsupfunc,
                                                            key->partcollation, values, nulls) %
                               bounds->nindexes];
    case PARTITION_STRATEGY_LIST:
        if (has_null) {
            found = bounds->null_index;
            break;
        }
        found = partition_list_bsearch(key->partsupfunc, key->partcollation, bounds, values[0],
                                       &is_equal);
        found = found >= 0 && is_equal ? bounds->indexes[found] : -1;
        break;
    case PARTITION_STRATEGY_RANGE:
        if (!has_null) {
            found = partition_range_datum_bsearch(key->partsupfunc, key->partcollation, bounds,
                                                  key->partnatts, values, &is_equal);
            found = bounds->indexes[found + 1];
        }
        break;
    default:
        elog(ERROR, "unexpected partition strategy: %d", static_cast<int>(key->strategy));
    }
    return found >= 0 ? found : bounds->default_index;
}

List *FindBelow(Router *router, Oid relid, const Datum *values, const bool *nulls, List *leaves) {
    RoutedTable *table = OpenTable(router, relid);
    if (!table)
        return leaves;
    auto add = [&](int partition) {
        Oid child = table->partitions->oids[partition];
        leaves = table->partitions->is_leaf[partition]
                     ? lappend_oid(leaves, child)
                     : FindBelow(router, child, values, nulls, leaves);
    };
    if (!table->is_determined) {
        for (int i = 0; i < table->partitions->nparts; i++)
            add(i);
        return leaves;
    }
    int partition = FindPartitionIndex(table, values, nulls);
    if (partition >= 0)
        add(partition);
    // What another partition takes may have been there before that was made.
    const PartitionBoundInfo bounds = table->partitions->boundinfo;
    if (bounds && bounds->default_index >= 0 && bounds->default_index != partition)
        add(bounds->default_index);
    return leaves;
}

} // namespace

void BeginRouter(Router *router, Relation root, const AttrNumber *columns, int count) {
    *router = {.root = root,
               .column_count = count,
               .columns = columns,
               .memory = CurrentMemoryContext,
               .tables = nullptr,
               .no_wait = false,
               .is_busy = false};
}

List *FindRoute(Router *router, const Datum *values, const bool *nulls) {
    if (router->root->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return list_make1_oid(RelationGetRelid(router->root));
    return FindBelow(router, RelationGetRelid(router->root), values, nulls, NIL);
}

void EndRouter(Router *router) {
    for (RoutedTable *table = router->tables; table; table = table->next)
        table_close(table->rel, NoLock);
}

} // namespace index_table
