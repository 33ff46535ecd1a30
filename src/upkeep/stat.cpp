// What index_table.stat shows of shared memory, and index_table.stat_reset().
#include "catalog/public.h"
#include "core/public.h"
#include "global/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

constexpr int kColumns = 21;

// A row in the making.
struct Row {
    Datum values[kColumns];
    bool nulls[kColumns];
    int count;

    void Add(Datum value, bool is_known = true) {
        values[count] = is_known ? value : 0;
        nulls[count++] = !is_known;
    }
    void AddCount(uint64 count) { Add(Int64GetDatum(static_cast<int64>(count))); }
    void AddTime(TimestampTz time) { Add(TimestampTzGetDatum(time), time != 0); }
    // When it was done, and with what result.
    void AddWork(const LastWork &last) {
        AddTime(last.ended);
        Add(Int64GetDatum(last.result), last.ended != 0 && last.result >= 0);
    }
};

Datum ToInterval(int64 milliseconds) {
    auto *interval = palloc0_object(Interval);
    interval->time = milliseconds * 1000;
    return IntervalPGetDatum(interval);
}

const LastWork &WorkOf(const RelationStatistics &statistics, Work work) {
    return statistics.works[static_cast<int>(work)];
}

void Fill(Row *row, const RelationStatistics &statistics) {
    const Counts &counts = statistics.counts;
    row->AddCount(counts.lookups);
    row->AddTime(statistics.last_lookup);
    row->AddCount(counts.entries_read);
    row->AddCount(counts.rows_fetched);
    row->AddCount(counts.entries_skipped);
    row->AddCount(counts.shard_statements);
    row->AddCount(counts.flushes);
    row->AddCount(counts.entries_written);
    row->AddWork(WorkOf(statistics, Work::Verify));
    const VerifyPass &pass = statistics.pass;
    bool is_under_way = pass.began != 0;
    row->AddTime(pass.began);
    row->Add(Int64GetDatum(pass.problems), is_under_way);
    row->Add(Int32GetDatum(pass.done), is_under_way);
    row->Add(Int32GetDatum(pass.total), is_under_way);
    row->AddWork(WorkOf(statistics, Work::Repair));
    row->AddWork(WorkOf(statistics, Work::Vacuum));
    const LastWork &build = WorkOf(statistics, Work::Build);
    row->AddTime(build.ended);
    row->Add(build.ended != 0 ? ToInterval(build.milliseconds) : 0, build.ended != 0);
    row->AddTime(statistics.since);
}

// All that the user owns.
int64 ResetAll() {
    List *all = ListGlobalRoots();
    ListCell *base, *cell;
    foreach (base, ListBases())
        all = list_concat(all, ListIndexTables(lfirst_oid(base)));
    int64 count = 0;
    foreach (cell, all) {
        Oid relid = lfirst_oid(cell);
        if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) || !compat::OwnsRelation(relid))
            continue;
        ResetStatistics(relid);
        count++;
    }
    return count;
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_counters) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    Row row = {};
    if (std::optional<RelationStatistics> statistics = GetStatistics(PG_GETARG_OID(0)))
        Fill(&row, *statistics);
    while (row.count < kColumns)
        row.Add(0, false);
    PG_RETURN_DATUM(
        HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), row.values, row.nulls)));
}

SQL_FUNCTION(index_table_lost_counts) {
    if (!AreCountsKept())
        PG_RETURN_NULL();
    PG_RETURN_INT64(static_cast<int64>(LostCounts()));
}

SQL_FUNCTION(index_table_stat_reset) {
    if (!AreCountsKept())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("nothing is counted of index tables"),
                        errhint("Add index_table to shared_preload_libraries.")));
    if (PG_ARGISNULL(0))
        PG_RETURN_INT64(ResetAll());
    Oid relid = PG_GETARG_OID(0);
    if (!FindOwnGlobalIndex(relid))
        relid = GetOwnIndexTable(relid)->relid;
    ResetStatistics(relid);
    PG_RETURN_INT64(1);
}
