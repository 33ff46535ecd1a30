// index_table.create() and index_table.drop().
#include "catalog/public.h"
#include "core/public.h"
#include "create/backfill.h"
#include "create/base_table.h"
#include "create/defer.h"
#include "create/dependencies.h"
#include "create/drop.h"
#include "create/key_concerns.h"
#include "create/online.h"
#include "create/server_tables.h"
#include "create/trial.h"
#include "deferred/public.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

struct CreateArguments {
    Oid base;
    char *key;
    IndexOptions options;
    char *include;   // null: none
    char *name;      // null: generated
    char *predicate; // null: none
    char *identity;  // null: the primary key
    int32 partitions;
    char *tablespace; // null: the default
    List *servers;    // OIDs of those that the partitions are on; NIL: on this one
};

char *TextArgument(FunctionCallInfo fcinfo, int i) {
    return PG_ARGISNULL(i) ? nullptr : text_to_cstring(PG_GETARG_TEXT_PP(i));
}

char *RequiredText(FunctionCallInfo fcinfo, int i, const char *name) {
    if (PG_ARGISNULL(i))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("argument %s of index_table.create() must not be null", name)));
    return TextArgument(fcinfo, i);
}

[[noreturn]] void RaiseNotOnServers(const char *what, const char *hint) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("an index table on servers cannot %s", what), errhint("%s", hint)));
}

// What index tables on servers cannot do.
void CheckOnServers(const CreateArguments &arguments) {
    if (arguments.options.is_deferrable)
        RaiseNotOnServers("have a deferrable key", "Leave is_deferrable out, or servers.");
    if (arguments.options.is_deferred)
        RaiseNotOnServers("be maintained deferred",
                          "Use maintenance => 'immediate', or leave servers out.");
    if (arguments.tablespace)
        RaiseNotOnServers("be in a tablespace of this one",
                          "On its servers it is in the default tablespace of the role that "
                          "connects: ALTER ROLE ... SET default_tablespace there.");
    if (arguments.partitions < list_length(arguments.servers))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("fewer partitions (%d) than servers (%d)", arguments.partitions,
                               list_length(arguments.servers)),
                        errhint("Choose some for each server: partitions => %d. Later they can be "
                                "moved, and not divided.",
                                4 * list_length(arguments.servers))));
}

// Whether a function is called that 0.1.0 has made: the database was not updated.
bool IsOfOlder(FunctionCallInfo fcinfo) {
    return fcinfo->nargs < 16;
}

void CheckTablespace(const char *name) {
    if (!*name)
        ereport(ERROR, (errcode(ERRCODE_INVALID_NAME),
                        errmsg("\"%s\" is not the name of a tablespace", name),
                        errhint("Name one as in pg_tablespace, or leave tablespace out.")));
    get_tablespace_oid(name, false);
    if (strcmp(name, "pg_global") == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("an index table cannot be in tablespace \"%s\"", name),
                        errdetail("It is for tables that all databases share."),
                        errhint("Name another one, or leave tablespace out.")));
}

CreateArguments ReadArguments(FunctionCallInfo fcinfo) {
    CreateArguments arguments = {};
    if (PG_ARGISNULL(0))
        RequiredText(fcinfo, 0, "base");
    arguments.base = PG_GETARG_OID(0);
    arguments.key = RequiredText(fcinfo, 1, "key");
    arguments.options.strategy = ParseStrategy(RequiredText(fcinfo, 2, "strategy"));
    arguments.include = TextArgument(fcinfo, 3);
    arguments.name = TextArgument(fcinfo, 4);
    arguments.options.is_unique = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
    arguments.predicate = TextArgument(fcinfo, 6);
    arguments.identity = TextArgument(fcinfo, 7);
    arguments.partitions = PG_ARGISNULL(9) ? 0 : PG_GETARG_INT32(9);
    arguments.tablespace = TextArgument(fcinfo, 10);
    arguments.options.nulls_distinct = PG_ARGISNULL(11) || PG_GETARG_BOOL(11);
    arguments.options.initially_deferred = !PG_ARGISNULL(13) && PG_GETARG_BOOL(13);
    arguments.options.is_deferrable =
        arguments.options.initially_deferred || (!PG_ARGISNULL(12) && PG_GETARG_BOOL(12));
    arguments.options.is_visible = IsOfOlder(fcinfo) || PG_ARGISNULL(15) || PG_GETARG_BOOL(15);

    if (arguments.include && arguments.options.strategy != Strategy::Partial)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("include is for the strategy partial, not %s",
                               StrategyName(arguments.options.strategy)),
                        errhint(arguments.options.strategy == Strategy::Normalized
                                    ? "Use strategy => 'partial', or leave include out."
                                    : "A denormalized index table holds every column: leave "
                                      "include out.")));
    if (!arguments.include && arguments.options.strategy == Strategy::Partial)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("the strategy partial needs columns to include"),
                        errhint("Name them: include => 'column, column'.")));
    arguments.options.is_deferred = ParseMaintenance(RequiredText(fcinfo, 8, "maintenance"));
    CheckOptions(arguments.options);
    if (char *servers = TextArgument(fcinfo, 14))
        arguments.servers = ParseServers(servers);
    if (arguments.partitions < 0 || arguments.partitions > 1024)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("partitions must be between 0 and 1024, not %d", arguments.partitions),
                 errhint("0 makes an index table that is not partitioned.")));
    if (arguments.servers != NIL)
        CheckOnServers(arguments);
    if (arguments.tablespace)
        CheckTablespace(arguments.tablespace);
    return arguments;
}

