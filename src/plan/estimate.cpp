#include "plan/estimate.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/costs.h"
#include "plan/multi_valued.h"
#include "plan/or_clause.h"
#include "plan/planner.h"
#include "plan/row_identity.h"
#include "plan/scan.h"

namespace index_table {
namespace {

using namespace micros;

constexpr int kManyPartitions = 1000;
constexpr double kUnknownRows = 1000000;

struct Costs {
    double own;
    double native;
    double rows;
};

// What there is to compare.
struct Situation {
    PlannerInfo *root;
    RelOptInfo *rel;
    const CandidateSet *set;
    const Clauses *clauses;
    RowUse use;
    const Bitmapset *selected; // columns
    double partitions;         // that the query is not known to leave out
    double native_start;       // before the first row natively
};

void Consider(Costs *best, double own, double native, double rows) {
    if (own - native < best->own - best->native)
        *best = {own, native, rows};
}

// Whether a query reads nothing of the base table but what a candidate's entries hold.
bool HoldsAll(const Situation &situation, const Candidate *candidate) {
    if (situation.use != RowUse::Read ||
        (candidate->table->options.is_deferred && situation.set->has_foreign))
        return false;
    const Bitmapset *selected = situation.selected;
    for (int member = -1; (member = bms_next_member(selected, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        const IndexOptInfo *info = candidate->info;
        if (attno == 0 || std::find(info->indexkeys, info->indexkeys + info->ncolumns, attno) ==
                              info->indexkeys + info->ncolumns)
            return false;
    }
    return true;
}

// Whether a clause says that a column of the partition key, or an expression in it, equals
// something.
bool PinsColumn(RestrictInfo *restriction, const Node *column, Oid opfamily) {
    OpExpr *clause = reinterpret_cast<OpExpr *>(restriction->clause);
    if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
        return false;
    for (int side = 0; side < 2; side++)
        if (equal(StripRelabels(static_cast<Node *>(list_nth(clause->args, side))), column))
            return op_in_opfamily(clause->opno, opfamily) &&
                   op_mergejoinable(clause->opno, exprType(column));
    return false;
}

// Partitions that are left when the clauses on the partition key have been applied; one where they
// determine it, be it only when the query runs.
double CountUnpruned(PlannerInfo *root, RelOptInfo *rel, const CandidateSet *set,
                     const Clauses *clauses) {
    double total = CountPartitions(set->base, kManyPartitions);
    Relation base = table_open(set->base->relid, NoLock);
    PartitionKey key = RelationGetPartitionKey(base);
    AttrNumber first = key->partattrs[0];
    if (first != 0 &&
        !bms_is_member(first - FirstLowInvalidHeapAttributeNumber, clauses->columns)) {
        table_close(base, NoLock);
        return total;
    }
    bool first_is_restricted = false;
    bool is_pinned = true;
    ListCell *expr_cell = list_head(key->partexprs);
    for (int i = 0; i < key->partnatts; i++) {
        Node *column;
        if (key->partattrs[i] != 0) {
            column =
                reinterpret_cast<Node *>(makeVar(rel->relid, key->partattrs[i], key->parttypid[i],
                                                 key->parttypmod[i], key->parttypcoll[i], 0));
        } else {
            column = static_cast<Node *>(copyObjectImpl(lfirst(expr_cell)));
            ChangeVarNodes(column, 1, rel->relid, 0);
            expr_cell = lnext(key->partexprs, expr_cell);
        }
        Bitmapset *referenced = nullptr;
        pull_varattnos(column, rel->relid, &referenced);
        first_is_restricted =
            first_is_restricted || (i == 0 && bms_is_subset(referenced, clauses->columns));
        bool pins = false;
        ListCell *cell;
        foreach (cell, clauses->own)
            pins =
                pins || PinsColumn(lfirst_node(RestrictInfo, cell), column, key->partopfamily[i]);
        is_pinned = is_pinned && pins;
    }
    table_close(base, NoLock);
    if (is_pinned)
        return 1;
    if (!first_is_restricted)
        return total;
    // PostgreSQL's own pruning, on a copy that knows of the partitions.
    RelOptInfo native = *rel;
    native.fdw_private = nullptr;
    GetNativeInfo(root, set->base->relid, &native);
    native.baserestrictinfo = clauses->own;
    if (!native.part_scheme || native.nparts <= 0)
        return total;
    double live = bms_num_members(prune_append_rel_partitions(&native));
    return Max(total, native.nparts) * live / native.nparts;
}

// What reading entries and the rows of some of them costs, with `lookups` more keys to be found.
double CostOfRows(const Situation &situation, double entries, double rows, double lookups) {
    double cost = kScan + lookups * kLookup + entries * kEntry + rows * kFetch +
                  Min(rows, situation.partitions) * kOpenLeaf;
    // Those of one look-up are fetched together, several partitions at once.
    if (situation.set->has_foreign)
        cost += Max(lookups, 1) * kRoundTrip + rows * kShardRow +
                Min(rows, situation.partitions) * kRoundTrip;
    return cost;
}

// What PostgreSQL pays for lack of an index. Next to an index table's own B-tree it is taken to
// have one; owners' indexes are there for conditions that need a particular kind.
double CostOfFiltering(const Situation &situation, const Candidate *candidate) {
    if (!candidate->owner_index || candidate->owner_index->has_local)
        return 0;
    return situation.rel->tuples * kFiltered;
}

// What reading `entries` entries and the rows of `rows` of them costs; natively as many rows are
// fetched.
void ConsiderRows(const Situation &situation, const Candidate *candidate, double entries,
                  double rows, Costs *best) {
    double native = situation.native_start + CostOfFiltering(situation, candidate);
    if (situation.set->has_foreign)
        native += rows * kShardRow;
    if (HoldsAll(situation, candidate))
        Consider(best, kScan + entries * kEntry, native + rows * kEntry, rows);
    else
        Consider(best, CostOfRows(situation, entries, rows, 0), native + rows * kNativeFetch, rows);
}

void ConsiderEntries(const Situation &situation, const Candidate *candidate, double entries,
                     Costs *best) {
    ConsiderRows(situation, candidate, entries, entries, best);
}

// The planner matches the clauses with the candidates, as if it had come that far.
void ConsiderClauses(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    RelOptInfo *rel = situation.rel;
    const CandidateSet *set = situation.set;
    create_index_paths(root, rel);
    ListCell *cell;
    foreach (cell, rel->pathlist) {
        if (!IsA(lfirst(cell), IndexPath))
            continue;
        IndexPath *path = lfirst_node(IndexPath, cell);
        for (const Candidate &candidate : std::span(set->candidates, set->count)) {
            if (candidate.info != path->indexinfo)
                continue;
            if (path->indexclauses != NIL)
                ConsiderRows(situation, &candidate,
                             clamp_row_est(path->indexselectivity * candidate.info->tuples),
                             CountFetchedRows(root, &candidate, path), best);
            else if (candidate.info->indpred != NIL)
                ConsiderEntries(situation, &candidate, candidate.info->tuples, best);
        }
    }
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        foreach (cell, rel->baserestrictinfo)
            if (Expr *element = MatchElement(&candidate, rel->baserestrictinfo,
                                             lfirst_node(RestrictInfo, cell))) {
                double share = clause_selectivity(root, reinterpret_cast<Node *>(element), 0,
                                                  JOIN_INNER, nullptr);
                ConsiderEntries(situation, &candidate, clamp_row_est(share * candidate.entries),
                                best);
            }
}

const Candidate *FindInfo(const CandidateSet *set, const IndexOptInfo *info) {
    return std::find_if(set->candidates, set->candidates + set->count,
                        [&](const Candidate &candidate) { return candidate.info == info; });
}

// Conditions on different keys joined by OR.
void ConsiderOrs(const Situation &situation, Costs *best) {
    RelOptInfo *rel = situation.rel;
    ListCell *cell, *arm;
    foreach (cell, rel->baserestrictinfo) {
        List *arms = MatchOr(situation.root, rel, lfirst_node(RestrictInfo, cell));
        if (arms == NIL)
            continue;
        double entries = 0, rows = 0, filtering = 0;
        foreach (arm, arms) {
            IndexPath *path = lfirst_node(IndexPath, arm);
            const Candidate *candidate = FindInfo(situation.set, path->indexinfo);
            entries += clamp_row_est(path->indexselectivity * path->indexinfo->tuples);
            rows += CountFetchedRows(situation.root, candidate, path);
            filtering = Max(filtering, CostOfFiltering(situation, candidate));
        }
        Consider(best, CostOfRows(situation, entries, rows, 0),
                 situation.native_start + filtering + rows * kNativeFetch, rows);
    }
}

bool IsEqualityOn(const Candidate *candidate, int column, RestrictInfo *restriction) {
    OpExpr *clause = reinterpret_cast<OpExpr *>(restriction->clause);
    if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
        return false;
    const IndexOptInfo *info = candidate->info;
    TargetEntry *target = static_cast<TargetEntry *>(list_nth(info->indextlist, column));
    for (int side = 0; side < 2; side++) {
        Node *own = static_cast<Node *>(list_nth(clause->args, side));
        Node *value = static_cast<Node *>(list_nth(clause->args, 1 - side));
        Oid collation = info->indexcollations[column];
        if (equal(StripRelabels(own), target->expr))
            return get_op_opfamily_strategy(clause->opno, info->opfamily[column]) ==
                       BTEqualStrategyNumber &&
                   (!OidIsValid(collation) || collation == clause->inputcollid) &&
                   !contain_var_clause(value);
    }
    return false;
}

// ORDER BY key LIMIT n: entries are read until n rows have passed the filter.
void ConsiderOrder(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    RelOptInfo *rel = situation.rel;
    const CandidateSet *set = situation.set;
    Query *query = root->parse;
    if (query->sortClause == NIL || root->limit_tuples <= 0 || query->groupClause != NIL ||
        query->groupingSets != NIL || query->hasAggs || query->distinctClause != NIL ||
        query->hasWindowFuncs || query->setOperations || query->hasTargetSRFs ||
        bms_membership(pull_varnos(root, reinterpret_cast<Node *>(query->jointree))) ==
            BMS_MULTIPLE ||
        list_length(query->jointree->fromlist) != 1)
        return;
    SortGroupClause *sort = linitial_node(SortGroupClause, query->sortClause);
    TargetEntry *target = get_sortgroupclause_tle(sort, root->processed_tlist);
    Node *wanted = StripRelabels(reinterpret_cast<Node *>(target->expr));
    Oid opfamily;
    bool descending;
    if (!compat::GetOrdering(sort->sortop, &opfamily, &descending))
        return;
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        const IndexOptInfo *info = candidate.info;
        if (candidate.is_partitioned || candidate.table->key.multi_valued >= 0 ||
            !info->sortopfamily || (info->indpred != NIL && !info->predOK))
            continue;
        int column = 0;
        double bound = candidate.entries;
        ListCell *cell;
        auto is_bound = [&] {
            foreach (cell, rel->baserestrictinfo)
                if (IsEqualityOn(&candidate, column, lfirst_node(RestrictInfo, cell))) {
                    bound *= clause_selectivity(root, reinterpret_cast<Node *>(lfirst(cell)), 0,
                                                JOIN_INNER, nullptr);
                    return true;
                }
            return false;
        };
        while (column < info->nkeycolumns && is_bound())
            column++;
        if (column >= info->nkeycolumns)
            continue;
        TargetEntry *first = static_cast<TargetEntry *>(list_nth(info->indextlist, column));
        bool backward = descending != info->reverse_sort[column];
        if (!equal(wanted, first->expr) || opfamily != info->opfamily[column] ||
            exprCollation(reinterpret_cast<Node *>(target->expr)) !=
                info->indexcollations[column] ||
            sort->nulls_first != (info->nulls_first[column] != backward))
            continue;
        // Ranges on the key itself only say where to begin; what else there is must be met by
        // chance. An estimate on the safe side: everything filters.
        double filter = Min(1, Max(rel->rows / Max(bound, 1), 1e-9));
        bool is_range = false;
        foreach (cell, rel->baserestrictinfo) {
            Bitmapset *own = nullptr;
            pull_varattnos(reinterpret_cast<Node *>(lfirst_node(RestrictInfo, cell)->clause),
                           rel->relid, &own);
            Bitmapset *key = nullptr;
            pull_varattnos(reinterpret_cast<Node *>(first->expr), rel->relid, &key);
            is_range = is_range || bms_equal(own, key);
        }
        if (is_range && list_length(rel->baserestrictinfo) <= column + 2)
            filter = 1;
        double entries = Min(root->limit_tuples / filter, bound);
        ConsiderEntries(situation, &candidate, clamp_row_est(entries), best);
    }
}

// Rows that another relation of the query brings to a join.
constinit PlannerInfo *estimating = nullptr;

double EstimateOtherRelation(PlannerInfo *root, Index relid) {
    RangeTblEntry *rte = root->simple_rte_array[relid];
    switch (rte->rtekind) {
    case RTE_RELATION:
        break;
    case RTE_VALUES:
        return list_length(rte->values_lists);
    case RTE_FUNCTION: {
        double rows = 1;
        ListCell *cell;
        foreach (cell, rte->functions)
            rows = Max(rows, expression_returns_set_rows(
                                 root, lfirst_node(RangeTblFunction, cell)->funcexpr));
        return rows;
    }
    case RTE_RESULT:
        return 1;
    default:
        return kUnknownRows;
    }
    if (rte->relkind == RELKIND_FOREIGN_TABLE)
        return kUnknownRows;
    RelOptInfo *known = root->simple_rel_array[relid];
    RelOptInfo *rel = known;
    bool inh = rte->inh;
    char relkind = rte->relkind;
    if (!known) {
        // For the time being: the planner makes its own later.
        List *foreign_keys = list_copy(root->fkey_list);
        rel = build_simple_rel(root, relid, nullptr);
        root->fkey_list = foreign_keys;
    }
    double rows = kUnknownRows;
    if (const CandidateSet *set = GetCandidates(rel)) {
        rows = set->expected_rows;
    } else if (!rte->inh) {
        rows = rel->tuples *
               clauselist_selectivity(root, CollectOwnClauses(root, relid), 0, JOIN_INNER, nullptr);
    }
    if (!known) {
        root->simple_rel_array[relid] = nullptr;
        rte->inh = inh;
        rte->relkind = relkind;
    }
    return clamp_row_est(rows);
}

// key = column of another relation: a look-up for each of its rows.
void ConsiderEachJoin(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    const CandidateSet *set = situation.set;
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        if (candidate.table->key.multi_valued >= 0 ||
            (candidate.info->indpred != NIL && !candidate.info->predOK))
            continue;
        TargetEntry *first = linitial_node(TargetEntry, candidate.info->indextlist);
        ListCell *cell;
        foreach (cell, situation.clauses->joins) {
            JoinClause *join = static_cast<JoinClause *>(lfirst(cell));
            if (!equal(StripRelabels(reinterpret_cast<Node *>(join->own)), first->expr) ||
                !op_in_opfamily(join->clause->opno, candidate.info->opfamily[0]))
                continue;
            double lookups = 1;
            Relids others = pull_varnos(root, reinterpret_cast<Node *>(join->other));
            for (int other = -1; (other = bms_next_member(others, other)) >= 0;)
                lookups = Max(lookups, EstimateOtherRelation(root, other));
            VariableStatData statistics;
            bool is_default;
            examine_variable(root, reinterpret_cast<Node *>(join->own), 0, &statistics);
            double keys = get_variable_numdistinct(&statistics, &is_default);
            ReleaseVariableStats(statistics);
            double rows = lookups * candidate.entries / Max(keys, 1);
            double native =
                situation.native_start + rows * kNativeFetch +
                Min(lookups * situation.partitions * kProbe, situation.rel->tuples * kHashed);
            if (set->has_foreign)
                native += Min(lookups * situation.partitions * kRoundTrip,
                              situation.rel->tuples * kShardRow);
            Consider(best, CostOfRows(situation, rows, rows, lookups), native, rows);
        }
    }
}

// Estimating another relation may come back to this query.
void ConsiderJoins(const Situation &situation, Costs *best) {
    if (situation.clauses->joins == NIL || estimating == situation.root)
        return;
    PlannerInfo *outer = estimating;
    PG_TRY();
    {
        estimating = situation.root;
        ConsiderEachJoin(situation, best);
    }
    PG_FINALLY();
    { estimating = outer; }
    PG_END_TRY();
}

bool IsParameter(Node *node, void *context) {
    if (!node)
        return false;
    if (IsA(node, Param) && reinterpret_cast<Param *>(node)->paramkind == PARAM_EXTERN)
        return true;
    return compat::WalkExpression(node, IsParameter, context);
}

bool HasParameters(const Clauses *clauses) {
    ListCell *cell;
    foreach (cell, clauses->own)
        if (IsParameter(reinterpret_cast<Node *>(lfirst_node(RestrictInfo, cell)->clause), nullptr))
            return true;
    return false;
}

// Whether the clauses determine the whole key of a unique index table: then one entry is read,
// and nothing needs to be estimated.
bool FindsOneEntry(const CandidateSet *set, const Clauses *clauses) {
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        const IndexTable *table = candidate.table;
        bool is_bound = !candidate.owner_index && table->options.is_unique && !table->predicate &&
                        table->key.multi_valued < 0;
        for (int i = 0; is_bound && i < table->key.count; i++) {
            is_bound = false;
            ListCell *cell;
            foreach (cell, clauses->own)
                is_bound = is_bound || IsEqualityOn(&candidate, i, lfirst_node(RestrictInfo, cell));
        }
        if (is_bound)
            return true;
    }
    return false;
}

} // namespace

