#include "global/ownership.h"

#include "core/public.h"
#include "global/global_index.h"
#include "global/operator_classes.h"
#include "global/storage.h"

namespace index_table {

namespace {

void GiveStorage(Oid storage, Oid owner) {
    if (RelationOwner(storage) != owner)
        ATExecChangeOwner(storage, owner, true, AccessExclusiveLock);
}

} // namespace

void FollowOwner(Oid root) {
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    if (!index)
        return;
    GiveStorage(index->storage, RelationOwner(root));
    CommandCounterIncrement();
}

void FollowNewOwner(Oid relid) {
    if (get_rel_relkind(relid) != RELKIND_PARTITIONED_INDEX || !IsGlobalIndex(relid))
        return;
    std::optional<GlobalIndex> index = FindGlobalIndex(relid);
    Oid owner = InvalidOid;
    LookAtNew<Form_pg_class>(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid,
                             [&](Form_pg_class form) {
                                 owner = form->relowner;
                                 return true;
                             });
    if (index && OidIsValid(owner))
        GiveStorage(index->storage, owner);
}

void CheckOwner(Relation storage) {
    Oid root = RootOfStorage(storage);
    if (RelationOwner(root) != storage->rd_rel->relowner)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("global index \"%s\" has got another owner", get_rel_name(root)),
                        errhint("REINDEX INDEX gives its tree to the owner.")));
}

} // namespace index_table
