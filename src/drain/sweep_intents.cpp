#include "drain/sweep_intents.h"

#include "catalog/public.h"
#include "drain/apply.h"
#include "drain/drain.h"
#include "drain/drain_errors.h"
#include "drain/server_entries.h"
#include "partitions/public.h"

namespace index_table {
namespace {

// Of rows in one partition, locked by this transaction.
struct Intents {
    int count;
    char *tids;     // of them, an array literal
    List *identity; // columns, a list of char *; NIL: any row of the partition
    int row_count;
    char **identities;   // for each column an array literal
    char *settled_after; // null: not known for some
};

void Connect() {
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
}

// Runs a statement on index_table.intent with the rights of its owner.
void Run(const char *sql, int expected) {
    OwnerContext owner = EnterOwner(RelationOwner(ExtensionRelation("intent")));
    int code = SPI_execute(sql, false, 0);
    if (code != expected)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(code));
    LeaveOwner(owner);
}

char *ValueOf(int row, int column) {
    return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
}

List *SplitNames(const char *literal) {
    Datum array = OidInputFunctionCall(F_ARRAY_IN, const_cast<char *>(literal), TEXTOID, -1);
    Datum *names;
    int count;
    deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &names, nullptr,
                      &count);
    List *list = NIL;
    for (int i = 0; i < count; i++)
        list = lappend(list, TextDatumGetCString(names[i]));
    return list;
}

// Intents whose transactions have failed, of like columns. Those of transactions in progress are
// locked by them.
Intents LockIntents(Oid leaf, MemoryContext memory) {
    Intents intents = {};
    Connect();
    Run(psprintf(
            "WITH mine AS MATERIALIZED (SELECT ctid AS tid, columns, identities, settled_after "
            "FROM index_table.intent WHERE leaf = %u FOR UPDATE SKIP LOCKED), "
            "one AS (SELECT columns FROM mine ORDER BY columns IS NOT NULL, columns LIMIT 1), "
            "chosen AS (SELECT mine.* FROM mine, one WHERE mine.columns IS NOT DISTINCT FROM "
            "one.columns LIMIT 100) "
            "SELECT array_agg(tid), (SELECT columns FROM one), "
            "CASE WHEN count(*) = count(settled_after) THEN max(settled_after) END, count(*) "
            "FROM chosen",
            leaf),
        SPI_OK_SELECT);
    intents.count = atoi(ValueOf(0, 4));
    MemoryContext caller = MemoryContextSwitchTo(memory);
    if (intents.count > 0) {
        intents.tids = ValueOf(0, 1) ? pstrdup(ValueOf(0, 1)) : nullptr;
        intents.settled_after = ValueOf(0, 3) ? pstrdup(ValueOf(0, 3)) : nullptr;
        if (const char *columns = ValueOf(0, 2))
            intents.identity = SplitNames(columns);
    }
    MemoryContextSwitchTo(caller);
    SPI_finish();
    return intents;
}

// The identities that intents name, column by column.
void ReadIdentities(Intents *intents, MemoryContext memory) {
    int columns = list_length(intents->identity);
    intents->identities =
        static_cast<char **>(MemoryContextAllocZero(memory, sizeof(char *) * columns));
    Connect();
    for (int i = 0; i < columns; i++) {
        Run(psprintf("SELECT array_agg(u.v ORDER BY i.ctid, u.n) FROM index_table.intent AS i, "
                     "unnest(i.identities) WITH ORDINALITY AS u(v, n) "
                     "WHERE i.ctid = ANY (%s::tid[]) AND (u.n - 1) %% %d = %d",
                     quote_literal_cstr(intents->tids), columns, i),
            SPI_OK_SELECT);
        intents->identities[i] = MemoryContextStrdup(memory, ValueOf(0, 1));
    }
    SPI_finish();
}

void Remove(const Intents &intents) {
    Connect();
    Run(psprintf("DELETE FROM index_table.intent WHERE ctid = ANY (%s::tid[])",
                 quote_literal_cstr(intents.tids)),
        SPI_OK_DELETE);
    SPI_finish();
}

void RememberSettledAfter(const Intents &intents) {
    Connect();
    Run(psprintf("UPDATE index_table.intent SET settled_after = %s WHERE ctid = ANY (%s::tid[])",
                 quote_literal_cstr(intents.settled_after), quote_literal_cstr(intents.tids)),
        SPI_OK_UPDATE);
    SPI_finish();
}

