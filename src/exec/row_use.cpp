#include "exec/row_use.h"

namespace index_table {

LOCKMODE LockModeFor(RowUse use) {
    switch (use) {
    case RowUse::Change:
        return RowExclusiveLock;
    case RowUse::Lock:
        return RowShareLock;
    default:
        return AccessShareLock;
    }
}

const char *PartitionColumnName(Index rowmark) {
    return rowmark == 0 ? "tableoid" : psprintf("tableoid%u", rowmark);
}

} // namespace index_table
