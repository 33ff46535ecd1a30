#include "shard/transmission.h"

namespace index_table {

int BeginTransmission() {
    int level = NewGUCNestLevel();
    auto set = [](const char *name, const char *value) {
        set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    };
    if (DateStyle != USE_ISO_DATES)
        set("datestyle", "ISO");
    if (IntervalStyle != INTSTYLE_POSTGRES)
        set("intervalstyle", "postgres");
    if (extra_float_digits < 1) // more make no difference
        set("extra_float_digits", "3");
    if (strcmp(namespace_search_path, "pg_catalog") != 0)
        set("search_path", "pg_catalog");
    return level;
}

void EndTransmission(int level) {
    AtEOXact_GUC(true, level);
}

} // namespace index_table
