// Index tables and partition numbers: definitions (stored_definition.h), the rows of
// index_table.definition, .partition and .retired_partition, and a session cache of them.
//
// The cache is invalidated through PostgreSQL's relation cache: whoever changes a definition or a
// number calls Invalidate(). What a look-up returns stays valid memory until the transaction ends,
// even when it has become outdated meanwhile; Generation() tells.
//
// A partition number is a generation of a leaf: it is given when the leaf joins a base table,
// replaced when the leaf is truncated, removed when it is detached or dropped, and never used
// twice. An entry with a number that is not live does not exist.
#pragma once

#include "catalog/stored_definition.h"
#include "core/public.h"
#include "global/public.h"

namespace index_table {

// A column of an entry that is a copy of a column of the base row.
struct CopiedColumn {
    AttrNumber base_attno;
    int position; // among the live columns of the index table, from 0
};

struct OwnerIndexes;

// Whether an index table holds what it should, as the column state of index_table.definition says.
enum class TableState : char {
    Built = 'b',
    Restored = 'r', // its definition was restored: what it holds has not been looked at
    Damaged = 'd',  // what was restored cannot be right: nobody reads it, and writers leave it out
    Missed = 'm',   // the same, because it may have missed changes: triggers were disabled
};

// An index table. Its live columns are, in order: the key, partition_id, the identity columns that
// are not key columns, the included columns.
//
// To the planner a global index is one, too, that nobody writes: `relid` is its storage, and its
// entries have no identity.
struct IndexTable {
    uint64 serial;       // never used twice in a session
    TransactionId built; // the transaction that finished the latest build
    Oid relid;
    Oid base;
    Oid root;       // of a global index, the index that the user made; InvalidOid: an index table
    Oid tree;       // of a global index, what has its entries, and
    Oid method;     // the access method of that
    bool has_local; // partitions have an index of that method, too, with a column of the key
    Oid log;        // takes the changes while it is being built; InvalidOid: it is complete
    Oid queue;      // takes the identities of changed rows, see queue_table.h; InvalidOid: none
    TableState state;
    bool on_servers; // its partitions are foreign tables: the entries are on other servers
    IndexOptions options;
    Key key;
    Expr *predicate; // as parsed; null: none
    int identity_count;
    CopiedColumn *identity;   // all identity columns; position may be that of a key column
    bool identity_is_unique;  // a constraint of the base table says that it finds one row
    bool is_unique_in_leaves; // see IsIdentityUnique
    bool is_unique_in_leaves_known;
    bool looks_right; // see IsTrusted
    bool trust_known;
    int include_count;
    CopiedColumn *include;
    int copied_count;
    CopiedColumn *copied;              // the columns after partition_id, in order
    int column_count;                  // of an entry
    Oid *types;                        // of its columns
    Var **base_columns;                // by position; null: an expression, or partition_id
    const AttrNumber *stored;          // attribute numbers by position; null: see StoredColumns()
    const OwnerIndexes *owner_indexes; // its owner's indexes; null: see GetOwnerIndexes()
    // For execution: planned expressions.
    Expr **key_exprs;   // per key column, of expr; null for a plain column
    Expr **per_element; // per key column
    Expr *planned_predicate;

