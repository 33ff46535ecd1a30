// What functions require of their callers, as Assert can ask it. Exists for Assert alone, in
// servers that were built with assertions; nothing here takes a lock or changes anything.
#pragma once

#include "pg.h"

#ifdef USE_ASSERT_CHECKING

namespace index_table {

// Whether this session holds a lock on a relation in a mode, or in a stronger one; the second, on
// each of a list of OIDs.
bool IsLocked(Oid relid, LOCKMODE mode);
bool AreLocked(List *relids, LOCKMODE mode);
// Whether LockDatabaseObject() was called for an object in exactly this mode.
bool IsObjectLocked(Oid catalog, Oid object, uint16 part, LOCKMODE mode);

// Whether the code acts for an owner, between EnterOwner() and LeaveOwner(); for that of a
// relation.
bool IsInOwner();
bool IsInOwnerOf(Oid relid);

// Whether what is allocated in the current memory context goes before the session ends.
bool IsMemoryFreed();

} // namespace index_table

#endif
