#include "deferred/lag.h"

#include "core/public.h"

namespace index_table {
namespace {

// --- Settings ------------------------------------------------------------------

enum class OnLag { Wait, Warn, Avoid };

constinit int max_lag = 0;
constinit int max_lag_changes = 0;
constinit int on_lag = static_cast<int>(OnLag::Avoid);
constinit uint64 settings = 1; // how often they were set
constexpr config_enum_entry kOnLag[] = {{"wait", static_cast<int>(OnLag::Wait), false},
                                        {"warn", static_cast<int>(OnLag::Warn), false},
                                        {"avoid", static_cast<int>(OnLag::Avoid), false},
                                        {nullptr, 0, false}};

// What was seen before is not relied on, and plans that rest on it are made again.
template <int *variable>
void ForgetLags(int value, void *) {
    settings++;
    if (value != *variable)
        ResetPlanCache();
}

bool IsLimited() {
    return max_lag > 0 || max_lag_changes > 0;
}

// --- Looking into queues ---------------------------------------------------------

TransactionId WriterOf(const Pack &pack) {
    HeapTuple tuple = ExecFetchSlotHeapTuple(pack.slot, false, nullptr);
    return HeapTupleHeaderGetXmin(tuple->t_data);
}

bool IsOwn(const Pack &pack) {
    return TransactionIdIsCurrentTransactionId(WriterOf(pack));
}

TimestampTz TimeOf(const Pack &pack) {
    return DatumGetTimestampTz(pack.slot->tts_values[kPackTime - 1]);
}

// What is not logged is not there on a standby.
bool IsReadable(const PackReader &reader) {
    return !RecoveryInProgress() || RelationIsPermanent(reader.parts[0]);
}

bool OpenReadable(PackReader *reader, const IndexTable *table, Snapshot snapshot) {
    if (!OpenPackReader(reader, table, snapshot, AccessShareLock))
        return false;
    if (IsReadable(*reader))
        return true;
    ClosePackReader(reader);
    return false;
}

void AddFailure(const Pack &pack, TimestampTz *latest, QueueContents *contents) {
    const TupleTableSlot *slot = pack.slot;
    contents->set_aside += pack.count;
    if (!slot->tts_isnull[kPackTries - 1])
        contents->tries = Max(contents->tries, DatumGetInt32(slot->tts_values[kPackTries - 1]));
    if (TimeOf(pack) < *latest || slot->tts_isnull[kPackError - 1])
        return;
    *latest = TimeOf(pack);
    contents->error = TextDatumGetCString(slot->tts_values[kPackError - 1]);
}

void ReadPacks(const PackReader *reader, QueueContents *contents) {
    *contents = {.oldest = DT_NOEND, .oldest_waiting = DT_NOEND};
    TimestampTz latest = DT_NOBEGIN;
    ForEachPack(reader, [&](const Pack &pack) {
        contents->oldest = Min(contents->oldest, TimeOf(pack));
        if (pack.is_set_aside)
            AddFailure(pack, &latest, contents);
        else {
            contents->waiting += pack.count;
            contents->oldest_waiting = Min(contents->oldest_waiting, TimeOf(pack));
        }
        return true;
    });
}

} // namespace

bool ReadQueue(const IndexTable *table, Snapshot snapshot, QueueContents *contents) {
    PackReader reader;
    if (!OpenReadable(&reader, table, snapshot))
        return false;
    bool is_shown = ShowsQueue(reader.queue, snapshot);
    if (!is_shown)
        reader.snapshot = RegisterSnapshot(GetLatestSnapshot());
    ReadPacks(&reader, contents);
    if (!is_shown)
        UnregisterSnapshot(reader.snapshot);
    ClosePackReader(&reader);
    return true;
}

bool HasQueued(const IndexTable *table, Snapshot since) {
    Snapshot now = RegisterSnapshot(GetLatestSnapshot());
    PackReader reader;
    bool found = false;
    if (OpenReadable(&reader, table, now)) {
        found = !ShowsQueue(reader.queue, now); // to be looked at again
        ForEachPack(&reader, [&](const Pack &pack) {
            TransactionId writer = WriterOf(pack);
            found = found || pack.is_set_aside ||
                    (!TransactionIdIsCurrentTransactionId(writer) &&
                     (!TransactionIdIsNormal(writer) || !XidInMVCCSnapshot(writer, since)));
            return !found;
        });
        ClosePackReader(&reader);
    }
    UnregisterSnapshot(now);
    return found;
}

// --- Lags ------------------------------------------------------------------------

namespace {

constexpr int64 kFreshness = 100 * 1000; // microseconds that a look is good for, at least
constexpr int64 kStep = 20 * 1000;       // between two looks of one that waits, at least
constexpr int64 kShare = 20;             // looking takes no more of the time than one part in these
constexpr int64 kPatience = USECS_PER_SEC * 10; // with a queue that nobody drains

// What this session has seen of an index table's queue.
struct Lag {
    Oid relid;
    uint64 settings;  // when it was looked at
    TimestampTz next; // when it is looked at again
    int64 cost;       // of looking, in microseconds
    int64 changes;    // neither set aside nor of this transaction
    TimestampTz oldest;
    int64 packs_before; // of transactions from before the one that was asked for
    // Starts of transactions that have been warned, that have waited in vain.
    TimestampTz warned;
    TimestampTz gave_up;
};

constinit HTAB *lags = nullptr;

Lag *GetLag(Oid relid) {
    if (!lags)
        lags = MakeHashTable<Oid, Lag>("index_table lags", 16, CacheMemoryContext);
    bool found;
    Lag *lag = static_cast<Lag *>(hash_search(lags, &relid, HASH_ENTER, &found));
    if (!found)
        *lag = {.relid = relid, .warned = DT_NOBEGIN, .gave_up = DT_NOBEGIN};
    return lag;
}

// Looks at what is there now, whatever the transaction's snapshots see, and as one that
// SERIALIZABLE need not know of: that is what SnapshotSelf does.
void Look(const IndexTable *table, TransactionId before, Lag *lag) {
    TimestampTz start = GetCurrentTimestamp();
    int64 changes = 0, packs_before = 0;
    TimestampTz oldest = DT_NOEND;
    PackReader reader;
    if (OpenReadable(&reader, table, SnapshotSelf)) {
        ForEachPack(&reader, [&](const Pack &pack) {
            if (pack.is_set_aside || IsOwn(pack))
                return true;
            changes += pack.count;
            oldest = Min(oldest, TimeOf(pack));
            packs_before += TransactionIdPrecedes(WriterOf(pack), before) ? 1 : 0;
            return true;
        });
        ClosePackReader(&reader);
    }
    TimestampTz now = GetCurrentTimestamp();
    lag->settings = settings;
    lag->cost = now - start;
    lag->next = now + Max(kFreshness, kShare * lag->cost);
    lag->changes = changes;
    lag->oldest = oldest;
    lag->packs_before = packs_before;
}

bool IsFresh(const Lag *lag, TimestampTz now) {
    // A clock that was set back makes nothing fresh for long.
    return lag->settings == settings && now < lag->next &&
           lag->next - now <= Max(kFreshness, kShare * lag->cost);
}

int64 SecondsOf(const Lag *lag) {
    return lag->oldest == DT_NOEND
               ? 0
               : Max(int64{0}, (GetCurrentTimestamp() - lag->oldest) / USECS_PER_SEC);
}

bool IsBeyond(const Lag *lag) {
    return (max_lag_changes > 0 && lag->changes > max_lag_changes) ||
           (max_lag > 0 && lag->oldest != DT_NOEND &&
            GetCurrentTimestamp() - lag->oldest > max_lag * USECS_PER_SEC);
}

bool LagsTooFar(const IndexTable *table, Lag *lag) {
    if (!IsFresh(lag, GetCurrentTimestamp()))
        Look(table, InvalidTransactionId, lag);
    return IsBeyond(lag);
}

// --- Writers -----------------------------------------------------------------------

void Pause(int64 microseconds) {
    long milliseconds = Max(1, microseconds / 1000);
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
              PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

int Describe(const Lag *lag) {
    return errdetail("%lld changes are queued, the oldest for %lld s.",
                     static_cast<long long>(lag->changes), static_cast<long long>(SecondsOf(lag)));
}

void Warn(Lag *lag) {
    if (lag->warned == GetCurrentTransactionStartTimestamp())
        return;
    lag->warned = GetCurrentTransactionStartTimestamp();
    ereport(WARNING,
            (errmsg("index table \"%s\" lags behind too far", get_rel_name(lag->relid)),
             Describe(lag), errhint("CALL index_table.drain(), or have more workers do so.")));
}

void GiveUp(Lag *lag) {
    lag->gave_up = GetCurrentTransactionStartTimestamp();
    ereport(WARNING,
            (errmsg("index table \"%s\" lags behind too far, and nothing of it has been drained "
                    "for %d s",
                    get_rel_name(lag->relid), static_cast<int>(kPatience / USECS_PER_SEC)),
             Describe(lag),
             errhint("Nobody drains it, or cannot for locks, which this transaction may have.")));
}

// Waits until an index table does not lag behind too far, or nobody has drained anything for some
// time. That somebody does is seen by what was there at a point in time: it gets less.
void Wait(Lag *lag) {
    if (lag->gave_up == GetCurrentTransactionStartTimestamp())
        return;
    WakeDrainWorkers();
    Oid relid = lag->relid;
    TransactionId before = ReadNextTransactionId();
    int64 left = PG_INT64_MAX;
    TimestampTz drained = GetCurrentTimestamp();
    for (;;) {
        const IndexTable *table = FindIndexTable(relid);
        if (!table)
            return;
        lag = GetLag(relid);
        Look(table, before, lag);
        if (!IsBeyond(lag))
            return;
        TimestampTz now = GetCurrentTimestamp();
        if (lag->packs_before < left)
            drained = now;
        else if (now - drained > kPatience) {
            GiveUp(lag);
            return;
        }
        left = lag->packs_before;
        if (left == 0) { // all of it is drained
            before = ReadNextTransactionId();
            left = PG_INT64_MAX;
        }
        Pause(Max(kStep, kShare * lag->cost));
    }
}

} // namespace

bool IsAvoided(const IndexTable *table) {
    return IsLimited() && on_lag == static_cast<int>(OnLag::Avoid) && OidIsValid(table->queue) &&
           LagsTooFar(table, GetLag(table->relid));
}

void BeforeQueuing(Oid relid) {
    if (!IsLimited() || on_lag == static_cast<int>(OnLag::Avoid))
        return;
    const Base *base = FindBase(RootOf(relid));
    if (!base)
        return;
    // It may become outdated while one is waited for; its memory stays.
    for (const IndexTable *table : std::span(base->tables, base->table_count)) {
        if (!OidIsValid(table->queue) || table->is_unusable())
            continue;
        Lag *lag = GetLag(table->relid);
        if (!LagsTooFar(table, lag))
            continue;
        if (on_lag == static_cast<int>(OnLag::Warn))
            Warn(lag);
        else
            Wait(lag);
    }
}

void InitializeLag() {
    DefineCustomIntVariable(
        "index_table.max_lag",
        "How long changes may be queued for an index table that is maintained deferred.",
        "Beyond it index_table.on_lag says what happens. 0: for any time.", &max_lag, 0, 0, INT_MAX,
        PGC_USERSET, GUC_UNIT_S | GUC_EXPLAIN, nullptr, ForgetLags<&max_lag>, nullptr);
    DefineCustomIntVariable(
        "index_table.max_lag_changes",
        "How many changes may be queued for an index table that is maintained deferred.",
        "Beyond it index_table.on_lag says what happens. 0: any number.", &max_lag_changes, 0, 0,
        INT_MAX, PGC_USERSET, GUC_EXPLAIN, nullptr, ForgetLags<&max_lag_changes>, nullptr);
    DefineCustomEnumVariable(
        "index_table.on_lag", "What happens while an index table lags behind too far.",
        "With \"wait\" statements that change its base table wait; with \"warn\" they go on with a "
        "warning; with \"avoid\" queries do without the index table.",
        &on_lag, static_cast<int>(OnLag::Avoid), kOnLag, PGC_USERSET, GUC_EXPLAIN, nullptr,
        ForgetLags<&on_lag>, nullptr);
}

} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_queue_lag) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    enum { kPending, kLag, kColumns };
    Datum values[kColumns] = {};
    bool nulls[kColumns] = {true, true};
    Oid relid = PG_GETARG_OID(0);
    const IndexTable *table = OidIsValid(RecordedQueue(relid)) ? FindIndexTable(relid) : nullptr;
    QueueContents contents;
    if (table && ReadQueue(table, GetActiveSnapshot(), &contents)) {
        TimestampTz now = GetCurrentTimestamp();
        nulls[kPending] = nulls[kLag] = false;
        values[kPending] = Int64GetDatum(contents.waiting + contents.set_aside);
        values[kLag] = DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(now),
                                           TimestampTzGetDatum(Min(now, contents.oldest_waiting)));
    }
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
