// index_table.statement_conditions(): what a statement's text asks a table for. The server's own
// parser reads it, with its parameters ($1); nothing of it is planned or run.
#include "core/public.h"

namespace index_table {
namespace {

// A key that a reference is restricted by, as text of CREATE INDEX, and the column that it is
// mainly made of.
struct Restriction {
    char *key;
    AttrNumber column;
    Oid type; // of the key
    bool is_equality;
};

// One mention of the table in a statement.
struct Reference {
    const Query *query;
    int index; // in its range table
    CmdType command;
    List *restrictions;
    Bitmapset *shown;   // columns that are read, from 1
    Bitmapset *changed; // columns that are set
};

struct Search {
    Oid base;
    const Bitmapset *given; // parameters that constants stand for
    List *references;
};

struct Message {
    int sqlstate;
    int position; // in characters, from 1; 0: none
};

// --- References ----------------------------------------------------------------

Reference *GetReference(Search *search, const Query *query, int index) {
    ListCell *cell;
    foreach (cell, search->references) {
        Reference *reference = static_cast<Reference *>(lfirst(cell));
        if (reference->query == query && reference->index == index)
            return reference;
    }
    Reference *reference = palloc0_object(Reference);
    reference->query = query;
    reference->index = index;
    reference->command = index == query->resultRelation ? query->commandType : CMD_SELECT;
    search->references = lappend(search->references, reference);
    return reference;
}

Node *WithoutRelabeling(Node *node) {
    while (node && IsA(node, RelabelType))
        node = reinterpret_cast<Node *>(reinterpret_cast<RelabelType *>(node)->arg);
    return node;
}

// What an expression of one relation of a query is in the query that has the table: views,
// subqueries and joins show columns of others. Null where that cannot be told.
Node *FindOrigin(const Query **query, Node *node) {
    for (;;) {
        check_stack_depth();
        node = WithoutRelabeling(node);
        if (!node || !IsA(node, Var))
            return node;
        const Var *var = reinterpret_cast<const Var *>(node);
        if (var->varlevelsup != 0 || var->varattno <= 0)
            return nullptr;
        const RangeTblEntry *rte = rt_fetch(var->varno, (*query)->rtable);
        if (rte->rtekind == RTE_JOIN) {
            node = static_cast<Node *>(list_nth(rte->joinaliasvars, var->varattno - 1));
        } else if (rte->rtekind == RTE_SUBQUERY && !rte->subquery->setOperations) {
            *query = rte->subquery;
            node = reinterpret_cast<Node *>(
                list_nth_node(TargetEntry, rte->subquery->targetList, var->varattno - 1)->expr);
        } else {
            return node;
        }
    }
}

bool HasParameter(Node *node, void *context) {
    return node && (IsA(node, Param) || IsA(node, SubLink) ||
                    compat::WalkExpression(node, HasParameter, context));
}

bool IsNeither(Oid owner, Oid role) {
    return role != owner && !superuser_arg(role);
}

bool IsOfOthers(Oid function, void *owner) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple))
        return true;
    Oid role = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return IsNeither(*static_cast<Oid *>(owner), role);
}

// A domain's constraints are code, and so are those of the domains that it is made of.
bool IsDomainOfOthers(Oid type, Oid owner) {
    HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
    if (!HeapTupleIsValid(tuple))
        return true;
    const auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
    Oid base = form->typtype == TYPTYPE_DOMAIN ? form->typbasetype : InvalidOid;
    bool is_of_others = OidIsValid(base) && IsNeither(owner, form->typowner);
    ReleaseSysCache(tuple);
    return is_of_others || (OidIsValid(base) && IsDomainOfOthers(base, owner));
}

// Whether a key calls what neither the table's owner nor a superuser has made: who may read the
// table could have it recommended, and run by whoever writes.
bool CallsOthers(Node *node, void *owner) {
    return node && (check_functions_in_node(node, IsOfOthers, owner) ||
                    (IsA(node, CoerceToDomain) &&
                     IsDomainOfOthers(exprType(node), *static_cast<Oid *>(owner))) ||
                    compat::WalkExpression(node, CallsOthers, owner));
}

