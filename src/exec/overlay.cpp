#include "exec/overlay.h"

#include "core/public.h"
#include "exec/identity_map.h"

namespace index_table {

Overlay *OpenOverlay(const IndexTable *table, Relation base, Snapshot snapshot, LOCKMODE lock) {
    Overlay *overlay = palloc0_object(Overlay);
    overlay->table = table;
    if (!OpenPackReader(&overlay->packs, table, snapshot, AccessShareLock))
        return nullptr;
    if (!ShowsQueue(overlay->packs.queue, snapshot)) {
        ClosePackReader(&overlay->packs);
        return nullptr;
    }
    overlay->memory =
        AllocSetContextCreate(CurrentMemoryContext, "index_table overlay", ALLOCSET_DEFAULT_SIZES);
    BeginQueuedRows(&overlay->rows, table, base, snapshot, lock);
    return overlay;
}

void CloseOverlay(Overlay *overlay) {
    EndQueuedRows(&overlay->rows);
    ClosePackReader(&overlay->packs);
}

void OrderOverlay(Overlay *overlay, Relation index, const AttrNumber *stored, bool backward) {
    const AttrNumber *end = stored + overlay->table->column_count;
    int count = index->rd_index->indnkeyatts;
    overlay->sort_keys = palloc0_array(SortSupportData, count);
    overlay->sort_positions = palloc_array(int, count);
    for (int i = 0; i < count; i++) {
        const AttrNumber *found = std::find(stored, end, index->rd_index->indkey.values[i]);
        if (found == end)
            break;
        bool descending = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
        bool nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
        SortSupport key = &overlay->sort_keys[overlay->sort_count];
        key->ssup_cxt = CurrentMemoryContext;
        key->ssup_collation = index->rd_indcollation[i];
        key->ssup_nulls_first = nulls_first != backward;
        key->ssup_attno = i + 1;
        compat::PrepareIndexSort(index, descending != backward, key);
        overlay->sort_positions[overlay->sort_count++] = static_cast<int>(found - stored);
    }
}

Bitmapset *OrderPositions(const Overlay *overlay) {
    Bitmapset *positions = nullptr;
    for (int i = 0; i < overlay->sort_count; i++)
        positions = bms_add_member(positions, overlay->sort_positions[i]);
    return positions;
}

namespace {

void AddEntry(Overlay *overlay, const Datum *values, const bool *nulls) {
    const IndexTable *table = overlay->table;
    MemoryContext caller = MemoryContextSwitchTo(overlay->memory);
    if (overlay->count == overlay->capacity) {
        int grown = Max(16, overlay->capacity * 2);
        OverlayEntry *entries = static_cast<OverlayEntry *>(
            MemoryContextAllocHuge(overlay->memory, sizeof(OverlayEntry) * grown));
        std::copy(overlay->entries, overlay->entries + overlay->count, entries);
        overlay->entries = entries;
        overlay->capacity = grown;
    }
    OverlayEntry *entry = &overlay->entries[overlay->count++];
    entry->values = palloc_array(Datum, table->column_count);
    entry->nulls = palloc_array(bool, table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        int16 length;
        bool by_value;
        get_typlenbyval(table->types[i], &length, &by_value);
        entry->nulls[i] = nulls[i];
        entry->values[i] = nulls[i] ? 0 : datumCopy(values[i], by_value, length);
    }
    MemoryContextSwitchTo(caller);
}

// Finds the entries of the row with an identity that was not met before.
void LookUp(Overlay *overlay, const Datum *identity) {
    NullableDatum known[INDEX_MAX_KEYS];
    for (int i = 0; i < overlay->table->identity_count; i++)
        known[i] = {.value = identity[i], .isnull = false};
    bool found;
    PutIdentity(overlay->queued, InvalidOid, known, &found);
    if (found)
        return;
    overlay->identities++;
    ListCell *cell;
    foreach (cell, FindQueuedLeaves(&overlay->rows, identity))
        ForEachQueuedEntry(
            &overlay->rows, static_cast<QueuedLeaf *>(lfirst(cell)), identity,
            [=](const Datum *values, const bool *nulls) { AddEntry(overlay, values, nulls); });
}

IdentityMap *MakeMap(Overlay *overlay) {
    return MakeIdentityMap(overlay->memory, RelationGetDescr(overlay->rows.reader.base),
                           overlay->rows.columns, overlay->table->identity_count);
}

bool EvaluatesExpressions(const IndexTable *table) {
    return table->planned_predicate ||
           std::any_of(table->key_exprs, table->key_exprs + table->key.count,
                       [](const Expr *expr) { return expr != nullptr; });
}

void LookUpAll(Overlay *overlay, const WantedKeys &wanted) {
    MemoryContext caller = MemoryContextSwitchTo(overlay->memory);
    MemoryContext of_pack =
        AllocSetContextCreate(overlay->memory, "index_table packs", ALLOCSET_DEFAULT_SIZES);
    ForEachWantedPack(&overlay->packs, wanted, [&](const Pack &pack) {
        MemoryContextSwitchTo(of_pack);
        ForEachIdentity(&overlay->packs, pack, wanted, [&](const Datum *identity) {
            if (!overlay->queued)
                overlay->queued = MakeMap(overlay);
            LookUp(overlay, identity);
        });
        MemoryContextSwitchTo(overlay->memory);
        MemoryContextReset(of_pack);
        return true;
    });
    MemoryContextDelete(of_pack);
    MemoryContextSwitchTo(caller);
}

} // namespace

void StartOverlay(Overlay *overlay, const WantedKeys &wanted) {
    MemoryContextReset(overlay->memory);
    overlay->queued = nullptr;
    overlay->entries = nullptr;
    overlay->count = overlay->capacity = overlay->next = 0;
    if (!EvaluatesExpressions(overlay->table)) {
        LookUpAll(overlay, wanted);
        return;
    }
    OwnerContext owner = EnterOwner(RelationOwner(overlay->table->base));
    LookUpAll(overlay, wanted);
    LeaveOwner(owner);
}

namespace {

int Compare(Overlay *overlay, const Datum *a, const bool *a_nulls, const Datum *b,
            const bool *b_nulls) {
    for (int i = 0; i < overlay->sort_count; i++) {
        int position = overlay->sort_positions[i];
        int order = ApplySortComparator(a[position], a_nulls[position], b[position],
                                        b_nulls[position], &overlay->sort_keys[i]);
        if (order != 0)
            return order;
    }
    return 0;
}

} // namespace

void SortOverlay(Overlay *overlay) {
    // A comparison that raises leaves memory of the look-up behind.
    std::sort(overlay->entries, overlay->entries + overlay->count,
              [=](const OverlayEntry &a, const OverlayEntry &b) {
                  return Compare(overlay, a.values, a.nulls, b.values, b.nulls) < 0;
              });
}

bool IsQueued(const Overlay *overlay, const Datum *values, const bool *nulls) {
    if (!overlay->queued)
        return false;
    const IndexTable *table = overlay->table;
    NullableDatum identity[INDEX_MAX_KEYS];
    for (int i = 0; i < table->identity_count; i++) {
        int position = table->identity[i].position;
        identity[i] = {.value = values[position], .isnull = nulls[position]};
    }
    return FindIdentity(overlay->queued, InvalidOid, identity) != nullptr;
}

int CompareOverlay(Overlay *overlay, const OverlayEntry &entry, const Datum *values,
                   const bool *nulls) {
    return Compare(overlay, entry.values, entry.nulls, values, nulls);
}

} // namespace index_table
