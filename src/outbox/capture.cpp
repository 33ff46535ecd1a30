// index_table.capture() and index_table.release().
#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "maintenance/public.h"
#include "outbox/outbox.h"

namespace index_table {
namespace {

// Statement triggers do not fire where logical replication applies changes, row triggers fire only
// there: in every session one of them does. Statements that change the parent of a partition do not
// fire its statement triggers: one that has an outbox by itself has a row trigger for every
// session. One trigger does nothing but have the library loaded before MERGE moves rows.
struct OutboxTrigger {
    const char *name;
    const char *definition;
    char mode;
    bool on_root;
    bool on_members; // other than those that PostgreSQL clones
    bool on_lone_partition;
    bool on_plain_tables = true;
};
constexpr OutboxTrigger kTriggers[] = {
    {"index_table_capture_begin", "BEFORE UPDATE ON %s FOR EACH STATEMENT", TRIGGER_FIRES_ON_ORIGIN,
     true, true, false, false},
    {"index_table_capture_insert",
     "AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT",
     TRIGGER_FIRES_ON_ORIGIN, true, true, false},
    {"index_table_capture_update",
     "AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH "
     "STATEMENT",
     TRIGGER_FIRES_ON_ORIGIN, true, true, false},
    {"index_table_capture_delete",
     "AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT",
     TRIGGER_FIRES_ON_ORIGIN, true, true, false},
    {"index_table_capture_truncate", "AFTER TRUNCATE ON %s FOR EACH STATEMENT",
     TRIGGER_FIRES_ALWAYS, true, true, true},
    {"index_table_capture_row", "AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW",
     TRIGGER_FIRES_ON_REPLICA, true, false, false},
    {"index_table_capture_each_row", "AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW",
     TRIGGER_FIRES_ALWAYS, false, false, true},
};

[[noreturn]] void RaiseCannotHaveOutbox(Relation rel, const char *why, const char *hint) {
    ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                    errmsg("cannot capture \"%s\"", RelationGetRelationName(rel)),
                    errdetail("%s", why), hint ? errhint("%s", hint) : 0));
}

void CheckTable(Relation rel) {
    Oid relid = RelationGetRelid(rel);
    char kind = rel->rd_rel->relkind;
    if (kind == RELKIND_FOREIGN_TABLE)
        RaiseCannotHaveOutbox(rel, "It is a foreign table.",
                              "Call index_table.capture() on the server that has its rows.");
    if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
        RaiseCannotHaveOutbox(rel, "It is neither a plain nor a partitioned table.", nullptr);
    if (IsSystemRelation(rel) || RelationGetNamespace(rel) == ExtensionSchema())
        RaiseCannotHaveOutbox(rel, "It is a system table.", nullptr);
    if (OidIsValid(RecordedBase(relid)) || OidIsValid(OutboxSource(relid)))
        RaiseCannotHaveOutbox(rel, "It is an index table or a queue.", nullptr);
    bool is_partition = rel->rd_rel->relispartition;
    if (is_partition && kind == RELKIND_PARTITIONED_TABLE)
        RaiseCannotHaveOutbox(
            rel, "It is a partition that has partitions.",
            psprintf("Capture its partitions, or \"%s\".", get_rel_name(RootOf(relid))));
    if (is_partition && OidIsValid(OutboxRoot(RootOf(relid))))
        RaiseCannotHaveOutbox(rel, "It is captured with the table that it is a partition of.",
                              nullptr);
    if (IsOfTimescale(relid))
        RaiseCannotHaveOutbox(rel, "It is a hypertable of TimescaleDB, or a part of one.", nullptr);
    if ((has_superclass(relid) && !is_partition) ||
        (kind == RELKIND_RELATION && find_inheritance_children(relid, NoLock) != NIL))
        RaiseCannotHaveOutbox(rel, "It inherits from other tables, or they from it.",
                              "Use declarative partitioning.");
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr)) {
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE)
            RaiseCannotHaveOutbox(
                rel, "Some of its partitions are foreign tables.",
                "Call index_table.capture() on the servers that have their rows.");
        if (get_rel_persistence(lfirst_oid(cell)) != RELPERSISTENCE_PERMANENT)
            RaiseCannotHaveOutbox(rel, "It is temporary or unlogged: rows go untold.",
                                  "Use ALTER TABLE ... SET LOGGED.");
        if (lfirst_oid(cell) != relid && OidIsValid(QueueOf(lfirst_oid(cell))))
            RaiseCannotHaveOutbox(rel,
                                  psprintf("Its partition \"%s\" is captured by itself.",
                                           get_rel_name(lfirst_oid(cell))),
                                  "End that with index_table.release().");
    }
}

