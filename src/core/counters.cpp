#include "core/counters.h"

#include "core/compat.h"
#include "core/number_map.h"

namespace index_table {
namespace {

constexpr int kDefaultEntries = 1000;
constexpr int kFlushInterval = 1000; // milliseconds
constexpr char kTranche[] = "index_table_counters";

struct Slot {
    Oid database;      // InvalidOid: free
    Oid relid;         // InvalidOid: the database as a whole
    TimestampTz pause; // of a database
    RelationStatistics statistics;
};

// Slots are found by hash: the first that is free ends the search. Half of them stay free.
struct Shared {
    LWLock lock;
    uint32 slot_count; // a power of two
    uint32 limit;      // of used ones
    uint32 used;
    uint64 lost;
    Slot slots[FLEXIBLE_ARRAY_MEMBER];
};

// What this backend has counted and not yet handed over.
struct Pending {
    Oid relid;
    bool is_dirty;
    Pending *next; // of the dirty ones
    Counts counts;
};

// What the transaction has done to relations as a whole.
struct Event {
    Event *next;
    int level; // nesting depth of the subtransaction
    Oid relid;
    bool is_gone;
    Work work;
    LastWork last;
};

constinit int max_entries = kDefaultEntries;
constinit int log_min_duration = 600000; // milliseconds; -1: nothing is logged
constinit Shared *shared = nullptr;
constinit bool has_tried = false; // to make it on demand
constinit NumberMap pending = {};
constinit Pending *last_counted = nullptr;
constinit Pending *dirty = nullptr;
constinit TimestampTz last_flush = 0;
constinit bool flushes_at_exit = false;
constinit Event *events = nullptr; // in TopTransactionContext

// --- Shared memory -------------------------------------------------------------

uint32 SlotsFor(int entries) {
    uint32 count = 16;
    while (count < 2 * static_cast<uint32>(entries))
        count *= 2;
    return count;
}

Size MemorySize(int entries) {
    return add_size(offsetof(Shared, slots), mul_size(SlotsFor(entries), sizeof(Slot)));
}

void Format(void *memory, int entries) {
    auto *fresh = static_cast<Shared *>(memory);
    memset(memory, 0, MemorySize(entries));
    LWLockInitialize(&fresh->lock, compat::NewTranche(kTranche));
    fresh->slot_count = SlotsFor(entries);
    fresh->limit = entries;
}

// Where the library is not preloaded.
void FormatSegment(void *memory) {
    Format(memory, kDefaultEntries);
}

bool Attach() {
    if (shared || has_tried)
        return shared != nullptr;
    has_tried = true;
    if (!IsUnderPostmaster)
        return false;
    // Another build of the library, which knows other counts, has a segment of another name.
    Size size = MemorySize(kDefaultEntries);
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "index_table counters %zu %zu", sizeof(Slot), size);
    shared = static_cast<Shared *>(compat::AttachSegment<FormatSegment>(name, size));
    if (shared)
        compat::NameTranche(shared->lock.tranche, kTranche);
    return shared != nullptr;
}

uint32 HomeOf(Oid database, Oid relid) {
    return hash_combine(murmurhash32(database), murmurhash32(relid)) & (shared->slot_count - 1);
}

uint32 After(uint32 place) {
    return (place + 1) & (shared->slot_count - 1);
}

// The caller holds the lock.
Slot *FindSlot(Oid database, Oid relid) {
    for (uint32 place = HomeOf(database, relid);; place = After(place)) {
        Slot *slot = &shared->slots[place];
        if (!OidIsValid(slot->database))
            return nullptr;
        if (slot->database == database && slot->relid == relid)
            return slot;
    }
}

// The same, exclusively; null where there is no room.
Slot *MakeSlot(Oid database, Oid relid) {
    if (Slot *slot = FindSlot(database, relid))
        return slot;
    if (shared->used >= shared->limit) {
        shared->lost++;
        return nullptr;
    }
    uint32 place = HomeOf(database, relid);
    while (OidIsValid(shared->slots[place].database))
        place = After(place);
    shared->used++;
    Slot *slot = &shared->slots[place];
    *slot = {.database = database, .relid = relid};
    slot->statistics.since = GetCurrentTimestamp();
    return slot;
}

// Others move up, so that no search ends too early. The caller holds the lock, exclusively.
void RemoveSlot(Slot *slot) {
    auto hole = static_cast<uint32>(slot - shared->slots);
    for (uint32 place = After(hole); OidIsValid(shared->slots[place].database);
         place = After(place)) {
        const Slot &other = shared->slots[place];
        uint32 home = HomeOf(other.database, other.relid);
        uint32 mask = shared->slot_count - 1;
        if (((place - home) & mask) >= ((place - hole) & mask)) {
            shared->slots[hole] = other;
            hole = place;
        }
    }
    shared->slots[hole] = {};
    shared->used--;
}

template <typename Condition>
void RemoveSlots(Condition is_gone) {
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    for (uint32 place = 0; place < shared->slot_count;) {
        Slot *slot = &shared->slots[place];
        if (OidIsValid(slot->database) && is_gone(*slot))
            RemoveSlot(slot); // another one may have taken its place
        else
            place++;
    }
    LWLockRelease(&shared->lock);
}

// --- What this backend has counted ------------------------------------------------

void Add(Counts *to, const Counts &from) {
    to->lookups += from.lookups;
    to->entries_read += from.entries_read;
    to->rows_fetched += from.rows_fetched;
    to->entries_skipped += from.entries_skipped;
    to->shard_statements += from.shard_statements;
    to->flushes += from.flushes;
    to->entries_written += from.entries_written;
}

void HandOver(TimestampTz now) {
    last_flush = now;
    if (!dirty)
        return;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    for (; dirty; dirty = dirty->next) {
        if (Slot *slot = MakeSlot(MyDatabaseId, dirty->relid)) {
            Add(&slot->statistics.counts, dirty->counts);
            if (dirty->counts.lookups > 0)
                slot->statistics.last_lookup = Max(slot->statistics.last_lookup, now);
        }
        dirty->is_dirty = false;
        dirty->counts = {};
    }
    LWLockRelease(&shared->lock);
}

void HandOverAtExit(int, Datum) {
    HandOver(GetCurrentTimestamp());
}

// What it has not handed over of a relation that is gone would come back.
void Drop(Oid relid) {
    if (auto *counted = static_cast<Pending *>(pending.Find(relid)))
        counted->counts = {};
    if (Slot *slot = FindSlot(MyDatabaseId, relid))
        RemoveSlot(slot);
}

void CarryOut(const Event &event) {
    if (event.is_gone) {
        Drop(event.relid);
        return;
    }
    if (Slot *slot = MakeSlot(MyDatabaseId, event.relid))
        slot->statistics.works[static_cast<int>(event.work)] = event.last;
}

// Whether it is true even if the transaction is rolled back.
bool IsKeptAnyhow(const Event &event) {
    return !event.is_gone && event.work == Work::Verify;
}

void RememberEvent(const Event &event) {
    auto *kept = static_cast<Event *>(MemoryContextAlloc(TopTransactionContext, sizeof(Event)));
    *kept = event;
    kept->next = nullptr;
    kept->level = GetCurrentTransactionNestLevel();
    Event **last = &events; // they are carried out in order
    while (*last)
        last = &(*last)->next;
    *last = kept;
}

const char *Describe(Work work) {
    switch (work) {
    case Work::Verify:
        return "verification";
    case Work::Repair:
        return "repair";
    case Work::Vacuum:
        return "vacuum";
    case Work::Build:
        break;
    }
    return "build";
}

void Log(Oid relid, const LastWork &last, Work work) {
    const char *name = get_rel_name(relid);
    if (!name || !IsWorthLogging(last.milliseconds))
        return;
    const char *schema = get_namespace_name(get_rel_namespace(relid));
    const char *detail = "";
    if (work == Work::Vacuum)
        detail = psprintf(", %lld entries removed", static_cast<long long>(last.result));
    else if (work != Work::Build)
        detail = psprintf(", %lld problems", static_cast<long long>(last.result));
    ereport(LOG, (errmsg("index_table: %s of \"%s.%s\" took %.3f s%s", Describe(work),
                         schema ? schema : "?", name, static_cast<double>(last.milliseconds) / 1000,
                         detail),
                  errhidestmt(true)));
}

} // namespace

