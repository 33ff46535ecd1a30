// Looking through finished plans.
#pragma once

#include "pg.h"

namespace index_table {

// Whether `test` is true of a node of a plan, or of one of the plans, and of those below them.
template <typename Test>
bool AnyNode(const Plan *plan, Test test);

template <typename Test>
bool AnyNode(const List *plans, Test test) {
    ListCell *cell;
    foreach (cell, plans)
        if (AnyNode(static_cast<const Plan *>(lfirst(cell)), test))
            return true;
    return false;
}

template <typename Test>
bool AnyNode(const Plan *plan, Test test) {
    if (!plan)
        return false;
    if (test(plan))
        return true;
    const List *more = NIL;
    switch (nodeTag(plan)) {
    case T_Append:
        more = reinterpret_cast<const Append *>(plan)->appendplans;
        break;
    case T_MergeAppend:
        more = reinterpret_cast<const MergeAppend *>(plan)->mergeplans;
        break;
    case T_SubqueryScan:
        if (AnyNode(reinterpret_cast<const SubqueryScan *>(plan)->subplan, test))
            return true;
        break;
    case T_CustomScan:
        more = reinterpret_cast<const CustomScan *>(plan)->custom_plans;
        break;
    default:
        break;
    }
    return AnyNode(more, test) || AnyNode(static_cast<const Plan *>(plan->lefttree), test) ||
           AnyNode(static_cast<const Plan *>(plan->righttree), test);
}

// Subplans that the plan came to do without are null.
template <typename Test>
bool AnyNode(const PlannedStmt *plan, Test test) {
    return AnyNode(static_cast<const Plan *>(plan->planTree), test) ||
           AnyNode(static_cast<const List *>(plan->subplans), test);
}

} // namespace index_table
