#include "build/collect.h"

#include "maintenance/maintenance.h"

namespace index_table {

EntryCollector BeginCollecting(const IndexTable *table) {
    EntryCollector collector = {.table = table, .buffer = GetChangeBuffer(table)};
    if (!collector.buffer)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("index table with OID %u was dropped", table->relid)));
    int columns = collector.buffer->descriptor->natts;
    collector.entry.values = static_cast<Datum *>(palloc0(sizeof(Datum) * columns));
    collector.entry.nulls = static_cast<bool *>(palloc(columns));
    memset(collector.entry.nulls, true, columns);
    collector.command = GetCurrentCommandId(true);
    return collector;
}

namespace {

void Collect(EntryCollector *collector, HeapTuple row, TupleDesc descriptor, int first_column,
             ChangeKind kind) {
    for (int position = 0; position < collector->table->column_count; position++) {
        int index = collector->buffer->attnos[position] - 1;
        collector->entry.values[index] =
            SPI_getbinval(row, descriptor, first_column + position, &collector->entry.nulls[index]);
    }
    AddChange(collector->buffer, collector->entry, kind, collector->command);
    collector->count++;
}

} // namespace

void CollectChange(EntryCollector *collector, HeapTuple row, TupleDesc descriptor,
                   ChangeKind kind) {
    Collect(collector, row, descriptor, 1, kind);
}

void CollectEntry(EntryCollector *collector, HeapTuple row, TupleDesc descriptor,
                  int first_column) {
    Collect(collector, row, descriptor, first_column, ChangeKind::Insert);
    if (IsFull(collector->buffer))
        FlushChanges();
}

void EndCollecting(EntryCollector *) {
    FlushAllChanges();
}

} // namespace index_table
