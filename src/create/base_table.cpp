#include "create/base_table.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/new_column.h"
#include "deferred/public.h"
#include "shard/public.h"

namespace index_table {

void CheckBase(Relation base) {
    Assert(CheckRelationLockedByMe(base, AccessShareLock, true));
    const char *name = RelationGetRelationName(base);
    char kind = base->rd_rel->relkind;
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
        kind != RELKIND_FOREIGN_TABLE)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("cannot create an index table over \"%s\"", name),
                        errdetail_relkind_not_supported(kind),
                        errhint("An index table is built over a partitioned or a plain table.")));
    if (IsSystemRelation(base))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("permission denied: \"%s\" is a system catalog", name)));
    if (OidIsValid(RecordedBase(RelationGetRelid(base))))
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("cannot create an index table over \"%s\"", name),
                        errdetail("It is an index table itself."),
                        errhint("Create an ordinary index on it.")));
    if (RelationGetNamespace(base) == ExtensionSchema())
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("cannot create an index table over \"%s\"", name),
                        errdetail("It is a table of the extension index_table.")));
    if (base->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 RELATION_IS_OTHER_TEMP(base)
                     ? errmsg("\"%s\" is a temporary table of another session", name)
                     : errmsg("index tables over temporary tables are not supported"),
                 errdetail("PostgreSQL empties and drops temporary tables without telling.")));
    if (IsOfTimescale(RelationGetRelid(base)))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("cannot create an index table over \"%s\"", name),
                 errdetail("It is a hypertable of TimescaleDB, or a part of one."),
                 errhint("An index table is built over a plain table, or one that is partitioned "
                         "by PARTITION BY.")));
    if (base->rd_rel->relispartition) {
        List *ancestors = get_partition_ancestors(RelationGetRelid(base));
        ereport(ERROR,
                (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                 errmsg("cannot create an index table over \"%s\"", name),
                 errdetail("It is a partition of another table."),
                 OidIsValid(RecordedBase(llast_oid(ancestors)))
                     ? errhint("It belongs to an index table: create an ordinary index on it.")
                     : errhint("Create the index table over \"%s\".",
                               get_rel_name(llast_oid(ancestors)))));
    }
    if (kind != RELKIND_PARTITIONED_TABLE && has_subclass(RelationGetRelid(base)) &&
        find_inheritance_children(RelationGetRelid(base), NoLock) != NIL)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot create an index table over \"%s\"", name),
                        errdetail("Other tables inherit from it."),
                        errhint("Use declarative partitioning.")));
    RefuseVirtualColumns(base);
}

namespace {

bool HasDeferrableKey(Relation rel) {
    bool found = false;
    ListCell *cell;
    foreach (cell, RelationGetIndexList(rel)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        found = found || (index->rd_index->indisprimary && !index->rd_index->indimmediate);
        index_close(index, AccessShareLock);
    }
    return found;
}

} // namespace

List *ParseIdentity(Relation rel, const char *identity, const char *detail) {
    if (identity)
        return ParseColumnList(rel, identity, "identity");
    Oid primary_key = compat::GetPrimaryKey(rel);
    if (!OidIsValid(primary_key))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT),
                 HasDeferrableKey(rel)
                     ? errmsg("the primary key of table \"%s\" is deferrable",
                              RelationGetRelationName(rel))
                     : errmsg("table \"%s\" has no primary key", RelationGetRelationName(rel)),
                 detail ? errdetail("%s", detail) : 0,
                 errhint("Name the columns that find one row: identity => 'column, column'."),
                 errtable(rel)));
    List *attnos = NIL;
    Relation index = index_open(primary_key, AccessShareLock);
    for (int i = 0; i < index->rd_index->indnkeyatts; i++)
        attnos = lappend_int(attnos, index->rd_index->indkey.values[i]);
    index_close(index, AccessShareLock);
    return attnos;
}

bool ParseMaintenance(const char *text) {
    if (strcmp(text, "deferred") == 0)
        return true;
    if (strcmp(text, "immediate") != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("unknown maintenance \"%s\"", text),
                        errhint("It is immediate or deferred.")));
    return false;
}

void CheckMayDefer(const IndexTable *table, List *leaves) {
    if (table->options.is_unique)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a unique index table cannot be maintained deferred"),
                        errdetail("Rows with a key that is there already would be stored before "
                                  "anybody looks."),
                        errhint("Use maintenance => 'immediate', or one that is not unique.")));
    if (!HasForeign(leaves))
        CheckMayQueue(table);
    ListCell *cell;
    foreach (cell, leaves)
        if (IsForeign(lfirst_oid(cell)))
            CheckHasOutbox(lfirst_oid(cell));
}

} // namespace index_table
