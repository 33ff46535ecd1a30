#include "catalog/progress.h"

#include "catalog/definition.h"

namespace index_table {
namespace {

constexpr uint64 kMagic = UINT64CONST(0x696e6465785f7462);
// Parameters of CREATE INDEX that PostgreSQL leaves free; the view numbers them from 1.
constexpr int kParamBegan = 1;
constexpr int kParamRowsBefore = 7;
constexpr int kParamMark = 17;
constexpr int kParamIndexTable = 18;
constexpr int kParamPhase = 19;
constexpr int64 kMark = 7421;
constexpr uint32 kReportEvery = 1024;

struct SharedLeaf {
    Oid leaf;
    int32 partition_id;
    pg_atomic_uint32 scanners; // backends that scan it now
    pg_atomic_uint32 visited;
};

struct SharedCount {
    uint64 magic;
    int leaf_count;
    pid_t leader;
    DoneBefore before;
    pg_atomic_uint64 rows;
    pg_atomic_uint32 partitions_done;
    SharedLeaf leaves[FLEXIBLE_ARRAY_MEMBER]; // ordered by OID
};

// This backend's part in a count.
struct Counter {
    int64 ticket;
    SharedCount *shared; // null: none
    SharedLeaf *current;
    uint32 unreported;
    int64 partitions_done; // as reported: a worker that is late takes a partition back
};
constinit Counter counter = {};
using RowWatch = void (*)();
constinit RowWatch row_watch = nullptr;

void ForgetCounter(dsm_segment *, Datum) {
    counter = {};
}

void Report(int count, const int *params, const int64 *values) {
    pgstat_progress_update_multi_param(count, params, values);
}

void PublishCounts() {
    counter.partitions_done =
        Max(counter.partitions_done,
            static_cast<int64>(pg_atomic_read_u32(&counter.shared->partitions_done)));
    const int params[] = {PROGRESS_CREATEIDX_TUPLES_DONE, PROGRESS_CREATEIDX_PARTITIONS_DONE};
    const int64 values[] = {counter.shared->before.rows +
                                static_cast<int64>(pg_atomic_read_u64(&counter.shared->rows)),
                            counter.shared->before.partitions + counter.partitions_done};
    Report(2, params, values);
}

void AddUnreported() {
    pg_atomic_fetch_add_u64(&counter.shared->rows, counter.unreported);
    counter.unreported = 0;
    if (counter.shared->leader == MyProcPid)
        PublishCounts();
}

void Attach(int64 ticket) {
    dsm_segment *segment = dsm_find_mapping(static_cast<dsm_handle>(ticket));
    if (!segment) {
        segment = dsm_attach(static_cast<dsm_handle>(ticket));
        if (segment)
            dsm_pin_mapping(segment); // a parallel worker keeps it until it exits
    }
    SharedCount *shared = segment && dsm_segment_map_length(segment) >= sizeof(SharedCount)
                              ? static_cast<SharedCount *>(dsm_segment_address(segment))
                              : nullptr;
    if (!shared || shared->magic != kMagic)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("no build of an index table has ticket %lld",
                               static_cast<long long>(ticket))));
    on_dsm_detach(segment, ForgetCounter, 0);
    counter = {.ticket = ticket, .shared = shared};
}

SharedLeaf *FindLeafOf(SharedCount *shared, Oid leaf) {
    SharedLeaf *end = shared->leaves + shared->leaf_count;
    SharedLeaf *found = std::lower_bound(shared->leaves, end, leaf,
                                         [](const SharedLeaf &a, Oid b) { return a.leaf < b; });
    return found != end && found->leaf == leaf ? found : nullptr;
}

// A scan goes from leaf to leaf: one that was visited and has no scanners is done.
void EnterLeaf(SharedLeaf *leaf) {
    SharedCount *shared = counter.shared;
    if (SharedLeaf *left = counter.current)
        if (pg_atomic_fetch_sub_u32(&left->scanners, 1) == 1)
            pg_atomic_fetch_add_u32(&shared->partitions_done, 1);
    if (pg_atomic_fetch_add_u32(&leaf->scanners, 1) == 0 &&
        pg_atomic_exchange_u32(&leaf->visited, 1) == 1)
        pg_atomic_fetch_sub_u32(&shared->partitions_done, 1);
    counter.current = leaf;
    AddUnreported();
}

// The view reads locks and reports one after the other, and where ANALYZE or the building of an
// index has just ended there is no report: a lock of the phase's number says how far it has come.
// Nobody waits for such a lock. It is another object's than the build's own, which the view of
// 0.1.0 takes for a build whatever its part is.
void MarkReached(Progress *progress, Phase phase) {
    uint16 part = static_cast<uint16>(phase);
    if (progress->reached & (1u << part))
        return;
    LockDatabaseObject(ExtensionRelation("partition"), progress->base, part, AccessShareLock);
    progress->reached |= 1u << part;
}

} // namespace

Progress *BeginProgress(Oid base, Oid index_table, LOCKMODE mode) {
    Assert(IsMemoryFreed());
    LockDatabaseObject(ExtensionRelation("definition"), base, 0, mode);
    Progress *progress = static_cast<Progress *>(palloc0(sizeof(Progress)));
    progress->base = base;
    progress->index_table = index_table;
    progress->mode = mode;
    return progress;
}

