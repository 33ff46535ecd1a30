#include "shard/connection.h"

#include "core/public.h"
#include "shard/connection_options.h"
#include "shard/shared_session.h"

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
    uint8 secret[16];     // of the connection: nobody can foretell the names of its statements
    TimestampTz started;  // connecting
    bool is_shared;       // its session on the shard is not this session's own
    bool is_distrusted;   // its session seemed its own, and was not
    bool checks_client;   // the shard can look after its client
    bool sends_prepared;  // what was sent is one of the statements
    bool sends_shared;    // what was sent is answered by:
    SharedAnswer answer;
    bool is_outdated;
    bool keeps;   // as the server's option keep_connections says
    bool ends;    // with the transaction
    bool is_used; // in this one
    bool is_reused;
    bool is_busy; // connecting, or a statement's result was not received
    int level;    // of the subtransaction that made it so
    TimestampTz deadline;
};

namespace {

// A statement that was sent repeatedly.
struct Statement {
    uint64 hash; // of its text; hash key
    char *sql;
    int uses;
    bool is_prepared;
    char name[NAMEDATALEN]; // on the shard, where it is prepared
};

constexpr char kDuplicateStatement[] = "42P05";
constexpr char kNoSuchStatement[] = "26000";

constinit ShardConnection *connections = nullptr; // the one that was asked for last is the first
constinit int kept_connections = 64;
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

char *Describe(const ShardConnection *self) {
    return OidIsValid(self->table) ? psprintf("server \"%s\" of foreign table \"%s\"", self->server,
                                              get_rel_name(self->table))
                                   : psprintf("server \"%s\"", self->server);
}

[[noreturn]] void RaiseNotConnected(ShardConnection *self, const char *reason) {
    Close(self);
    ereport(ERROR,
            (errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
             errmsg("could not connect to %s", Describe(self)), errdetail_internal("%s", reason)));
}

[[noreturn]] void RaiseLost(ShardConnection *self, const char *reason) {
    Close(self);
    ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
                    errmsg("lost the connection to %s", Describe(self)),
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

// Closes all but the first `count` open ones of those that this transaction has not used.
bool CloseUnused(int count) {
    bool has_closed = false;
    for (ShardConnection *self = connections; self; self = self->next)
        if (self->conn && !self->is_used && --count < 0) {
            Close(self);
            has_closed = true;
        }
    return has_closed;
}

// Leaves one for waiting for several connections at once.
bool AcquireDescriptor() {
    if (!AcquireExternalFD())
        return false;
    bool has_more = AcquireExternalFD();
    ReleaseExternalFD();
    return has_more;
}

void Connect(ShardConnection *self, const ConnectionOptions &options) {
    CheckBeforeConnecting(options);
    if (!AcquireDescriptor() && !(CloseUnused(0) && AcquireDescriptor()))
        ereport(ERROR, (errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
                        errmsg("could not connect to %s", Describe(self)),
                        errdetail("There are too many open files on the local server."),
                        errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" "
                                "limits.")));
    self->started = GetCurrentTimestamp();
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
// when this session has closed the connection. Where the process on the shard is not the one that
// has answered at first, nothing is set: a pooler lends out sessions there. A pooler that passes
// the number of a process on would lend one that was there before this session began to connect.
void Configure(ShardConnection *self) {
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table connecting", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    const char *process = psprintf("%d", PQbackendPID(self->conn));
    self->is_shared = false; // sent as it is: nothing else is known yet
    PGresult *result = ExecuteReading(
        self,
        "SELECT s.is_own, s.checks_client, extract(epoch FROM pg_catalog.clock_timestamp() "
        "OPERATOR(pg_catalog.-) a.backend_start), CASE WHEN s.is_own THEN "
        "ROW(" INDEX_TABLE_SHARD_SETTINGS(
            "false") ") END, CASE WHEN s.is_own AND s.checks_client "
                     "THEN pg_catalog.set_config('client_connection_check_interval', '2s', false) "
                     "END "
                     "FROM (SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) "
                     "$1::pg_catalog.int4 "
                     "AS is_own, EXISTS (SELECT FROM pg_catalog.pg_settings AS g WHERE g.name "
                     "OPERATOR(pg_catalog.=) 'client_connection_check_interval' AND g.max_val "
                     "OPERATOR(pg_catalog.<>) '0') AS checks_client OFFSET 0) AS s LEFT JOIN "
                     "pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a ON true",
        1, &process);
    auto is_true = [result](int column) {
        const char *value = ResultValue(result, 0, column);
        return value && strcmp(value, "t") == 0;
    };
    constexpr int kIsOwn = 0, kChecksClient = 1, kAge = 2;
    double elapsed = (GetCurrentTimestamp() - self->started) / static_cast<double>(USECS_PER_SEC);
    const char *age = ResultValue(result, 0, kAge);
    self->is_shared =
        self->is_distrusted || !is_true(kIsOwn) || !age || strtod(age, nullptr) > elapsed;
    self->checks_client = is_true(kChecksClient);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
    if (!pg_strong_random(self->secret, sizeof(self->secret)))
        self->is_shared = true;
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

// One that nobody waits for an answer of: while a row is read, code of its types may ask for
// others.
ShardConnection *FindConnection(Oid mapping, Oid user) {
    ShardConnection **link = &connections;
    while (*link && ((*link)->mapping != mapping || (*link)->user != user || (*link)->is_busy))
        link = &(*link)->next;
    ShardConnection *self = *link;
    if (self) {
        *link = self->next;
    } else {
        self = static_cast<ShardConnection *>(
            MemoryContextAllocZero(TopMemoryContext, sizeof(ShardConnection)));
        self->mapping = mapping;
        self->user = user;
    }
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
                    hint ? errhint("%s", hint) : 0, errcontext("%s", Describe(self))));
}

// --- Ends --------------------------------------------------------------------

void CloseBusy(int level) {
    for (ShardConnection *self = connections; self; self = self->next)
        if (self->is_busy && self->level >= level)
            Close(self);
}

void OnInvalidation(Datum, compat::CacheNumber cache, uint32 hash) {
    for (ShardConnection *self = connections; self; self = self->next)
        if (hash == 0 ||
            hash == (cache == FOREIGNSERVEROID ? self->server_hash : self->mapping_hash)) {
            self->is_outdated = true;
            self->is_distrusted = false; // it may lead elsewhere
        }
}

} // namespace

