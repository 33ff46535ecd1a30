#include "exec/scan_ahead.h"

#include "exec/scan_state.h"

namespace index_table {
namespace {

// Entries that are read at first for the outer rows of a join.
constexpr int kEntriesAhead = 2000;

bool AddParameter(Node *node, void *context) {
    if (!node)
        return false;
    Bitmapset **ids = static_cast<Bitmapset **>(context);
    if (IsA(node, Param) && reinterpret_cast<Param *>(node)->paramkind == PARAM_EXEC)
        *ids = bms_add_member(*ids, reinterpret_cast<Param *>(node)->paramid);
    return compat::WalkExpression(node, AddParameter, context);
}

Bitmapset *ParametersOf(List *quals) {
    Bitmapset *ids = nullptr;
    AddParameter(reinterpret_cast<Node *>(quals), &ids);
    return ids;
}

} // namespace

List *QualsWithout(List *quals, const Bitmapset *changing) {
    List *steady = NIL;
    ListCell *cell;
    foreach (cell, quals)
        if (!bms_overlap(ParametersOf(list_make1(lfirst(cell))), changing) &&
            !contain_subplans(static_cast<Node *>(lfirst(cell))))
            steady = lappend(steady, lfirst(cell));
    return steady;
}

bool PrepareAhead(CustomScanState *node, const Bitmapset *changing, const Bitmapset *steady) {
    if (!IsIndexTableScan(node))
        return false;
    IndexTableScan *scan = ToScan(node);
    if (scan->plan.source_count != 1)
        return false;
    List *quals = scan->plan.sources[0].quals;
    const Bitmapset *parameters = ParametersOf(quals);
    if (!bms_overlap(parameters, changing) ||
        !bms_is_subset(parameters, bms_union(changing, steady)) ||
        contain_subplans(reinterpret_cast<Node *>(quals)))
        return false;
    scan->changing = changing;
    ScanSource *source = &scan->sources[0];
    if (!scan->is_open || !source->batch || source->entries.recompute)
        return false;
    ShardNeeds needs = scan->needs;
    needs.quals = QualsWithout(needs.quals, changing);
    source->shards_ahead = BeginShardRows(source->table, scan->css.ss.ss_currentRelation, needs);
    source->ahead =
        BeginEntryBatch(&source->entries, &source->leaves, source->shards_ahead, kEntriesAhead);
    return true;
}

void BeginAhead(CustomScanState *node) {
    BeginGroups(ToScan(node)->sources[0].ahead);
}

bool ReadAhead(CustomScanState *node) {
    IndexTableScan *scan = ToScan(node);
    ScanSource *source = &scan->sources[0];
    RestartEntries(&source->entries);
    return AddGroup(source->ahead, scan->plan.first_batch);
}

void FetchAhead(CustomScanState *node) {
    FetchGroups(ToScan(node)->sources[0].ahead);
}

void UseAhead(CustomScanState *node, int number) {
    ToScan(node)->sources[0].group = number;
}

} // namespace index_table
