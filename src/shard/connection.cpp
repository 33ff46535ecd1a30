#include "shard/connection.h"

#include "compat/compat.h"
#include "shard/connection_options.h"

namespace index_table {

struct ShardConnection {
    ShardConnection *next;
    // A public user mapping serves several users, who must not use each other's connections: what
    // one was let in with, another may not have.
    Oid mapping;
    Oid user;
    uint32 server_hash;
    uint32 mapping_hash;
    char *server;         // name
    Oid table;            // of the latest call, for errors
    PGconn *conn;         // null: none
    MemoryContext memory; // of the statements; null: none was sent repeatedly
    HTAB *statements;     // Statement
    int last_number;
    bool sends_prepared; // what was sent is one of those
    bool is_outdated;
    bool keeps; // as the server's option keep_connections says
    bool ends;  // with the transaction
    bool is_reused;
    bool is_busy; // connecting, or a statement's result was not received
    int level;    // of the subtransaction that made it so
    TimestampTz deadline;
};

namespace {

// A statement that was sent repeatedly; its number names what was prepared of it.
struct Statement {
    uint64 hash; // of its text; hash key
    char *sql;
    int number;
    int uses;
    bool is_prepared;
};

constinit ShardConnection *connections = nullptr;
constinit int connect_timeout = 10000; // milliseconds; 0: none
constinit int statement_timeout = 60000;

void Close(ShardConnection *self) {
    if (self->memory)
        MemoryContextDelete(self->memory);
    self->memory = nullptr;
    if (self->conn) {
        PQfinish(self->conn);
        ReleaseExternalFD();
    }
    self->conn = nullptr;
    self->is_busy = false;
}

void BeginWork(ShardConnection *self, int timeout) {
    self->is_busy = true;
    self->level = GetCurrentTransactionNestLevel();
    self->deadline = timeout > 0 ? TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout) : 0;
}

const char *Trimmed(const char *message) {
    return message && *message ? pchomp(message) : "no message";
}

[[noreturn]] void RaiseNotConnected(ShardConnection *self, const char *reason) {
    Close(self);
    ereport(ERROR, (errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
                    errmsg("could not connect to server \"%s\" of foreign table \"%s\"",
                           self->server, get_rel_name(self->table)),
                    errdetail_internal("%s", reason)));
}

[[noreturn]] void RaiseLost(ShardConnection *self, const char *reason) {
    Close(self);
    ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
                    errmsg("lost the connection to server \"%s\" of foreign table \"%s\"",
                           self->server, get_rel_name(self->table)),
                    errdetail_internal("%s", reason)));
}

// Waits for the socket; false when time is up.
bool Wait(ShardConnection *self, int events) {
    long left = -1;
    if (self->deadline != 0) {
        left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), self->deadline);
        if (left <= 0)
            return false;
        events |= WL_TIMEOUT;
    }
    int happened = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | events,
                                     PQsocket(self->conn), left, PG_WAIT_EXTENSION);
    if (happened & WL_LATCH_SET) {
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
    return true;
}

void IgnoreNotice(void *, const PGresult *) {}

// --- Connecting --------------------------------------------------------------

void Connect(ShardConnection *self, const ConnectionOptions &options) {
    CheckBeforeConnecting(options);
    if (!AcquireExternalFD())
        ereport(ERROR, (errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
                        errmsg("could not connect to server \"%s\" of foreign table \"%s\"",
                               self->server, get_rel_name(self->table)),
                        errdetail("There are too many open files on the local server."),
                        errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" "
                                "limits.")));
    self->conn = PQconnectStartParams(options.keywords, options.values, 0);
    if (!self->conn) {
        ReleaseExternalFD();
        RaiseNotConnected(self, "out of memory");
    }
    BeginWork(self, options.connect_timeout > 0 ? options.connect_timeout : connect_timeout);
    if (PQstatus(self->conn) == CONNECTION_BAD)
        RaiseNotConnected(self, Trimmed(PQerrorMessage(self->conn)));
    PQsetNoticeReceiver(self->conn, IgnoreNotice, nullptr);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK) {
        if (state == PGRES_POLLING_FAILED)
            RaiseNotConnected(self, Trimmed(PQerrorMessage(self->conn)));
        if (!Wait(self, state == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE))
            RaiseNotConnected(self, "timeout expired");
        state = PQconnectPoll(self->conn);
    }
    // Closing does not wait for the shard.
    if (const char *refusal = CheckAfterConnecting(options, self->conn)) {
        Close(self);
        ereport(ERROR, (errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
                        errmsg("password is required to connect to server \"%s\"", self->server),
                        errdetail_internal("%s", refusal),
                        errhint("The target server's authentication method must be changed, or "
                                "password_required=false set in the user mapping.")));
    }
    if (PQsetnonblocking(self->conn, 1) != 0)
        RaiseNotConnected(self, Trimmed(PQerrorMessage(self->conn)));
    self->is_busy = false;
}