void CheckLeaves(Relation base, List *leaves, char persistence) {
    ListCell *cell;
    foreach (cell, leaves) {
        Oid leaf = lfirst_oid(cell);
        if (get_rel_persistence(leaf) != persistence)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("some partitions of \"%s\" are unlogged and some are not",
                                   RelationGetRelationName(base)),
                            errhint("Use ALTER TABLE ... SET LOGGED or SET UNLOGGED to make them "
                                    "alike.")));
    }
}

// The constraint behind a deferrable key is PostgreSQL's, which orders and compares in default
// ways.
void CheckDeferrable(const Key &key) {
    for (const KeyColumn &column : std::span(key.columns, key.count))
        if (column.descending || column.nulls_first ||
            column.opclass != GetDefaultOpClass(column.type, BTREE_AM_OID))
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("a deferrable key must have default order and operator classes"),
                            errdetail("Key column \"%s\" has another.", NameStr(column.name)),
                            errhint("Leave DESC, NULLS FIRST and the operator class out, or "
                                    "is_deferrable.")));
}

List *ResolveIdentity(Relation base, const CreateArguments &arguments, List *leaves) {
    List *attnos =
        ParseIdentity(base, arguments.identity,
                      HasForeign(leaves) ? "PostgreSQL keeps none over foreign tables." : nullptr);
    if (!arguments.identity)
        return attnos;
    bool unique = HasUniqueIndex(base, attnos, MayBeNull::Yes) || IsForeign(RelationGetRelid(base));
    ListCell *cell;
    foreach (cell, attnos) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), lfirst_int(cell) - 1);
        ResolveOpClass(NIL, att->atttypid, "btree", BTREE_AM_OID); // raises where there is none
    }
    if (!unique && base->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) {
        unique = true;
        foreach (cell, leaves) {
            if (IsForeign(lfirst_oid(cell)))
                continue;
            Relation leaf = table_open(lfirst_oid(cell), NoLock);
            unique = unique && HasUniqueIndex(leaf, MapColumns(attnos, base, leaf), MayBeNull::Yes);
            table_close(leaf, NoLock);
        }
    }
    if (!unique)
        ereport(
            WARNING,
            (errmsg("no unique index covers the identity of \"%s\"", RelationGetRelationName(base)),
             errdetail("Rows that share key and identity cannot be told apart, and finding a row "
                       "by identity scans its partition."),
             errhint("Create a unique index over (%s) on every partition.", arguments.identity)));
    return attnos;
}