// As between the parentheses of CREATE INDEX.
char *KeyText(Oid base, Node *node, int index) {
    node = static_cast<Node *>(copyObjectImpl(node));
    ChangeVarNodes(node, index, 1, 0);
    int nest_level = SecureSearchPath();
    UseLosslessText();
    List *names = deparse_context_for(get_rel_name(base), base);
    char *text = deparse_expression(node, names, false, false);
    AtEOXact_GUC(false, nest_level);
    bool is_plain =
        IsA(node, Var) || (IsA(node, FuncExpr) &&
                           reinterpret_cast<FuncExpr *>(node)->funcformat == COERCE_EXPLICIT_CALL);
    return is_plain ? text : psprintf("(%s)", text);
}

// The strategy of an operator in the B-trees of a type; 0: none.
int StrategyOf(Oid op, Oid type) {
    Oid opclass = GetDefaultOpClass(getBaseType(type), BTREE_AM_OID);
    return OidIsValid(opclass) ? get_op_opfamily_strategy(op, get_opclass_family(opclass)) : 0;
}

void Restrict(Search *search, const Query *query, Node *side, bool is_equality) {
    Node *key = FindOrigin(&query, side);
    int index;
    if (!key || !bms_get_singleton_member(pull_varnos(nullptr, key), &index))
        return;
    const RangeTblEntry *rte = rt_fetch(index, query->rtable);
    if (rte->rtekind != RTE_RELATION || rte->relid != search->base || HasParameter(key, nullptr) ||
        contain_mutable_functions(key))
        return;
    Oid owner = RelationOwner(search->base);
    if (CallsOthers(key, &owner))
        return;
    Bitmapset *columns = nullptr;
    pull_varattnos(key, index, &columns);
    AttrNumber column = bms_next_member(columns, -1) + FirstLowInvalidHeapAttributeNumber;
    if (column <= 0)
        return;
    Restriction *restriction = palloc_object(Restriction);
    *restriction = {KeyText(search->base, key, index), column, exprType(WithoutRelabeling(key)),
                    is_equality};
    Reference *reference = GetReference(search, query, index);
    reference->restrictions = lappend(reference->restrictions, restriction);
}

// Whether an expression has values for a row of others to be looked up by.
bool IsIndependent(Node *value, Node *side) {
    return !bms_overlap(pull_varnos(nullptr, value), pull_varnos(nullptr, side)) &&
           !contain_volatile_functions(value);
}

void ReadOperator(Search *search, const Query *query, Oid op, Node *left, Node *right) {
    if (!OidIsValid(op) || !IsIndependent(right, left))
        return;
    Oid type = exprType(left);
    if (op == OID_ARRAY_CONTAINS_OP) {
        Restrict(search, query, left, true);
    } else if (int strategy = StrategyOf(op, type)) {
        Restrict(search, query, left, strategy == BTEqualStrategyNumber);
    }
}

void ReadCondition(Search *search, const Query *query, Node *node) {
    if (!node)
        return;
    if (is_andclause(node)) {
        ListCell *cell;
        foreach (cell, reinterpret_cast<BoolExpr *>(node)->args)
            ReadCondition(search, query, static_cast<Node *>(lfirst(cell)));
    } else if (is_opclause(node) && list_length(reinterpret_cast<OpExpr *>(node)->args) == 2) {
        const OpExpr *condition = reinterpret_cast<OpExpr *>(node);
        Node *left = static_cast<Node *>(linitial(condition->args));
        Node *right = static_cast<Node *>(lsecond(condition->args));
        ReadOperator(search, query, condition->opno, left, right);
        ReadOperator(search, query, get_commutator(condition->opno), right, left);
    } else if (IsA(node, ScalarArrayOpExpr)) {
        const ScalarArrayOpExpr *condition = reinterpret_cast<ScalarArrayOpExpr *>(node);
        Node *scalar = static_cast<Node *>(linitial(condition->args));
        Node *array = static_cast<Node *>(lsecond(condition->args));
        if (!condition->useOr ||
            StrategyOf(condition->opno, exprType(scalar)) != BTEqualStrategyNumber)
            return;
        if (IsIndependent(array, scalar))
            Restrict(search, query, scalar, true);
        if (IsIndependent(scalar, array))
            Restrict(search, query, array, true); // an array that is a key has many values
    }
}

