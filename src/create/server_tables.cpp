#include "create/server_tables.h"

#include "create/index_parts.h"
#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {

void CheckServer(const ForeignServer *server, Oid owner) {
    if (!IsPostgres(server))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("server \"%s\" is not one of postgres_fdw", server->servername),
                        errdetail("It uses the foreign-data wrapper \"%s\".",
                                  GetForeignDataWrapper(server->fdwid)->fdwname)));
    if (compat::CheckServerPrivilege(server->serverid, owner, ACL_USAGE) != ACLCHECK_OK)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("permission denied for foreign server %s", server->servername),
                        errhint("The owner of the table, %s, needs USAGE on the server.",
                                GetUserNameFromId(owner, false))));
}

List *ParseServers(const char *names) {
    List *list;
    if (!SplitIdentifierString(pstrdup(names), ',', &list) || list == NIL)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_NAME), errmsg("\"%s\" is not a list of servers", names),
                 errhint("Name them as in CREATE SERVER: servers => 'server, server'.")));
    List *servers = NIL;
    ListCell *cell;
    foreach (cell, list) {
        ForeignServer *server = GetForeignServerByName(static_cast<char *>(lfirst(cell)), false);
        if (list_member_oid(servers, server->serverid))
            ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
                            errmsg("server \"%s\" is named twice", server->servername)));
        servers = lappend_oid(servers, server->serverid);
    }
    return servers;
}

void CreateForeignPartition(const ForeignPartition &partition) {
    const char *name = quote_qualified_identifier(partition.schema, partition.name);
    RunStatement(psprintf(
        "CREATE FOREIGN TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER %d) "
        "SERVER %s OPTIONS (schema_name %s, table_name %s, batch_size '1000', fetch_size '5000', "
        "async_capable 'true', truncatable 'false')",
        name, partition.parent, partition.modulus, partition.remainder,
        quote_identifier(GetForeignServer(partition.server)->servername),
        quote_literal_cstr(partition.schema), quote_literal_cstr(partition.name)));
    // Names that are given once do not follow when columns are renamed here.
    StringInfoData columns;
    initStringInfo(&columns);
    ListCell *cell;
    foreach (cell, partition.columns) {
        const char *column = static_cast<char *>(lfirst(cell));
        appendStringInfo(&columns, "%sALTER COLUMN %s OPTIONS (ADD column_name %s)",
                         columns.len > 0 ? ", " : "", quote_identifier(column),
                         quote_literal_cstr(column));
    }
    RunStatement(psprintf("ALTER FOREIGN TABLE %s %s", name, columns.data));
}

