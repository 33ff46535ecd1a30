#include "exec/attachment.h"

#include "catalog/public.h"
#include "core/public.h"

namespace index_table {
namespace {

// What pg_inherits says of a partition and the tables above it.
struct Attachment {
    int depth;
    bool is_detached; // so the snapshot sees it, or it is done already
    bool is_later;    // it has joined after joined_before
    bool is_settled;  // every snapshot of this session sees it attached
};

// Of DETACH CONCURRENTLY the row says who has begun it, and no more who had attached it.
bool HasJoinedLater(const Parent &parent, Snapshot joined_before) {
    return joined_before && !parent.is_detach_pending &&
           !TransactionIdIsCurrentTransactionId(parent.changed_by) &&
           XidInMVCCSnapshot(parent.changed_by, joined_before);
}

Attachment ReadAttachment(const Viewer &viewer, Oid relid) {
    Attachment found = {.is_settled = true};
    // A table below another is a partition if it has a parent: it is not asked what it is.
    auto has_parent = [&] {
        return (found.depth == 0 && relid != viewer.base) || get_rel_relispartition(relid);
    };
    while (!found.is_detached && has_parent()) {
        Parent parent;
        if (!FindParent(relid, &parent)) {
            found.is_detached = true;
            return found;
        }
        relid = parent.relid;
        found.depth++;
        found.is_detached =
            parent.is_detach_pending && !XidInMVCCSnapshot(parent.changed_by, viewer.snapshot);
        found.is_later = found.is_later || HasJoinedLater(parent, viewer.joined_before);
        found.is_settled = found.is_settled && !parent.is_detach_pending &&
                           TransactionIdPrecedes(parent.changed_by, TransactionXmin);
    }
    found.is_detached = found.is_detached || relid != viewer.base;
    return found;
}

// What holds of a partition as long as nothing at all changes. That hardly any is being attached or
// detached, and that most are laid out as the base table: comparing names takes its time.
struct KnownLeaf {
    Oid relid; // hash key
    Oid base;
    int depth;     // 0: it is not known to be attached for good
    bool is_alike; // laid out as the base table
};
constinit KnownRelations<KnownLeaf> known_leaves = {};

KnownLeaf Recall(Oid relid, Oid base) {
    const KnownLeaf *known = known_leaves.Find(relid, "index_table partitions that were read");
    return known && known->base == base ? *known : KnownLeaf{.relid = relid, .base = base};
}

// Locks the partitioned tables between the base table and one of its partitions, top down.
void LockAncestors(Oid base, Oid relid, LOCKMODE mode) {
    List *ancestors = NIL;
    Parent parent;
    for (Oid child = relid;
         get_rel_relispartition(child) && FindParent(child, &parent) && parent.relid != base;
         child = parent.relid)
        ancestors = lcons_oid(parent.relid, ancestors);
    ListCell *cell;
    foreach (cell, ancestors)
        LockRelationOid(lfirst_oid(cell), mode);
    list_free(ancestors);
}

} // namespace

bool IsAttached(const Viewer &viewer, Oid relid, int *depth) {
    KnownLeaf known = Recall(relid, viewer.base);
    if (known.depth > 0) {
        *depth = known.depth;
        return true;
    }
    Attachment found = ReadAttachment(viewer, relid);
    *depth = found.depth;
    if (found.is_detached || found.is_later)
        return false;
    if (found.is_settled) {
        known.depth = found.depth;
        known_leaves.Add(known);
    }
    return true;
}

Relation OpenAttached(const Viewer &viewer, Oid relid, LOCKMODE lock, int *depth) {
    Assert(lock != NoLock);
    if (!IsAttached(viewer, relid, depth))
        return nullptr;
    // Whoever changes rows opens those tables without asking: where a row leaves its partition,
    // foreign keys are told of all above. First, as others lock them.
    if (*depth > 1 && lock >= RowExclusiveLock)
        LockAncestors(viewer.base, relid, lock);
    Relation rel = TryOpenRelation(relid, lock);
    // Waiting for the lock may have changed it.
    if (!rel || IsAttached(viewer, relid, depth))
        return rel;
    relation_close(rel, NoLock);
    return nullptr;
}

AttrMap *MapToBase(Relation leaf, Relation base) {
    KnownLeaf known = Recall(RelationGetRelid(leaf), RelationGetRelid(base));
    if (known.is_alike)
        return nullptr;
    AttrMap *map = compat::MapColumnsByName(RelationGetDescr(leaf), RelationGetDescr(base));
    known.is_alike = !map;
    if (!map)
        known_leaves.Add(known);
    return map;
}

} // namespace index_table
