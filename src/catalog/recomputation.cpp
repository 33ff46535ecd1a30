#include "catalog/recomputation.h"

#include "core/public.h"

namespace index_table {
namespace {

// --- Bound expressions ---------------------------------------------------------
// A key or predicate stands in the text as a name of three parts, b."index_table key"."1", and is
// put in its place when the text is analyzed. Columns of the base table have names of two parts.

constexpr char kRows[] = "b"; // the alias of the base table, or of a leaf
constexpr char kKey[] = "index_table key";
constexpr char kPredicate[] = "index_table predicate";
// A comparison of a column with a parameter by an operator class: alias."index_table
// condition"."town"."1978 3 2".
constexpr char kCondition[] = "index_table condition";

// A key with the collation of its column. Bound like the rest: nobody needs to see the collation's
// schema.
Expr *WithCollation(const KeyColumn &column) {
    Node *whole = reinterpret_cast<Node *>(column.whole);
    if (!OidIsValid(column.collation) || column.collation == exprCollation(whole))
        return column.whole;
    CollateExpr *collated = makeNode(CollateExpr);
    collated->arg = column.whole;
    collated->collOid = column.collation;
    return &collated->xpr;
}

// The expression that a column of the text stands for; null where it stands for itself.
Expr *FindBound(const IndexTable *table, const ColumnRef *ref) {
    if (list_length(ref->fields) != 3 || !IsA(lthird(ref->fields), String))
        return nullptr;
    const char *kind = strVal(lsecond(ref->fields));
    if (strcmp(kind, kPredicate) == 0)
        return table->predicate;
    if (strcmp(kind, kKey) != 0)
        return nullptr;
    int number = atoi(strVal(lthird(ref->fields)));
    return number >= 0 && number < table->key.count ? WithCollation(table->key.columns[number])
                                                    : nullptr;
}

// An expression over the base table as one over the relation of a range table entry, which may be
// one of its partitions.
Node *ToRelation(const IndexTable *table, Expr *expr, Oid relid, int rtindex, int levels_up) {
    Node *bound = static_cast<Node *>(copyObjectImpl(expr));
    if (relid != table->base) {
        Relation base = table_open(table->base, AccessShareLock);
        Relation leaf = table_open(relid, NoLock);
        bool has_whole_row;
        if (AttrMap *map = compat::MapColumnsByName(RelationGetDescr(leaf), RelationGetDescr(base)))
            bound = map_variable_attnos(bound, 1, 0, map, InvalidOid, &has_whole_row);
        table_close(leaf, NoLock);
        table_close(base, AccessShareLock);
    }
    ChangeVarNodes(bound, 1, rtindex, 0);
    if (levels_up > 0)
        IncrementVarSublevelsUp(bound, levels_up, 0);
    return bound;
}

Node *BindParameter(ParseState *pstate, ParamRef *ref) {
    const Binding *binding = static_cast<Binding *>(pstate->p_ref_hook_state);
    if (ref->number <= 0 || ref->number > binding->count)
        return nullptr;
    Param *param = makeNode(Param);
    param->paramkind = PARAM_EXTERN;
    param->paramid = ref->number;
    param->paramtype = binding->types[ref->number - 1];
    param->paramtypmod = -1;
    param->paramcollid = get_typcollation(param->paramtype);
    param->location = ref->location;
    return reinterpret_cast<Node *>(param);
}

Expr *AsInput(ParseState *pstate, Node *value, Oid input) {
    return reinterpret_cast<Expr *>(coerce_type(pstate, value, exprType(value), input, -1,
                                                COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1));
}

Node *BindCondition(ParseState *pstate, ColumnRef *ref) {
    Oid opclass;
    int strategy, levels_up;
    ParamRef parameter = {.type = T_ParamRef, .location = ref->location};
    if (sscanf(strVal(lfourth(ref->fields)), "%u %d %d", &opclass, &strategy, &parameter.number) !=
        3)
        return nullptr;
    ParseNamespaceItem *rows = refnameNamespaceItem(pstate, nullptr, strVal(linitial(ref->fields)),
                                                    ref->location, &levels_up);
    Node *column = rows ? scanNSItemForColumn(pstate, rows, levels_up, strVal(lthird(ref->fields)),
                                              ref->location)
                        : nullptr;
    if (!column)
        elog(ERROR, "a bound condition stands where its column is not known");
    Oid input = get_opclass_input_type(opclass);
    Expr *left = AsInput(pstate, column, input);
    Expr *condition = make_opclause(
        get_opfamily_member(get_opclass_family(opclass), input, input, strategy), BOOLOID, false,
        left, AsInput(pstate, BindParameter(pstate, &parameter), input), InvalidOid,
        exprCollation(reinterpret_cast<Node *>(left)));
    set_opfuncid(castNode(OpExpr, condition));
    return reinterpret_cast<Node *>(condition);
}

Node *BindColumn(ParseState *pstate, ColumnRef *ref) {
    if (list_length(ref->fields) == 4 && strcmp(strVal(lsecond(ref->fields)), kCondition) == 0)
        return BindCondition(pstate, ref);
    const IndexTable *table = static_cast<Binding *>(pstate->p_ref_hook_state)->table;
    Expr *expr = FindBound(table, ref);
    if (!expr)
        return nullptr;
    int levels_up;
    ParseNamespaceItem *rows =
        refnameNamespaceItem(pstate, nullptr, kRows, ref->location, &levels_up);
    if (!rows)
        elog(ERROR, "a bound expression stands where its table is not known");
    if (expression_returns_set(reinterpret_cast<Node *>(expr)))
        pstate->p_hasTargetSRFs = true;
    return ToRelation(table, expr, rows->p_rte->relid, rows->p_rtindex, levels_up);
}

void SetUpBinding(ParseState *pstate, void *binding) {
    pstate->p_ref_hook_state = binding;
    pstate->p_pre_columnref_hook = BindColumn;
    pstate->p_paramref_hook = BindParameter;
}

// The value of a key column, with its collation.
char *KeyValue(const IndexTable *table, int i) {
    const KeyColumn &column = table->key.columns[i];
    bool is_array = column.shape == KeyShape::ArrayElements && column.whole == column.expr;
    return psprintf(is_array ? "pg_catalog.unnest(%s.\"%s\".\"%d\")" : "(%s.\"%s\".\"%d\")", kRows,
                    kKey, i);
}

// --- Recomputation -------------------------------------------------------------

// Whether values of a key column that compare equal are the same byte by byte.
bool EqualityIsIdentity(const KeyColumn &column) {
    Oid input = get_opclass_input_type(column.opclass);
    Oid procedure =
        get_opfamily_proc(get_opclass_family(column.opclass), input, input, BTEQUALIMAGE_PROC);
    return OidIsValid(procedure) &&
           DatumGetBool(OidFunctionCall1Coll(procedure, column.collation, ObjectIdGetDatum(input)));
}

// A cast, ::citext, of a value to what an operator compares: without it, another on a domain over
// that would be found by the operator's name. Empty where nobody can have made one.
const char *CastFor(Oid type, Oid input, Oid operator_oid) {
    if (input == type || operator_oid < FirstNormalObjectId || get_typtype(input) == TYPTYPE_PSEUDO)
        return "";
    return psprintf("::%s", format_type_be_qualified(input));
}

// The distinct elements of a multi-valued key, as the row trigger finds them: of those that are
// equal but not the same, such as 1.0 and 1.00, the first.
void AppendDistinctElements(StringInfo sql, const IndexTable *table) {
    int number = table->key.multi_valued + 1;
    const char *value = KeyValue(table, table->key.multi_valued);
    if (EqualityIsIdentity(table->key.columns[table->key.multi_valued]))
        appendStringInfo(sql, " CROSS JOIN LATERAL (SELECT DISTINCT %s AS c%d) AS m", value,
                         number);
    else
        appendStringInfo(
            sql,
            " CROSS JOIN LATERAL (SELECT DISTINCT ON (w.v) w.v AS c%d FROM (SELECT s.v, "
            "row_number() OVER () AS n FROM (SELECT %s AS v) AS s) AS w ORDER BY w.v, "
            "w.n) AS m",
            number, value);
}

} // namespace

char *BoundCondition(const char *alias, const char *column, Oid opclass, StrategyNumber strategy,
                     int parameter) {
    return psprintf("%s.\"%s\".%s.\"%u %d %d\"", alias, kCondition, quote_identifier(column),
                    opclass, strategy, parameter);
}

char *RecomputationQuery(Relation base, const IndexTable *table, int64 ticket, Oid leaf) {
    Assert(IsKnown(table) && RelationGetRelid(base) == table->base);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT ");
    for (int i = 0; i < table->key.count; i++) {
        if (i == table->key.multi_valued)
            appendStringInfo(&sql, "m.c%d, ", i + 1);
        else
            appendStringInfo(&sql, "%s AS c%d, ", KeyValue(table, i), i + 1);
    }
    appendStringInfo(&sql, "index_table.count_row(b.tableoid, " INT64_FORMAT "::bigint) AS c%d",
                     ticket, table->partition_position() + 1);
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
    if (table->key.multi_valued >= 0)
        AppendDistinctElements(&sql, table);
    if (table->predicate)
        appendStringInfo(&sql, " WHERE %s.\"%s\".\"0\"", kRows, kPredicate);
    return sql.data;
}

BoundPlan PrepareBound(const char *sql, const IndexTable *table, int cursor_options, int count,
                       const Oid *types) {
    Assert(IsKnown(table) && (count == 0 || types));
    Binding *binding = palloc_object(Binding);
    *binding = {.table = table, .count = count, .types = palloc_array(Oid, Max(1, count))};
    std::copy(types, types + count, binding->types);
    SPIPlanPtr plan = SPI_prepare_params(sql, SetUpBinding, binding, cursor_options);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    return {.plan = plan, .binding = binding};
}

void FreeBound(const BoundPlan &bound) {
    SPI_freeplan(bound.plan);
    pfree(bound.binding->types);
    pfree(bound.binding);
}

ParamListInfo BoundParameters(const BoundPlan &plan, const Datum *values, const char *nulls) {
    Assert(plan.binding->count == 0 || values);
    ParamListInfo params = plan.binding->count > 0 ? makeParamList(plan.binding->count) : nullptr;
    for (int i = 0; i < plan.binding->count; i++)
        params->params[i] = {.value = values[i],
                             .isnull = nulls && nulls[i] == 'n',
                             .pflags = PARAM_FLAG_CONST,
                             .ptype = plan.binding->types[i]};
    return params;
}

Portal OpenBound(const BoundPlan &plan, const Datum *values, const char *nulls) {
    Assert(ActiveSnapshotSet());
    return SPI_cursor_open_with_paramlist(nullptr, plan.plan, BoundParameters(plan, values, nulls),
                                          true);
}

void AppendStoredColumns(StringInfo sql, Relation rel, const IndexTable *table) {
    Assert(RelationGetRelid(rel) == table->relid || rel->rd_rel->relispartition);
    const AttrNumber *attnos = GetLiveColumns(rel, table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnos[i] - 1);
        appendStringInfo(sql, "%s%s AS c%d", i ? ", " : "", quote_identifier(NameStr(att->attname)),
                         i + 1);
    }
}

