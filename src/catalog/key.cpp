#include "catalog/key.h"

#include "core/public.h"

namespace index_table {
namespace {

// What the parser says of an unknown column, with the columns there are.
[[noreturn]] void RaiseUnknownColumn(Relation base, const char *name) {
    StringInfoData columns;
    initStringInfo(&columns);
    for (int i = 0; i < RelationGetNumberOfAttributes(base); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), i);
        if (!att->attisdropped)
            appendStringInfo(&columns, "%s%s", columns.len ? ", " : "",
                             quote_identifier(NameStr(att->attname)));
    }
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                    errmsg("column \"%s\" of table \"%s\" does not exist", name,
                           RelationGetRelationName(base)),
                    errhint("The columns are: %s.", columns.data), errtable(base)));
}

Node *CheckColumnRef(ParseState *pstate, ColumnRef *ref, Node *var) {
    if (var == nullptr && list_length(ref->fields) == 1 && IsA(linitial(ref->fields), String))
        RaiseUnknownColumn(static_cast<Relation>(pstate->p_ref_hook_state),
                           strVal(linitial(ref->fields)));
    return nullptr;
}

// A parse state whose only relation is the base table.
ParseState *MakeParseState(Relation base) {
    ParseState *pstate = make_parsestate(nullptr);
    ParseNamespaceItem *item =
        addRangeTableEntryForRelation(pstate, base, AccessShareLock, nullptr, false, true);
    addNSItemToQuery(pstate, item, false, true, true);
    pstate->p_ref_hook_state = base;
    pstate->p_post_columnref_hook = CheckColumnRef;
    return pstate;
}

[[noreturn]] void RaiseNotA(const char *what, const char *text) {
    ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR), errmsg("\"%s\" is not a valid %s", text, what),
                    errhint("Write it as in CREATE INDEX.")));
}

// A syntax error is one in the argument, not at that place of the user's command.
struct ParsedText {
    const char *text;
    int offset; // in what is parsed
};

void PointIntoText(void *argument) {
    const ParsedText *parsed = static_cast<ParsedText *>(argument);
    int position = geterrposition();
    if (position <= 0)
        return;
    errposition(0);
    internalerrposition(Max(1, position - parsed->offset));
    internalerrquery(parsed->text);
}

// Parses "CREATE INDEX ON base (<key>) WHERE <predicate>", either part fixed, and refuses text
// that reaches out of its place.
IndexStmt *ParseAsIndex(const char *key, const char *predicate) {
    const char *text = key ? key : predicate;
    const char *what = key ? "key" : "predicate";
    if (!text[strspn(text, " \t\r\n\f\v")])
        ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR), errmsg("the %s is empty", what),
                        key ? errhint("Name columns of the base table, as CREATE INDEX does.")
                            : errhint("Leave it out for an index table of all rows.")));
    const char *before = key ? "CREATE INDEX ON t (" : "CREATE INDEX ON t (c) WHERE ";
    char *sql = psprintf("%s%s%s", before, text, key ? "\n)" : "");

    ParsedText parsed = {.text = text, .offset = static_cast<int>(pg_mbstrlen(before))};
    ErrorContextCallback callback = {
        .previous = error_context_stack, .callback = PointIntoText, .arg = &parsed};
    error_context_stack = &callback;
    List *statements = raw_parser(sql, RAW_PARSE_DEFAULT);
    error_context_stack = callback.previous;

    if (list_length(statements) != 1)
        RaiseNotA(what, text);
    Node *statement = linitial_node(RawStmt, statements)->stmt;
    if (!IsA(statement, IndexStmt))
        RaiseNotA(what, text);
    IndexStmt *index = reinterpret_cast<IndexStmt *>(statement);
    if ((index->whereClause != nullptr) != (predicate != nullptr) ||
        index->indexIncludingParams != NIL || index->options != NIL || index->tableSpace)
        RaiseNotA(what, text);
    return index;
}

struct SetFinder {
    int count;
    Node *call;
};

bool FindSetReturning(Node *node, SetFinder *found) {
    if (node == nullptr)
        return false;
    bool returns_set = (IsA(node, FuncExpr) && reinterpret_cast<FuncExpr *>(node)->funcretset) ||
                       (IsA(node, OpExpr) && reinterpret_cast<OpExpr *>(node)->opretset);
    if (returns_set) {
        found->count++;
        found->call = node;
    }
    return compat::WalkExpression(node, FindSetReturning, found);
}

