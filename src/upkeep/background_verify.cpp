#include "upkeep/background_verify.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/public.h"
#include "global/public.h"
#include "maintenance/public.h"

namespace index_table {
namespace {

constexpr int kSlices = 16;          // of a pass, or somewhat more
constexpr int kLockTimeout = 2000;   // milliseconds, beyond deadlock_timeout
constexpr int kWatchInterval = 1000; // milliseconds between two looks at who waits
constexpr int kNamed = 5;            // partitions that a message names

constinit int interval = 7 * 24 * 60; // minutes between two passes; 0: none
constinit int share = 5;              // per cent of time
constinit bool repairs = false;

// What the slice under way has locked; in the transaction's memory.
constinit List *locked = NIL;
constinit TimestampTz last_look = 0;

// --- Giving way ----------------------------------------------------------------

// Raises where somebody waits for what is locked. What this backend holds by the fast path cannot
// be asked for by LockHasWaiters().
void GiveWay() {
    TimestampTz now = GetCurrentTimestamp();
    if (!TimestampDifferenceExceeds(last_look, now, kWatchInterval))
        return;
    last_look = now;
    LockData *data = GetLockStatusData();
    bool is_waited_for = false;
    for (const LockInstanceData &instance : std::span(data->locks, data->nelements))
        is_waited_for = is_waited_for || (instance.waitLockMode != NoLock &&
                                          instance.locktag.locktag_type == LOCKTAG_RELATION &&
                                          instance.locktag.locktag_field1 == MyDatabaseId &&
                                          list_member_oid(locked, instance.locktag.locktag_field2));
    pfree(data->locks);
    pfree(data);
    if (is_waited_for)
        ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                        errmsg("verification gives way to somebody who waits for a lock")));
}

bool TryLock(Oid relid) {
    if (!ConditionalLockRelationOid(relid, AccessShareLock))
        return false;
    locked = lappend_oid(locked, relid);
    return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid));
}

bool TryLockAll(const List *relids) {
    ListCell *cell;
    foreach (cell, relids)
        if (!TryLock(lfirst_oid(cell)))
            return false;
    return true;
}

// --- What is verified ------------------------------------------------------------

struct Candidate {
    Oid relid;
    Oid base;
    bool is_global;
    TimestampTz began; // the pass under way; 0: none
    TimestampTz last;  // verification; 0: none
};

enum class Outcome {
    More, // there are other slices
    Done, // the pass is over
    Left  // it cannot be looked at now
};

bool IsDue(const Candidate &candidate, TimestampTz now) {
    return candidate.began != 0 || candidate.last == 0 ||
           TimestampTzPlusMilliseconds(candidate.last, int64{interval} * 60 * 1000) <= now;
}

void AddCandidate(List **candidates, MemoryContext memory, Oid relid, Oid base, bool is_global) {
    RelationStatistics statistics = GetStatistics(relid).value_or(RelationStatistics{});
    Candidate candidate = {.relid = relid,
                           .base = base,
                           .is_global = is_global,
                           .began = statistics.pass.began,
                           .last = statistics.works[static_cast<int>(Work::Verify)].ended};
    if (!IsDue(candidate, GetCurrentTimestamp()))
        return;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    auto *kept = palloc_object(Candidate);
    *kept = candidate;
    *candidates = lappend(*candidates, kept);
    MemoryContextSwitchTo(caller);
}

// Passes under way come first, then what was not looked at for longest.
int CompareCandidates(const ListCell *a, const ListCell *b) {
    const auto *x = static_cast<Candidate *>(lfirst(a));
    const auto *y = static_cast<Candidate *>(lfirst(b));
    if ((x->began != 0) != (y->began != 0))
        return x->began != 0 ? -1 : 1;
    TimestampTz of_x = x->began != 0 ? x->began : x->last;
    TimestampTz of_y = y->began != 0 ? y->began : y->last;
    return of_x < of_y ? -1 : of_x > of_y ? 1 : 0;
}

// In the memory of the visit.
List *ListCandidates(MemoryContext memory) {
    List *candidates = NIL;
    ListCell *base, *cell;
    foreach (base, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base)))
            if (!OidIsValid(RecordedLog(lfirst_oid(cell)))) // else it is being built
                AddCandidate(&candidates, memory, lfirst_oid(cell), lfirst_oid(base), false);
    foreach (cell, ListGlobalRoots())
        if (Oid table = IndexGetRelation(lfirst_oid(cell), true))
            AddCandidate(&candidates, memory, lfirst_oid(cell), table, true);
    list_sort(candidates, CompareCandidates);
    return candidates;
}

// --- Slices --------------------------------------------------------------------

// Leaves that are here and have a number, in order.
List *ListVerifiedLeaves(Oid base) {
    List *leaves = NIL;
    ListCell *cell;
    foreach (cell, ListPartitions(base))
        if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))) &&
            !IsForeign(lfirst_oid(cell)))
            leaves = lappend_oid(leaves, lfirst_oid(cell));
    list_sort(leaves, list_oid_cmp);
    return leaves;
}

