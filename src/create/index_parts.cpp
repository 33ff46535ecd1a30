#include "create/index_parts.h"

namespace index_table {

IndexParts MakeIndexParts(const IndexTable *table) {
    Relation rel = table_open(table->relid, AccessShareLock);
    IndexParts parts = {.name = pstrdup(RelationGetRelationName(rel)),
                        .schema = RelationGetNamespace(rel),
                        .target = QualifiedName(table->relid),
                        .tablespace = ""};
    if (OidIsValid(rel->rd_rel->reltablespace))
        parts.tablespace = psprintf(
            " TABLESPACE %s", quote_identifier(get_tablespace_name(rel->rd_rel->reltablespace)));
    StringInfoData key, columns, rest, nulls;
    initStringInfo(&key);
    initStringInfo(&columns);
    initStringInfo(&rest);
    initStringInfo(&nulls);
    for (int i = 0; i < table->key.count; i++) {
        const char *column = NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname);
        appendStringInfoString(&key, i ? ", " : "");
        AppendKeyOrder(&key, table->key.columns[i], column);
        appendStringInfo(&columns, "%s%s", i ? ", " : "", quote_identifier(column));
        appendStringInfo(&nulls, "%s%s IS NULL", i ? " OR " : "", quote_identifier(column));
    }
    for (int i = table->partition_position() + 1; i < table->group_count(); i++)
        appendStringInfo(
            &rest, "%s, ",
            quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), i)->attname)));
    appendStringInfoString(
        &rest, quote_identifier(NameStr(
                   TupleDescAttr(RelationGetDescr(rel), table->partition_position())->attname)));
    table_close(rel, NoLock);
    parts.key = key.data;
    parts.columns = columns.data;
    parts.rest = rest.data;
    parts.nulls = nulls.data;
    return parts;
}

} // namespace index_table
