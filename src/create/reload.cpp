#include "create/reload.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/backfill.h"
#include "create/dependencies.h"
#include "deferred/public.h"
#include "maintenance/public.h"
#include "partitions/public.h"

namespace index_table {

struct PendingChange {
    Oid base;
    List *changes; // of ColumnChange
    List *storage; // what the rows are stored in: it changes where they are written anew
};

namespace {

// An index table whose columns a command is about to change.
struct ColumnChange {
    Oid index_table;
    char *statement;    // that makes its definition, but for the included columns; null: keys and
                        // predicate stay bound
    List *include;      // attribute numbers; the command may drop some
    bool in_expression; // the column is used in one, whose value may depend on its type
    Key key;            // as it was
};

// Before the command nothing is locked: who writes a leaf anew at this moment has the index tables
// loaded anew once more.
List *ListStorage(Oid base) {
    List *numbers = NIL;
    ListCell *cell;
    foreach (cell, FindLeaves(base, NoLock)) {
        HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
        if (!HeapTupleIsValid(tuple))
            continue;
        numbers =
            lappend_oid(numbers, reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relfilenode);
        ReleaseSysCache(tuple);
    }
    return numbers;
}

// How an index table uses a column of its base table.
bool IsCopied(const IndexTable *table, AttrNumber attno) {
    return std::any_of(table->copied, table->copied + table->copied_count,
                       [=](const CopiedColumn &copy) { return copy.base_attno == attno; });
}

bool IsIn(const Bitmapset *columns, AttrNumber attno) {
    return bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns);
}

bool IsInExpression(const IndexTable *table, AttrNumber attno) {
    Bitmapset *columns = nullptr;
    for (const KeyColumn &column : std::span(table->key.columns, table->key.count))
        if (column.attno == 0)
            columns = ReferencedColumns(columns, column);
    pull_varattnos(reinterpret_cast<Node *>(table->predicate), 1, &columns);
    return IsIn(columns, attno);
}

bool IsInKeyColumn(const KeyColumn &column, AttrNumber attno) {
    return IsIn(ReferencedColumns(nullptr, column), attno);
}

// --- After -------------------------------------------------------------------

} // namespace

ColumnType WantedType(Relation base, const IndexTable *table, int position) {
    Assert(position >= 0 && position < table->column_count);
    if (position < table->key.count) {
        const KeyColumn &column = table->key.columns[position];
        return {column.type, column.typmod, column.collation};
    }
    AttrNumber attno = BaseColumn(table, position);
    if (attno == 0)
        return {INT4OID, -1, InvalidOid};
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(base), attno - 1);
    return {att->atttypid, att->atttypmod, att->attcollation};
}

namespace {

void ChangeTypes(Relation base, const IndexTable *table, bool is_empty) {
    FAULT_POINT("reload.change_types");
    for (int i = 0; i < table->column_count; i++) {
        Relation rel = table_open(table->relid, AccessShareLock);
        AttrNumber attno = LiveColumn(rel, table, i);
        FormData_pg_attribute stored = *TupleDescAttr(RelationGetDescr(rel), attno - 1);
        table_close(rel, NoLock);
        ColumnType wanted = WantedType(base, table, i);
        if (wanted.type == stored.atttypid && wanted.typmod == stored.atttypmod &&
            wanted.collation == stored.attcollation)
            continue;
        char *type = format_type_extended(wanted.type, wanted.typmod,
                                          FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
        const char *collate =
            OidIsValid(wanted.collation)
                ? psprintf(" COLLATE %s", generate_collation_name(wanted.collation))
                : "";
        const char *value = is_empty ? psprintf(" USING NULL::%s", type) : "";
        ExecuteUnguarded(psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s%s%s",
                                  QualifiedName(table->relid),
                                  quote_identifier(NameStr(stored.attname)), type, collate, value));
        KeepOwner(table->relid, GetUserId());
    }
}

[[noreturn]] void RaiseOtherShape(Oid index_table, const KeyColumn &column, bool is_set) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("cannot alter the type of a column because index table \"%s\" depends "
                           "on it",
                           get_rel_name(index_table)),
                    is_set ? errdetail("Its key \"%s\" would be of elements.", NameStr(column.name))
                           : errdetail("Its key \"%s\" would not be of elements any more.",
                                       NameStr(column.name)),
                    errhint("Drop the index table with index_table.drop(), and create it again "
                            "afterwards.")));
}

