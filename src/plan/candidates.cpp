#include "plan/candidates.h"

#include "deferred/public.h"
#include "exec/public.h"
#include "maintenance/public.h"
#include "plan/examination.h"
#include "plan/index_info.h"
#include "plan/planner.h"
#include "plan/queue_cost.h"
#include "plan/scan.h"
#include "plan/statistics.h"

namespace index_table {
namespace {

constexpr char kOwner = 0;
constexpr double kUnknownEntries = 100000; // of a partition on a server

// The B-tree whose first columns are the key, in its order. Null where users have dropped it.
Relation OpenEntryIndex(Relation rel, const IndexTable *table, const AttrNumber *stored) {
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        if (IsEntryIndex(index, table, stored))
            return index;
        index_close(index, AccessShareLock);
    }
    return nullptr;
}

// Whether the key begins with something that the columns can restrict or order, or they may imply
// the predicate.
bool ServesColumns(const IndexTable *table, const Bitmapset *columns) {
    // Only to a B-tree, and to hashing, is the first column more than the others.
    bool any = table->is_special() && table->method != HASH_AM_OID;
    for (int i = 0; i < (any ? table->key.count : 1); i++) {
        Bitmapset *own = ReferencedColumns(nullptr, table->key.columns[i]);
        if (own && bms_is_subset(own, columns))
            return true;
    }
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
        // Of foreign tables that were never analyzed nothing is known.
        if (child->rd_rel->relkind == RELKIND_FOREIGN_TABLE && child->rd_rel->reltuples < 0)
            count = kUnknownEntries;
        entries += count;
        table_close(child, NoLock);
    }
    return entries;
}

// An index table whose indexes are being offered.
struct Offering {
    PlannerInfo *root;
    RelOptInfo *rel;
    CandidateSet *set;
    const IndexTable *table;
    Relation entries;
    double count; // of entries
    QueueCosts queue;
};

// Whether an index shows the query everything; notes that it is the one tried where it does not.
bool IsReadyNow(const Offering &offering, Relation index, bool is_owner_index) {
    if (IsReady(offering.entries, index, &offering.root->glob->transientPlan))
        return true;
    Trial *trial = GetTrial(offering.root->simple_rte_array[offering.rel->relid]);
    if (trial && IsTried(*trial, offering.table->relid, RelationGetRelid(index), is_owner_index))
        trial->is_young = true;
    return false;
}

Candidate *AddCandidate(const Offering &offering, const OwnerIndex *owner_index) {
    Candidate *candidate = &offering.set->candidates[offering.set->count++];
    *candidate = {.table = offering.table,
                  .queue = offering.queue,
                  .owner_index = owner_index,
                  .by_bitmap = owner_index && owner_index->by_bitmap,
                  .by_distance_only =
                      owner_index && !owner_index->by_bitmap && owner_index->method != BTREE_AM_OID,
                  .takes_arrays = true,
                  .is_partitioned = offering.entries->rd_rel->relkind == RELKIND_PARTITIONED_TABLE,
                  .entries = offering.count};
    return candidate;
}

// Entries that lag behind their rows answer nothing by themselves, nor those that other servers
// have committed.
void RequireRows(Candidate *candidate) {
    IndexOptInfo *info = candidate->info;
    if (LagsBehind(candidate->table) || candidate->table->on_servers)
        std::fill(info->canreturn, info->canreturn + info->ncolumns, false);
}

void OfferEntryIndex(const Offering &offering) {
    const AttrNumber *stored = StoredColumns(offering.table, offering.entries);
    Relation index = stored ? OpenEntryIndex(offering.entries, offering.table, stored) : nullptr;
    if (!index)
        return;
    Candidate *candidate = AddCandidate(offering, nullptr);
    DescribeEntryIndex(candidate, offering.rel, index, stored);
    RequireRows(candidate);
    index_close(index, NoLock);
}

void OfferOwnerIndex(const Offering &offering, const OwnerIndex &owner_index) {
    const CandidateSet *set = offering.set;
    if (set->count > 0 && set->candidates[set->count - 1].info->indexoid == owner_index.relid)
        return; // it has become the entry index
    Relation index = try_relation_open(owner_index.relid, AccessShareLock);
    if (!index)
        return;
    if (IsReadyNow(offering, index, true)) {
        Candidate *candidate = AddCandidate(offering, &owner_index);
        candidate->takes_arrays = index->rd_indam->amsearcharray;
        DescribeOwnerIndex(candidate, offering.rel, offering.entries, index);
        RequireRows(candidate);
    }
    relation_close(index, NoLock);
}

