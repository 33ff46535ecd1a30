// The table that a foreign one stands for, by its name, and whether it is captured on its server.
#pragma once

#include "shard/connection.h"

namespace index_table {

// The schema and the table, on the server of a foreign table, that it stands for. Where its options
// do not say, they are called there as here.
struct RemoteNames {
    const char *schema;
    const char *table;
};
RemoteNames FindRemoteNames(Oid foreign_table);

// "schema"."table" on the server of a foreign table; the name of a column there. In the current
// memory context.
char *RemoteName(Oid foreign_table);
char *RemoteColumn(Oid foreign_table, AttrNumber attno);

// The columns of the identity by which it is captured, a list of char *; NIL where it is not.
List *ReadOutboxIdentity(ShardConnection *connection, const char *table);

// Whether it has an outbox. Asks the shard as the current user.
bool HasOutbox(Oid foreign_table);
[[noreturn]] void RaiseHasNoOutbox(Oid foreign_table);
// Raises 55000 where it has none. Asks the shard as the current user.
void CheckHasOutbox(Oid foreign_table);

} // namespace index_table
