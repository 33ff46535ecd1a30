// What a concurrent build needs of shards (ShardRows in src/create/online_rows.h).
#include "create/public.h"
#include "drain/apply.h"
#include "drain/drain.h"
#include "drain/drain_errors.h"
#include "maintenance/public.h"
#include "partitions/public.h"
#include "shard/public.h"

namespace index_table {
namespace {

constexpr int kRowsAtOnce = 5000;
constexpr int kFewQueued = 1000;
constexpr int kBatchesARound = 10;
constexpr int kMaxRounds = 1000;
constexpr int kAllQueued = PG_INT32_MAX;

// The table behind a partition, read in the transaction of a build.
struct OpenedLeaf {
    Relation rel; // null: it has gone, or has another number
    const Leaf *leaf;
};

OpenedLeaf OpenLeaf(const IndexTable *table, const ForeignLeaf *leaf) {
    Assert(IsLocked(table->base, AccessShareLock));
    OpenedLeaf opened = {.rel = try_relation_open(leaf->relid, AccessShareLock)};
    if (!opened.rel)
        return opened;
    // Waiting for the lock, it may have been truncated or detached.
    std::optional<PartitionNumber> current = FindPartitionNumber(leaf->relid);
    opened.leaf = current && current->id == leaf->number ? FindLeaf(opened.rel) : nullptr;
    if (opened.leaf)
        return opened;
    relation_close(opened.rel, NoLock);
    return {};
}

void OpenQueueOf(ShardQueue *queue, const OpenedLeaf &opened, ForeignLeaf *leaf) {
    if (!OpenQueue(queue, opened.rel, opened.leaf, GetUserId(), &leaf->identity))
        RaiseHasNoOutbox(RelationGetRelid(opened.rel));
}

bool Prepare(const IndexTable *table, ForeignLeaf *leaf) {
    OpenedLeaf opened = OpenLeaf(table, leaf);
    if (!opened.rel)
        return false;
    ShardQueue queue;
    OpenQueueOf(&queue, opened, leaf);
    bool created = EnsureIdentityIndexOf(&queue, table);
    relation_close(opened.rel, NoLock);
    return created;
}

int64 CountQueued(Oid relid) {
    std::optional<PartitionNumber> number = FindPartitionNumber(relid);
    if (!number)
        return 0; // it has just left
    OwnerContext owner = EnterOwner(RelationOwner(number->base));
    const char *name = RemoteName(relid);
    PGresult *result = ExecuteReading(
        OpenConnection(relid), "SELECT changes FROM index_table.backlog($1::regclass)", 1, &name);
    LeaveOwner(owner);
    return strtoll(ResultValue(result, 0, 0), nullptr, 10);
}

[[noreturn]] void RaiseCannotDrain(Oid relid) {
    const char *error = SummarizeDrainErrors(relid).error;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot drain foreign table \"%s\"", get_rel_name(relid)),
                    error ? errdetail("%s", error) : 0,
                    errhint("When that is mended, index_table.rebuild() goes on.")));
}

void Drain(Oid relid) {
    // Others may write as fast as this drains.
    for (int round = 0; round < kMaxRounds; round++) {
        DrainResult result = DrainLeaf(relid, true, false, kBatchesARound);
        if (result == DrainResult::Done)
            return;
        int64 queued = CountQueued(relid); // raises where the shard cannot be reached
        if (result == DrainResult::Failed)
            RaiseCannotDrain(relid);
        if (queued <= kFewQueued)
            return;
    }
}

// Identities as columns of text, which become array literals.
struct IdentityColumns {
    int columns;
    int capacity;
    int count;
    Datum *texts; // one identity after the other
    FmgrInfo *outputs;
};

IdentityColumns MakeIdentityColumns(const ShardQueue *queue, int capacity) {
    IdentityColumns identities = {.columns = queue->identity_count, .capacity = capacity};
    identities.texts = static_cast<Datum *>(
        palloc_extended(sizeof(Datum) * identities.columns * Max(1, capacity), MCXT_ALLOC_HUGE));
    identities.outputs = palloc_array(FmgrInfo, identities.columns);
    for (int i = 0; i < identities.columns; i++) {
        Oid output;
        bool is_varlena;
        getTypeOutputInfo(
            TupleDescAttr(RelationGetDescr(queue->rel), queue->identity[i] - 1)->atttypid, &output,
            &is_varlena);
        fmgr_info(output, &identities.outputs[i]);
    }
    return identities;
}