List *ResolveIdentity(Relation rel, const char *identity) {
    List *attnos = ParseIdentity(rel, identity, nullptr);
    if (identity && !HasUniqueIndex(rel, attnos, MayBeNull::Yes))
        ereport(ERROR, (errcode(ERRCODE_INVALID_FOREIGN_KEY),
                        errmsg("no unique index covers the identity (%s) of \"%s\"", identity,
                               RelationGetRelationName(rel)),
                        errhint("Name other columns, or create a unique index."), errtable(rel)));
    ListCell *cell;
    foreach (cell, attnos) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), lfirst_int(cell) - 1);
        if (!compat::HoldsNoNull(RelationGetDescr(rel), att->attnum))
            ereport(ERROR, (errcode(ERRCODE_INVALID_TABLE_DEFINITION),
                            errmsg("identity column \"%s\" of \"%s\" may be NULL",
                                   NameStr(att->attname), RelationGetRelationName(rel)),
                            errhint("Declare it NOT NULL, or name other columns."), errtable(rel)));
        if (!OidIsValid(get_array_type(att->atttypid)))
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("identity column \"%s\" of \"%s\" has type %s, of which there "
                                   "are no arrays",
                                   NameStr(att->attname), RelationGetRelationName(rel),
                                   format_type_be(att->atttypid)),
                            errhint("Name other columns."), errtable(rel)));
    }
    return attnos;
}

// The caller is in EnterOwner().
Oid CreateQueue(Relation rel, List *attnos) {
    FAULT_POINT("capture.create_queue");
    Oid schema = RelationGetNamespace(rel);
    char *name = ChooseRelationName(RelationGetRelationName(rel), nullptr, "outbox", schema, false);
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql,
                     "CREATE TABLE %s (number bigint GENERATED ALWAYS AS IDENTITY (INCREMENT BY "
                     "%d) PRIMARY KEY, queued_at timestamptz NOT NULL, changes integer NOT NULL",
                     quote_qualified_identifier(get_namespace_name(schema), name), kNumbersAtOnce);
    for (int i = 0; i < list_length(attnos); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), list_nth_int(attnos, i) - 1);
        appendStringInfo(&sql, ", identity_%d %s[]", i + 1,
                         QualifiedTypeName(QueuedType(att->atttypid)));
        if (OidIsValid(att->attcollation))
            appendStringInfo(&sql, " COLLATE %s", generate_collation_name(att->attcollation));
    }
    // Packs of short identities stay where they are.
    appendStringInfoString(&sql, ") USING heap WITH (toast_tuple_target = 8160)");
    RunStatement(sql.data);
    Oid queue = FindCreated(name, schema);
    RunStatement(psprintf("COMMENT ON TABLE %s IS %s", QualifiedName(queue),
                          quote_literal_cstr(psprintf("changes of %s for index tables elsewhere",
                                                      RelationGetRelationName(rel)))));
    SecureCreated(queue);
    return queue;
}

// The queue goes with the table and with the extension, and keeps columns of the identity.
void RecordDependencies(Oid source, Oid queue, List *attnos) {
    ObjectAddress self, referenced;
    ObjectAddressSet(self, RelationRelationId, queue);
    ObjectAddressSet(referenced, RelationRelationId, source);
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO);
    ListCell *cell;
    foreach (cell, attnos) {
        ObjectAddressSubSet(referenced, RelationRelationId, source, lfirst_int(cell));
        recordDependencyOn(&self, &referenced, DEPENDENCY_NORMAL);
    }
    ObjectAddressSet(referenced, ExtensionRelationId, get_extension_oid("index_table", false));
    recordDependencyOn(&self, &referenced, DEPENDENCY_AUTO_EXTENSION);
}

