#include "maintenance/settle.h"

#include "core/public.h"
#include "maintenance/entries.h"
#include "maintenance/storage.h"

namespace index_table {
namespace {

// What the leaves of a base table are like.
struct Survey {
    bool has_rows;    // in some of them
    bool has_strange; // some have rows and no number
    List *unnumbered; // leaves without rows and number
    List *empty;      // numbered ones without rows
};

// Whether a table has rows that the active snapshot sees. A file may have blocks all the same, such
// as those that a first attempt to load it has left.
bool HasVisibleRows(Relation rel) {
    if (RelationGetNumberOfBlocks(rel) == 0)
        return false;
    TableScanDesc scan = compat::BeginTableScan(rel, GetActiveSnapshot());
    TupleTableSlot *slot = table_slot_create(rel, nullptr);
    bool found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
    ExecDropSingleTupleTableSlot(slot);
    table_endscan(scan);
    return found;
}

// Which rows of a table count.
enum class Rows { All, OfOthers };

// OfOthers leaves out those of this transaction, which may be writing the first ones.
bool HasRows(Relation rel, Rows which) {
    PushCopiedSnapshot(GetLatestSnapshot());
    if (which == Rows::OfOthers)
        GetActiveSnapshot()->curcid = FirstCommandId;
    bool found = HasVisibleRows(rel);
    PopActiveSnapshot();
    return found;
}

void SurveyLeaf(Oid relid, Relation leaf, Rows which, Survey *survey) {
    bool has_number = FindPartitionNumber(relid).has_value();
    bool is_foreign = leaf->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
    bool has_rows = is_foreign || HasRows(leaf, which);
    survey->has_rows = survey->has_rows || has_rows;
    if (has_number && !has_rows)
        survey->empty = lappend_oid(survey->empty, relid);
    if (has_number)
        return;
    if (has_rows)
        survey->has_strange = true;
    else
        survey->unnumbered = lappend_oid(survey->unnumbered, relid);
}

// For a writer, which waits for the locks, or for a reader: false, with nothing said, where a
// partition cannot be locked at once.
bool SurveyLeaves(Oid base, bool for_writer, Survey *survey) {
    Rows which = for_writer ? Rows::OfOthers : Rows::All;
    *survey = {};
    ListCell *cell;
    foreach (cell, find_all_inheritors(base, NoLock, nullptr)) {
        Oid relid = lfirst_oid(cell);
        if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
            continue;
        if (!for_writer && !ConditionalLockRelationOid(relid, AccessShareLock))
            return false;
        Relation leaf = try_relation_open(relid, for_writer ? AccessShareLock : NoLock);
        if (leaf) {
            SurveyLeaf(relid, leaf, which, survey);
            relation_close(leaf, for_writer ? NoLock : AccessShareLock);
        } else if (!for_writer) {
            UnlockRelationOid(relid, AccessShareLock);
        }
    }
    return true;
}

// The tables that store entries, open and locked against nobody but DROP.
List *OpenStorage(const IndexTable *table) {
    List *storage = NIL;
    ListCell *cell;
    LockRelationOid(table->relid, AccessShareLock);
    foreach (cell, StorageOf(table->relid, AccessShareLock))
        storage = lappend(storage, relation_open(lfirst_oid(cell), NoLock));
    if (get_rel_relkind(table->relid) != RELKIND_RELATION)
        UnlockRelationOid(table->relid, AccessShareLock);
    return storage;
}

void CloseStorage(List *storage) {
    ListCell *cell;
    foreach (cell, storage)
        relation_close(static_cast<Relation>(lfirst(cell)), AccessShareLock);
}

List *EmptyOnes(List *storage) {
    List *empty = NIL;
    ListCell *cell;
    foreach (cell, storage)
        if (!HasRows(static_cast<Relation>(lfirst(cell)), Rows::All))
            empty = lappend(empty, lfirst(cell));
    return empty;
}

// Calls visit(number) for the partition number of stored entries, of `limit` from each table, or of
// all where it is 0, until it returns false; then returns false.
template <typename Visit>
bool ForEachNumber(const IndexTable *table, List *storage, int limit, Visit visit) {
    bool go_on = true;
    PushActiveSnapshot(GetLatestSnapshot());
    ListCell *cell;
    foreach (cell, storage) {
        Relation rel = static_cast<Relation>(lfirst(cell));
        AttrNumber attno = LiveColumn(rel, table, table->partition_position());
        TableScanDesc scan = compat::BeginTableScan(rel, GetActiveSnapshot());
        TupleTableSlot *slot = table_slot_create(rel, nullptr);
        for (int i = 0; go_on && (limit == 0 || i < limit); i++) {
            if (!table_scan_getnextslot(scan, ForwardScanDirection, slot))
                break;
            bool isnull;
            go_on = visit(DatumGetInt32(slot_getattr(slot, attno, &isnull)));
            CHECK_FOR_INTERRUPTS();
        }
        ExecDropSingleTupleTableSlot(slot);
        table_endscan(scan);
    }
    PopActiveSnapshot();
    return go_on;
}

// A look at some entries: whether their numbers are, or were, of partitions of the base table.
bool HasKnownNumbers(const IndexTable *table, List *storage) {
    constexpr int kSample = 1000;
    List *retired = ListRetiredNumbers(table->relid);
    return ForEachNumber(table, storage, kSample, [=](int32 number) {
        return OidIsValid(FindPartition(table->base, number)) || list_member_int(retired, number);
    });
}

// --- Entries that should be there ------------------------------------------------

// Whether an entry with this first key column belongs into one of `empty`.
bool BelongsInto(Relation index_table, List *empty, Datum value, bool isnull) {
    EntryStorage storage = GetStorage(index_table);
    if (!storage.partition_key)
        return true;
    int place = RouteValue(storage, value, isnull);
    ListCell *cell;
    foreach (cell, empty)
        if (RelationGetRelid(static_cast<Relation>(lfirst(cell))) ==
            storage.partitions->oids[place])
            return true;
    return false;
}

// Whether some row of a leaf has an entry that belongs into one of `empty`.
bool HasEntryFor(const IndexTable *table, Relation base, Relation leaf, Relation index_table,
                 List *empty) {
    bool found = false;
    LeafTable leaf_table = MakeLeafTable(
        table, compat::MapColumnsByName(RelationGetDescr(leaf), RelationGetDescr(base)));
    OwnerContext owner = EnterOwner(leaf->rd_rel->relowner);
    ExprContext *context = CreateStandaloneExprContext();
    EntryMaker *maker = MakeEntryMaker(&leaf_table, 0, context);
    PushActiveSnapshot(GetLatestSnapshot());
    TableScanDesc scan = compat::BeginTableScan(leaf, GetActiveSnapshot());
    TupleTableSlot *row = table_slot_create(leaf, nullptr);
    while (!found && table_scan_getnextslot(scan, ForwardScanDirection, row)) {
        ResetExprContext(context);
        ForEachEntry(maker, row, [&](const Datum *values, const bool *nulls) {
            found = found || BelongsInto(index_table, empty, values[0], nulls[0]);
        });
        CHECK_FOR_INTERRUPTS();
    }
    ExecDropSingleTupleTableSlot(row);
    table_endscan(scan);
    PopActiveSnapshot();
    FreeExprContext(context, true);
    LeaveOwner(owner);
    return found;
}

// Whether entries are missing from tables that are empty: a key of few values leaves hash
// partitions empty, a predicate may leave out all rows.
bool LacksEntries(const IndexTable *table, List *empty) {
    bool found = false;
    Relation base = relation_open(table->base, AccessShareLock);
    Relation index_table = relation_open(table->relid, AccessShareLock);
    ListCell *cell;
    foreach (cell, find_all_inheritors(table->base, AccessShareLock, nullptr)) {
        Relation leaf = relation_open(lfirst_oid(cell), NoLock);
        // What shards have is not worth asking: entries for it should be there.
        if (leaf->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
            found = true;
        else if (!found && leaf->rd_rel->relkind == RELKIND_RELATION)
            found = HasEntryFor(table, base, leaf, index_table, empty);
        relation_close(leaf, NoLock);
    }
    relation_close(index_table, NoLock);
    relation_close(base, NoLock);
    return found;
}

// --- Readers -------------------------------------------------------------------

// Whether everything that a dump has of an index table has arrived, as far as it shows. Tables are
// loaded whole, so one that has an entry has all of them.
bool LooksRight(const IndexTable *table, const Survey &survey) {
    if (survey.has_strange)
        return false;
    List *storage = OpenStorage(table);
    bool right = (!survey.has_rows || EmptyOnes(storage) == NIL) && HasKnownNumbers(table, storage);
    CloseStorage(storage);
    return right;
}

// Of an index table that was restored.
void DecideTrust(IndexTable *table) {
    Survey survey;
    table->looks_right = false;
    table->trust_known = true;
    if (LacksQueue(table) || table->on_servers) // servers are not asked for that
        return;
    if (OidIsValid(FindDisabledFor(table)))
        return;
    if (!SurveyLeaves(table->base, false, &survey)) {
        table->trust_known = false; // the lock will be gone the next time
        return;
    }
    table->looks_right = LooksRight(table, survey);
    // Where nothing is there yet, rows may be loaded before entries are, and nobody tells.
    table->trust_known = survey.has_rows || !table->looks_right;
}

[[noreturn]] void RaiseUnusable(const IndexTable *table) {
    Oid disabled = FindDisabledFor(table);
    const char *base = get_rel_name(table->base);
    bool has_missed = OidIsValid(disabled) || table->state == TableState::Missed;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("index table \"%s\" does not hold what it should", get_rel_name(table->relid)),
             has_missed ? errdetail("Triggers by which it follows \"%s\" were disabled or dropped, "
                                    "and it may have missed changes.",
                                    base)
                        : errdetail("It was restored without its entries, without partition "
                                    "numbers, or from another dump than the rows of \"%s\".",
                                    base),
             OidIsValid(disabled)
                 ? errhint("Enable the triggers of \"%s\": with the last that is enabled it is "
                           "repaired.",
                           get_rel_name(disabled))
                 : errhint("index_table.repair() fills it.")));
}

// --- Writers -------------------------------------------------------------------

bool IsDamaged(const IndexTable *table, const Survey &survey) {
    if (survey.has_strange || LacksQueue(table) || table->on_servers)
        return true;
    List *storage = OpenStorage(table);
    List *empty = survey.has_rows ? EmptyOnes(storage) : NIL;
    bool damaged = !HasKnownNumbers(table, storage) || (empty != NIL && LacksEntries(table, empty));
    CloseStorage(storage);
    return damaged;
}

// Adds to `numbers` those of empty leaves that entries have.
void FindLeftovers(const IndexTable *table, const Survey &survey, List **leaves) {
    if (survey.empty == NIL)
        return;
    List *storage = OpenStorage(table);
    ForEachNumber(table, storage, 0, [&](int32 number) {
        Oid leaf = FindPartition(table->base, number);
        if (list_member_oid(survey.empty, leaf))
            *leaves = list_append_unique_oid(*leaves, leaf);
        return true;
    });
    CloseStorage(storage);
}

void Renumber(List *leaves) {
    ListCell *cell;
    foreach (cell, leaves) {
        LockRelationOid(lfirst_oid(cell), ShareRowExclusiveLock);
        Relation leaf = try_relation_open(lfirst_oid(cell), NoLock);
        bool is_empty = leaf && !HasRows(leaf, Rows::OfOthers);
        if (leaf)
            relation_close(leaf, NoLock);
        if (is_empty) // still
            RenumberPartition(lfirst_oid(cell));
    }
}

void Settle(Oid base_oid, bool for_repair) {
    LockPart(base_oid, LockedPart::Settling, ExclusiveLock);
    const Base *base = FindBase(base_oid); // somebody else may have been here
    if (!base || !base->has_restored)
        return;
    Survey survey;
    SurveyLeaves(base_oid, true, &survey);
    List *leftovers = NIL;
    List *settled = NIL;
    List *damaged = NIL;
    List *missed = NIL;
    for (IndexTable *table : std::span(base->tables, base->table_count)) {
        if (table->state != TableState::Restored)
            continue;
        bool is_unfinished = OidIsValid(table->log);
        bool is_disabled = !is_unfinished && OidIsValid(FindDisabledFor(table));
        if (is_disabled && table->options.is_unique && !for_repair) {
            RaiseUnusable(table);
        } else if (is_disabled) {
            missed = lappend_oid(missed, table->relid);
        } else if (!is_unfinished && !IsDamaged(table, survey)) {
            FindLeftovers(table, survey, &leftovers);
            settled = lappend_oid(settled, table->relid);
        } else if (is_unfinished) {
            damaged = lappend_oid(damaged, table->relid);
        } else if (table->options.is_unique && !for_repair) {
            RaiseUnusable(table);
        } else {
            damaged = lappend_oid(damaged, table->relid);
        }
    }
    ListCell *cell;
    foreach (cell, settled)
        SetState(lfirst_oid(cell), TableState::Built);
    foreach (cell, damaged)
        SetState(lfirst_oid(cell), TableState::Damaged);
    foreach (cell, missed)
        SetState(lfirst_oid(cell), TableState::Missed);
    Renumber(leftovers);
    if (survey.unnumbered != NIL)
        SkipNumbers();
    foreach (cell, survey.unnumbered)
        AddPartition(base_oid, lfirst_oid(cell));
    Invalidate(base_oid);
}

} // namespace

