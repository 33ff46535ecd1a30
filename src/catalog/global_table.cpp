// Global indexes as the planner and the executor see them.
#include "catalog/definition.h"
#include "catalog/rows.h"
#include "core/public.h"

namespace index_table {
namespace {

// Whether an index is global, and no part of another one.
bool IsRoot(Oid index, Oid method) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return false;
    Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    bool is_root = form->relam == method && !form->relispartition;
    ReleaseSysCache(tuple);
    return is_root;
}

Expr *ColumnOf(Relation base, AttrNumber attno) {
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
    return reinterpret_cast<Expr *>(
        makeVar(1, attno, att->atttypid, att->atttypmod, att->attcollation, 0));
}

void AddKey(IndexTable *table, Relation base, Relation root, Relation tree) {
    List *exprs = static_cast<List *>(copyObjectImpl(RelationGetIndexExpressions(root)));
    ListCell *next = list_head(exprs);
    int count = tree->rd_index->indnkeyatts;
    table->key = {.count = count, .multi_valued = -1};
    table->key.columns = palloc0_array(KeyColumn, count);
    table->key_exprs = palloc0_array(Expr *, count);
    for (int i = 0; i < count; i++) {
        KeyColumn *column = &table->key.columns[i];
        column->attno = root->rd_index->indkey.values[i];
        if (column->attno == 0) {
            table->key_exprs[i] = static_cast<Expr *>(lfirst(next));
            next = lnext(exprs, next);
        }
        // An array is one value, as in any B-tree.
        column->shape = KeyShape::Single;
        column->whole = column->expr =
            column->attno ? ColumnOf(base, column->attno) : table->key_exprs[i];
        column->type = exprType(reinterpret_cast<Node *>(column->expr));
        column->typmod = exprTypmod(reinterpret_cast<Node *>(column->expr));
        column->name = TupleDescAttr(RelationGetDescr(root), i)->attname;
        column->collation = tree->rd_indcollation[i];
        column->opclass = compat::OperatorClassOf(tree, i);
        if (!tree->rd_indam->amcanorder)
            continue;
        column->descending = (tree->rd_indoption[i] & INDOPTION_DESC) != 0;
        column->nulls_first = (tree->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
    }
}

// Whether another index of the base table is of a method, and has one of the columns.
bool HasLocalIndex(Relation base, Relation root, Oid method) {
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(base)) {
        HeapTuple relation = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
        HeapTuple index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (HeapTupleIsValid(relation) && HeapTupleIsValid(index) &&
            reinterpret_cast<Form_pg_class>(GETSTRUCT(relation))->relam == method) {
            const int2vector &columns = reinterpret_cast<Form_pg_index>(GETSTRUCT(index))->indkey;
            const int2vector &own = root->rd_index->indkey;
            for (int i = 0; i < root->rd_index->indnkeyatts; i++)
                found = found || std::find(columns.values, columns.values + columns.dim1,
                                           own.values[i]) != columns.values + columns.dim1;
        }
        if (HeapTupleIsValid(relation))
            ReleaseSysCache(relation);
        if (HeapTupleIsValid(index))
            ReleaseSysCache(index);
    }
    return found;
}

// The columns after the key, which stand one further than in the tree: there is the place of
// partition_id.
void AddIncluded(IndexTable *table, Relation root) {
    int count = root->rd_index->indnatts - table->key.count;
    table->copied_count = table->include_count = count;
    table->include = table->copied = palloc0_array(CopiedColumn, Max(1, count));
    for (int i = 0; i < count; i++)
        table->copied[i] = {root->rd_index->indkey.values[table->key.count + i],
                            table->partition_position() + 1 + i};
}

} // namespace

// A partition's own are kept, and not read: rows are looked for from the topmost table.
List *ListGlobalRoots(Oid base) {
    Oid method = GlobalMethod();
    List *roots = NIL;
    if (!OidIsValid(method) || get_rel_relkind(base) != RELKIND_PARTITIONED_TABLE ||
        get_rel_relispartition(base))
        return NIL;
    SystemScan scan(IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, base);
    while (auto form = scan.Next<Form_pg_index>())
        if (IsRoot(form->indexrelid, method))
            roots = lappend_oid(roots, form->indexrelid);
    scan.End();
    return roots;
}

int CountLeaves(Oid parent, int limit, void (*visit)(Oid partitioned, Oid base), Oid base) {
    SystemScan scan(InheritsRelationId, InheritsParentIndexId, Anum_pg_inherits_inhparent, parent);
    int count = 0;
    List *partitioned = NIL;
    while (auto form = count < limit ? scan.Next<Form_pg_inherits>() : nullptr) {
        if (get_rel_relkind(form->inhrelid) == RELKIND_PARTITIONED_TABLE)
            partitioned = lappend_oid(partitioned, form->inhrelid);
        else
            count++;
    }
    scan.End();
    ListCell *cell;
    foreach (cell, partitioned) {
        visit(lfirst_oid(cell), base);
        if (count < limit)
            count += CountLeaves(lfirst_oid(cell), limit - count, visit, base);
    }
    return count;
}

// The tree has no partition_id.
AttrNumber TreeColumn(const IndexTable *table, int position) {
    Assert(table->is_global() && position != table->partition_position());
    return position < table->key.count ? position + 1 : position;
}

// Constants are folded when expressions are read: functions of the owner run, whoever asks.
IndexTable *MakeGlobalTable(Relation base, const GlobalIndex &index) {
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    Relation root = index_open(index.root, AccessShareLock);
    Relation tree = index_open(index.tree, AccessShareLock);
    IndexTable *table = NewIndexTable();
    table->relid = index.storage;
    table->base = RelationGetRelid(base);
    table->root = index.root;
    table->tree = index.tree;
    table->method = tree->rd_rel->relam;
    table->has_local = HasLocalIndex(base, root, table->method);
    table->state = TableState::Built;
    table->options.is_visible = GetGlobalOptions(root).visible;
    table->options.is_unique = tree->rd_index->indisunique;
    table->options.nulls_distinct = !tree->rd_index->indnullsnotdistinct;
    AddKey(table, base, root, tree);
    if (List *predicate = RelationGetIndexPredicate(root))
        table->predicate = table->planned_predicate =
            make_ands_explicit(static_cast<List *>(copyObjectImpl(predicate)));
    AddIncluded(table, root);
    table->column_count = root->rd_index->indnatts + 1;
    table->base_columns = MakeBaseColumns(base, table);
    AttrNumber *stored = palloc0_array(AttrNumber, table->column_count);
    for (int i = 0; i < table->column_count; i++)
        if (i != table->partition_position())
            stored[i] = tree->rd_index->indkey.values[TreeColumn(table, i) - 1];
    table->stored = stored;
    index_close(tree, AccessShareLock);
    index_close(root, AccessShareLock);
    LeaveOwner(owner);
    return table;
}

} // namespace index_table
