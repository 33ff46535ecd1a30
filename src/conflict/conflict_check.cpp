#include "conflict/conflict_check.h"

#include "core/public.h"
#include "maintenance/public.h"
#include "exec/public.h"

namespace index_table {

struct ConflictJudge {
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
bool HasKey(ConflictJudge *judge, const IndexTable *table, OpenLeaf *leaf, TupleTableSlot *entry) {
    if (!leaf->attached) {
        const Leaf *known = FindLeaf(leaf->rel);
        MemoryContext caller = MemoryContextSwitchTo(judge->estate->es_query_cxt);
        for (int i = 0; known && i < known->table_count; i++)
            if (known->tables[i].table->relid == table->relid)
                leaf->attached =
                    MakeEntryMaker(&known->tables[i], leaf->partition_id, judge->context);
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
    ResetExprContext(judge->context);
    return found;
}

// Puts the row of an entry, as it is now, into the leaf's slot; false where there is none.
bool FindRow(ConflictJudge *judge, LeafReader *reader, OpenLeaf *leaf, TupleTableSlot *entry) {
    const IndexTable *table = reader->table;
    Datum *values = palloc_array(Datum, table->identity_count);
    bool *nulls = palloc_array(bool, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        values[i] = Stored(table, entry, table->identity[i].position, &nulls[i]);
    reader->snapshot = &judge->dirty;
    SeekRows(reader, leaf, values, nulls);
    bool found = NextRow(reader, leaf);
    reader->snapshot = judge->estate->es_snapshot;
    return found;
}

} // namespace

ConflictJudge *MakeConflictJudge(Oid base, List *tables, EState *estate) {
    ConflictJudge *judge = palloc0_object(ConflictJudge);
    judge->estate = estate;
    judge->tables = tables;
    judge->looks_at_rows = IsolationUsesXactSnapshot() || ChangesElsewhere(estate, base);
    if (!judge->looks_at_rows)
        return judge;
    judge->base = table_open(base, AccessShareLock);
    judge->context = CreateExprContext(estate);
    InitDirtySnapshot(judge->dirty);
    judge->readers = palloc0_array(LeafReader, list_length(tables));
    for (int i = 0; i < list_length(tables); i++)
        BeginLeafReader(&judge->readers[i], static_cast<const IndexTable *>(list_nth(tables, i)),
                        judge->base, estate->es_snapshot, AccessShareLock);
    return judge;
}

void EndConflictJudge(ConflictJudge *judge) {
    if (!judge->looks_at_rows)
        return;
    for (LeafReader &reader : std::span(judge->readers, list_length(judge->tables)))
        EndLeafReader(&reader);
    table_close(judge->base, NoLock);
}

Conflict JudgeConflict(ConflictJudge *judge, Claims *claims, int number, TupleTableSlot *entry) {
    if (!judge->looks_at_rows)
        return Conflict::Real;
    LeafReader *reader = &judge->readers[number];
    const IndexTable *table = reader->table;
    bool isnull;
    Datum partition = Stored(table, entry, table->partition_position(), &isnull);
    OpenLeaf *leaf = GetLeaf(reader, DatumGetInt32(partition));
    if (!leaf && !OidIsValid(FindPartition(table->base, DatumGetInt32(partition))))
        return Conflict::Unsettled; // it has just been truncated or dropped
    if (!leaf || !leaf->index || !table->identity_is_unique)
        return Conflict::Real; // nothing tells its row
    if (!FindRow(judge, reader, leaf, entry))
        return IsStillStored(claims, number, entry) ? Conflict::Leaving : Conflict::Unsettled;
    TransactionId other =
        TransactionIdIsValid(judge->dirty.xmin) ? judge->dirty.xmin : judge->dirty.xmax;
    if (TransactionIdIsValid(other)) {
        ItemPointerData tid = leaf->slot->tts_tid;
        ExecClearTuple(leaf->slot);
        XactLockTableWait(other, leaf->rel, &tid, XLTW_InsertIndex);
        return Conflict::Unsettled;
    }
    if (!HasKey(judge, table, leaf, entry))
        return IsStillStored(claims, number, entry) ? Conflict::Leaving : Conflict::Unsettled;
    if (IsolationUsesXactSnapshot())
        CheckConflictIsVisible(leaf->rel, leaf->slot, judge->estate->es_snapshot);
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