List *ResolveInclude(Relation base, const CreateArguments &arguments, const Key &key,
                     List *identity) {
    auto is_key = [&](AttrNumber attno) {
        return std::any_of(key.columns, key.columns + key.count,
                           [=](const KeyColumn &column) { return column.attno == attno; });
    };
    List *attnos = NIL;
    if (arguments.options.strategy == Strategy::Partial) {
        ListCell *cell;
        foreach (cell, ParseColumnList(base, arguments.include, "include")) {
            AttrNumber attno = lfirst_int(cell);
            if (is_key(attno))
                ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
                                errmsg("column \"%s\" is already in the key",
                                       get_attname(RelationGetRelid(base), attno, false)),
                                errhint("Leave it out of include.")));
            if (!list_member_int(identity, attno)) // stored anyway
                attnos = lappend_int(attnos, attno);
        }
    }
    if (arguments.options.strategy == Strategy::Denormalized)
        for (int attno = 1; attno <= RelationGetNumberOfAttributes(base); attno++)
            if (!TupleDescAttr(RelationGetDescr(base), attno - 1)->attisdropped && !is_key(attno) &&
                !list_member_int(identity, attno))
                attnos = lappend_int(attnos, attno);
    return attnos;
}

// <base>_<suffix>, shortened to a name's length, with digits where that is taken.
char *GenerateName(const char *base, const char *suffix, Oid schema) {
    constexpr int kDigits = 4;
    constexpr int kSuffixRoom = (NAMEDATALEN - kDigits) * 2 / 3;
    int suffix_length = pg_mbcliplen(suffix, strlen(suffix), kSuffixRoom);
    int base_room = NAMEDATALEN - 2 - kDigits - suffix_length;
    int base_length = pg_mbcliplen(base, strlen(base), base_room);
    char *name = psprintf("%.*s_%.*s", base_length, base, suffix_length, suffix);
    char *unique = name;
    for (int i = 1; OidIsValid(get_relname_relid(unique, schema)); i++)
        unique = psprintf("%s%d", name, i);
    return unique;
}

// Schema and name of the index table to be; raises 42P07 where the name is taken.
char *ResolveName(Relation base, const CreateArguments &arguments, const Key &key, Oid *schema) {
    *schema = RelationGetNamespace(base);
    if (!arguments.name) {
        StringInfoData columns;
        initStringInfo(&columns);
        appendStringInfoString(&columns, "by");
        for (int i = 0; i < key.count; i++)
            appendStringInfo(&columns, "_%s", NameStr(key.columns[i].name));
        return GenerateName(RelationGetRelationName(base), columns.data, *schema);
    }
    List *names = compat::SplitQualifiedName(arguments.name);
    if (list_length(names) > 2)
        ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
                        errmsg("\"%s\" is not a name for an index table", arguments.name)));
    if (list_length(names) == 2)
        *schema = get_namespace_oid(strVal(linitial(names)), false);
    char *name = strVal(llast(names));
    if (OidIsValid(get_relname_relid(name, *schema)))
        ereport(ERROR,
                (errcode(ERRCODE_DUPLICATE_TABLE), errmsg("relation \"%s\" already exists", name),
                 errhint("Choose another name with the argument name.")));
    return name;
}