void Add(IdentityColumns *identities, const Datum *values) {
    Assert(identities->count < identities->capacity);
    Datum *texts = identities->texts + identities->count++ * identities->columns;
    for (int i = 0; i < identities->columns; i++)
        texts[i] = CStringGetTextDatum(OutputFunctionCall(&identities->outputs[i], values[i]));
}

QueuedRow *Read(const ShardQueue *queue, const IdentityColumns &identities, int *count) {
    const char **literals = palloc_array(const char *, identities.columns);
    Datum *column = static_cast<Datum *>(
        palloc_extended(sizeof(Datum) * Max(1, identities.count), MCXT_ALLOC_HUGE));
    for (int i = 0; i < identities.columns; i++) {
        for (int j = 0; j < identities.count; j++)
            column[j] = identities.texts[j * identities.columns + i];
        ArrayType *array =
            construct_array(column, identities.count, TEXTOID, -1, false, TYPALIGN_INT);
        literals[i] = OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
    }
    return ReadRows(queue, literals, count);
}

// Rows as they are now, and entries as this transaction has left them.
void Collect(const ShardQueue *queue, QueuedRow *rows, int count, EntryCollector *collector) {
    if (count == 0)
        return;
    HoldChanges(collector->buffer);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    PushActiveSnapshot(snapshot);
    CollectForBuild(queue, {rows, Size(count)}, snapshot, collector);
    PopActiveSnapshot();
    UnregisterSnapshot(snapshot);
}

// --- Logged rows ---------------------------------------------------------------

// Columns of the partition that logged rows are found by, by their names; and where their values
// are in a LoggedRow.
struct LoggedColumns {
    uint32 mask; // of IndexTable::identity
    List *names;
    int *places;
};

// The columns by which the partition is captured.
uint32 CapturedMask(const IndexTable *table, const OpenedLeaf &opened, ForeignLeaf *leaf) {
    ShardQueue queue;
    OpenQueueOf(&queue, opened, leaf);
    IdentityPositions captured = PositionsIn(&queue, table);
    uint32 mask = 0;
    for (int position : std::span(captured.positions, captured.count))
        for (int i = 0; i < table->identity_count; i++)
            mask |= table->identity[i].position == position ? 1U << i : 0;
    return mask;
}

// By which a row is found: by all that is known of it, or, where that will do, as the partition is
// captured, for which there is an index.
uint32 MaskOf(const IndexTable *table, const LoggedRow *row, uint32 captured) {
    uint32 mask = 0;
    for (int i = 0; i < table->identity_count; i++)
        mask |= row->nulls[i] ? 0 : 1U << i;
    return (mask & captured) == captured ? captured : mask;
}

LoggedColumns FindColumns(const IndexTable *table, uint32 mask) {
    LoggedColumns columns = {.mask = mask};
    columns.places = palloc_array(int, table->identity_count);
    for (int i = 0; i < table->identity_count; i++)
        if (mask & (1U << i)) {
            columns.places[list_length(columns.names)] = i;
            columns.names = lappend(columns.names,
                                    get_attname(table->base, table->identity[i].base_attno, false));
        }
    return columns;
}

void AddLogged(IdentityColumns *identities, const LoggedColumns &columns, const LoggedRow *row) {
    Datum values[INDEX_MAX_KEYS];
    for (int i = 0; i < identities->columns; i++)
        values[i] = row->values[columns.places[i]];
    Add(identities, values);
}

