#include "partitions/triggers.h"

#include "catalog/public.h"
#include "core/public.h"
#include "partitions/membership.h"

namespace index_table {

bool HasStatementTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kStatementTrigger, true));
}

// The statement trigger is not cloned: every table of the tree has its own.
void CreateStatementTrigger(Oid relid) {
    FAULT_POINT("triggers.create_statement_trigger");
    if (HasStatementTrigger(relid))
        return;
    // A partition may belong to another role than its base table.
    OwnerContext owner = EnterOwner(RelationOwner(relid));
    const char *name = QualifiedName(relid);
    bool on_truncate = compat::kForeignTablesHaveTruncateTriggers || !IsForeign(relid);
    RunStatement(psprintf("CREATE TRIGGER %s BEFORE INSERT OR UPDATE OR DELETE%s ON %s "
                          "FOR EACH STATEMENT EXECUTE FUNCTION index_table.announce()",
                          kStatementTrigger, on_truncate ? " OR TRUNCATE" : "", name));
    RunStatement(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kStatementTrigger));
    LeaveOwner(owner);
}

void DropTrigger(Oid relid, const char *trigger) {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
        return;
    Oid oid = get_trigger_oid(relid, trigger, true);
    if (!OidIsValid(oid))
        return;
    ObjectAddress address;
    ObjectAddressSet(address, TriggerRelationId, oid);
    performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

void CreateRowTrigger(Oid relid) {
    FAULT_POINT("triggers.create_row_trigger");
    int guc_level = SecureSearchPath();
    const char *name = QualifiedName(relid);
    RunStatement(psprintf("CREATE TRIGGER %s AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW "
                          "EXECUTE FUNCTION index_table.maintain()",
                          kRowTrigger, name));
    // Logical replication's workers run as replicas, and must maintain what they change.
    RunStatement(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, kRowTrigger));
    AtEOXact_GUC(false, guc_level);
}

bool IsRowTrigger(const char *name) {
    return strcmp(name, kRowTrigger) == 0 || strcmp(name, kEarlyRowTrigger) == 0;
}

bool HasRowTrigger(Oid relid) {
    return OidIsValid(get_trigger_oid(relid, kRowTrigger, true)) ||
           OidIsValid(get_trigger_oid(relid, kEarlyRowTrigger, true));
}

bool IsRowTriggerDisabled(Oid relid) {
    return HasOwnTrigger(relid, kRowTrigger, false) ||
           HasOwnTrigger(relid, kEarlyRowTrigger, false);
}

void DropRowTrigger(Oid relid) {
    DropTrigger(relid, kRowTrigger);
    DropTrigger(relid, kEarlyRowTrigger);
}

namespace {

bool RefersToIndexTable(Oid relid) {
    SystemScan scan(ConstraintRelationId, ConstraintRelidTypidNameIndexId,
                    Anum_pg_constraint_conrelid, relid);
    bool found = false;
    while (auto form = scan.Next<Form_pg_constraint>())
        found = found ||
                (form->contype == CONSTRAINT_FOREIGN && OidIsValid(RecordedBase(form->confrelid)));
    scan.End();
    return found;
}

void RenameRowTrigger(Oid relid) {
    ForEachOwnTrigger(relid, RowExclusiveLock,
                      [](Relation triggers, HeapTuple tuple, Form_pg_trigger form) {
                          if (strcmp(NameStr(form->tgname), kRowTrigger) != 0)
                              return;
                          HeapTuple copy = heap_copytuple(tuple);
                          namestrcpy(&reinterpret_cast<Form_pg_trigger>(GETSTRUCT(copy))->tgname,
                                     kEarlyRowTrigger);
                          CatalogTupleUpdate(triggers, &copy->t_self, copy);
                      });
    CacheInvalidateRelcacheByRelid(relid);
    CommandCounterIncrement();
}

} // namespace

void OrderRowTriggers(Oid relid) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(relid, NoLock, nullptr))
        if (OidIsValid(get_trigger_oid(lfirst_oid(cell), kRowTrigger, true)) &&
            RefersToIndexTable(lfirst_oid(cell)))
            RenameRowTrigger(lfirst_oid(cell));
}

