// Locks on what is not a relation as a whole: the numbers in their tags, none twice. One more is on
// (index_table.definition, base table): it belongs to the progress of builds, see there.
#pragma once

#include "pg.h"

namespace index_table {

// What is locked beside a relation. It is the last part of an object's lock tag, where PostgreSQL
// has the number of a column, which it never locks; pg_locks shows it as objsubid.
enum class LockedPart : uint16 {
    Build = 0,      // of an index table: who has built it last is being recorded
    Truncation = 1, // of a base table: held while partitions are being truncated
    Settling = 2,   // of a base table: what was restored of it is being looked at
    Numbers = 3, // of a base table: its partitions are given their first numbers, or lose the last
    OnlineBuild = 4, // of a global index: it is being built while others write; for the session
    Drain = 7421,    // of a foreign partition: its queue is being drained
};

inline LOCKTAG PartTag(Oid relid, LockedPart part) {
    LOCKTAG tag;
    SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid, static_cast<uint16>(part));
    return tag;
}

// Until the transaction ends.
inline void LockPart(Oid relid, LockedPart part, LOCKMODE mode) {
    LockDatabaseObject(RelationRelationId, relid, static_cast<uint16>(part), mode);
}

// The same without waiting; false where somebody else has it.
inline bool TryLockPart(Oid relid, LockedPart part, LOCKMODE mode) {
    LOCKTAG tag = PartTag(relid, part);
    if (LockAcquire(&tag, mode, false, true) == LOCKACQUIRE_NOT_AVAIL)
        return false;
    AcceptInvalidationMessages();
    return true;
}

} // namespace index_table
