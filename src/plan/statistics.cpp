// What the planner knows of the columns of a base table that it scans through index tables: of
// those that an index table holds, that one's statistics, which autovacuum keeps; of the others,
// what ANALYZE of the partitioned table has left; where there is a global index and nothing else,
// what it has left of a partition.
#include "plan/statistics.h"

#include "core/public.h"
#include "plan/candidates.h"
#include "plan/planner.h"

namespace index_table {
namespace {

HeapTuple FindStatistics(Oid relid, AttrNumber attno) {
    bool is_partitioned = get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;
    return SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(attno),
                           BoolGetDatum(is_partitioned));
}

// The attribute number of an entry's column in its index table; 0 where it is not there.
AttrNumber StoredColumn(const IndexTable *table, int position) {
    const AttrNumber *stored = table->stored;
    if (!stored) {
        Relation rel = try_relation_open(table->relid, AccessShareLock);
        if (!rel)
            return 0;
        stored = StoredColumns(table, rel);
        relation_close(rel, NoLock);
    }
    return stored ? stored[position] : 0;
}

// Where an entry holds a column of the base table; -1 where it does not.
int FindPosition(const IndexTable *table, AttrNumber attno) {
    for (int i = 0; i < table->key.count; i++)
        if (table->key.columns[i].attno == attno)
            return i;
    for (const CopiedColumn &copy : std::span(table->copied, table->copied_count))
        if (copy.base_attno == attno)
            return copy.position;
    return -1;
}

// --- Of one partition --------------------------------------------------------

// Autovacuum does not analyze partitioned tables: where nobody has, one partition that has been
// analyzed stands for all.
struct Sample {
    Oid relid;      // of a global index, the root
    Oid child;      // the index of that partition; InvalidOid: none was found
    double visible; // how much of it is all-visible
};

bool IsAnalyzed(Oid leaf) {
    SystemScan scan(StatisticRelationId, StatisticRelidAttnumInhIndexId, Anum_pg_statistic_starelid,
                    leaf);
    bool found = HeapTupleIsValid(scan.Next());
    scan.End();
    return found;
}

// Looks at `left` partitions at most.
Oid FindAnalyzed(Oid parent, int *left) {
    SystemScan scan(InheritsRelationId, InheritsParentIndexId, Anum_pg_inherits_inhparent, parent);
    Oid found = InvalidOid;
    while (!OidIsValid(found) && *left > 0) {
        auto form = scan.Next<Form_pg_inherits>();
        if (!form)
            break;
        Oid child = form->inhrelid;
        --*left;
        if (get_rel_relkind(child) == RELKIND_PARTITIONED_INDEX)
            found = FindAnalyzed(child, left);
        else if (IsAnalyzed(IndexGetRelation(child, true)))
            found = child;
    }
    scan.End();
    return found;
}

double ReadVisibility(Oid child) {
    Oid leaf = OidIsValid(child) ? IndexGetRelation(child, true) : InvalidOid;
    HeapTuple tuple = OidIsValid(leaf) ? SearchSysCache1(RELOID, ObjectIdGetDatum(leaf)) : nullptr;
    if (!HeapTupleIsValid(tuple))
        return 0;
    Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
    double visible = static_cast<double>(form->relallvisible) / Max(1, form->relpages);
    ReleaseSysCache(tuple);
    return Min(1, visible);
}

Sample GetSample(Oid root) {
    constexpr int kMostLooks = 16;
    static constinit KnownRelations<Sample> samples = {};
    if (const Sample *known = samples.Find(root, "index_table analyzed partitions"))
        return *known;
    int left = kMostLooks;
    Sample sample = {.relid = root, .child = FindAnalyzed(root, &left)};
    sample.visible = ReadVisibility(sample.child);
    samples.Add(sample);
    return sample;
}

} // namespace

double SampleVisibility(const IndexTable *table) {
    Assert(table->is_global());
    return GetSample(table->root).visible;
}