namespace {

// Statement triggers do not fire where logical replication applies changes, row triggers fire only
// there: in every session one of them does.
struct QueueTrigger {
    const char *name;
    const char *definition;
    bool is_statement;
};
constexpr QueueTrigger kQueueTriggers[] = {
    {"index_table_queue_insert",
     "INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT", true},
    {"index_table_queue_update",
     "UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT",
     true},
    {"index_table_queue_delete",
     "DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT", true},
    {"index_table_queue_row", "INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW", false},
};

// Raises 42710 where it is somebody else's.
bool HasTrigger(Oid relid, const char *name) {
    Oid trigger = get_trigger_oid(relid, name, true);
    if (OidIsValid(trigger) &&
        get_func_namespace(PlaceOfTrigger(trigger).function) != ExtensionSchema())
        ereport(ERROR,
                (errcode(ERRCODE_DUPLICATE_OBJECT),
                 errmsg("trigger \"%s\" of \"%s\" has a name that deferred maintenance needs", name,
                        get_rel_name(relid)),
                 errhint("Use ALTER TRIGGER ... RENAME TO.")));
    return OidIsValid(trigger);
}

// Whether row triggers are where they are needed, and nowhere else.
bool HasRowTriggers(Oid base, const TriggerNeeds &needs) {
    if (HasRowTrigger(base) != needs.on_base)
        return false;
    if (needs.on_base)
        return true;
    ListCell *cell;
    foreach (cell, FindLeaves(base, NoLock))
        if (lfirst_oid(cell) != base &&
            HasRowTrigger(lfirst_oid(cell)) != (needs.on_local && !IsForeign(lfirst_oid(cell))))
            return false;
    return true;
}

// A statement that runs would end without the triggers that it needs.
void RefuseInUse(Oid base) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr)) {
        Relation rel = relation_open(lfirst_oid(cell), NoLock);
        CheckTableNotInUse(rel, "change the triggers of");
        relation_close(rel, NoLock);
    }
}

void EnsureRowTriggers(Oid base, const TriggerNeeds &needs) {
    if (HasRowTriggers(base, needs))
        return;
    RefuseInUse(base);
    ListCell *cell;
    if (!needs.on_base)
        DropRowTrigger(base);
    foreach (cell, FindLeaves(base, NoLock)) {
        Oid leaf = lfirst_oid(cell);
        if (needs.on_base || !needs.on_local)
            DropRowTrigger(leaf);
        else if (!IsForeign(leaf) && !HasRowTrigger(leaf)) {
            OwnerContext owner = EnterOwner(RelationOwner(leaf));
            CreateRowTrigger(leaf);
            LeaveOwner(owner);
        }
    }
    if (needs.on_base)
        CreateRowTrigger(base);
    OrderRowTriggers(base);
}

bool HasQueueTriggers(Oid relid, bool is_root, bool are_needed) {
    return std::all_of(std::begin(kQueueTriggers), std::end(kQueueTriggers),
                       [=](const QueueTrigger &trigger) {
                           return (!is_root && !trigger.is_statement) ||
                                  HasTrigger(relid, trigger.name) == are_needed;
                       });
}

bool HasQueueTriggers(Oid base, bool are_needed) {
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        if (!HasQueueTriggers(lfirst_oid(cell), lfirst_oid(cell) == base, are_needed))
            return false;
    return true;
}

void EnsureQueueTriggers(Oid base, bool are_needed) {
    if (HasQueueTriggers(base, are_needed))
        return;
    RefuseInUse(base);
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr)) {
        bool is_root = lfirst_oid(cell) == base;
        if (HasQueueTriggers(lfirst_oid(cell), is_root, are_needed))
            continue;
        if (are_needed)
            CreateQueueTriggers(lfirst_oid(cell), is_root);
        else
            DropQueueTriggers(lfirst_oid(cell));
    }
}

} // namespace

namespace {

void CreateQueueTrigger(const QueueTrigger &trigger, Oid relid) {
    const char *name = QualifiedName(relid);
    RunStatement(psprintf("CREATE TRIGGER %s AFTER %s EXECUTE FUNCTION index_table.queue_changes()",
                          trigger.name, psprintf(trigger.definition, name)));
    if (!trigger.is_statement)
        RunStatement(psprintf("ALTER TABLE %s ENABLE REPLICA TRIGGER %s", name, trigger.name));
}

} // namespace

