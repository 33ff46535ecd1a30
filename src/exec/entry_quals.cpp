#include "exec/entry_quals.h"

#include "core/public.h"
#include "exec/owner_indexes.h"

namespace index_table {
namespace {

template <typename T>
T *CopyShallow(const Node *node) {
    T *copy = palloc_object(T);
    *copy = *reinterpret_cast<const T *>(node);
    return copy;
}

// `qual` with what stands for the index's columns on its left; `columns` says which those are.
Node *WithLeft(Node *qual, List *columns, Node *const *standing) {
    auto column = [&](int number) { return standing[list_nth_int(columns, number) - 1]; };
    switch (nodeTag(qual)) {
    case T_OpExpr: {
        OpExpr *copy = CopyShallow<OpExpr>(qual);
        copy->args = list_make2(column(0), lsecond(copy->args));
        return reinterpret_cast<Node *>(copy);
    }
    case T_ScalarArrayOpExpr: {
        ScalarArrayOpExpr *copy = CopyShallow<ScalarArrayOpExpr>(qual);
        copy->args = list_make2(column(0), lsecond(copy->args));
        return reinterpret_cast<Node *>(copy);
    }
    case T_NullTest: {
        NullTest *copy = CopyShallow<NullTest>(qual);
        copy->arg = reinterpret_cast<Expr *>(column(0));
        return reinterpret_cast<Node *>(copy);
    }
    case T_RowCompareExpr: {
        RowCompareExpr *copy = CopyShallow<RowCompareExpr>(qual);
        List *left = NIL;
        for (int i = 0; i < list_length(copy->largs); i++)
            left = lappend(left, column(i));
        copy->largs = left;
        return reinterpret_cast<Node *>(copy);
    }
    default:
        elog(ERROR, "unexpected condition on an index table: %d", static_cast<int>(nodeTag(qual)));
    }
}

List *WithLefts(const List *quals, const List *all_columns, Node *const *standing) {
    List *result = NIL;
    ListCell *qual, *columns;
    forboth(qual, quals, columns, all_columns) result =
        lappend(result, WithLeft(static_cast<Node *>(lfirst(qual)),
                                 static_cast<List *>(lfirst(columns)), standing));
    return result;
}

// The columns of an index as expressions over its entries find them.
Node **ColumnsOf(Relation index) {
    TupleDesc descriptor = RelationGetDescr(index);
    Node **columns = palloc_array(Node *, descriptor->natts);
    for (int i = 0; i < descriptor->natts; i++) {
        Form_pg_attribute att = TupleDescAttr(descriptor, i);
        columns[i] = reinterpret_cast<Node *>(
            makeVar(INDEX_VAR, i + 1, att->atttypid, att->atttypmod, att->attcollation, 0));
    }
    return columns;
}

Node *OverPosition(const IndexTable *, int position, const Var *column) {
    Var *copy = palloc_object(Var);
    *copy = *column;
    copy->varattno = position + 1;
    return reinterpret_cast<Node *>(copy);
}

struct OverEntryContext {
    const IndexTable *table;
    int relid;
};

Node *OverEntryMutator(Node *node, OverEntryContext *context) {
    if (!node)
        return nullptr;
    const Var *column = reinterpret_cast<Var *>(node);
    if (!IsA(node, Var) || static_cast<int>(column->varno) != context->relid)
        return compat::MutateExpression(node, OverEntryMutator, context);
    for (int i = 0; i < context->table->column_count; i++)
        if (BaseColumn(context->table, i) == column->varattno)
            return reinterpret_cast<Node *>(
                makeVar(1, i + 1, column->vartype, column->vartypmod, column->varcollid, 0));
    elog(ERROR, "column %d is not in index table \"%s\"", column->varattno,
         get_rel_name(context->table->relid));
}

} // namespace

List *QualsOverIndex(const SourcePlan *plan, Relation index) {
    return WithLefts(plan->quals, plan->qual_columns, ColumnsOf(index));
}

List *DistancesOverIndex(const ScanPlan *plan, Relation index) {
    return WithLefts(plan->distances, plan->distance_columns, ColumnsOf(index));
}

List *QualsOverEntry(const SourcePlan *plan, const IndexTable *table, Relation index,
                     const AttrNumber *stored) {
    Form_pg_index form = index->rd_index;
    Node **columns = palloc0_array(Node *, form->indnkeyatts); // conditions are on no others
    List *exprs = RelationGetIndexExpressions(index);
    ListCell *next_expr = list_head(exprs);
    for (int i = 0; i < form->indnkeyatts; i++) {
        Node *column;
        if (form->indkey.values[i] != 0) {
            const AttrNumber *end = stored + table->column_count;
            const AttrNumber *found = std::find(stored, end, form->indkey.values[i]);
            if (found == end)
                continue; // not the entry's
            int position = found - stored;
            column = reinterpret_cast<Node *>(
                makeVar(1, position + 1, table->types[position], -1, index->rd_indcollation[i], 0));
        } else {
            column =
                ReplaceColumns(table, stored, static_cast<Node *>(lfirst(next_expr)), OverPosition);
            next_expr = lnext(exprs, next_expr);
        }
        columns[i] = column;
    }
    List *quals = WithLefts(plan->quals, plan->qual_columns, columns);
    if (List *predicate = RelationGetIndexPredicate(index))
        quals = list_concat(quals,
                            reinterpret_cast<List *>(ReplaceColumns(
                                table, stored, reinterpret_cast<Node *>(predicate), OverPosition)));
    return quals;
}

List *ClausesOverEntry(const List *clauses, const IndexTable *table, Index relid) {
    OverEntryContext context = {.table = table, .relid = static_cast<int>(relid)};
    return reinterpret_cast<List *>(
        OverEntryMutator(reinterpret_cast<Node *>(const_cast<List *>(clauses)), &context));
}

} // namespace index_table