// Rows that are alike in which columns they have, in batches, or at once.
void CollectAlike(const IndexTable *table, const OpenedLeaf &opened, const LoggedColumns &columns,
                  std::span<const LoggedRow *> rows, bool at_once, EntryCollector *collector) {
    ShardQueue queue = {};
    if (!OpenShard(&queue, opened.rel, opened.leaf, GetUserId(), columns.names))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("rows of foreign table \"%s\" in the log of index table \"%s\" "
                               "cannot be found by other index tables' identities",
                               RelationGetRelationName(opened.rel), get_rel_name(table->relid)),
                        errhint("Drop it with index_table.drop() and create it again.")));
    EnsureIdentityIndexOf(&queue, table);
    MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "index_table rows to read",
                                                ALLOCSET_DEFAULT_SIZES);
    int size = at_once ? rows.size() : Min(rows.size(), Size(kRowsAtOnce));
    for (Size first = 0; first < rows.size(); first += size) {
        MemoryContext caller = MemoryContextSwitchTo(batch);
        IdentityColumns identities = MakeIdentityColumns(&queue, size);
        for (const LoggedRow *row : rows.subspan(first, Min(Size(size), rows.size() - first)))
            AddLogged(&identities, columns, row);
        int count;
        QueuedRow *found = Read(&queue, identities, &count);
        Collect(&queue, found, count, collector);
        if (!at_once) {
            ApplyChanges(collector->buffer);
            CommandCounterIncrement(); // the next batch may have one of these rows once more
        }
        MemoryContextSwitchTo(caller);
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextDelete(batch);
}

void CollectRows(const IndexTable *table, ForeignLeaf *leaf, bool at_once,
                 EntryCollector *collector) {
    OpenedLeaf opened = OpenLeaf(table, leaf);
    if (!opened.rel)
        return;
    List *list = leaf->rows;
    int level = BeginTransmission();
    const LoggedRow **rows = static_cast<const LoggedRow **>(
        palloc_extended(sizeof(LoggedRow *) * Max(1, list_length(list)), MCXT_ALLOC_HUGE));
    const LoggedRow **end = rows;
    ListCell *cell;
    foreach (cell, list)
        *end++ = static_cast<const LoggedRow *>(lfirst(cell));
    uint32 captured = CapturedMask(table, opened, leaf);
    auto mask_of = [=](const LoggedRow *row) { return MaskOf(table, row, captured); };
    std::sort(rows, end, [mask_of](const LoggedRow *a, const LoggedRow *b) {
        return mask_of(a) < mask_of(b);
    });
    while (rows < end) {
        uint32 mask = mask_of(*rows);
        const LoggedRow **next = std::find_if(
            rows, end, [mask_of, mask](const LoggedRow *row) { return mask_of(row) != mask; });
        // One row may be there by these columns and by others.
        bool is_all = next - rows == list_length(list);
        CollectAlike(table, opened, FindColumns(table, mask), {rows, Size(next - rows)},
                     at_once && is_all, collector);
        rows = next;
    }
    EndTransmission(level);
    relation_close(opened.rel, NoLock);
}

// --- Queued rows ---------------------------------------------------------------

bool AddQueued(const IndexTable *table, ForeignLeaf *leaf) {
    OpenedLeaf opened = OpenLeaf(table, leaf);
    if (!opened.rel)
        return false;
    ShardQueue queue;
    OpenQueueOf(&queue, opened, leaf);
    int level = BeginTransmission();
    QueueBatch batch = ReadBatch(&queue, kAllQueued);
    EndTransmission(level);
    IdentityPositions identity = PositionsIn(&queue, table);
    for (const QueuedRow &queued : std::span(batch.rows, batch.row_count)) {
        LoggedRow *row = palloc_object(LoggedRow);
        row->values = palloc0_array(Datum, table->identity_count);
        row->nulls = palloc_array(bool, table->identity_count);
        memset(row->nulls, true, table->identity_count);
        for (int i = 0; i < table->identity_count; i++)
            for (int j = 0; j < identity.count; j++)
                if (table->identity[i].position == identity.positions[j]) {
                    row->values[i] = queued.identity[j];
                    row->nulls[i] = false;
                }
        leaf->rows = lappend(leaf->rows, row);
    }
    relation_close(opened.rel, NoLock);
    return !batch.reload;
}

constexpr ShardRows kShardRows = {
    .prepare = Prepare, .drain = Drain, .add_queued = AddQueued, .collect = CollectRows};

} // namespace

void InitializeBuildRows() {
    SetShardRows(&kShardRows);
}

} // namespace index_table