void AppendColumn(StringInfo sql, List **taken, const char *wanted, Oid type, int32 typmod,
                  Oid collation) {
    char name[NAMEDATALEN];
    strlcpy(name, wanted, sizeof(name));
    auto is_taken = [&] {
        ListCell *cell;
        foreach (cell, *taken)
            if (strcmp(static_cast<char *>(lfirst(cell)), name) == 0)
                return true;
        return false;
    };
    for (int suffix = 1; is_taken(); suffix++) {
        int room = pg_mbcliplen(wanted, strlen(wanted), NAMEDATALEN - 6);
        snprintf(name, sizeof(name), "%.*s%d", room, wanted, suffix);
    }
    *taken = lappend(*taken, pstrdup(name));
    appendStringInfo(
        sql, "%s%s %s", sql->data[sql->len - 1] == '(' ? "" : ", ", quote_identifier(name),
        format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
    if (OidIsValid(collation))
        appendStringInfo(sql, " COLLATE %s", generate_collation_name(collation));
}

// Creates the table; returns its OID. Its columns are as IndexTable documents.
Oid CreateStorage(Relation base, const CreateArguments &arguments, const IndexTable &table,
                  const char *name, Oid schema, char persistence) {
    StringInfoData sql;
    initStringInfo(&sql);
    const char *qualified = quote_qualified_identifier(get_namespace_name(schema), name);
    const char *unlogged = persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "";
    // A partitioned table stores nothing; since 18 it cannot be unlogged, its partitions can.
    appendStringInfo(&sql, "CREATE %sTABLE %s (", arguments.partitions > 0 ? "" : unlogged,
                     qualified);
    List *taken = NIL;
    for (int i = 0; i < table.key.count; i++) {
        const KeyColumn &column = table.key.columns[i];
        AppendColumn(&sql, &taken, NameStr(column.name), column.type, column.typmod,
                     column.collation);
    }
    AppendColumn(&sql, &taken, "partition_id", INT4OID, -1, InvalidOid);
    for (int i = 0; i < table.copied_count; i++) {
        Form_pg_attribute att =
            TupleDescAttr(RelationGetDescr(base), table.copied[i].base_attno - 1);
        AppendColumn(&sql, &taken, NameStr(att->attname), att->atttypid, att->atttypmod,
                     att->attcollation);
    }
    appendStringInfoChar(&sql, ')');
    const char *first_key = quote_identifier(static_cast<char *>(linitial(taken)));
    if (arguments.partitions > 0)
        appendStringInfo(&sql, " PARTITION BY HASH (%s)", first_key);
    else
        appendStringInfoString(&sql, " USING heap");
    // PostgreSQL refuses the database's own tablespace for a partitioned table.
    if (arguments.tablespace &&
        (arguments.partitions == 0 ||
         get_tablespace_oid(arguments.tablespace, false) != MyDatabaseTableSpace))
        appendStringInfo(&sql, " TABLESPACE %s", quote_identifier(arguments.tablespace));
    RunStatement(sql.data);
    Oid relid = FindCreated(name, schema);
    for (int i = 0; i < arguments.partitions; i++) {
        char label[16];
        snprintf(label, sizeof(label), "p%d", i);
        char *partition = ChooseRelationName(name, nullptr, label, schema, false);
        if (arguments.servers != NIL) {
            CreateForeignPartition(
                {.schema = get_namespace_name(schema),
                 .name = partition,
                 .parent = qualified,
                 .columns = taken,
                 .modulus = arguments.partitions,
                 .remainder = i,
                 .server = list_nth_oid(arguments.servers, i % list_length(arguments.servers))});
            continue;
        }
        RunStatement(
            psprintf("CREATE %sTABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER "
                     "%d) USING heap%s%s",
                     unlogged, quote_qualified_identifier(get_namespace_name(schema), partition),
                     qualified, arguments.partitions, i, arguments.tablespace ? " TABLESPACE " : "",
                     arguments.tablespace ? quote_identifier(arguments.tablespace) : ""));
    }
    return relid;
}

// Before writers are locked out, who need not wait for shards, nor for connections to them. A
// partition that comes after that is asked for before it is loaded.
void CheckIsCaptured(Oid base) {
    ListCell *cell;
    OwnerContext owner = EnterOwner(RelationOwner(base));
    foreach (cell, FindLeaves(base, NoLock)) {
        Oid leaf = lfirst_oid(cell);
        LockRelationOid(leaf, AccessShareLock);
        bool is_there = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(leaf));
        if (is_there && IsForeign(leaf) && !HasOutbox(leaf))
            ereport(
                ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot create an index table over \"%s\" concurrently",
                        get_rel_name(base)),
                 errdetail("Foreign table \"%s\" is not captured on its server: its rows are not "
                           "seen under the same snapshot as the changes made meanwhile.",
                           get_rel_name(leaf)),
                 errhint("Use index_table.create(), or run there: CREATE EXTENSION IF NOT EXISTS "
                         "index_table; SELECT index_table.capture(%s);",
                         quote_literal_cstr(RemoteName(leaf)))));
        UnlockRelationOid(leaf, AccessShareLock); // see LockOutWriters()
    }
    LeaveOwner(owner);
}