void StartCounting(Progress *progress, List *leaves, int64 rows_total, DoneBefore before) {
    Assert(!progress->segment);
    Assert(before.partitions >= 0 && before.partitions_to_come >= 0);
    int count = list_length(leaves);
    progress->before = before;
    progress->partition_count = before.partitions + count + before.partitions_to_come;
    progress->rows_total = rows_total;
    Size size = offsetof(SharedCount, leaves) + sizeof(SharedLeaf) * Max(1, count);
    progress->segment = dsm_create(size, 0);
    progress->ticket = dsm_segment_handle(progress->segment);
    SharedCount *shared = static_cast<SharedCount *>(dsm_segment_address(progress->segment));
    memset(shared, 0, size);
    shared->leaf_count = count;
    shared->leader = MyProcPid;
    shared->before = before;
    pg_atomic_init_u64(&shared->rows, 0);
    pg_atomic_init_u32(&shared->partitions_done, 0);
    for (int i = 0; i < count; i++) {
        SharedLeaf *leaf = &shared->leaves[i];
        leaf->leaf = list_nth_oid(leaves, i);
        std::optional<PartitionNumber> number = FindPartitionNumber(leaf->leaf);
        leaf->partition_id = number ? number->id : 0;
        pg_atomic_init_u32(&leaf->scanners, 0);
        pg_atomic_init_u32(&leaf->visited, 0);
    }
    std::sort(shared->leaves, shared->leaves + count,
              [](const SharedLeaf &a, const SharedLeaf &b) { return a.leaf < b.leaf; });
    shared->magic = kMagic;
}

void ReportPhase(Progress *progress, Phase phase) {
    MarkReached(progress, phase);
    if (counter.shared && counter.unreported > 0)
        AddUnreported();
    pgstat_progress_start_command(PROGRESS_COMMAND_CREATE_INDEX, progress->base);
    const int params[] = {kParamBegan,
                          kParamRowsBefore,
                          kParamMark,
                          kParamIndexTable,
                          kParamPhase,
                          PROGRESS_CREATEIDX_COMMAND,
                          PROGRESS_CREATEIDX_PHASE,
                          PROGRESS_CREATEIDX_TUPLES_TOTAL,
                          PROGRESS_CREATEIDX_TUPLES_DONE,
                          PROGRESS_CREATEIDX_PARTITIONS_TOTAL,
                          PROGRESS_CREATEIDX_PARTITIONS_DONE};
    bool scanned = phase != Phase::Scanning && phase != Phase::Verifying;
    const int64 values[] = {GetCurrentStatementStartTimestamp(),
                            progress->before.rows,
                            kMark,
                            static_cast<int64>(progress->index_table),
                            static_cast<int64>(phase),
                            PROGRESS_CREATEIDX_COMMAND_CREATE,
                            PROGRESS_CREATEIDX_PHASE_BUILD,
                            progress->rows_total,
                            progress->before.rows,
                            progress->partition_count,
                            scanned
                                ? progress->partition_count - progress->before.partitions_to_come
                                : progress->before.partitions};
    Report(lengthof(params), params, values);
}

void ReportRows(Progress *progress, int64 rows) {
    Assert(rows >= 0);
    if (rows % kReportEvery == 0)
        pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, progress->before.rows + rows);
}

void EndProgress(Progress *progress) {
    Assert(IsObjectLocked(ExtensionRelation("definition"), progress->base, 0, progress->mode));
    // The build's own lock first: for the view, who holds it without marks has yet to begin.
    UnlockDatabaseObject(ExtensionRelation("definition"), progress->base, 0, progress->mode);
    for (uint16 part = 1; part <= static_cast<uint16>(kLastPhase); part++)
        if (progress->reached & (1u << part))
            UnlockDatabaseObject(ExtensionRelation("partition"), progress->base, part,
                                 AccessShareLock);
    pgstat_progress_end_command();
    if (progress->segment)
        dsm_detach(progress->segment);
    pfree(progress);
}

void WatchRows(void (*watch)()) {
    row_watch = watch;
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_count_row) {
    Oid leaf_oid = PG_GETARG_OID(0);
    int64 ticket = PG_GETARG_INT64(1);
    if (ticket == 0) { // no build: the number alone
        std::optional<PartitionNumber> number = FindPartitionNumber(leaf_oid);
        if (!number)
            PG_RETURN_NULL();
        PG_RETURN_INT32(number->id);
    }
    if (!counter.shared || counter.ticket != ticket)
        Attach(ticket);
    if (!counter.current || counter.current->leaf != leaf_oid) {
        SharedLeaf *leaf = FindLeafOf(counter.shared, leaf_oid);
        if (!leaf) {
            // It may have joined since the leaves were listed.
            if (std::optional<PartitionNumber> number = FindPartitionNumber(leaf_oid))
                PG_RETURN_INT32(number->id);
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("partition \"%s\" is not registered with the index tables of its table",
                            get_rel_name(leaf_oid)),
                     errdetail("It was attached while event triggers were off."),
                     errhint("Call index_table.repair().")));
        }
        EnterLeaf(leaf);
    }
    if (++counter.unreported >= kReportEvery)
        AddUnreported();
    if (row_watch)
        row_watch();
    PG_RETURN_INT32(counter.current->partition_id);
}