bool IsArray(Oid type) {
    return OidIsValid(get_base_element_type(type));
}

// A column by itself is a key of elements where it is an array.
void CheckPlainColumns(Oid base, const ColumnChange *change) {
    for (const KeyColumn &column : std::span(change->key.columns, change->key.count)) {
        const Var *var = reinterpret_cast<const Var *>(column.expr);
        if (!IsA(var, Var) || column.shape == KeyShape::SetReturning)
            continue;
        bool is_array = IsArray(get_atttype(base, var->varattno));
        if (is_array != (column.shape == KeyShape::ArrayElements))
            RaiseOtherShape(change->index_table, column, is_array);
    }
}

// Functions may be others now, for the new types.
void CheckStored(const ColumnChange *change) {
    const Definition *definition = ReadDefinition(change->index_table);
    CheckExpressions(*definition);
    for (int i = 0; i < definition->key.count; i++) {
        const KeyColumn &column = definition->key.columns[i];
        bool is_set = column.shape != KeyShape::Single;
        if (is_set != (change->key.columns[i].shape != KeyShape::Single))
            RaiseOtherShape(change->index_table, column, is_set);
    }
}

void StoreChanged(Oid base, const ColumnChange *change) {
    FAULT_POINT("reload.store_changed");
    CheckPlainColumns(base, change);
    StoreDefinition(change->index_table, change->statement);
    CheckStored(change);
    ListCell *cell;
    foreach (cell, change->include) {
        HeapTuple column = SearchSysCacheAttNum(base, lfirst_int(cell));
        if (!HeapTupleIsValid(column)) // it is dropped
            continue;
        ReleaseSysCache(column);
        StoreIncludedColumn(change->index_table, lfirst_int(cell));
    }
}

} // namespace

void CheckExpressions(const Definition &definition) {
    for (const KeyColumn &column : std::span(definition.key.columns, definition.key.count))
        CheckExpression(reinterpret_cast<Node *>(column.whole), "key");
    if (definition.predicate)
        CheckExpression(reinterpret_cast<Node *>(definition.predicate), "predicate");
}

bool UsesColumn(const IndexTable *table, AttrNumber attno) {
    return IsCopied(table, attno) || IsInExpression(table, attno) ||
           std::any_of(table->key.columns, table->key.columns + table->key.count,
                       [=](const KeyColumn &column) { return column.attno == attno; });
}

const char *ObstacleToReload(const IndexTable *table) {
    const char *obstacle = nullptr;
    ListCell *cell;
    if (table->on_servers)
        return nullptr; // its tables are made anew
    foreach (cell, find_all_inheritors(table->relid, NoLock, nullptr)) {
        // Not to be kept: later it takes a stronger one.
        Relation rel = OpenRelation(lfirst_oid(cell), AccessShareLock);
        TupleConstr *constraints = RelationGetDescr(rel)->constr;
        if (HasRowTriggers(rel))
            obstacle = "has triggers, foreign keys or deferrable constraints";
        else if (constraints && (constraints->num_check > 0 || constraints->has_not_null))
            obstacle = "has check or not-null constraints";
        table_close(rel, AccessShareLock);
    }
    return obstacle;
}

void Empty(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid));
    if (!table->on_servers) // what is on servers is made anew
        TruncateUnguarded(table->relid);
    ForgetRetiredNumbers(table->relid, ListRetiredNumbers(table->relid));
}

