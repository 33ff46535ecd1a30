// What is still queued for index tables: index_table.queue and index_table.wait_caught_up().
#include "catalog/public.h"
#include "deferred/public.h"
#include "drain/drain.h"
#include "drain/drain_errors.h"
#include "drain/local_drain.h"
#include "maintenance/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

// What a shard says of a queue.
struct Backlog {
    bool is_captured;
    int64 changes;
    bool has_oldest;
    TimestampTz oldest;
    TimestampTz now; // there
};

TimestampTz ReadTimestamp(const char *text) {
    return DatumGetTimestampTz(
        OidInputFunctionCall(F_TIMESTAMPTZ_IN, const_cast<char *>(text), InvalidOid, -1));
}

Backlog ReadBacklog(Oid leaf) {
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number)
        return {}; // it has just left
    OwnerContext owner = EnterOwner(RelationOwner(number->base));
    ShardConnection *connection = OpenConnection(leaf);
    const char *table = RemoteName(leaf);
    Backlog backlog = {.is_captured = ReadOutboxIdentity(connection, table) != NIL};
    if (backlog.is_captured) {
        PGresult *result = ExecuteReading(connection,
                                          "SELECT changes, oldest, clock_timestamp() FROM "
                                          "index_table.backlog($1::regclass)",
                                          1, &table);
        backlog.changes = strtoll(ResultValue(result, 0, 0), nullptr, 10);
        backlog.has_oldest = ResultValue(result, 0, 1) != nullptr;
        if (backlog.has_oldest)
            backlog.oldest = ReadTimestamp(ResultValue(result, 0, 1));
        backlog.now = ReadTimestamp(ResultValue(result, 0, 2));
    }
    LeaveOwner(owner);
    return backlog;
}

struct WaitedLeaf {
    Oid relid;
    bool is_known; // since when is known
    TimestampTz since;
};

// Whether everything that a shard had committed when it was asked first has been drained.
bool IsCaughtUp(WaitedLeaf *leaf) {
    Backlog backlog = {};
    if (TryInSubtransaction([&] { backlog = ReadBacklog(leaf->relid); }))
        return false; // it may be back before the time is over
    if (!leaf->is_known)
        *leaf = {.relid = leaf->relid, .is_known = true, .since = backlog.now};
    bool caught_up = !backlog.is_captured || !backlog.has_oldest || backlog.oldest > leaf->since;
    return caught_up && ListDrainErrors(leaf->relid) == NIL;
}

// --- index_table.queue -----------------------------------------------------------

enum Column { kTable, kLeaf, kServer, kPending, kOldest, kRefused, kError, kTries, kColumns };

struct StatusRow {
    Datum values[kColumns];
    bool nulls[kColumns];
};

void Put(StatusRow *row, Column column, bool isnull, Datum value) {
    row->values[column] = value;
    row->nulls[column] = isnull;
}

// A row for each index table of a foreign partition's base table.
void PutLeaf(ReturnSetInfo *result, Oid leaf) {
    Backlog backlog = {};
    const char *error = TryInSubtransaction([&] { backlog = ReadBacklog(leaf); });
    std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
    if (!number || !IsForeign(leaf))
        return;
    DrainErrorSummary errors = SummarizeDrainErrors(leaf);
    if (!error)
        error = errors.error;
    NameData server;
    namestrcpy(&server, ServerOf(leaf)->servername);
    StatusRow row = {};
    Put(&row, kLeaf, false, ObjectIdGetDatum(leaf));
    Put(&row, kServer, false, NameGetDatum(&server));
    Put(&row, kPending, !backlog.is_captured, Int64GetDatum(backlog.changes));
    Put(&row, kOldest, !backlog.has_oldest, TimestampTzGetDatum(backlog.oldest));
    Put(&row, kRefused, false, Int32GetDatum(errors.rows));
    Put(&row, kError, !error, error ? CStringGetTextDatum(error) : 0);
    Put(&row, kTries, false, Int32GetDatum(errors.tries));
    ListCell *table;
    foreach (table, ListIndexTables(number->base)) {
        Put(&row, kTable, false, ObjectIdGetDatum(lfirst_oid(table)));
        tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
    }
}

// A row for an index table with a queue of its own.
void PutQueue(ReturnSetInfo *result, Oid relid) {
    const IndexTable *table = FindIndexTable(relid);
    QueueContents contents;
    if (!table || !ReadQueue(table, GetActiveSnapshot(), &contents))
        return;
    StatusRow row = {};
    Put(&row, kTable, false, ObjectIdGetDatum(relid));
    Put(&row, kLeaf, true, 0);
    Put(&row, kServer, true, 0);
    Put(&row, kPending, false, Int64GetDatum(contents.waiting + contents.set_aside));
    Put(&row, kOldest, contents.oldest == DT_NOEND, TimestampTzGetDatum(contents.oldest));
    Put(&row, kRefused, false, Int32GetDatum(static_cast<int32>(contents.set_aside)));
    Put(&row, kError, !contents.error, contents.error ? CStringGetTextDatum(contents.error) : 0);
    Put(&row, kTries, false, Int32GetDatum(contents.tries));
    tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
}

// Whether everything has been drained that was committed before `since` for an index table with a
// queue of its own. What this transaction has queued nobody drains before it ends.
bool IsCaughtUp(Oid relid, Snapshot since) {
    const IndexTable *table = FindIndexTable(relid);
    return !table || !OidIsValid(table->queue) || !HasQueued(table, since);
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_queue_status) {
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    ListCell *cell;
    foreach (cell, ListDrainedLeaves(InvalidOid))
        PutLeaf(result, lfirst_oid(cell));
    foreach (cell, ListQueued(InvalidOid))
        PutQueue(result, lfirst_oid(cell));
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_wait_caught_up) {
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    Interval *timeout = PG_GETARG_INTERVAL_P(1);
    TimestampTz now = GetCurrentTimestamp();
    TimestampTz end = DatumGetTimestampTz(DirectFunctionCall2(
        timestamptz_pl_interval, TimestampTzGetDatum(now), IntervalPGetDatum(timeout)));
    Oid relid = table->relid;
    Snapshot since = RegisterSnapshot(GetLatestSnapshot());
    bool is_local_done = false;
    List *leaves = ListDrainedLeaves(table->base);
    WaitedLeaf *waited = palloc0_array(WaitedLeaf, list_length(leaves) + 1);
    ListCell *cell;
    foreach (cell, leaves)
        waited[foreach_current_index(cell)].relid = lfirst_oid(cell);
    for (int next = 0;;) {
        while (next < list_length(leaves) && IsCaughtUp(&waited[next]))
            next++;
        is_local_done = is_local_done || IsCaughtUp(relid, since);
        bool is_done = next == list_length(leaves) && is_local_done;
        if (is_done || GetCurrentTimestamp() >= end) {
            UnregisterSnapshot(since);
            PG_RETURN_BOOL(is_done);
        }
        WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50, PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
}
