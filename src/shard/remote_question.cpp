#include "shard/remote_question.h"

#include "core/public.h"

namespace index_table {
namespace {

struct Conversion {
    Index varno;
    int first_parameter;
    List *arguments;
    bool possible;
    bool has_column;
};

// Constants become parameters, so that questions which differ in them alone are the same. Those of
// types whose text is a name here and a number there stay, and what is rarely a value.
bool IsValue(const Const *constant) {
    switch (constant->consttype) {
    case BOOLOID:
    case REGPROCOID:
    case REGPROCEDUREOID:
    case REGOPEROID:
    case REGOPERATOROID:
    case REGCLASSOID:
    case REGTYPEOID:
    case REGCONFIGOID:
    case REGDICTIONARYOID:
    case REGROLEOID:
    case REGNAMESPACEOID:
    case REGCOLLATIONOID:
        return false;
    default:
        return !constant->constisnull;
    }
}

Node *ToParameter(Conversion *conversion, Node *argument) {
    int number = 0;
    ListCell *cell;
    foreach (cell, conversion->arguments)
        if (equal(lfirst(cell), argument))
            number = foreach_current_index(cell) + 1;
    if (number == 0) {
        conversion->arguments =
            lappend(conversion->arguments, static_cast<Node *>(copyObjectImpl(argument)));
        number = list_length(conversion->arguments);
    }
    Param *param = makeNode(Param);
    param->paramkind = PARAM_EXTERN;
    param->paramid = conversion->first_parameter + number - 1;
    param->paramtype = exprType(argument);
    param->paramtypmod = exprTypmod(argument);
    param->paramcollid = exprCollation(argument);
    param->location = -1;
    return reinterpret_cast<Node *>(param);
}

Node *Convert(Node *node, Conversion *conversion) {
    if (!node || !conversion->possible)
        return node;
    switch (nodeTag(node)) {
    case T_Var: {
        Var *column = reinterpret_cast<Var *>(node);
        if (static_cast<Index>(column->varno) != conversion->varno || column->varattno <= 0 ||
            column->varlevelsup != 0) {
            conversion->possible = false;
            return node;
        }
        conversion->has_column = true;
        return reinterpret_cast<Node *>(
            makeVar(1, column->varattno, column->vartype, column->vartypmod, column->varcollid, 0));
    }
    case T_Const:
        return IsValue(reinterpret_cast<Const *>(node)) ? ToParameter(conversion, node) : node;
    case T_Param:
        if (reinterpret_cast<Param *>(node)->paramkind == PARAM_EXTERN ||
            reinterpret_cast<Param *>(node)->paramkind == PARAM_EXEC)
            return ToParameter(conversion, node);
        conversion->possible = false;
        return node;
    case T_SubPlan:
    case T_AlternativeSubPlan:
    case T_SubLink:
    case T_Aggref:
    case T_WindowFunc:
    case T_GroupingFunc:
    case T_PlaceHolderVar:
    case T_CurrentOfExpr:
    case T_NextValueExpr:
        conversion->possible = false;
        return node;
    case T_ScalarArrayOpExpr: {
        Node *copy = compat::MutateExpression(node, Convert, conversion);
        // The planner had decided that for a constant.
        reinterpret_cast<ScalarArrayOpExpr *>(copy)->hashfuncid = InvalidOid;
        reinterpret_cast<ScalarArrayOpExpr *>(copy)->negfuncid = InvalidOid;
        return copy;
    }
    default:
        return compat::MutateExpression(node, Convert, conversion);
    }
}

} // namespace

Oid IdentityArrayType(Oid type) {
    Oid base = getBaseType(type);
    // Operators of varchar are those of text.
    return get_array_type(base == VARCHAROID ? TEXTOID : base);
}

List *MakeRemoteConditions(List *quals, Index varno, int first_parameter, List **arguments) {
    List *conditions = NIL;
    *arguments = NIL;
    ListCell *cell;
    foreach (cell, quals) {
        Node *qual = static_cast<Node *>(lfirst(cell));
        if (contain_volatile_functions(qual))
            continue;
        Conversion conversion = {.varno = varno,
                                 .first_parameter = first_parameter,
                                 .arguments = list_copy(*arguments),
                                 .possible = true};
        Node *condition = Convert(qual, &conversion);
        if (!conversion.possible || !conversion.has_column)
            continue;
        conditions = lappend(conditions, condition);
        *arguments = conversion.arguments;
    }
    return conditions;
}

} // namespace index_table
