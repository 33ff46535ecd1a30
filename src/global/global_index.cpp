#include "global/global_index.h"

#include "core/public.h"
#include "global/storage.h"

namespace index_table {

Oid AccessMethodOf(Oid index) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return InvalidOid;
    Oid method = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relam;
    ReleaseSysCache(tuple);
    return method;
}

Oid GlobalMethod() {
    return get_am_oid(kGlobalMethod, true);
}

std::optional<GlobalIndex> FindGlobalIndex(Oid root) {
    GlobalIndex index = {.root = root};
    index.storage = get_relname_relid(StorageName(root).data, PG_TOAST_NAMESPACE);
    index.tree = OidIsValid(index.storage)
                     ? get_relname_relid(TreeName(root).data, PG_TOAST_NAMESPACE)
                     : InvalidOid;
    if (!OidIsValid(index.tree))
        return std::nullopt;
    return index;
}

bool IsComplete(const GlobalIndex &index) {
    return get_index_isvalid(index.root) && get_index_isvalid(index.tree);
}

namespace {

template <typename Filter>
List *ListRoots(Relation base, Filter filter) {
    List *roots = NIL;
    Oid method = GlobalMethod();
    if (!OidIsValid(method) || base->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return NIL;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(base)) {
        Oid root = lfirst_oid(cell);
        if (AccessMethodOf(root) != method || get_rel_relkind(root) != RELKIND_PARTITIONED_INDEX ||
            get_rel_relispartition(root))
            continue;
        std::optional<GlobalIndex> index = FindGlobalIndex(root);
        if (index && filter(*index))
            roots = lappend_oid(roots, root);
    }
    return roots;
}

} // namespace

List *ListIndexedPartitions(Oid root) {
    List *partitions = NIL;
    ListCell *cell;
    foreach (cell, ListChildren(root, NoLock))
        if (Oid partition = IndexGetRelation(lfirst_oid(cell), true); OidIsValid(partition))
            partitions = lappend_oid(partitions, partition);
    return partitions;
}

Oid LockIndexedTables(Oid root, LOCKMODE mode) {
    Oid base = IndexGetRelation(root, true);
    if (!OidIsValid(base))
        RaiseDropped(root);
    LockRelationOid(base, mode);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(root)))
        RaiseDropped(root);
    find_all_inheritors(base, mode, nullptr); // nobody drops the index now
    ListCell *cell;
    foreach (cell, ListIndexedPartitions(root))
        if (!CheckRelationOidLockedByMe(lfirst_oid(cell), mode, true))
            LockRelationOid(lfirst_oid(cell), mode);
    return base;
}

List *ListGlobalIndexes(Relation base) {
    return ListRoots(base, IsComplete);
}

List *ListGlobalTrees(Relation base) {
    return ListRoots(base, [](const GlobalIndex &) { return true; });
}

} // namespace index_table