// Whether the transactions on the shard that intents are about have ended there: it may still be
// busy with the commit. They had their numbers before anybody could see the intents, so lower ones
// than that of a transaction that begins now. A snapshot's xmax would not do: it comes after those
// that have ended, not after those in progress.
bool IsSettled(ShardConnection *connection, Intents *intents) {
    auto ask = [connection, intents]() {
        const char *values[] = {intents->settled_after};
        return ExecuteReading(connection,
                              "SELECT pg_catalog.pg_snapshot_xmin(s) >= $1::xid8, "
                              "pg_catalog.pg_snapshot_xmax(s) < $1::xid8 "
                              "FROM pg_catalog.pg_current_snapshot() AS s",
                              1, values);
    };
    auto is_true = [](const PGresult *result, int column) {
        return strcmp(ResultValue(result, 0, column), "t") == 0;
    };
    if (intents->settled_after) {
        PGresult *result = ask();
        // Numbers start elsewhere after a crash or on another server, where it means nothing.
        if (!is_true(result, 1))
            return is_true(result, 0);
    }
    PGresult *result =
        ExecuteWriting(connection, "SELECT pg_catalog.pg_current_xact_id()", 0, nullptr);
    intents->settled_after = pstrdup(ResultValue(result, 0, 0));
    if (is_true(ask(), 0))
        return true;
    RememberSettledAfter(*intents);
    return false;
}

// False where some rows could not be entered.
bool ApplyIntents(const ShardQueue *queue, const Intents &intents, bool *is_contended) {
    // Rows are read after it was taken: what is not in it may be younger than they.
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    PushActiveSnapshot(snapshot);
    QueueBatch batch = {};
    batch.rows = ReadRows(queue, intents.identities, &batch.row_count);
    if (batch.row_count > 0)
        ApplyBatch(queue, &batch, snapshot);
    PopActiveSnapshot();
    UnregisterSnapshot(snapshot);
    bool complete = true;
    for (const QueuedRow &row : std::span(batch.rows, batch.row_count)) {
        *is_contended = *is_contended || row.is_contended;
        complete = complete && !row.error;
    }
    return complete;
}

} // namespace

List *ListIntents() {
    List *leaves = NIL;
    PushActiveSnapshot(GetTransactionSnapshot());
    MemoryContext memory = CurrentMemoryContext;
    Connect();
    Run("SELECT DISTINCT leaf::oid FROM index_table.intent", SPI_OK_SELECT);
    MemoryContext spi = MemoryContextSwitchTo(memory);
    for (uint64 i = 0; i < SPI_processed; i++)
        leaves = lappend_oid(leaves, atooid(ValueOf(static_cast<int>(i), 1)));
    MemoryContextSwitchTo(spi);
    SPI_finish();
    PopActiveSnapshot();
    return leaves;
}

void ForgetIntentsOfDropped() {
    PushActiveSnapshot(GetTransactionSnapshot());
    Connect();
    Run("DELETE FROM index_table.intent WHERE ctid = ANY (ARRAY (SELECT i.ctid "
        "FROM index_table.intent AS i WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class "
        "WHERE oid = i.leaf) FOR UPDATE OF i SKIP LOCKED))",
        SPI_OK_DELETE);
    SPI_finish();
    PopActiveSnapshot();
}

SweepResult SweepIntents(Relation rel, const Leaf *leaf) {
    Assert(IsLocked(leaf->base_relid, RowExclusiveLock));
    Assert(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
    Intents intents = LockIntents(RelationGetRelid(rel), CurrentMemoryContext);
    if (intents.count == 0)
        return SweepResult::Done;
    ShardQueue queue = {};
    bool by_row =
        intents.identity != NIL && OpenShard(&queue, rel, leaf, GetUserId(), intents.identity);
    if (!by_row && leaf->is_foreign)
        queue.connection = OpenConnection(RelationGetRelid(rel));
    else if (by_row && EnsureIdentityIndexes(&queue))
        return SweepResult::More;
    if (queue.connection && !IsSettled(queue.connection, &intents))
        return SweepResult::Wait;
    if (HasServers(leaf) && !AreServersSettled(leaf, RelationGetRelid(rel)))
        return SweepResult::Wait;
    if (by_row) {
        ReadIdentities(&intents, CurrentMemoryContext);
        bool is_contended = false;
        bool is_complete = ApplyIntents(&queue, intents, &is_contended);
        if (is_contended)
            return SweepResult::Wait;
        if (!is_complete)
            return SweepResult::Done; // the next drain tries again
    } else {
        ReloadLeaf(leaf->base_relid, RelationGetRelid(rel));
    }
    Remove(intents);
    return SweepResult::More;
}

} // namespace index_table