bool HasDependencies(Oid source, Oid queue) {
    List *found = getAutoExtensionsOfObject(RelationRelationId, queue);
    return found != NIL;
}

Oid Capture(Oid relid, const char *identity) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        RaiseDropped(relid);
    if (!compat::OwnsRelation(relid) && !IsCatalogRelationOid(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
                       get_rel_name(relid));
    Relation rel = OpenRelation(relid, ShareRowExclusiveLock);
    List *tree = find_all_inheritors(relid, ShareRowExclusiveLock, nullptr);
    CheckTable(rel);
    CheckTableNotInUse(rel, "capture");
    if (OidIsValid(QueueOf(relid)))
        ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
                        errmsg("table \"%s\" is captured already", RelationGetRelationName(rel)),
                        errhint("index_table.release() ends that.")));
    List *attnos = ResolveIdentity(rel, identity);
    List *names = NIL;
    ListCell *cell;
    foreach (cell, attnos)
        names = lappend(names, get_attname(relid, lfirst_int(cell), false));
    Oid role = rel->rd_rel->relowner;
    if (compat::CheckSchemaPrivilege(RelationGetNamespace(rel), role, ACL_CREATE) != ACLCHECK_OK)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("permission denied for schema %s",
                               get_namespace_name(RelationGetNamespace(rel))),
                        errhint("The owner of \"%s\", %s, needs CREATE on the schema.",
                                RelationGetRelationName(rel), GetUserNameFromId(role, false))));
    OwnerContext owner = EnterOwner(role);
    Oid queue = CreateQueue(rel, attnos);
    LeaveOwner(owner);
    RecordDependencies(relid, queue, attnos);
    InsertOutbox(relid, queue, names);
    bool is_partition = rel->rd_rel->relispartition;
    relation_close(rel, NoLock); // DDL refuses a table that this session has open
    foreach (cell, tree)
        CreateOutboxTriggers(lfirst_oid(cell), is_partition ? OutboxRole::LonePartition
                                               : lfirst_oid(cell) == relid ? OutboxRole::Root
                                                                           : OutboxRole::Member);
    return queue;
}

void Release(Oid relid) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        RaiseDropped(relid);
    Oid queue = QueueOf(relid);
    if (!OidIsValid(queue))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("table \"%s\" is not captured", get_rel_name(relid))));
    if (!compat::OwnsRelation(relid))
        aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
    LockRelationOid(relid, AccessExclusiveLock);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        RaiseDropped(relid);
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, AccessExclusiveLock, nullptr))
        DropOutboxTriggers(lfirst_oid(cell));
    queue = QueueOf(relid);
    if (!OidIsValid(queue)) // somebody was faster
        return;
    DeleteOutbox(relid);
    ObjectAddress address;
    ObjectAddressSet(address, RelationRelationId, queue);
    performDeletion(&address, DROP_RESTRICT, 0);
}

} // namespace

