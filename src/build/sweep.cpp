// index_table.vacuum() and what its worker shares with it.
#include "build/build.h"
#include "build/query.h"
#include "build/sweep.h"
#include "compat/compat.h"
#include "maintenance/maintenance.h"

namespace index_table {
namespace {

// Blocks of an index table that are looked through by one command.
constexpr BlockNumber kBatchBlocks = 1024;

ArrayType *ToArray(List *numbers) {
    Datum *values = static_cast<Datum *>(palloc(sizeof(Datum) * Max(1, list_length(numbers))));
    ListCell *cell;
    foreach (cell, numbers)
        values[foreach_current_index(cell)] = Int32GetDatum(lfirst_int(cell));
    return construct_array(values, list_length(numbers), INT4OID, sizeof(int32), true,
                           TYPALIGN_INT);
}

// The name of the column partition_id, which may be taken by the key.
const char *PartitionColumn(Relation rel, const IndexTable *table) {
    int live = 0;
    for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++) {
        Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
        if (!att->attisdropped && live++ == table->partition_position())
            return NameStr(att->attname);
    }
    elog(ERROR, "index table \"%s\" has no column for partition numbers",
         RelationGetRelationName(rel));
}

} // namespace

void BeginSweep(Sweep *sweep, const IndexTable *table) {
    // One at a time, like VACUUM.
    LockRelationOid(table->relid, ShareUpdateExclusiveLock);
    *sweep = {.index_table = table->relid, .numbers = ListRetiredNumbers(table->relid)};
    if (sweep->numbers == NIL)
        return;
    ListCell *cell;
    foreach (cell, find_all_inheritors(table->relid, NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
            sweep->relations = lappend_oid(sweep->relations, lfirst_oid(cell));
}

bool SweepBatch(Sweep *sweep) {
    if (sweep->relations == NIL)
        return false;
    const IndexTable *table = FindIndexTable(sweep->index_table);
    Relation rel =
        table ? try_relation_open(linitial_oid(sweep->relations), RowExclusiveLock) : nullptr;
    BlockNumber blocks = rel ? RelationGetNumberOfBlocks(rel) : 0;
    if (sweep->next_block >= blocks) {
        sweep->relations = list_delete_first(sweep->relations);
        sweep->next_block = 0;
        if (rel)
            relation_close(rel, NoLock);
        return true;
    }
    BlockNumber end = sweep->next_block + Min(kBatchBlocks, blocks - sweep->next_block);
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    Oid types[] = {TIDOID, TIDOID, INT4ARRAYOID};
    SPIPlanPtr plan =
        SPI_prepare(psprintf("DELETE FROM ONLY %s WHERE ctid >= $1 AND ctid < $2 AND %s = ANY ($3)",
                             QualifiedName(RelationGetRelid(rel)),
                             quote_identifier(PartitionColumn(rel, table))),
                    3, types);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    ItemPointerData from, to;
    ItemPointerSet(&from, sweep->next_block, 0);
    ItemPointerSet(&to, end, 0);
    Datum values[] = {PointerGetDatum(&from), PointerGetDatum(&to),
                      PointerGetDatum(ToArray(sweep->numbers))};
    // A snapshot older than the entries would leave some of them behind.
    int result = SPI_execute_snapshot(plan, values, nullptr, GetLatestSnapshot(), InvalidSnapshot,
                                      false, true, 0);
    if (result != SPI_OK_DELETE)
        elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
    sweep->removed += SPI_processed;
    sweep->next_block = end;
    SPI_finish();
    LeaveOwner(owner);
    relation_close(rel, NoLock);
    CHECK_FOR_INTERRUPTS();
    return true;
}

void EndSweep(Sweep *sweep) {
    ForgetRetiredNumbers(sweep->index_table, sweep->numbers);
}

int64 SweepEntries(const IndexTable *table) {
    Sweep sweep;
    BeginSweep(&sweep, table);
    if (sweep.numbers == NIL)
        return 0;
    while (SweepBatch(&sweep))
        ;
    EndSweep(&sweep);
    return sweep.removed;
}

namespace {

int64 VacuumAll() {
    int64 removed = 0;
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell))) {
            const IndexTable *table = FindIndexTable(lfirst_oid(cell));
            // One that is being built is locked until that is done.
            if (table && !OidIsValid(table->log) && compat::OwnsRelation(table->relid))
                removed += SweepEntries(table);
        }
    return removed;
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_vacuum) {
    PreventCommandDuringRecovery("index_table.vacuum()");
    FlushChanges();
    PG_RETURN_INT64(PG_ARGISNULL(0) ? VacuumAll()
                                    : SweepEntries(GetOwnIndexTable(PG_GETARG_OID(0))));
}
