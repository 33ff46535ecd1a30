// Reading and discarding what is queued.
#include "catalog/public.h"
#include "core/public.h"
#include "outbox/outbox.h"

namespace index_table {
namespace {

// The queue of a table that the caller may read.
Oid GetReadableQueue(Oid source) {
    Oid queue = QueueOf(source);
    const char *name = get_rel_name(source);
    if (!name)
        RaiseDropped(source);
    if (!OidIsValid(queue))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table \"%s\" is not captured", name),
                 errhint("SELECT index_table.capture('%s');", QualifiedName(source))));
    AclResult acl = pg_class_aclcheck(source, GetUserId(), ACL_SELECT);
    if (acl != ACLCHECK_OK)
        aclcheck_error(acl, OBJECT_TABLE, name);
    if (check_enable_rls(source, InvalidOid, true) == RLS_ENABLED)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("row security of \"%s\" hides rows from role \"%s\"", name,
                               GetUserNameFromId(GetUserId(), false)),
                        errhint("Use the owner of the table, or a role with BYPASSRLS.")));
    return queue;
}

struct LastNumber {
    bool found;
    int64 number;
};

// Reads numbers in order until there are as many changes as wanted.
LastNumber FindLastNumber(Oid queue, int32 batch) {
    LastNumber last = {};
    const char *query =
        psprintf("SELECT number, changes FROM %s ORDER BY number", QualifiedName(queue));
    SPIPlanPtr plan = SPI_prepare_cursor(query, 0, nullptr, CURSOR_OPT_FAST_PLAN);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    Portal portal = SPI_cursor_open(nullptr, plan, nullptr, nullptr, true);
    for (int64 changes = 0; changes < batch;) {
        SPI_cursor_fetch(portal, true, Min(100, batch));
        if (SPI_processed == 0)
            break;
        for (uint64 i = 0; i < SPI_processed && changes < batch; i++) {
            bool isnull;
            HeapTuple row = SPI_tuptable->vals[i];
            last.found = true;
            last.number = DatumGetInt64(SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull));
            changes += Max(1, DatumGetInt32(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull)));
        }
        SPI_freetuptable(SPI_tuptable);
    }
    SPI_cursor_close(portal);
    return last;
}

// What equals an identity column, its own operator: no search_path finds another.
char *EqualityOf(Oid type) {
    TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);
    if (!OidIsValid(entry->eq_opr))
        elog(ERROR, "type %u has no equality", type);
    return OperatorName(entry->eq_opr);
}

char *PendingQuery(Oid source, Oid queue, bool with_rows) {
    List *names = OutboxIdentity(source);
    StringInfoData arrays, values, columns, condition, sql;
    for (StringInfo text : {&arrays, &values, &columns, &condition, &sql})
        initStringInfo(text);
    for (int i = 1; i <= list_length(names); i++) {
        const char *name = static_cast<const char *>(list_nth(names, i - 1));
        AttrNumber attno = get_attnum(source, name);
        const char *comma = i > 1 ? ", " : "";
        appendStringInfo(&arrays, "%sunnest(q.identity_%d)", comma, i);
        appendStringInfo(&values, "%si%d", comma, i);
        // By the type's output function, as values are read elsewhere: a cast may be anybody's.
        appendStringInfo(&columns, "%spg_catalog.format('%%s', u.i%d)", comma, i);
        appendStringInfo(&condition, "%st.%s %s u.i%d", i > 1 ? " AND " : "",
                         quote_identifier(name), EqualityOf(get_atttype(source, attno)), i);
    }
    // An identity comes with the last number that has it.
    appendStringInfo(
        &sql,
        "WITH q AS MATERIALIZED (SELECT * FROM %s WHERE number <= $1), "
        "u AS (SELECT max(q.number) AS number, %s FROM q, ROWS FROM (%s) AS u(%s) GROUP BY %s) "
        "SELECT q.number, q.changes = 0, CASE WHEN u.number IS NOT NULL THEN ARRAY[%s] END%s "
        "FROM q LEFT JOIN u ON u.number = q.number",
        QualifiedName(queue), values.data, arrays.data, values.data, values.data, columns.data,
        with_rows ? psprintf(", (t.*)::%s", QualifiedName(source)) : "");
    if (with_rows)
        appendStringInfo(&sql, " LEFT JOIN %s AS t ON %s", QualifiedName(source), condition.data);
    appendStringInfoString(&sql, " ORDER BY q.number");
    return sql.data;
}

// Who rewrites the table with no regard to snapshots, as pg_repack does, leaves older ones no row
// of it, and its lock may have been waited for: rows are read under a snapshot that is newer than
// the lock, where the transaction has not one for all. False where it has.
bool RenewSnapshot(Oid source) {
    find_all_inheritors(source, AccessShareLock, nullptr);
    if (IsolationUsesXactSnapshot())
        return false;
    PushActiveSnapshot(GetLatestSnapshot());
    return true;
}