bool IsTrusted(const IndexTable *table) {
    Assert(IsKnown(table));
    if (table->state != TableState::Restored)
        return table->state == TableState::Built;
    if (!table->trust_known)
        DecideTrust(const_cast<IndexTable *>(table));
    return table->looks_right;
}

bool HasRowsFor(const IndexTable *table, Oid relid, Snapshot snapshot) {
    Assert(IsKnown(table) && snapshot);
    if (table->state != TableState::Restored || IsForeign(relid))
        return true;
    Relation leaf = try_relation_open(relid, AccessShareLock);
    if (!leaf)
        return false;
    PushActiveSnapshot(snapshot);
    bool found = HasVisibleRows(leaf);
    PopActiveSnapshot();
    relation_close(leaf, NoLock);
    return found;
}

void CheckIsTrusted(const IndexTable *table) {
    if (!IsTrusted(table))
        RaiseUnusable(table);
}

void SettleBeforeChange(const Base *base) {
    if (base->has_restored) {
        Settle(base->relid, false);
        base = FindBase(base->relid);
    }
    for (int i = 0; base && base->has_unusable && i < base->table_count; i++)
        if (base->tables[i]->is_unusable() && base->tables[i]->options.is_unique &&
            !OidIsValid(base->tables[i]->log))
            RaiseUnusable(base->tables[i]);
}

void SettleForRepair(Oid base) {
    Assert(IsLocked(base, ShareRowExclusiveLock));
    Settle(base, true);
}

} // namespace index_table
