#include "exec/read_consistency.h"

#include "pg.h"

namespace index_table {
namespace {

enum Consistency { kExact, kEventual };
constinit int read_consistency = kExact;
constexpr config_enum_entry kConsistencies[] = {
    {"exact", kExact, false}, {"eventual", kEventual, false}, {nullptr, 0, false}};

// Plans rest on it: which index tables there are to choose among.
void ForgetPlans(int value, void *) {
    if (value != read_consistency)
        ResetPlanCache();
}

} // namespace

bool ReadsEventually() {
    return read_consistency == kEventual;
}

void InitializeReadConsistency() {
    DefineCustomEnumVariable(
        "index_table.read_consistency",
        "What queries make of index tables that are maintained deferred.",
        "With \"exact\" they add what is queued, and do without where that is on other servers; "
        "with \"eventual\" rows are found once they are drained.",
        &read_consistency, kExact, kConsistencies, PGC_USERSET, GUC_EXPLAIN, nullptr, ForgetPlans,
        nullptr);
}

} // namespace index_table