// What postgres_fdw sets, so that values mean the same; and that the shard gives up a statement
// when this session has closed the connection.
void Configure(ShardConnection *self) {
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table connecting", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Execute(self,
            "SELECT pg_catalog.set_config(n, v, false) FROM (VALUES ('search_path', 'pg_catalog'), "
            "('timezone', 'UTC'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'), "
            "('extra_float_digits', '3')) AS s (n, v) UNION ALL "
            "SELECT pg_catalog.set_config(name, '2s', false) FROM pg_catalog.pg_settings "
            "WHERE name = 'client_connection_check_interval' AND max_val <> '0'",
            0, nullptr);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

// Whether a connection that was used before can be used again.
bool IsAlive(ShardConnection *self) {
    if (self->is_outdated || PQstatus(self->conn) != CONNECTION_OK)
        return false;
    // A shard that was stopped has said so by now: its last words, then the end.
    for (int i = 0; i < 2; i++)
        if (PQconsumeInput(self->conn) != 1 || PQstatus(self->conn) != CONNECTION_OK)
            return false;
    return true;
}

ShardConnection *FindConnection(Oid mapping, Oid user) {
    for (ShardConnection *self = connections; self; self = self->next)
        if (self->mapping == mapping && self->user == user)
            return self;
    ShardConnection *self = static_cast<ShardConnection *>(
        MemoryContextAllocZero(TopMemoryContext, sizeof(ShardConnection)));
    self->mapping = mapping;
    self->user = user;
    self->next = connections;
    connections = self;
    return self;
}

// --- Results -----------------------------------------------------------------

// A result, cleared with a memory context.
struct HeldResult {
    MemoryContextCallback callback;
    PGresult *result;
};

void ClearResult(void *held) {
    PQclear(static_cast<HeldResult *>(held)->result);
    static_cast<HeldResult *>(held)->result = nullptr;
}

[[noreturn]] void RaiseRemote(ShardConnection *self, const PGresult *result) {
    if (PQstatus(self->conn) != CONNECTION_OK)
        RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
    auto field = [&](int code) {
        const char *text = PQresultErrorField(result, code);
        return text ? pstrdup(text) : nullptr;
    };
    const char *state = field(PG_DIAG_SQLSTATE);
    const char *message = field(PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = field(PG_DIAG_MESSAGE_DETAIL);
    const char *hint = field(PG_DIAG_MESSAGE_HINT);
    if (!message)
        message = Trimmed(PQresultErrorMessage(result));
    ereport(ERROR, (state ? errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]))
                          : errcode(ERRCODE_CONNECTION_FAILURE),
                    errmsg_internal("%s", message), detail ? errdetail_internal("%s", detail) : 0,
                    hint ? errhint("%s", hint) : 0,
                    errcontext("server \"%s\" of foreign table \"%s\"", self->server,
                               get_rel_name(self->table))));
}

// --- Ends --------------------------------------------------------------------

void CloseBusy(int level) {
    for (ShardConnection *self = connections; self; self = self->next)
        if (self->is_busy && self->level >= level)
            Close(self);
}

void OnTransactionEnd(XactEvent event, void *) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        for (ShardConnection *self = connections; self; self = self->next)
            if (self->is_busy || self->ends)
                Close(self);
}

void OnSubTransactionEnd(SubXactEvent event, SubTransactionId, SubTransactionId, void *) {
    int level = GetCurrentTransactionNestLevel();
    if (event == SUBXACT_EVENT_ABORT_SUB)
        CloseBusy(level);
    if (event == SUBXACT_EVENT_COMMIT_SUB)
        for (ShardConnection *self = connections; self; self = self->next)
            self->level = Min(self->level, level - 1);
}

void OnInvalidation(Datum, int cache, uint32 hash) {
    for (ShardConnection *self = connections; self; self = self->next)
        if (hash == 0 ||
            hash == (cache == FOREIGNSERVEROID ? self->server_hash : self->mapping_hash))
            self->is_outdated = true;
}

} // namespace

