// Statements over a connection behind which the session on the shard is not this session's own: a
// pooler lends one for each transaction, and lends it to others in between. Whatever these leave in
// it (settings, roles, prepared statements) may not change what a statement of ours means, and
// nothing of ours is left behind for them.
//
// So each statement is sent without a name, in a transaction of its own that begins by saying what
// counts in it, all in one go: a round trip, as elsewhere. Poolers that divide transactions cannot
// be served, and postgres_fdw does not serve them either.
#pragma once

#include "pg.h"

namespace index_table {

// Settings under which values are read and written as the same, as arguments of a SELECT;
// `is_local` is true or false. Everything in it is qualified: nobody's search_path counts.
#define INDEX_TABLE_SHARD_SETTINGS(is_local)                                                       \
    "pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', " is_local "), "                  \
    "pg_catalog.set_config('timezone', 'UTC', " is_local "), "                                     \
    "pg_catalog.set_config('datestyle', 'ISO', " is_local "), "                                    \
    "pg_catalog.set_config('intervalstyle', 'postgres', " is_local "), "                           \
    "pg_catalog.set_config('extra_float_digits', '3', " is_local ")"

// Reading leaves nothing: its transaction is read only, and rolled back.
enum class SharedPurpose { Reading, Writing };

// How far the answer to a statement has come.
struct SharedAnswer {
    int step;
    bool by_row; // rows come one by one
};

// What of an answer has come.
enum class Arrival {
    Nothing, // the connection is to be waited for
    Result,
    End, // of the answer, or of the connection
};

// Sends a statement, which the shard is to give up when its client is gone if it can; false where
// that failed. REQUIRES: nothing is being received.
bool SendShared(PGconn *conn, SharedAnswer *answer, SharedPurpose purpose, bool checks_client,
                const char *sql, int count, const char *const *values);

// Takes what has come, without waiting. A result is the caller's: one of the statement, or an error
// of the transaction. At the end the transaction is over, whatever failed.
Arrival ReceiveShared(PGconn *conn, SharedAnswer *answer, PGresult **result);

} // namespace index_table
