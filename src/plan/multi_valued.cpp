#include "plan/multi_valued.h"

namespace index_table {
namespace {

// A value that every array which contains `array` has among its elements; null where there is none
// to be told before the query runs.
Expr *AnyElement(Node *array, Oid element_type) {
    if (IsA(array, ArrayExpr)) {
        ArrayExpr *elements = reinterpret_cast<ArrayExpr *>(array);
        return elements->multidims || elements->elements == NIL
                   ? nullptr
                   : static_cast<Expr *>(linitial(elements->elements));
    }
    if (!IsA(array, Const) || reinterpret_cast<Const *>(array)->constisnull)
        return nullptr;
    ArrayType *value = DatumGetArrayTypeP(reinterpret_cast<Const *>(array)->constvalue);
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(element_type, &length, &by_value, &align);
    Datum *elements;
    bool *nulls;
    int count;
    deconstruct_array(value, element_type, length, by_value, align, &elements, &nulls, &count);
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            return reinterpret_cast<Expr *>(makeConst(element_type, -1,
                                                      get_typcollation(element_type), length,
                                                      elements[i], false, by_value));
    return nullptr;
}

} // namespace

Expr *MatchElement(const Candidate *candidate, List *restrictions, RestrictInfo *restriction) {
    Expr *clause = restriction->clause;
    const Key &key = candidate->table->key;
    const IndexOptInfo *info = candidate->info;
    if (key.multi_valued != 0 || key.columns[0].shape != KeyShape::ArrayElements ||
        key.columns[0].per_element)
        return nullptr;
    // Elements are compared by their type's own equality, in the clause and in the key alike.
    Oid type = key.columns[0].type;
    TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_BTREE_OPFAMILY);
    if (!OidIsValid(cache->eq_opr) || info->opfamily[0] != cache->btree_opf)
        return nullptr;
    Node *array = static_cast<Node *>(copyObjectImpl(key.columns[0].expr));
    ChangeVarNodes(array, 1, info->rel->relid, 0);
    Expr *value = nullptr;
    Oid collation = InvalidOid;
    if (IsA(clause, ScalarArrayOpExpr)) {
        ScalarArrayOpExpr *any = reinterpret_cast<ScalarArrayOpExpr *>(clause);
        if (any->useOr && any->opno == cache->eq_opr && equal(lsecond(any->args), array)) {
            value = static_cast<Expr *>(linitial(any->args));
            collation = any->inputcollid;
        }
    } else if (IsA(clause, OpExpr)) {
        OpExpr *op = reinterpret_cast<OpExpr *>(clause);
        bool contains = op->opno == OID_ARRAY_CONTAINS_OP;
        if ((contains || op->opno == OID_ARRAY_CONTAINED_OP) &&
            equal(list_nth(op->args, contains ? 0 : 1), array)) {
            value = AnyElement(static_cast<Node *>(list_nth(op->args, contains ? 1 : 0)), type);
            collation = op->inputcollid;
        }
    }
    if (!value || contain_volatile_functions(reinterpret_cast<Node *>(value)) ||
        contain_var_clause(reinterpret_cast<Node *>(value)) ||
        exprType(reinterpret_cast<Node *>(value)) != type ||
        !restriction_is_securely_promotable(restriction, info->rel) ||
        (candidate->predicate &&
         !predicate_implied_by(candidate->predicate, restrictions, false)) ||
        (OidIsValid(info->indexcollations[0]) && info->indexcollations[0] != collation))
        return nullptr;
    Expr *element = linitial_node(TargetEntry, info->indextlist)->expr;
    Expr *equality =
        make_opclause(cache->eq_opr, BOOLOID, false, element, value, InvalidOid, collation);
    set_opfuncid(reinterpret_cast<OpExpr *>(equality));
    return equality;
}

} // namespace index_table
