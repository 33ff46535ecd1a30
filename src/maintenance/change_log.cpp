#include "maintenance/change_log.h"
#include "core/public.h"

namespace index_table {
namespace {

constexpr int16 kRowSign = 0;

struct Log {
    const ChangeBuffer *buffer;
    Relation rel;
    BulkInsertState state;
    CommandId command;
    Datum *stored; // by attribute number of the index table
    bool *stored_nulls;
    const AttrNumber *attnos; // of the log, by position in the index table; last that of the sign
    Datum *values;            // of the log
    bool *nulls;
    MemoryContext per_row;
};

// The log's columns in order: those of the index table, of which included ones may have been
// dropped from both, and the sign.
const AttrNumber *ColumnsOf(Relation log, const IndexTable *table) {
    const AttrNumber *attnos = LiveColumns(RelationGetDescr(log), table->column_count + 1);
    if (!attnos)
        elog(ERROR, "log \"%s\" has not the columns of its index table",
             RelationGetRelationName(log));
    return attnos;
}

void Append(Log *log, std::span<const Change> changes, ChangeKind kind) {
    FAULT_POINT("change_log.append");
    const IndexTable *table = log->buffer->table;
    for (const Change &change : changes) {
        MemoryContext caller = MemoryContextSwitchTo(log->per_row);
        heap_deform_tuple(change.entry, log->buffer->descriptor, log->stored, log->stored_nulls);
        for (int i = 0; i < table->column_count; i++) {
            log->values[log->attnos[i] - 1] = log->stored[log->buffer->attnos[i] - 1];
            log->nulls[log->attnos[i] - 1] = log->stored_nulls[log->buffer->attnos[i] - 1];
        }
        log->values[log->attnos[table->column_count] - 1] = Int16GetDatum(static_cast<int16>(kind));
        log->nulls[log->attnos[table->column_count] - 1] = false;
        HeapTuple row = heap_form_tuple(RelationGetDescr(log->rel), log->values, log->nulls);
        heap_insert(log->rel, row, log->command, 0, log->state);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(log->per_row);
        CHECK_FOR_INTERRUPTS();
    }
}

} // namespace

void LogChanges(const ChangeBuffer *buffer, const NetChanges &net, MemoryContext memory) {
    Assert(OidIsValid(buffer->table->log));
    Relation rel = try_relation_open(buffer->table->log, RowExclusiveLock);
    if (!rel) // dropped with the index table
        return;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Log log = {.buffer = buffer,
               .rel = rel,
               .state = GetBulkInsertState(),
               .command = GetCurrentCommandId(true)};
    log.attnos = ColumnsOf(rel, buffer->table);
    log.stored = static_cast<Datum *>(palloc(sizeof(Datum) * buffer->descriptor->natts));
    log.stored_nulls = static_cast<bool *>(palloc(buffer->descriptor->natts));
    log.values = static_cast<Datum *>(palloc(sizeof(Datum) * RelationGetNumberOfAttributes(rel)));
    log.nulls = static_cast<bool *>(palloc(RelationGetNumberOfAttributes(rel)));
    memset(log.nulls, true, RelationGetNumberOfAttributes(rel)); // dropped columns
    log.per_row = AllocSetContextCreate(memory, "index_table log", ALLOCSET_SMALL_SIZES);
    Append(&log, {net.deletes, net.delete_count}, ChangeKind::Delete);
    Append(&log, {net.replaced, net.replace_count}, ChangeKind::Delete);
    Append(&log, {net.replacements, net.replace_count}, ChangeKind::Insert);
    Append(&log, {net.inserts, net.insert_count}, ChangeKind::Insert);
    FreeBulkInsertState(log.state);
    MemoryContextSwitchTo(caller);
    relation_close(rel, NoLock);
}

void LogRows(const IndexTable *table, int32 partition_id, std::span<const int> positions,
             std::span<const Datum *const> identities) {
    Assert(OidIsValid(table->log));
    Relation rel = try_relation_open(table->log, RowExclusiveLock);
    if (!rel) // dropped with the index table
        return;
    const AttrNumber *attnos = ColumnsOf(rel, table);
    Datum *values = palloc0_array(Datum, RelationGetNumberOfAttributes(rel));
    bool *nulls = palloc_array(bool, RelationGetNumberOfAttributes(rel));
    memset(nulls, true, RelationGetNumberOfAttributes(rel));
    auto set = [&](AttrNumber attno, Datum value) {
        values[attno - 1] = value;
        nulls[attno - 1] = false;
    };
    set(attnos[table->partition_position()], Int32GetDatum(partition_id));
    set(attnos[table->column_count], Int16GetDatum(kRowSign));
    BulkInsertState state = GetBulkInsertState();
    for (const Datum *identity : identities) {
        for (Size i = 0; i < positions.size(); i++)
            set(attnos[positions[i]], identity[i]);
        HeapTuple row = heap_form_tuple(RelationGetDescr(rel), values, nulls);
        heap_insert(rel, row, GetCurrentCommandId(true), 0, state);
        heap_freetuple(row);
    }
    FreeBulkInsertState(state);
    pfree(values);
    pfree(nulls);
    relation_close(rel, NoLock);
}

LogReader BeginReadingLog(const IndexTable *table, Snapshot snapshot) {
    Assert(OidIsValid(table->log) && IsLocked(table->relid, ShareUpdateExclusiveLock));
    Assert(snapshot);
    LogReader reader = {};
    reader.rel = table_open(table->log, RowExclusiveLock);
    reader.attnos = ColumnsOf(reader.rel, table);
    reader.columns = table->column_count;
    reader.values = static_cast<Datum *>(palloc(sizeof(Datum) * table->column_count));
    reader.nulls = static_cast<bool *>(palloc(table->column_count));
    reader.slot = table_slot_create(reader.rel, nullptr);
    reader.scan = compat::BeginTableScan(reader.rel, snapshot);
    return reader;
}

bool ReadLogged(LogReader *reader) {
    if (!table_scan_getnextslot(reader->scan, ForwardScanDirection, reader->slot))
        return false;
    for (int i = 0; i < reader->columns; i++)
        reader->values[i] = slot_getattr(reader->slot, reader->attnos[i], &reader->nulls[i]);
    bool isnull;
    Datum sign = slot_getattr(reader->slot, reader->attnos[reader->columns], &isnull);
    reader->is_row = DatumGetInt16(sign) == kRowSign;
    reader->kind = DatumGetInt16(sign) > 0 ? ChangeKind::Insert : ChangeKind::Delete;
    CHECK_FOR_INTERRUPTS();
    return true;
}

void RemoveLogged(LogReader *reader) {
    simple_heap_delete(reader->rel, &reader->slot->tts_tid);
}

void EndReadingLog(LogReader *reader) {
    table_endscan(reader->scan);
    ExecDropSingleTupleTableSlot(reader->slot);
    table_close(reader->rel, NoLock);
}

} // namespace index_table
