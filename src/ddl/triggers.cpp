#include "ddl/triggers.h"

#include "catalog/public.h"
#include "core/public.h"
#include "maintenance/public.h"
#include "outbox/public.h"
#include "partitions/public.h"

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

// Dumps disable ALL, so that a warning for each partition would drown what else they have to say:
// they hide notices.
void WarnOfDisabledTriggers(const AlterTableCmd *command, Oid relid) {
    Oid base = RootOf(relid);
    if (ListIndexTables(base) == NIL || !HasOwnTrigger(relid, command->name, false))
        return;
    ReportDisabled(command->subtype == AT_DisableTrigAll ? NOTICE : WARNING, base, relid);
}

// --- Loading -----------------------------------------------------------------

// What index tables of a base table hold may have been loaded beside what they say they hold.
// Several sessions may be loading.
void LookAgain(Oid base) {
    LockRelationOid(ExtensionRelation("definition"), ShareRowExclusiveLock);
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

// Entries may have been loaded past the guard of an index table, with numbers of a dump.
void LookAgainAt(Oid relid) {
    Oid root = get_rel_relispartition(relid) ? llast_oid(get_partition_ancestors(relid)) : relid;
    if (OidIsValid(RecordedBase(root)))
        SetState(root, TableState::Restored);
}

// Whether the relations that a row of a catalog table names exist.
bool NamesRelations(Relation rel, HeapTuple row) {
    TupleDesc descriptor = RelationGetDescr(rel);
    Oid type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum("relation"),
                               ObjectIdGetDatum(ExtensionSchema()));
    for (int i = 0; i < descriptor->natts; i++) {
        bool isnull;
        Datum value = heap_getattr(row, i + 1, descriptor, &isnull);
        if (!isnull && TupleDescAttr(descriptor, i)->atttypid == type &&
            !OidIsValid(DatumGetObjectId(value)))
            return false;
    }
    return true;
}

Datum ValueOf(Relation rel, HeapTuple row, const char *column) {
    bool isnull;
    TupleDesc descriptor = RelationGetDescr(rel);
    return SPI_getbinval(row, descriptor, SPI_fnumber(descriptor, column), &isnull);
}

// Whether a row gives a number to a partition that has been given one since the schema was
// restored, or takes back one that has been given. What was loaded with the old ones is to be
// looked at.
bool IsNumbered(Relation rel, HeapTuple row) {
    if (strcmp(RelationGetRelationName(rel), "retired_partition") == 0)
        return OidIsValid(FindPartition(DatumGetObjectId(ValueOf(rel, row, "base")),
                                        DatumGetInt32(ValueOf(rel, row, "partition_id"))));
    if (strcmp(RelationGetRelationName(rel), "partition") != 0)
        return false;
    Oid leaf = DatumGetObjectId(ValueOf(rel, row, "relation"));
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (number)
        LookAgain(number->base);
    return number.has_value();
}

} // namespace

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
        // Numbers have been loaded, of which no session knows, and rows, past all triggers.
        if (get_rel_namespace(relid) == ExtensionSchema())
            LookAgain();
        else if (!command->name || strcmp(command->name, kGuard) == 0)
            LookAgainAt(relid);
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

SQL_FUNCTION(index_table_load) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.load()");
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        RaiseFiredWrongly("index_table.load()", "BEFORE INSERT, FOR EACH ROW");
    bool is_wanted = NamesRelations(trigger->tg_relation, trigger->tg_trigtuple) &&
                     !IsNumbered(trigger->tg_relation, trigger->tg_trigtuple);
    return PointerGetDatum(is_wanted ? trigger->tg_trigtuple : nullptr);
}