Node *ReplaceCall(Node *node, Node *call) {
    if (node == nullptr)
        return nullptr;
    if (node == call) {
        CaseTestExpr *element = makeNode(CaseTestExpr);
        element->typeId = exprType(call);
        element->typeMod = exprTypmod(call);
        element->collation = exprCollation(call);
        return reinterpret_cast<Node *>(element);
    }
    return compat::MutateExpression(node, ReplaceCall, call);
}

bool HasUnindexableVar(Node *node, void *context) {
    if (node == nullptr)
        return false;
    if (IsA(node, Var))
        return reinterpret_cast<Var *>(node)->varattno <= 0;
    return compat::WalkExpression(node, HasUnindexableVar, context);
}

} // namespace

void CheckExpression(Node *expr, const char *what) {
    if (contain_subplans(expr) || contain_agg_clause(expr) || contain_window_function(expr))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("aggregates, window functions and subqueries cannot be used in the "
                               "%s of an index table",
                               what)));
    if (HasUnindexableVar(expr, nullptr))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("system columns and whole rows cannot be used in the %s of an index table",
                        what)));
    Node *planned =
        reinterpret_cast<Node *>(expression_planner(static_cast<Expr *>(copyObjectImpl(expr))));
    if (contain_mutable_functions(planned))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
                 errmsg("functions in the %s of an index table must be marked IMMUTABLE", what)));
}

void SetKeyExpression(KeyColumn *column, Expr *whole) {
    Node *expr = reinterpret_cast<Node *>(whole);
    column->whole = column->expr = whole;
    column->type = exprType(expr);
    column->typmod = exprTypmod(expr);
    column->collation = exprCollation(expr);
    column->shape = KeyShape::Single;

    SetFinder sets = {};
    FindSetReturning(expr, &sets);
    if (sets.count > 1)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a key column cannot hold more than one set-returning function")));
    if (sets.count == 1) {
        column->shape = KeyShape::SetReturning;
        if (sets.call != expr)
            column->per_element = reinterpret_cast<Expr *>(ReplaceCall(expr, sets.call));
        column->expr = reinterpret_cast<Expr *>(sets.call);
        FuncExpr *call = reinterpret_cast<FuncExpr *>(sets.call);
        if (IsA(call, FuncExpr) && call->funcid == F_UNNEST_ANYARRAY) {
            column->shape = KeyShape::ArrayElements;
            column->expr = static_cast<Expr *>(linitial(call->args));
            if (sets.call == expr) // the same as the array by itself
                column->typmod = exprTypmod(reinterpret_cast<Node *>(column->expr));
        }
        return;
    }
    Oid element = get_base_element_type(column->type);
    if (OidIsValid(element)) {
        column->shape = KeyShape::ArrayElements;
        column->type = element;
    }
    if (IsA(expr, Var) && column->shape == KeyShape::Single)
        column->attno = reinterpret_cast<Var *>(expr)->varattno;
}

namespace {

void NameColumns(Key *key, List *elements) {
    for (int i = 0; i < key->count; i++) {
        IndexElem *element = list_nth_node(IndexElem, elements, i);
        const char *wanted = element->indexcolname ? element->indexcolname : element->name;
        if (wanted == nullptr)
            wanted = FigureIndexColname(element->expr);
        if (wanted == nullptr)
            wanted = "expr";
        char name[NAMEDATALEN];
        strlcpy(name, wanted, sizeof(name));
        auto taken = [&] {
            for (int j = 0; j < i; j++)
                if (strcmp(NameStr(key->columns[j].name), name) == 0)
                    return true;
            return strcmp(name, "partition_id") == 0;
        };
        for (int suffix = 1; taken(); suffix++) {
            char digits[16];
            snprintf(digits, sizeof(digits), "%d", suffix);
            int room = pg_mbcliplen(wanted, strlen(wanted), NAMEDATALEN - 1 - strlen(digits));
            snprintf(name, sizeof(name), "%.*s%s", room, wanted, digits);
        }
        namestrcpy(&key->columns[i].name, name);
    }
}

} // namespace

AttrNumber FindColumn(Relation base, const char *name) {
    AttrNumber attno = get_attnum(RelationGetRelid(base), name);
    if (attno == InvalidAttrNumber)
        RaiseUnknownColumn(base, name);
    if (attno < 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("system column \"%s\" cannot be used in an index table", name)));
    return attno;
}