// Offers what of an index table's indexes the columns refer to.
void Offer(Offering *offering, const OwnerIndexes *owner_index, const Bitmapset *columns) {
    bool by_key = ServesColumns(offering->table, columns);
    auto is_referenced = [&](const OwnerIndex &index) { return ServesColumns(index, columns); };
    if (!by_key && std::none_of(owner_index->indexes, owner_index->indexes + owner_index->count,
                                is_referenced))
        return;
    offering->entries = try_relation_open(offering->table->relid, AccessShareLock);
    if (!offering->entries)
        return;
    offering->queue = EstimateQueueCosts(offering->table);
    double visible;
    offering->count = EstimateEntries(offering->entries, &visible);
    offering->rel->allvisfrac = Max(offering->rel->allvisfrac, visible);
    if (by_key)
        OfferEntryIndex(*offering);
    for (const OwnerIndex &index : std::span(owner_index->indexes, owner_index->count))
        if (is_referenced(index))
            OfferOwnerIndex(*offering, index);
    relation_close(offering->entries, NoLock);
}

// Entries of a global index. Other methods than B-trees and GiST count keys, or not all rows: the
// storage has been told of the rows when these were counted last.
double EstimateTree(const IndexTable *table, Relation storage, Relation tree) {
    BlockNumber pages;
    double entries, visible;
    double rows = storage->rd_rel->reltuples;
    double pages_then = tree->rd_rel->relpages;
    if (table->is_special() && rows > 0 && pages_then > 0)
        return clamp_row_est(rows * RelationGetNumberOfBlocks(tree) / pages_then);
    estimate_rel_size(tree, nullptr, &pages, &entries, &visible);
    return entries;
}

// Whether an index of its method finds, by every collation of the key, what the query would.
bool AgreesOnCollations(const IndexTable *table) {
    return FollowsCollations(table->method) ||
           std::all_of(table->key.columns, table->key.columns + table->key.count,
                       [](const KeyColumn &column) {
                           return !OidIsValid(column.collation) ||
                                  get_collation_isdeterministic(column.collation);
                       });
}

