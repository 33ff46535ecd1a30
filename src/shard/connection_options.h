// What connects to a shard: options of server and user mapping, and who may connect with them. The
// rules are those of postgres_fdw.
#pragma once

#include "pg.h"

namespace index_table {

// Of server, user mapping, table or column; null where it is not set.
const DefElem *FindOption(List *options, const char *name);
// Its text; null likewise.
const char *FindOptionText(List *options, const char *name);

struct ConnectionOptions {
    const char **keywords; // ended by a null
    const char **values;
    int connect_timeout; // milliseconds, of the server's options; 0: none given
    bool keeps;          // the connection outlives the transaction
    UserMapping *mapping;
};
// Allocated in the current memory context.
ConnectionOptions GetConnectionOptions(ForeignServer *server, UserMapping *mapping);

// Raises 2F003 for users who would connect with what is not theirs: only superusers, and those whom
// a superuser has let, connect without a password of their own.
void CheckBeforeConnecting(const ConnectionOptions &options);
// The same for what the server has asked for: a message, or null where it is right.
const char *CheckAfterConnecting(const ConnectionOptions &options, PGconn *conn);

} // namespace index_table
