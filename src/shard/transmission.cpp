#include "shard/transmission.h"

#include "core/public.h"

namespace index_table {

int BeginTransmission() {
    int level = NewGUCNestLevel();
    if (DateStyle != USE_ISO_DATES)
        SetForQuery("datestyle", "ISO");
    if (IntervalStyle != INTSTYLE_POSTGRES)
        SetForQuery("intervalstyle", "postgres");
    if (extra_float_digits < 1) // more make no difference
        SetForQuery("extra_float_digits", "3");
    if (strcmp(namespace_search_path, "pg_catalog") != 0)
        SetForQuery("search_path", "pg_catalog");
    return level;
}

void EndTransmission(int level) {
    AtEOXact_GUC(true, level);
}

} // namespace index_table
