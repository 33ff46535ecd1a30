#include "plan/estimate.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/costs.h"
#include "plan/multi_valued.h"
#include "plan/or_clause.h"
#include "plan/planner.h"
#include "plan/queue_cost.h"
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
    if (situation.use != RowUse::Read || LagsBehind(candidate->table))
        return false;
    const Bitmapset *selected = situation.selected;
    for (int member = -1; (member = bms_next_member(selected, member)) >= 0;) {
        int attno = member + FirstLowInvalidHeapAttributeNumber;
        const IndexOptInfo *info = candidate->info;
        const int *keys = info->indexkeys;
        const int *end = keys + info->ncolumns;
        const int *found = std::find(keys, end, attno);
        if (attno == 0 || found == end || !info->canreturn[found - keys])
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

// A row that comes from a shard is looked up there, as it is natively.
double CostOfFetch(const Situation &situation, const Candidate *candidate) {
    if (situation.set->has_foreign)
        return kNativeFetch;
    return candidate->table->is_global() ? kFetchAddress : kFetch;
}

// What reading entries and the rows of some of them costs, with `lookups` more keys to be found and
// `fetching` to fetch the rows.
double CostOfRows(const Situation &situation, double entries, double rows, double lookups,
                  double fetching) {
    double cost = kScan + lookups * kLookup + entries * kEntry + fetching +
                  Min(rows, situation.partitions) * kOpenLeaf;
    // Those of many look-ups are fetched together, several partitions at once.
    if (situation.set->has_foreign)
        cost += std::ceil(Max(lookups, 1) / kRowsAtOnce) * kRoundTrip *
                    (1 + Min(rows, situation.partitions)) +
                rows * kShardRow;
    return cost;
}

// What entries on servers cost beyond that. Those of many look-ups are asked for together.
double CostOfServers(const Candidate *candidate, double entries, double lookups) {
    if (!candidate->table->on_servers)
        return 0;
    return std::ceil(Max(lookups, 1) / kRowsAtOnce) * kRoundTrip + entries * kShardRow;
}

// What PostgreSQL pays for lack of an index. Next to an index table's own B-tree it is taken to
// have one; owners' indexes, and global ones of other methods, are there for conditions that need a
// particular kind.
double CostOfFiltering(const Situation &situation, const Candidate *candidate) {
    const OwnerIndex *owner_index = candidate->owner_index;
    bool has_local = owner_index ? owner_index->has_local
                                 : !candidate->table->is_special() || candidate->table->has_local;
    if (has_local)
        return 0;
    return situation.rel->tuples * kFiltered;
}

// What fetching rows costs natively, where it has to scan for them (CostOfFiltering) nothing more.
double CostOfNativeRows(const Situation &situation, const Candidate *candidate, double rows) {
    bool scans = candidate->table->is_special() && CostOfFiltering(situation, candidate) > 0;
    return scans ? 0 : rows * kNativeFetch;
}

// Keys that a path looks up, as far as its conditions tell.
double CountKeys(const IndexPath *path) {
    double keys = 1;
    ListCell *cell;
    foreach (cell, path->indexclauses) {
        const RestrictInfo *condition =
            linitial_node(RestrictInfo, lfirst_node(IndexClause, cell)->indexquals);
        const ScalarArrayOpExpr *clause =
            reinterpret_cast<const ScalarArrayOpExpr *>(condition->clause);
        const Const *array =
            IsA(clause, ScalarArrayOpExpr) ? static_cast<Const *>(lsecond(clause->args)) : nullptr;
        if (!array || !IsA(array, Const) || array->constisnull)
            continue;
        const ArrayType *value = DatumGetArrayTypeP(array->constvalue);
        keys *= Max(1, ArrayGetNItems(ARR_NDIM(value), ARR_DIMS(value)));
    }
    return keys;
}

// What reading `entries` entries and the rows of `rows` of them costs; natively as many rows are
// fetched, and each shard is sent all of the keys.
void ConsiderRows(const Situation &situation, const Candidate *candidate, double entries,
                  double rows, bool looks_keys_up, double keys, Costs *best) {
    double queue = CostOfQueue(candidate, looks_keys_up) + CostOfServers(candidate, entries, 0);
    double native = situation.native_start + CostOfFiltering(situation, candidate);
    if (situation.set->has_foreign)
        native += rows * kShardRow + (keys - 1) * situation.partitions * kProbe;
    if (HoldsAll(situation, candidate))
        Consider(best, kScan + entries * kEntry + queue, native + rows * kEntry, rows);
    else
        Consider(best,
                 CostOfRows(situation, entries, rows, 0, rows * CostOfFetch(situation, candidate)) +
                     queue,
                 native + CostOfNativeRows(situation, candidate, rows), rows);
}

void ConsiderEntries(const Situation &situation, const Candidate *candidate, double entries,
                     bool looks_keys_up, Costs *best) {
    ConsiderRows(situation, candidate, entries, entries, looks_keys_up, 1, best);
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
            if (candidate.info != path->indexinfo || candidate.by_distance_only ||
                !CanAskServers(&candidate, path))
                continue;
            if (path->indexclauses != NIL)
                ConsiderRows(situation, &candidate,
                             clamp_row_est(path->indexselectivity * candidate.info->tuples),
                             CountFetchedRows(root, &candidate, path), LooksKeysUp(path),
                             CountKeys(path), best);
            else if (candidate.info->indpred != NIL)
                ConsiderEntries(situation, &candidate, candidate.info->tuples, false, best);
        }
    }
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        foreach (cell, rel->baserestrictinfo)
            if (Expr *element = MatchElement(&candidate, rel->baserestrictinfo,
                                             lfirst_node(RestrictInfo, cell))) {
                double share = clause_selectivity(root, reinterpret_cast<Node *>(element), 0,
                                                  JOIN_INNER, nullptr);
                ConsiderEntries(situation, &candidate, clamp_row_est(share * candidate.entries),
                                candidate.table->key.multi_valued == 0, best);
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
        double entries = 0, rows = 0, fetching = 0, filtering = 0, queues = 0, native = 0;
        bool can_ask = true;
        foreach (arm, arms) {
            IndexPath *path = lfirst_node(IndexPath, arm);
            const Candidate *candidate = FindInfo(situation.set, path->indexinfo);
            can_ask = can_ask && CanAskServers(candidate, path);
            queues += CostOfServers(
                candidate, clamp_row_est(path->indexselectivity * path->indexinfo->tuples), 0);
            entries += clamp_row_est(path->indexselectivity * path->indexinfo->tuples);
            double fetched = CountFetchedRows(situation.root, candidate, path);
            rows += fetched;
            fetching += fetched * CostOfFetch(situation, candidate);
            filtering = Max(filtering, CostOfFiltering(situation, candidate));
            native += CostOfNativeRows(situation, candidate, fetched);
            queues += CostOfQueue(candidate, LooksKeysUp(path));
        }
        if (can_ask)
            Consider(best, CostOfRows(situation, entries, rows, 0, fetching) + queues,
                     situation.native_start + filtering + native, rows);
    }
}

