#include "ddl/triggers.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "ddl/event.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// When a trigger fires that is not disabled.
char FiringMode(Form_pg_trigger form) {
    if (IsOfOutbox(form))
        return OutboxTriggerMode(NameStr(form->tgname));
    if (char mode = QueueTriggerMode(NameStr(form->tgname)))
        return mode;
    return TRIGGER_FIRES_ALWAYS;
}

// ENABLE TRIGGER means: not in sessions that replicate. Those of base tables fire there too, or not
// at all; of those that queue changes some fire there and some elsewhere.
void RestoreFiringModes(Oid relid) {
    bool changed = false;
    ForEachOwnTrigger(relid, RowExclusiveLock,
                      [&](Relation triggers, HeapTuple tuple, Form_pg_trigger form) {
                          char mode = FiringMode(form);
                          if (form->tgenabled == TRIGGER_DISABLED || form->tgenabled == mode)
                              return;
                          HeapTuple copy = heap_copytuple(tuple);
                          reinterpret_cast<Form_pg_trigger>(GETSTRUCT(copy))->tgenabled = mode;
                          CatalogTupleUpdate(triggers, &copy->t_self, copy);
                          changed = true;
                      });
    if (!changed)
        return;
    CacheInvalidateRelcacheByRelid(relid);
    CommandCounterIncrement();
}

// --- What is missed meanwhile -----------------------------------------------

// pg_dump has its sessions set it off.
bool IsLoadingDump() {
    return !check_function_bodies;
}

// Index tables that do not follow their base table without triggers of one relation.
struct Dependents {
    Oid base; // InvalidOid: there are none
    List *index_tables;
};

Dependents FindDependents(Oid relid) {
    Oid root = RootOf(relid);
    if (IsBase(root))
        return {.base = root, .index_tables = ListIndexTables(root)};
    // An index table, its queue or its log.
    Oid index_table = HasGuard(relid) ? GuardedIndexTable(relid) : InvalidOid;
    if (!OidIsValid(index_table))
        return {};
    return {.base = RecordedBase(index_table), .index_tables = list_make1_oid(index_table)};
}

enum class Switch { None, Enable, Disable };

Switch SwitchOf(const AlterTableCmd *command) {
    switch (command->subtype) {
    case AT_EnableTrig:
    case AT_EnableAlwaysTrig:
    case AT_EnableReplicaTrig:
    case AT_EnableTrigAll:
    case AT_EnableTrigUser:
        return Switch::Enable;
    case AT_DisableTrig:
    case AT_DisableTrigAll:
    case AT_DisableTrigUser:
        return Switch::Disable;
    default:
        return Switch::None;
    }
}

// Those that a command descends to.
List *ListSwitched(Oid relid, bool recurses) {
    return recurses ? find_all_inheritors(relid, NoLock, nullptr) : list_make1_oid(relid);
}

// Whether a command concerns triggers of the extension's that are enabled, or disabled.
bool Concerns(const AlterTableCmd *command, List *relids, bool enabled) {
    ListCell *cell;
    foreach (cell, relids)
        if (HasOwnTrigger(lfirst_oid(cell), command->name, enabled))
            return true;
    return false;
}

// The same of disabled triggers by which a captured table's changes are queued.
bool ConcernsOutbox(const AlterTableCmd *command, List *relids) {
    bool found = false;
    ListCell *cell;
    foreach (cell, relids)
        ForEachOwnTrigger(
            lfirst_oid(cell), AccessShareLock, [&](Relation, HeapTuple, Form_pg_trigger form) {
                found = found ||
                        (IsOfOutbox(form) && form->tgenabled == TRIGGER_DISABLED &&
                         (!command->name || strcmp(NameStr(form->tgname), command->name) == 0));
            });
    return found;
}

// A dump may have brought entries by now; whoever else disables triggers brings none.
void MarkMissed(const Dependents &dependents) {
    ListCell *cell;
    foreach (cell, dependents.index_tables)
        if (!IsLoadingDump() || RecordedState(lfirst_oid(cell)) == TableState::Built)
            SetState(lfirst_oid(cell), TableState::Missed);
}

// Dumps disable ALL, so that a warning for each partition would drown what else they have to say:
// they hide notices.
void FollowDisabled(const AlterTableCmd *command, Oid relid) {
    Dependents dependents = FindDependents(relid);
    if (!OidIsValid(dependents.base) || !HasOwnTrigger(relid, command->name, false))
        return;
    MarkMissed(dependents);
    Invalidate(dependents.base); // sessions may have looked at what is restored
    ReportDisabled(command->subtype == AT_DisableTrigAll ? NOTICE : WARNING, dependents.base,
                   relid);
}