Oid Create(const CreateArguments &arguments, bool concurrently) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(arguments.base)))
        RaiseDropped(arguments.base);
    // Before the lock: who does not own the table must not hold up its writers.
    if (!compat::OwnsRelation(arguments.base) && !IsCatalogRelationOid(arguments.base))
        aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(arguments.base)),
                       get_rel_name(arguments.base));
    FlushChanges();
    if (arguments.servers != NIL)
        ForgetServerTables(); // what was left may be in the way
    if (concurrently && arguments.servers != NIL)
        RaiseNotOnServers("be created concurrently", "Use index_table.create().");
    if (concurrently) {
        CheckIsCaptured(arguments.base);
        LockOutWriters(arguments.base);
    }
    Relation base = OpenRelation(arguments.base, ShareRowExclusiveLock);
    CheckBase(base);
    CheckTableNotInUse(base, "create an index table over");
    List *leaves = FindLeaves(arguments.base, ShareRowExclusiveLock);
    char persistence =
        leaves != NIL ? get_rel_persistence(linitial_oid(leaves)) : RELPERSISTENCE_PERMANENT;
    CheckLeaves(base, leaves, persistence);
    RequireEnabled(arguments.base);
    if (arguments.servers != NIL && persistence != RELPERSISTENCE_PERMANENT)
        RaiseNotOnServers("follow an unlogged table",
                          "Use ALTER TABLE ... SET LOGGED, or leave servers out.");

    // Names in key and predicate are the caller's; functions in them run with the owner's rights.
    OwnerContext owner;
    GetUserIdAndSecContext(&owner.saved_user, &owner.saved_security);
    SetUserIdAndSecContext(base->rd_rel->relowner,
                           owner.saved_security | SECURITY_RESTRICTED_OPERATION);
    Key key = ParseKey(base, arguments.key);
    Expr *predicate = arguments.predicate ? ParsePredicate(base, arguments.predicate) : nullptr;
    if (arguments.options.is_deferrable)
        CheckDeferrable(key);
    Oid schema;
    char *name = ResolveName(base, arguments, key, &schema);
    SetUserIdAndSecContext(owner.saved_user, owner.saved_security);

    Definition definition = {};
    definition.base = arguments.base;
    definition.options = arguments.options;
    definition.key = key;
    definition.predicate = predicate;
    definition.identity = ResolveIdentity(base, arguments, leaves);
    definition.include = ResolveInclude(base, arguments, key, definition.identity);

    if (compat::CheckSchemaPrivilege(schema, base->rd_rel->relowner, ACL_CREATE) != ACLCHECK_OK)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("permission denied for schema %s", get_namespace_name(schema)),
                        errhint("The owner of \"%s\", %s, needs CREATE on the schema.",
                                RelationGetRelationName(base),
                                GetUserNameFromId(base->rd_rel->relowner, false))));

    ListCell *cell;
    foreach (cell, arguments.servers)
        CheckServer(GetForeignServer(lfirst_oid(cell)), base->rd_rel->relowner);
    owner = EnterOwner(base->rd_rel->relowner);
    IndexTable *table = MakeIndexTable(base, definition, TableState::Built);
    if (table->group_count() > INDEX_MAX_KEYS)
        ereport(ERROR, (errcode(ERRCODE_TOO_MANY_COLUMNS),
                        errmsg("key and identity of an index table have %d columns, at most %d can "
                               "be indexed",
                               table->group_count() - 1, INDEX_MAX_KEYS - 1)));
    if (arguments.options.is_deferred)
        CheckMayDefer(table, leaves);
    TryExpressions(base, table, concurrently);
    // What is built concurrently learns of changes by the row trigger, or by queues of shards.
    if (concurrently)
        definition.options.is_deferred = false;
    foreach (cell, leaves)
        if (IsForeign(lfirst_oid(cell)))
            CheckShard(base, table, lfirst_oid(cell));
    Oid relid = CreateStorage(base, arguments, *table, name, schema, persistence);
    SecureCreated(relid);
    CreateGuard(relid);
    table->relid = definition.relid = relid;
    Progress *progress = BeginProgress(arguments.base, relid, ShareRowExclusiveLock);
    // DDL refuses a table that this session has open.
    relation_close(base, NoLock);
    RegisterPartitions(arguments.base, leaves);
    // As the caller: partitions may belong to roles whose rights the owner has not, but a
    // superuser.
    LeaveOwner(owner);
    bool has_queue = definition.options.is_deferred && !HasForeign(leaves);
    TriggerNeeds needs = FindTriggerNeeds(arguments.base);
    AddTriggerNeeds(&needs, definition.options, has_queue);
    EnsureTriggers(arguments.base, needs);
    owner = EnterOwner(RelationOwner(arguments.base));
    base = relation_open(arguments.base, NoLock);
    if (concurrently)
        definition.log = CreateLog(relid);
    if (has_queue)
        definition.queue = CreateQueue(table);
    StoreDefinition(definition);
    // What is stored is what is filled in, and kept: built from it.
    table = MakeIndexTable(base, *ReadDefinition(relid), TableState::Built);
    if (!concurrently)
        Backfill(base, table, progress);
    SecureCreated(relid); // event triggers may have been asked of every statement
    InsertDefinition(definition, TableState::Built);
    RecordDependencies(table);
    EnsureConstraintName(relid);
    if (has_queue)
        EnsureIdentityIndex(table, PositionsOf(table));
    EndProgress(progress);
    if (!concurrently)
        RecordWork(relid, Work::Build, GetCurrentStatementStartTimestamp(), -1);
    LeaveOwner(owner);
    relation_close(base, NoLock);
    return relid;
}

