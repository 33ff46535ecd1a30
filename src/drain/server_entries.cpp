#include "drain/server_entries.h"

#include "catalog/public.h"
#include "core/public.h"
#include "drain/apply.h"
#include "exec/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// SELECT the columns of entries FROM index table WHERE partition_id = n AND identity = ANY ($1) …
char *MakeQuery(const IndexTable *table, const ShardQueue *queue, Relation rel,
                const AttrNumber *stored) {
    auto name = [=](int position) {
        return quote_identifier(
            NameStr(TupleDescAttr(RelationGetDescr(rel), stored[position] - 1)->attname));
    };
    StringInfoData sql;
    initStringInfo(&sql);
    for (int i = 0; i < table->column_count; i++)
        appendStringInfo(&sql, "%s%s", i ? ", " : "SELECT ", name(i));
    appendStringInfo(&sql, " FROM %s WHERE %s = %d", QualifiedName(table->relid),
                     name(table->partition_position()), queue->leaf->partition_id);
    IdentityPositions identity = PositionsIn(queue, table);
    for (int i = 0; i < identity.count; i++)
        appendStringInfo(&sql, " AND %s = ANY ($%d)", name(identity.positions[i]), i + 1);
    return sql.data;
}

Datum ArrayOf(const ShardQueue *queue, std::span<QueuedRow> rows, int column, Oid *array_type) {
    Form_pg_attribute att =
        TupleDescAttr(RelationGetDescr(queue->rel), queue->identity[column] - 1);
    *array_type = get_array_type(att->atttypid);
    if (!OidIsValid(*array_type))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("type %s has no arrays, by which entries on servers are found",
                               format_type_be(att->atttypid)),
                        errhint("index_table.repair() mends the index table.")));
    Datum *values = palloc_array(Datum, rows.size());
    for (Size i = 0; i < rows.size(); i++)
        values[i] = rows[i].identity[column];
    return PointerGetDatum(construct_array(values, static_cast<int>(rows.size()), att->atttypid,
                                           att->attlen, att->attbyval, att->attalign));
}

} // namespace

bool HasServers(const Leaf *leaf) {
    return std::any_of(leaf->tables, leaf->tables + leaf->table_count,
                       [](const LeafTable &table) { return table.table->on_servers; });
}

bool AreServersSettled(const Leaf *leaf, Oid relid) {
    LockRelationOid(relid, ShareLock);
    List *index_tables = NIL;
    for (const LeafTable &table : std::span(leaf->tables, leaf->table_count))
        if (table.table->on_servers)
            index_tables = lappend_oid(index_tables, table.table->relid);
    return HaveWritersEnded(index_tables);
}

Finder *FindOnServers(const IndexTable *table, const ShardQueue *queue, std::span<QueuedRow> rows,
                      StoredEntries *stored) {
    Assert(table->on_servers && IsInOwner());
    MemoryContext memory = CurrentMemoryContext;
    Finder *finder = palloc0_object(Finder);
    finder->memory = memory;
    finder->rel = table_open(table->relid, RowExclusiveLock);
    finder->stored = GetLiveColumns(finder->rel, table->column_count);
    IdentityMap *by_identity = MakeIdentityMap(memory, RelationGetDescr(queue->rel),
                                               queue->identity, queue->identity_count);
    NullableDatum identity[INDEX_MAX_KEYS];
    for (Size row = 0; row < rows.size(); row++) {
        for (int i = 0; i < queue->identity_count; i++)
            identity[i] = {.value = rows[row].identity[i], .isnull = false};
        bool is_known;
        *PutIdentity(by_identity, queue->relid, identity, &is_known) = &stored[row];
    }
    Oid types[INDEX_MAX_KEYS];
    Datum values[INDEX_MAX_KEYS];
    for (int i = 0; i < queue->identity_count; i++)
        values[i] = ArrayOf(queue, rows, i, &types[i]);
    char *sql = MakeQuery(table, queue, finder->rel, finder->stored);
    IdentityPositions positions = PositionsIn(queue, table);
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute_with_args(sql, queue->identity_count, types, values, nullptr, false, 0) !=
        SPI_OK_SELECT)
        elog(ERROR, "cannot read entries");
    TupleDesc descriptor = RelationGetDescr(finder->rel);
    Datum *columns =
        static_cast<Datum *>(MemoryContextAllocZero(memory, sizeof(Datum) * descriptor->natts));
    bool *nulls = static_cast<bool *>(MemoryContextAlloc(memory, descriptor->natts));
    for (uint64 i = 0; i < SPI_processed; i++) {
        memset(nulls, true, descriptor->natts);
        for (int position = 0; position < table->column_count; position++) {
            int index = finder->stored[position] - 1;
            columns[index] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc,
                                           position + 1, &nulls[index]);
        }
        for (int j = 0; j < queue->identity_count; j++) {
            int index = finder->stored[positions.positions[j]] - 1;
            identity[j] = {.value = columns[index], .isnull = nulls[index]};
        }
        void **place = FindIdentity(by_identity, queue->relid, identity);
        if (!place)
            continue;
        MemoryContext caller = MemoryContextSwitchTo(memory);
        AddStored(static_cast<StoredEntries *>(*place),
                  heap_form_tuple(descriptor, columns, nulls));
        MemoryContextSwitchTo(caller);
    }
    SPI_finish();
    return finder;
}

} // namespace index_table
