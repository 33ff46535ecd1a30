#include "drain/shard_queue.h"

#include "catalog/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// What stands for one life of a server: transactions may be lost where it ends, and a number read
// in another stand for another change. A server that begins anew without its postmaster, after one
// of its processes has crashed, begins its statistics anew, too. No session is named: a pooler
// lends another for each transaction.
constexpr char kLife[] = "extract(epoch FROM pg_postmaster_start_time()) || ' ' || "
                         "extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())";

AttrNumber FindRemoteColumn(Relation rel, const char *name) {
    for (int attno = 1; attno <= RelationGetNumberOfAttributes(rel); attno++)
        if (!TupleDescAttr(RelationGetDescr(rel), attno - 1)->attisdropped &&
            strcmp(RemoteColumn(RelationGetRelid(rel), attno), name) == 0)
            return attno;
    return InvalidAttrNumber;
}

// Whether every index table's entries tell of a column.
bool IsInEveryIdentity(const Leaf *leaf, Relation rel, AttrNumber attno) {
    const char *name = NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname);
    AttrNumber base_attno = get_attnum(leaf->base_relid, name);
    for (int i = 0; i < leaf->table_count; i++) {
        const IndexTable *table = leaf->tables[i].table;
        if (std::none_of(
                table->identity, table->identity + table->identity_count,
                [=](const CopiedColumn &column) { return column.base_attno == base_attno; }))
            return false;
    }
    return true;
}

Datum ReadValue(const ShardQueue *queue, int column, const char *text) {
    Form_pg_attribute att = TupleDescAttr(RelationGetDescr(queue->rel), queue->columns[column] - 1);
    return InputFunctionCall(&queue->inputs[column], const_cast<char *>(text),
                             queue->parameters[column], att->atttypmod);
}

// Identity columns come first among those that are read.
template <typename ValueOf>
QueuedRow MakeRow(const ShardQueue *queue, ValueOf value_of, int first_identity, int first_column) {
    int natts = RelationGetNumberOfAttributes(queue->rel);
    QueuedRow queued = {};
    queued.identity = palloc_array(Datum, queue->identity_count);
    for (int i = 0; i < queue->identity_count; i++)
        queued.identity[i] = ReadValue(queue, i, value_of(first_identity + i));
    queued.exists = value_of(first_column) != nullptr;
    if (!queued.exists)
        return queued;
    queued.values = palloc0_array(Datum, natts);
    queued.nulls = palloc_array(bool, natts);
    memset(queued.nulls, true, natts);
    for (int i = 0; i < queue->column_count; i++) {
        const char *text = value_of(first_column + i);
        int index = queue->columns[i] - 1;
        queued.nulls[index] = text == nullptr;
        if (text)
            queued.values[index] = ReadValue(queue, i, text);
    }
    return queued;
}

QueuedRow MakeRow(const ShardQueue *queue, PGresult *result, int row, int first_identity,
                  int first_column) {
    return MakeRow(
        queue, [=](int column) { return ResultValue(result, row, column); }, first_identity,
        first_column);
}

// Rows of a query here, of an identity and columns.
QueuedRow *ReadHere(const ShardQueue *queue, const char *sql, const char *const *identities,
                    int *count) {
    MemoryContext memory = CurrentMemoryContext;
    Oid types[INDEX_MAX_KEYS];
    Datum values[INDEX_MAX_KEYS];
    for (int i = 0; i < queue->identity_count; i++) {
        types[i] = TEXTOID;
        values[i] = CStringGetTextDatum(identities[i]);
    }
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute_with_args(sql, queue->identity_count, types, values, nullptr, false, 0) !=
        SPI_OK_SELECT)
        elog(ERROR, "cannot read rows of \"%s\"", RelationGetRelationName(queue->rel));
    MemoryContext spi = MemoryContextSwitchTo(memory);
    *count = static_cast<int>(SPI_processed);
    QueuedRow *rows = palloc_array(QueuedRow, Max(1, *count));
    for (int i = 0; i < *count; i++)
        rows[i] = MakeRow(
            queue,
            [i](int column) {
                return SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column + 1);
            },
            0, queue->identity_count);
    MemoryContextSwitchTo(spi);
    SPI_finish();
    MemoryContextSwitchTo(memory);
    return rows;
}

// As it is called where the table is.
const char *ColumnName(const ShardQueue *queue, AttrNumber attno) {
    return queue->connection ? RemoteColumn(queue->relid, attno)
                             : get_attname(queue->relid, attno, false);
}

char *ListColumns(const ShardQueue *queue, const char *prefix) {
    StringInfoData sql;
    initStringInfo(&sql);
    for (int i = 0; i < queue->column_count; i++)
        appendStringInfo(&sql, ", %s.%s", prefix,
                         quote_identifier(ColumnName(queue, queue->columns[i])));
    return sql.data;
}

