#include "global/unbuilt.h"

#include "core/public.h"
#include "global/child_index.h"
#include "global/follow_ddl.h"
#include "global/operator_classes.h"
#include "global/storage.h"

namespace index_table {
namespace {

struct RememberedRoot {
    Oid root;
    int level; // of the subtransaction
};

constinit List *remembered = nullptr; // memory of the transaction

// A standby has no unlogged partitions.
bool IsReadable(Relation child) {
    return RelationIsPermanent(child) || !RecoveryInProgress();
}

bool HasEntries(Oid child_oid, Relation storage) {
    if (!ConditionalLockRelationOid(child_oid, AccessShareLock))
        return true;
    bool has_entries = true;
    if (Relation child = compat::TryOpenIndex(child_oid)) {
        has_entries = !IsReadable(child) || TakesEntries(child, storage);
        index_close(child, NoLock);
    }
    UnlockRelationOid(child_oid, AccessShareLock);
    return has_entries;
}

bool HaveEntries(Oid root, Relation storage) {
    bool have_entries = true;
    List *children = ListChildren(root, NoLock);
    ListCell *cell;
    foreach (cell, children)
        have_entries = have_entries && HasEntries(lfirst_oid(cell), storage);
    list_free(children);
    return have_entries;
}

} // namespace

bool IsBuilt(Oid root) {
    std::optional<GlobalIndex> index = FindGlobalIndex(root);
    if (!index || !IsComplete(*index))
        return false;
    if (!ConditionalLockRelationOid(index->storage, AccessShareLock))
        return true;
    bool is_built = false;
    if (Relation storage = try_relation_open(index->storage, NoLock)) {
        is_built = IsStorage(storage) && HaveEntries(root, storage);
        relation_close(storage, NoLock);
    }
    UnlockRelationOid(index->storage, AccessShareLock);
    return is_built;
}

bool LacksTree(Oid root) {
    Relation index = try_relation_open(root, AccessShareLock);
    if (!index)
        return false;
    bool is_new = index->rd_createSubid != InvalidSubTransactionId;
    relation_close(index, NoLock);
    return !is_new && get_index_isvalid(root) &&
           !OidIsValid(get_relname_relid(StorageName(root).data, PG_TOAST_NAMESPACE));
}

void WarnOfNotBuilt(Oid root) {
    ereport(WARNING, (errmsg("global index \"%s\" is not built", get_rel_name(root)),
                      errhint("REINDEX INDEX builds it.")));
}

void BuildBeforeCommit(Oid root) {
    ListCell *cell;
    foreach (cell, remembered)
        if (static_cast<RememberedRoot *>(lfirst(cell))->root == root)
            return;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    RememberedRoot *added = palloc_object(RememberedRoot);
    *added = {.root = root, .level = GetCurrentTransactionNestLevel()};
    remembered = lappend(remembered, added);
    MemoryContextSwitchTo(caller);
}

void BuildRemembered() {
    while (remembered != NIL) {
        Oid root = static_cast<RememberedRoot *>(linitial(remembered))->root;
        remembered = list_delete_first(remembered);
        if (!LacksTree(root))
            continue;
        if (compat::OwnsRelation(root))
            RebuildWholeIndex(root);
        else
            WarnOfNotBuilt(root);
    }
}

void AtEOXactUnbuilt() {
    remembered = NIL;
}

void AtEOSubXactUnbuilt(bool commits, int level) {
    ListCell *cell;
    foreach (cell, remembered) {
        auto *root = static_cast<RememberedRoot *>(lfirst(cell));
        if (root->level < level)
            continue;
        if (commits)
            root->level = level - 1;
        else
            remembered = foreach_delete_current(remembered, cell);
    }
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_is_built) {
    Oid root = PG_GETARG_OID(0);
    if (get_rel_relkind(root) != RELKIND_PARTITIONED_INDEX || get_rel_relispartition(root) ||
        !IsGlobalIndex(root))
        PG_RETURN_NULL();
    PG_RETURN_BOOL(IsBuilt(root));
}