namespace {

// --- Statements for a server -----------------------------------------------------

// The columns of a partition as its server has them: name, type and collation.
char *RemoteColumns(Oid partition) {
    Relation rel = table_open(partition, AccessShareLock);
    TupleDesc descriptor = RelationGetDescr(rel);
    StringInfoData sql;
    initStringInfo(&sql);
    for (int i = 0; i < descriptor->natts; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        if (att->attisdropped)
            continue;
        appendStringInfo(
            &sql, "%s%s %s", sql.len > 0 ? ", " : "",
            quote_identifier(RemoteColumn(partition, att->attnum)),
            format_type_extended(att->atttypid, att->atttypmod,
                                 FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
        if (OidIsValid(att->attcollation))
            appendStringInfo(&sql, " COLLATE %s", generate_collation_name(att->attcollation));
    }
    table_close(rel, NoLock);
    return sql.data;
}

// The statements that make what a partition stands for, in one transaction, up to its rows.
char *BeginScript(Oid partition, const char *comment) {
    const char *name = RemoteName(partition);
    const char *revoke = psprintf(
        "DECLARE grantee text; BEGIN FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN "
        "'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END "
        "FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a "
        "WHERE c.oid = %s::pg_catalog.regclass AND a.grantee <> c.relowner LOOP "
        "EXECUTE %s || grantee; END LOOP; END",
        quote_literal_cstr(name), quote_literal_cstr(psprintf("REVOKE ALL ON %s FROM ", name)));
    return psprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
                    "SELECT " INDEX_TABLE_SHARD_SETTINGS(
                        "true") "; "
                                "SET LOCAL lock_timeout = '10s'; CREATE TABLE %s (%s) USING heap; "
                                "COMMENT ON TABLE %s IS %s; DO %s",
                    name, RemoteColumns(partition), name, quote_literal_cstr(comment),
                    quote_literal_cstr(revoke));
}

// The rest. Names of indexes are the server's to choose.
char *EndScript(const IndexTable *table, const IndexParts &parts, Oid partition) {
    const char *name = RemoteName(partition);
    const char *order = psprintf("(%s, %s)", parts.key, parts.rest);
    const char *indexes;
    if (!table->options.is_unique)
        indexes = psprintf("CREATE INDEX ON %s %s", name, order);
    else if (!table->options.nulls_distinct)
        indexes = psprintf("CREATE UNIQUE INDEX ON %s (%s) INCLUDE (%s) NULLS NOT DISTINCT", name,
                           parts.key, parts.rest);
    else
        indexes = psprintf("CREATE UNIQUE INDEX ON %s (%s) INCLUDE (%s); "
                           "CREATE INDEX ON %s %s WHERE %s",
                           name, parts.key, parts.rest, name, order, parts.nulls);
    return psprintf("%s; ANALYZE %s; COMMIT", indexes, name);
}

// Raises where a table cannot be made on its server.
void CheckRoom(ShardConnection *connection, Oid partition) {
    RemoteNames names = FindRemoteNames(partition);
    const char *server = ServerOf(partition)->servername;
    const char *values[] = {names.schema, names.table};
    PGresult *result = ExecuteReading(
        connection,
        "SELECT n.oid, pg_catalog.has_schema_privilege(n.oid, 'CREATE, USAGE'), c.oid, "
        "current_user FROM (VALUES ($1::text)) AS v(name) "
        "LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = v.name "
        "LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = $2::text",
        lengthof(values), values);
    const char *user = ResultValue(result, 0, 3);
    if (!ResultValue(result, 0, 0))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_SCHEMA),
                 errmsg("schema \"%s\" does not exist on server \"%s\"", names.schema, server),
                 errdetail("The tables of an index table are there in the schema that it "
                           "has here."),
                 errhint("Run there: CREATE SCHEMA %s; GRANT CREATE, USAGE ON SCHEMA %s TO "
                         "%s;",
                         quote_identifier(names.schema), quote_identifier(names.schema),
                         quote_identifier(user))));
    if (strcmp(ResultValue(result, 0, 1), "t") != 0)
        ereport(ERROR,
                (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                 errmsg("permission denied for schema %s on server \"%s\"", names.schema, server),
                 errhint("Run there: GRANT CREATE, USAGE ON SCHEMA %s TO %s;",
                         quote_identifier(names.schema), quote_identifier(user))));
    if (ResultValue(result, 0, 2))
        ereport(ERROR,
                (errcode(ERRCODE_DUPLICATE_TABLE),
                 errmsg("relation \"%s\" already exists on server \"%s\"", names.table, server),
                 errhint("Choose another name for the index table with the argument name, "
                         "or drop that one there.")));
}

// --- Rows ------------------------------------------------------------------------

// One as COPY reads it.
void AppendRow(StringInfo text, TupleTableSlot *slot, FmgrInfo *outputs) {
    slot_getallattrs(slot);
    for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++) {
        appendStringInfoString(text, i > 0 ? "\t" : "");
        if (slot->tts_isnull[i]) {
            appendStringInfoString(text, "\\N");
            continue;
        }
        for (const char *c = OutputFunctionCall(&outputs[i], slot->tts_values[i]); *c; c++) {
            constexpr char kSpecial[] = "\\\n\r\t";
            if (const char *special = strchr(kSpecial, *c))
                appendStringInfo(text, "\\%c", "\\nrt"[special - kSpecial]);
            else
                appendStringInfoChar(text, *c);
        }
    }
    appendStringInfoChar(text, '\n');
}