bool IsOfPostgres(Oid foreign_table) {
    ForeignServer *server = GetForeignServer(GetForeignTable(foreign_table)->serverid);
    Oid handler = GetForeignDataWrapper(server->fdwid)->fdwhandler;
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(handler));
    if (!HeapTupleIsValid(tuple))
        return false; // it has none
    bool isnull;
    Datum symbol = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
    bool is_it = !isnull && strcmp(TextDatumGetCString(symbol), "postgres_fdw_handler") == 0;
    ReleaseSysCache(tuple);
    return is_it;
}

ShardConnection *OpenConnection(Oid foreign_table, Oid user) {
    if (!OidIsValid(user))
        user = GetUserId();
    ForeignServer *server = GetForeignServer(GetForeignTable(foreign_table)->serverid);
    if (!IsOfPostgres(foreign_table))
        ereport(
            ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("foreign table \"%s\" is not one of postgres_fdw", get_rel_name(foreign_table)),
             errdetail("Its server \"%s\" uses the foreign-data wrapper \"%s\".",
                       server->servername, GetForeignDataWrapper(server->fdwid)->fdwname)));
    UserMapping *mapping = GetUserMapping(user, server->serverid);
    ShardConnection *self = FindConnection(mapping->umid, user);
    if (self->is_busy)
        elog(ERROR, "the connection to server \"%s\" is in use", server->servername);
    self->ends = false;
    self->table = foreign_table;
    self->is_reused = self->conn && IsAlive(self);
    if (self->is_reused)
        return self;
    Close(self);
    if (self->server)
        pfree(self->server);
    self->server = nullptr;
    self->server = MemoryContextStrdup(TopMemoryContext, server->servername);
    self->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(server->serverid));
    self->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(mapping->umid));
    self->is_outdated = false;
    ConnectionOptions options = GetConnectionOptions(server, mapping);
    self->keeps = options.keeps;
    Connect(self, options);
    Configure(self);
    return self;
}