void Drop(Oid relid) {
    FAULT_POINT("create.drop");
    const IndexTable *table = GetIndexTable(relid);
    Oid base = table->base;
    if (!compat::OwnsRelation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
    FlushChanges();
    // While it is being built, wait for that without holding others up.
    LockRelationOid(relid, ShareUpdateExclusiveLock);
    GetIndexTable(relid);
    // The base table first, as writers do. With its last index table its triggers go.
    bool is_last = list_length(ListIndexTables(base)) == 1;
    LockRelationOid(base, is_last ? AccessExclusiveLock : ShareRowExclusiveLock);
    // Its partitions too: a transaction that has just ended lets go of them after the base table.
    if (is_last)
        find_all_inheritors(base, AccessExclusiveLock, nullptr);
    LockRelationOid(relid, AccessExclusiveLock);
    RemoveConstraintName(relid);
    ObjectAddress address;
    ObjectAddressSet(address, RelationRelationId, relid);
    performDeletion(&address, DROP_RESTRICT, 0);
    // The sql_drop event trigger does this for DROP TABLE, and has done it here unless it is off.
    if (OidIsValid(RecordedBase(relid)))
        ForgetIndexTable(relid, base);
}

bool NamesLibrary(const char *libraries) {
    return libraries && strstr(libraries, "index_table") != nullptr;
}

// Whether sessions of this database load the library when they begin, as far as this one can tell:
// from its own settings, or those that the database was given since.
bool IsPreloaded() {
    for (const char *setting :
         {"shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"})
        if (NamesLibrary(GetConfigOption(setting, true, false)))
            return true;
    SystemScan scan(DbRoleSettingRelationId, DbRoleSettingDatidRolidIndexId,
                    Anum_pg_db_role_setting_setdatabase, MyDatabaseId);
    bool found = false;
    while (HeapTuple tuple = scan.Next()) {
        bool isnull;
        Datum values = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
                                    RelationGetDescr(scan.catalog), &isnull);
        found = found || (!isnull && NamesLibrary(OidOutputFunctionCall(F_ARRAY_OUT, values)));
    }
    scan.End();
    return found;
}

void AdviseToPreload() {
    if (IsPreloaded())
        return;
    const char *others = GetConfigOption("session_preload_libraries", true, false);
    ereport(NOTICE,
            (errmsg("queries use index tables only in sessions that have loaded \"index_table\""),
             errhint("For the sessions to come: ALTER DATABASE %s SET session_preload_libraries = "
                     "%s%sindex_table; for this one: LOAD 'index_table'.",
                     quote_identifier(get_database_name(MyDatabaseId)), others ? others : "",
                     others && *others ? ", " : "")));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_create) {
    PreventCommandDuringRecovery("index_table.create()");
    Oid index_table = Create(ReadArguments(fcinfo), false);
    AdviseToPreload();
    if (!IsOfOlder(fcinfo))
        WarnOfKey(index_table);
    PG_RETURN_OID(index_table);
}

SQL_FUNCTION(index_table_drop) {
    PreventCommandIfReadOnly("index_table.drop()");
    PreventCommandDuringRecovery("index_table.drop()");
    Drop(PG_GETARG_OID(0));
    PG_RETURN_VOID();
}

SQL_FUNCTION(index_table_create_concurrently) {
    PreventCommandDuringRecovery("index_table.create_concurrently()");
    CheckMayCommit(fcinfo, "index_table.create_concurrently()");
    CreateArguments arguments = ReadArguments(fcinfo);
    Oid index_table = Create(arguments, true);
    AdviseToPreload();
    if (!IsOfOlder(fcinfo))
        WarnOfKey(index_table);
    BuildConcurrently(index_table);
    if (arguments.options.is_deferred)
        if (const IndexTable *table = FindIndexTable(index_table))
            DeferGently(table);
    PG_RETURN_VOID();
}