ForeignServer *ServerOf(Oid foreign_table) {
    return GetForeignServer(GetForeignTable(foreign_table)->serverid);
}

bool IsOfPostgres(Oid foreign_table) {
    return IsPostgres(ServerOf(foreign_table));
}

bool IsPostgres(const ForeignServer *server) {
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
    ForeignServer *server = ServerOf(foreign_table);
    if (!IsOfPostgres(foreign_table))
        ereport(
            ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("foreign table \"%s\" is not one of postgres_fdw", get_rel_name(foreign_table)),
             errdetail("Its server \"%s\" uses the foreign-data wrapper \"%s\".",
                       server->servername, GetForeignDataWrapper(server->fdwid)->fdwname)));
    return OpenServerConnection(server, user, foreign_table);
}

ShardConnection *OpenServerConnection(ForeignServer *server, Oid user, Oid foreign_table) {
    UserMapping *mapping = GetUserMapping(user, server->serverid);
    ShardConnection *self = FindConnection(mapping->umid, user);
    self->ends = false;
    self->is_used = true;
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
    self->sends_shared = false;
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
        self->statements =
            MakeHashTable<uint64, Statement>("index_table statements of shards", 32, self->memory);
    }
    uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(sql), strlen(sql), 0);
    bool found;
    if (hash_get_num_entries(self->statements) == kStatements)
        ForgetUnprepared(self);
    bool has_room = hash_get_num_entries(self->statements) < kStatements;
    Statement *statement = static_cast<Statement *>(
        hash_search(self->statements, &hash, has_room ? HASH_ENTER : HASH_FIND, &found));
    if (statement && !found)
        *statement = {.hash = hash, .sql = MemoryContextStrdup(self->memory, sql)};
    return statement && strcmp(statement->sql, sql) == 0 ? statement : nullptr;
}

// Names a statement by what it says, and by whom: wherever a statement has this name, it is ours.
// False where that cannot be.
bool SetName(const ShardConnection *self, Statement *statement) {
    constexpr int kBytes = 24;
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);
    const uint8 *sql = reinterpret_cast<const uint8 *>(statement->sql);
    bool is_made = context && pg_cryptohash_init(context) == 0 &&
                   pg_cryptohash_update(context, self->secret, sizeof(self->secret)) == 0 &&
                   pg_cryptohash_update(context, sql, strlen(statement->sql)) == 0 &&
                   pg_cryptohash_final(context, digest, sizeof(digest)) == 0;
    pg_cryptohash_free(context);
    if (!is_made)
        return false;
    char *end = statement->name + sprintf(statement->name, "index_table_");
    static_assert(lengthof("index_table_") + 2 * kBytes <= NAMEDATALEN); // what a shard compares
    for (int i = 0; i < kBytes; i++)
        end += sprintf(end, "%02x", digest[i]);
    return true;
}

