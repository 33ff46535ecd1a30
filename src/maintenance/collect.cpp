#include "maintenance/collect.h"

#include "maintenance/flush.h"

namespace index_table {

EntryCollector BeginCollecting(const IndexTable *table) {
    Assert(IsKnown(table) && IsMemoryFreed());
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

void CollectChange(EntryCollector *collector, const Datum *values, const bool *nulls,
                   ChangeKind kind) {
    Assert(FindChangeBuffer(collector->table->relid) == collector->buffer);
    for (int position = 0; position < collector->table->column_count; position++) {
        int index = collector->buffer->attnos[position] - 1;
        collector->entry.values[index] = values[position];
        collector->entry.nulls[index] = nulls[position];
    }
    AddChange(collector->buffer, collector->entry, kind, collector->command);
    collector->count++;
}

void CollectRow(EntryCollector *collector, HeapTuple row, TupleDesc descriptor, int first_column) {
    Assert(first_column > 0 &&
           first_column + collector->table->column_count - 1 <= descriptor->natts);
    int count = collector->table->column_count;
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    bool *nulls = static_cast<bool *>(palloc(count));
    for (int i = 0; i < count; i++)
        values[i] = SPI_getbinval(row, descriptor, first_column + i, &nulls[i]);
    CollectChange(collector, values, nulls, ChangeKind::Insert);
    pfree(values);
    pfree(nulls);
}

void CollectEntry(EntryCollector *collector, HeapTuple row, TupleDesc descriptor,
                  int first_column) {
    CollectRow(collector, row, descriptor, first_column);
    if (IsFull(collector->buffer))
        FlushChanges();
}

void EndCollecting(EntryCollector *) {
    FlushAllChanges();
}

} // namespace index_table
