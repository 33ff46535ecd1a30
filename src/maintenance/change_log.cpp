#include "maintenance/change_log.h"

namespace index_table {
namespace {

struct Log {
    const ChangeBuffer *buffer;
    Relation rel;
    BulkInsertState state;
    CommandId command;
    Datum *stored; // by attribute number of the index table
    bool *stored_nulls;
    Datum *values; // of the log
    bool *nulls;
    MemoryContext per_row;
};

void Append(Log *log, std::span<const Change> changes, ChangeKind kind) {
    const IndexTable *table = log->buffer->table;
    for (const Change &change : changes) {
        MemoryContext caller = MemoryContextSwitchTo(log->per_row);
        heap_deform_tuple(change.entry, log->buffer->descriptor, log->stored, log->stored_nulls);
        for (int i = 0; i < table->column_count; i++) {
            log->values[i] = log->stored[log->buffer->attnos[i] - 1];
            log->nulls[i] = log->stored_nulls[log->buffer->attnos[i] - 1];
        }
        log->values[table->column_count] = Int16GetDatum(static_cast<int16>(kind));
        log->nulls[table->column_count] = false;
        HeapTuple row = heap_form_tuple(RelationGetDescr(log->rel), log->values, log->nulls);
        heap_insert(log->rel, row, log->command, 0, log->state);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(log->per_row);
        CHECK_FOR_INTERRUPTS();
    }
}

} // namespace

void LogChanges(const ChangeBuffer *buffer, const NetChanges &net, MemoryContext memory) {
    Relation rel = try_relation_open(buffer->table->log, RowExclusiveLock);
    if (!rel) // dropped with the index table
        return;
    if (RelationGetNumberOfAttributes(rel) != buffer->table->column_count + 1)
        elog(ERROR, "log \"%s\" has not the columns of its index table",
             RelationGetRelationName(rel));
    MemoryContext caller = MemoryContextSwitchTo(memory);
    Log log = {.buffer = buffer,
               .rel = rel,
               .state = GetBulkInsertState(),
               .command = GetCurrentCommandId(true)};
    log.stored = static_cast<Datum *>(palloc(sizeof(Datum) * buffer->descriptor->natts));
    log.stored_nulls = static_cast<bool *>(palloc(buffer->descriptor->natts));
    log.values = static_cast<Datum *>(palloc(sizeof(Datum) * RelationGetNumberOfAttributes(rel)));
    log.nulls = static_cast<bool *>(palloc(RelationGetNumberOfAttributes(rel)));
    log.per_row = AllocSetContextCreate(memory, "index_table log", ALLOCSET_SMALL_SIZES);
    Append(&log, {net.deletes, net.delete_count}, ChangeKind::Delete);
    Append(&log, {net.replaced, net.replace_count}, ChangeKind::Delete);
    Append(&log, {net.replacements, net.replace_count}, ChangeKind::Insert);
    Append(&log, {net.inserts, net.insert_count}, ChangeKind::Insert);
    FreeBulkInsertState(log.state);
    MemoryContextSwitchTo(caller);
    relation_close(rel, NoLock);
}

} // namespace index_table