void Connect(ShardQueue *queue, Relation rel, const Leaf *leaf, Oid user) {
    *queue = {.relid = RelationGetRelid(rel), .rel = rel, .leaf = leaf};
    queue->table = RemoteName(queue->relid);
    queue->connection = OpenConnection(queue->relid, user);
}

// What is read: the columns of the identity, first, and those that entries are made of.
void FindColumns(ShardQueue *queue, List *identity) {
    const Leaf *leaf = queue->leaf;
    queue->identity_count = list_length(identity);
    queue->identity = palloc_array(AttrNumber, list_length(identity));
    queue->columns = palloc_array(AttrNumber, list_length(identity) + leaf->used_count);
    ListCell *cell;
    foreach (cell, identity) {
        queue->identity[foreach_current_index(cell)] = lfirst_int(cell);
        queue->columns[queue->column_count++] = lfirst_int(cell);
    }
    for (AttrNumber attno : std::span(leaf->used, leaf->used_count))
        if (std::find(queue->columns, queue->columns + queue->identity_count, attno) ==
            queue->columns + queue->identity_count)
            queue->columns[queue->column_count++] = attno;
    queue->inputs = palloc_array(FmgrInfo, queue->column_count);
    queue->parameters = palloc_array(Oid, queue->column_count);
    for (int i = 0; i < queue->column_count; i++) {
        Oid input;
        getTypeInputInfo(
            TupleDescAttr(RelationGetDescr(queue->rel), queue->columns[i] - 1)->atttypid, &input,
            &queue->parameters[i]);
        fmgr_info(input, &queue->inputs[i]);
    }
}

} // namespace

bool OpenQueue(ShardQueue *queue, Relation rel, const Leaf *leaf, Oid user, List **identity) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true) && leaf->is_foreign &&
           IsMemoryFreed());
    Connect(queue, rel, leaf, user);
    if (*identity == NIL)
        *identity = ReadOutboxIdentity(queue->connection, queue->table);
    if (*identity == NIL)
        return false;
    List *attnos = NIL;
    ListCell *cell;
    foreach (cell, *identity) {
        const char *name = static_cast<const char *>(lfirst(cell));
        AttrNumber attno = FindRemoteColumn(rel, name);
        if (attno == InvalidAttrNumber || !IsInEveryIdentity(leaf, rel, attno))
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_TABLE_DEFINITION),
                     errmsg("foreign table \"%s\" is captured on its server by column \"%s\", "
                            "which is not in the identity of every index table of \"%s\"",
                            RelationGetRelationName(rel), name, get_rel_name(leaf->base_relid)),
                     errhint("Capture it there by the columns that index tables find rows by.")));
        attnos = lappend_int(attnos, attno);
    }
    FindColumns(queue, attnos);
    return true;
}

bool OpenShard(ShardQueue *queue, Relation rel, const Leaf *leaf, Oid user, List *identity) {
    Assert(CheckRelationLockedByMe(rel, AccessShareLock, true) && IsMemoryFreed());
    List *attnos = NIL;
    ListCell *cell;
    foreach (cell, identity) {
        AttrNumber attno =
            get_attnum(RelationGetRelid(rel), static_cast<const char *>(lfirst(cell)));
        if (attno == InvalidAttrNumber || !IsInEveryIdentity(leaf, rel, attno))
            return false;
        attnos = lappend_int(attnos, attno);
    }
    if (leaf->is_foreign)
        Connect(queue, rel, leaf, user);
    else
        *queue = {.relid = RelationGetRelid(rel),
                  .rel = rel,
                  .leaf = leaf,
                  .table = QualifiedName(RelationGetRelid(rel))};
    FindColumns(queue, attnos);
    return true;
}

QueueBatch ReadBatch(const ShardQueue *queue, int size) {
    Assert(size > 0 && IsMemoryFreed());
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfo(&sql, "SELECT %s, p.number, p.reload", kLife);
    for (int i = 1; i <= queue->identity_count; i++)
        appendStringInfo(&sql, ", p.identity[%d]", i);
    appendStringInfo(&sql, "%s FROM index_table.pending(NULL::%s, %s, %d) AS p ORDER BY p.number",
                     ListColumns(queue, "(p.entity)"), queue->table,
                     quote_literal_cstr(queue->table), size);
    PGresult *result = ExecuteReading(queue->connection, sql.data, 0, nullptr);
    constexpr int kLifeColumn = 0, kNumber = 1, kReload = 2, kIdentity = 3;
    QueueBatch batch = {};
    int count = PQntuples(result);
    if (count == 0)
        return batch;
    batch.life = pstrdup(ResultValue(result, 0, kLifeColumn));
    batch.numbers = palloc_array(int64, count);
    batch.rows = palloc_array(QueuedRow, count);
    for (int i = 0; i < count; i++) {
        int64 number = strtoll(ResultValue(result, i, kNumber), nullptr, 10);
        if (batch.number_count == 0 || batch.numbers[batch.number_count - 1] != number)
            batch.numbers[batch.number_count++] = number;
        batch.reload = batch.reload || strcmp(ResultValue(result, i, kReload), "t") == 0;
        if (!ResultValue(result, i, kIdentity))
            continue;
        batch.rows[batch.row_count] =
            MakeRow(queue, result, i, kIdentity, kIdentity + queue->identity_count);
        batch.rows[batch.row_count++].number = number;
        CHECK_FOR_INTERRUPTS();
    }
    return batch;
}