// Whether an index table can be compared in this transaction: what is on servers is seen under one
// snapshot until it ends.
bool MayCompare(const IndexTable *table) {
    List *leaves = FindLeaves(table->base, NoLock);
    if (table->on_servers)
        leaves = list_concat(leaves, find_inheritance_children(table->relid, NoLock));
    return !HasForeign(leaves) || !HasUsedServers(leaves);
}

void Repair(const IndexTable *table) {
    Oid relid = table->relid;
    Oid base = table->base;
    if (!MayCompare(table)) {
        ereport(WARNING,
                (errmsg("index table \"%s\" may have missed changes of \"%s\"", get_rel_name(relid),
                        get_rel_name(base)),
                 errdetail("It cannot be compared in a transaction that has used the servers of "
                           "partitions."),
                 errhint("Call index_table.repair() in another one.")));
        return;
    }
    OwnerContext owner = EnterOwner(RelationOwner(base)); // a partition may be another role's
    int64 problems = RepairIndexTable(LockIndexTable(table, AccessShareLock));
    LeaveOwner(owner);
    if (problems > 0)
        ereport(NOTICE, (errmsg("index table \"%s\" has been repaired", get_rel_name(relid)),
                         errdetail("It had missed changes of \"%s\": %lld of its entries were "
                                   "missing, stale or wrong.",
                                   get_rel_name(base), static_cast<long long>(problems))));
}

// --- Loading -----------------------------------------------------------------

// What index tables of a base table hold may have been loaded beside what they say they hold.
// Several sessions may be loading. Who is no superuser loads what is his own, and must not keep
// others from what is theirs.
void LookAgain(Oid base) {
    bool for_all = superuser();
    LockRelationOid(ExtensionRelation("definition"),
                    for_all ? ShareRowExclusiveLock : RowExclusiveLock);
    if (!for_all)
        LockPart(base, LockedPart::Settling, ExclusiveLock);
    ListCell *cell;
    foreach (cell, ListIndexTables(base))
        SetState(lfirst_oid(cell), TableState::Restored);
}

void LookAgain() {
    ListCell *base;
    foreach (base, ListBases())
        LookAgain(lfirst_oid(base));
    CacheInvalidateRelcacheAll();
}

// Entries have been loaded past the guard of an index table, with numbers of a dump: with those of
// rows that were loaded past triggers, if there are such.
void LookAgainAt(Oid relid) {
    Oid root = get_rel_relispartition(relid) ? llast_oid(get_partition_ancestors(relid)) : relid;
    if (!OidIsValid(RecordedBase(root)))
        return;
    if (RecordedState(root) == TableState::Missed)
        SetState(root, TableState::Built);
    SetState(root, TableState::Restored);
}

bool IsOwn(Oid relid) {
    return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) && compat::OwnsRelation(relid);
}

// Whether the relations that a row of a catalog table names exist, and the user owns them.
bool NamesOwnRelations(Relation rel, HeapTuple row) {
    TupleDesc descriptor = RelationGetDescr(rel);
    Oid type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum("relation"),
                               ObjectIdGetDatum(ExtensionSchema()));
    for (int i = 0; i < descriptor->natts; i++) {
        bool isnull;
        Datum value = heap_getattr(row, i + 1, descriptor, &isnull);
        if (TupleDescAttr(descriptor, i)->atttypid != type)
            continue;
        if (isnull || !IsOwn(DatumGetObjectId(value)))
            return false;
    }
    return true;
}

Datum ValueOf(Relation rel, HeapTuple row, const char *column) {
    bool isnull;
    TupleDesc descriptor = RelationGetDescr(rel);
    return SPI_getbinval(row, descriptor, SPI_fnumber(descriptor, column), &isnull);
}

bool IsOf(Relation rel, const char *table) {
    return strcmp(RelationGetRelationName(rel), table) == 0;
}

// Whether a row gives a number to a partition that has been given one since the schema was
// restored, or takes back one that has been given. What was loaded with the old ones is to be
// looked at.
bool IsNumbered(Relation rel, HeapTuple row) {
    if (IsOf(rel, "retired_partition"))
        return OidIsValid(FindPartition(DatumGetObjectId(ValueOf(rel, row, "base")),
                                        DatumGetInt32(ValueOf(rel, row, "partition_id"))));
    if (!IsOf(rel, "partition"))
        return false;
    Oid leaf = DatumGetObjectId(ValueOf(rel, row, "relation"));
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (number && IsOwn(number->base))
        LookAgain(number->base);
    return number.has_value();
}

