#include "plan/scan.h"

#include "pg.h"

namespace index_table {
namespace {

constinit int enable_scan = static_cast<int>(ScanPolicy::On);

constinit bool use_invisible = false;

// Plans rest on it: which index tables there are to choose among.
void ForgetPlans(bool value, void *) {
    if (value != use_invisible)
        ResetPlanCache();
}

constexpr config_enum_entry kPolicies[] = {{"off", static_cast<int>(ScanPolicy::Off), false},
                                           {"on", static_cast<int>(ScanPolicy::On), false},
                                           {"force", static_cast<int>(ScanPolicy::Force), false},
                                           {"false", static_cast<int>(ScanPolicy::Off), true},
                                           {"true", static_cast<int>(ScanPolicy::On), true},
                                           {"no", static_cast<int>(ScanPolicy::Off), true},
                                           {"yes", static_cast<int>(ScanPolicy::On), true},
                                           {"0", static_cast<int>(ScanPolicy::Off), true},
                                           {"1", static_cast<int>(ScanPolicy::On), true},
                                           {nullptr, 0, false}};

} // namespace

ScanPolicy GetScanPolicy() {
    return static_cast<ScanPolicy>(enable_scan);
}

bool UsesInvisible() {
    return use_invisible;
}

void InitializePlanning() {
    DefineCustomEnumVariable(
        "index_table.enable_scan", "Lets queries on base tables use their index tables.",
        "\"on\" uses them where they promise to be faster, \"force\" wherever they can be used.",
        &enable_scan, static_cast<int>(ScanPolicy::On), kPolicies, PGC_USERSET, GUC_EXPLAIN,
        nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "index_table.use_invisible", "Lets queries use index tables that are invisible to others.",
        "To try one: index_table.set_visible() makes it visible, or invisible.", &use_invisible,
        false, PGC_USERSET, GUC_EXPLAIN, nullptr, ForgetPlans, nullptr);
}

} // namespace index_table
