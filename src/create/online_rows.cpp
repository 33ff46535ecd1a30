#include "create/online_rows.h"

#include "core/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

constinit const ShardRows *shard_rows = nullptr;

ForeignLeaf *FindLeafOf(const ForeignRows *rows, int32 number) {
    ListCell *cell;
    foreach (cell, rows->leaves)
        if (static_cast<ForeignLeaf *>(lfirst(cell))->number == number)
            return static_cast<ForeignLeaf *>(lfirst(cell));
    return nullptr;
}

// Values by position of an entry.
void AddRow(const IndexTable *table, ForeignLeaf *leaf, const Datum *values, const bool *nulls) {
    LoggedRow *row = palloc_object(LoggedRow);
    row->values = palloc0_array(Datum, table->identity_count);
    row->nulls = palloc_array(bool, table->identity_count);
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        int16 length;
        bool by_value;
        get_typlenbyval(table->types[position], &length, &by_value);
        row->nulls[i] = nulls[position];
        if (!nulls[position])
            row->values[i] = datumCopy(values[position], by_value, length);
    }
    leaf->rows = lappend(leaf->rows, row);
}

// Entries whose key is there more than once: partition number and identity, by position. Where
// types compare in other ways than keys do, CREATE UNIQUE INDEX finds what this does not.
char *DuplicatesQuery(Relation rel, const IndexTable *table) {
    auto column = [=](int position) {
        AttrNumber attno = LiveColumn(rel, table, position);
        return quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname));
    };
    StringInfoData columns, key, condition;
    for (StringInfo text : {&columns, &key, &condition})
        initStringInfo(text);
    for (int i = 0; i < table->key.count; i++) {
        appendStringInfo(&key, "%s%s", i ? ", " : "", column(i));
        if (table->options.nulls_distinct)
            appendStringInfo(&condition, "%s%s IS DISTINCT FROM NULL", i ? " AND " : " WHERE ",
                             column(i));
    }
    for (int i = table->partition_position(); i < table->group_count(); i++)
        appendStringInfo(&columns, "%s AS c%d, ", column(i), i);
    return psprintf("SELECT * FROM (SELECT %scount(*) OVER (PARTITION BY %s) AS entries "
                    "FROM %s AS t%s) AS d WHERE entries > 1 LIMIT 10000",
                    columns.data, key.data, QualifiedName(RelationGetRelid(rel)), condition.data);
}

} // namespace

void SetShardRows(const ShardRows *functions) {
    shard_rows = functions;
}

bool AreCaptured(List *leaves, Oid *leaf) {
    ListCell *cell;
    foreach (cell, leaves)
        if (IsForeign(lfirst_oid(cell)) && !HasOutbox(lfirst_oid(cell))) {
            *leaf = lfirst_oid(cell);
            return false;
        }
    return true;
}

ForeignRows BeginForeignRows(const IndexTable *table, List *loaded) {
    Assert(IsLocked(table->base, AccessShareLock));
    ForeignRows rows = {.table = table};
    ListCell *cell;
    foreach (cell, ListPartitions(table->base)) {
        if (!IsForeign(lfirst_oid(cell)))
            continue;
        LockRelationOid(lfirst_oid(cell), AccessShareLock);
        std::optional<PartitionNumber> number = FindPartitionNumber(lfirst_oid(cell));
        if (!number || number->base != table->base || !list_member_int(loaded, number->id))
            continue;
        ForeignLeaf *leaf = palloc0_object(ForeignLeaf);
        *leaf = {.relid = lfirst_oid(cell), .number = number->id};
        rows.leaves = lappend(rows.leaves, leaf);
    }
    return rows;
}

void AddLogged(ForeignRows *rows, int32 number, const LogReader &reader) {
    Assert(reader.is_row);
    if (ForeignLeaf *leaf = FindLeafOf(rows, number))
        AddRow(rows->table, leaf, reader.values, reader.nulls);
}

bool AddQueued(ForeignRows *rows) {
    ListCell *cell;
    foreach (cell, rows->leaves) {
        ForeignLeaf *leaf = static_cast<ForeignLeaf *>(lfirst(cell));
        if (!shard_rows->add_queued(rows->table, leaf))
            return false;
    }
    return true;
}

int64 AddDuplicates(ForeignRows *rows) {
    const IndexTable *table = rows->table;
    Relation rel = table_open(table->relid, AccessShareLock);
    int first = table->partition_position();
    int count = table->group_count() - first;
    Datum *values = palloc0_array(Datum, table->column_count);
    bool *nulls = palloc_array(bool, table->column_count);
    memset(nulls, true, table->column_count);
    MemoryContext caller = CurrentMemoryContext;
    int64 found = 0;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute(DuplicatesQuery(rel, table), false, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot look for duplicates");
    for (uint64 i = 0; i < SPI_processed; i++) {
        for (int column = 0; column < count; column++)
            values[first + column] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc,
                                                   column + 1, &nulls[first + column]);
        ForeignLeaf *leaf = FindLeafOf(rows, DatumGetInt32(values[first]));
        if (!leaf)
            continue;
        MemoryContext spi = MemoryContextSwitchTo(caller);
        AddRow(table, leaf, values, nulls);
        MemoryContextSwitchTo(spi);
        found++;
    }
    SPI_finish();
    table_close(rel, NoLock);
    return found;
}

int64 ApplyForeignRows(const ForeignRows &rows, bool at_once, EntryCollector *collector) {
    int64 count = 0;
    ListCell *cell;
    foreach (cell, rows.leaves) {
        ForeignLeaf *leaf = static_cast<ForeignLeaf *>(lfirst(cell));
        if (leaf->rows != NIL)
            shard_rows->collect(rows.table, leaf, at_once, collector);
        count += list_length(leaf->rows);
    }
    ApplyChanges(collector->buffer);
    return count;
}

void DrainForeign(Oid base) {
    ListCell *cell;
    foreach (cell, ListPartitions(base))
        if (IsForeign(lfirst_oid(cell)))
            shard_rows->drain(lfirst_oid(cell));
}

bool PrepareForeign(const IndexTable *table) {
    bool created = false;
    ListCell *cell;
    ForeignRows rows = BeginForeignRows(table, ListLoadedPartitions(table->relid));
    foreach (cell, rows.leaves) {
        ForeignLeaf *leaf = static_cast<ForeignLeaf *>(lfirst(cell));
        created = shard_rows->prepare(table, leaf) || created;
    }
    return created;
}

} // namespace index_table
