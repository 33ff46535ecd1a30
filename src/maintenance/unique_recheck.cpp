#include "maintenance/unique_recheck.h"

#include "maintenance/statements.h"
#include "maintenance/violation.h"

namespace index_table {
namespace {

struct Pending {
    Pending *next;
    Oid table; // the index table
    Oid relid; // where the entry is stored
    Oid index;
    ItemPointerData tid;
    int nest_level; // at which it was stored
};

// Those of a base table, the highest nest levels first. All in TopTransactionContext.
struct PendingOfBase {
    PendingOfBase *next;
    Oid base;
    Pending *entries;
};
PendingOfBase *pending;

PendingOfBase *GetPending(Oid base) {
    for (PendingOfBase *known = pending; known; known = known->next)
        if (known->base == base)
            return known;
    PendingOfBase *added = static_cast<PendingOfBase *>(
        MemoryContextAlloc(TopTransactionContext, sizeof(PendingOfBase)));
    *added = {.next = pending, .base = base};
    return pending = added;
}

// What a deferrable constraint's trigger does, unique_key_recheck().
void CheckEntry(const Pending *entry, Relation rel, Relation index, TupleTableSlot *slot) {
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    IndexInfo *info = BuildIndexInfo(index);
    EState *estate = CreateExecutorState();
    GetPerTupleExprContext(estate)->ecxt_scantuple = slot;
    FormIndexDatum(info, slot, estate, values, nulls);
    ItemPointerData tid = entry->tid; // the index knows the first version
    if (info->ii_ExclusionOps)
        check_exclusion_constraint(rel, index, info, &tid, values, nulls, estate, false);
    else
        index_insert(index, values, nulls, &tid, rel, UNIQUE_CHECK_EXISTING, false, info);
    FreeExecutorState(estate);
}

void CheckAgain(const Pending *entry) {
    Relation rel = table_open(entry->relid, RowExclusiveLock);
    Relation index = index_open(entry->index, RowExclusiveLock);
    TupleTableSlot *slot = table_slot_create(rel, nullptr);
    IndexFetchTableData *fetch = compat::BeginFetch(rel);
    bool call_again = false;
    // Fetching moves on to the newest version.
    ItemPointerData tid = entry->tid;
    // An entry that is gone, or was undone with a subtransaction, collides with nothing.
    if (table_index_fetch_tuple(fetch, &tid, SnapshotSelf, slot, &call_again, nullptr)) {
        PG_TRY();
        { CheckEntry(entry, rel, index, slot); }
        PG_CATCH();
        {
            if (const IndexTable *table = FindIndexTable(entry->table))
                TranslateViolation(table, slot);
            PG_RE_THROW();
        }
        PG_END_TRY();
    }
    table_index_fetch_end(fetch);
    ExecDropSingleTupleTableSlot(slot);
    index_close(index, NoLock);
    table_close(rel, NoLock);
}

} // namespace

void RecheckLater(const IndexTable *table, Relation rel, Oid index, ItemPointer tid) {
    Assert(IsKnown(table) && ItemPointerIsValid(tid));
    Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
    Pending *entry =
        static_cast<Pending *>(MemoryContextAlloc(TopTransactionContext, sizeof(Pending)));
    PendingOfBase *of_base = GetPending(table->base);
    *entry = {.next = of_base->entries,
              .table = table->relid,
              .relid = RelationGetRelid(rel),
              .index = index,
              .tid = *tid,
              .nest_level = GetCurrentTransactionNestLevel()};
    of_base->entries = entry;
}

bool HasRechecks() {
    for (const PendingOfBase *of_base = pending; of_base; of_base = of_base->next)
        if (of_base->entries)
            return true;
    return false;
}

void Recheck(bool is_final) {
    Assert(IsTransactionState());
    // One that raises is gone; the others stay, for the error may be caught.
    for (PendingOfBase *of_base = pending; of_base; of_base = of_base->next) {
        if (!is_final && of_base->entries && IsBeingChanged(of_base->base))
            continue;
        while (Pending *entry = of_base->entries) {
            of_base->entries = entry->next;
            CheckAgain(entry);
            pfree(entry);
        }
    }
}

void AtEOXactRechecks() {
    pending = nullptr;
}

// What was undone may have been stored in a relation, or a file, that is no more.
void AtEOSubXactRechecks(bool commits, int level) {
    for (PendingOfBase *of_base = pending; of_base; of_base = of_base->next) {
        Pending *entry = of_base->entries;
        for (; entry && entry->nest_level >= level; entry = entry->next)
            entry->nest_level = level - 1;
        if (!commits)
            of_base->entries = entry;
    }
}

} // namespace index_table
