#include "create/dependencies.h"

#include "catalog/public.h"

namespace index_table {
namespace {

// The relations that have the columns of an index table: it, its partitions and its log.
List *ListRelations(const IndexTable *table) {
    List *relations = find_all_inheritors(table->relid, NoLock, nullptr);
    if (OidIsValid(table->log))
        relations = lappend_oid(relations, table->log);
    return relations;
}

bool HasDependencies(Oid index_table, Oid base) {
    bool found = false;
    ForEachDependency(RelationRelationId, index_table, AccessShareLock,
                      [&](Relation, HeapTuple, Form_pg_depend form) {
                          found = found ||
                                  (form->objsubid == 0 && form->refclassid == RelationRelationId &&
                                   form->refobjid == base && form->refobjsubid == 0);
                      });
    return found;
}

// Whether some index tables of a base table have none.
bool LackDependencies(Oid base) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        return false;
    ListCell *cell;
    foreach (cell, ListIndexTables(base))
        if (!HasDependencies(lfirst_oid(cell), base))
            return true;
    return false;
}

} // namespace

void RecordCopyDependency(const IndexTable *table, const CopiedColumn &column) {
    ListCell *cell;
    foreach (cell, ListRelations(table)) {
        Relation rel = table_open(lfirst_oid(cell), AccessShareLock);
        AttrNumber attno = LiveColumn(rel, table, column.position);
        table_close(rel, NoLock);
        ObjectAddress copy, original;
        ObjectAddressSubSet(copy, RelationRelationId, lfirst_oid(cell), attno);
        ObjectAddressSubSet(original, RelationRelationId, table->base, column.base_attno);
        recordDependencyOn(&copy, &original, DEPENDENCY_AUTO);
    }
}

namespace {

// CreateLog() records one, a dump has none. AUTO: pg_restore --clean drops the log first.
void RecordLogDependency(const IndexTable *table) {
    if (!OidIsValid(table->log) || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->log)) ||
        HasDependencies(table->log, table->relid))
        return;
    ObjectAddress log, self;
    ObjectAddressSet(log, RelationRelationId, table->log);
    ObjectAddressSet(self, RelationRelationId, table->relid);
    recordDependencyOn(&log, &self, DEPENDENCY_AUTO);
}

} // namespace

void RecordDependencies(const IndexTable *table) {
    Assert(IsKnown(table));
    ObjectAddress self, referenced;
    ReleaseDefinition(table->relid);
    RecordLogDependency(table);
    ObjectAddressSet(self, RelationRelationId, table->relid);
    ObjectAddressSet(referenced, RelationRelationId, table->base);
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    auto depend_on = [&](const void *expr) {
        recordDependencyOnSingleRelExpr(&self, static_cast<Node *>(const_cast<void *>(expr)),
                                        table->base, DEPENDENCY_NORMAL, DEPENDENCY_AUTO, false);
    };
    for (const KeyColumn &column : std::span(table->key.columns, table->key.count)) {
        depend_on(column.whole);
        ObjectAddressSet(referenced, OperatorClassRelationId, column.opclass);
        recordDependencyOn(&self, &referenced, DEPENDENCY_NORMAL);
        if (!OidIsValid(column.collation))
            continue;
        ObjectAddressSet(referenced, CollationRelationId, column.collation);
        recordDependencyOn(&self, &referenced, DEPENDENCY_NORMAL);
    }
    if (table->predicate)
        depend_on(table->predicate);
    for (int i = 0; i < table->identity_count; i++) {
        ObjectAddressSubSet(referenced, RelationRelationId, table->base,
                            table->identity[i].base_attno);
        recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    }
    for (const CopiedColumn &column : std::span(table->include, table->include_count))
        RecordCopyDependency(table, column);
}

void ForgetDependencies(const IndexTable *table, List *columns) {
    Assert(IsKnown(table));
    ListCell *cell;
    foreach (cell, ListRelations(table))
        ForEachDependency(RelationRelationId, lfirst_oid(cell), RowExclusiveLock,
                          [&](Relation depend, HeapTuple tuple, Form_pg_depend form) {
                              if (form->refclassid == RelationRelationId &&
                                  form->refobjid == table->base &&
                                  (columns == NIL || list_member_int(columns, form->refobjsubid)))
                                  CatalogTupleDelete(depend, &tuple->t_self);
                          });
    CommandCounterIncrement();
}

namespace {

// A queue or a log goes with its index table as before, and may go without: pg_restore --clean
// drops it first.
void ReleaseOwned(Oid index_table) {
    List *owned = NIL;
    ForEachDependent(
        RelationRelationId, index_table, DEPENDENCY_INTERNAL, [&](Oid class_id, Oid object) {
            if (class_id == RelationRelationId && get_rel_relkind(object) != RELKIND_TOASTVALUE)
                owned = lappend_oid(owned, object);
        });
    ListCell *cell;
    foreach (cell, owned) {
        deleteDependencyRecordsForSpecific(RelationRelationId, lfirst_oid(cell),
                                           DEPENDENCY_INTERNAL, RelationRelationId, index_table);
        ObjectAddress relation, self;
        ObjectAddressSet(relation, RelationRelationId, lfirst_oid(cell));
        ObjectAddressSet(self, RelationRelationId, index_table);
        recordDependencyOn(&relation, &self, DEPENDENCY_AUTO);
    }
}

} // namespace

void BecomePlain(Oid index_table, Oid base) {
    auto follows = [=](Form_pg_depend form) {
        switch (form->refclassid) {
        case RelationRelationId:
            return form->refobjid == base && form->refobjsubid != 0;
        case ProcedureRelationId:
        case OperatorRelationId:
        case OperatorClassRelationId:
            return form->objsubid == 0;
        default:
            return false;
        }
    };
    ListCell *cell;
    foreach (cell, find_all_inheritors(index_table, NoLock, nullptr))
        ForEachDependency(RelationRelationId, lfirst_oid(cell), RowExclusiveLock,
                          [&](Relation depend, HeapTuple tuple, Form_pg_depend form) {
                              if (follows(form))
                                  CatalogTupleDelete(depend, &tuple->t_self);
                          });
    ReleaseOwned(index_table);
    CommandCounterIncrement();
}

void EnsureDependencies(Oid base_oid) {
    const Base *base = LackDependencies(base_oid) ? FindBase(base_oid) : nullptr;
    if (!base)
        return;
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (!HasDependencies(table->relid, base_oid))
            RecordDependencies(table);
    CommandCounterIncrement();
}

namespace {

// A definition that cannot be parsed must not keep anybody from dropping what is in the way.
void TryEnsureDependencies(Oid base) {
    const char *error = TryInSubtransaction([=] {
        // Planning a key may evaluate functions of the owner's.
        OwnerContext owner = EnterOwner(RelationOwner(base));
        EnsureDependencies(base);
        LeaveOwner(owner);
    });
    if (error)
        ereport(WARNING, (errmsg("cannot tell what the index tables of \"%s\" depend on: %s",
                                 get_rel_name(base), error),
                          errhint("Drop them, and create them again with index_table.create().")));
}

} // namespace

void EnsureAllDependencies() {
    ListCell *cell;
    foreach (cell, ListBases()) {
        if (!LackDependencies(lfirst_oid(cell)))
            continue;
        TryEnsureDependencies(lfirst_oid(cell));
    }
}

} // namespace index_table