// As VACUUM has counted them.
double PagesOf(Oid relid) {
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
    if (!HeapTupleIsValid(tuple))
        return 0;
    double pages = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relpages;
    ReleaseSysCache(tuple);
    return pages;
}

int PlaceOf(const List *leaves, Oid next) {
    ListCell *cell;
    foreach (cell, leaves)
        if (lfirst_oid(cell) >= next)
            return foreach_current_index(cell);
    return 0;
}

// The leaves of the next slice, and where the pass goes on after it.
List *TakeSlice(VerifyPass *pass, const List *leaves) {
    int count = list_length(leaves);
    if (pass->began == 0) // another place each time: not all passes end
        *pass = {.began = GetCurrentTimestamp(),
                 .next = list_nth_oid(leaves, static_cast<int>(GetCurrentTimestamp() % count))};
    pass->total = count;
    double all = 0, pages = 0;
    ListCell *cell;
    foreach (cell, leaves)
        all += 1 + PagesOf(lfirst_oid(cell));
    List *slice = NIL;
    int place = PlaceOf(leaves, pass->next);
    while (pass->done < count && (slice == NIL || pages < all / kSlices)) {
        slice = lappend_oid(slice, list_nth_oid(leaves, place));
        pages += 1 + PagesOf(list_nth_oid(leaves, place));
        place = (place + 1) % count;
        pass->done++;
    }
    pass->next = list_nth_oid(leaves, place);
    return slice;
}

const char *NameOf(Oid relid) {
    const char *name = get_rel_name(relid);
    const char *schema = get_namespace_name(get_rel_namespace(relid));
    return name && schema ? quote_qualified_identifier(schema, name) : "?";
}

void Warn(Oid relid, int64 problems, List *damaged) {
    StringInfoData names;
    initStringInfo(&names);
    ListCell *cell;
    foreach (cell, damaged) {
        int i = foreach_current_index(cell);
        if (i < kNamed && OidIsValid(lfirst_oid(cell)))
            appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", NameOf(lfirst_oid(cell)));
    }
    int others = list_length(damaged) - kNamed;
    if (others > 0)
        appendStringInfo(&names, " and %d others", others);
    ereport(WARNING,
            (errcode(ERRCODE_DATA_CORRUPTED),
             errmsg_plural("verification has found %lld problem in %s",
                           "verification has found %lld problems in %s", problems,
                           static_cast<long long>(problems), NameOf(relid)),
             names.len > 0 ? errdetail("They are of rows of %s.", names.data) : 0,
             repairs
                 ? errhint("It is repaired now.")
                 : errhint("index_table.verify() shows them, index_table.repair() mends them.")));
}

void EndPass(Oid relid, const VerifyPass &pass) {
    RecordWork(relid, Work::Verify, pass.began, pass.problems);
    SetVerifyPass(relid, {});
}

Outcome VerifySlice(const Candidate &candidate, int64 *problems) {
    Oid relid = candidate.relid;
    if (!TryLock(candidate.base) || !TryLock(relid))
        return Outcome::Left;
    const IndexTable *table = FindIndexTable(relid);
    if (!table || table->on_servers || OidIsValid(table->log) || table->state != TableState::Built)
        return Outcome::Left;
    List *leaves = ListVerifiedLeaves(table->base);
    VerifyPass pass = GetStatistics(relid).value_or(RelationStatistics{}).pass;
    if (leaves == NIL) {
        EndPass(relid, {.began = GetCurrentTimestamp()});
        return Outcome::Done;
    }
    List *slice = TakeSlice(&pass, leaves);
    if (!TryLockAll(slice) || !TryLockAll(StorageOf(relid, NoLock)))
        return Outcome::Left;
    List *damaged = NIL;
    *problems = slice != NIL ? VerifyLeaves(FindIndexTable(relid), slice, &damaged) : 0;
    pass.problems += *problems;
    if (*problems > 0)
        Warn(relid, *problems, damaged);
    if (!SetVerifyPass(relid, pass))
        return Outcome::Left; // nobody remembers how far it has come
    if (pass.done < pass.total)
        return Outcome::More;
    EndPass(relid, pass);
    return Outcome::Done;
}

Outcome VerifyGlobalWhole(const Candidate &candidate, int64 *problems) {
    if (!TryLock(candidate.base) || !TryLock(candidate.relid) ||
        !TryLockAll(find_all_inheritors(candidate.base, NoLock, nullptr)) ||
        !TryLockAll(ListIndexedPartitions(candidate.relid)))
        return Outcome::Left;
    std::optional<GlobalIndex> index = FindGlobalIndex(candidate.relid);
    if (!index && LacksTree(candidate.relid)) {
        WarnOfNotBuilt(candidate.relid);
        RecordWork(candidate.relid, Work::Verify, GetCurrentTimestamp(), 1);
        *problems = 1;
        return Outcome::Done;
    }
    if (!index || !IsComplete(*index))
        return Outcome::Left;
    *problems = VerifyWhole(*index);
    if (*problems > 0) {
        Warn(candidate.relid, *problems, NIL);
    } else if (!IsBuilt(candidate.relid)) {
        WarnOfNotBuilt(candidate.relid);
        *problems = 1;
    }
    return Outcome::Done;
}

