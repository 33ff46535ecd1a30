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

RowUse UseOf(LOCKMODE lock) {
    switch (lock) {
    case RowExclusiveLock:
        return RowUse::Change;
    case RowShareLock:
        return RowUse::Lock;
    default:
        return RowUse::Read;
    }
}

LockClauseStrength StrengthFor(RowUse use, EState *estate, Index rti) {
    switch (use) {
    case RowUse::Change:
        return LCS_FORUPDATE;
    case RowUse::Lock:
        return ExecFindRowMark(estate, rti, false)->strength;
    default:
        return LCS_NONE;
    }
}

const char *PartitionColumnName(Index rowmark) {
    return rowmark == 0 ? "tableoid" : psprintf("tableoid%u", rowmark);
}

} // namespace index_table
