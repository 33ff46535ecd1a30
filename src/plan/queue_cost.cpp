#include "plan/queue_cost.h"

#include "deferred/public.h"
#include "exec/public.h"
#include "plan/costs.h"

namespace index_table {

QueueCosts EstimateQueueCosts(const IndexTable *table) {
    QueueCosts costs = {};
    PackReader reader;
    if (!OidIsValid(table->queue) || ReadsEventually() ||
        !OpenPackReader(&reader, table, nullptr, AccessShareLock))
        return costs;
    QueueSize size = EstimateQueue(&reader);
    ClosePackReader(&reader);
    costs.of_key = size.blocks * micros::kQueuedPage;
    costs.of_all = size.packs * micros::kQueuedPack + size.changes * micros::kQueuedRow;
    return costs;
}

bool LooksKeysUp(const IndexPath *path) {
    const IndexOptInfo *info = path->indexinfo;
    ListCell *cell, *qual;
    foreach (cell, path->indexclauses) {
        const IndexClause *clause = lfirst_node(IndexClause, cell);
        if (clause->indexcol != 0)
            continue;
        foreach (qual, clause->indexquals) {
            Expr *expr = lfirst_node(RestrictInfo, qual)->clause;
            Oid op = IsA(expr, OpExpr) ? reinterpret_cast<OpExpr *>(expr)->opno
                     : IsA(expr, ScalarArrayOpExpr)
                         ? reinterpret_cast<ScalarArrayOpExpr *>(expr)->opno
                         : InvalidOid;
            if (OidIsValid(op) &&
                get_op_opfamily_strategy(op, info->opfamily[0]) == BTEqualStrategyNumber)
                return true;
        }
    }
    return false;
}

double CostOfQueue(const Candidate *candidate, bool looks_keys_up) {
    bool is_told = looks_keys_up && !candidate->owner_index;
    return is_told ? candidate->queue.of_key : candidate->queue.of_all;
}

} // namespace index_table