bool IsEqualityOn(const Candidate *candidate, int column, RestrictInfo *restriction) {
    OpExpr *clause = reinterpret_cast<OpExpr *>(restriction->clause);
    if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
        return false;
    const IndexOptInfo *info = candidate->info;
    int strategy = info->relam == BTREE_AM_OID  ? BTEqualStrategyNumber
                   : info->relam == HASH_AM_OID ? HTEqualStrategyNumber
                                                : 0;
    TargetEntry *target = static_cast<TargetEntry *>(list_nth(info->indextlist, column));
    for (int side = 0; side < 2; side++) {
        Node *own = static_cast<Node *>(list_nth(clause->args, side));
        Node *value = static_cast<Node *>(list_nth(clause->args, 1 - side));
        Oid collation = info->indexcollations[column];
        if (equal(StripRelabels(own), target->expr))
            return strategy != 0 &&
                   get_op_opfamily_strategy(clause->opno, info->opfamily[column]) == strategy &&
                   (!OidIsValid(collation) || collation == clause->inputcollid) &&
                   !contain_var_clause(value);
    }
    return false;
}

// Whether rows of the relation are put into order, and nothing else is done with them.
bool OrdersRows(const PlannerInfo *root) {
    const Query *query = root->parse;
    return query->sortClause != NIL && query->groupClause == NIL && query->groupingSets == NIL &&
           !query->hasAggs && query->distinctClause == NIL && !query->hasWindowFuncs &&
           !query->setOperations && !query->hasTargetSRFs &&
           list_length(query->jointree->fromlist) == 1 &&
           bms_membership(pull_varnos(const_cast<PlannerInfo *>(root),
                                      reinterpret_cast<Node *>(query->jointree))) != BMS_MULTIPLE;
}

