#include "create/drop.h"

#include "catalog/public.h"
#include "core/public.h"
#include "create/online.h"
#include "deferred/public.h"
#include "partitions/public.h"

namespace index_table {
namespace {

// A transaction that has just ended lets go of its locks one after the other.
bool LockSoon(Oid relid) {
    constexpr int kTries = 10;
    constexpr long kMicroseconds = 1000;
    for (int i = 0; i < kTries; i++) {
        if (ConditionalLockRelationOid(relid, AccessExclusiveLock))
            return true;
        pg_usleep(kMicroseconds);
    }
    return false;
}

} // namespace

void ForgetIndexTable(Oid index_table, Oid base) {
    FAULT_POINT("drop.forget_index_table");
    // Where it was restored from a dump, nothing but the definition says whose log it is.
    DropLog(RecordedLog(index_table));
    DropQueue(index_table, RecordedQueue(index_table));
    DeleteDefinition(index_table);
    ForgetCounts(index_table);
    if (ListIndexTables(base) != NIL)
        return;
    LockNumbers(base);
    if (ListIndexTables(base) != NIL) // one was being created
        return;
    List *leaves = ListPartitions(base);
    DeletePartitions(base);
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(base)))
        return;
    // Whoever drops the index table by name holds its lock already, writers take it last: waiting
    // for the base table here could deadlock. Triggers that stay do nothing.
    ListCell *cell;
    List *relations = list_concat_unique_oid(find_all_inheritors(base, NoLock, nullptr), leaves);
    foreach (cell, relations)
        if (!LockSoon(lfirst_oid(cell)))
            return;
    DropRowTrigger(base);
    foreach (cell, relations) {
        DropTrigger(lfirst_oid(cell), kStatementTrigger);
        DropRowTrigger(lfirst_oid(cell));
        DropQueueTriggers(lfirst_oid(cell));
    }
}

} // namespace index_table