// --- For whoever does something ---------------------------------------------------

Counts *CountsOf(Oid relid) {
    if (!pgstat_track_counts || (!shared && !Attach()))
        return nullptr;
    Pending *counted = last_counted;
    if (!counted || counted->relid != relid) {
        counted = static_cast<Pending *>(pending.Find(relid));
        if (!counted) {
            counted =
                static_cast<Pending *>(MemoryContextAllocZero(TopMemoryContext, sizeof(Pending)));
            counted->relid = relid;
            pending.Add(relid, counted, TopMemoryContext);
        }
        last_counted = counted;
    }
    if (!counted->is_dirty) {
        counted->is_dirty = true;
        counted->next = dirty;
        dirty = counted;
        if (!flushes_at_exit)
            before_shmem_exit(HandOverAtExit, 0);
        flushes_at_exit = true;
    }
    return &counted->counts;
}

void RecordWork(Oid relid, Work work, TimestampTz began, int64 result) {
    Assert(IsTransactionState());
    TimestampTz now = GetCurrentTimestamp();
    LastWork last = {.ended = now,
                     .milliseconds = TimestampDifferenceMilliseconds(began, now),
                     .result = result};
    Log(relid, last, work);
    if (Attach())
        RememberEvent({.relid = relid, .work = work, .last = last});
}

