#include "scan/scan_plan.h"

namespace index_table {

CustomScan *MakeCustomScan(const ScanPlan &plan, const CustomScanMethods *methods) {
    CustomScan *scan = makeNode(CustomScan);
    scan->methods = methods;
    scan->custom_exprs = list_make2(plan.quals, plan.recheck);
    List *numbers = list_make3_int(static_cast<int>(plan.mode), plan.direction, plan.is_ordered);
    List *oids = list_make2_oid(plan.index_table, plan.index);
    scan->custom_private = list_make4(numbers, oids, plan.columns, plan.qual_columns);
    return scan;
}

ScanPlan ReadScanPlan(const CustomScan *scan) {
    List *numbers = static_cast<List *>(linitial(scan->custom_private));
    List *oids = static_cast<List *>(lsecond(scan->custom_private));
    return {.mode = static_cast<ScanMode>(linitial_int(numbers)),
            .direction = static_cast<ScanDirection>(lsecond_int(numbers)),
            .index_table = linitial_oid(oids),
            .index = lsecond_oid(oids),
            .is_ordered = lthird_int(numbers) != 0,
            .columns = static_cast<List *>(lthird(scan->custom_private)),
            .quals = static_cast<List *>(linitial(scan->custom_exprs)),
            .qual_columns = static_cast<List *>(lfourth(scan->custom_private)),
            .recheck = static_cast<List *>(lsecond(scan->custom_exprs))};
}

} // namespace index_table