bool AppendDirection(StringInfo sql, Oid type, Oid opclass, bool descending, bool nulls_first) {
    const char *cast = "";
    if (opclass == GetDefaultOpClass(type, BTREE_AM_OID)) {
        appendStringInfoString(sql, descending ? " DESC" : " ASC");
    } else {
        Oid input = get_opclass_input_type(opclass);
        Oid sort_operator =
            get_opfamily_member(get_opclass_family(opclass), input, input,
                                descending ? BTGreaterStrategyNumber : BTLessStrategyNumber);
        cast = CastFor(type, input, sort_operator);
        appendStringInfo(sql, "%s USING %s", cast, OperatorName(sort_operator));
    }
    appendStringInfoString(sql, nulls_first ? " NULLS FIRST" : " NULLS LAST");
    return *cast != '\0';
}

char *InEntryOrder(const char *query, const IndexTable *table) {
    Assert(IsKnown(table));
    StringInfoData by;
    initStringInfo(&by);
    bool has_casts = false;
    for (int i = 0; i < table->key.count; i++) {
        const KeyColumn &column = table->key.columns[i];
        appendStringInfo(&by, "%sc%d", i ? ", " : "", i + 1);
        has_casts = AppendDirection(&by, column.type, column.opclass, column.descending,
                                    column.nulls_first) ||
                    has_casts;
    }
    for (int i = table->partition_position() + 1; i < table->group_count(); i++)
        appendStringInfo(&by, ", c%d", i + 1);
    // Expressions cannot name the columns of a query that they stand in.
    return psprintf(has_casts ? "SELECT * FROM (%s) AS e ORDER BY %s" : "%s ORDER BY %s", query,
                    by.data);
}

void AppendKeyOrder(StringInfo sql, const KeyColumn &column, const char *name) {
    appendStringInfoString(sql, quote_identifier(name));
    if (!IsDefaultOpclass(column))
        appendStringInfo(sql, " %s", OperatorClassName(column.opclass));
    appendStringInfo(sql, " %s NULLS %s", column.descending ? "DESC" : "ASC",
                     column.nulls_first ? "FIRST" : "LAST");
}

} // namespace index_table