// ORDER BY key LIMIT n: entries are read until n rows have passed the filter.
void ConsiderOrder(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    RelOptInfo *rel = situation.rel;
    const CandidateSet *set = situation.set;
    Query *query = root->parse;
    if (root->limit_tuples <= 0 || !OrdersRows(root))
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
        ConsiderEntries(situation, &candidate, clamp_row_est(entries), column > 0, best);
    }
}

// Whether an index yields entries in the order of an expression: its column's distance from
// something.
bool IsDistance(const IndexOptInfo *info, const SortGroupClause *sort, const Expr *expr) {
    Oid opfamily;
    bool descending;
    const OpExpr *distance = reinterpret_cast<const OpExpr *>(expr);
    if (!IsA(expr, OpExpr) || list_length(distance->args) != 2 || sort->nulls_first ||
        !compat::GetOrdering(sort->sortop, &opfamily, &descending) || descending)
        return false;
    ListCell *cell;
    foreach (cell, info->indextlist) {
        int column = foreach_current_index(cell);
        if (column == info->nkeycolumns)
            break;
        Oid collation = info->indexcollations[column];
        for (int side = 0; side < 2; side++) {
            Node *own = StripRelabels(static_cast<Node *>(list_nth(distance->args, side)));
            Node *value = static_cast<Node *>(list_nth(distance->args, 1 - side));
            Oid operation = side == 0 ? distance->opno : get_commutator(distance->opno);
            if (OidIsValid(operation) && equal(own, lfirst_node(TargetEntry, cell)->expr) &&
                !contain_var_clause(value) && !contain_volatile_functions(value) &&
                (!OidIsValid(collation) || collation == distance->inputcollid) &&
                get_op_opfamily_sortfamily(operation, info->opfamily[column]) == opfamily)
                return true;
        }
    }
    return false;
}

// Rows that are wanted of a query; 0: all.
double CountWanted(const PlannerInfo *root, double rows) {
    if (root->limit_tuples > 0)
        return root->limit_tuples;
    return root->tuple_fraction >= 1 ? root->tuple_fraction : root->tuple_fraction * rows;
}