void CopyRows(ShardConnection *connection, Tuplestorestate *rows, TupleDesc descriptor) {
    constexpr int kPiece = 64 * 1024;
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "index_table rows sent",
                                                 ALLOCSET_DEFAULT_SIZES);
    FmgrInfo *outputs = palloc_array(FmgrInfo, descriptor->natts);
    for (int i = 0; i < descriptor->natts; i++) {
        Oid output;
        bool is_varlena;
        getTypeOutputInfo(TupleDescAttr(descriptor, i)->atttypid, &output, &is_varlena);
        fmgr_info(output, &outputs[i]);
    }
    StringInfoData piece;
    initStringInfo(&piece);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
    int level = BeginTransmission();
    while (tuplestore_gettupleslot(rows, true, false, slot)) {
        MemoryContext caller = MemoryContextSwitchTo(memory);
        AppendRow(&piece, slot, outputs);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(memory);
        if (piece.len >= kPiece) {
            SendCopyData(connection, piece.data, piece.len);
            resetStringInfo(&piece);
            CHECK_FOR_INTERRUPTS();
        }
    }
    EndTransmission(level);
    ExecDropSingleTupleTableSlot(slot);
    if (piece.len > 0)
        SendCopyData(connection, piece.data, piece.len);
    MemoryContextDelete(memory);
}

// The columns of a partition by position, as its server calls them.
char *CopiedColumns(const IndexTable *table, Oid partition) {
    Relation rel = table_open(partition, AccessShareLock);
    const AttrNumber *attnos = GetLiveColumns(rel, table->column_count);
    StringInfoData names;
    initStringInfo(&names);
    for (int i = 0; i < table->column_count; i++)
        appendStringInfo(&names, "%s%s", i > 0 ? ", " : "",
                         quote_identifier(RemoteColumn(partition, attnos[i])));
    table_close(rel, NoLock);
    return names.data;
}

// --- Making one ------------------------------------------------------------------

// Makes what a partition stands for, as its options say, with rows. It is committed there at once.
void MakeServerTable(const IndexTable *table, Oid partition, Tuplestorestate *rows,
                     TupleDesc descriptor) {
    ShardConnection *connection = OpenConnection(partition);
    CheckRoom(connection, partition);
    IndexParts parts = MakeIndexParts(table);
    // What is in the way of a definition made here: names there may be others.
    PG_TRY();
    {
        RunScript(connection, BeginScript(partition, RememberServerTable(partition)));
        BeginCopy(connection, psprintf("COPY %s (%s) FROM STDIN WITH (FREEZE)",
                                       RemoteName(partition), CopiedColumns(table, partition)));
        CopyRows(connection, rows, descriptor);
        EndCopy(connection);
        RunScript(connection, EndScript(table, parts, partition));
    }
    PG_CATCH();
    {
        CloseConnection(connection);
        PG_RE_THROW();
    }
    PG_END_TRY();
}

// Has a partition stand for another table, whose name is not used on its server.
void ChooseAnotherName(Oid partition, ShardConnection *connection) {
    RemoteNames names = FindRemoteNames(partition);
    const char *local = get_rel_name(partition);
    const char *name = local;
    for (int i = 1;; i++) {
        const char *values[] = {names.schema, name};
        PGresult *found = ExecuteReading(
            connection,
            "SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
            "ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND c.relname = $2::text",
            lengthof(values), values);
        if (PQntuples(found) == 0)
            break;
        name = makeObjectName(local, nullptr, psprintf("%d", i));
    }
    ExecuteUnguarded(psprintf("ALTER FOREIGN TABLE %s OPTIONS (SET table_name %s)",
                              QualifiedName(partition), quote_literal_cstr(name)));
}

// --- Receiving -------------------------------------------------------------------

struct ServerLoadReceiver {
    DestReceiver receiver;
    const IndexTable *table;
    MemoryContext memory;
    EntryStorage storage; // without a root: there is one place
    TupleDesc descriptor;
    Tuplestorestate **rows; // by place
    Oid *partitions;        // likewise
};

void Startup(DestReceiver *receiver, int, TupleDesc descriptor) {
    ServerLoadReceiver *self = reinterpret_cast<ServerLoadReceiver *>(receiver);
    MemoryContext caller = MemoryContextSwitchTo(self->memory);
    self->descriptor = CreateTupleDescCopy(descriptor);
    MemoryContextSwitchTo(caller);
}

bool Receive(TupleTableSlot *slot, DestReceiver *receiver) {
    ServerLoadReceiver *self = reinterpret_cast<ServerLoadReceiver *>(receiver);
    int place = self->storage.root ? RouteEntry(self->storage, slot) : 0;
    tuplestore_puttupleslot(self->rows[place], slot);
    return true;
}