void CreateOutboxTriggers(Oid relid, OutboxRole role) {
    // A partition may belong to another role than its table.
    OwnerContext owner = EnterOwner(RelationOwner(relid));
    const char *name = QualifiedName(relid);
    for (const OutboxTrigger &trigger : kTriggers) {
        bool is_wanted = role == OutboxRole::Root     ? trigger.on_root
                         : role == OutboxRole::Member ? trigger.on_members
                                                      : trigger.on_lone_partition;
        if (!trigger.on_plain_tables && get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
            is_wanted = false;
        if (!is_wanted || OidIsValid(get_trigger_oid(relid, trigger.name, true)))
            continue;
        RunStatement(psprintf("CREATE TRIGGER %s %s EXECUTE FUNCTION index_table.enqueue()",
                              trigger.name, psprintf(trigger.definition, name)));
        const char *mode = trigger.mode == TRIGGER_FIRES_ALWAYS       ? "ALWAYS"
                           : trigger.mode == TRIGGER_FIRES_ON_REPLICA ? "REPLICA"
                                                                      : "";
        RunStatement(psprintf("ALTER TABLE %s ENABLE %s TRIGGER %s", name, mode, trigger.name));
        RunStatement(psprintf("ALTER TRIGGER %s ON %s DEPENDS ON EXTENSION index_table",
                              trigger.name, name));
    }
    LeaveOwner(owner);
}

char OutboxTriggerMode(const char *name) {
    for (const OutboxTrigger &trigger : kTriggers)
        if (strcmp(trigger.name, name) == 0)
            return trigger.mode;
    return TRIGGER_FIRES_ON_ORIGIN; // somebody's own
}

bool HasOutboxTriggers(Oid relid) {
    return std::any_of(std::begin(kTriggers), std::end(kTriggers),
                       [=](const OutboxTrigger &trigger) {
                           return OidIsValid(get_trigger_oid(relid, trigger.name, true));
                       });
}

// Clones go with what they are clones of.
void DropOutboxTriggers(Oid relid) {
    for (const OutboxTrigger &trigger : kTriggers) {
        Oid oid = get_trigger_oid(relid, trigger.name, true);
        bool is_cloned = trigger.on_root && !trigger.on_members && get_rel_relispartition(relid);
        if (!OidIsValid(oid) || is_cloned)
            continue;
        ObjectAddress address;
        ObjectAddressSet(address, TriggerRelationId, oid);
        performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
    }
}

namespace {

bool HasChanges(Oid queue) {
    OwnerContext owner = EnterOwner(RelationOwner(queue));
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute(psprintf("SELECT FROM %s LIMIT 1", QualifiedName(queue)), false, 1) !=
        SPI_OK_SELECT)
        elog(ERROR, "cannot read queue");
    bool has_changes = SPI_processed > 0;
    SPI_finish();
    LeaveOwner(owner);
    return has_changes;
}

} // namespace

void RefuseLossOfQueues() {
    ListCell *cell;
    foreach (cell, ListOutboxTables()) {
        const char *name = get_rel_name(lfirst_oid(cell));
        Oid queue = QueueOf(lfirst_oid(cell));
        if (!name || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)) || !HasChanges(queue))
            continue;
        ereport(
            ERROR,
            (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
             errmsg("cannot drop extension \"index_table\" because changes of \"%s\" are queued",
                    name),
             errdetail("Its outbox would be dropped with what is in it."),
             errhint("Drain it where its index tables are, or release it with "
                     "index_table.release(); or use DROP ... CASCADE.")));
    }
}

void EnsureQueueDependencies() {
    ListCell *cell;
    foreach (cell, ListOutboxTables()) {
        Oid source = lfirst_oid(cell);
        Oid queue = QueueOf(source);
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(source)) ||
            !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(queue)) ||
            HasDependencies(source, queue))
            continue;
        List *attnos = NIL;
        ListCell *name;
        foreach (name, OutboxIdentity(source)) {
            AttrNumber attno = get_attnum(source, static_cast<const char *>(lfirst(name)));
            if (attno > 0)
                attnos = lappend_int(attnos, attno);
        }
        RecordDependencies(source, queue, attnos);
        CommandCounterIncrement();
    }
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_capture) {
    PreventCommandDuringRecovery("index_table.capture()");
    if (PG_ARGISNULL(0))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("argument captured of index_table.capture() must not be null")));
    PG_RETURN_OID(Capture(PG_GETARG_OID(0),
                          PG_ARGISNULL(1) ? nullptr : text_to_cstring(PG_GETARG_TEXT_PP(1))));
}

SQL_FUNCTION(index_table_release) {
    PreventCommandIfReadOnly("index_table.release()");
    PreventCommandDuringRecovery("index_table.release()");
    Release(PG_GETARG_OID(0));
    PG_RETURN_VOID();
}
