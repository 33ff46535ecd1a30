// Doing what may fail.
#pragma once

#include "pg.h"

namespace index_table {

// Runs `attempt` in a subtransaction. Returns null, or the message of its error where `accepts`
// says so of the ErrorData; other errors go through.
template <typename Attempt, typename Accepts>
const char *TryInSubtransaction(Attempt attempt, Accepts accepts) {
    const char *volatile message = nullptr;
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
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(caller);
        CurrentResourceOwner = owner;
        if (!accepts(error))
            ReThrowError(error);
        message = error->message ? error->message : "";
    }
    PG_END_TRY();
    MemoryContextSwitchTo(caller);
    CurrentResourceOwner = owner;
    return message;
}

// Whatever the error; cancels go through.
template <typename Attempt>
const char *TryInSubtransaction(Attempt attempt) {
    return TryInSubtransaction(attempt, [](const ErrorData *error) {
        return error->sqlerrcode != ERRCODE_QUERY_CANCELED;
    });
}

// Where the error is one of class 08, connections.
template <typename Attempt>
const char *TryToReach(Attempt attempt) {
    return TryInSubtransaction(attempt, [](const ErrorData *error) {
        return ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_CONNECTION_EXCEPTION;
    });
}

} // namespace index_table
