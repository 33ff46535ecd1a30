// What the planner knows of the columns of a base table that it scans through index tables: of
// those that an index table holds, that one's statistics, which autovacuum keeps; of the others,
// what ANALYZE of the partitioned table has left.
#include "core/public.h"
#include "plan/candidates.h"
#include "plan/planner.h"
#include "plan/statistics.h"

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
    return FindStatistics(base->relid, attno);
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
        const Base *base = FindBase(rte->relid);
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

// Expressions of keys, which are columns of the index table. Those of an index on it have
// statistics of their own.
bool FindIndexStatistics(PlannerInfo *root, Oid index, AttrNumber attno,
                         VariableStatData *statistics) {
    if (IsPlanningScans()) {
        Oid relid = IndexGetRelation(index, true);
        AttrNumber column =
            OidIsValid(relid) && FindIndexTable(relid) ? IndexedColumn(index, attno) : 0;
        HeapTuple tuple = column > 0 ? FindStatistics(relid, column) : nullptr;
        if (HeapTupleIsValid(tuple)) {
            statistics->statsTuple = tuple;
            statistics->freefunc = ReleaseSysCache;
            return true;
        }
    }
    return false;
}

} // namespace index_table