namespace {

void BeginSending(ShardConnection *self) {
    if (self->is_busy || !self->conn)
        elog(ERROR, "the connection to server \"%s\" cannot be used", self->server);
    BeginWork(self, statement_timeout);
    self->sends_prepared = false;
}

void EndSending(ShardConnection *self, int sent) {
    if (!sent || PQflush(self->conn) < 0) // the rest when the result is received
        RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
}

// Makes room for statements that come more often.
void ForgetUnprepared(ShardConnection *self) {
    HASH_SEQ_STATUS status;
    hash_seq_init(&status, self->statements);
    while (Statement *statement = static_cast<Statement *>(hash_seq_search(&status)))
        if (!statement->is_prepared) {
            pfree(statement->sql);
            hash_search(self->statements, &statement->hash, HASH_REMOVE, nullptr);
        }
}

// Null where there are too many.
Statement *FindStatement(ShardConnection *self, const char *sql) {
    constexpr int kStatements = 200;
    if (!self->memory) {
        self->memory = AllocSetContextCreate(TopMemoryContext, "index_table statements of shards",
                                             ALLOCSET_SMALL_SIZES);
        HASHCTL control = {};
        control.keysize = sizeof(uint64);
        control.entrysize = sizeof(Statement);
        control.hcxt = self->memory;
        self->statements = hash_create("index_table statements of shards", 32, &control,
                                       HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(sql), strlen(sql), 0);
    bool found;
    if (hash_get_num_entries(self->statements) == kStatements)
        ForgetUnprepared(self);
    bool has_room = hash_get_num_entries(self->statements) < kStatements;
    Statement *statement = static_cast<Statement *>(
        hash_search(self->statements, &hash, has_room ? HASH_ENTER : HASH_FIND, &found));
    if (statement && !found)
        *statement = {.hash = hash,
                      .sql = MemoryContextStrdup(self->memory, sql),
                      .number = ++self->last_number};
    return statement && strcmp(statement->sql, sql) == 0 ? statement : nullptr;
}

char *NameOf(const Statement *statement) {
    return psprintf("index_table_%d", statement->number);
}

// What was sent is answered by, an error too.
PGresult *ReceiveAny(ShardConnection *self) {
    HeldResult *held = palloc0_object(HeldResult);
    held->callback = {.func = ClearResult, .arg = held};
    MemoryContextRegisterResetCallback(CurrentMemoryContext, &held->callback);
    for (;;) {
        while (PQisBusy(self->conn)) {
            int unsent = PQflush(self->conn);
            if (unsent >= 0 &&
                !Wait(self, WL_SOCKET_READABLE | (unsent > 0 ? WL_SOCKET_WRITEABLE : 0)))
                RaiseLost(self, "It did not answer within index_table.shard_timeout.");
            if (unsent < 0 || !PQconsumeInput(self->conn))
                RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
        }
        PGresult *result = PQgetResult(self->conn);
        if (!result)
            break;
        PQclear(held->result);
        held->result = result;
    }
    self->is_busy = false;
    return held->result;
}

} // namespace

void SendRepeatedly(ShardConnection *self, const char *sql, int count, const char *const *values) {
    constexpr int kPreparedFrom = 3; // preparing costs a round trip of its own
    Statement *statement = FindStatement(self, sql);
    if (!statement || ++statement->uses < kPreparedFrom) {
        SendStatement(self, sql, count, values);
        return;
    }
    if (!statement->is_prepared) {
        BeginSending(self);
        EndSending(self, PQsendPrepare(self->conn, NameOf(statement), sql, 0, nullptr));
        statement->is_prepared = PQresultStatus(ReceiveAny(self)) == PGRES_COMMAND_OK;
    }
    if (!statement->is_prepared) {
        statement->uses = 0;
        SendStatement(self, sql, count, values); // what is wrong with it will be said
        return;
    }
    BeginSending(self);
    self->sends_prepared = true;
    EndSending(self, PQsendQueryPrepared(self->conn, NameOf(statement), count, values, nullptr,
                                         nullptr, 0));
}

bool ForgetPlans(ShardConnection *self, const char *state) {
    // It returns other types by now; or another session answers, behind a pooler.
    bool explains = self->sends_prepared && state &&
                    (strcmp(state, "0A000") == 0 || strcmp(state, "26000") == 0);
    if (explains)
        self->is_outdated = true;
    return explains;
}

void SendStatement(ShardConnection *self, const char *sql, int count, const char *const *values) {
    BeginSending(self);
    EndSending(self,
               PQsendQueryParams(self->conn, sql, count, nullptr, values, nullptr, nullptr, 0));
}

PGresult *ReceiveResult(ShardConnection *self) {
    PGresult *result = ReceiveAny(self);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        RaiseRemote(self, result);
    return result;
}

PGresult *Execute(ShardConnection *self, const char *sql, int count, const char *const *values) {
    SendStatement(self, sql, count, values);
    return ReceiveResult(self);
}

const char *ResultValue(const PGresult *result, int row, int column) {
    return PQgetisnull(result, row, column) ? nullptr : PQgetvalue(result, row, column);
}

PGconn *LibpqConnection(const ShardConnection *self) {
    return self->conn;
}

void LetEndWithTransaction(ShardConnection *self) {
    self->ends = !self->keeps;
}

TimestampTz DeadlineOf(const ShardConnection *self) {
    return self->deadline;
}

bool IsReused(const ShardConnection *self) {
    return self->is_reused;
}

void NoteReceived(ShardConnection *self) {
    self->is_busy = false;
}

void CloseConnection(ShardConnection *self) {
    Close(self);
}

void RaiseConnectionLost(ShardConnection *self, const char *reason) {
    RaiseLost(self, reason);
}

void RaiseRemoteError(ShardConnection *self, const PGresult *result) {
    RaiseRemote(self, result);
}

void InitializeConnections() {
    DefineCustomIntVariable("index_table.shard_connect_timeout",
                            "Time to connect to a shard, unless its server has connect_timeout.",
                            "0 waits forever.", &connect_timeout, 10000, 0, INT_MAX, PGC_USERSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("index_table.shard_timeout",
                            "Time that a shard may take to answer a statement of the extension.",
                            "0 waits forever.", &statement_timeout, 60000, 0, INT_MAX, PGC_USERSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    RegisterXactCallback(OnTransactionEnd, nullptr);
    RegisterSubXactCallback(OnSubTransactionEnd, nullptr);
    CacheRegisterSyscacheCallback(FOREIGNSERVEROID, OnInvalidation, 0);
    CacheRegisterSyscacheCallback(USERMAPPINGOID, OnInvalidation, 0);
}

} // namespace index_table
