#include "shard/server_writers.h"

#include "core/public.h"
#include "shard/connection.h"
#include "shard/remote_table.h"

namespace index_table {
namespace {

constexpr int kTries = 3;   // the caller tries again
constexpr long kDelay = 20; // milliseconds

// A server, and the partitions of index tables there.
struct Server {
    Oid server;
    Oid table; // by which it is reached
    Oid user;
    StringInfoData tables; // array literal of names
};

List *FindServers(List *index_tables) {
    List *servers = NIL;
    ListCell *table, *part, *cell;
    foreach (table, index_tables)
        foreach (part, find_inheritance_children(lfirst_oid(table), AccessShareLock)) {
            Oid id = GetForeignTable(lfirst_oid(part))->serverid;
            Server *server = nullptr;
            foreach (cell, servers)
                if (static_cast<Server *>(lfirst(cell))->server == id)
                    server = static_cast<Server *>(lfirst(cell));
            if (!server) {
                server = palloc0_object(Server);
                *server = {.server = id,
                           .table = lfirst_oid(part),
                           .user = RelationOwner(lfirst_oid(table))};
                initStringInfo(&server->tables);
                servers = lappend(servers, server);
            }
            appendStringInfo(&server->tables, "%spg_catalog.to_regclass(%s)",
                             server->tables.len > 0 ? ", " : "",
                             quote_literal_cstr(RemoteName(lfirst_oid(part))));
        }
    return servers;
}

// Whoever has written entries holds this lock until its end.
char *HoldersOf(const Server *server, ShardConnection *connection) {
    PGresult *result = ExecuteReading(
        connection,
        psprintf("SELECT coalesce(pg_catalog.array_agg(DISTINCT virtualtransaction), '{}') "
                 "FROM pg_catalog.pg_locks WHERE relation = ANY (ARRAY[%s]::oid[]) "
                 "AND database = (SELECT oid FROM pg_catalog.pg_database "
                 "WHERE datname = pg_catalog.current_database()) "
                 "AND mode = 'RowExclusiveLock' AND granted",
                 server->tables.data),
        0, nullptr);
    return pstrdup(ResultValue(result, 0, 0));
}

bool HaveEnded(ShardConnection *connection, const char *holders) {
    PGresult *result = ExecuteReading(connection,
                                      "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_locks "
                                      "WHERE virtualtransaction = ANY ($1::text[]))",
                                      1, &holders);
    return strcmp(ResultValue(result, 0, 0), "t") == 0;
}

bool IsServerSettled(const Server *server) {
    ShardConnection *connection = OpenConnection(server->table, server->user);
    const char *holders = HoldersOf(server, connection);
    for (int i = 0; strcmp(holders, "{}") != 0 && !HaveEnded(connection, holders); i++) {
        if (i == kTries)
            return false;
        WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kDelay,
                  PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
    return true;
}

} // namespace

bool HaveWritersEnded(List *index_tables) {
    ListCell *cell;
    foreach (cell, FindServers(index_tables))
        if (!IsServerSettled(static_cast<Server *>(lfirst(cell))))
            return false;
    return true;
}

} // namespace index_table
