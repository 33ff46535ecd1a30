// What is queued for an index table, laid over its entries: a scan gets the entries that the index
// table would have had if it were maintained immediately.
//
// Of each identity that the snapshot sees in the queue, stored entries do not count; in their place
// come those of the row, as the snapshot sees it. A look-up by key asks the packs for identities
// whose row had or has the key; other scans take all that are queued.
#pragma once

#include "deferred/public.h"
#include "exec/queued_rows.h"

namespace index_table {

struct IdentityMap;

struct OverlayEntry {
    Datum *values; // by position
    bool *nulls;
};

struct Overlay {
    const IndexTable *table;
    PackReader packs;
    QueuedRows rows;
    MemoryContext memory; // of the look-up
    IdentityMap *queued;  // what does not count as stored; null: nothing
    int count;
    int capacity;
    OverlayEntry *entries;
    int next;
    // Of the order, where there is one.
    int sort_count;
    SortSupportData *sort_keys;
    int *sort_positions;
    uint64 identities; // looked at, for EXPLAIN
};

// Opens the queue of an index table; null where it is not there, or where what was queued under the
// snapshot has been cleared away: entries have to be recomputed then. In the current memory
// context.
Overlay *OpenOverlay(const IndexTable *table, Relation base, Snapshot snapshot, LOCKMODE lock);
void CloseOverlay(Overlay *overlay);

// Entries are to come in the order of this index of the index table, a B-tree.
void OrderOverlay(Overlay *overlay, Relation index, const AttrNumber *stored, bool backward);
// The positions of an entry that order it.
Bitmapset *OrderPositions(const Overlay *overlay);

// Finds what is queued for a look-up. `passes(entry)` says whether an entry meets its conditions.
void StartOverlay(Overlay *overlay, const WantedKeys &wanted);
template <typename Passes>
void FilterOverlay(Overlay *overlay, Passes passes) {
    OverlayEntry *end = std::remove_if(overlay->entries, overlay->entries + overlay->count,
                                       [&](const OverlayEntry &entry) { return !passes(entry); });
    overlay->count = end - overlay->entries;
}
void SortOverlay(Overlay *overlay);

// Whether a stored entry does not count.
bool IsQueued(const Overlay *overlay, const Datum *values, const bool *nulls);
// The order of an entry of the overlay beside a stored one.
int CompareOverlay(Overlay *overlay, const OverlayEntry &entry, const Datum *values,
                   const bool *nulls);

} // namespace index_table
