#include "maintenance/constraint_name.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/violation.h"

namespace index_table {
namespace {

// The row that depends on an index table; InvalidOid: there is none yet.
Oid FindConstraint(Oid base, Oid index_table) {
    SystemScan scan(ConstraintRelationId, ConstraintRelidTypidNameIndexId,
                    Anum_pg_constraint_conrelid, base);
    Oid found = InvalidOid;
    while (auto form = scan.Next<Form_pg_constraint>())
        if (IndexTableOfConstraint(form->oid) == index_table)
            found = form->oid;
    scan.End();
    return found;
}

} // namespace

void EnsureConstraintName(Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    if (!table || !table->options.is_unique || table->options.is_deferrable)
        return;
    // It must not be dropped before it has the row.
    Relation base = try_relation_open(table->base, AccessShareLock);
    if (!base)
        return;
    relation_close(base, NoLock);
    Oid index = FindKeyIndex(table);
    if (!OidIsValid(index))
        return;
    const char *name = get_rel_name(index);
    Oid known = FindConstraint(table->base, relid);
    if (get_relation_constraint_oid(table->base, name, true) == known && OidIsValid(known))
        return;
    if (ConstraintNameIsUsed(CONSTRAINT_RELATION, table->base, name))
        return;
    if (OidIsValid(known)) {
        RenameConstraintById(known, name);
    } else {
        ObjectAddress constraint, self;
        ObjectAddressSet(constraint, ConstraintRelationId,
                         compat::CreateConstraintRow(table->base, name));
        ObjectAddressSet(self, RelationRelationId, relid);
        recordDependencyOn(&constraint, &self, DEPENDENCY_AUTO);
    }
    CommandCounterIncrement();
}

void RemoveConstraintName(Oid relid) {
    Assert(IsLocked(relid, AccessExclusiveLock));
    Oid constraint = FindConstraint(RecordedBase(relid), relid);
    if (!OidIsValid(constraint))
        return;
    Relation constraints = table_open(ConstraintRelationId, RowExclusiveLock);
    HeapTuple tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
    if (HeapTupleIsValid(tuple)) {
        CatalogTupleDelete(constraints, &tuple->t_self);
        ReleaseSysCache(tuple);
        deleteDependencyRecordsFor(ConstraintRelationId, constraint, false);
    }
    table_close(constraints, RowExclusiveLock);
    CommandCounterIncrement();
}

Oid IndexTableOfConstraint(Oid constraint) {
    HeapTuple tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
    if (!HeapTupleIsValid(tuple))
        return InvalidOid;
    Form_pg_constraint form = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(tuple));
    bool is_name = form->contype == CONSTRAINT_TRIGGER;
    Oid base = form->conrelid;
    ReleaseSysCache(tuple);
    Oid found = InvalidOid;
    if (!is_name) // foreign keys depend on index tables, too, on those that they refer to
        return found;
    ForEachDependency(ConstraintRelationId, constraint, AccessShareLock,
                      [&](Relation, HeapTuple, Form_pg_depend form) {
                          if (form->refclassid == RelationRelationId &&
                              RecordedBase(form->refobjid) == base)
                              found = form->refobjid;
                      });
    return found;
}

} // namespace index_table