void Shutdown(DestReceiver *) {}
void Destroy(DestReceiver *) {}

ServerLoadReceiver *NewReceiver(const IndexTable *table) {
    ServerLoadReceiver *self = palloc0_object(ServerLoadReceiver);
    self->receiver.receiveSlot = Receive;
    self->receiver.rStartup = Startup;
    self->receiver.rShutdown = Shutdown;
    self->receiver.rDestroy = Destroy;
    self->receiver.mydest = DestIntoRel;
    self->table = table;
    self->memory = CurrentMemoryContext;
    return self;
}

} // namespace

DestReceiver *CreateServerLoadReceiver(const IndexTable *table) {
    ServerLoadReceiver *self = NewReceiver(table);
    self->storage = GetStorage(table_open(table->relid, RowExclusiveLock));
    int count = self->storage.count;
    self->rows = palloc_array(Tuplestorestate *, count);
    self->partitions = palloc_array(Oid, count);
    for (int i = 0; i < count; i++) {
        self->rows[i] = tuplestore_begin_heap(false, false, Max(64, maintenance_work_mem / count));
        self->partitions[i] = self->storage.partitions->oids[i];
    }
    return &self->receiver;
}

void MakeServerTables(const IndexTable *table, DestReceiver *received, bool anew) {
    Assert(IsInOwnerOf(table->relid) && table->on_servers);
    ServerLoadReceiver *self = reinterpret_cast<ServerLoadReceiver *>(received);
    int count = self->storage.count;
    table_close(self->storage.root, NoLock); // DDL refuses a table that this session has open
    for (int i = 0; i < count; i++) {
        if (anew) {
            AbandonServerTable(self->partitions[i]);
            ChooseAnotherName(self->partitions[i], OpenConnection(self->partitions[i]));
        }
        MakeServerTable(table, self->partitions[i], self->rows[i], self->descriptor);
        tuplestore_end(self->rows[i]);
    }
}

// PostgreSQL does not make unique indexes over foreign tables: this one has no children, and is not
// valid.
void CreateRootIndex(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid) && table->on_servers);
    IndexParts parts = MakeIndexParts(table);
    bool is_unique = table->options.is_unique;
    const char *name = quote_identifier(
        ChooseRelationName(parts.name, nullptr, is_unique ? "key" : "idx", parts.schema, false));
    if (is_unique)
        RunStatement(psprintf("CREATE UNIQUE INDEX %s ON ONLY %s (%s) INCLUDE (%s)%s", name,
                              parts.target, parts.key, parts.rest,
                              table->options.nulls_distinct ? "" : " NULLS NOT DISTINCT"));
    else
        RunStatement(psprintf("CREATE INDEX %s ON ONLY %s (%s, %s)", name, parts.target, parts.key,
                              parts.rest));
}

// --- Repair ------------------------------------------------------------------------

void RemoveLater(ServerRepair *repair, Oid storage, ItemPointer tid) {
    MemoryContext caller = MemoryContextSwitchTo(repair->memory);
    int place = 0;
    while (place < list_length(repair->storages) &&
           list_nth_oid(repair->storages, place) != storage)
        place++;
    if (place == list_length(repair->storages)) {
        repair->storages = lappend_oid(repair->storages, storage);
        repair->places = lappend(repair->places, makeStringInfo());
    }
    StringInfo tids = static_cast<StringInfo>(list_nth(repair->places, place));
    appendStringInfo(tids, "%s\"(%u,%u)\"", tids->len > 0 ? "," : "",
                     ItemPointerGetBlockNumberNoCheck(tid), ItemPointerGetOffsetNumberNoCheck(tid));
    MemoryContextSwitchTo(caller);
}

void EnterLater(ServerRepair *repair, HeapTuple row, TupleDesc descriptor) {
    MemoryContext caller = MemoryContextSwitchTo(repair->memory);
    if (!repair->rows) {
        repair->rows = tuplestore_begin_heap(true, false, work_mem);
        repair->descriptor = CreateTupleDescCopy(descriptor);
    }
    tuplestore_puttuple(repair->rows, row);
    MemoryContextSwitchTo(caller);
}

