#include "shard/remote_table.h"

#include "shard/connection_options.h"

namespace index_table {

RemoteNames FindRemoteNames(Oid foreign_table) {
    List *options = GetForeignTable(foreign_table)->options;
    const char *schema = FindOptionText(options, "schema_name");
    const char *table = FindOptionText(options, "table_name");
    return {.schema = schema ? schema : get_namespace_name(get_rel_namespace(foreign_table)),
            .table = table ? table : get_rel_name(foreign_table)};
}

char *RemoteName(Oid foreign_table) {
    RemoteNames names = FindRemoteNames(foreign_table);
    return psprintf("%s.%s", quote_identifier(names.schema), quote_identifier(names.table));
}

char *RemoteColumn(Oid foreign_table, AttrNumber attno) {
    const char *name = FindOptionText(GetForeignColumnOptions(foreign_table, attno), "column_name");
    return name ? pstrdup(name) : get_attname(foreign_table, attno, false);
}

List *ReadOutboxIdentity(ShardConnection *connection, const char *table) {
    PGresult *result = ExecuteReading(
        connection, "SELECT to_regclass('index_table.captured') IS NOT NULL", 0, nullptr);
    if (strcmp(ResultValue(result, 0, 0), "t") != 0)
        return NIL;
    result = ExecuteReading(connection,
                            "SELECT unnest(identity) FROM index_table.captured WHERE captured = "
                            "$1::regclass",
                            1, &table);
    List *names = NIL;
    for (int i = 0; i < PQntuples(result); i++)
        names = lappend(names, pstrdup(ResultValue(result, i, 0)));
    return names;
}

void RaiseHasNoOutbox(Oid foreign_table) {
    const char *table = RemoteName(foreign_table);
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table %s is not captured on the server of foreign table \"%s\"", table,
                           get_rel_name(foreign_table)),
                    errhint("Run there: CREATE EXTENSION IF NOT EXISTS index_table; SELECT "
                            "index_table.capture(%s);",
                            quote_literal_cstr(table))));
}

bool HasOutbox(Oid foreign_table) {
    return ReadOutboxIdentity(OpenConnection(foreign_table), RemoteName(foreign_table)) != NIL;
}

void CheckHasOutbox(Oid foreign_table) {
    if (!HasOutbox(foreign_table))
        RaiseHasNoOutbox(foreign_table);
}

} // namespace index_table