QueuedRow ReadRow(const ShardQueue *queue, List *identity) {
    StringInfoData sql;
    initStringInfo(&sql);
    appendStringInfoString(&sql, "SELECT NULL");
    for (int i = 1; i <= queue->identity_count; i++)
        appendStringInfo(&sql, ", $%d", i);
    appendStringInfo(&sql, "%s FROM (SELECT) AS one LEFT JOIN %s AS t ON ", ListColumns(queue, "t"),
                     queue->table);
    const char **values = palloc_array(const char *, queue->identity_count);
    for (int i = 0; i < queue->identity_count; i++) {
        values[i] = static_cast<const char *>(list_nth(identity, i));
        appendStringInfo(&sql, "%st.%s = $%d", i ? " AND " : "",
                         quote_identifier(ColumnName(queue, queue->identity[i])), i + 1);
    }
    PGresult *result = ExecuteReading(queue->connection, sql.data, queue->identity_count, values);
    return MakeRow(queue, result, 0, 1, 1 + queue->identity_count);
}

QueuedRow *ReadRows(const ShardQueue *queue, const char *const *identities, int *count) {
    StringInfoData sql, arrays, names, condition;
    for (StringInfo text : {&sql, &arrays, &names, &condition})
        initStringInfo(text);
    for (int i = 0; i < queue->identity_count; i++) {
        const char *comma = i ? ", " : "";
        Oid type = TupleDescAttr(RelationGetDescr(queue->rel), queue->identity[i] - 1)->atttypid;
        appendStringInfo(&arrays, "%s$%d::%s[]", comma, i + 1, QualifiedTypeName(type));
        appendStringInfo(&names, "%si%d", comma, i + 1);
        appendStringInfo(&condition, "%st.%s = u.i%d", i ? " AND " : "",
                         quote_identifier(ColumnName(queue, queue->identity[i])), i + 1);
    }
    appendStringInfo(&sql,
                     "SELECT %s%s FROM (SELECT DISTINCT * FROM unnest(%s) AS v(%s)) AS "
                     "u LEFT JOIN %s AS t ON %s",
                     names.data, ListColumns(queue, "t"), arrays.data, names.data, queue->table,
                     condition.data);
    if (!queue->connection)
        return ReadHere(queue, sql.data, identities, count);
    PGresult *result =
        ExecuteReading(queue->connection, sql.data, queue->identity_count, identities);
    *count = PQntuples(result);
    QueuedRow *rows = palloc_array(QueuedRow, Max(1, *count));
    for (int i = 0; i < *count; i++)
        rows[i] = MakeRow(queue, result, i, 0, queue->identity_count);
    return rows;
}

char *IdentityText(const ShardQueue *queue, const QueuedRow &row) {
    Datum *texts = palloc_array(Datum, queue->identity_count);
    int level = BeginTransmission();
    UseCanonicalText(); // what is noted is found again by other sessions
    for (int i = 0; i < queue->identity_count; i++) {
        Oid output;
        bool is_varlena;
        Oid type = TupleDescAttr(RelationGetDescr(queue->rel), queue->identity[i] - 1)->atttypid;
        getTypeOutputInfo(type, &output, &is_varlena);
        texts[i] = CStringGetTextDatum(OidOutputFunctionCall(output, row.identity[i]));
    }
    EndTransmission(level);
    ArrayType *array =
        construct_array(texts, queue->identity_count, TEXTOID, -1, false, TYPALIGN_INT);
    return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}

bool DiscardBatch(const ShardQueue *queue, const QueueBatch &batch) {
    StringInfoData numbers;
    initStringInfo(&numbers);
    int row = 0; // rows come in the order of their numbers
    for (int64 number : std::span(batch.numbers, batch.number_count)) {
        bool is_contended = false;
        for (; row < batch.row_count && batch.rows[row].number == number; row++)
            is_contended = is_contended || batch.rows[row].is_contended;
        if (!is_contended)
            appendStringInfo(&numbers, "%c" INT64_FORMAT, numbers.len == 0 ? '{' : ',', number);
    }
    if (numbers.len == 0)
        return true;
    appendStringInfoChar(&numbers, '}');
    const char *values[] = {queue->table, numbers.data, batch.life};
    PGresult *result = ExecuteWriting(
        queue->connection,
        psprintf("SELECT index_table.discard($1::regclass, $2::bigint[]) WHERE %s = $3", kLife), 3,
        values);
    return PQntuples(result) > 0;
}

} // namespace index_table
