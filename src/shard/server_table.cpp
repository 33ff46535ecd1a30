#include "shard/server_table.h"

#include "catalog/public.h"
#include "core/public.h"
#include "shard/connection.h"
#include "shard/remote_table.h"

namespace index_table {
namespace {

enum {
    kPartition,
    kServer,
    kServerName,
    kOwner,
    kSchemaName,
    kTableName,
    kComment,
    kIsAbandoned,
    kMissingSince,
    kAttributes
};

// A table that nothing here stands for.
struct Abandoned {
    char *tid;
    Oid partition; // which may be there, and stand for another
    Oid server;
    char *server_name;
    Oid owner;
    char *schema;
    char *table;
    char *comment;
};

enum class Outcome {
    Dropped,
    Missing, // it is not there, or somebody else's
    OutOfReach,
};

char *MakeComment() {
    uint8 secret[16];
    if (!pg_strong_random(secret, sizeof(secret)))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("no random bytes are to be had")));
    char hex[2 * sizeof(secret) + 1];
    for (Size i = 0; i < sizeof(secret); i++)
        sprintf(hex + 2 * i, "%02x", secret[i]);
    return psprintf("Entries of an index table of database \"%s\", whose extension index_table has "
                    "made this table and drops it (%s)",
                    get_database_name(MyDatabaseId), hex);
}

// Runs a statement on index_table.server_table with the rights of its owner.
void Run(const char *sql, int expected) {
    OwnerContext owner = EnterOwner(RelationOwner(ExtensionRelation("server_table")));
    int code = SPI_execute(sql, false, 0);
    if (code != expected)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(code));
    LeaveOwner(owner);
}

void Connect() {
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
}

// Locked until the transaction ends; those of transactions in progress are locked by them.
List *LockAbandoned(MemoryContext memory) {
    Connect();
    Run("SELECT ctid, partition, server, server_name, owner, schema_name, table_name, comment "
        "FROM index_table.server_table AS s "
        "WHERE is_abandoned OR NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_table WHERE ftrelid = "
        "s.partition) "
        "FOR UPDATE SKIP LOCKED",
        SPI_OK_SELECT);
    List *all = NIL;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    for (uint64 i = 0; i < SPI_processed; i++) {
        auto value = [&](int column) {
            return pstrdup(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column));
        };
        Abandoned *one = palloc_object(Abandoned);
        *one = {.tid = value(1),
                .partition = static_cast<Oid>(strtoul(value(2), nullptr, 10)),
                .server = static_cast<Oid>(strtoul(value(3), nullptr, 10)),
                .server_name = value(4),
                .owner = static_cast<Oid>(strtoul(value(5), nullptr, 10)),
                .schema = value(6),
                .table = value(7),
                .comment = value(8)};
        all = lappend(all, one);
    }
    MemoryContextSwitchTo(caller);
    SPI_finish();
    return all;
}

// It may have another name by now, and after pg_upgrade another OID. Null where it is gone.
ForeignServer *FindServer(const Abandoned &one) {
    ForeignServer *by_oid = GetForeignServerExtended(one.server, FSV_MISSING_OK);
    if (by_oid && strcmp(by_oid->servername, one.server_name) == 0)
        return by_oid;
    ForeignServer *by_name = GetForeignServerByName(one.server_name, true);
    return by_name ? by_name : by_oid;
}

// In a statement of its own, for poolers.
const char *DropStatement(const Abandoned &one) {
    const char *name = quote_qualified_identifier(one.schema, one.table);
    const char *block = psprintf("BEGIN PERFORM pg_catalog.set_config('lock_timeout', '2s', true); "
                                 "DROP TABLE %s; END",
                                 name);
    return psprintf("DO %s", quote_literal_cstr(block));
}

Outcome DropThere(const Abandoned &one, ForeignServer *server) {
    ShardConnection *connection = OpenServerConnection(server, one.owner, InvalidOid);
    const char *values[] = {one.schema, one.table, one.comment};
    PGresult *result = ExecuteReading(
        connection,
        "SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
        "ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND c.relname = $2::text "
        "AND pg_catalog.obj_description(c.oid, 'pg_class') = $3::text",
        lengthof(values), values);
    if (PQntuples(result) == 0)
        return Outcome::Missing;
    ExecuteWriting(connection, DropStatement(one), 0, nullptr);
    return Outcome::Dropped;
}

void WarnOfLeft(const Abandoned &one, const char *reason) {
    ereport(WARNING, (errmsg("table \"%s.%s\" is left on server \"%s\"", one.schema, one.table,
                             one.server_name),
                      errdetail_internal("%s", reason)));
}

