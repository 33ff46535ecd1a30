#include "scan/candidates.h"

#include "compat/compat.h"

namespace index_table {
namespace {

constexpr char kOwner = 0;

// The B-tree whose first columns are the key, in its order. Null where users have dropped it.
Relation OpenEntryIndex(Relation rel, const IndexTable *table, const AttrNumber *attnos) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        Form_pg_index form = index->rd_index;
        bool usable = form->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
                      form->indnkeyatts >= table->key.count && !form->indcheckxmin &&
                      heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr);
        for (int i = 0; usable && i < table->key.count; i++) {
            const KeyColumn &column = table->key.columns[i];
            int option = (column.descending ? INDOPTION_DESC : 0) |
                         (column.nulls_first ? INDOPTION_NULLS_FIRST : 0);
            usable = form->indkey.values[i] == attnos[i] && index->rd_indoption[i] == option &&
                     index->rd_opfamily[i] == get_opclass_family(column.opclass) &&
                     index->rd_indcollation[i] == column.collation;
        }
        if (usable)
            return index;
        index_close(index, AccessShareLock);
    }
    return nullptr;
}

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
    btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
    // Between the index table's order and the base table's rows there is none.
    *correlation = 0;
}

// Fills a candidate's IndexOptInfo from the B-tree.
void Describe(Candidate *candidate, RelOptInfo *rel, Relation index, const AttrNumber *attnos) {
    const IndexTable *table = candidate->table;
    IndexOptInfo *info = makeNode(IndexOptInfo);
    Form_pg_index form = index->rd_index;
    int capacity = table->column_count;
    candidate->info = info;
    info->indexoid = RelationGetRelid(index);
    info->reltablespace = index->rd_rel->reltablespace;
    info->rel = rel;
    info->indexkeys = static_cast<int *>(palloc(sizeof(int) * capacity));
    info->canreturn = static_cast<bool *>(palloc(sizeof(bool) * capacity));
    info->indexcollations = static_cast<Oid *>(palloc(sizeof(Oid) * capacity));
    info->opfamily = static_cast<Oid *>(palloc(sizeof(Oid) * capacity));
    info->opcintype = static_cast<Oid *>(palloc(sizeof(Oid) * capacity));
    info->reverse_sort = static_cast<bool *>(palloc(sizeof(bool) * capacity));
    info->nulls_first = static_cast<bool *>(palloc(sizeof(bool) * capacity));
    info->opclassoptions = static_cast<bytea **>(palloc0(sizeof(bytea *) * capacity));

    auto add = [&](int position, int index_column) {
        int column = info->ncolumns++;
        const Var *base_column = table->base_columns[position];
        info->indexkeys[column] = base_column ? base_column->varattno : 0;
        info->canreturn[column] = base_column != nullptr;
        Expr *expr;
        if (base_column) {
            Var *copy = palloc_object(Var);
            *copy = *base_column;
            copy->varno = rel->relid;
            expr = reinterpret_cast<Expr *>(copy);
        } else {
            expr = KeyExpression(table, position, rel->relid);
            info->indexprs = lappend(info->indexprs, expr);
        }
        info->indextlist =
            lappend(info->indextlist, makeTargetEntry(expr, info->ncolumns, nullptr, false));
        if (index_column < 0)
            return;
        info->nkeycolumns++;
        info->indexcollations[column] = index->rd_indcollation[index_column];
        info->opfamily[column] = index->rd_opfamily[index_column];
        info->opcintype[column] = index->rd_opcintype[index_column];
        info->reverse_sort[column] = (index->rd_indoption[index_column] & INDOPTION_DESC) != 0;
        info->nulls_first[column] =
            (index->rd_indoption[index_column] & INDOPTION_NULLS_FIRST) != 0;
    };
    Bitmapset *added = bms_make_singleton(table->partition_position());
    for (int i = 0; i < form->indnkeyatts; i++) {
        int position =
            std::find(attnos, attnos + table->column_count, form->indkey.values[i]) - attnos;
        // What follows partition_id is ordered within a partition only.
        if (position >= table->column_count || position == table->partition_position())
            break;
        add(position, i);
        added = bms_add_member(added, position);
    }
    for (int position = 0; position < table->column_count; position++)
        if (!bms_is_member(position, added))
            add(position, -1);

    info->sortopfamily = info->opfamily;
    info->relam = BTREE_AM_OID;
    info->tuples = Max(candidate->entries, 1);
    if (candidate->is_partitioned) {
        info->pages = Max(1, static_cast<BlockNumber>(candidate->entries / 100));
        info->tree_height = -1;
    } else {
        info->pages = RelationGetNumberOfBlocks(index);
        info->tree_height = _bt_getrootheight(index);
    }
    if (table->planned_predicate) {
        Node *predicate = static_cast<Node *>(copyObjectImpl(table->predicate));
        predicate = eval_const_expressions(nullptr, predicate);
        predicate =
            reinterpret_cast<Node *>(canonicalize_qual(reinterpret_cast<Expr *>(predicate), false));
        info->indpred = make_ands_implicit(reinterpret_cast<Expr *>(predicate));
        fix_opfuncids(reinterpret_cast<Node *>(info->indpred));
        ChangeVarNodes(reinterpret_cast<Node *>(info->indpred), 1, rel->relid, 0);
    }
    if (table->key.multi_valued >= 0) {
        candidate->predicate = info->indpred;
        info->indpred = list_make1(makeBoolConst(false, false));
    }
    // An older snapshot may see keys repeat that a unique index table built since forbids.
    info->unique = false;
    info->immediate = true;
    info->hypothetical = true; // the planner must not open it
    info->amoptionalkey = true;
    info->amsearcharray = true;
    info->amsearchnulls = true;
    info->amhasgettuple = true;
    info->amhasgetbitmap = false;
    compat::SetCostEstimator(info, CostEntries);
}