void ForgetCounts(Oid relid) {
    Assert(IsTransactionState());
    if (!Attach())
        return;
    LWLockAcquire(&shared->lock, LW_SHARED);
    bool is_known = FindSlot(MyDatabaseId, relid) != nullptr;
    LWLockRelease(&shared->lock);
    if (is_known || pending.Find(relid))
        RememberEvent({.relid = relid, .is_gone = true});
}

void AtEOXactCounters(bool committed) {
    if (events) {
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        for (const Event *event = events; event; event = event->next)
            if (committed || IsKeptAnyhow(*event))
                CarryOut(*event);
        LWLockRelease(&shared->lock);
        events = nullptr;
    }
    if (!dirty)
        return;
    TimestampTz now = GetCurrentTransactionStopTimestamp();
    if (TimestampDifferenceExceeds(last_flush, now, kFlushInterval))
        HandOver(now);
}

void AtEOSubXactCounters(bool committed, int level) {
    for (Event **place = &events; *place;) {
        Event *event = *place;
        bool is_forgotten = !committed && event->level >= level && !IsKeptAnyhow(*event);
        if (event->level >= level)
            event->level = level - 1;
        if (is_forgotten)
            *place = event->next;
        else
            place = &event->next;
    }
}

// --- For whoever looks ------------------------------------------------------------

bool AreCountsKept() {
    return Attach();
}

std::optional<RelationStatistics> GetStatistics(Oid relid) {
    if (!Attach())
        return std::nullopt;
    HandOver(GetCurrentTimestamp());
    RelationStatistics statistics = {};
    LWLockAcquire(&shared->lock, LW_SHARED);
    if (const Slot *slot = FindSlot(MyDatabaseId, relid))
        statistics = slot->statistics;
    LWLockRelease(&shared->lock);
    return statistics;
}

