#include "exec/distance_queue.h"

namespace index_table {
namespace {

struct QueuedRow {
    pairingheap_node node; // first
    MinimalTuple tuple;
    ItemPointerData tid;
    Oid partition;
    Distances distances;
};

struct DistanceType {
    int16 length;
    bool by_value;
    bool is_float;
};

} // namespace

struct DistanceQueue {
    PlanState *node;
    MemoryContext memory; // of what is queued
    int count;            // of distances
    List *expressions;    // of ExprStates
    SortSupportData *order;
    DistanceType *types;
    pairingheap *rows;
    Distances measured;
    Distances reached;
    bool has_reached;
};

namespace {

int CompareRows(const pairingheap_node *a, const pairingheap_node *b, void *queue) {
    return -CompareDistances(static_cast<DistanceQueue *>(queue),
                             reinterpret_cast<const QueuedRow *>(a)->distances,
                             reinterpret_cast<const QueuedRow *>(b)->distances);
}

Distances MakeDistances(int count) {
    return {.values = palloc0_array(Datum, count), .nulls = palloc0_array(bool, count)};
}

void Copy(const DistanceType *types, int count, const Distances &from, Distances *to) {
    for (int i = 0; i < count; i++) {
        to->nulls[i] = from.nulls[i];
        to->values[i] = from.nulls[i]
                            ? Datum{0}
                            : datumCopy(from.values[i], types[i].by_value, types[i].length);
    }
}

void Free(const DistanceQueue *queue, const Distances &distances) {
    for (int i = 0; i < queue->count; i++)
        if (!queue->types[i].by_value && !distances.nulls[i])
            pfree(DatumGetPointer(distances.values[i]));
}

DistanceType *TypesOf(const ScanPlan *plan) {
    DistanceType *types = palloc0_array(DistanceType, list_length(plan->distances));
    ListCell *cell;
    foreach (cell, plan->distances) {
        DistanceType *type = &types[foreach_current_index(cell)];
        Oid oid = exprType(static_cast<Node *>(lfirst(cell)));
        type->is_float = oid == FLOAT8OID || oid == FLOAT4OID;
        get_typlenbyval(oid, &type->length, &type->by_value);
    }
    return types;
}

} // namespace

// RUM and HNSW leave alone what PostgreSQL asks for only where distances are to be rechecked.
ToldDistances ToldBy(const IndexScanDesc scan) {
    Oid method = scan->indexRelation->rd_rel->relam;
    if (method != GIST_AM_OID && method != SPGIST_AM_OID && !scan->xs_recheckorderby)
        return {.is_ordered = true, .is_exact = false, .bounds = {}};
    return {.is_ordered = true,
            .is_exact = scan->xs_orderbyvals && !scan->xs_recheckorderby,
            .bounds = {.values = scan->xs_orderbyvals, .nulls = scan->xs_orderbynulls}};
}

ToldDistances CopyTold(const ScanPlan *plan, const ToldDistances &told) {
    ToldDistances copy = told;
    if (!told.bounds.values)
        return copy;
    int count = list_length(plan->distances);
    copy.bounds = MakeDistances(count);
    Copy(TypesOf(plan), count, told.bounds, &copy.bounds);
    return copy;
}

DistanceQueue *BeginDistanceQueue(const ScanPlan *plan, PlanState *node) {
    DistanceQueue *queue = palloc0_object(DistanceQueue);
    queue->node = node;
    queue->memory = AllocSetContextCreate(CurrentMemoryContext, "index_table rows by distance",
                                          ALLOCSET_DEFAULT_SIZES);
    queue->count = list_length(plan->distances);
    queue->expressions = ExecInitExprList(plan->distances, node);
    queue->order = palloc0_array(SortSupportData, queue->count);
    queue->types = TypesOf(plan);
    queue->measured = MakeDistances(queue->count);
    queue->reached = MakeDistances(queue->count);
    for (int i = 0; i < queue->count; i++) {
        const Node *expression = static_cast<const Node *>(list_nth(plan->distances, i));
        SortSupport order = &queue->order[i];
        order->ssup_cxt = CurrentMemoryContext;
        order->ssup_collation = exprCollation(expression);
        order->ssup_nulls_first = false;
        PrepareSortSupportFromOrderingOp(list_nth_oid(plan->distance_operators, i), order);
    }
    queue->rows = pairingheap_allocate(CompareRows, queue);
    return queue;
}

bool TakesBounds(const DistanceQueue *queue) {
    return std::all_of(queue->types, queue->types + queue->count,
                       [](const DistanceType &type) { return type.is_float; });
}

void ResetDistanceQueue(DistanceQueue *queue) {
    pairingheap_reset(queue->rows);
    MemoryContextReset(queue->memory);
    queue->has_reached = false;
}

Distances Measure(DistanceQueue *queue, TupleTableSlot *row) {
    ExprContext *context = queue->node->ps_ExprContext;
    ResetExprContext(context);
    context->ecxt_scantuple = row;
    MemoryContext caller = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
    ListCell *cell;
    foreach (cell, queue->expressions) {
        int i = foreach_current_index(cell);
        queue->measured.values[i] =
            ExecEvalExpr(lfirst_node(ExprState, cell), context, &queue->measured.nulls[i]);
    }
    MemoryContextSwitchTo(caller);
    return queue->measured;
}

int CompareDistances(const DistanceQueue *queue, const Distances &a, const Distances &b) {
    for (int i = 0; i < queue->count; i++) {
        int order =
            ApplySortComparator(a.values[i], a.nulls[i], b.values[i], b.nulls[i], &queue->order[i]);
        if (order != 0)
            return order;
    }
    return 0;
}

void Reach(DistanceQueue *queue, const Distances &bound) {
    if (queue->has_reached)
        Free(queue, queue->reached);
    MemoryContext caller = MemoryContextSwitchTo(queue->memory);
    Copy(queue->types, queue->count, bound, &queue->reached);
    MemoryContextSwitchTo(caller);
    queue->has_reached = true;
}

bool HasReached(const DistanceQueue *queue) {
    return queue->has_reached;
}

const Distances &Reached(const DistanceQueue *queue) {
    Assert(queue->has_reached);
    return queue->reached;
}

void PushRow(DistanceQueue *queue, TupleTableSlot *row, const Distances &distances) {
    MemoryContext caller = MemoryContextSwitchTo(queue->memory);
    QueuedRow *queued = palloc_object(QueuedRow);
    queued->tuple = ExecCopySlotMinimalTuple(row);
    queued->tid = row->tts_tid;
    queued->partition = row->tts_tableOid;
    queued->distances = MakeDistances(queue->count);
    Copy(queue->types, queue->count, distances, &queued->distances);
    pairingheap_add(queue->rows, &queued->node);
    MemoryContextSwitchTo(caller);
}

const Distances *NearestRow(const DistanceQueue *queue) {
    return pairingheap_is_empty(queue->rows)
               ? nullptr
               : &reinterpret_cast<QueuedRow *>(pairingheap_first(queue->rows))->distances;
}

void PopRow(DistanceQueue *queue, TupleTableSlot *slot) {
    QueuedRow *queued = reinterpret_cast<QueuedRow *>(pairingheap_remove_first(queue->rows));
    ExecForceStoreMinimalTuple(queued->tuple, slot, true);
    slot->tts_tid = queued->tid;
    slot->tts_tableOid = queued->partition;
    Free(queue, queued->distances);
    pfree(queued->distances.values);
    pfree(queued->distances.nulls);
    pfree(queued);
}

} // namespace index_table
