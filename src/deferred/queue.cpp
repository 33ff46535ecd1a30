#include "deferred/queue.h"

#include "core/public.h"
#include "deferred/pack_reader.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

// What a queue has for a column of the identity.
char *ArrayType(Relation base, const IndexTable *table, int i) {
    Form_pg_attribute att =
        TupleDescAttr(RelationGetDescr(base), table->identity[i].base_attno - 1);
    if (!OidIsValid(get_array_type(att->atttypid)))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("identity column \"%s\" of \"%s\" has type %s, of which there "
                               "are no arrays",
                               NameStr(att->attname), RelationGetRelationName(base),
                               format_type_be(att->atttypid)),
                        errhint("Use maintenance => 'immediate'.")));
    const char *collate = OidIsValid(att->attcollation)
                              ? psprintf(" COLLATE %s", generate_collation_name(att->attcollation))
                              : "";
    return psprintf("%s[]%s", QualifiedTypeName(QueuedType(att->atttypid)), collate);
}

char *ColumnList(const IndexTable *table) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(
        &sql, "part smallint NOT NULL, queued_at timestamptz NOT NULL, changes integer NOT NULL, "
              "keys bytea, error text, tries integer, retry_at timestamptz");
    Relation base = relation_open(table->base, AccessShareLock);
    for (int i = 0; i < table->identity_count; i++)
        appendStringInfo(&sql, ", identity_%d %s", i + 1, ArrayType(base, table, i));
    relation_close(base, AccessShareLock);
    return sql.data;
}

char *ChooseName(Oid schema, const char *table, const char *label) {
    return quote_qualified_identifier(get_namespace_name(schema),
                                      ChooseRelationName(table, nullptr, label, schema, false));
}

// It goes with the index table, and not without it.
void Attach(Oid queue, Oid index_table) {
    ObjectAddress self, owner;
    ObjectAddressSet(self, RelationRelationId, queue);
    ObjectAddressSet(owner, RelationRelationId, index_table);
    recordDependencyOn(&self, &owner, DEPENDENCY_INTERNAL);
    CommandCounterIncrement();
}

bool IsAttached(Oid queue, Oid index_table) {
    bool found = false;
    ForEachDependency(RelationRelationId, queue, AccessShareLock,
                      [&](Relation, HeapTuple, Form_pg_depend form) {
                          found = found || (form->refclassid == RelationRelationId &&
                                            form->refobjid == index_table &&
                                            form->deptype == DEPENDENCY_INTERNAL);
                      });
    return found;
}

} // namespace

void AdoptQueue(const IndexTable *table) {
    if (FindQueue(table) && !IsAttached(table->queue, table->relid))
        Attach(table->queue, table->relid);
}

Oid CreateQueue(const IndexTable *table) {
    Assert(IsInOwnerOf(table->relid));
    Oid schema = get_rel_namespace(table->relid);
    List *storage = StorageOf(table->relid, NoLock);
    const char *persistence =
        get_rel_persistence(linitial_oid(storage)) == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "";
    char *name = ChooseRelationName(get_rel_name(table->relid), nullptr, "queue", schema, false);
    char *qualified = quote_qualified_identifier(get_namespace_name(schema), name);
    RunStatement(
        psprintf("CREATE TABLE %s (%s) PARTITION BY LIST (part)", qualified, ColumnList(table)));
    Oid queue = FindCreated(name, schema);
    for (int i = 1; i <= kQueueParts; i++)
        // Packs of short identities stay where they are.
        RunStatement(psprintf("CREATE %sTABLE %s PARTITION OF %s FOR VALUES IN (%d) USING heap "
                              "WITH (toast_tuple_target = 8160)",
                              persistence, ChooseName(schema, name, psprintf("%d", i)), qualified,
                              i));
    ForgetEmptied(queue); // what had these numbers before may have been dropped unseen
    Attach(queue, table->relid);
    RunStatement(psprintf("COMMENT ON TABLE %s IS %s", qualified,
                          quote_literal_cstr("changed rows, for the deferred maintenance of an "
                                             "index table")));
    SecureCreated(queue); // parts, too, before their guards are made
    CreateGuard(queue);
    SecureCreated(queue);
    RequestDrainWorker();
    return queue;
}

