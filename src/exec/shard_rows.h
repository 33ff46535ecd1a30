// Rows of foreign partitions, fetched by identity, many with one question.
//
// A reader says which rows its next entries lead to, has them fetched, and finds each. Rows are
// seen under postgres_fdw's snapshot of the server: what a concurrent transaction has committed
// there and not yet here is as if it had not happened, for its entries are not visible.
#pragma once

#include "catalog/public.h"
#include "exec/leaf_reader.h"

namespace index_table {

struct ShardRows;

// A row that was fetched, in the batch's memory.
struct ShardRow {
    ShardRow *next; // with the same identity, as far as its type's equality goes
    Datum *values;  // as GetPlace says
    bool *nulls;
};

// What is needed of the rows.
struct ShardNeeds {
    List *columns;   // attribute numbers of the base table, those of the identity among them; that
                     // of ctid where rows are to be changed
    List *quals;     // a scan's clauses that servers may check beforehand; they are checked again
    PlanState *node; // of the clauses, whose parameters it evaluates; null: there are none
    Oid user;        // as whom servers are asked; InvalidOid: the current user
    Snapshot snapshot;
    LockClauseStrength lock; // LCS_NONE: rows are read; else locked on their servers as they come,
                             // by the foreign data wrapper, and never left out
    // What is asked for again is the row that came first, or none: the statement has changed it.
    bool keep;
    // What is committed on the servers now, whatever this transaction's snapshots there, and what
    // it has written there itself: each row once.
    bool as_committed;
    bool must_reach; // no server is left out, though rows are not locked
};

// Parameters are evaluated when rows are fetched. Lives in the current memory context.
ShardRows *BeginShardRows(const IndexTable *table, Relation base, const ShardNeeds &needs);
void EndShardRows(ShardRows *rows);
// What was left out of `other` is told of with the rest, once.
void TakeLeftOut(ShardRows *rows, ShardRows *other);

// Which value of a row is that of a column; -1: not fetched.
int GetPlace(const ShardRows *rows, AttrNumber attno);

// Forgets the batch, its rows too unless they are kept.
void BeginBatch(ShardRows *rows);
// Memory of the batch, for what the scan keeps as long.
MemoryContext BatchMemory(const ShardRows *rows);
// Adds the rows with an identity to what will be fetched. `identity`, in the order of
// IndexTable::identity, stays valid until that is done.
void WantRow(ShardRows *rows, const OpenLeaf *leaf, const NullableDatum *identity);
bool IsWanted(const ShardRows *rows, const OpenLeaf *leaf, const NullableDatum *identity);
// Fetches what was wanted. Raises what the servers raise.
void FetchBatch(ShardRows *rows);
// Null where there is no such row.
const ShardRow *FindShardRow(const ShardRows *rows, const OpenLeaf *leaf,
                             const NullableDatum *identity);

// How many rows may be wanted at once so that a batch stays within work_mem, judged by those that
// came.
int BatchLimit(const ShardRows *rows, int wish);

// For EXPLAIN: what one of the base table's foreign partitions would be asked; null where that is
// not to be had.
const char *SampleStatement(const IndexTable *table, Relation base, const ShardNeeds &needs);

// Every row of a foreign partition that meets the needs' conditions, one after the other.
struct ShardScan;
ShardScan *BeginShardScan(Relation base, const ShardNeeds &needs, Oid leaf);
// The values of the needs' columns, valid until the next; null at the end.
const ShardRow *NextShardRow(ShardScan *scan);
void EndShardScan(ShardScan *scan);

// A query relies on a unique index that a partition has not, or no more.
[[noreturn]] void RaiseNotUnique(const IndexTable *table, Oid partition);

struct ShardCounts {
    uint64 pipelined; // statements
    uint64 wrapped;   // statements that went through the foreign data wrapper, one a partition
    uint64 rows;
};
ShardCounts GetCounts(const ShardRows *rows);

} // namespace index_table
