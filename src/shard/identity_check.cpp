#include "shard/identity_check.h"

#include "shard/connection.h"
#include "shard/remote_table.h"

namespace index_table {
namespace {

// The other side of a foreign table.
struct RemoteTable {
    Oid foreign_table;
    const char *server;
    const char *schema;
    const char *name;
    ShardConnection *connection;
};

RemoteTable FindRemoteTable(Oid foreign_table) {
    RemoteNames names = FindRemoteNames(foreign_table);
    return {.foreign_table = foreign_table,
            .server = ServerOf(foreign_table)->servername,
            .schema = names.schema,
            .name = names.table,
            .connection = OpenConnection(foreign_table)};
}

// Where an error is.
int Context(const RemoteTable &remote) {
    return errdetail("Foreign table \"%s\" stands for \"%s.%s\" on server \"%s\".",
                     get_rel_name(remote.foreign_table), remote.schema, remote.name, remote.server);
}

// The name of a column of the base table on the shard.
char *RemoteColumn(const RemoteTable &remote, Relation base, AttrNumber base_attno) {
    const char *name = NameStr(TupleDescAttr(RelationGetDescr(base), base_attno - 1)->attname);
    return index_table::RemoteColumn(remote.foreign_table, get_attnum(remote.foreign_table, name));
}

// A text array, as a parameter.
char *ArrayOfNames(List *names) {
    Datum *elements = palloc_array(Datum, list_length(names));
    int count = 0;
    ListCell *cell;
    foreach (cell, names)
        elements[count++] = CStringGetTextDatum(static_cast<char *>(lfirst(cell)));
    ArrayType *array = construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT);
    return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}

// The OID of the remote table, as text.
const char *FindTable(const RemoteTable &remote) {
    const char *values[] = {remote.schema, remote.name};
    PGresult *found = ExecuteReading(
        remote.connection,
        "SELECT c.oid, c.relkind IN ('r', 'p'), c.relkind = 'p' OR EXISTS (SELECT FROM "
        "pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid) "
        "FROM pg_catalog.pg_class AS c "
        "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = $1::text AND c.relname = $2::text",
        lengthof(values), values);
    if (PQntuples(found) == 0)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("table \"%s.%s\" does not exist on server \"%s\"", remote.schema,
                               remote.name, remote.server),
                        Context(remote),
                        errhint("Create it there, or set schema_name and table_name of the "
                                "foreign table.")));
    if (strcmp(ResultValue(found, 0, 1), "t") != 0)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("\"%s.%s\" on server \"%s\" is not a table", remote.schema,
                               remote.name, remote.server),
                        Context(remote),
                        errhint("Index tables need foreign partitions that stand for tables: "
                                "nothing else keeps an identity unique.")));
    if (strcmp(ResultValue(found, 0, 2), "t") == 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("table \"%s.%s\" on server \"%s\" has partitions", remote.schema,
                               remote.name, remote.server),
                        errdetail("Where there are row triggers, as those of index tables, "
                                  "postgres_fdw changes rows by their ctid, which others may have "
                                  "in other partitions."),
                        errhint("Make a foreign partition here of each of its partitions.")));
    return ResultValue(found, 0, 0);
}

// The name of a type, and whether it is PostgreSQL's own: types of extensions and users may be in
// another schema there. Domains are what they are over.
struct TypeName {
    const char *name;
    bool is_builtin;
    int32 typmod;
};

TypeName LocalType(Form_pg_attribute att) {
    int32 typmod = att->atttypmod;
    Oid type = getBaseTypeAndTypmod(att->atttypid, &typmod);
    HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for type %u", type);
    Form_pg_type form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
    TypeName name = {.name = pstrdup(NameStr(form->typname)),
                     .is_builtin = form->typnamespace == PG_CATALOG_NAMESPACE,
                     .typmod = typmod};
    ReleaseSysCache(tuple);
    return name;
}

