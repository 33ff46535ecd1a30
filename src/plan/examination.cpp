#include "plan/examination.h"

#include "core/public.h"
#include "exec/public.h"
#include "plan/plan_tree.h"

namespace index_table {
namespace {

// The examination that the next planning belongs to.
constinit Examination *next_examination = nullptr;

bool IsScan(const Plan *plan) {
    const CustomScanMethods *methods = reinterpret_cast<const CustomScan *>(plan)->methods;
    return IsA(plan, CustomScan) && (methods == GetScanMethods(ScanMode::Rows) ||
                                     methods == GetScanMethods(ScanMode::Entries));
}

} // namespace

PlannedStmt *PlanExamined(Query *query, Examination *examination) {
    PlannedStmt *plan = nullptr;
    next_examination = examination;
    PG_TRY();
    { plan = compat::PlanQuery(query, CURSOR_OPT_PARALLEL_OK); }
    PG_FINALLY();
    { next_examination = nullptr; }
    PG_END_TRY();
    return plan;
}

Examination *TakeExamination() {
    Examination *examination = next_examination;
    next_examination = nullptr;
    return examination;
}

void NoteReference(Examination *examination, Oid base, Oid name, Obstacle obstacle) {
    ListCell *cell;
    foreach (cell, examination->references) {
        ExaminedReference *known = static_cast<ExaminedReference *>(lfirst(cell));
        if (known->base == base && known->name == name) {
            known->obstacle = Min(known->obstacle, obstacle);
            return;
        }
    }
    MemoryContext caller = MemoryContextSwitchTo(examination->context);
    ExaminedReference *reference = palloc_object(ExaminedReference);
    *reference = {base, name, obstacle};
    examination->references = lappend(examination->references, reference);
    MemoryContextSwitchTo(caller);
}

bool IsTried(const Trial &trial, Oid table, Oid index, bool is_owner_index) {
    return table == trial.table &&
           (OidIsValid(trial.owner_index) ? index == trial.owner_index : !is_owner_index);
}

bool ReadsTried(const PlannedStmt *plan, const Trial &trial) {
    return AnyNode(plan, [&](const Plan *node) {
        if (!IsScan(node))
            return false;
        ScanPlan scan = ReadScanPlan(reinterpret_cast<const CustomScan *>(node));
        return std::any_of(
            scan.sources, scan.sources + scan.source_count, [&](const SourcePlan &source) {
                return IsTried(trial, source.index_table, source.index, source.is_owner_index);
            });
    });
}

} // namespace index_table