bool HasState(const PGresult *result, const char *state) {
    const char *given = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return given && strcmp(given, state) == 0;
}

// Somebody else has done something to the session on the shard: it is not this session's own.
void Distrust(ShardConnection *self) {
    self->is_distrusted = true;
    self->is_shared = true;
}

// Waits until something can be sent, or has come; what takes long may do so as long as it goes on.
void WaitForSocket(ShardConnection *self, int events) {
    if (!Wait(self, events))
        RaiseLost(self, "It did not answer within index_table.shard_timeout.");
}

// What was sent is answered by, an error too.
PGresult *ReceiveAny(ShardConnection *self) {
    HeldResult *held = palloc0_object(HeldResult);
    held->callback = {.func = ClearResult, .arg = held};
    MemoryContextRegisterResetCallback(CurrentMemoryContext, &held->callback);
    for (;;) {
        PGresult *result;
        switch (TakeArrival(self, &result)) {
        case Arrival::Nothing: {
            int unsent = PQflush(self->conn);
            if (unsent >= 0)
                WaitForSocket(self, WL_SOCKET_READABLE | (unsent > 0 ? WL_SOCKET_WRITEABLE : 0));
            if (unsent < 0 || !PQconsumeInput(self->conn))
                RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
            break;
        }
        case Arrival::Result:
            PQclear(held->result);
            held->result = result;
            break;
        case Arrival::End:
            return held->result;
        }
    }
}

} // namespace

void SendRepeatedly(ShardConnection *self, const char *sql, int count, const char *const *values) {
    constexpr int kPreparedFrom = 3; // preparing costs a round trip of its own
    Statement *statement = self->is_shared ? nullptr : FindStatement(self, sql);
    if (!statement || ++statement->uses < kPreparedFrom) {
        SendStatement(self, sql, count, values);
        return;
    }
    if (!statement->is_prepared && SetName(self, statement)) {
        BeginSending(self);
        EndSending(self, PQsendPrepare(self->conn, statement->name, sql, 0, nullptr));
        const PGresult *result = ReceiveAny(self);
        statement->is_prepared = PQresultStatus(result) == PGRES_COMMAND_OK;
        if (HasState(result, kDuplicateStatement))
            Distrust(self);
    }
    if (!statement->is_prepared) {
        statement->uses = 0;
        SendStatement(self, sql, count, values); // what is wrong with it will be said
        return;
    }
    BeginSending(self);
    self->sends_prepared = true;
    EndSending(
        self, PQsendQueryPrepared(self->conn, statement->name, count, values, nullptr, nullptr, 0));
}

bool ForgetPlans(ShardConnection *self, const char *state) {
    if (!self->sends_prepared || !state)
        return false;
    bool is_lost = strcmp(state, kNoSuchStatement) == 0;
    bool is_outdated = strcmp(state, "0A000") == 0; // it returns other types by now
    if (is_lost)
        Distrust(self);
    if (is_lost || is_outdated)
        self->is_outdated = true;
    return is_lost || is_outdated;
}

namespace {

void SendFor(ShardConnection *self, SharedPurpose purpose, const char *sql, int count,
             const char *const *values) {
    BeginSending(self);
    self->sends_shared = self->is_shared;
    EndSending(self, self->sends_shared ? SendShared(self->conn, &self->answer, purpose,
                                                     self->checks_client, sql, count, values)
                                        : PQsendQueryParams(self->conn, sql, count, nullptr, values,
                                                            nullptr, nullptr, 0));
}

} // namespace

void SendStatement(ShardConnection *self, const char *sql, int count, const char *const *values) {
    SendFor(self, SharedPurpose::Reading, sql, count, values);
}

void TakeRowByRow(ShardConnection *self) {
    Assert(self->conn && self->is_busy);
    if (self->sends_shared)
        self->answer.by_row = true;
    else
        PQsetSingleRowMode(self->conn);
}

Arrival TakeArrival(ShardConnection *self, PGresult **result) {
    Arrival arrival;
    if (self->sends_shared) {
        arrival = ReceiveShared(self->conn, &self->answer, result);
    } else if (PQisBusy(self->conn)) {
        arrival = Arrival::Nothing;
    } else {
        *result = PQgetResult(self->conn);
        arrival = *result ? Arrival::Result : Arrival::End;
    }
    if (arrival == Arrival::End)
        self->is_busy = false;
    return arrival;
}

