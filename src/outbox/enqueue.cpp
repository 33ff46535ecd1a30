// The trigger of tables with an outbox.
#include "core/public.h"
#include "outbox/outbox.h"

namespace index_table {
namespace {

constexpr Size kPackBytes = 64 * 1024;

// A queue opened for appending. Closed by End(), or by the resource owner and its memory context
// after an error.
struct Appender {
    const Outbox *source;
    MemoryContext memory;
    MemoryContext pack; // identities of the pack being filled
    Relation rel;
    EState *estate;
    ResultRelInfo *relinfo;
    TupleTableSlot *slot;
    int64 next_number;
    int numbers_left;
    int count; // in the pack
    Size bytes;
    Datum **identities; // by column, then by place in the pack
};

Appender *Begin(const Outbox *source) {
    MemoryContext memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table outbox", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Appender *appender = static_cast<Appender *>(palloc0(sizeof(Appender)));
    appender->source = source;
    appender->memory = memory;
    appender->rel = table_open(source->queue, RowExclusiveLock);
    appender->estate = CreateExecutorState();
    appender->relinfo = makeNode(ResultRelInfo);
    InitResultRelInfo(appender->relinfo, appender->rel, 0, nullptr, 0);
    ExecOpenIndices(appender->relinfo, false);
    appender->slot = table_slot_create(appender->rel, nullptr);
    appender->identities = static_cast<Datum **>(palloc0(sizeof(Datum *) * source->identity_count));
    MemoryContextSwitchTo(caller);
    return appender;
}

void WritePack(Appender *appender) {
    FAULT_POINT("enqueue.write_pack");
    const Outbox *source = appender->source;
    if (appender->numbers_left == 0) {
        appender->next_number = nextval_internal(source->sequence, false);
        appender->numbers_left = kNumbersAtOnce;
    }
    MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(appender->estate));
    TupleTableSlot *slot = appender->slot;
    ExecClearTuple(slot);
    memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts);
    auto put = [slot](AttrNumber attno, Datum value) {
        slot->tts_values[attno - 1] = value;
        slot->tts_isnull[attno - 1] = false;
    };
    put(kQueueNumber, Int64GetDatum(appender->next_number));
    put(kQueueQueuedAt, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()));
    put(kQueueChanges, Int32GetDatum(appender->count));
    for (int i = 0; appender->count > 0 && i < source->identity_count; i++) {
        const IdentityColumn &column = source->identity[i];
        put(kQueueIdentity + i,
            PointerGetDatum(construct_array(appender->identities[i], appender->count, column.type,
                                            column.length, column.by_value, column.align)));
    }
    ExecStoreVirtualTuple(slot);
    table_tuple_insert(appender->rel, slot, GetCurrentCommandId(true), 0, nullptr);
    if (appender->relinfo->ri_NumIndices > 0)
        compat::InsertIndexTuples(appender->relinfo, slot, appender->estate, false);
    ExecClearTuple(slot);
    MemoryContextSwitchTo(caller);
    ResetPerTupleExprContext(appender->estate);
    if (appender->pack)
        MemoryContextReset(appender->pack);
    appender->next_number++;
    appender->numbers_left--;
    appender->count = 0;
    appender->bytes = 0;
}

void Append(Appender *appender, TupleTableSlot *row) {
    const Outbox *source = appender->source;
    for (int i = 0; i < source->identity_count; i++) {
        int index = source->identity[i].attno - 1;
        if (row->tts_isnull[index])
            ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                            errmsg("null value in column \"%s\" of captured table \"%s\"",
                                   NameStr(TupleDescAttr(row->tts_tupleDescriptor, index)->attname),
                                   get_rel_name(source->root)),
                            errhint("Rows are found by this column: declare it NOT NULL.")));
    }
    if (!appender->pack) {
        appender->pack =
            AllocSetContextCreate(appender->memory, "index_table pack", ALLOCSET_DEFAULT_SIZES);
        for (int i = 0; i < source->identity_count; i++)
            appender->identities[i] = static_cast<Datum *>(
                MemoryContextAlloc(appender->memory, sizeof(Datum) * kPackSize));
    }
    MemoryContext caller = MemoryContextSwitchTo(appender->pack);
    for (int i = 0; i < source->identity_count; i++) {
        const IdentityColumn &column = source->identity[i];
        Datum value = row->tts_values[column.attno - 1];
        if (!column.by_value) {
            value = column.length == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value))
                                        : datumCopy(value, false, column.length);
            appender->bytes += datumGetSize(value, false, column.length);
        }
        appender->identities[i][appender->count] = value;
    }
    MemoryContextSwitchTo(caller);
    if (++appender->count == kPackSize || appender->bytes > kPackBytes)
        WritePack(appender);
}