void RepairServerTables(ServerRepair *repair) {
    const IndexTable *table = repair->table;
    Assert(IsInOwnerOf(table->relid));
    for (int i = 0; i < list_length(repair->storages); i++)
        ExecuteUnguarded(psprintf("DELETE FROM ONLY %s WHERE ctid = ANY ('{%s}'::tid[])",
                                  QualifiedName(list_nth_oid(repair->storages, i)),
                                  static_cast<StringInfo>(list_nth(repair->places, i))->data));
    if (!repair->rows)
        return;
    Relation rel = table_open(table->relid, RowExclusiveLock);
    const AttrNumber *attnos = GetLiveColumns(rel, table->column_count);
    StringInfoData columns, values;
    initStringInfo(&columns);
    initStringInfo(&values);
    for (int i = 0; i < table->column_count; i++) {
        const char *separator = i > 0 ? ", " : "";
        const FormData_pg_attribute *att = TupleDescAttr(RelationGetDescr(rel), attnos[i] - 1);
        appendStringInfo(&columns, "%s%s", separator, quote_identifier(NameStr(att->attname)));
        appendStringInfo(&values, "%sc%d", separator, i + 1);
    }
    table_close(rel, NoLock);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    EphemeralNamedRelationData *entries = palloc0_object(EphemeralNamedRelationData);
    entries->md.name = pstrdup("index_table entries");
    entries->md.tupdesc = repair->descriptor;
    entries->md.enrtype = ENR_NAMED_TUPLESTORE;
    entries->md.enrtuples = tuplestore_tuple_count(repair->rows);
    entries->reldata = repair->rows;
    if (SPI_register_relation(entries) != SPI_OK_REL_REGISTER)
        elog(ERROR, "SPI_register_relation failed");
    SPIPlanPtr plan = SPI_prepare(psprintf("INSERT INTO %s (%s) SELECT %s FROM "
                                           "\"index_table entries\"",
                                           QualifiedName(table->relid), columns.data, values.data),
                                  0, nullptr);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    ExecuteUnguarded(plan, InvalidSnapshot);
    SPI_finish();
    tuplestore_end(repair->rows);
}

// --- Columns -----------------------------------------------------------------------

namespace {

// What postgres_fdw has locked there for this transaction it would wait for. The index table is
// locked here: no other session of this server has anything to do with the table.
void CheckIsNotLocked(Oid partition, ShardConnection *connection, const char *table_name) {
    PGresult *locks = ExecuteReading(
        connection,
        "SELECT FROM pg_catalog.pg_locks WHERE relation = $1::pg_catalog.regclass AND granted "
        "AND database = (SELECT oid FROM pg_catalog.pg_database "
        "WHERE datname = pg_catalog.current_database()) "
        "AND mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')",
        1, &table_name);
    Relation rel = relation_open(partition, NoLock);
    bool is_new = rel->rd_createSubid != InvalidSubTransactionId;
    relation_close(rel, NoLock);
    if (PQntuples(locks) == 0 || !(is_new || HasUsedServers(list_make1_oid(partition))))
        return;
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("cannot add a column to partition \"%s\" in a transaction that has used "
                           "server \"%s\" before",
                           get_rel_name(partition), ServerOf(partition)->servername),
                    errdetail("It has locked the table there, through postgres_fdw, and would wait "
                              "for itself."),
                    errhint("Begin another transaction, and do this first.")));
}

} // namespace