void CheckTypes(const RemoteTable &remote, const char *table, Relation base, List *attnos,
                List *names) {
    const char *values[] = {table, ArrayOfNames(names)};
    PGresult *columns = ExecuteReading(
        remote.connection,
        "WITH RECURSIVE column_type AS ("
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS shown, "
        "a.atttypid AS type, a.atttypmod AS typmod FROM pg_catalog.pg_attribute AS a "
        "WHERE a.attrelid = $1::oid AND a.attname = ANY ($2::text[]) AND a.attnum > 0 "
        "UNION ALL SELECT c.attname, c.shown, t.typbasetype, t.typtypmod FROM column_type AS c "
        "JOIN pg_catalog.pg_type AS t ON t.oid = c.type WHERE t.typtype = 'd') "
        "SELECT c.attname, c.shown, t.typname, t.typnamespace = 'pg_catalog'::regnamespace, "
        "c.typmod FROM column_type AS c JOIN pg_catalog.pg_type AS t ON t.oid = c.type "
        "WHERE t.typtype <> 'd'",
        lengthof(values), values);
    ListCell *cell, *name_cell;
    forboth(cell, attnos, name_cell, names) {
        const char *name = static_cast<char *>(lfirst(name_cell));
        int row = 0;
        while (row < PQntuples(columns) && strcmp(ResultValue(columns, row, 0), name) != 0)
            row++;
        if (row == PQntuples(columns))
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                            errmsg("column \"%s\" does not exist in table \"%s.%s\" on server "
                                   "\"%s\"",
                                   name, remote.schema, remote.name, remote.server),
                            Context(remote),
                            errhint("Add it there, or set column_name of the foreign table's "
                                    "column.")));
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), lfirst_int(cell) - 1);
        TypeName local = LocalType(att);
        bool is_builtin = strcmp(ResultValue(columns, row, 3), "t") == 0;
        // What every value there fits into is as good.
        bool is_same = strcmp(ResultValue(columns, row, 2), local.name) == 0 &&
                       is_builtin == local.is_builtin &&
                       (local.typmod == -1 || atoi(ResultValue(columns, row, 4)) == local.typmod);
        if (!is_same)
            ereport(ERROR,
                    (errcode(ERRCODE_DATATYPE_MISMATCH),
                     errmsg("column \"%s\" of \"%s\" is of type %s on server \"%s\" and of type %s "
                            "here",
                            NameStr(att->attname), get_rel_name(remote.foreign_table),
                            ResultValue(columns, row, 1), remote.server,
                            format_type_with_typemod(att->atttypid, att->atttypmod)),
                     Context(remote),
                     errhint("Columns of the key and the identity of an index table must have the "
                             "same type on all shards.")));
    }
}

void CheckUnique(const RemoteTable &remote, const char *table, Relation base, List *attnos,
                 List *names) {
    const char *values[] = {table, ArrayOfNames(names)};
    PGresult *found = ExecuteReading(
        remote.connection,
        "SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid = $1::oid AND i.indisunique "
        "AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL "
        "AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = i.indrelid "
        "AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
        "AND (NOT a.attnotnull OR a.attname <> ALL ($2::text[]) "
        "OR EXISTS (SELECT FROM pg_catalog.pg_constraint AS c WHERE c.conrelid = a.attrelid "
        "AND c.contype = 'n' AND c.conkey[1] = a.attnum AND NOT c.convalidated)))",
        lengthof(values), values);
    if (PQntuples(found) > 0)
        return;
    StringInfoData columns;
    initStringInfo(&columns);
    ListCell *cell;
    foreach (cell, attnos)
        appendStringInfo(
            &columns, "%s%s", columns.len > 0 ? ", " : "",
            NameStr(TupleDescAttr(RelationGetDescr(base), lfirst_int(cell) - 1)->attname));
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_FOREIGN_KEY),
             errmsg("nothing keeps (%s) unique in foreign table \"%s\"", columns.data,
                    get_rel_name(remote.foreign_table)),
             errdetail("Table \"%s.%s\" on server \"%s\" has no primary key over these columns, or "
                       "some of them, and no valid, immediate unique index over such that are NOT "
                       "NULL.",
                       remote.schema, remote.name, remote.server),
             errhint("Create a primary key there, or name other columns: identity => 'column, "
                     "column'.")));
}

} // namespace

void CheckShardIdentity(Relation base, Oid foreign_table, List *identity, List *others) {
    Assert(get_rel_relkind(foreign_table) == RELKIND_FOREIGN_TABLE && identity != NIL);
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "index_table identity check",
                                                 ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    RemoteTable remote = FindRemoteTable(foreign_table);
    const char *table = FindTable(remote);
    List *identity_names = NIL;
    List *all_names = NIL;
    List *all = list_concat_unique_int(list_copy(identity), others);
    ListCell *cell;
    foreach (cell, identity)
        identity_names = lappend(identity_names, RemoteColumn(remote, base, lfirst_int(cell)));
    foreach (cell, all)
        all_names = lappend(all_names, RemoteColumn(remote, base, lfirst_int(cell)));
    CheckTypes(remote, table, base, all, all_names);
    CheckUnique(remote, table, base, identity, identity_names);
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(memory);
}

} // namespace index_table