PendingChange *PrepareColumnChange(const Base *base, List *columns, const char *action) {
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    PendingChange *pending = palloc_object(PendingChange);
    *pending = {.base = base->relid, .changes = NIL, .storage = ListStorage(base->relid)};
    MemoryContextSwitchTo(caller);
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        bool is_used = false;
        bool in_expression = false;
        bool in_first = false;
        bool is_bound = false; // in a key or predicate
        ListCell *cell;
        foreach (cell, columns) {
            AttrNumber attno = lfirst_int(cell);
            is_used = is_used || UsesColumn(table, attno);
            in_expression = in_expression || IsInExpression(table, attno);
            in_first = in_first || IsInKeyColumn(table->key.columns[0], attno);
            for (const KeyColumn &column : std::span(table->key.columns, table->key.count))
                is_bound = is_bound || IsInKeyColumn(column, attno);
        }
        if (!is_used)
            continue;
        CheckIsComplete(table);
        const char *obstacle = table->on_servers ? "is on servers" : ObstacleToReload(table);
        if (!obstacle && in_first && get_rel_relkind(table->relid) == RELKIND_PARTITIONED_TABLE)
            obstacle = "is partitioned by that column";
        if (obstacle)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("cannot %s because index table \"%s\" depends on it", action,
                                   get_rel_name(table->relid)),
                            errdetail("The index table %s.", obstacle),
                            errhint("Drop the index table with index_table.drop(), and create it "
                                    "again afterwards.")));
        ForgetDependencies(table, columns);
        caller = MemoryContextSwitchTo(TopTransactionContext);
        ColumnChange *change = palloc_object(ColumnChange);
        Definition *definition = ReadDefinition(table->relid);
        List *include = definition->include;
        definition->include = NIL;
        *change = {.index_table = table->relid,
                   .statement =
                       is_bound || in_expression ? DefinitionStatement(*definition) : nullptr,
                   .include = include,
                   .in_expression = in_expression,
                   .key = definition->key};
        pending->changes = lappend(pending->changes, change);
        MemoryContextSwitchTo(caller);
    }
    return pending;
}

namespace {

// `reload_all`: rows may have other values than their entries.
void FollowChanges(const PendingChange *pending, bool reload_all) {
    Assert(IsLocked(pending->base, AccessExclusiveLock));
    Oid base_oid = pending->base;
    Relation base = relation_open(base_oid, NoLock);
    OwnerContext owner = EnterOwner(base->rd_rel->relowner);
    ListCell *cell;
    // Before any is read: the base table's columns have types of which they know nothing.
    foreach (cell, pending->changes) {
        const ColumnChange *change = static_cast<ColumnChange *>(lfirst(cell));
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(change->index_table)))
            continue;
        if (change->statement)
            StoreChanged(base_oid, change);
        else
            StoreColumnTypes(change->index_table);
    }
    Invalidate(base_oid);
    foreach (cell, pending->changes) {
        const ColumnChange *change = static_cast<ColumnChange *>(lfirst(cell));
        const IndexTable *table = FindIndexTable(change->index_table);
        if (!table) // dropped by the same command
            continue;
        // What is queued has the old types.
        bool reload = reload_all || change->in_expression || OidIsValid(table->queue);
        if (reload)
            Empty(table);
        ChangeTypes(base, table, reload);
        table = FindIndexTable(change->index_table);
        if (reload) {
            Progress *progress = BeginProgress(base_oid, table->relid, ShareRowExclusiveLock);
            Reload(base, table, progress);
            EndProgress(progress);
            RecordBuild(table->relid);
            if (OidIsValid(table->queue))
                RenewQueue(FindIndexTable(change->index_table));
        }
        table = FindIndexTable(change->index_table);
        ForgetDependencies(table, NIL);
        RecordDependencies(table);
    }
    LeaveOwner(owner);
    relation_close(base, NoLock);
}

} // namespace

void FollowColumnChange(const PendingChange *pending) {
    bool is_rewritten = !equal(pending->storage, ListStorage(pending->base));
    // What a foreign table shows in a column of another type, only reading it tells.
    if (pending->changes != NIL)
        FollowChanges(pending, is_rewritten || HasForeign(FindLeaves(pending->base, NoLock)));
    if (!is_rewritten)
        return;
    // This transaction's older snapshots see the new rows, and not the entries that others have
    // made of them since; those of others see entries of rows that are gone.
    ListCell *cell;
    foreach (cell, ListIndexTables(pending->base))
        RecordBuild(lfirst_oid(cell));
}

} // namespace index_table