void ReadConditions(Search *search, const Query *query, Node *node) {
    if (!node)
        return;
    ListCell *cell;
    if (IsA(node, FromExpr)) {
        const FromExpr *from = reinterpret_cast<FromExpr *>(node);
        foreach (cell, from->fromlist)
            ReadConditions(search, query, static_cast<Node *>(lfirst(cell)));
        ReadCondition(search, query, from->quals);
    } else if (IsA(node, JoinExpr)) {
        const JoinExpr *join = reinterpret_cast<JoinExpr *>(node);
        ReadConditions(search, query, join->larg);
        ReadConditions(search, query, join->rarg);
        ReadCondition(search, query, join->quals);
    }
}

// --- Statements ----------------------------------------------------------------

struct ShownColumns {
    Search *search;
    const Query *query;
};

bool CollectShown(Node *node, ShownColumns *shown) {
    if (!node || IsA(node, Query))
        return false;
    if (IsA(node, Var)) {
        const Var *var = reinterpret_cast<const Var *>(node);
        if (var->varlevelsup != 0 || IS_SPECIAL_VARNO(var->varno))
            return false;
        const RangeTblEntry *rte = rt_fetch(var->varno, shown->query->rtable);
        if (rte->rtekind == RTE_RELATION && rte->relid == shown->search->base &&
            var->varattno >= 0) {
            Reference *reference = GetReference(shown->search, shown->query, var->varno);
            reference->shown = bms_add_member(reference->shown, var->varattno);
        }
        return false;
    }
    return compat::WalkExpression(node, CollectShown, shown);
}

bool VisitSubqueries(Node *node, Search *search);

void VisitQuery(Search *search, Query *query) {
    check_stack_depth();
    ListCell *cell;
    foreach (cell, query->rtable) {
        const RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);
        int index = foreach_current_index(cell) + 1;
        if (rte->rtekind != RTE_RELATION || rte->relid != search->base)
            continue;
        if (index != query->resultRelation)
            continue;
        Reference *reference = GetReference(search, query, index);
        ListCell *target_cell;
        foreach (target_cell, query->commandType == CMD_UPDATE ? query->targetList : NIL) {
            const TargetEntry *target = lfirst_node(TargetEntry, target_cell);
            if (!target->resjunk)
                reference->changed = bms_add_member(reference->changed, target->resno);
        }
    }
    if (query->jointree)
        ReadConditions(search, query, reinterpret_cast<Node *>(query->jointree));
    ShownColumns shown = {search, query};
    compat::WalkQuery(query, CollectShown, &shown,
                      QTW_IGNORE_RANGE_TABLE | QTW_IGNORE_CTE_SUBQUERIES);
    compat::WalkQuery(query, VisitSubqueries, search, 0);
}

bool VisitSubqueries(Node *node, Search *search) {
    if (!node)
        return false;
    if (IsA(node, Query)) {
        VisitQuery(search, reinterpret_cast<Query *>(node));
        return false;
    }
    return compat::WalkExpression(node, VisitSubqueries, search);
}

// The statement within, where it is one that reads or writes rows. Of EXECUTE, statistics have the
// text of PREPARE.
Node *FindStatement(Node *statement) {
    switch (nodeTag(statement)) {
    case T_SelectStmt:
    case T_InsertStmt:
    case T_UpdateStmt:
    case T_DeleteStmt:
    case T_MergeStmt:
        return statement;
    case T_PrepareStmt:
        return FindStatement(reinterpret_cast<PrepareStmt *>(statement)->query);
    case T_DeclareCursorStmt:
        return FindStatement(reinterpret_cast<DeclareCursorStmt *>(statement)->query);
    default:
        return nullptr;
    }
}