// Partitions may belong to other roles than their base table: each statement trigger is made by the
// owner of its table, the row trigger, which is cloned, by the caller.
void CreateQueueTriggers(Oid relid, bool is_root) {
    FAULT_POINT("triggers.create_queue_triggers");
    for (const QueueTrigger &trigger : kQueueTriggers) {
        if ((!is_root && !trigger.is_statement) || HasTrigger(relid, trigger.name))
            continue;
        if (trigger.is_statement) {
            OwnerContext owner = EnterOwner(RelationOwner(relid));
            CreateQueueTrigger(trigger, relid);
            LeaveOwner(owner);
        } else {
            int guc_level = SecureSearchPath();
            CreateQueueTrigger(trigger, relid);
            AtEOXact_GUC(false, guc_level);
        }
    }
}

// Clones go with what they are clones of.
void DropQueueTriggers(Oid relid) {
    for (const QueueTrigger &trigger : kQueueTriggers)
        if (trigger.is_statement || !get_rel_relispartition(relid))
            DropTrigger(relid, trigger.name);
}

char QueueTriggerMode(const char *name) {
    for (const QueueTrigger &trigger : kQueueTriggers)
        if (strcmp(trigger.name, name) == 0)
            return trigger.is_statement ? TRIGGER_FIRES_ON_ORIGIN : TRIGGER_FIRES_ON_REPLICA;
    return '\0';
}

void AddTriggerNeeds(TriggerNeeds *needs, const IndexOptions &options, bool has_queue) {
    needs->queues = needs->queues || has_queue;
    needs->on_base = needs->on_base || !options.is_deferred;
    needs->on_local = needs->on_local || (options.is_deferred && !has_queue);
}

TriggerNeeds FindTriggerNeeds(Oid base) {
    TriggerNeeds needs = {};
    ListCell *cell;
    foreach (cell, ListIndexTables(base))
        if (const Definition *definition = ReadDefinition(lfirst_oid(cell)))
            AddTriggerNeeds(&needs, definition->options, OidIsValid(definition->queue));
    return needs;
}

void EnsureTriggers(Oid base, const TriggerNeeds &needs) {
    Assert(IsLocked(base, ShareRowExclusiveLock));
    EnsureRowTriggers(base, needs);
    EnsureQueueTriggers(base, needs.queues);
}

void RestoreTriggers(Oid base) {
    TriggerNeeds needs = FindTriggerNeeds(base);
    bool are_there = HasRowTriggers(base, needs) && HasQueueTriggers(base, needs.queues);
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr))
        are_there = are_there && HasStatementTrigger(lfirst_oid(cell));
    if (are_there)
        return;
    LockRelationOid(base, ShareRowExclusiveLock); // first, as writers do
    foreach (cell, find_all_inheritors(base, ShareRowExclusiveLock, nullptr))
        CreateStatementTrigger(lfirst_oid(cell));
    EnsureTriggers(base, needs);
}

void ReportDisabled(int level, Oid base, Oid relid) {
    bool is_of_base = RootOf(relid) == base;
    ereport(level,
            (is_of_base ? errmsg("index tables of \"%s\" do not follow changes of \"%s\" while "
                                 "their triggers are disabled",
                                 get_rel_name(base), get_rel_name(relid))
                        : errmsg("an index table of \"%s\" is out of use while triggers of "
                                 "\"%s\" are disabled",
                                 get_rel_name(base), get_rel_name(relid)),
             errdetail("Queries do without index tables that may have missed changes, and "
                       "these keep no key unique."),
             errhint("They are repaired when all triggers are enabled again.")));
}

void WarnOfDisabled(const IndexTable *table) {
    Oid found = FindDisabledFor(table);
    if (OidIsValid(found))
        ReportDisabled(WARNING, table->base, found);
}

void RequireEnabled(Oid base) {
    Oid found = FindDisabled(base);
    if (OidIsValid(found))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("triggers of \"%s\" are disabled by which index tables of \"%s\" "
                               "follow its changes",
                               get_rel_name(found), get_rel_name(base)),
                        errhint("Use ALTER TABLE ... ENABLE TRIGGER.")));
}

} // namespace index_table
