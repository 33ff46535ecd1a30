// Rows in the order of their distances, where an access method yields them by lower bounds of those
// (a polygon's bounding box may be nearer than the polygon).
#pragma once

#include "exec/scan_plan.h"

namespace index_table {

// Of a row, by each of the plan's distances.
struct Distances {
    Datum *values;
    bool *nulls;
};

// What is known of the distances of the entry just read.
struct ToldDistances {
    bool is_ordered;  // none that comes later is nearer; false: it may come from anywhere
    bool is_exact;    // they are the row's own, not lower bounds of those
    Distances bounds; // by the access method; null values: it tells none
};
// By an index scan that has just yielded an entry; valid until it yields the next.
ToldDistances ToldBy(const IndexScanDesc scan);
// A copy in the current memory context.
ToldDistances CopyTold(const ScanPlan *plan, const ToldDistances &told);

struct DistanceQueue;

// For rows of the base table in a scan's tuple slot. In the current memory context.
DistanceQueue *BeginDistanceQueue(const ScanPlan *plan, PlanState *node);
// Whether an access method can tell bounds of the distances: it knows them as floating point
// numbers, and tells NULL where their type is another.
bool TakesBounds(const DistanceQueue *queue);
// Forgets all rows.
void ResetDistanceQueue(DistanceQueue *queue);

// Those of the row in the slot, valid until the next are asked for. Resets the node's memory.
Distances Measure(DistanceQueue *queue, TupleTableSlot *row);
// Null is the farthest.
int CompareDistances(const DistanceQueue *queue, const Distances &a, const Distances &b);

// No row that comes later is nearer than this.
void Reach(DistanceQueue *queue, const Distances &bound);
bool HasReached(const DistanceQueue *queue);
const Distances &Reached(const DistanceQueue *queue);

// Copies the row, with its ctid and partition.
void PushRow(DistanceQueue *queue, TupleTableSlot *row, const Distances &distances);
// Those of the nearest row; null where there is none.
const Distances *NearestRow(const DistanceQueue *queue);
// Takes it out, into the slot.
void PopRow(DistanceQueue *queue, TupleTableSlot *slot);

} // namespace index_table
