#include "core/search_keys.h"

namespace index_table {

RegProcedure SearchProcedure(Relation index, int column, StrategyNumber strategy) {
    Oid type = index->rd_opcintype[column];
    return get_opcode(get_opfamily_member(index->rd_opfamily[column], type, type, strategy));
}

ScanKeyData *MakeSearchKeys(Relation index, int count) {
    Assert(index->rd_rel->relam == BTREE_AM_OID);
    ScanKeyData *keys = palloc0_array(ScanKeyData, count);
    for (int i = 0; i < count; i++)
        ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
                               index->rd_indcollation[i],
                               SearchProcedure(index, i, BTEqualStrategyNumber), 0);
    return keys;
}

} // namespace index_table