void ReturnPending(FunctionCallInfo fcinfo, Oid source, int32 batch, bool with_rows) {
    if (batch < 1)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("batch must be at least 1, not %d", batch)));
    Oid queue = GetReadableQueue(source);
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    OwnerContext owner = EnterOwner(RelationOwner(queue));
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    LastNumber last = FindLastNumber(queue, batch);
    if (last.found) {
        Oid type = INT8OID;
        Datum value = Int64GetDatum(last.number);
        SPIPlanPtr plan = SPI_prepare(PendingQuery(source, queue, with_rows), 1, &type);
        if (!plan)
            elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
        bool is_renewed = with_rows && RenewSnapshot(source);
        Portal portal = SPI_cursor_open(nullptr, plan, &value, nullptr, true);
        for (;;) {
            SPI_cursor_fetch(portal, true, 1000);
            if (SPI_processed == 0)
                break;
            for (uint64 i = 0; i < SPI_processed; i++) {
                Datum values[4];
                bool nulls[4];
                heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
                tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
            }
            SPI_freetuptable(SPI_tuptable);
        }
        SPI_cursor_close(portal);
        if (is_renewed)
            PopActiveSnapshot();
    }
    SPI_finish();
    LeaveOwner(owner);
}

// Not by DELETE, which PostgreSQL refuses of tables that are published and have no replica
// identity: see src/ddl/replication.h. What somebody else has deleted meanwhile is passed over.
int64 DeleteNumbers(Oid queue, Datum numbers) {
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    Oid type = INT8ARRAYOID;
    if (SPI_execute_with_args(
            psprintf("SELECT ctid FROM %s WHERE number = ANY ($1)", QualifiedName(queue)), 1, &type,
            &numbers, nullptr, false, 0) != SPI_OK_SELECT)
        elog(ERROR, "cannot read queue");
    Relation rel = table_open(queue, RowExclusiveLock);
    CommandId command = GetCurrentCommandId(true);
    int64 count = 0;
    for (uint64 i = 0; i < SPI_processed; i++) {
        bool isnull;
        Datum tid = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);
        TM_FailureData failure;
        if (compat::DeleteTuple(rel, reinterpret_cast<ItemPointer>(DatumGetPointer(tid)), command,
                                &failure) == TM_Ok)
            count++;
    }
    table_close(rel, NoLock);
    SPI_finish();
    return count;
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_pending) {
    ReturnPending(fcinfo, PG_GETARG_OID(0), PG_GETARG_INT32(1), false);
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_pending_rows) {
    if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("arguments captured and batch of index_table.pending() must not be "
                               "null")));
    Oid source = PG_GETARG_OID(1);
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, 0);
    const char *name = get_rel_name(source);
    if (!name)
        RaiseDropped(source);
    if (type != get_rel_type_id(source))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("rowtype is %s, not the row type of \"%s\"",
                               OidIsValid(type) ? format_type_be(type) : "unknown", name),
                        errhint("Pass NULL::%s.", QualifiedName(source))));
    ReturnPending(fcinfo, source, PG_GETARG_INT32(2), true);
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_discard) {
    PreventCommandDuringRecovery("index_table.discard()");
    Oid source = PG_GETARG_OID(0);
    Oid queue = QueueOf(source);
    const char *name = get_rel_name(source);
    if (!name)
        RaiseDropped(source);
    if (!OidIsValid(queue))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("table \"%s\" is not captured", name)));
    AclResult acl = pg_class_aclcheck(queue, GetUserId(), ACL_DELETE);
    if (acl != ACLCHECK_OK)
        aclcheck_error(acl, OBJECT_TABLE, get_rel_name(queue));
    PreventCommandIfReadOnly("index_table.discard()");
    OwnerContext owner = EnterOwner(RelationOwner(queue));
    int64 count = DeleteNumbers(queue, PG_GETARG_DATUM(1));
    LeaveOwner(owner);
    PG_RETURN_INT64(count);
}

SQL_FUNCTION(index_table_backlog) {
    Oid queue = GetReadableQueue(PG_GETARG_OID(0));
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    OwnerContext owner = EnterOwner(RelationOwner(queue));
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    if (SPI_execute(psprintf("SELECT COALESCE(sum(GREATEST(changes, 1)), 0)::bigint, "
                             "min(queued_at) FROM %s",
                             QualifiedName(queue)),
                    true, 1) != SPI_OK_SELECT)
        elog(ERROR, "cannot read queue");
    Datum values[2];
    bool nulls[2];
    heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, values, nulls);
    SPI_finish(); // both are passed by value
    LeaveOwner(owner);
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
