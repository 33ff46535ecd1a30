#include "global/lone_index.h"

#include "core/public.h"
#include "global/operator_classes.h"
#include "global/options.h"

namespace index_table {
namespace {

bool IsUnique(Oid index) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return false;
    bool isnull;
    Datum options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
    bool is_unique = !isnull && SaysUnique(untransformRelOptions(options));
    ReleaseSysCache(tuple);
    return is_unique;
}

// Whether a statement may be meant for the part of an index that a partition has. Columns are
// compared by name, as they are mapped; expressions are not.
bool IsLike(const IndexStmt *statement, Form_pg_index index) {
    if (index->indnkeyatts != list_length(statement->indexParams) ||
        index->indnatts != index->indnkeyatts + list_length(statement->indexIncludingParams) ||
        SaysUnique(statement->options) != IsUnique(index->indexrelid))
        return false;
    ListCell *cell;
    foreach (cell, statement->indexParams) {
        const char *name = lfirst_node(IndexElem, cell)->name;
        AttrNumber attno = index->indkey.values[foreach_current_index(cell)];
        if (name && (attno == 0 || strcmp(name, get_attname(index->indrelid, attno, false)) != 0))
            return false;
    }
    return true;
}

// Whether the table above has an index, made ON ONLY it, that lacks its part of this partition. It
// is not locked: whoever has locked a partition does not wait for its table.
bool IsAwaited(const IndexStmt *statement, Relation partition) {
    Oid parent = get_partition_parent(RelationGetRelid(partition), true);
    bool is_awaited = false;
    SystemScan scan(IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, parent);
    while (auto form = is_awaited ? nullptr : scan.Next<Form_pg_index>())
        is_awaited = !form->indisvalid && IsGlobalIndex(form->indexrelid) &&
                     IsLike(statement, form) &&
                     !OidIsValid(index_get_partition(partition, form->indexrelid));
    scan.End();
    return is_awaited;
}

bool IsLoadingDump() {
    return !check_function_bodies; // as dumps set it
}

[[noreturn]] void RaiseNotUnique(Relation table) {
    const char *name = RelationGetRelationName(table);
    bool is_partition = table->rd_rel->relispartition;
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("a unique global index on \"%s\" would keep no key unique", name),
             errdetail("A global index holds entries of a partitioned table as a whole."),
             is_partition
                 ? errhint("Create it on \"%s\" to have the key unique over all partitions. Use "
                           "CREATE UNIQUE INDEX to have it unique within this one.",
                           get_rel_name(RootOf(RelationGetRelid(table))))
                 : errhint("Use CREATE UNIQUE INDEX for a table that is not partitioned.")));
}

void WarnOfTable(Relation table, bool is_unique) {
    const char *name = RelationGetRelationName(table);
    ereport(
        WARNING,
        (is_unique ? errmsg("a global index on \"%s\" holds nothing, and keeps no key unique", name)
                   : errmsg("a global index on \"%s\" holds nothing", name),
         errdetail("It is of use once it belongs to that of a table of which this is a partition."),
         errhint("Use access method \"btree\" for a table that is not partitioned.")));
}

void TellOfUnique(Oid index, int level) {
    const char *table = get_rel_name(IndexGetRelation(index, false));
    ereport(level, (errmsg("global index \"%s\" of \"%s\" keeps no key unique", get_rel_name(index),
                           table),
                    errdetail("It holds nothing, because it is no part of the global index of a "
                              "partitioned table."),
                    errhint("Use CREATE UNIQUE INDEX for \"%s\" by itself, or attach it to a table "
                            "with such a global index.",
                            table)));
}

// Of a table that may be gone, and of what is below one that is partitioned.
template <typename Visit>
void ForEachLone(Oid table, Visit visit) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table)))
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(table, NoLock, nullptr)) {
        if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_RELATION)
            continue;
        SystemScan scan(IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid,
                        lfirst_oid(cell));
        while (auto form = scan.Next<Form_pg_index>())
            if (IsGlobalIndex(form->indexrelid) && !get_rel_relispartition(form->indexrelid))
                visit(form->indexrelid);
        scan.End();
    }
}

} // namespace

void CheckLoneIndex(const IndexStmt *statement, Relation table) {
    bool is_partition = table->rd_rel->relispartition;
    if (table->rd_rel->relkind != RELKIND_RELATION ||
        (is_partition && (IsLoadingDump() || IsAwaited(statement, table))))
        return;
    bool is_unique = SaysUnique(statement->options);
    if (is_unique && !IsLoadingDump())
        RaiseNotUnique(table);
    WarnOfTable(table, is_unique);
}

void WarnOfLoneIndexes(Oid table) {
    Oid last = InvalidOid; // of the tables that have been warned of
    ForEachLone(table, [&](Oid index) {
        if (IsUnique(index)) {
            TellOfUnique(index, WARNING);
        } else if (Oid owner = IndexGetRelation(index, false); owner != last) {
            Relation rel = relation_open(owner, NoLock);
            WarnOfTable(rel, false);
            relation_close(rel, NoLock);
            last = owner;
        }
    });
}

void NoteLoneIndexes(Oid table) {
    ForEachLone(table, [](Oid index) {
        if (IsUnique(index))
            TellOfUnique(index, NOTICE);
    });
}

} // namespace index_table