double CountFetchedRows(PlannerInfo *root, const Candidate *candidate, const IndexPath *path) {
    double share = path->indexselectivity;
    if (candidate->owner_index && candidate->owner_index->by_bitmap && path->indexclauses != NIL) {
        List *clauses = NIL;
        ListCell *cell;
        foreach (cell, path->indexclauses)
            clauses = lappend(clauses, lfirst_node(IndexClause, cell)->rinfo);
        share = Min(share, clauselist_selectivity(root, clauses, path->indexinfo->rel->relid,
                                                  JOIN_INNER, nullptr));
    }
    return clamp_row_est(share * candidate->info->tuples);
}

bool IsWorthwhile(PlannerInfo *root, RelOptInfo *rel, CandidateSet *set, const Clauses *clauses) {
    Assert(set->count > 0);
    const Bitmapset *selected = compat::SelectedColumns(root, root->simple_rte_array[rel->relid]);
    double partitions = CountUnpruned(root, rel, set, clauses);
    // Under row security the planner must not use an operator that leaks; what it may use it knows.
    if (partitions > 1 && root->qual_security_level == 0 && FindsOneEntry(set, clauses)) {
        set->partitions = partitions;
        set->expected_rows = 1;
        return true;
    }

    double total_pages = root->total_table_pages;
    root->total_table_pages = Max(total_pages, rel->pages);
    root->simple_rel_array[rel->relid] = rel;
    rel->baserestrictinfo = clauses->own;
    rel->baserestrict_min_security = clauses->min_security;
    check_index_predicates(root, rel);
    set_baserel_size_estimates(root, rel);
    constexpr double kHopeless = 1e300;
    Costs best = {.own = kHopeless, .native = 0, .rows = 0};
    // A plan for parameters yet unknown is made once and run often.
    bool is_generic = root->glob->boundParams == nullptr && HasParameters(clauses);
    RowUse use = GetRowUse(root, rel->relid);
    double plan_partition = use == RowUse::Change ? kPlanTarget : kPlanPartition;
    double partition = use == RowUse::Change ? kTarget : kPartition;
    if (set->has_foreign)
        partition += 2 * kRoundTrip; // a cursor, and what it brings
    Situation situation = {
        root,       rel,
        set,        clauses,
        use,        selected,
        partitions, partitions * (is_generic ? partition : plan_partition + partition)};
    ConsiderClauses(situation, &best);
    ConsiderOrs(situation, &best);
    ConsiderOrder(situation, &best);
    ConsiderJoins(situation, &best);
    set->partitions = partitions;
    set->expected_rows = Min(best.rows, rel->rows);

    // As the planner left it.
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        candidate.info->predOK = false;
    root->total_table_pages = total_pages;
    root->simple_rel_array[rel->relid] = nullptr;
    rel->baserestrictinfo = NIL;
    rel->baserestrict_min_security = UINT_MAX;
    rel->baserestrictcost = {};
    rel->pathlist = NIL;
    rel->ppilist = NIL;
    rel->rows = 0;
    rel->reltarget->width = 0;

    if (GetScanPolicy() == ScanPolicy::Force)
        return best.own < kHopeless;
    // Nothing beats asking the one partition that can have the rows.
    return partitions > 1 && best.own < best.native;
}

} // namespace index_table
