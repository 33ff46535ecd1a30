#include "plan/clauses.h"

#include "core/public.h"

namespace index_table {
namespace {

// A column or expression known to equal a value.
struct KnownValue {
    Expr *expr;
    Expr *value;
};

struct Collector {
    PlannerInfo *root;
    Index relid;
    Clauses *clauses;
    List *equalities; // OpExprs that say that two expressions are equal
};

bool IsEquality(Node *clause) {
    OpExpr *op = reinterpret_cast<OpExpr *>(clause);
    return IsA(clause, OpExpr) && list_length(op->args) == 2 &&
           op_mergejoinable(op->opno, exprType(static_cast<Node *>(linitial(op->args))));
}

// One arm of an OR as `left = right` with nothing of the query's relations on the right.
OpExpr *ToArm(PlannerInfo *root, Node *node) {
    if (!IsEquality(node))
        return nullptr;
    OpExpr *arm = reinterpret_cast<OpExpr *>(node);
    if (bms_is_empty(pull_varnos(root, static_cast<Node *>(linitial(arm->args))))) {
        arm = static_cast<OpExpr *>(copyObjectImpl(arm));
        if (!OidIsValid(get_commutator(arm->opno)))
            return nullptr;
        CommuteOpExpr(arm);
    }
    Node *right = static_cast<Node *>(lsecond(arm->args));
    return bms_is_empty(pull_varnos(root, right)) && !contain_volatile_functions(right) ? arm
                                                                                        : nullptr;
}

// Null where the clause is no OR of equalities of one expression.
Expr *MergeOr(PlannerInfo *root, Node *clause) {
    if (compat::kMatchesOrClauses || !is_orclause(clause))
        return nullptr;
    OpExpr *first = nullptr;
    List *values = NIL;
    ListCell *cell;
    foreach (cell, reinterpret_cast<BoolExpr *>(clause)->args) {
        OpExpr *arm = ToArm(root, static_cast<Node *>(lfirst(cell)));
        if (!arm || (first && (arm->opno != first->opno || arm->inputcollid != first->inputcollid ||
                               !equal(linitial(arm->args), linitial(first->args)))))
            return nullptr;
        first = first ? first : arm;
        values = lappend(values, lsecond(arm->args));
    }
    Node *value = static_cast<Node *>(linitial(values));
    ArrayExpr *array = makeNode(ArrayExpr);
    array->element_typeid = exprType(value);
    array->array_typeid = get_array_type(array->element_typeid);
    array->array_collid = exprCollation(value);
    array->elements = values;
    array->location = -1;
    if (!OidIsValid(array->array_typeid))
        return nullptr;
    ScalarArrayOpExpr *any = makeNode(ScalarArrayOpExpr);
    any->opno = first->opno;
    set_sa_opfuncid(any);
    any->useOr = true;
    any->inputcollid = first->inputcollid;
    any->args = list_make2(linitial(first->args), array);
    any->location = -1;
    return reinterpret_cast<Expr *>(eval_const_expressions(root, reinterpret_cast<Node *>(any)));
}

void AddOwn(Collector *collector, Expr *clause, Index security_level) {
    Clauses *clauses = collector->clauses;
    clauses->own =
        lappend(clauses->own, compat::MakeRestrictInfo(collector->root, clause, security_level));
}

void Collect(Collector *collector, Node *quals, Index security_level) {
    ListCell *cell;
    foreach (cell, reinterpret_cast<List *>(quals)) {
        Node *clause = static_cast<Node *>(lfirst(cell));
        Relids relids = pull_varnos(collector->root, clause);
        if (IsEquality(clause))
            collector->equalities = lappend(collector->equalities, clause);
        if (!bms_is_member(collector->relid, relids))
            continue;
        pull_varattnos(clause, collector->relid, &collector->clauses->columns);
        bool is_own = bms_membership(relids) == BMS_SINGLETON;
        if (Expr *merged = is_own ? MergeOr(collector->root, clause) : nullptr) {
            MergedClause *note = palloc_object(MergedClause);
            *note = {cell, merged, reinterpret_cast<Expr *>(clause)};
            collector->clauses->merged = lappend(collector->clauses->merged, note);
            clause = reinterpret_cast<Node *>(merged);
        }
        if (is_own && !contain_volatile_functions(clause))
            AddOwn(collector, reinterpret_cast<Expr *>(clause), security_level);
    }
}

// Whether the relation is below a node of the join tree; collects the clauses that restrict it. On
// the nullable side of an outer join the clauses above restrict what the join yields, not it.
enum class Found { No, Yes, BelowOuterJoin };

Found Walk(Collector *collector, Node *node) {
    Index level = collector->root->qual_security_level;
    if (!node)
        return Found::No;
    if (IsA(node, RangeTblRef))
        return static_cast<Index>(reinterpret_cast<RangeTblRef *>(node)->rtindex) ==
                       collector->relid
                   ? Found::Yes
                   : Found::No;
    if (IsA(node, FromExpr)) {
        FromExpr *from = reinterpret_cast<FromExpr *>(node);
        Found found = Found::No;
        ListCell *cell;
        foreach (cell, from->fromlist)
            found = Max(found, Walk(collector, static_cast<Node *>(lfirst(cell))));
        if (found != Found::BelowOuterJoin)
            Collect(collector, from->quals, level);
        return found;
    }
    JoinExpr *join = castNode(JoinExpr, node);
    Found left = Walk(collector, join->larg);
    Found right = Walk(collector, join->rarg);
    Found found = Max(left, right);
    switch (join->jointype) {
    case JOIN_INNER:
    case JOIN_SEMI:
        if (found != Found::BelowOuterJoin)
            Collect(collector, join->quals, level);
        return found;
    case JOIN_LEFT:
    case JOIN_ANTI:
        if (right == Found::Yes)
            Collect(collector, join->quals, level);
        return right != Found::No ? Found::BelowOuterJoin : left;
    default:
        return found != Found::No ? Found::BelowOuterJoin : Found::No;
    }
}

Expr *Argument(OpExpr *clause, int number) {
    return static_cast<Expr *>(list_nth(clause->args, number));
}

bool IsConstant(PlannerInfo *root, Expr *expr) {
    Node *node = reinterpret_cast<Node *>(expr);
    return bms_is_empty(pull_varnos(root, node)) && !contain_volatile_functions(node);
}

// Follows a = b AND b = 1 to a = 1, as PostgreSQL's equivalence classes will.
void AddImplied(Collector *collector) {
    PlannerInfo *root = collector->root;
    constexpr int kMaxKnown = 32;
    KnownValue known[kMaxKnown];
    int count = 0;
    auto find = [&](Expr *expr) -> Expr * {
        for (int i = 0; i < count; i++)
            if (equal(known[i].expr, expr))
                return known[i].value;
        return nullptr;
    };
    auto learn = [&](Expr *expr, Expr *value) {
        if (count == kMaxKnown || IsConstant(root, expr) || find(expr))
            return false;
        known[count++] = {expr, value};
        return true;
    };
    ListCell *cell;
    foreach (cell, collector->equalities) {
        OpExpr *clause = lfirst_node(OpExpr, cell);
        for (int side = 0; side < 2; side++)
            if (IsConstant(root, Argument(clause, side)))
                learn(Argument(clause, 1 - side), Argument(clause, side));
    }
    for (bool more = count > 0; more;) {
        more = false;
        foreach (cell, collector->equalities) {
            OpExpr *clause = lfirst_node(OpExpr, cell);
            for (int side = 0; side < 2; side++) {
                Expr *expr = Argument(clause, 1 - side);
                Expr *value = find(Argument(clause, side));
                if (!value || !learn(expr, value))
                    continue;
                more = true;
                Node *node = reinterpret_cast<Node *>(expr);
                if (!bms_equal(pull_varnos(root, node), bms_make_singleton(collector->relid)))
                    continue;
                OpExpr *implied = static_cast<OpExpr *>(copyObjectImpl(clause));
                implied->args = side == 1 ? list_make2(expr, value) : list_make2(value, expr);
                AddOwn(collector, reinterpret_cast<Expr *>(implied), root->qual_security_level);
            }
        }
    }
}

} // namespace

Node *StripRelabels(Node *node) {
    while (node && IsA(node, RelabelType))
        node = reinterpret_cast<Node *>(reinterpret_cast<RelabelType *>(node)->arg);
    return node;
}

Clauses CollectClauses(PlannerInfo *root, Index relid) {
    Clauses clauses = {.relid = relid};
    Collector collector = {.root = root, .relid = relid, .clauses = &clauses};
    Walk(&collector, reinterpret_cast<Node *>(root->parse->jointree));
    Index level = 0;
    ListCell *cell;
    foreach (cell, root->simple_rte_array[relid]->securityQuals)
        Collect(&collector, static_cast<Node *>(lfirst(cell)), level++);
    AddImplied(&collector);
    foreach (cell, root->parse->sortClause) {
        TargetEntry *target =
            get_sortgroupclause_tle(lfirst_node(SortGroupClause, cell), root->processed_tlist);
        pull_varattnos(reinterpret_cast<Node *>(target->expr), relid, &clauses.columns);
    }
    return clauses;
}

void ApplyMergedClauses(const Clauses *clauses) {
    ListCell *cell;
    foreach (cell, clauses->merged) {
        MergedClause *note = static_cast<MergedClause *>(lfirst(cell));
        lfirst(note->cell) = note->merged;
    }
}

List *WithoutMerged(const List *merged, const List *clauses) {
    List *originals = NIL;
    ListCell *cell, *note;
    foreach (cell, clauses) {
        const Expr *clause = static_cast<Expr *>(lfirst(cell));
        foreach (note, merged)
            if (equal(static_cast<MergedClause *>(lfirst(note))->merged, clause))
                clause = static_cast<MergedClause *>(lfirst(note))->original;
        originals = lappend(originals, copyObjectImpl(clause));
    }
    return originals;
}

} // namespace index_table
