#include "plan/index_info.h"

#include "core/public.h"
#include "exec/public.h"

namespace index_table {
namespace {

// A key column's expression over the relation `relid` of a query. For a column of many values, what
// yields them: it equals nothing that a query can hold.
Expr *KeyExpression(const IndexTable *table, int position, Index relid) {
    const KeyColumn &column = table->key.columns[position];
    Node *expr = static_cast<Node *>(copyObjectImpl(
        column.shape == KeyShape::Single ? table->key_exprs[position] : column.whole));
    if (column.shape != KeyShape::Single && column.whole == column.expr &&
        column.shape == KeyShape::ArrayElements) {
        FuncExpr *elements =
            makeFuncExpr(F_UNNEST_ANYARRAY, column.type, list_make1(expr), column.collation,
                         exprCollation(expr), COERCE_EXPLICIT_CALL);
        elements->funcretset = true;
        expr = reinterpret_cast<Node *>(elements);
    }
    ChangeVarNodes(expr, 1, relid, 0);
    return reinterpret_cast<Expr *>(expr);
}

void CostEntries(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
                 Selectivity *selectivity, double *correlation, double *pages) {
    Oid method = path->indexinfo->relam;
    auto estimate = method == BTREE_AM_OID ? btcostestimate : compat::CostEstimatorOf(method);
    estimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
    // Between the index table's order and the base table's rows there is none.
    *correlation = 0;
}

IndexOptInfo *MakeInfo(RelOptInfo *rel, Relation index, int capacity) {
    IndexOptInfo *info = makeNode(IndexOptInfo);
    info->indexoid = RelationGetRelid(index);
    info->reltablespace = index->rd_rel->reltablespace;
    info->rel = rel;
    info->indexkeys = palloc0_array(int, capacity);
    info->canreturn = palloc0_array(bool, capacity);
    info->indexcollations = palloc0_array(Oid, capacity);
    info->opfamily = palloc0_array(Oid, capacity);
    info->opcintype = palloc0_array(Oid, capacity);
    info->opclassoptions = palloc0_array(bytea *, capacity);
    info->relam = index->rd_rel->relam;
    info->tree_height = -1;
    // An older snapshot may see keys repeat that a unique index table built since forbids.
    info->unique = false;
    info->immediate = true;
    info->hypothetical = true; // the planner must not open it
    // Every index is shown as one that returns entries one by one: how the scan gets them from the
    // access method is its own affair.
    info->amhasgettuple = true;
    info->amhasgetbitmap = false;
    info->amsearcharray = true;
    compat::SetCostEstimator(info, CostEntries);
    return info;
}

// Of a B-tree. Where nothing shall rely on its order, cost estimates look at it still.
void DescribeOrder(IndexOptInfo *info, int capacity, bool is_ordered) {
    if (is_ordered)
        info->sortopfamily = info->opfamily;
    info->reverse_sort = palloc0_array(bool, capacity);
    info->nulls_first = palloc0_array(bool, capacity);
}

// Appends a column that holds an expression over `rel`; one of the base table's where `attno` is
// not 0.
void AddColumn(IndexOptInfo *info, Expr *expr, AttrNumber attno) {
    int column = info->ncolumns++;
    info->indexkeys[column] = attno;
    info->canreturn[column] = attno != 0;
    if (attno == 0)
        info->indexprs = lappend(info->indexprs, expr);
    info->indextlist =
        lappend(info->indextlist, makeTargetEntry(expr, info->ncolumns, nullptr, false));
}

void AddBaseColumn(IndexOptInfo *info, const Var *base_column) {
    Var *copy = palloc_object(Var);
    *copy = *base_column;
    copy->varno = info->rel->relid;
    AddColumn(info, reinterpret_cast<Expr *>(copy), copy->varattno);
}

// How the planner finds and orders by the column added last, the index's `index_column`.
void MakeKeyColumn(IndexOptInfo *info, Relation index, int index_column) {
    int column = info->nkeycolumns++;
    info->indexcollations[column] = index->rd_indcollation[index_column];
    info->opfamily[column] = index->rd_opfamily[index_column];
    info->opcintype[column] = index->rd_opcintype[index_column];
    if (!info->reverse_sort)
        return;
    info->reverse_sort[column] = (index->rd_indoption[index_column] & INDOPTION_DESC) != 0;
    info->nulls_first[column] = (index->rd_indoption[index_column] & INDOPTION_NULLS_FIRST) != 0;
}

// What the index table's predicate says of the rows that have entries.
List *TablePredicate(const IndexTable *table, Index relid) {
    if (!table->planned_predicate)
        return NIL;
    Node *predicate = static_cast<Node *>(copyObjectImpl(table->predicate));
    predicate = eval_const_expressions(nullptr, predicate);
    predicate =
        reinterpret_cast<Node *>(canonicalize_qual(reinterpret_cast<Expr *>(predicate), false));
    List *clauses = make_ands_implicit(reinterpret_cast<Expr *>(predicate));
    fix_opfuncids(reinterpret_cast<Node *>(clauses));
    ChangeVarNodes(reinterpret_cast<Node *>(clauses), 1, relid, 0);
    return clauses;
}

// Whether a column of a tree holds values of a column of the base table as they are, which operator
// classes for the type name do not.
bool HoldsValues(Relation tree, int column, const TargetEntry *target) {
    return TupleDescAttr(RelationGetDescr(tree), column)->atttypid ==
           exprType(reinterpret_cast<Node *>(target->expr));
}

// What holds of a global index and not of index tables. Its first columns are the tree's.
void DescribeTree(IndexOptInfo *info, const IndexTable *table, Relation tree) {
    const IndexAmRoutine *method = tree->rd_indam;
    info->amcanorderbyop = method->amcanorderbyop && method->amgettuple;
    info->amoptionalkey = method->amoptionalkey;
    info->amsearchnulls = method->amsearchnulls;
    ListCell *cell;
    foreach (cell, info->indextlist) {
        int column = foreach_current_index(cell);
        info->canreturn[column] = info->canreturn[column] && method->amgettuple &&
                                  index_can_return(tree, column + 1) &&
                                  HoldsValues(tree, column, lfirst_node(TargetEntry, cell));
    }
    if (bytea **options = RelationGetIndexAttOptions(tree, true))
        memcpy(info->opclassoptions, options,
               sizeof(bytea *) * RelationGetNumberOfAttributes(tree));
    // No snapshot is older than it.
    info->unique =
        table->options.is_unique &&
        TransactionIdPrecedes(HeapTupleHeaderGetXmin(tree->rd_indextuple->t_data), TransactionXmin);
}

// Pages and tuples of an index, and of its parts where it is partitioned.
void EstimateSize(IndexOptInfo *info, Relation entries, Relation index) {
    double unknown;
    if (entries->rd_rel->relkind != RELKIND_PARTITIONED_TABLE) {
        estimate_rel_size(index, nullptr, &info->pages, &info->tuples, &unknown);
        return;
    }
    ListCell *cell;
    foreach (cell, find_inheritance_children(RelationGetRelid(entries), AccessShareLock)) {
        Relation child = table_open(lfirst_oid(cell), NoLock);
        Relation part =
            index_open(index_get_partition(child, RelationGetRelid(index)), AccessShareLock);
        BlockNumber pages;
        double tuples;
        estimate_rel_size(part, nullptr, &pages, &tuples, &unknown);
        info->pages += pages;
        info->tuples += tuples;
        index_close(part, NoLock);
        table_close(child, NoLock);
    }
}

} // namespace

void DescribeEntryIndex(Candidate *candidate, RelOptInfo *rel, Relation index,
                        const AttrNumber *stored) {
    const IndexTable *table = candidate->table;
    int capacity = table->column_count;
    IndexOptInfo *info = candidate->info = MakeInfo(rel, index, capacity);
    bool is_btree = info->relam == BTREE_AM_OID;
    if (is_btree)
        DescribeOrder(info, capacity, true);
    auto add = [&](int position) {
        if (table->base_columns[position])
            AddBaseColumn(info, table->base_columns[position]);
        else
            AddColumn(info, KeyExpression(table, position, rel->relid), 0);
    };
    Bitmapset *added = bms_make_singleton(table->partition_position());
    for (int i = 0; i < index->rd_index->indnkeyatts; i++) {
        int position =
            std::find(stored, stored + capacity, index->rd_index->indkey.values[i]) - stored;
        // What follows partition_id is ordered within a partition only.
        if (position >= capacity || position == table->partition_position())
            break;
        add(position);
        MakeKeyColumn(info, index, i);
        added = bms_add_member(added, position);
    }
    for (int position = 0; position < capacity; position++)
        if (!bms_is_member(position, added))
            add(position);

    info->tuples = Max(candidate->entries, 1);
    if (candidate->is_partitioned) {
        info->pages = Max(1, static_cast<BlockNumber>(candidate->entries / 100));
    } else {
        info->pages = RelationGetNumberOfBlocks(index);
        if (is_btree)
            info->tree_height = _bt_getrootheight(index);
    }
    info->indpred = TablePredicate(table, rel->relid);
    info->amoptionalkey = true;
    info->amsearchnulls = true;
    if (table->is_global())
        DescribeTree(info, table, index);
    if (table->key.multi_valued >= 0) {
        candidate->predicate = info->indpred;
        info->indpred = list_make1(makeBoolConst(false, false));
    }
}

void DescribeOwnerIndex(Candidate *candidate, RelOptInfo *rel, Relation entries, Relation index) {
    const IndexTable *table = candidate->table;
    const OwnerIndex *owner_index = candidate->owner_index;
    int capacity = owner_index->key_count + table->column_count;
    IndexOptInfo *info = candidate->info = MakeInfo(rel, index, capacity);
    if (info->relam == BTREE_AM_OID)
        DescribeOrder(info, capacity, owner_index->is_ordered);
    for (int i = 0; i < owner_index->key_count; i++) {
        Node *expr = static_cast<Node *>(copyObjectImpl(owner_index->keys[i]));
        ChangeVarNodes(expr, 1, rel->relid, 0);
        AddColumn(info, reinterpret_cast<Expr *>(expr),
                  IsA(expr, Var) ? reinterpret_cast<Var *>(expr)->varattno : 0);
        MakeKeyColumn(info, index, i);
    }
    // An entry holds more than the index does.
    for (int position = 0; position < table->column_count; position++)
        if (table->base_columns[position])
            AddBaseColumn(info, table->base_columns[position]);

    if (owner_index->predicate == NIL && !candidate->is_partitioned) {
        info->pages = RelationGetNumberOfBlocks(index);
        info->tuples = candidate->entries;
    } else {
        EstimateSize(info, entries, index);
    }
    info->tuples = Max(1, Min(info->tuples, candidate->entries));
    if (info->relam == BTREE_AM_OID && !candidate->is_partitioned)
        info->tree_height = _bt_getrootheight(index);
    List *own = static_cast<List *>(copyObjectImpl(owner_index->predicate));
    ChangeVarNodes(reinterpret_cast<Node *>(own), 1, rel->relid, 0);
    info->indpred = list_concat(TablePredicate(table, rel->relid), own);
    info->amcanorderbyop = owner_index->by_distance;
    info->amoptionalkey = index->rd_indam->amoptionalkey;
    info->amsearchnulls = index->rd_indam->amsearchnulls;
}

} // namespace index_table