// ORDER BY key <-> value LIMIT n, likewise.
void ConsiderDistances(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    const CandidateSet *set = situation.set;
    double wanted = CountWanted(root, situation.rel->rows);
    if (wanted <= 0 || !OrdersRows(root))
        return;
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        const IndexOptInfo *info = candidate.info;
        if (!info->amcanorderbyop || (info->indpred != NIL && !info->predOK))
            continue;
        bool matches = true;
        ListCell *cell;
        foreach (cell, root->parse->sortClause) {
            SortGroupClause *sort = lfirst_node(SortGroupClause, cell);
            matches =
                matches &&
                IsDistance(info, sort, get_sortgroupclause_tle(sort, root->processed_tlist)->expr);
        }
        if (!matches)
            continue;
        double filter = Min(1, Max(situation.rel->rows / Max(candidate.entries, 1), 1e-9));
        double entries = clamp_row_est(Min(wanted / filter, candidate.entries));
        bool tells = true;
        foreach (cell, situation.rel->baserestrictinfo)
            tells = tells &&
                    CanFilterEntries(situation.rel, &candidate, lfirst_node(RestrictInfo, cell));
        ConsiderRows(situation, &candidate, entries, tells ? Min(wanted, entries) : entries, true,
                     1, best);
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

// The column of a candidate's index that can look a join's other side up; -1: none. For operators
// other than equality there are indexes of other kinds than B-trees.
int FindJoined(const Candidate &candidate, const JoinClause *join) {
    const IndexOptInfo *info = candidate.info;
    if (!join->is_equality && !candidate.table->is_special())
        return -1;
    if (candidate.table->on_servers && !NamesKeys(candidate.table, join->clause->opno))
        return -1;
    Node *own = StripRelabels(reinterpret_cast<Node *>(join->own));
    int count = candidate.table->is_special() && info->amoptionalkey ? info->nkeycolumns : 1;
    for (int column = 0; column < count; column++) {
        const TargetEntry *target = static_cast<TargetEntry *>(list_nth(info->indextlist, column));
        Oid operation = join->is_equality ? join->clause->opno : join->operation;
        if (OidIsValid(operation) && equal(own, target->expr) &&
            op_in_opfamily(operation, info->opfamily[column]))
            return column;
    }
    return -1;
}

double CountDistinct(PlannerInfo *root, Expr *expr) {
    VariableStatData statistics;
    bool is_default;
    examine_variable(root, reinterpret_cast<Node *>(expr), 0, &statistics);
    double count = get_variable_numdistinct(&statistics, &is_default);
    ReleaseVariableStats(statistics);
    return Max(count, 1);
}

// The share of entries that a further column of the key leaves, where the query says what it
// equals; 1: it does not.
double ShareOfColumn(const Situation &situation, const Candidate &candidate, int column) {
    const TargetEntry *target =
        static_cast<TargetEntry *>(list_nth(candidate.info->indextlist, column));
    ListCell *cell;
    foreach (cell, situation.clauses->own)
        if (IsEqualityOn(&candidate, column, lfirst_node(RestrictInfo, cell)))
            return clause_selectivity(situation.root, reinterpret_cast<Node *>(lfirst(cell)), 0,
                                      JOIN_INNER, nullptr);
    foreach (cell, situation.clauses->joins) {
        const JoinClause *join = static_cast<JoinClause *>(lfirst(cell));
        if (join->is_equality &&
            equal(StripRelabels(reinterpret_cast<Node *>(join->own)), target->expr) &&
            op_in_opfamily(join->clause->opno, candidate.info->opfamily[column]))
            return 1 / CountDistinct(situation.root, join->own);
    }
    return 1;
}

// Rows that one look-up finds.
double CountJoined(const Situation &situation, const Candidate &candidate, const JoinClause *join) {
    PlannerInfo *root = situation.root;
    if (!join->is_equality)
        return clamp_row_est(
            candidate.entries *
            restriction_selectivity(root, join->operation, list_make2(join->own, join->other),
                                    join->clause->inputcollid, situation.rel->relid));
    double rows = candidate.entries / CountDistinct(root, join->own);
    for (int column = 1; column < candidate.info->nkeycolumns; column++) {
        double share = ShareOfColumn(situation, candidate, column);
        if (share >= 1)
            break;
        rows *= share;
    }
    return rows;
}

// key = column of another relation: a look-up for each of its rows.
void ConsiderEachJoin(const Situation &situation, Costs *best) {
    PlannerInfo *root = situation.root;
    const CandidateSet *set = situation.set;
    for (const Candidate &candidate : std::span(set->candidates, set->count)) {
        if (candidate.table->key.multi_valued >= 0 ||
            (candidate.info->indpred != NIL && !candidate.info->predOK))
            continue;
        ListCell *cell;
        foreach (cell, situation.clauses->joins) {
            JoinClause *join = static_cast<JoinClause *>(lfirst(cell));
            if (FindJoined(candidate, join) < 0)
                continue;
            double lookups = 1;
            Relids others = pull_varnos(root, reinterpret_cast<Node *>(join->other));
            for (int other = -1; (other = bms_next_member(others, other)) >= 0;)
                lookups = Max(lookups, EstimateOtherRelation(root, other));
            double rows = lookups * CountJoined(situation, candidate, join);
            // What is not equal cannot be hashed.
            double passes = join->is_equality ? kHashed : lookups * kFiltered;
            double native = situation.native_start + rows * kNativeFetch +
                            Min(lookups * situation.partitions * kProbe +
                                    lookups * CostOfFiltering(situation, &candidate),
                                situation.rel->tuples * passes);
            if (set->has_foreign)
                native += Min(lookups * situation.partitions * kRoundTrip,
                              situation.rel->tuples * kShardRow);
            Consider(best,
                     CostOfRows(situation, rows, rows, lookups,
                                rows * CostOfFetch(situation, &candidate)) +
                         CostOfServers(&candidate, rows, lookups) +
                         CostOfQueue(&candidate, true, lookups),
                     native, rows);
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
        bool is_bound = !candidate.owner_index && !table->on_servers && table->options.is_unique &&
                        !table->predicate && table->key.multi_valued < 0;
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

// Entries of a candidate whose first columns equal values; all where none does.
double CountDetermined(const Situation &situation, const Candidate &candidate, bool *determines) {
    double entries = candidate.entries;
    *determines = false;
    for (int column = 0; column < candidate.info->nkeycolumns; column++) {
        ListCell *cell;
        Node *clause = nullptr;
        foreach (cell, situation.clauses->own)
            if (IsEqualityOn(&candidate, column, lfirst_node(RestrictInfo, cell)))
                clause = static_cast<Node *>(lfirst(cell));
        if (!clause)
            break;
        *determines = true;
        entries *= clause_selectivity(situation.root, clause, 0, JOIN_INNER, nullptr);
    }
    return clamp_row_est(entries);
}

// Whether so few are that finding their rows costs less than beginning natively, whatever else
// there is to be considered.
bool FindsFewEntries(const Situation &situation, double *rows) {
    RelOptInfo **place = &situation.root->simple_rel_array[situation.rel->relid];
    *place = situation.rel; // for the time being
    auto is_cheap = [&](const Candidate &candidate) {
        const IndexTable *table = candidate.table;
        if (candidate.owner_index || table->on_servers || table->predicate ||
            table->key.multi_valued >= 0)
            return false;
        bool determines;
        double entries = CountDetermined(situation, candidate, &determines);
        double fetching = entries * CostOfFetch(situation, &candidate);
        *rows = entries;
        return determines && CostOfRows(situation, entries, entries, 0, fetching) +
                                     CostOfQueue(&candidate, true) <
                                 situation.native_start;
    };
    const CandidateSet *set = situation.set;
    bool found = std::any_of(set->candidates, set->candidates + set->count, is_cheap);
    *place = nullptr;
    return found;
}

} // namespace

double CountFetchedRows(PlannerInfo *root, const Candidate *candidate, const IndexPath *path) {
    double share = path->indexselectivity;
    if (candidate->owner_index && candidate->by_bitmap && path->indexclauses != NIL) {
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
    // Under row security the planner must not use an operator that leaks; what it may use it knows.
    double few = 1;
    if (partitions > 1 && root->qual_security_level == 0 &&
        (FindsOneEntry(set, clauses) || FindsFewEntries(situation, &few))) {
        set->partitions = partitions;
        set->expected_rows = few;
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
    ConsiderClauses(situation, &best);
    ConsiderOrs(situation, &best);
    ConsiderOrder(situation, &best);
    ConsiderDistances(situation, &best);
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