void OfferGlobalIndex(Offering *offering, const Bitmapset *columns) {
    const IndexTable *table = offering->table;
    offering->entries = ServesColumns(table, columns) && AgreesOnCollations(table)
                            ? try_relation_open(table->relid, AccessShareLock)
                            : nullptr;
    if (!offering->entries)
        return;
    Relation tree = index_open(table->tree, AccessShareLock);
    if (IsReadyNow(*offering, tree, false)) {
        offering->count = EstimateTree(table, offering->entries, tree);
        offering->rel->allvisfrac = Max(offering->rel->allvisfrac, SampleVisibility(table));
        Candidate *candidate = AddCandidate(*offering, nullptr);
        candidate->by_bitmap = IsPacked(tree);
        candidate->takes_arrays = tree->rd_indam->amsearcharray;
        DescribeEntryIndex(candidate, offering->rel, tree, table->stored);
    }
    index_close(tree, NoLock);
    relation_close(offering->entries, NoLock);
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

const char *WhyUnserved(const IndexTable *table) {
    const IndexOptions &options = table->options;
    if (!options.is_visible && !UsesInvisible())
        return "it is invisible";
    if (table->is_global())
        return nullptr;
    if (OidIsValid(table->log))
        return "it is not complete";
    if (!IsTrusted(table))
        return "it was restored, or has missed changes, and waits for index_table.repair()";
    if (!IsIdentityUnique(table))
        return "its identity is not unique: an entry may lead to several rows";
    if (options.is_deferred && !OidIsValid(table->queue) && !ReadsEventually())
        return "it is drained later, and index_table.read_consistency is not eventual";
    if (IsAvoided(table))
        return "it lags too far behind";
    if (table->on_servers && IsolationUsesXactSnapshot())
        return "its entries are on servers, and the transaction keeps its snapshot";
    return nullptr;
}

bool ServesScans(const IndexTable *table) {
    return !WhyUnserved(table);
}

bool LagsBehind(const IndexTable *table) {
    return table->options.is_deferred && (!OidIsValid(table->queue) || ReadsEventually());
}

bool ServesScans(const Base *base) {
    auto serves = [](const IndexTable *table) { return ServesScans(table); };
    return std::any_of(base->globals, base->globals + base->global_count, serves) ||
           std::any_of(base->tables, base->tables + base->table_count, serves);
}

bool CanAskServers(const Candidate *candidate, const IndexPath *path) {
    if (!candidate->table->on_servers)
        return true;
    ListCell *cell, *qual;
    foreach (cell, path->indexclauses) {
        IndexClause *clause = lfirst_node(IndexClause, cell);
        foreach (qual, clause->indexcol == 0 ? clause->indexquals : NIL) {
            const Expr *condition = lfirst_node(RestrictInfo, qual)->clause;
            const ScalarArrayOpExpr *any = reinterpret_cast<const ScalarArrayOpExpr *>(condition);
            if (IsA(condition, OpExpr)
                    ? NamesKeys(candidate->table, reinterpret_cast<const OpExpr *>(condition)->opno)
                    : IsA(condition, ScalarArrayOpExpr) && any->useOr &&
                          NamesKeys(candidate->table, any->opno))
                return true;
        }
    }
    return false;
}

bool CanFilterEntries(const RelOptInfo *rel, const Candidate *candidate,
                      const RestrictInfo *restriction) {
    const IndexTable *table = candidate->table;
    Node *clause = reinterpret_cast<Node *>(restriction->clause);
    if (table->is_global() || LagsBehind(table) || restriction->pseudoconstant ||
        (restriction->security_level > rel->baserestrict_min_security && !restriction->leakproof) ||
        contain_subplans(clause) || contain_volatile_functions(clause))
        return false;
    Bitmapset *columns = nullptr;
    pull_varattnos(clause, rel->relid, &columns);
    for (int i = 0; i < table->column_count; i++)
        if (AttrNumber attno = BaseColumn(table, i); attno != 0)
            columns = bms_del_member(columns, attno - FirstLowInvalidHeapAttributeNumber);
    return bms_is_empty(columns);
}

CandidateSet *OfferCandidates(PlannerInfo *root, RelOptInfo *rel, const Base *base,
                              const Bitmapset *columns) {
    Assert(rel->relid > 0);
    CandidateSet *set = static_cast<CandidateSet *>(palloc0(sizeof(CandidateSet)));
    set->owner = &kOwner;
    set->base = base;
    set->has_foreign = HasForeignLeaves(base);
    int capacity = 0;
    List *serving = NIL; // asked once: one that lags may have caught up the next time
    ListCell *cell;
    for (IndexTable *table : std::span(base->tables, base->table_count))
        if (ServesScans(table)) {
            serving = lappend(serving, table);
            capacity += 1 + GetOwnerIndexes(table)->count;
        }
    capacity += base->global_count;
    set->candidates = static_cast<Candidate *>(palloc0(sizeof(Candidate) * Max(1, capacity)));
    foreach (cell, serving) {
        const IndexTable *table = static_cast<const IndexTable *>(lfirst(cell));
        Offering offering = {.root = root, .rel = rel, .set = set, .table = table};
        Offer(&offering, GetOwnerIndexes(table), columns);
    }
    for (const IndexTable *table : std::span(base->globals, base->global_count)) {
        if (!ServesScans(table))
            continue;
        Offering offering = {.root = root, .rel = rel, .set = set, .table = table};
        OfferGlobalIndex(&offering, columns);
    }
    const Trial *trial = GetTrial(root->simple_rte_array[rel->relid]);
    if (set->count == 0)
        return nullptr;
    rel->tuples = EstimateRows(set);
    rel->pages = static_cast<BlockNumber>(rel->tuples * (RowWidth(base) + 28) / BLCKSZ) + 1;
    for (const Candidate &candidate : std::span(set->candidates, set->count))
        set->has_servers = set->has_servers || candidate.table->on_servers;
    for (Candidate &candidate : std::span(set->candidates, set->count)) {
        const IndexOptInfo *info = candidate.info;
        candidate.is_left_out = trial && !IsTried(*trial, candidate.table->relid, info->indexoid,
                                                  candidate.owner_index != nullptr);
        if (!candidate.is_left_out)
            rel->indexlist = lappend(rel->indexlist, candidate.info);
    }
    return set;
}

} // namespace index_table
