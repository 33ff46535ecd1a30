#include "shard/transmission.h"

#include "core/public.h"

namespace index_table {

int BeginTransmission() {
    int level = NewGUCNestLevel();
    UseLosslessText();
    if (strcmp(namespace_search_path, "pg_catalog") != 0)
        SetForQuery("search_path", "pg_catalog");
    return level;
}

void EndTransmission(int level) {
    AtEOXact_GUC(true, level);
}

} // namespace index_table
