// index_table.vacuum(): dead entries go.
#include "build/build.h"
#include "build/query.h"
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

int64 SweepRelation(Oid relid, const IndexTable *table, ArrayType *numbers) {
    Relation rel = table_open(relid, RowExclusiveLock);
    BlockNumber blocks = RelationGetNumberOfBlocks(rel);
    Oid types[] = {TIDOID, TIDOID, INT4ARRAYOID};
    SPIPlanPtr plan =
        SPI_prepare(psprintf("DELETE FROM ONLY %s WHERE ctid >= $1 AND ctid < $2 AND %s = ANY ($3)",
                             QualifiedName(relid), quote_identifier(PartitionColumn(rel, table))),
                    3, types);
    if (!plan)
        elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
    int64 removed = 0;
    for (BlockNumber start = 0; start < blocks; start += Min(kBatchBlocks, blocks - start)) {
        ItemPointerData from, to;
        ItemPointerSet(&from, start, 0);
        ItemPointerSet(&to, start + Min(kBatchBlocks, blocks - start), 0);
        Datum values[] = {PointerGetDatum(&from), PointerGetDatum(&to), PointerGetDatum(numbers)};
        // A snapshot older than the entries would leave some of them behind.
        int result = SPI_execute_snapshot(plan, values, nullptr, GetLatestSnapshot(),
                                          InvalidSnapshot, false, true, 0);
        if (result != SPI_OK_DELETE)
            elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
        removed += SPI_processed;
        CHECK_FOR_INTERRUPTS();
    }
    table_close(rel, NoLock);
    return removed;
}

} // namespace

int64 SweepEntries(const IndexTable *table) {
    // One at a time, like VACUUM.
    LockRelationOid(table->relid, ShareUpdateExclusiveLock);
    List *numbers = ListRetiredNumbers(table->relid);
    if (numbers == NIL)
        return 0;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    ArrayType *array = ToArray(numbers);
    int64 removed = 0;
    ListCell *cell;
    foreach (cell, find_all_inheritors(table->relid, RowExclusiveLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
            removed += SweepRelation(lfirst_oid(cell), table, array);
    ForgetRetiredNumbers(table->relid, numbers);
    SPI_finish();
    return removed;
}

namespace {

int64 Vacuum(const IndexTable *table) {
    OwnerContext owner = EnterOwner(RelationOwner(table->base));
    int64 removed = SweepEntries(table);
    LeaveOwner(owner);
    return removed;
}

int64 VacuumAll() {
    int64 removed = 0;
    ListCell *base_cell, *cell;
    foreach (base_cell, ListBases())
        foreach (cell, ListIndexTables(lfirst_oid(base_cell))) {
            const IndexTable *table = FindIndexTable(lfirst_oid(cell));
            if (table && compat::OwnsRelation(table->relid))
                removed += Vacuum(table);
        }
    return removed;
}

} // namespace
} // namespace index_table

using namespace index_table;

SQL_FUNCTION(index_table_vacuum) {
    PreventCommandDuringRecovery("index_table.vacuum()");
    FlushChanges();
    PG_RETURN_INT64(PG_ARGISNULL(0) ? VacuumAll() : Vacuum(GetOwnIndexTable(PG_GETARG_OID(0))));
}
