#include "conflict/conflict_check.h"

#include "core/public.h"
#include "exec/public.h"
#include "maintenance/public.h"

namespace index_table {

struct ConflictCheck {
    EState *estate;
    List *tables;
    Relation base;
    SnapshotData dirty; // also tells who is changing a row
    LeafReader *readers;
    ExprContext *context;
    bool looks_at_rows;
    bool locks_rows;
};

namespace {

// Whether the statement changes rows of the table in more ways than one, or runs inside another
// that does: then index tables may not show yet what has become of a row.
bool ChangesElsewhere(const EState *estate, Oid base) {
    return compat::CountChanged(estate->es_plannedstmt) > 1 ||
           IsBeingChanged(base, estate->es_output_cid);
}

// The leaf as the index table sees it; null where it is not in there any more.
EntryMaker *MakerOf(ConflictCheck *check, const IndexTable *table, OpenLeaf *leaf) {
    if (!leaf->attached) {
        const Leaf *known = FindLeaf(leaf->rel);
        MemoryContext caller = MemoryContextSwitchTo(check->estate->es_query_cxt);
        for (int i = 0; known && i < known->table_count; i++)
            if (known->tables[i].table->relid == table->relid)
                leaf->attached =
                    MakeEntryMaker(&known->tables[i], leaf->partition_id, check->context);
        MemoryContextSwitchTo(caller);
    }
    return static_cast<EntryMaker *>(leaf->attached);
}

void SeekEntry(LeafReader *reader, OpenLeaf *leaf, TupleTableSlot *entry) {
    const IndexTable *table = reader->table;
    Datum *values = palloc_array(Datum, table->identity_count);
    bool *nulls = palloc_array(bool, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        values[i] = Stored(table, entry, table->identity[i].position, &nulls[i]);
    SeekRows(reader, leaf, values, nulls);
}

// Rows are looked for as they are now. Where the leaf has no index for that, its scan began under
// another snapshot.
void Seek(ConflictCheck *check, LeafReader *reader, OpenLeaf *leaf, TupleTableSlot *entry) {
    if (!leaf->index && leaf->table_scan->rs_snapshot != &check->dirty) {
        MemoryContext caller = MemoryContextSwitchTo(reader->memory);
        table_endscan(leaf->table_scan);
        leaf->table_scan = compat::BeginTableScan(leaf->rel, &check->dirty);
        MemoryContextSwitchTo(caller);
    }
    reader->snapshot = &check->dirty;
    SeekEntry(reader, leaf, entry);
    reader->snapshot = check->estate->es_snapshot;
}

// The transaction that is changing the row which was found last; invalid: none.
TransactionId ChangedBy(const ConflictCheck *check) {
    return TransactionIdIsValid(check->dirty.xmin) ? check->dirty.xmin : check->dirty.xmax;
}

void AwaitChange(ConflictCheck *check, OpenLeaf *leaf) {
    ItemPointerData tid = leaf->slot->tts_tid;
    ExecClearTuple(leaf->slot);
    XactLockTableWait(ChangedBy(check), leaf->rel, &tid, XLTW_InsertIndex);
}

} // namespace

Datum Stored(const IndexTable *table, TupleTableSlot *entry, int position, bool *isnull) {
    const AttrNumber *attnos = LiveColumns(entry->tts_tupleDescriptor, table->column_count);
    return slot_getattr(entry, attnos[position], isnull);
}

bool HasKey(ConflictCheck *check, int number, OpenLeaf *leaf, TupleTableSlot *row,
            TupleTableSlot *entry) {
    const IndexTable *table = check->readers[number].table;
    EntryMaker *maker = MakerOf(check, table, leaf);
    if (!maker)
        return true;
    bool found = false;
    ForEachEntry(maker, row, [&](const Datum *values, const bool *nulls) {
        bool same = true;
        for (int i = 0; same && i < table->key.count; i++) {
            bool isnull;
            Datum stored = Stored(table, entry, i, &isnull);
            int16 length;
            bool by_value;
            get_typlenbyval(table->types[i], &length, &by_value);
            same = isnull == nulls[i] &&
                   (isnull || datum_image_eq(stored, values[i], by_value, length));
        }
        found = found || same;
    });
    ResetExprContext(check->context);
    return found;
}

ConflictCheck *MakeConflictCheck(Oid base, List *tables, EState *estate, bool locks_rows) {
    Assert(tables != NIL && IsMemoryFreed());
    ConflictCheck *check = palloc0_object(ConflictCheck);
    check->estate = estate;
    check->tables = tables;
    check->locks_rows = locks_rows;
    check->looks_at_rows =
        locks_rows || IsolationUsesXactSnapshot() || ChangesElsewhere(estate, base);
    if (!check->looks_at_rows)
        return check;
    check->base = table_open(base, AccessShareLock);
    check->context = CreateExprContext(estate);
    InitDirtySnapshot(check->dirty);
    check->readers = palloc0_array(LeafReader, list_length(tables));
    for (int i = 0; i < list_length(tables); i++)
        BeginLeafReader(&check->readers[i], static_cast<const IndexTable *>(list_nth(tables, i)),
                        check->base, estate->es_snapshot,
                        locks_rows ? RowExclusiveLock : AccessShareLock);
    return check;
}

void EndConflictCheck(ConflictCheck *check) {
    if (!check->looks_at_rows)
        return;
    for (LeafReader &reader : std::span(check->readers, list_length(check->tables)))
        EndLeafReader(&reader);
    table_close(check->base, NoLock);
}

namespace {

// A scan under a dirty snapshot may miss a row that is updated while it is on its way from the
// index to the table. A snapshot that shows every change of this transaction, too, does not.
bool IsThereAfterAll(ConflictCheck *check, int number, OpenLeaf *leaf, TupleTableSlot *entry) {
    LeafReader *reader = &check->readers[number];
    PushCopiedSnapshot(GetLatestSnapshot());
    Snapshot everything = GetActiveSnapshot();
    everything->curcid = InvalidCommandId;
    Snapshot *of_scan = leaf->index ? &leaf->scan->xs_snapshot : &leaf->table_scan->rs_snapshot;
    *of_scan = everything;
    bool found = false;
    SeekEntry(reader, leaf, entry);
    while (!found && NextRow(reader, leaf))
        found = HasKey(check, number, leaf, leaf->slot, entry);
    ExecClearTuple(leaf->slot);
    *of_scan = &check->dirty;
    PopActiveSnapshot();
    return found;
}

} // namespace

Conflict FindConflictingRow(ConflictCheck *check, SpeculativeEntries *speculative, int number,
                            TupleTableSlot *entry, OpenLeaf **found) {
    Assert(!TTS_EMPTY(entry) && check->looks_at_rows);
    *found = nullptr;
    LeafReader *reader = &check->readers[number];
    const IndexTable *table = reader->table;
    bool isnull;
    Datum partition = Stored(table, entry, table->partition_position(), &isnull);
    OpenLeaf *leaf = GetLeaf(reader, DatumGetInt32(partition));
    if (!leaf && !OidIsValid(FindPartition(table->base, DatumGetInt32(partition))))
        return Conflict::Unsettled; // it has just been truncated or dropped
    if (!leaf || leaf->is_foreign) {
        *found = leaf;
        return Conflict::Real;
    }
    Seek(check, reader, leaf, entry);
    while (NextRow(reader, leaf)) {
        if (!HasKey(check, number, leaf, leaf->slot, entry))
            continue;
        if (TransactionIdIsValid(ChangedBy(check))) {
            AwaitChange(check, leaf);
            return Conflict::Unsettled;
        }
        *found = leaf;
        return Conflict::Real;
    }
    // In this order: what is stored still when the row is not there has been left behind.
    return !IsThereAfterAll(check, number, leaf, entry) && IsStillStored(speculative, number, entry)
               ? Conflict::Leaving
               : Conflict::Unsettled;
}

Conflict CheckConflict(ConflictCheck *check, SpeculativeEntries *speculative, int number,
                       TupleTableSlot *entry) {
    if (!check->looks_at_rows)
        return Conflict::Real;
    OpenLeaf *leaf;
    Conflict conflict = FindConflictingRow(check, speculative, number, entry, &leaf);
    if (conflict != Conflict::Real || !leaf)
        return conflict;
    // Of a row on a shard the entry tells when it came.
    if (IsolationUsesXactSnapshot())
        CheckConflictIsVisible(leaf->is_foreign ? RelationOfEntry(speculative, number, entry)
                                                : leaf->rel,
                               leaf->is_foreign ? entry : leaf->slot, check->estate->es_snapshot);
    if (!leaf->is_foreign)
        RememberRead(leaf->rel, leaf->slot, check->estate->es_snapshot);
    ExecClearTuple(leaf->slot);
    return conflict;
}

void RememberRead(Relation rel, TupleTableSlot *row, Snapshot snapshot) {
    bool isnull;
    Datum inserter = slot_getsysattr(row, MinTransactionIdAttributeNumber, &isnull);
    PredicateLockTID(rel, &row->tts_tid, snapshot, DatumGetTransactionId(inserter));
}

void CheckConflictIsVisible(Relation rel, TupleTableSlot *row, Snapshot snapshot) {
    if (table_tuple_satisfies_snapshot(rel, row, snapshot))
        return;
    bool isnull;
    TransactionId inserted =
        DatumGetTransactionId(slot_getsysattr(row, MinTransactionIdAttributeNumber, &isnull));
    if (!TransactionIdIsCurrentTransactionId(inserted))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to concurrent update")));
}

} // namespace index_table
