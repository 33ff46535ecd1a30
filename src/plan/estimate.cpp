#include "plan/estimate.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/costs.h"
#include "plan/planner.h"
#include "plan/queue_cost.h"
#include "plan/row_identity.h"
#include "plan/scan.h"

namespace index_table {
namespace {

using namespace micros;

constexpr int kManyPartitions = 1000;

struct Situation {
    PlannerInfo *root;
    RelOptInfo *rel;
    const CandidateSet *set;
    const Clauses *clauses;
};

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

int CountIndexes(const Base *base) {
    Relation rel = table_open(base->relid, NoLock);
    int count = list_length(RelationGetIndexList(rel));
    table_close(rel, NoLock);
    return count;
}

// What PostgreSQL takes before the first row. The planner looks at each index of each partition,
// at those of global indexes, too.
double CostOfBeginning(PlannerInfo *root, RelOptInfo *rel, const CandidateSet *set,
                       const Clauses *clauses) {
    bool changes = GetRowUse(root, rel->relid) == RowUse::Change;
    double partition = changes ? kTarget : kPartition;
    // A plan for parameters yet unknown is made once and run often.
    bool is_generic = root->glob->boundParams == nullptr && HasParameters(clauses);
    if (!is_generic)
        partition += (changes ? kPlanTarget : 0) + kPlanIndex * (1 + CountIndexes(set->base));
    if (set->has_foreign)
        partition += 2 * kRoundTrip; // a cursor, and what it brings
    return set->partitions * partition;
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
                  Min(rows, situation.set->partitions) * kOpenLeaf;
    // Those of many look-ups are fetched together, several partitions at once.
    if (situation.set->has_foreign)
        cost += std::ceil(Max(lookups, 1) / kRowsAtOnce) * kRoundTrip *
                    (1 + Min(rows, situation.set->partitions)) +
                rows * kShardRow;
    return cost;
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
bool FindsFewEntries(const Situation &situation) {
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
        return determines && CostOfRows(situation, entries, entries, 0, fetching) +
                                     CostOfQueue(&candidate, true) <
                                 situation.set->native_start;
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

Decision Decide(PlannerInfo *root, RelOptInfo *rel, CandidateSet *set, const Clauses *clauses) {
    Assert(set->count > 0);
    set->partitions = CountUnpruned(root, rel, set, clauses);
    // Nothing beats asking the one partition that can have the rows.
    if (set->partitions <= 1 && !ForcesIndexes(root->simple_rte_array[rel->relid]))
        return Decision::Natively;
    // Under row security the planner must not use an operator that leaks; what it may use it knows.
    bool is_secured = root->qual_security_level > 0;
    if (!is_secured && FindsOneEntry(set, clauses))
        return Decision::Index;
    set->native_start = CostOfBeginning(root, rel, set, clauses);
    return !is_secured && FindsFewEntries({root, rel, set, clauses}) ? Decision::Index
                                                                     : Decision::Compare;
}

} // namespace index_table