void AddServerColumn(const IndexTable *table, const char *column, const char *missing) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(table->relid, NoLock)) {
        Oid partition = lfirst_oid(cell);
        AttrNumber attno = get_attnum(partition, column);
        HeapTuple tuple = SearchSysCacheAttNum(partition, attno);
        FormData_pg_attribute att = *reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
        ReleaseSysCache(tuple);
        ShardConnection *connection = OpenConnection(partition);
        // One that was added by a transaction that failed is there still.
        const char *name = column;
        const char *table_name = RemoteName(partition);
        CheckIsNotLocked(partition, connection, table_name);
        for (int i = 1;; i++) {
            const char *values[] = {table_name, name};
            PGresult *found = ExecuteReading(
                connection,
                "SELECT FROM pg_catalog.pg_attribute WHERE attrelid = $1::pg_catalog.regclass "
                "AND attname = $2::text",
                lengthof(values), values);
            if (PQntuples(found) == 0)
                break;
            name = makeObjectName(column, nullptr, psprintf("%d", i));
        }
        const char *quoted = quote_identifier(name);
        const char *collate =
            OidIsValid(att.attcollation)
                ? psprintf(" COLLATE %s", generate_collation_name(att.attcollation))
                : "";
        const char *block = psprintf(
            "BEGIN PERFORM pg_catalog.set_config('lock_timeout', '10s', true); "
            "ALTER TABLE %s ADD COLUMN %s %s%s%s; ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT; END",
            table_name, quoted,
            format_type_extended(att.atttypid, att.atttypmod,
                                 FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY),
            collate, missing, table_name, quoted);
        ExecuteWriting(connection, psprintf("DO %s", quote_literal_cstr(block)), 0, nullptr);
        ExecuteUnguarded(psprintf("ALTER FOREIGN TABLE %s ALTER COLUMN %s OPTIONS (ADD column_name "
                                  "%s)",
                                  QualifiedName(partition), quote_identifier(column),
                                  quote_literal_cstr(name)));
    }
}

namespace {

// There is no ALTER FOREIGN TABLE ... SERVER.
void SwitchServer(Oid partition, Oid server) {
    Relation tables = table_open(ForeignTableRelationId, RowExclusiveLock);
    HeapTuple tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(partition));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for foreign table %u", partition);
    Form_pg_foreign_table form = reinterpret_cast<Form_pg_foreign_table>(GETSTRUCT(tuple));
    Oid old_server = form->ftserver;
    form->ftserver = server;
    CatalogTupleUpdate(tables, &tuple->t_self, tuple);
    table_close(tables, RowExclusiveLock);
    if (changeDependencyFor(RelationRelationId, partition, ForeignServerRelationId, old_server,
                            server) != 1)
        elog(ERROR, "foreign table %u does not depend on its server", partition);
    CacheInvalidateRelcacheByRelid(partition);
    CommandCounterIncrement();
}

// What a partition's server has of it.
ServerLoadReceiver *ReadServerTable(const IndexTable *table, Oid partition) {
    Relation rel = table_open(partition, AccessShareLock);
    StringInfoData columns;
    initStringInfo(&columns);
    AppendStoredColumns(&columns, rel, table);
    table_close(rel, NoLock);
    ServerLoadReceiver *self = NewReceiver(table);
    self->rows = palloc_object(Tuplestorestate *);
    *self->rows = tuplestore_begin_heap(false, false, work_mem);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    SPIExecuteOptions options = {};
    options.dest = &self->receiver;
    int result = SPI_execute_extended(
        psprintf("SELECT %s FROM ONLY %s", columns.data, QualifiedName(partition)), &options);
    if (result < 0)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
    SPI_finish();
    return self;
}

} // namespace

void MoveServerTable(const IndexTable *table, Oid partition, const ForeignServer *server) {
    Assert(IsInOwnerOf(table->relid) && IsLocked(partition, ExclusiveLock));
    RequireUnusedServers(list_make1_oid(partition),
                         psprintf("move partition \"%s\"", get_rel_name(partition)));
    ServerLoadReceiver *received = ReadServerTable(table, partition);
    AbandonServerTable(partition);
    SwitchServer(partition, server->serverid);
    ChooseAnotherName(partition, OpenConnection(partition));
    MakeServerTable(table, partition, *received->rows, received->descriptor);
    tuplestore_end(*received->rows);
    Invalidate(table->base);
}

void AdoptServerTables(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid) && table->on_servers);
    ListCell *cell;
    foreach (cell, find_inheritance_children(table->relid, NoLock)) {
        const char *comment = AdoptServerTable(lfirst_oid(cell));
        if (!comment)
            continue;
        const char *block = psprintf("BEGIN PERFORM pg_catalog.set_config('lock_timeout', '10s', "
                                     "true); COMMENT ON TABLE %s IS %s; END",
                                     RemoteName(lfirst_oid(cell)), quote_literal_cstr(comment));
        ExecuteWriting(OpenConnection(lfirst_oid(cell)),
                       psprintf("DO %s", quote_literal_cstr(block)), 0, nullptr);
    }
}

} // namespace index_table
