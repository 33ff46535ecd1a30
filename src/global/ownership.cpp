#include "global/ownership.h"

#include "core/public.h"
#include "global/global_index.h"
#include "global/storage.h"

namespace index_table {

void FollowOwner(Oid root) {
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    if (!index)
        return;
    Oid owner = RelationOwner(root);
    if (RelationOwner(index->storage) == owner)
        return;
    ATExecChangeOwner(index->storage, owner, true, AccessExclusiveLock);
    CommandCounterIncrement();
}

void FollowOwnerOfTable(Oid relid) {
    Relation base = relation_open(relid, AccessShareLock);
    ListCell *cell;
    foreach (cell, ListGlobalTrees(base))
        FollowOwner(lfirst_oid(cell));
    relation_close(base, NoLock);
}

void CheckOwner(Relation storage) {
    Oid root = RootOfStorage(storage);
    if (RelationOwner(root) != storage->rd_rel->relowner)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("global index \"%s\" has got another owner", get_rel_name(root)),
                        errhint("REINDEX INDEX gives its tree to the owner.")));
}

} // namespace index_table