void ResetStatistics(Oid relid) {
    if (!Attach())
        return;
    HandOver(GetCurrentTimestamp());
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    if (Slot *slot = MakeSlot(MyDatabaseId, relid))
        slot->statistics = {.pass = slot->statistics.pass, .since = GetCurrentTimestamp()};
    LWLockRelease(&shared->lock);
}

uint64 LostCounts() {
    if (!Attach())
        return 0;
    LWLockAcquire(&shared->lock, LW_SHARED);
    uint64 lost = shared->lost;
    LWLockRelease(&shared->lock);
    return lost;
}

// --- For the worker that verifies -------------------------------------------------

bool SetVerifyPass(Oid relid, const VerifyPass &pass) {
    if (!Attach())
        return false;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    Slot *slot = MakeSlot(MyDatabaseId, relid);
    if (slot)
        slot->statistics.pass = pass;
    LWLockRelease(&shared->lock);
    return slot != nullptr;
}

TimestampTz GetVerifyPause(Oid database) {
    if (!Attach())
        return 0;
    LWLockAcquire(&shared->lock, LW_SHARED);
    const Slot *slot = FindSlot(database, InvalidOid);
    TimestampTz pause = slot ? slot->pause : 0;
    LWLockRelease(&shared->lock);
    return pause;
}

void SetVerifyPause(Oid database, TimestampTz until) {
    if (!Attach())
        return;
    LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
    if (Slot *slot = MakeSlot(database, InvalidOid))
        slot->pause = until;
    LWLockRelease(&shared->lock);
}

void ForgetGone(bool (*is_there)(Oid relid)) {
    if (!Attach())
        return;
    // Whether one is there is asked without the lock.
    Oid *known = palloc_array(Oid, shared->limit);
    int count = 0;
    LWLockAcquire(&shared->lock, LW_SHARED);
    for (uint32 place = 0; place < shared->slot_count; place++) {
        const Slot &slot = shared->slots[place];
        if (slot.database == MyDatabaseId && OidIsValid(slot.relid))
            known[count++] = slot.relid;
    }
    LWLockRelease(&shared->lock);
    for (Oid relid : std::span(known, count)) {
        if (is_there(relid))
            continue;
        LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
        if (Slot *slot = FindSlot(MyDatabaseId, relid))
            RemoveSlot(slot);
        LWLockRelease(&shared->lock);
    }
    pfree(known);
}

void ForgetOtherDatabases(const List *databases) {
    if (Attach())
        RemoveSlots([&](const Slot &slot) { return !list_member_oid(databases, slot.database); });
}

// --- For the server ----------------------------------------------------------------

void InitializeCounters() {
    bool is_preloaded = process_shared_preload_libraries_in_progress;
    DefineCustomIntVariable(
        "index_table.max_stat_entries",
        "Index tables and global indexes of all databases that are counted in shared memory.",
        "It counts where index_table is in shared_preload_libraries.", &max_entries,
        kDefaultEntries, 10, 1000000, is_preloaded ? PGC_POSTMASTER : PGC_SIGHUP, 0, nullptr,
        nullptr, nullptr);
    DefineCustomIntVariable(
        "index_table.log_min_duration",
        "How long a build, verification, repair or vacuum of an index table, or a drain by a "
        "worker, takes that is logged; -1: none, 0: all.",
        nullptr, &log_min_duration, 600000, -1, INT_MAX, PGC_SUSET, GUC_UNIT_MS, nullptr, nullptr,
        nullptr);
}

bool IsWorthLogging(int64 milliseconds) {
    return log_min_duration >= 0 && milliseconds >= log_min_duration;
}

void RequestCounterMemory() {
    RequestAddinShmemSpace(MemorySize(max_entries));
}

void AttachCounterMemory() {
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    bool found;
    void *memory = ShmemInitStruct("index_table counters", MemorySize(max_entries), &found);
    if (!found)
        Format(memory, max_entries);
    shared = static_cast<Shared *>(memory);
    LWLockRelease(AddinShmemInitLock);
}

} // namespace index_table
