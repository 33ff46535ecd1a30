#include "read/key_values.h"

#include "core/public.h"

namespace index_table {
namespace {

// An error in a value's text becomes one that names the column; the value's own is the detail.
[[noreturn]] void RaiseBadValue(const char *column, Oid type, MemoryContext context) {
    MemoryContextSwitchTo(context);
    ErrorData *error = CopyErrorData();
    if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_DATA_EXCEPTION)
        ReThrowError(error);
    FlushErrorState();
    ereport(ERROR,
            (errcode(error->sqlerrcode),
             errmsg("invalid value for key column \"%s\" of type %s", column, format_type_be(type)),
             errdetail_internal("%s", error->message)));
}

// Functions in C are a superuser's.
bool IsUsersFunction(Oid function, void *) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple))
        return true;
    Oid language = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->prolang;
    ReleaseSysCache(tuple);
    return language != INTERNALlanguageId && language != ClanguageId;
}

bool CallsUsersFunction(Node *node, void *context) {
    return node && (check_functions_in_node(node, IsUsersFunction, context) ||
                    compat::WalkExpression(node, CallsUsersFunction, context));
}

// Null where there is no cast, or none that is to be used.
Node *MakeCast(Const *constant, Oid to) {
    Node *value = reinterpret_cast<Node *>(constant);
    Oid from = constant->consttype;
    Node *cast = coerce_to_target_type(nullptr, value, from, to, -1, COERCION_EXPLICIT,
                                       COERCE_EXPLICIT_CAST, -1);
    if (!cast || !CallsUsersFunction(cast, nullptr))
        return cast;
    if (from != TEXTOID)
        return can_coerce_type(1, &from, &to, COERCION_IMPLICIT) ? cast : nullptr;
    CoerceViaIO *literal = makeNode(CoerceViaIO);
    literal->arg = reinterpret_cast<Expr *>(value);
    literal->resulttype = to;
    literal->resultcollid = get_typcollation(to);
    literal->coerceformat = COERCE_EXPLICIT_CAST;
    literal->location = -1;
    return reinterpret_cast<Node *>(literal);
}

// Whether to make a value of a type may run what a domain checks.
bool MayContainDomain(Oid type) {
    char kind = get_typtype(type);
    return type >= FirstNormalObjectId && kind != TYPTYPE_ENUM &&
           (kind != TYPTYPE_BASE || OidIsValid(get_element_type(type)));
}

// The value of a cast to `to`, in the current memory context. Errors name the column of type
// `type`.
Datum Evaluate(Node *cast, Oid to, Oid type, const char *column, bool *isnull) {
    assign_expr_collations(nullptr, cast);
    MemoryContext caller = CurrentMemoryContext;
    volatile Datum result = 0;
    volatile bool result_is_null = false;
    PG_TRY();
    {
        EState *estate = CreateExecutorState();
        MemoryContextSwitchTo(estate->es_query_cxt);
        ExprState *state =
            ExecInitExpr(expression_planner(reinterpret_cast<Expr *>(cast)), nullptr);
        bool cast_is_null;
        Datum cast_value =
            ExecEvalExprSwitchContext(state, GetPerTupleExprContext(estate), &cast_is_null);
        MemoryContextSwitchTo(caller);
        int16 length;
        bool by_value;
        get_typlenbyval(to, &length, &by_value);
        if (!cast_is_null) {
            if (length == -1)
                cast_value = PointerGetDatum(PG_DETOAST_DATUM_COPY(cast_value));
            else
                cast_value = datumCopy(cast_value, by_value, length);
        }
        result = cast_value;
        result_is_null = cast_is_null;
        FreeExecutorState(estate);
    }
    PG_CATCH();
    { RaiseBadValue(column, type, caller); }
    PG_END_TRY();
    *isnull = result_is_null;
    return result;
}

} // namespace

Datum CastKeyValue(Oid table, Datum value, Oid from, Oid type, const char *column, bool *isnull) {
    Oid to = getBaseType(type);
    if (from == to || *isnull)
        return value;
    int16 length;
    bool by_value;
    get_typlenbyval(from, &length, &by_value);
    Const *constant = makeConst(from, -1, get_typcollation(from), length, value, false, by_value);
    Node *cast = MakeCast(constant, to);
    if (!cast)
        ereport(ERROR, (errcode(ERRCODE_CANNOT_COERCE),
                        errmsg("cannot cast type %s to %s for key column \"%s\"",
                               format_type_be(from), format_type_be(type), column),
                        errhint("Pass text, or a value of the column's type.")));
    if (!MayContainDomain(to) || CallsUsersFunction(cast, nullptr))
        return Evaluate(cast, to, type, column, isnull);
    OwnerContext owner = EnterOwner(RelationOwner(table));
    Datum result = Evaluate(cast, to, type, column, isnull);
    LeaveOwner(owner);
    return result;
}

KeyValues ReadKeyValues(FunctionCallInfo fcinfo, int first, const IndexTable *table) {
    Assert(IsKnown(table) && first >= 0);
    KeyValues key = {};
    Oid *types = nullptr;
    if (PG_NARGS() > first)
        key.count = extract_variadic_args(fcinfo, first, true, &key.values, &types, &key.nulls);
    if (key.count < 0)
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("the array of key values must not be null")));
    if (key.count > table->key.count)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("too many key values: %d", key.count),
                 errdetail_plural("The key of index table \"%s\" has %d column.",
                                  "The key of index table \"%s\" has %d columns.", table->key.count,
                                  get_rel_name(table->relid), table->key.count)));
    for (int i = 0; i < key.count; i++)
        key.values[i] =
            CastKeyValue(table->relid, key.values[i], types[i], table->key.columns[i].type,
                         NameStr(table->key.columns[i].name), &key.nulls[i]);
    return key;
}

} // namespace index_table
