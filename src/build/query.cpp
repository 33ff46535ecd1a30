#include "build/query.h"

namespace index_table {

void Execute(const char *sql) {
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    int result = SPI_execute(sql, false, 0);
    if (result < 0)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
    SPI_finish();
}

char *QualifiedName(Oid relid) {
    return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                      get_rel_name(relid));
}

char *QualifiedTypeName(Oid type) {
    return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

namespace {

void AppendCollation(StringInfo sql, const KeyColumn &column) {
    Oid natural = exprCollation(reinterpret_cast<Node *>(column.whole));
    if (OidIsValid(column.collation) && column.collation != natural)
        appendStringInfo(sql, " COLLATE %s", generate_collation_name(column.collation));
}

// Whether values of a key column that compare equal are the same byte by byte.
bool EqualityIsIdentity(const KeyColumn &column) {
    Oid input = get_opclass_input_type(column.opclass);
    Oid procedure =
        get_opfamily_proc(get_opclass_family(column.opclass), input, input, BTEQUALIMAGE_PROC);
    return OidIsValid(procedure) &&
           DatumGetBool(OidFunctionCall1Coll(procedure, column.collation, ObjectIdGetDatum(input)));
}

// The distinct elements of a multi-valued key, as the row trigger finds them: of those that are
// equal but not the same, such as 1.0 and 1.00, the first.
void AppendDistinctElements(StringInfo sql, Relation base, const KeyColumn &column, int number) {
    StringInfoData value;
    initStringInfo(&value);
    appendStringInfo(&value, "(%s)", DeparseKeyValue(base, column, "b"));
    AppendCollation(&value, column);
    if (EqualityIsIdentity(column))
        appendStringInfo(sql, " CROSS JOIN LATERAL (SELECT DISTINCT %s AS c%d) AS m", value.data,
                         number);
    else
        appendStringInfo(
            sql,
            " CROSS JOIN LATERAL (SELECT DISTINCT ON (w.v) w.v AS c%d FROM (SELECT s.v, "
            "row_number() OVER () AS n FROM (SELECT %s AS v) AS s) AS w ORDER BY w.v, "
            "w.n) AS m",
            number, value.data);
}

} // namespace

char *OperatorName(Oid op) {
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(op));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator %u", op);
    Form_pg_operator form = reinterpret_cast<Form_pg_operator>(GETSTRUCT(tuple));
    char *name =
        psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
                 NameStr(form->oprname));
    ReleaseSysCache(tuple);
    return name;
}

char *KeyOperator(const KeyColumn &column, StrategyNumber strategy) {
    Oid input = get_opclass_input_type(column.opclass);
    return OperatorName(
        get_opfamily_member(get_opclass_family(column.opclass), input, input, strategy));
}

char *RecomputationQuery(Relation base, const IndexTable *table, const char *ticket, Oid leaf) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    for (int i = 0; i < table->key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        if (i == table->key.multi_valued)
            appendStringInfo(&sql, "m.c%d, ", i + 1);
        else {
            appendStringInfo(&sql, "(%s)", DeparseKeyValue(base, column, "b"));
            AppendCollation(&sql, column);
            appendStringInfo(&sql, " AS c%d, ", i + 1);
        }
    }
    appendStringInfo(&sql, "index_table.count_row(b.tableoid, %s) AS c%d", ticket,
                     table->partition_position() + 1);
    for (int i = 0; i < table->copied_count; i++) {
        Form_pg_attribute att =
            TupleDescAttr(RelationGetDescr(base), table->copied[i].base_attno - 1);
        appendStringInfo(&sql, ", b.%s AS c%d", quote_identifier(NameStr(att->attname)),
                         table->copied[i].position + 1);
    }
    bool partitioned = base->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
    Oid source = OidIsValid(leaf) ? leaf : RelationGetRelid(base);
    appendStringInfo(&sql, " FROM %s%s AS b", partitioned && source != leaf ? "" : "ONLY ",
                     QualifiedName(source));
    if (table->key.multi_valued >= 0) {
        const KeyColumn &column = table->key.columns[table->key.multi_valued];
        AppendDistinctElements(&sql, base, column, table->key.multi_valued + 1);
    }
    if (table->predicate)
        appendStringInfo(
            &sql, " WHERE %s",
            DeparseExprWithAlias(base, reinterpret_cast<Node *>(table->predicate), "b"));
    return sql.data;
}

void AppendStoredColumns(StringInfo sql, Relation rel, const IndexTable *table) {
    const AttrNumber *attnos = GetLiveColumns(rel, table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnos[i] - 1);
        appendStringInfo(sql, "%s%s AS c%d", i ? ", " : "", quote_identifier(NameStr(att->attname)),
                         i + 1);
    }
}

char *OrderByEntry(const IndexTable *table) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, " ORDER BY ");
    for (int i = 0; i < table->key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        StrategyNumber strategy =
            column.descending ? BTGreaterStrategyNumber : BTLessStrategyNumber;
        appendStringInfo(&sql, "%sc%d USING %s NULLS %s", i ? ", " : "", i + 1,
                         KeyOperator(column, strategy), column.nulls_first ? "FIRST" : "LAST");
    }
    for (int i = table->partition_position() + 1; i < table->group_count(); i++)
        appendStringInfo(&sql, ", c%d", i + 1);
    return sql.data;
}

void AppendKeyOrder(StringInfo sql, const KeyColumn &column, const char *name) {
    appendStringInfoString(sql, quote_identifier(name));
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(column.opclass));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator class %u", column.opclass);
    Form_pg_opclass form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    appendStringInfo(
        sql, " %s",
        quote_qualified_identifier(get_namespace_name(form->opcnamespace), NameStr(form->opcname)));
    ReleaseSysCache(tuple);
    appendStringInfo(sql, " %s NULLS %s", column.descending ? "DESC" : "ASC",
                     column.nulls_first ? "FIRST" : "LAST");
}

} // namespace index_table
