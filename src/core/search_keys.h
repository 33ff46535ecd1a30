// Scan keys by which a B-tree finds what equals given values.
#pragma once

#include "pg.h"

namespace index_table {

// The procedure of `strategy` in an index column's own operator class, both sides of its type.
RegProcedure SearchProcedure(Relation index, int column, StrategyNumber strategy);

// Keys for the first `count` columns of a B-tree, in the current memory context; SetSearchValue()
// gives them their values.
ScanKeyData *MakeSearchKeys(Relation index, int count);

// NULL is looked for, too.
inline void SetSearchValue(ScanKeyData *key, Datum value, bool isnull) {
    key->sk_argument = value;
    key->sk_flags = isnull ? SK_ISNULL | SK_SEARCHNULL : 0;
    key->sk_strategy = isnull ? InvalidStrategy : BTEqualStrategyNumber;
}

} // namespace index_table
