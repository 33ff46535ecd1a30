// index_table.ddl(): the statement that makes an index table, or a global index, as it is now.
#include "catalog/public.h"
#include "core/public.h"
#include "global/public.h"

namespace index_table {
namespace {

void AppendText(StringInfo sql, const char *argument, const char *value) {
    appendStringInfo(sql, ", %s => %s", argument, quote_literal_cstr(value));
}

void AppendFlag(StringInfo sql, const char *argument, bool value, bool by_default) {
    if (value != by_default)
        appendStringInfo(sql, ", %s => %s", argument, value ? "true" : "false");
}

// Columns of the base table as a list, for `include` and `identity`.
char *ListColumns(Oid base, const List *attnos) {
    StringInfoData text;
    initStringInfo(&text);
    ListCell *cell;
    foreach (cell, attnos)
        appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "",
                         quote_identifier(get_attname(base, lfirst_int(cell), false)));
    return text.data;
}

bool IsPrimaryKey(Relation base, const List *attnos) {
    Oid primary_key = compat::GetPrimaryKey(base);
    if (!OidIsValid(primary_key))
        return false;
    Relation index = index_open(primary_key, AccessShareLock);
    bool same = index->rd_index->indnkeyatts == list_length(attnos);
    for (int i = 0; same && i < list_length(attnos); i++)
        same = index->rd_index->indkey.values[i] == list_nth_int(attnos, i);
    index_close(index, AccessShareLock);
    return same;
}

// What is included is not in the key. Where all of it is in the identity, which every entry has,
// nothing is stored as included.
List *NamedAsIncluded(const Definition *definition) {
    if (definition->include != NIL)
        return definition->include;
    ListCell *cell;
    foreach (cell, definition->identity)
        if (std::none_of(definition->key.columns, definition->key.columns + definition->key.count,
                         [&](const KeyColumn &column) { return column.attno == lfirst_int(cell); }))
            return list_make1_int(lfirst_int(cell));
    return NIL;
}

void AppendStrategy(StringInfo sql, const Definition *definition) {
    if (definition->options.strategy == Strategy::Denormalized)
        AppendText(sql, "strategy", StrategyName(Strategy::Denormalized));
    // One whose included columns were all dropped holds what a normalized one holds.
    List *included = NamedAsIncluded(definition);
    if (definition->options.strategy != Strategy::Partial || included == NIL)
        return;
    AppendText(sql, "strategy", StrategyName(Strategy::Partial));
    AppendText(sql, "include", ListColumns(definition->base, included));
}

// Its partitions, and the servers that they are on, in turn.
void AppendStorage(StringInfo sql, Relation rel) {
    StringInfoData servers;
    initStringInfo(&servers);
    if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) {
        PartitionDesc partitions = RelationGetPartitionDesc(rel, true);
        appendStringInfo(sql, ", partitions => %d", partitions->nparts);
        List *named = NIL;
        for (Oid partition : std::span(partitions->oids, partitions->nparts)) {
            if (!IsForeign(partition))
                continue;
            Oid server = GetForeignTable(partition)->serverid;
            if (list_member_oid(named, server))
                continue;
            appendStringInfo(&servers, "%s%s", named == NIL ? "" : ", ",
                             quote_identifier(GetForeignServer(server)->servername));
            named = lappend_oid(named, server);
        }
    }
    if (OidIsValid(rel->rd_rel->reltablespace))
        AppendText(sql, "tablespace", get_tablespace_name(rel->rd_rel->reltablespace));
    if (servers.len > 0)
        AppendText(sql, "servers", servers.data);
}

char *CreateStatement(const Definition *definition) {
    Relation rel = relation_open(definition->relid, AccessShareLock);
    Relation base = relation_open(definition->base, AccessShareLock);
    const IndexOptions &options = definition->options;
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT index_table.create(%s, %s",
                     quote_literal_cstr(QualifiedName(definition->base)),
                     quote_literal_cstr(DeparseKey(definition->base, definition->key, true)));
    AppendStrategy(&sql, definition);
    AppendText(&sql, "name", QualifiedName(definition->relid));
    AppendFlag(&sql, "is_unique", options.is_unique, false);
    if (definition->predicate)
        AppendText(&sql, "predicate", DeparsePredicate(definition->base, definition->predicate));
    if (!IsPrimaryKey(base, definition->identity))
        AppendText(&sql, "identity", ListColumns(definition->base, definition->identity));
    if (options.is_deferred)
        AppendText(&sql, "maintenance", "deferred");
    AppendStorage(&sql, rel);
    AppendFlag(&sql, "nulls_distinct", options.nulls_distinct, true);
    AppendFlag(&sql, "is_deferrable", options.is_deferrable && !options.initially_deferred, false);
    AppendFlag(&sql, "initially_deferred", options.initially_deferred, false);
    AppendFlag(&sql, "is_visible", options.is_visible, true);
    appendStringInfoChar(&sql, ')');
    relation_close(base, AccessShareLock);
    relation_close(rel, AccessShareLock);
    return sql.data;
}

// As PostgreSQL says it, but for ONLY, which dumps need.
char *IndexStatement(Oid root) {
    int nest_level = SecureSearchPath();
    UseLosslessText();
    Datum definition = OidFunctionCall1(F_PG_GET_INDEXDEF_OID, ObjectIdGetDatum(root));
    AtEOXact_GUC(false, nest_level);
    char *statement = TextDatumGetCString(definition);
    const char *begin = psprintf("CREATE INDEX %s ON ", quote_identifier(get_rel_name(root)));
    constexpr char kOnly[] = "ONLY ";
    const char *rest = statement + strlen(begin);
    if (strncmp(statement, begin, strlen(begin)) != 0 || strncmp(rest, kOnly, strlen(kOnly)) != 0)
        return statement;
    return psprintf("%s%s", begin, rest + strlen(kOnly));
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_ddl) {
    Oid relid = PG_GETARG_OID(0);
    if (FindGlobalIndex(relid))
        PG_RETURN_TEXT_P(cstring_to_text(IndexStatement(relid)));
    const Definition *definition =
        OidIsValid(RecordedBase(relid)) ? ReadDefinition(relid) : nullptr;
    if (!definition) {
        GetIndexTable(relid); // raises
        PG_RETURN_NULL();
    }
    PG_RETURN_TEXT_P(cstring_to_text(CreateStatement(definition)));
}