Key ParseKey(Relation base, const char *text) {
    Assert(IsMemoryFreed());
    List *elements = ParseAsIndex(text, nullptr)->indexParams;
    Key key = {.count = list_length(elements),
               .columns =
                   static_cast<KeyColumn *>(palloc0(sizeof(KeyColumn) * list_length(elements))),
               .multi_valued = -1};

    for (int i = 0; i < key.count; i++) {
        IndexElem *element = list_nth_node(IndexElem, elements, i);
        KeyColumn *column = &key.columns[i];
        ParseState *pstate = MakeParseState(base);
        Node *raw = element->expr;
        if (raw == nullptr) {
            ColumnRef *ref = makeNode(ColumnRef);
            ref->fields = list_make1(makeString(element->name));
            ref->location = -1;
            raw = reinterpret_cast<Node *>(ref);
        }
        Node *expr = transformExpr(pstate, raw, EXPR_KIND_SELECT_TARGET);
        if (exprType(expr) == UNKNOWNOID)
            expr = coerce_type(pstate, expr, UNKNOWNOID, TEXTOID, -1, COERCION_IMPLICIT,
                               COERCE_IMPLICIT_CAST, -1);
        assign_expr_collations(pstate, expr);
        CheckExpression(expr, "key");
        free_parsestate(pstate);

        SetKeyExpression(column, reinterpret_cast<Expr *>(expr));
        if (column->shape != KeyShape::Single) {
            if (key.multi_valued >= 0)
                ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                                errmsg("only one column of a key can have many values for a row"),
                                errhint("Create an index table for each of them.")));
            key.multi_valued = i;
        }

        if (element->collation) {
            if (!type_is_collatable(column->type))
                ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                                errmsg("collations are not supported by type %s",
                                       format_type_be(column->type))));
            column->collation = get_collation_oid(element->collation, false);
        } else if (type_is_collatable(column->type) && !OidIsValid(column->collation)) {
            ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_COLLATION),
                            errmsg("could not determine which collation to use for a key column"),
                            errhint("Use the COLLATE clause to set the collation explicitly.")));
        }
        column->opclass = ResolveOpClass(element->opclass, column->type, "btree", BTREE_AM_OID);
        if (element->opclassopts != NIL)
            ereport(
                ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("operator class options are not supported in the key of an index table")));
        column->descending = element->ordering == SORTBY_DESC;
        column->nulls_first = element->nulls_ordering == SORTBY_NULLS_DEFAULT
                                  ? column->descending
                                  : element->nulls_ordering == SORTBY_NULLS_FIRST;
    }
    NameColumns(&key, elements);
    return key;
}

Expr *ParsePredicate(Relation base, const char *text) {
    Assert(IsMemoryFreed());
    Node *raw = ParseAsIndex(nullptr, text)->whereClause;
    ParseState *pstate = MakeParseState(base);
    Node *expr = transformWhereClause(pstate, raw, EXPR_KIND_INDEX_PREDICATE, "WHERE");
    assign_expr_collations(pstate, expr);
    CheckExpression(expr, "predicate");
    free_parsestate(pstate);
    return reinterpret_cast<Expr *>(expr);
}

List *ParseColumnList(Relation base, const char *text, const char *what) {
    Assert(IsMemoryFreed());
    List *names = NIL;
    // The list is changed in place, hence the copy.
    if (!SplitIdentifierString(pstrdup(text), ',', &names) || names == NIL)
        ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
                        errmsg("%s \"%s\" is not a list of columns", what, text),
                        errhint("Write column names separated by commas.")));
    List *attnos = NIL;
    ListCell *cell;
    foreach (cell, names) {
        const char *name = static_cast<const char *>(lfirst(cell));
        AttrNumber attno = FindColumn(base, name);
        if (list_member_int(attnos, attno))
            ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
                            errmsg("column \"%s\" appears twice in %s", name, what)));
        attnos = lappend_int(attnos, attno);
    }
    return attnos;
}