PGresult *ReceiveResult(ShardConnection *self) {
    Assert(self->conn && self->is_busy);
    PGresult *result = ReceiveAny(self);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        RaiseRemote(self, result);
    return result;
}

PGresult *ExecuteReading(ShardConnection *self, const char *sql, int count,
                         const char *const *values) {
    SendStatement(self, sql, count, values);
    return ReceiveResult(self);
}

PGresult *ExecuteWriting(ShardConnection *self, const char *sql, int count,
                         const char *const *values) {
    SendFor(self, SharedPurpose::Writing, sql, count, values);
    return ReceiveResult(self);
}

void RunScript(ShardConnection *self, const char *sql) {
    BeginSending(self);
    self->deadline = 0;
    EndSending(self, PQsendQuery(self->conn, sql));
    ReceiveResult(self);
}

void BeginCopy(ShardConnection *self, const char *sql) {
    BeginSending(self);
    EndSending(self, PQsendQuery(self->conn, sql));
    while (PQisBusy(self->conn)) {
        int unsent = PQflush(self->conn);
        if (unsent >= 0)
            WaitForSocket(self, WL_SOCKET_READABLE | (unsent > 0 ? WL_SOCKET_WRITEABLE : 0));
        if (unsent < 0 || !PQconsumeInput(self->conn))
            RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
    }
    PGresult *result = PQgetResult(self->conn);
    if (PQresultStatus(result) != PGRES_COPY_IN) {
        HeldResult *held = palloc0_object(HeldResult); // the error is raised from it
        held->callback = {.func = ClearResult, .arg = held};
        held->result = result;
        MemoryContextRegisterResetCallback(CurrentMemoryContext, &held->callback);
        RaiseRemote(self, result);
    }
    PQclear(result);
}

void SendCopyData(ShardConnection *self, const char *data, int length) {
    BeginWork(self, statement_timeout);
    for (;;) {
        int done = PQputCopyData(self->conn, data, length);
        int unsent = done < 0 ? -1 : PQflush(self->conn);
        if (unsent < 0)
            RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
        if (unsent > 0)
            WaitForSocket(self, WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE);
        if (unsent > 0 && !PQconsumeInput(self->conn))
            RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
        if (done > 0)
            return;
    }
}

void EndCopy(ShardConnection *self) {
    while (PQputCopyEnd(self->conn, nullptr) == 0) {
        WaitForSocket(self, WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE);
        if (PQflush(self->conn) < 0 || !PQconsumeInput(self->conn))
            RaiseLost(self, Trimmed(PQerrorMessage(self->conn)));
    }
    BeginWork(self, statement_timeout);
    ReceiveResult(self);
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

void CloseConnection(ShardConnection *self) {
    Close(self);
}

void RaiseConnectionLost(ShardConnection *self, const char *reason) {
    RaiseLost(self, reason);
}

void RaiseRemoteError(ShardConnection *self, const PGresult *result) {
    RaiseRemote(self, result);
}

void AtEOXactConnections() {
    for (ShardConnection *self = connections; self; self = self->next) {
        if (self->is_busy || self->ends)
            Close(self);
        self->is_used = false;
    }
    CloseUnused(kept_connections);
}

void AtEOSubXactConnections(bool commits, int level) {
    Assert(level > 1);
    if (!commits)
        CloseBusy(level);
    for (ShardConnection *self = connections; commits && self; self = self->next)
        self->level = Min(self->level, level - 1);
}

void InitializeConnections() {
    DefineCustomIntVariable("index_table.shard_connect_timeout",
                            "Time to connect to a shard, unless its server has connect_timeout.",
                            "0 waits forever.", &connect_timeout, 10000, 0, INT_MAX, PGC_USERSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("index_table.shard_connections",
                            "Connections to shards that a session keeps between transactions.",
                            "Those that were used last are kept.", &kept_connections, 64, 0,
                            INT_MAX, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("index_table.shard_timeout",
                            "Time that a shard may take to answer a statement of the extension.",
                            "0 waits forever.", &statement_timeout, 60000, 0, INT_MAX, PGC_USERSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    CacheRegisterSyscacheCallback(FOREIGNSERVEROID, OnInvalidation, 0);
    CacheRegisterSyscacheCallback(USERMAPPINGOID, OnInvalidation, 0);
}

} // namespace index_table
