// What PostgreSQL is told of the objects that index tables depend on.
#include "build/build.h"
#include "build/query.h"

namespace index_table {
namespace {

bool HasDependencies(Oid index_table, Oid base) {
    Relation depend = table_open(DependRelationId, AccessShareLock);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(RelationRelationId));
    ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(index_table));
    SysScanDesc scan = systable_beginscan(depend, DependDependerIndexId, true, nullptr, 2, keys);
    bool found = false;
    while (HeapTuple tuple = systable_getnext(scan)) {
        Form_pg_depend form = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
        found = found || (form->objsubid == 0 && form->refclassid == RelationRelationId &&
                          form->refobjid == base && form->refobjsubid == 0);
    }
    systable_endscan(scan);
    table_close(depend, AccessShareLock);
    return found;
}

void RecordMissing(const Base *base) {
    for (const IndexTable *table : std::span(base->tables, base->table_count))
        if (!HasDependencies(table->relid, base->relid))
            RecordDependencies(table);
    CommandCounterIncrement();
}

// A definition that cannot be parsed must not keep anybody from dropping what is in the way.
void TryRecordMissing(Oid base) {
    MemoryContext context = CurrentMemoryContext;
    ResourceOwner resource_owner = CurrentResourceOwner;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        // Planning a key may evaluate functions of the owner's.
        OwnerContext owner = EnterOwner(RelationOwner(base));
        if (const Base *known = FindBase(base))
            RecordMissing(known);
        LeaveOwner(owner);
        ReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        ErrorData *error = CopyErrorData();
        if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
            PG_RE_THROW();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        ereport(WARNING, (errmsg("cannot tell what the index tables of \"%s\" depend on: %s",
                                 get_rel_name(base), error->message),
                          errhint("Drop them, and create them again with index_table.create().")));
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = resource_owner;
}

} // namespace

void RecordDependencies(const IndexTable *table) {
    ObjectAddress self, referenced;
    ObjectAddressSet(self, RelationRelationId, table->relid);
    ObjectAddressSet(referenced, RelationRelationId, table->base);
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    for (int i = 0; i < table->key.count; i++)
        recordDependencyOnSingleRelExpr(&self,
                                        reinterpret_cast<Node *>(table->key.columns[i].whole),
                                        table->base, DEPENDENCY_NORMAL, DEPENDENCY_AUTO, false);
    if (table->predicate)
        recordDependencyOnSingleRelExpr(&self, reinterpret_cast<Node *>(table->predicate),
                                        table->base, DEPENDENCY_NORMAL, DEPENDENCY_AUTO, false);
    for (int i = 0; i < table->identity_count; i++) {
        ObjectAddressSubSet(referenced, RelationRelationId, table->base,
                            table->identity[i].base_attno);
        recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    }
    for (const CopiedColumn &column : std::span(table->include, table->include_count))
        RecordCopyDependency(table, column);
}

void EnsureDependencies() {
    ListCell *base;
    foreach (base, ListBases()) {
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(base))))
            continue;
        bool complete = true;
        ListCell *table;
        foreach (table, ListIndexTables(lfirst_oid(base)))
            complete = complete && HasDependencies(lfirst_oid(table), lfirst_oid(base));
        if (!complete)
            TryRecordMissing(lfirst_oid(base));
    }
}

} // namespace index_table
