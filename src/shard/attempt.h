// Doing what may fail because a server cannot be reached.
#pragma once

#include "pg.h"

namespace index_table {

// Runs `attempt` in a subtransaction. Returns null, or what the error says where that was one of
// class 08, connections; others go through.
template <typename Attempt>
const char *TryToReach(Attempt attempt) {
    const char *volatile problem = nullptr;
    MemoryContext caller = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(caller);
    PG_TRY();
    {
        attempt();
        ReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(caller);
        ErrorData *error = CopyErrorData();
        if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_CONNECTION_EXCEPTION)
            PG_RE_THROW();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        problem = error->message ? error->message : "";
    }
    PG_END_TRY();
    MemoryContextSwitchTo(caller);
    CurrentResourceOwner = owner;
    return problem;
}

} // namespace index_table