void ReadText(Search *search, const char *text) {
    ListCell *cell, *query;
    foreach (cell, raw_parser(text, RAW_PARSE_DEFAULT)) {
        RawStmt *raw = lfirst_node(RawStmt, cell);
        raw->stmt = FindStatement(raw->stmt);
        if (!raw->stmt)
            continue;
        // Every number up to the highest is a parameter, and must have a type.
        int count = 0;
        for (int number = -1; (number = bms_next_member(search->given, number)) >= 0;)
            count = number;
        Oid *types = palloc0_array(Oid, Max(1, count));
        for (int number = -1; (number = bms_next_member(search->given, number)) >= 0;)
            types[number - 1] = TEXTOID;
        foreach (query, pg_analyze_and_rewrite_varparams(raw, text, &types, &count, nullptr))
            VisitQuery(search, lfirst_node(Query, query));
    }
}

// Carries something out in a subtransaction that is undone in any case, with its locks. True where
// there was no error; cancels go through.
template <typename Attempt>
bool TryAndUndo(Attempt attempt, Message *message) {
    MemoryContext caller = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    volatile bool succeeded = false;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(caller);
    ErrorContextCallback *context = error_context_stack;
    PG_TRY();
    {
        // What calls this takes the places of errors for places in its own text.
        error_context_stack = nullptr;
        attempt();
        succeeded = true;
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(caller);
        ErrorData *error = CopyErrorData();
        if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
            PG_RE_THROW();
        FlushErrorState();
        FlushErrorState();
        *message = {error->sqlerrcode, error->cursorpos};
    }
    PG_END_TRY();
    error_context_stack = context;
    RollbackAndReleaseCurrentSubTransaction();
    MemoryContextSwitchTo(caller);
    CurrentResourceOwner = owner;
    return succeeded;
}

// Statistics have a parameter for every constant, and after the name of a type there must be a
// constant: interval '1 day' has become interval $1. Gives it one that a type of times takes: true
// where the error was of that kind.
constexpr int kMostParameters = 65535;
constexpr const char *kConstants[] = {"'epoch'", "'0'"};

bool GiveConstant(char **text, Bitmapset **given, const Message &message) {
    if (message.position <= 0)
        return false;
    int offset = pg_mbcharcliplen(*text, strlen(*text), message.position - 1);
    const char *place = *text + offset;
    const char *constant;
    int length = 0;
    if (message.sqlstate == ERRCODE_SYNTAX_ERROR && place[0] == '$') {
        length = 1 + strspn(place + 1, "0123456789");
        int number = pg_strtoint32(pnstrdup(place + 1, length - 1));
        if (number <= 0 || number > kMostParameters)
            return false;
        *given = bms_add_member(*given, number);
        constant = kConstants[0];
    } else if (ERRCODE_TO_CATEGORY(message.sqlstate) == ERRCODE_DATA_EXCEPTION &&
               strncmp(place, kConstants[0], strlen(kConstants[0])) == 0) {
        length = strlen(kConstants[0]);
        constant = kConstants[1];
    } else {
        return false;
    }
    *text = psprintf("%.*s%s%s", offset, *text, constant, place + length);
    return true;
}

// Whether a token is a string, by how it begins: 'x', E'x', U&'x', $x$x$x$ and the like.
bool IsString(const char *token) {
    if (*token == '$')
        return !isdigit(static_cast<unsigned char>(token[1])); // else a parameter
    if (*token != '\0' && strchr("bBeEnNxX", *token))
        token++;
    else if (strncmp(token, "u&", 2) == 0 || strncmp(token, "U&", 2) == 0)
        token += 2;
    return *token == '\'';
}

// Whether a text has strings of its own. To parse one is to have a type read it, and a type may be
// somebody's: an array of a domain runs the domain's checks, with the rights of who asks.
// Statistics have parameters for them, but of cursors' texts and the like. The server's scanner
// tells them from names and comments, which may have quotes, too.
bool HasStrings(const char *text) {
    core_yy_extra_type extra;
    core_yyscan_t scanner = scanner_init(text, &extra, &ScanKeywords, ScanKeywordTokens);
    core_YYSTYPE value;
    YYLTYPE place;
    bool found = false;
    while (!found && core_yylex(&value, &place, scanner) != 0)
        found = IsString(text + place);
    scanner_finish(scanner);
    return found;
}