// Whether the key begins with something that the columns can restrict or order, or they may imply
// the predicate.
bool IsReferenced(const IndexTable *table, const Bitmapset *columns) {
    Bitmapset *first = ReferencedColumns(nullptr, table->key.columns[0]);
    if (first && bms_is_subset(first, columns))
        return true;
    Bitmapset *predicate = nullptr;
    pull_varattnos(reinterpret_cast<Node *>(table->predicate), 1, &predicate);
    return predicate && bms_is_subset(predicate, columns);
}

// Rows of the base table: those of an index table that holds every row once, else what PostgreSQL
// knows of the parent, else the most entries there are.
double EstimateRows(const CandidateSet *set) {
    double most = 0;
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        if (candidate.table->key.multi_valued < 0 && !candidate.table->predicate)
            return candidate.entries;
        most = Max(most, candidate.entries);
    }
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(set->base->relid));
    if (!HeapTupleIsValid(tuple))
        return most;
    float4 known = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reltuples;
    ReleaseSysCache(tuple);
    return known > 0 ? known : most;
}

// Entries of an index table, and how much of it is all-visible.
double EstimateEntries(Relation rel, double *visible) {
    BlockNumber pages;
    double entries = 0;
    *visible = 0;
    if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE) {
        estimate_rel_size(rel, nullptr, &pages, &entries, visible);
        return entries;
    }
    ListCell *cell;
    foreach (cell, find_inheritance_children(RelationGetRelid(rel), AccessShareLock)) {
        Relation child = table_open(lfirst_oid(cell), NoLock);
        double count;
        estimate_rel_size(child, nullptr, &pages, &count, visible);
        entries += count;
        table_close(child, NoLock);
    }
    return entries;
}

bool Offer(Candidate *candidate, RelOptInfo *rel, const IndexTable *table) {
    Relation entries = try_relation_open(table->relid, AccessShareLock);
    if (!entries)
        return false;
    const AttrNumber *attnos = StoredColumns(table, entries);
    Relation index = attnos ? OpenEntryIndex(entries, table, attnos) : nullptr;
    if (index) {
        double visible;
        candidate->table = table;
        candidate->is_partitioned = entries->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
        candidate->entries = EstimateEntries(entries, &visible);
        rel->allvisfrac = Max(rel->allvisfrac, visible);
        Describe(candidate, rel, index, attnos);
        index_close(index, NoLock);
    }
    relation_close(entries, NoLock);
    return index != nullptr;
}

} // namespace

CandidateSet *GetCandidates(const RelOptInfo *rel) {
    CandidateSet *set = static_cast<CandidateSet *>(rel->fdw_private);
    return rel->rtekind == RTE_RELATION && !rel->fdwroutine && set && set->owner == &kOwner
               ? set
               : nullptr;
}

const Candidate *FindCandidate(const RelOptInfo *rel, const IndexOptInfo *info) {
    if (CandidateSet *set = GetCandidates(rel))
        for (const Candidate &candidate : std::span(set->candidates, set->count))
            if (candidate.info->indexoid == info->indexoid)
                return &candidate;
    return nullptr;
}

Bitmapset *AllColumns(const RelOptInfo *rel) {
    return bms_add_range(nullptr, 1 - FirstLowInvalidHeapAttributeNumber,
                         rel->max_attr - FirstLowInvalidHeapAttributeNumber);
}

bool ServesScans(const IndexTable *table) {
    return table->identity_is_unique && !OidIsValid(table->log);
}

bool ServesScans(const Base *base) {
    return std::any_of(base->tables, base->tables + base->table_count,
                       [](const IndexTable *table) { return ServesScans(table); });
}

CandidateSet *OfferCandidates(PlannerInfo *root, RelOptInfo *rel, const Base *base,
                              const Bitmapset *columns) {
    CandidateSet *set = static_cast<CandidateSet *>(palloc0(sizeof(CandidateSet)));
    set->owner = &kOwner;
    set->base = base;
    set->candidates =
        static_cast<Candidate *>(palloc0(sizeof(Candidate) * Max(1, base->table_count)));
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (ServesScans(table) && IsReferenced(table, columns) &&
            Offer(&set->candidates[set->count], rel, table))
            set->count++;
    if (set->count == 0)
        return nullptr;
    rel->tuples = EstimateRows(set);
    rel->pages = static_cast<BlockNumber>(rel->tuples * (RowWidth(base) + 28) / BLCKSZ) + 1;
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        rel->indexlist = lappend(rel->indexlist, candidate.info);
    return set;
}

} // namespace index_table
