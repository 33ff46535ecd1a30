#include "conflict/conflict_check.h"

#include "core/public.h"
#include "maintenance/public.h"
#include "exec/public.h"

namespace index_table {

struct ConflictCheck {
    EState *estate;
    List *tables;
    Relation base;
    SnapshotData dirty; // also tells who is changing a row
    LeafReader *readers;
    ExprContext *context;
    bool looks_at_rows;
};

namespace {

// Whether the statement changes rows of the table in more ways than one, or runs inside another
// that does: then index tables may not show yet what has become of a row.
bool ChangesElsewhere(const EState *estate, Oid base) {
    return list_length(estate->es_plannedstmt->resultRelations) > 1 ||
           IsBeingChanged(base, estate->es_output_cid);
}

// The value of a stored entry's column by position.
Datum Stored(const IndexTable *table, TupleTableSlot *entry, int position, bool *isnull) {
    const AttrNumber *attnos = LiveColumns(entry->tts_tupleDescriptor, table->column_count);
    return slot_getattr(entry, attnos[position], isnull);
}

// Whether a row still has the key of an entry.
bool HasKey(ConflictCheck *check, const IndexTable *table, OpenLeaf *leaf, TupleTableSlot *entry) {
    if (!leaf->attached) {
        const Leaf *known = FindLeaf(leaf->rel);
        MemoryContext caller = MemoryContextSwitchTo(check->estate->es_query_cxt);
        for (int i = 0; known && i < known->table_count; i++)
            if (known->tables[i].table->relid == table->relid)
                leaf->attached =
                    MakeEntryMaker(&known->tables[i], leaf->partition_id, check->context);
        MemoryContextSwitchTo(caller);
        if (!leaf->attached)
            return true;
    }
    bool found = false;
    ForEachEntry(static_cast<EntryMaker *>(leaf->attached), leaf->slot,
                 [&](const Datum *values, const bool *nulls) {
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

// Puts the row of an entry, as it is now, into the leaf's slot; false where there is none.
bool FindRow(ConflictCheck *check, LeafReader *reader, OpenLeaf *leaf, TupleTableSlot *entry) {
    const IndexTable *table = reader->table;
    Datum *values = palloc_array(Datum, table->identity_count);
    bool *nulls = palloc_array(bool, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        values[i] = Stored(table, entry, table->identity[i].position, &nulls[i]);
    reader->snapshot = &check->dirty;
    SeekRows(reader, leaf, values, nulls);
    bool found = NextRow(reader, leaf);
    reader->snapshot = check->estate->es_snapshot;
    return found;
}

} // namespace

ConflictCheck *MakeConflictCheck(Oid base, List *tables, EState *estate) {
    Assert(tables != NIL && IsMemoryFreed());
    ConflictCheck *check = palloc0_object(ConflictCheck);
    check->estate = estate;
    check->tables = tables;
    check->looks_at_rows = IsolationUsesXactSnapshot() || ChangesElsewhere(estate, base);
    if (!check->looks_at_rows)
        return check;
    check->base = table_open(base, AccessShareLock);
    check->context = CreateExprContext(estate);
    InitDirtySnapshot(check->dirty);
    check->readers = palloc0_array(LeafReader, list_length(tables));
    for (int i = 0; i < list_length(tables); i++)
        BeginLeafReader(&check->readers[i], static_cast<const IndexTable *>(list_nth(tables, i)),
                        check->base, estate->es_snapshot, AccessShareLock);
    return check;
}

void EndConflictCheck(ConflictCheck *check) {
    if (!check->looks_at_rows)
        return;
    for (LeafReader &reader : std::span(check->readers, list_length(check->tables)))
        EndLeafReader(&reader);
    table_close(check->base, NoLock);
}

Conflict CheckConflict(ConflictCheck *check, SpeculativeEntries *speculative, int number,
                       TupleTableSlot *entry) {
    Assert(!TTS_EMPTY(entry));
    if (!check->looks_at_rows)
        return Conflict::Real;
    LeafReader *reader = &check->readers[number];
    const IndexTable *table = reader->table;
    bool isnull;
    Datum partition = Stored(table, entry, table->partition_position(), &isnull);
    OpenLeaf *leaf = GetLeaf(reader, DatumGetInt32(partition));
    if (!leaf && !OidIsValid(FindPartition(table->base, DatumGetInt32(partition))))
        return Conflict::Unsettled; // it has just been truncated or dropped
    if (!leaf || !leaf->index || !table->identity_is_unique)
        return Conflict::Real; // nothing tells its row
    if (!FindRow(check, reader, leaf, entry))
        return IsStillStored(speculative, number, entry) ? Conflict::Leaving : Conflict::Unsettled;
    TransactionId other =
        TransactionIdIsValid(check->dirty.xmin) ? check->dirty.xmin : check->dirty.xmax;
    if (TransactionIdIsValid(other)) {
        ItemPointerData tid = leaf->slot->tts_tid;
        ExecClearTuple(leaf->slot);
        XactLockTableWait(other, leaf->rel, &tid, XLTW_InsertIndex);
        return Conflict::Unsettled;
    }
    if (!HasKey(check, table, leaf, entry))
        return IsStillStored(speculative, number, entry) ? Conflict::Leaving : Conflict::Unsettled;
    if (IsolationUsesXactSnapshot())
        CheckConflictIsVisible(leaf->rel, leaf->slot, check->estate->es_snapshot);
    ExecClearTuple(leaf->slot);
    return Conflict::Real;
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