List *ReadStatement(Oid base, char *text, const char *path) {
    constexpr int kTries = 40;
    Bitmapset *given = nullptr;
    bool has_none = false; // strings, before it was given some
    for (int i = 0; i < kTries; i++) {
        Search search = {.base = base, .given = given, .references = NIL};
        Message message = {};
        auto read = [&] {
            NewGUCNestLevel(); // which the subtransaction ends
            SetForQuery("search_path", path);
            SetForQuery("lock_timeout", "100ms");
            has_none = has_none || !HasStrings(text);
            if (has_none)
                ReadText(&search, text);
        };
        if (TryAndUndo(read, &message))
            return search.references;
        if (!GiveConstant(&text, &given, message))
            return NIL;
    }
    return NIL;
}

// --- Results -------------------------------------------------------------------

Datum ArrayOf(List *datums, Oid type, int length, bool by_value, char align) {
    int count = list_length(datums);
    Datum *values = palloc_array(Datum, Max(1, count));
    for (int i = 0; i < count; i++)
        values[i] = *static_cast<Datum *>(list_nth(datums, i));
    return PointerGetDatum(construct_array(values, count, type, length, by_value, align));
}

List *AddDatum(List *list, Datum value) {
    Datum *kept = palloc_object(Datum);
    *kept = value;
    return lappend(list, kept);
}

Datum NumbersOf(const Bitmapset *members) {
    List *numbers = NIL;
    for (int member = -1; (member = bms_next_member(members, member)) >= 0;)
        numbers = AddDatum(numbers, Int16GetDatum(member));
    return ArrayOf(numbers, INT2OID, sizeof(int16), true, TYPALIGN_SHORT);
}

// Each key once.
void ArraysOf(const Reference *reference, bool is_equality, Datum *keys, Datum *columns,
              Datum *types) {
    List *texts = NIL, *seen = NIL, *numbers = NIL, *oids = NIL;
    ListCell *cell, *other;
    foreach (cell, reference->restrictions) {
        const Restriction *restriction = static_cast<Restriction *>(lfirst(cell));
        bool is_new = restriction->is_equality == is_equality;
        foreach (other, seen)
            is_new = is_new && strcmp(static_cast<char *>(lfirst(other)), restriction->key) != 0;
        if (!is_new)
            continue;
        seen = lappend(seen, restriction->key);
        texts = AddDatum(texts, CStringGetTextDatum(restriction->key));
        numbers = AddDatum(numbers, Int16GetDatum(restriction->column));
        oids = AddDatum(oids, ObjectIdGetDatum(restriction->type));
    }
    *keys = ArrayOf(texts, TEXTOID, -1, false, TYPALIGN_INT);
    *columns = ArrayOf(numbers, INT2OID, sizeof(int16), true, TYPALIGN_SHORT);
    *types = ArrayOf(oids, OIDOID, sizeof(Oid), true, TYPALIGN_INT);
}

const char *CommandName(CmdType command) {
    switch (command) {
    case CMD_UPDATE:
        return "update";
    case CMD_DELETE:
        return "delete";
    case CMD_INSERT:
        return "insert";
    case CMD_MERGE:
        return "merge";
    default:
        return "select";
    }
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_statement_conditions) {
    enum Column {
        kCommand,
        kEqual,
        kEqualColumns,
        kEqualTypes,
        kRanged,
        kRangedColumns,
        kRangedTypes,
        kShown,
        kChanged
    };
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    ListCell *cell;
    foreach (cell, ReadStatement(PG_GETARG_OID(0), text_to_cstring(PG_GETARG_TEXT_PP(1)),
                                 text_to_cstring(PG_GETARG_TEXT_PP(2)))) {
        const Reference *reference = static_cast<Reference *>(lfirst(cell));
        Datum values[kChanged + 1];
        bool nulls[kChanged + 1] = {};
        values[kCommand] = CStringGetTextDatum(CommandName(reference->command));
        ArraysOf(reference, true, &values[kEqual], &values[kEqualColumns], &values[kEqualTypes]);
        ArraysOf(reference, false, &values[kRanged], &values[kRangedColumns],
                 &values[kRangedTypes]);
        values[kShown] = NumbersOf(reference->shown);
        values[kChanged] = NumbersOf(reference->changed);
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
    return static_cast<Datum>(0);
}
