// Connections of this session to the servers of foreign tables, beside those that postgres_fdw has.
//
// They obey the options of server and user mapping, and the security rules, as postgres_fdw does. A
// connection runs one statement at a time, each a transaction of its own: it sees what is committed
// on the shard, and not what this transaction has written there through postgres_fdw. Who asks a
// server while an answer of it is awaited gets another connection. Nothing here blocks: waits are
// interruptible, and end with index_table.shard_connect_timeout and index_table.shard_timeout (but
// looking up host names is libpq's, and may take its time).
//
// Connections are made when they are needed. Those that were used last, as many as
// index_table.shard_connections says, are kept when a transaction ends; more are open at once where
// one asks more shards. A connection is closed when its server or user mapping changes, and made
// anew when the shard has closed it. What an error interrupts is closed, which ends the statement
// on the shard, too.
//
// Where a pooler is in between, the session on the shard is not this session's own: nothing that is
// left in it is relied upon, and what others leave in it does not matter (shared_session.h). It is
// told when the connection is made.
//
// Errors: 08001 could not connect, 08006 the connection was lost or timed out, 42704 no user
// mapping, 2F003 a password is required, 0A000 not a server of postgres_fdw; and whatever the shard
// says, with the shard's SQLSTATE. All name the server and the foreign table.
#pragma once

#include "shard/shared_session.h"

namespace index_table {

struct ShardConnection;

// The server of a foreign table, in the current memory context.
ForeignServer *ServerOf(Oid foreign_table);

// Whether postgres_fdw serves a foreign table; whether a server is one of it.
bool IsOfPostgres(Oid foreign_table);
bool IsPostgres(const ForeignServer *server);

// The connection to the server of a foreign table as a user; InvalidOid: the current one. Connected
// when the call returns. Valid memory for as long as the session; errors name the table of the
// latest call.
ShardConnection *OpenConnection(Oid foreign_table, Oid user = InvalidOid);
// The same of a server of postgres_fdw; errors name `foreign_table` where that is valid.
ShardConnection *OpenServerConnection(ForeignServer *server, Oid user, Oid foreign_table);

// Sends a statement with parameters in text form (null: NULL). REQUIRES: none is being received.
// Statements sent to several connections run at the same time.
void SendStatement(ShardConnection *connection, const char *sql, int count,
                   const char *const *values);
// The same for a statement that may be sent often: from the third time on the shard keeps its plan,
// where the session there is this session's own.
void SendRepeatedly(ShardConnection *connection, const char *sql, int count,
                    const char *const *values);
// A plan that was kept will not do: whether that explains an error, of which SQLSTATE `state`
// tells. The connection will be made anew.
bool ForgetPlans(ShardConnection *connection, const char *state);

// Waits for what was sent and returns its result, in text form. The result is cleared together with
// the current memory context.
PGresult *ReceiveResult(ShardConnection *connection);

// Both.
PGresult *ExecuteReading(ShardConnection *connection, const char *sql, int count,
                         const char *const *values);

// The same for a statement that changes something on the shard, or takes a transaction id.
PGresult *ExecuteWriting(ShardConnection *connection, const char *sql, int count,
                         const char *const *values);

// Statements one after the other, which may begin and end transactions: between this and the next
// call the connection may be left in one. What an error leaves of it ends with the connection. They
// may take as long as they want.
void RunScript(ShardConnection *connection, const char *sql);

// COPY … FROM STDIN: rows are sent as it reads them, in pieces of any length.
void BeginCopy(ShardConnection *connection, const char *sql);
void SendCopyData(ShardConnection *connection, const char *data, int length);
void EndCopy(ShardConnection *connection);

// A value of a result; null where it is NULL.
const char *ResultValue(const PGresult *result, int row, int column);

// Has the connection closed when the transaction ends, if its server's keep_connections says so:
// nobody relies on its session there.
void LetEndWithTransaction(ShardConnection *connection);

// For receiving from several connections at once, through libpq itself.
PGconn *LibpqConnection(const ShardConnection *connection);
// When what was sent has to be answered; 0: at any time.
TimestampTz DeadlineOf(const ShardConnection *connection);
// Whether it was open before OpenConnection was called for what was sent.
bool IsReused(const ShardConnection *connection);
// Has rows of what was sent last come one by one. REQUIRES: nothing of them was received.
void TakeRowByRow(ShardConnection *connection);
// Takes what has come of the answer, without waiting or consuming input. After the End, which a
// connection that is lost comes to as well, something else can be sent.
Arrival TakeArrival(ShardConnection *connection, PGresult **result);
void CloseConnection(ShardConnection *connection);
[[noreturn]] void RaiseConnectionLost(ShardConnection *connection, const char *reason);
[[noreturn]] void RaiseRemoteError(ShardConnection *connection, const PGresult *result);

// The transaction has ended; a subtransaction of nest level `level` has.
void AtEOXactConnections();
void AtEOSubXactConnections(bool commits, int level);
void InitializeConnections();

} // namespace index_table