bool IsLeafOf(Oid leaf, Oid base) {
    return leaf == base || list_member_oid(get_partition_ancestors(leaf), base);
}

// Whether a row of a catalog table is loaded.
bool IsWanted(Relation rel, HeapTuple row) {
    if (!NamesOwnRelations(rel, row) || IsNumbered(rel, row))
        return false;
    if (IsOf(rel, "captured"))
        return FitsOutbox(DatumGetObjectId(ValueOf(rel, row, "captured")),
                          DatumGetObjectId(ValueOf(rel, row, "queue")),
                          ValueOf(rel, row, "identity"));
    if (IsOf(rel, "partition") && !IsLeafOf(DatumGetObjectId(ValueOf(rel, row, "relation")),
                                            DatumGetObjectId(ValueOf(rel, row, "base"))))
        return false;
    if (IsOf(rel, "partition") || IsOf(rel, "retired_partition"))
        SkipLoadedNumber(DatumGetInt32(ValueOf(rel, row, "partition_id")));
    return true;
}

} // namespace

EnabledTriggers PrepareTriggers(const AlterTableStmt *statement, Oid relid) {
    EnabledTriggers enabled = {};
    ListCell *cell;
    foreach (cell, statement->cmds) {
        const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
        Switch what = SwitchOf(command);
        if (what == Switch::None || !compat::OwnsRelation(relid))
            continue;
        Dependents dependents = FindDependents(relid);
        List *relids = ListSwitched(relid, statement->relation->inh);
        if (what == Switch::Enable && ConcernsOutbox(command, relids))
            enabled.of_outbox = true;
        if (!OidIsValid(dependents.base) || !Concerns(command, relids, what == Switch::Disable))
            continue;
        // The base table first, as writers do; to repair takes all of it.
        if (!IsLoadingDump() && what == Switch::Enable)
            LockOutWriters(dependents.base);
        else if (!IsLoadingDump())
            LockRelationOid(dependents.base, ShareRowExclusiveLock);
        // They may have been disabled while event triggers were off, or a dump did it.
        if (what == Switch::Enable) {
            MarkMissed(dependents);
            enabled.of_index_tables = true;
        }
    }
    return enabled;
}

void FollowTriggers(const AlterTableCmd *command, Oid relid, bool recursed) {
    ListCell *cell;
    switch (SwitchOf(command)) {
    case Switch::None:
        break;
    case Switch::Disable:
        FollowDisabled(command, relid);
        break;
    case Switch::Enable:
        foreach (cell, ListSwitched(relid, recursed))
            RestoreFiringModes(lfirst_oid(cell));
        // Numbers have been loaded, of which no session knows, and rows, past all triggers.
        if (get_rel_namespace(relid) == ExtensionSchema())
            LookAgain();
        else if (IsLoadingDump() && (!command->name || strcmp(command->name, kGuard) == 0))
            LookAgainAt(relid);
        break;
    }
}

void FollowEnabled(Oid relid, EnabledTriggers enabled) {
    if (enabled.of_outbox)
        EnqueueReload(relid);
    if (!enabled.of_index_tables)
        return;
    Dependents dependents = FindDependents(relid);
    if (!OidIsValid(dependents.base))
        return;
    Invalidate(dependents.base);
    ListCell *cell;
    if (IsLoadingDump())
        return;
    foreach (cell, dependents.index_tables) {
        const IndexTable *table = RecordedState(lfirst_oid(cell)) == TableState::Missed
                                      ? FindIndexTable(lfirst_oid(cell))
                                      : nullptr;
        // What is being built begins anew by rebuild().
        if (table && !OidIsValid(table->log) && !OidIsValid(FindDisabledFor(table)))
            Repair(table);
    }
}

void FollowDroppedTrigger(Oid relid, const char *name) {
    bool is_own = IsRowTrigger(name) || strcmp(name, kStatementTrigger) == 0 ||
                  QueueTriggerMode(name) != '\0';
    // Dumps with --clean drop them, and what they belong to.
    if (is_own && IsBase(RootOf(relid)) && !IsLoadingDump())
        MarkMissed(FindDependents(relid));
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_load) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.load()");
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        RaiseFiredWrongly("index_table.load()", "BEFORE INSERT, FOR EACH ROW");
    bool is_wanted = IsWanted(trigger->tg_relation, trigger->tg_trigtuple);
    return PointerGetDatum(is_wanted ? trigger->tg_trigtuple : nullptr);
}
