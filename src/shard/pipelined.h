// Asking several servers at once, over connections of this session's own: one statement for each,
// sent to all before the first answers, whose rows are taken as they come.
//
// Such a statement is a transaction of its own on its server: it sees what is committed there.
#pragma once

#include "shard/remote_select.h"

namespace index_table {

struct ShardConnection;

// What one server is asked.
struct PipelinedAsk {
    Oid table;       // a foreign table of the server, by which it is reached
    const char *sql; // rows are a number, then columns
    int parameter_count;
    const char **values; // in text form; null: NULL
    void *context;       // the caller's
    // Set by RunPipelined.
    ShardConnection *connection;
    uint64 rows;
    bool is_done;
    const char *problem; // why the server could not be reached; null: it could
    bool is_rejected;    // the server understands it in no such way as this; no rows came
};

// Takes a row: values in text form, null for NULL.
using RowTaker = void (*)(PipelinedAsk *ask, int count, const char *const *values);

// Runs what was asked, as `user` (InvalidOid: the current one). With `skip` a server that cannot be
// reached, or does not answer in time, gets a `problem`; otherwise that raises 08001 or 08006.
// Raises what servers raise. A connection that was lost before a row came is made anew once.
void RunPipelined(PipelinedAsk *asks, int count, Oid user, bool skip, RowTaker take);

} // namespace index_table
