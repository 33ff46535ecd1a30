#include "ddl/triggers.h"

#include "build/guard.h"
#include "catalog/definition.h"
#include "queue/queue.h"

namespace index_table {
namespace {

// Calls `visit` with each trigger of a relation that calls a function of the extension: there may
// be no definition yet when a dump is restored.
template <typename Visit>
void ForEachOwnTrigger(Oid relid, LOCKMODE mode, Visit visit) {
    Relation triggers = table_open(TriggerRelationId, mode);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
                ObjectIdGetDatum(relid));
    SysScanDesc scan =
        systable_beginscan(triggers, TriggerRelidNameIndexId, true, nullptr, 1, &key);
    while (HeapTuple tuple = systable_getnext(scan)) {
        Form_pg_trigger form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
        if (get_func_namespace(form->tgfoid) == ExtensionSchema())
            visit(triggers, tuple, form);
    }
    systable_endscan(scan);
    table_close(triggers, mode);
}

// Of index tables; replicas pass it.
bool IsGuard(Form_pg_trigger form) {
    return strcmp(NameStr(form->tgname), kGuard) == 0;
}

// Of captured tables: an index table may be elsewhere.
bool IsOfOutbox(Form_pg_trigger form) {
    char *function = get_func_name(form->tgfoid);
    return function && strcmp(function, "enqueue") == 0;
}

// When a trigger fires that is not disabled.
char FiringMode(Form_pg_trigger form) {
    if (IsOfOutbox(form))
        return CaptureTriggerMode(NameStr(form->tgname));
    return TRIGGER_FIRES_ALWAYS;
}

// ENABLE TRIGGER means: not in sessions that replicate. Those of base tables fire there too, or not
// at all; of those of captured tables some fire there and some elsewhere.
void RestoreFiringModes(Oid relid) {
    bool changed = false;
    ForEachOwnTrigger(
        relid, RowExclusiveLock, [&](Relation triggers, HeapTuple tuple, Form_pg_trigger form) {
            char mode = FiringMode(form);
            if (form->tgenabled == TRIGGER_DISABLED || form->tgenabled == mode || IsGuard(form))
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

// One of those that base tables have. `name`: of one trigger; null: any.
bool HasOwnTrigger(Oid relid, const char *name, bool enabled) {
    bool found = false;
    ForEachOwnTrigger(relid, AccessShareLock, [&](Relation, HeapTuple, Form_pg_trigger form) {
        found = found || ((form->tgenabled != TRIGGER_DISABLED) == enabled && !IsOfOutbox(form) &&
                          (!name || strcmp(NameStr(form->tgname), name) == 0));
    });
    return found;
}

// Dumps disable ALL, so that a warning for each partition would drown what else they have to say:
// they hide notices.
void WarnOfDisabledTriggers(const AlterTableCmd *command, Oid relid) {
    Oid base = RootOf(relid);
    if (ListIndexTables(base) == NIL || !HasOwnTrigger(relid, command->name, false))
        return;
    ereport(command->subtype == AT_DisableTrigAll ? NOTICE : WARNING,
            (errmsg("index tables of \"%s\" do not follow changes of \"%s\" while their triggers "
                    "are disabled",
                    get_rel_name(base), get_rel_name(relid)),
             errhint("Enable the triggers, and call index_table.repair() for each of the index "
                     "tables.")));
}

// --- Restoring -----------------------------------------------------------------

// A dump of everything has triggers after data, but pg_restore may create some of them before
// definitions are loaded, when it works in parallel. Its sessions then hold a lock for the others
// to see until they end. They create triggers and no tables: a session that has created both
// restores a schema, and what it loads afterwards is data alone.
constinit bool has_created_table = false;
constinit bool restores_triggers = false;

// An advisory lock, which PostgreSQL releases when the session ends, with a number in its last
// field that locks of users do not have.
LOCKTAG RestoreLock() {
    constexpr uint16 kNotOfUsers = 7421;
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, ExtensionRelation("definition"), kNotOfUsers);
    return tag;
}

bool IsRestoring() {
    LOCKTAG tag = RestoreLock();
    if (restores_triggers || LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
        return true;
    LockRelease(&tag, ExclusiveLock, false);
    return false;
}

} // namespace

void NoteTable() {
    has_created_table = true;
}

void NoteTrigger(const CreateTrigStmt *statement) {
    if (check_function_bodies || has_created_table || restores_triggers)
        return; // dumps do not check them
    Oid function = LookupFuncName(statement->funcname, 0, nullptr, true);
    if (!OidIsValid(function) || get_func_namespace(function) != ExtensionSchema())
        return;
    LOCKTAG tag = RestoreLock();
    LockAcquire(&tag, ShareLock, true, false);
    restores_triggers = true;
}

void FollowTriggers(const AlterTableCmd *command, Oid relid, bool recursed) {
    switch (command->subtype) {
    case AT_EnableTrig:
    case AT_EnableTrigAll:
    case AT_EnableTrigUser:
    case AT_EnableReplicaTrig: {
        ListCell *cell;
        foreach (cell,
                 recursed ? find_all_inheritors(relid, NoLock, nullptr) : list_make1_oid(relid))
            RestoreFiringModes(lfirst_oid(cell));
        // Definitions and numbers have been loaded, of which no session knows.
        if (get_rel_namespace(relid) == ExtensionSchema())
            CacheInvalidateRelcacheAll();
        break;
    }
    case AT_DisableTrig:
    case AT_DisableTrigAll:
    case AT_DisableTrigUser:
        WarnOfDisabledTriggers(command, relid);
        break;
    default:
        break;
    }
}

} // namespace index_table

using namespace index_table;

// Where triggers are there, rows of the base table are entered when they are loaded after the
// definition, and rows of the index table are loaded as well.
SQL_FUNCTION(index_table_check_loading) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR,
                (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                 errmsg("index_table.check_loading() was not called by the trigger manager")));
    TriggerData *trigger = reinterpret_cast<TriggerData *>(fcinfo->context);
    if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        ereport(ERROR,
                (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                 errmsg("index_table.check_loading() must be fired by INSERT, FOR EACH ROW")));
    TupleDesc descriptor = RelationGetDescr(trigger->tg_relation);
    bool isnull;
    Oid base = DatumGetObjectId(
        SPI_getbinval(trigger->tg_trigtuple, descriptor, SPI_fnumber(descriptor, "base"), &isnull));
    if (!isnull && HasOwnTrigger(base, nullptr, true) && !IsRestoring())
        ereport(
            ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg(
                 "cannot load definitions of index tables while the triggers of base table \"%s\" "
                 "are enabled",
                 get_rel_name(base)),
             errdetail("Rows would be entered into its index tables twice, or not at all."),
             errhint("Use --disable-triggers to restore data without the schema.")));
    if (!isnull)
        Invalidate(base);
    return PointerGetDatum(trigger->tg_trigtuple);
}
