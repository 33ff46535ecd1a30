#include "shard/pipelined.h"

#include "core/public.h"
#include "shard/connection.h"

namespace index_table {
namespace {

// The result in hand, cleared with the memory context if an error comes between.
struct Holder {
    MemoryContextCallback callback;
    PGresult *result;
};

void Release(void *argument) {
    Holder *holder = static_cast<Holder *>(argument);
    PQclear(holder->result);
    holder->result = nullptr;
}

// --- Reaching a server -------------------------------------------------------

void Send(PipelinedAsk *ask, Oid user) {
    ask->connection = OpenConnection(ask->table, user);
    LetEndWithTransaction(ask->connection);
    SendRepeatedly(ask->connection, ask->sql, ask->parameter_count, ask->values);
    TakeRowByRow(ask->connection);
}

struct Run {
    PipelinedAsk *asks;
    int count;
    Oid user;
    bool skip;
    RowTaker take;
    Holder *holder;
};

void Start(const Run *run, PipelinedAsk *ask) {
    if (run->skip)
        ask->problem = TryToReach([=] { Send(ask, run->user); });
    else
        Send(ask, run->user);
    ask->is_done = ask->problem != nullptr;
}

void GiveUp(const Run *run, PipelinedAsk *ask, const char *reason) {
    if (!run->skip)
        RaiseConnectionLost(ask->connection, reason);
    ask->problem = pstrdup(reason);
    ask->is_done = true;
    CloseConnection(ask->connection);
}

// A connection from before may have gone with a shard that was restarted since.
void OnLost(const Run *run, PipelinedAsk *ask) {
    if (ask->rows > 0 || !IsReused(ask->connection)) {
        GiveUp(run, ask, pchomp(PQerrorMessage(LibpqConnection(ask->connection))));
        return;
    }
    CloseConnection(ask->connection);
    Start(run, ask);
}

// --- Taking what comes -------------------------------------------------------

// Whether what was asked can be had by asking otherwise: columns that are joined by UNION ALL have
// different types in different tables, a plan that the server has kept is outdated, or reading
// writes (a policy that takes notes, say), which a transaction that will be rolled back must not.
bool CanBeAskedOtherwise(PipelinedAsk *ask, const PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return ForgetPlans(ask->connection, state) ||
           (state && (strcmp(state, "42804") == 0 || strcmp(state, "42846") == 0 ||
                      strcmp(state, "42P21") == 0 || strcmp(state, "25006") == 0));
}

void TakeRows(const Run *run, PipelinedAsk *ask, const PGresult *result) {
    int columns = PQnfields(result);
    const char **values = palloc_array(const char *, columns);
    for (int row = 0; row < PQntuples(result); row++) {
        for (int i = 0; i < columns; i++)
            values[i] = ResultValue(result, row, i);
        ask->rows++;
        run->take(ask, columns, values);
    }
    pfree(values);
}

// Whether the server is ending, or has ended, the session for reasons of its own.
bool IsEnding(const PGconn *conn, const PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return PQstatus(conn) != CONNECTION_OK || (state && strncmp(state, "57P0", 4) == 0);
}

// False where the connection is lost.
bool TakeResult(const Run *run, PipelinedAsk *ask) {
    const PGresult *result = run->holder->result;
    switch (PQresultStatus(result)) {
    case PGRES_SINGLE_TUPLE:
    case PGRES_TUPLES_OK:
        TakeRows(run, ask, result);
        return true;
    default:
        if (IsEnding(LibpqConnection(ask->connection), result))
            return false;
        if (ask->rows > 0 || !CanBeAskedOtherwise(ask, result))
            RaiseRemoteError(ask->connection, result);
        ask->is_rejected = true;
        return true;
    }
}

// Takes what has come of an ask's answer.
void Advance(const Run *run, PipelinedAsk *ask) {
    PGconn *conn = LibpqConnection(ask->connection);
    if (PQflush(conn) < 0 || !PQconsumeInput(conn)) {
        OnLost(run, ask);
        return;
    }
    for (;;) {
        Arrival arrival = TakeArrival(ask->connection, &run->holder->result);
        if (arrival == Arrival::Nothing)
            return;
        if (arrival == Arrival::End) {
            if (PQstatus(conn) != CONNECTION_OK)
                OnLost(run, ask);
            else
                ask->is_done = true;
            return;
        }
        bool goes_on = TakeResult(run, ask);
        Release(run->holder);
        CHECK_FOR_INTERRUPTS();
        if (!goes_on) {
            OnLost(run, ask);
            return;
        }
    }
}

// Waits until a server has something to say; those whose time is up are given up.
void WaitForAny(const Run *run) {
    long left = -1;
    TimestampTz now = GetCurrentTimestamp();
    int active = 0;
    for (PipelinedAsk &ask : std::span(run->asks, run->count)) {
        if (ask.is_done)
            continue;
        if (TimestampTz deadline = DeadlineOf(ask.connection)) {
            long own = TimestampDifferenceMilliseconds(now, deadline);
            if (own <= 0) {
                GiveUp(run, &ask, "It did not answer within index_table.shard_timeout.");
                continue;
            }
            left = left < 0 ? own : Min(left, own);
        }
        active++;
    }
    if (active == 0)
        return;
    constexpr int kOthers = 2; // the latch, the postmaster's death
    WaitEventSet *set = compat::MakeWaitEventSet(active + kOthers);
    AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
    AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
    for (PipelinedAsk &ask : std::span(run->asks, run->count)) {
        if (ask.is_done)
            continue;
        PGconn *conn = LibpqConnection(ask.connection);
        uint32 events = WL_SOCKET_READABLE;
        if (PQflush(conn) > 0)
            events |= WL_SOCKET_WRITEABLE;
        AddWaitEventToSet(set, events, PQsocket(conn), nullptr, nullptr);
    }
    WaitEvent event;
    WaitEventSetWait(set, left, &event, 1, PG_WAIT_EXTENSION);
    FreeWaitEventSet(set); // before anything can be raised
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

} // namespace

void RunPipelined(PipelinedAsk *asks, int count, Oid user, bool skip, RowTaker take) {
    Holder *holder = palloc0_object(Holder);
    holder->callback = {.func = Release, .arg = holder};
    MemoryContextRegisterResetCallback(CurrentMemoryContext, &holder->callback);
    Run run = {asks, count, user, skip, take, holder};
    for (PipelinedAsk &ask : std::span(asks, count))
        Start(&run, &ask);
    for (;;) {
        bool waiting = false;
        for (PipelinedAsk &ask : std::span(asks, count)) {
            if (!ask.is_done)
                Advance(&run, &ask);
            waiting = waiting || !ask.is_done;
        }
        if (!waiting)
            break;
        WaitForAny(&run);
    }
}

} // namespace index_table
