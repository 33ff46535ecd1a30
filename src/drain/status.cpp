// What is still queued for index tables: index_table.queue and index_table.wait_caught_up().
#include "maintenance/public.h"
#include "catalog/public.h"
#include "drain/drain_errors.h"
#include "drain/drain.h"
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

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_queue_status) {
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    ListCell *cell, *table;
    foreach (cell, ListDrainedLeaves(InvalidOid)) {
        Oid leaf = lfirst_oid(cell);
        Backlog backlog = {};
        const char *error = TryInSubtransaction([&] { backlog = ReadBacklog(leaf); });
        std::optional<PartitionNumber> number = FindPartitionNumber(leaf);
        if (!number || !IsForeign(leaf))
            continue;
        DrainErrorSummary errors = SummarizeDrainErrors(leaf);
        if (!error)
            error = errors.error;
        NameData server;
        namestrcpy(&server, ServerOf(leaf)->servername);
        foreach (table, ListIndexTables(number->base)) {
            enum { kTable, kLeaf, kServer, kPending, kOldest, kRefused, kError, kTries, kColumns };
            Datum values[kColumns] = {};
            bool nulls[kColumns] = {};
            values[kTable] = ObjectIdGetDatum(lfirst_oid(table));
            values[kLeaf] = ObjectIdGetDatum(leaf);
            values[kServer] = NameGetDatum(&server);
            values[kPending] = Int64GetDatum(backlog.changes);
            nulls[kPending] = !backlog.is_captured;
            values[kOldest] = TimestampTzGetDatum(backlog.oldest);
            nulls[kOldest] = !backlog.has_oldest;
            values[kRefused] = Int32GetDatum(errors.rows);
            nulls[kError] = !error;
            if (error)
                values[kError] = CStringGetTextDatum(error);
            values[kTries] = Int32GetDatum(errors.tries);
            tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
        }
    }
    PG_RETURN_NULL();
}

SQL_FUNCTION(index_table_wait_caught_up) {
    const IndexTable *table = GetOwnIndexTable(PG_GETARG_OID(0));
    Interval *timeout = PG_GETARG_INTERVAL_P(1);
    TimestampTz now = GetCurrentTimestamp();
    TimestampTz end = DatumGetTimestampTz(DirectFunctionCall2(
        timestamptz_pl_interval, TimestampTzGetDatum(now), IntervalPGetDatum(timeout)));
    List *leaves = ListDrainedLeaves(table->base);
    WaitedLeaf *waited = palloc0_array(WaitedLeaf, list_length(leaves) + 1);
    ListCell *cell;
    foreach (cell, leaves)
        waited[foreach_current_index(cell)].relid = lfirst_oid(cell);
    for (int next = 0;;) {
        while (next < list_length(leaves) && IsCaughtUp(&waited[next]))
            next++;
        if (next == list_length(leaves))
            PG_RETURN_BOOL(true);
        if (GetCurrentTimestamp() >= end)
            PG_RETURN_BOOL(false);
        WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50, PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
}
