#include "global/index_statement.h"

#include "core/public.h"
#include "global/global_index.h"
#include "global/lone_index.h"
#include "global/operator_classes.h"
#include "global/options.h"

namespace index_table {
namespace {

[[noreturn]] void RaiseUnsupported(const char *what, const char *hint) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("access method \"global\" does not support %s", what), errhint("%s", hint)));
}

// What the words say, whatever table they are about.
void RefuseForm(const IndexStmt *statement) {
    if (statement->unique)
        RaiseUnsupported("CREATE UNIQUE INDEX",
                         "Use CREATE INDEX ... USING global (...) WITH (unique).");
    if (statement->concurrent)
        RaiseUnsupported("CREATE INDEX CONCURRENTLY where its library is not loaded",
                         "LOAD 'index_table' first, or CALL "
                         "index_table.create_index_concurrently('CREATE INDEX ...').");
    if (statement->nulls_not_distinct && !SaysUnique(statement->options))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("NULLS NOT DISTINCT is for unique indexes"),
                        errhint("Use CREATE INDEX ... USING global (...) NULLS NOT DISTINCT WITH "
                                "(unique).")));
}

TreeForm FormOf(const IndexStmt *statement) {
    TreeForm form = {.is_unique = SaysUnique(statement->options),
                     .has_included = statement->indexIncludingParams != NIL,
                     .key_count = list_length(statement->indexParams)};
    ListCell *cell;
    foreach (cell, statement->indexParams) {
        const IndexElem *element = lfirst_node(IndexElem, cell);
        form.is_ordered = form.is_ordered || element->ordering != SORTBY_DEFAULT;
        form.places_nulls = form.places_nulls || element->nulls_ordering != SORTBY_NULLS_DEFAULT;
    }
    return form;
}

// One of a table and what is below it; InvalidOid: none.
Oid FindForeign(Oid base) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE)
            return lfirst_oid(cell);
    return InvalidOid;
}

[[noreturn]] void RaiseForeign(Oid base, Oid foreign) {
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("\"%s\" cannot have global indexes and foreign partitions", get_rel_name(base)),
             errdetail("\"%s\" is a foreign table.", get_rel_name(foreign)),
             errhint("Index tables follow foreign partitions: use index_table.create() instead of "
                     "CREATE INDEX ... USING global.")));
}

void RefuseTable(Relation base) {
    if (base->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
        RaiseUnsupported("temporary tables", "Use access method \"btree\".");
    if (base->rd_rel->relkind == RELKIND_MATVIEW)
        RaiseUnsupported("materialized views", "Use access method \"btree\".");
    RefuseTimescale(RelationGetRelid(base));
    if (base->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return;
    Oid foreign = FindForeign(RelationGetRelid(base));
    if (OidIsValid(foreign))
        RaiseForeign(RelationGetRelid(base), foreign);
}

// The command looks the name up again: it must find the same table, whatever others create.
void NameTable(IndexStmt *statement, Relation base) {
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(statement));
    statement->relation->schemaname = get_namespace_name(RelationGetNamespace(base));
    MemoryContextSwitchTo(caller);
}

bool SetsOptions(const AlterTableCmd *command) {
    return command->subtype == AT_SetRelOptions || command->subtype == AT_ResetRelOptions ||
           command->subtype == AT_ReplaceRelOptions;
}

} // namespace

bool IsGlobal(const IndexStmt *statement) {
    return statement->accessMethod && strcmp(statement->accessMethod, "global") == 0 &&
           OidIsValid(GlobalMethod());
}

void PrepareGlobalIndex(IndexStmt *statement) {
    Assert(IsGlobal(statement));
    RefuseForm(statement);
    Oid method = FindTreeMethod(TreeMethodName(statement->options));
    CheckTreeForm(FormOf(statement), method);
    Oid relid = RangeVarGetRelidExtended(statement->relation, ShareLock, 0,
                                         RangeVarCallbackOwnsRelation, nullptr);
    Relation base = relation_open(relid, NoLock);
    RefuseTable(base);
    NameTable(statement, base);
    CheckLoneIndex(statement, base);
    MirrorOperatorClasses(statement, base, method);
    relation_close(base, NoLock);
}

void RefuseTimescale(Oid base) {
    if (IsOfTimescale(base))
        RaiseUnsupported("hypertables of TimescaleDB", "Use access method \"btree\".");
}

void RefuseNewOptions(const AlterTableStmt *statement, Oid index) {
    if (!IsGlobalIndex(index))
        return;
    ListCell *cell, *option;
    foreach (cell, statement->cmds) {
        AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        if (!SetsOptions(command))
            continue;
        foreach (option, reinterpret_cast<List *>(command->def)) {
            const char *name = lfirst_node(DefElem, option)->defname;
            if (strcmp(name, "vacuum") != 0)
                ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                                errmsg("cannot change option \"%s\" of index \"%s\"", name,
                                       get_rel_name(index)),
                                errdetail("It belongs to what all partitions have in common."),
                                strcmp(name, "visible") == 0
                                    ? errhint("index_table.set_visible() changes it.")
                                    : errhint("Drop the global index, and create another.")));
        }
    }
}

void CheckNewPartition(Oid base, Oid partition) {
    Oid foreign = FindForeign(partition);
    if (OidIsValid(foreign) && HasGlobalIndex(base))
        RaiseForeign(base, foreign);
}

} // namespace index_table