namespace {

HeapTuple SampleColumn(const Base *base, AttrNumber attno) {
    Oid child = base->global_count > 0 ? GetSample(base->globals[0]->root).child : InvalidOid;
    Oid leaf = OidIsValid(child) ? IndexGetRelation(child, true) : InvalidOid;
    const char *name = OidIsValid(leaf) ? get_attname(base->relid, attno, true) : nullptr;
    return name ? FindStatistics(leaf, get_attnum(leaf, name)) : nullptr;
}

// --- Of columns --------------------------------------------------------------

HeapTuple FindColumnStatistics(const Base *base, AttrNumber attno) {
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        // Each row has one entry in it, so what holds of the entries holds of the rows.
        if (table->key.multi_valued >= 0 || table->predicate)
            continue;
        int position = FindPosition(table, attno);
        if (position < 0)
            continue;
        HeapTuple tuple = FindStatistics(table->relid, StoredColumn(table, position));
        if (HeapTupleIsValid(tuple))
            return tuple;
    }
    HeapTuple tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(base->relid),
                                      Int16GetDatum(attno), BoolGetDatum(true));
    return HeapTupleIsValid(tuple) ? tuple : SampleColumn(base, attno);
}

// As PostgreSQL decides whether an operator that may leak what it is given sees the statistics.
bool MayReadStatistics(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno) {
    Oid user = compat::CheckedUser(root, rte);
    return rte->securityQuals == NIL &&
           (pg_class_aclcheck(rte->relid, user, ACL_SELECT) == ACLCHECK_OK ||
            pg_attribute_aclcheck(rte->relid, attno, user, ACL_SELECT) == ACLCHECK_OK);
}

} // namespace

bool FindRelationStatistics(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno,
                            VariableStatData *statistics) {
    if (IsPlanningScans() && rte->rtekind == RTE_RELATION && !rte->inh &&
        get_rel_relkind(rte->relid) == RELKIND_PARTITIONED_TABLE) {
        const Base *base = FindIndexedBase(rte->relid);
        HeapTuple tuple = base ? FindColumnStatistics(base, attno) : nullptr;
        if (HeapTupleIsValid(tuple)) {
            statistics->statsTuple = tuple;
            statistics->freefunc = ReleaseSysCache;
            statistics->acl_ok = MayReadStatistics(root, rte, attno);
            return true;
        }
    }
    return false;
}

// The column of the indexed table that an index column is; 0 for an expression.
AttrNumber IndexedColumn(Oid index, AttrNumber attno) {
    HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return 0;
    Form_pg_index form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
    AttrNumber column = attno <= form->indnatts ? form->indkey.values[attno - 1] : 0;
    ReleaseSysCache(tuple);
    return column;
}

// Expressions of keys are columns of the index table; PostgreSQL has statistics of them for the
// partitions of a global index.
HeapTuple FindExpressionStatistics(Oid index, AttrNumber attno) {
    Oid relid = IndexGetRelation(index, true);
    if (!OidIsValid(relid))
        return nullptr;
    if (FindIndexTable(relid)) {
        AttrNumber column = IndexedColumn(index, attno);
        return column > 0 ? FindStatistics(relid, column) : nullptr;
    }
    const IndexTable *global = FindGlobalTable(relid);
    Oid child = global ? GetSample(global->root).child : InvalidOid;
    return OidIsValid(child) ? FindStatistics(child, attno) : nullptr;
}

// Those of an owner's index on an index table have statistics of their own.
bool FindIndexStatistics(PlannerInfo *root, Oid index, AttrNumber attno,
                         VariableStatData *statistics) {
    if (IsPlanningScans()) {
        HeapTuple tuple = FindExpressionStatistics(index, attno);
        if (HeapTupleIsValid(tuple)) {
            statistics->statsTuple = tuple;
            statistics->freefunc = ReleaseSysCache;
            return true;
        }
    }
    return false;
}

} // namespace index_table