void DropQueue(Oid index_table, Oid queue) {
    if (!OidIsValid(queue) || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)) ||
        !IsAttached(queue, index_table))
        return;
    LockRelationOid(queue, AccessExclusiveLock);
    find_all_inheritors(queue, AccessExclusiveLock, nullptr);
    ForgetEmptied(queue);
    // Else it could go with the index table only.
    deleteDependencyRecordsFor(RelationRelationId, queue, true);
    CommandCounterIncrement();
    ObjectAddress address;
    ObjectAddressSet(address, RelationRelationId, queue);
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

void EnsureQueue(const IndexTable *table) {
    Assert(IsLocked(table->base, ShareRowExclusiveLock) && IsInOwnerOf(table->relid));
    if (!LacksQueue(table))
        return;
    LockRelationOid(table->relid, AccessExclusiveLock);
    DropQueue(table->relid, table->queue); // one that does not fit
    SetMaintenance(table->relid, true, CreateQueue(table));
}

namespace {

// Whether what is recorded as the queue of an index table is one, but for the types of its columns.
bool HasQueueBefore(const IndexTable *table) {
    return get_rel_relkind(table->queue) == RELKIND_PARTITIONED_TABLE &&
           IsAttached(table->queue, table->relid) &&
           get_attnum(table->queue, psprintf("identity_%d", table->identity_count)) ==
               kPackIdentity - 1 + table->identity_count;
}

} // namespace

// The queue is altered where there is one: whoever may alter the base table need not be allowed to
// create another table in its schema.
void RenewQueue(const IndexTable *table) {
    Assert(IsLocked(table->base, AccessExclusiveLock) && IsInOwnerOf(table->relid));
    if (!HasQueueBefore(table)) {
        SetMaintenance(table->relid, true, InvalidOid);
        DropQueue(table->relid, table->queue);
        SetMaintenance(table->relid, true, CreateQueue(table));
        return;
    }
    TruncateUnguarded(table->queue);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "ALTER TABLE %s ", QualifiedName(table->queue));
    Relation base = relation_open(table->base, AccessShareLock);
    for (int i = 0; i < table->identity_count; i++)
        appendStringInfo(&sql, "%sALTER COLUMN identity_%d TYPE %s USING NULL", i ? ", " : "",
                         i + 1, ArrayType(base, table, i));
    relation_close(base, AccessShareLock);
    ExecuteUnguarded(sql.data);
    KeepOwner(table->queue, GetUserId()); // of an event trigger for ALTER TABLE
}

void ClearQueue(const IndexTable *table) {
    Assert(IsLocked(table->base, ShareRowExclusiveLock));
    PackReader reader;
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    LockPart(table->relid, LockedPart::Drain, ExclusiveLock);
    if (OpenPackReader(&reader, table, snapshot, RowExclusiveLock)) {
        ForEachPack(&reader, [&](const Pack &pack) {
            simple_heap_delete(reader.parts[pack.part], &pack.slot->tts_tid);
            return true;
        });
        ClosePackReader(&reader);
    }
    UnregisterSnapshot(snapshot);
}

void CheckMayQueue(const IndexTable *table) {
    if (has_superclass(table->base))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("an index table of \"%s\" cannot be maintained deferred",
                               get_rel_name(table->base)),
                        errdetail("It inherits from another table: what statements on that one "
                                  "change here would not be queued."),
                        errhint("Use maintenance => 'immediate'.")));
    if (table->identity_is_unique)
        return;
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("an index table of \"%s\" cannot be maintained deferred",
                           get_rel_name(table->base)),
                    errdetail("No primary key or unique constraint of \"%s\" over NOT NULL columns "
                              "consists of its identity.",
                              get_rel_name(table->base)),
                    errhint("Find rows by such columns: identity => 'column, column'.")));
}

} // namespace index_table
