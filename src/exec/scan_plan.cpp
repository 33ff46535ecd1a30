#include "exec/scan_plan.h"

namespace index_table {

CustomScan *MakeCustomScan(const ScanPlan &plan, const CustomScanMethods *methods) {
    Assert(plan.source_count >= 0);
    CustomScan *scan = makeNode(CustomScan);
    scan->methods = methods;
    List *quals = NIL;
    List *qual_columns = NIL;
    List *oids = NIL;
    List *owner_index = NIL;
    for (const SourcePlan &source : std::span(plan.sources, plan.source_count)) {
        quals = lappend(quals, source.quals);
        qual_columns = lappend(qual_columns, source.qual_columns);
        oids = lappend_oid(oids, source.root);
        oids = lappend_oid(lappend_oid(oids, source.index_table), source.index);
        owner_index = lappend_int(owner_index, source.is_owner_index);
    }
    // Expressions apart: the planner looks through these.
    scan->custom_exprs =
        list_make5(plan.recheck, quals, plan.implied, plan.distances, plan.entry_filter);
    List *numbers =
        list_make4_int(static_cast<int>(plan.mode), plan.direction, plan.is_ordered, plan.lock);
    numbers = lappend_int(lappend_int(numbers, plan.may_ship), plan.first_batch);
    scan->custom_private = list_make5(numbers, plan.columns, oids, qual_columns, owner_index);
    scan->custom_private =
        lappend(lappend(scan->custom_private, plan.distance_columns), plan.distance_operators);
    return scan;
}

ScanPlan ReadScanPlan(const CustomScan *scan) {
    List *numbers = static_cast<List *>(linitial(scan->custom_private));
    List *oids = static_cast<List *>(lthird(scan->custom_private));
    List *qual_columns = static_cast<List *>(lfourth(scan->custom_private));
    List *owner_index = static_cast<List *>(list_nth(scan->custom_private, 4));
    List *quals = static_cast<List *>(lsecond(scan->custom_exprs));
    ScanPlan plan = {.mode = static_cast<ScanMode>(linitial_int(numbers)),
                     .direction = static_cast<ScanDirection>(lsecond_int(numbers)),
                     .is_ordered = lthird_int(numbers) != 0,
                     .lock = lfourth_int(numbers),
                     .may_ship = list_nth_int(numbers, 4) != 0,
                     .first_batch = list_nth_int(numbers, 5),
                     .columns = static_cast<List *>(lsecond(scan->custom_private)),
                     .recheck = static_cast<List *>(linitial(scan->custom_exprs)),
                     .implied = static_cast<List *>(lthird(scan->custom_exprs)),
                     .entry_filter = static_cast<List *>(list_nth(scan->custom_exprs, 4)),
                     .distances = static_cast<List *>(lfourth(scan->custom_exprs)),
                     .distance_columns = static_cast<List *>(list_nth(scan->custom_private, 5)),
                     .distance_operators = static_cast<List *>(list_nth(scan->custom_private, 6)),
                     .source_count = list_length(oids) / 3};
    plan.sources =
        static_cast<SourcePlan *>(palloc(sizeof(SourcePlan) * Max(1, plan.source_count)));
    for (int i = 0; i < plan.source_count; i++)
        plan.sources[i] = {.root = list_nth_oid(oids, 3 * i),
                           .index_table = list_nth_oid(oids, 3 * i + 1),
                           .index = list_nth_oid(oids, 3 * i + 2),
                           .is_owner_index = list_nth_int(owner_index, i) != 0,
                           .quals = static_cast<List *>(list_nth(quals, i)),
                           .qual_columns = static_cast<List *>(list_nth(qual_columns, i))};
    return plan;
}

} // namespace index_table