    bool is_global() const { return OidIsValid(root); }
    // A global index that is no B-tree; an index table of its own always has one.
    bool is_special() const { return is_global() && method != BTREE_AM_OID; }
    int partition_position() const { return key.count; }
    // Columns that make up an entry's place in the B-tree: key, partition_id, identity.
    int group_count() const { return column_count - include_count; }
    // Whether it cannot be what it should be, until it is repaired.
    bool is_unusable() const { return state == TableState::Damaged || state == TableState::Missed; }
    // Whether no other entry may have the key of one whose null columns are `null_mask`.
    bool forbids_others(uint32 null_mask) const {
        return options.is_unique &&
               (!options.nulls_distinct || (null_mask & ((1U << key.count) - 1)) == 0);
    }
};

struct Base {
    Oid relid;
    int table_count;
    IndexTable **tables;
    int global_count;
    IndexTable **globals; // complete global indexes
    bool has_restored;    // some are in that state
    bool has_unusable;    // some are unusable
    bool has_retired;     // entries of retired partition numbers may be stored
    int partition_count;  // of the first ones counted; see CountPartitions
    int counted_to;
    bool has_foreign; // see HasForeignLeaves
    bool has_foreign_known;
    int row_width; // average, in bytes, as the planner guesses it; 0: not asked yet
    uint64 serial; // never used twice in a session
    bool valid;
    MemoryContext context;
};

// The numbers of the first `count` columns of a relation that are not dropped, in the current
// memory context. GetLiveColumns raises 55000 where an index table has fewer, LiveColumns returns
// null.
const AttrNumber *GetLiveColumns(Relation rel, int count);
const AttrNumber *LiveColumns(TupleDesc descriptor, int count);
// One of them: that in a position of the entry. `rel` is the index table or a partition of it.
AttrNumber LiveColumn(Relation rel, const IndexTable *table, int position);
// Raises that 55000.
[[noreturn]] void RaiseNotAsCreated(Relation rel);
// The attribute numbers of an index table's columns, by position, of an open index table. Cached.
// Null where columns are missing.
const AttrNumber *StoredColumns(const IndexTable *table, Relation rel);

// Fills what follows from a definition: plans its expressions, lays out its entries. Allocated in
// the current memory context.
IndexTable *MakeIndexTable(Relation base, const Definition &definition, TableState state);

#ifdef USE_ASSERT_CHECKING
// For Assert: whether it is one that MakeIndexTable() made and nobody has freed, as an index table
// is once it is outdated and the transaction has ended.
bool IsKnown(const IndexTable *table);
#endif

// The base table's column in a position of the entry; 0 where it is an expression or partition_id.
AttrNumber BaseColumn(const IndexTable *table, int position);

// The tree's column in a position of the entry of a global index.
AttrNumber TreeColumn(const IndexTable *table, int position);

// Whether a partition has one row with an identity, which can be found: a constraint of the base
// table says so, or, where partitions are foreign tables and there can be none, each local
// partition has its own, and the identity is of types that servers can be asked for. Locks local
// partitions for a moment. Cached.
bool IsIdentityUnique(const IndexTable *table);

// Of a complete global index of the base table. Allocated in the current memory context.
IndexTable *MakeGlobalTable(Relation base, const GlobalIndex &index);

// Cache look-ups. Null where the relation is no base table, no index table. They open the base
// table with AccessShareLock when the cache has to be filled.
const Base *FindBase(Oid relid);
const IndexTable *FindIndexTable(Oid relid);
// The global index with a storage; null where there is none.
const IndexTable *FindGlobalTable(Oid storage);
// As FindBase(), of a table that has global indexes alone, too: it may have no index tables.
const Base *FindIndexedBase(Oid relid);

// The index table, for functions that take one from the user: raises 42809 when it is none.
const IndexTable *GetIndexTable(Oid relid);
// The same once it cannot be dropped any more: with AccessShareLock on it, after the base table was
// locked in `mode`, both until the transaction ends. Raises 42P01 if that came too late.
const IndexTable *LockIndexTable(const IndexTable *table, LOCKMODE mode);
// Raises 55000 where an index table is not complete.
void CheckIsComplete(const IndexTable *table);

struct PartitionNumber {
    int32 id;
    Oid base;
};
// The live number of a leaf and the base table it belongs to. Not cached.
std::optional<PartitionNumber> FindPartitionNumber(Oid leaf);

// Whether a number is that of a partition, or will be where a transaction in progress commits. One
// that is not, and has been, will not be again.
bool IsNumberTaken(int32 partition_id);

// The leaf of a base table with a live partition number, InvalidOid for a number that is not live.
// Cached.
Oid FindPartition(Oid base, int32 partition_id);

// The average width of a row of the base table, as the planner guesses it. Cached.
int RowWidth(const Base *base);
// Partitions that store rows, counted up to `limit`: those with live numbers where there are index
// tables. Cached.
int CountPartitions(const Base *base, int limit);

// Whether a relation is a foreign table: its rows are on another server, have neither ctid nor
// command ids, and are seen under that server's snapshots.
bool IsForeign(Oid relid);
bool HasForeign(List *relids);
// Whether a partition of the base table, or the base table itself, is a foreign table. Cached.
bool HasForeignLeaves(const Base *base);

// Changes whenever anything that was looked up may have become outdated.
uint64 CacheGeneration();

// Makes every session forget what it knows of a base table, its index tables and partitions.
void Invalidate(Oid base);

// Writers. Callers hold at least ShareRowExclusiveLock on the base table where nothing else is
// said; for AddPartition, RetirePartition, RenumberPartition and RecordBuild a lock on the leaf
// that excludes writers will do. What was restored, writers wait for it to be settled: for
// AddPartition the lock on that will do, too.
//
// One that was restored may be inserted, as such or as damaged, any may be deleted, with
// AccessExclusiveLock on the index table instead.
void InsertDefinition(const Definition &definition, TableState state);
void DeleteDefinition(Oid relid);
// Adds a new column of the base table to the included columns of an index table. False, with
// nothing done, where it is one already.
bool AppendIncludedColumn(Oid relid, AttrNumber attno);
// What is damaged, or has missed changes, does not become Restored, nor what is damaged Missed. No
// lock on the base table is required: those who say so wait for each other.
void SetState(Oid relid, TableState state);
// As the catalog has it now; nothing where a relation is no index table.
std::optional<TableState> RecordedState(Oid relid);
// Records that this transaction wrote entries of rows that it did not: snapshots that do not see it
// are not served by the index table.
void RecordBuild(Oid relid);
// Sets where changes go while the index table is being built; InvalidOid: it is complete from now
// on, for snapshots that see this transaction.
void SetLog(Oid relid, Oid log);
// Sets whether an index table is maintained deferred: through its own queue, or, where `queue` is
// InvalidOid, foreign partitions through the queues of their servers.
void SetMaintenance(Oid relid, bool deferred, Oid queue);
// Sets whether queries see an index table. ShareUpdateExclusiveLock on the base table will do.
void SetVisibility(Oid relid, bool visible);
// The partition numbers whose rows an index table being built has, a list of integers. The caller
// who changes it holds ShareUpdateExclusiveLock on the index table, as whoever builds it does.
List *ListLoadedPartitions(Oid relid);
void RecordLoadedPartition(Oid relid, int32 partition_id);
void ForgetLoadedPartitions(Oid relid);
// Takes dropped columns of a base table out of the included columns of its index tables.
void ForgetIncludedColumns(Oid base);
int32 AddPartition(Oid base, Oid leaf);
void RetirePartition(Oid leaf);
// Gives a leaf that is being truncated another number.
void RenumberPartition(Oid leaf);
// Whether this transaction has given numbers to partitions of a base table. And has an index table
// know them as retired, at once and for everybody, if the transaction fails: servers that commit
// before it may keep entries with them. The index table is locked as by writers.
bool HasGivenNumbers(Oid base);
void RecordGivenNumbers(Oid index_table, Oid base);
// The transaction has ended.
void AtEOXactNumbers();
// Leaves out some thousand numbers, as many as chance wants: those that are given next are hardly
// the ones of a dump whose rows and entries may be loaded yet.
void SkipNumbers();
// A dump brings a number: none that are given from now on is as low. Its user may have any of a
// table of his own; one that would not leave enough for others is refused with 22003.
void SkipLoadedNumber(int32 id);
// Waits for transactions that have truncated partitions of a base table. A query that reads every
// partition waits for their locks, and takes its snapshot then; one that opens partitions as it
// goes on would miss what those transactions have put in the place of the truncated rows.
void WaitForTruncations(Oid base);
// Retired numbers of which an index table may still store entries, a list of integers.
List *ListRetiredNumbers(Oid index_table);
// A vacuum of the index table has removed the entries with these. The caller has locked it as
// writers do.
void ForgetRetiredNumbers(Oid index_table, List *numbers);
// The leaves that have numbers, a list of OIDs.
List *ListPartitions(Oid base);
// Whoever makes the first index table of a base table, and whoever drops its last, first waits for
// the other: the one may be given the numbers that the other removes. Until the transaction ends.
void LockNumbers(Oid base);
// Removes every number of a base table. REQUIRES LockNumbers().
void DeletePartitions(Oid base);

// The oids of the bases of all definitions, those of dropped relations too.
List *ListBases();
// Index tables of a base table as recorded, a list of OIDs in order, without parsing the
// definitions.
List *ListIndexTables(Oid base);
// The base of an index table as recorded; InvalidOid where it is none.
Oid RecordedBase(Oid index_table);
// Its log as recorded; InvalidOid where it is complete, or none.
Oid RecordedLog(Oid index_table);
// Its queue as recorded, which may be gone; InvalidOid where it has none.
Oid RecordedQueue(Oid index_table);

// Whether this database has the extension: its schema outlives it.
bool IsInstalled();
// The same; where it has, whoever drops it waits until the transaction ends. For workers, which
// nobody's statement keeps from coming when it is being dropped.
bool HoldExtension();
// Oid of the extension's schema; InvalidOid where the extension is not installed.
Oid ExtensionSchema();
// Oid of a relation in the extension's schema; raises XX000 where it is missing.
Oid ExtensionRelation(const char *name);

// The transaction has ended.
void AtEOXactDefinitions();
void InitializeCatalogCache();

} // namespace index_table