void Repair(const Candidate &candidate) {
    int64 problems = 0;
    if (candidate.is_global)
        problems = RepairWhole(candidate.relid);
    else if (const IndexTable *table = FindIndexTable(candidate.relid))
        problems = RepairIndexTable(LockIndexTable(table, AccessShareLock));
    ereport(LOG,
            (errmsg_plural("repaired %lld problem in %s", "repaired %lld problems in %s", problems,
                           static_cast<long long>(problems), NameOf(candidate.relid))));
}

// --- Transactions ------------------------------------------------------------------

// What is not there, or in the way, is there or gone another time.
bool IsPassing(int sqlstate) {
    return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE || sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED ||
           sqlstate == ERRCODE_QUERY_CANCELED || sqlstate == ERRCODE_OBJECT_IN_USE;
}

// Runs `action` in a transaction. False where it fails, which is logged, but for what passes.
template <typename Action>
bool Try(MemoryContext memory, bool *is_passing, Action action) {
    volatile bool done = false;
    volatile bool passes = false;
    PG_TRY();
    {
        StartTransactionCommand();
        PushActiveSnapshot(GetTransactionSnapshot());
        action();
        PopActiveSnapshot();
        CommitTransactionCommand();
        done = true;
    }
    PG_CATCH();
    {
        passes = IsPassing(geterrcode());
        if (!passes)
            EmitErrorReport();
        AbortOutOfAnyTransaction();
        FlushErrorState();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(memory);
    WatchRows(nullptr);
    locked = NIL;
    *is_passing = passes;
    return done;
}

// That it has failed is known, and it is not tried again until it is due.
void RecordFailure(const Candidate &candidate, MemoryContext memory) {
    bool passes;
    Try(memory, &passes, [&] {
        RecordWork(candidate.relid, Work::Verify, GetCurrentTimestamp(), -1);
        SetVerifyPass(candidate.relid, {});
    });
}

Outcome Visit(const Candidate &candidate, MemoryContext memory) {
    Outcome outcome = Outcome::Left;
    int64 problems = 0;
    bool passes;
    bool done = Try(memory, &passes, [&] {
        last_look = GetCurrentTimestamp();
        WatchRows(GiveWay);
        outcome = candidate.is_global ? VerifyGlobalWhole(candidate, &problems)
                                      : VerifySlice(candidate, &problems);
    });
    if (!done && !passes)
        RecordFailure(candidate, memory);
    if (!done)
        return Outcome::Left;
    if (problems > 0 && repairs)
        Try(memory, &passes, [&] { Repair(candidate); });
    return outcome;
}

int64 MillisecondsSince(TimestampTz began) {
    return TimestampDifferenceMilliseconds(began, GetCurrentTimestamp());
}

} // namespace

void VerifyInBackground(int naptime) {
    if (interval == 0 || GetCurrentTimestamp() < GetVerifyPause(MyDatabaseId))
        return;
    MemoryContext memory = CurrentMemoryContext;
    List *candidates = NIL;
    bool passes;
    Try(memory, &passes, [&] {
        if (HoldExtension())
            candidates = ListCandidates(memory);
    });
    SetConfigOption("lock_timeout", psprintf("%d", DeadlockTimeout + kLockTimeout), PGC_SUSET,
                    PGC_S_OVERRIDE);
    TimestampTz began = GetCurrentTimestamp();
    int64 granted = int64{naptime} * 1000 * share / 100;
    ListCell *cell;
    foreach (cell, candidates) {
        while (MillisecondsSince(began) < granted &&
               Visit(*static_cast<Candidate *>(lfirst(cell)), memory) == Outcome::More)
            CHECK_FOR_INTERRUPTS();
        CHECK_FOR_INTERRUPTS();
    }
    SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
    int64 owed = MillisecondsSince(began) - granted;
    if (owed > 0)
        SetVerifyPause(MyDatabaseId,
                       TimestampTzPlusMilliseconds(GetCurrentTimestamp(), owed * 100 / share));
}

void InitializeBackgroundVerify() {
    DefineCustomIntVariable("index_table.verify_interval",
                            "Time between two passes of the worker that verifies index tables and "
                            "global indexes; 0 turns it off.",
                            "It runs where index_table is in shared_preload_libraries.", &interval,
                            7 * 24 * 60, 0, 365 * 24 * 60, PGC_SIGHUP, GUC_UNIT_MIN, nullptr,
                            nullptr, nullptr);
    DefineCustomIntVariable("index_table.verify_share",
                            "Per cent of time that the worker may take to verify in each database.",
                            nullptr, &share, 5, 1, 100, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("index_table.verify_repair",
                             "The worker repairs what it finds when it verifies.", nullptr,
                             &repairs, false, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

} // namespace index_table
