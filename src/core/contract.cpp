#include "core/contract.h"

#include "core/compat.h"
#include "core/relation.h"

#ifdef USE_ASSERT_CHECKING

namespace index_table {

bool IsLocked(Oid relid, LOCKMODE mode) {
    return CheckRelationOidLockedByMe(relid, mode, true);
}

bool AreLocked(List *relids, LOCKMODE mode) {
    ListCell *cell;
    foreach (cell, relids)
        if (!IsLocked(lfirst_oid(cell), mode))
            return false;
    return true;
}

bool IsObjectLocked(Oid catalog, Oid object, uint16 part, LOCKMODE mode) {
    LOCKTAG tag;
    SET_LOCKTAG_OBJECT(tag, MyDatabaseId, catalog, object, part);
    return compat::HoldsLock(tag, mode);
}

bool IsInOwner() {
    Oid user;
    int security;
    GetUserIdAndSecContext(&user, &security);
    int wanted = SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS;
    return (security & wanted) == wanted;
}

bool IsInOwnerOf(Oid relid) {
    return IsInOwner() && GetUserId() == RelationOwner(relid);
}

bool IsMemoryFreed() {
    return CurrentMemoryContext != TopMemoryContext && CurrentMemoryContext != CacheMemoryContext &&
           CurrentMemoryContext != ErrorContext;
}

} // namespace index_table

#endif