namespace {

// The SQL text of an expression over the base table; columns prefixed with `alias` unless null.
// Columns that stand alone are named without a lock.
char *Deparse(Oid base, Node *expr, const char *alias) {
    if (IsA(expr, Var)) {
        const char *name =
            quote_identifier(get_attname(base, reinterpret_cast<Var *>(expr)->varattno, false));
        return alias ? psprintf("%s.%s", alias, name) : pstrdup(name);
    }
    List *context = deparse_context_for(alias ? alias : get_rel_name(base), base);
    return deparse_expression(expr, context, alias != nullptr, false);
}

void AppendOrder(StringInfo text, const KeyColumn &column) {
    if (column.descending)
        appendStringInfoString(text, " DESC");
    if (column.nulls_first != column.descending)
        appendStringInfoString(text, column.nulls_first ? " NULLS FIRST" : " NULLS LAST");
}

void AppendCollation(StringInfo sql, const KeyColumn &column) {
    if (OidIsValid(column.collation) &&
        column.collation != exprCollation(reinterpret_cast<Node *>(column.whole)))
        appendStringInfo(sql, " COLLATE %s", generate_collation_name(column.collation));
}

} // namespace

char *DeparseKeyValue(Oid base, const KeyColumn &column, const char *alias) {
    StringInfoData text;
    initStringInfo(&text);
    char *value = Deparse(base, reinterpret_cast<Node *>(column.whole), alias);
    bool is_array = column.shape == KeyShape::ArrayElements && column.whole == column.expr;
    appendStringInfo(&text, is_array ? "pg_catalog.unnest(%s)" : "(%s)", value);
    AppendCollation(&text, column);
    return text.data;
}

namespace {

// What stands in a list of key columns without parentheses around it.
bool IsBare(const Node *expr) {
    return IsA(expr, Var) ||
           (IsA(expr, FuncExpr) &&
            reinterpret_cast<const FuncExpr *>(expr)->funcformat == COERCE_EXPLICIT_CALL);
}

} // namespace

char *DescribeKey(Oid base, const Key &key) {
    Assert(key.count > 0);
    StringInfoData columns;
    initStringInfo(&columns);
    for (int i = 0; i < key.count; i++) {
        Node *expr = reinterpret_cast<Node *>(key.columns[i].whole);
        Datum shown = DirectFunctionCall3(pg_get_expr_ext, CStringGetTextDatum(nodeToString(expr)),
                                          ObjectIdGetDatum(base), BoolGetDatum(true));
        appendStringInfo(&columns, IsBare(expr) ? "%s%s" : "%s(%s)", i ? ", " : "",
                         TextDatumGetCString(shown));
    }
    return columns.data;
}

namespace {

// Whether an array's elements, which are stored as unnest() of it, were asked for by the array
// alone: then their column is named as the array is.
bool IsWrittenAsArray(const KeyColumn &column) {
    return column.shape == KeyShape::ArrayElements && !column.per_element &&
           strcmp(NameStr(column.name), "unnest") != 0;
}

} // namespace

bool IsDefaultOpclass(const KeyColumn &column) {
    return column.opclass == GetDefaultOpClass(column.type, BTREE_AM_OID);
}

char *DeparseKey(Oid base, const Key &key, bool is_for_create) {
    int nest_level = SecureSearchPath();
    UseLosslessText();
    StringInfoData text;
    initStringInfo(&text);
    for (int i = 0; i < key.count; i++) {
        const KeyColumn &column = key.columns[i];
        Node *expr = reinterpret_cast<Node *>(
            is_for_create && IsWrittenAsArray(column) ? column.expr : column.whole);
        appendStringInfo(&text, IsBare(expr) ? "%s%s" : "%s(%s)", i ? ", " : "",
                         Deparse(base, expr, nullptr));
        AppendCollation(&text, column);
        if (!IsDefaultOpclass(column))
            appendStringInfo(&text, " %s", OperatorClassName(column.opclass));
        AppendOrder(&text, column);
    }
    AtEOXact_GUC(false, nest_level);
    return text.data;
}

char *DeparsePredicate(Oid base, Expr *predicate) {
    int nest_level = SecureSearchPath();
    UseLosslessText();
    char *text = Deparse(base, reinterpret_cast<Node *>(predicate), nullptr);
    AtEOXact_GUC(false, nest_level);
    return text;
}

char *DeparseForQuery(Oid base, Expr *predicate, const char *alias) {
    return Deparse(base, reinterpret_cast<Node *>(predicate), alias);
}

Bitmapset *ReferencedColumns(Bitmapset *columns, const KeyColumn &column) {
    pull_varattnos(reinterpret_cast<Node *>(column.expr), 1, &columns);
    pull_varattnos(reinterpret_cast<Node *>(column.per_element), 1, &columns);
    return columns;
}

} // namespace index_table
