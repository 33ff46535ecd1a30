// Pages that are changed through generic WAL records.
#pragma once

#include "pg.h"

namespace index_table {

// START_CRIT_SECTION and END_CRIT_SECTION, which C++20 warns of.
inline void EnterCriticalSection() {
    CritSectionCount = CritSectionCount + 1;
}

inline void LeaveCriticalSection() {
    Assert(CritSectionCount > 0);
    CritSectionCount = CritSectionCount - 1;
}

// A page that is being changed: locked until the change is finished.
struct PageChange {
    Buffer buffer;
    GenericXLogState *state;
    Page page; // a copy, which becomes the page
};

// Locks a pinned page, and begins to change it. A page that has not been written yet is zero.
inline PageChange BeginChange(Relation rel, Buffer buffer) {
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    GenericXLogState *state = GenericXLogStart(rel);
    Page page = GenericXLogRegisterBuffer(
        state, buffer, PageIsNew(BufferGetPage(buffer)) ? GENERIC_XLOG_FULL_IMAGE : 0);
    return {.buffer = buffer, .state = state, .page = page};
}

// Unlocks it; it stays pinned.
inline void FinishChange(PageChange *change) {
    GenericXLogFinish(change->state);
    LockBuffer(change->buffer, BUFFER_LOCK_UNLOCK);
}

inline void AbandonChange(PageChange *change) {
    GenericXLogAbort(change->state);
    LockBuffer(change->buffer, BUFFER_LOCK_UNLOCK);
}

// Makes a page empty, with room for `size` bytes of zeros, which are returned.
inline char *ClearPage(Page page, Size size) {
    PageInit(page, BLCKSZ, 0);
    char *contents = PageGetContents(page);
    memset(contents, 0, size);
    reinterpret_cast<PageHeader>(page)->pd_lower =
        static_cast<LocationIndex>(contents - static_cast<char *>(page) + size);
    return contents;
}

// A page, pinned; the file is extended up to it.
inline Buffer ExtendTo(Relation rel, BlockNumber block) {
    if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) <= block) {
        LockRelationForExtension(rel, ExclusiveLock);
        while (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) <= block)
            ReleaseBuffer(ReadBuffer(rel, P_NEW));
        UnlockRelationForExtension(rel, ExclusiveLock);
    }
    return ReadBuffer(rel, block);
}

} // namespace index_table