void End(Appender *appender) {
    if (appender->count > 0)
        WritePack(appender);
    ExecDropSingleTupleTableSlot(appender->slot);
    ExecCloseIndices(appender->relinfo);
    FreeExecutorState(appender->estate);
    table_close(appender->rel, NoLock);
    MemoryContextDelete(appender->memory);
}

// Whether two rows have the same identity, byte by byte.
bool HaveSameIdentity(const Outbox *source, TupleTableSlot *a, TupleTableSlot *b) {
    for (int i = 0; i < source->identity_count; i++) {
        const IdentityColumn &column = source->identity[i];
        int index = column.attno - 1;
        if (a->tts_isnull[index] || b->tts_isnull[index] ||
            !datum_image_eq(a->tts_values[index], b->tts_values[index], column.by_value,
                            column.length))
            return false;
    }
    return true;
}

void EnqueueStatement(TriggerData *trigger, const Outbox *source) {
    TransitionRows before = BeginTransition(trigger->tg_oldtable, trigger->tg_relation);
    TransitionRows after =
        BeginTransition(trigger->tg_newtable, trigger->tg_relation, source->generated);
    Appender *appender = nullptr;
    // Old and new rows come in the same order. Where one of a pair is missing (a trigger kept a row
    // from moving to another partition) those that follow are queued twice, and none is left out.
    for (;;) {
        bool has_before = NextRow(&before, source->max_attno);
        bool has_after = NextRow(&after, source->max_attno);
        if (!has_before && !has_after)
            break;
        if (!appender)
            appender = Begin(source);
        if (!has_before)
            CompleteRow(&after);
        if (has_before && !(has_after && HaveSameIdentity(source, before.slot, after.slot)))
            Append(appender, before.slot);
        if (has_after)
            Append(appender, after.slot);
        if (has_before && has_after && CompleteRow(&after))
            Append(appender, after.slot);
        CHECK_FOR_INTERRUPTS();
    }
    if (appender)
        End(appender);
    EndTransition(&before);
    EndTransition(&after);
}

void EnqueueRow(TriggerData *trigger, const Outbox *source) {
    TupleTableSlot *before = OldRow(trigger), *after = NewRow(trigger);
    Appender *appender = Begin(source);
    if (before)
        slot_getsomeattrs(before, source->max_attno);
    if (after)
        slot_getsomeattrs(after, source->max_attno);
    if (before && !(after && HaveSameIdentity(source, before, after)))
        Append(appender, before);
    if (after)
        Append(appender, after);
    End(appender);
}

} // namespace

void EnqueueReload(Oid relid) {
    Relation rel = relation_open(relid, RowExclusiveLock);
    if (const Outbox *source = FindOutbox(rel)) {
        Appender *appender = Begin(source);
        WritePack(appender);
        End(appender);
    }
    relation_close(rel, NoLock);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_enqueue) {
    TriggerData *trigger = GetTrigger(fcinfo, "index_table.enqueue()");
    if (TRIGGER_FIRED_BEFORE(trigger->tg_event) && TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
        return kNoRow; // the library is loaded
    if (!TRIGGER_FIRED_AFTER(trigger->tg_event))
        RaiseFiredWrongly("index_table.enqueue()", "AFTER");
    const Outbox *source = FindOutbox(trigger->tg_relation);
    if (!source)
        return kNoRow; // restored without what it belongs to
    RefuseHypertable(RelationGetRelid(trigger->tg_relation));
    if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event)) {
        Appender *appender = Begin(source);
        WritePack(appender);
        End(appender);
    } else if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        EnqueueRow(trigger, source);
    else
        EnqueueStatement(trigger, source);
    return kNoRow;
}