Outcome Drop(const Abandoned &one) {
    ForeignServer *server = FindServer(one);
    if (!server || !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(one.owner))) {
        WarnOfLeft(one, server ? "The role that made it is no more." : "The server is no more.");
        return Outcome::Dropped; // never to be had any more
    }
    Outcome outcome = Outcome::OutOfReach;
    const char *error = TryInSubtransaction([&] {
        OwnerContext owner = EnterOwner(one.owner);
        outcome = DropThere(one, server);
        LeaveOwner(owner);
    });
    if (error)
        WarnOfLeft(one, error);
    return error ? Outcome::OutOfReach : outcome;
}

// What is not there may be about to come: who made it may have been killed while the server was
// busy with it. So it is looked for once more, a minute later.
void Forget(const Abandoned &one, Outcome outcome) {
    const char *at = psprintf("WHERE ctid = %s::tid", quote_literal_cstr(one.tid));
    Connect();
    if (outcome == Outcome::Dropped) {
        Run(psprintf("DELETE FROM index_table.server_table %s", at), SPI_OK_DELETE);
    } else {
        Run(psprintf("DELETE FROM index_table.server_table %s AND missing_since < "
                     "pg_catalog.clock_timestamp() - interval '1 minute'",
                     at),
            SPI_OK_DELETE);
        Run(psprintf("UPDATE index_table.server_table SET missing_since = "
                     "pg_catalog.clock_timestamp() %s AND missing_since IS NULL",
                     at),
            SPI_OK_UPDATE);
    }
    SPI_finish();
}

// The row of what a foreign table stands for; `is_made`: and the one that is there if this
// transaction fails.
char *InsertRows(Oid foreign_table, bool is_made) {
    Assert(IsForeign(foreign_table));
    ForeignServer *server = ServerOf(foreign_table);
    RemoteNames names = FindRemoteNames(foreign_table);
    char *comment = MakeComment();
    NameData server_name;
    namestrcpy(&server_name, server->servername);
    Datum values[kAttributes] = {
        ObjectIdGetDatum(foreign_table),   ObjectIdGetDatum(server->serverid),
        NameGetDatum(&server_name),        ObjectIdGetDatum(RelationOwner(foreign_table)),
        CStringGetTextDatum(names.schema), CStringGetTextDatum(names.table),
        CStringGetTextDatum(comment),      BoolGetDatum(true)};
    bool nulls[kAttributes] = {};
    nulls[kMissingSince] = true;
    Relation rel = table_open(ExtensionRelation("server_table"), RowExclusiveLock);
    if (is_made && !InsertDeleted(rel, values, nulls))
        elog(ERROR, "the row of a server's table was changed by somebody else");
    values[kIsAbandoned] = BoolGetDatum(false);
    heap_insert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls),
                GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, nullptr);
    table_close(rel, NoLock);
    CommandCounterIncrement();
    XLogFlush(XactLastRecEnd); // whatever synchronous_commit says: the server is about to commit
    return comment;
}

} // namespace

char *RememberServerTable(Oid foreign_table) {
    return InsertRows(foreign_table, true);
}

char *AdoptServerTable(Oid foreign_table) {
    Connect();
    Run(psprintf("SELECT FROM index_table.server_table WHERE partition = %u AND NOT is_abandoned",
                 foreign_table),
        SPI_OK_SELECT);
    bool is_known = SPI_processed > 0;
    SPI_finish();
    return is_known ? nullptr : InsertRows(foreign_table, false);
}

void AbandonServerTable(Oid foreign_table) {
    Connect();
    Run(psprintf("UPDATE index_table.server_table SET is_abandoned = true WHERE partition = %u",
                 foreign_table),
        SPI_OK_UPDATE);
    SPI_finish();
}

int64 ForgetServerTables() {
    int64 dropped = 0;
    if (!IsInstalled() || XactReadOnly || TransactionIdIsValid(GetTopTransactionIdIfAny()))
        return dropped;
    PushActiveSnapshot(GetTransactionSnapshot());
    ListCell *cell;
    foreach (cell, LockAbandoned(CurrentMemoryContext)) {
        const Abandoned *one = static_cast<Abandoned *>(lfirst(cell));
        if (SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(one->owner)) &&
            !has_privs_of_role(GetUserId(), one->owner))
            continue;
        // Statements that were planned before it was abandoned are reading it yet.
        if (!ConditionalLockRelationOid(one->partition, AccessExclusiveLock))
            continue;
        UnlockRelationOid(one->partition, AccessExclusiveLock);
        Outcome outcome = Drop(*one);
        if (outcome != Outcome::OutOfReach)
            Forget(*one, outcome);
        dropped += outcome == Outcome::Dropped;
        CHECK_FOR_INTERRUPTS();
    }
    PopActiveSnapshot();
    return dropped;
}

} // namespace index_table
