// Index tables and global indexes as PostgreSQL's planner sees them: indexes of the base table.
#pragma once

#include "catalog/public.h"

namespace index_table {

struct OwnerIndex;

// What is queued for an index table costs a scan, in microseconds.
struct QueueCosts {
    double of_key; // that looks keys up
    double of_all; // that does not
};

// An index of an index table offered to the planner for one reference to the base table.
struct Candidate {
    const IndexTable *table;
    QueueCosts queue;
    const OwnerIndex *owner_index; // an index of the owner's; null: the B-tree over the key
    bool by_bitmap;                // its access method tells where entries are in bitmaps, but
                                   // for a path by distance
    bool by_distance_only;         // it yields entries by distance, and not otherwise
    bool takes_arrays;             // its access method looks for all elements of an array at once
    IndexOptInfo *info;  // its columns: those of the B-tree by which order is told, then the rest
    bool is_partitioned; // the index table itself: its entries come in no order
    double entries;
    // Where the key begins with many values for a row, the planner must not match clauses with the
    // info: to it, its predicate is false. The true one:
    List *predicate;
    bool is_left_out; // another one is tried, see examination.h: no path is made of it
};

// What the planner's RelOptInfo of a base table carries in fdw_private.
struct CandidateSet {
    const void *owner; // tells it from what other extensions leave there
    const Base *base;
    int count;
    Candidate *candidates;
    double partitions;   // estimate of those that the query does not leave out
    double native_start; // microseconds, before the first row natively
    bool has_foreign;    // some of them are foreign tables
    bool has_servers;    // some index tables are on servers
    List *merged;        // MergedClauses that were put into the join tree
};

// Null unless the planner scans this relation through index tables.
CandidateSet *GetCandidates(const RelOptInfo *rel);
const Candidate *FindCandidate(const RelOptInfo *rel, const IndexOptInfo *info);

// Whether plain SELECTs may use an index table at all: it is visible to this session, in step at
// every commit, and an entry leads to one row.
bool ServesScans(const IndexTable *table);
// Why not, for people; null: they may.
const char *WhyUnserved(const IndexTable *table);
bool ServesScans(const Base *base);
// Whether entries of an index table may be older than their rows, as far as scans make it out.
bool LagsBehind(const IndexTable *table);

// Whether a path through a candidate can be carried out: servers are asked for values of the first
// key column, and not otherwise.
bool CanAskServers(const Candidate *candidate, const IndexPath *path);

// Whether entries tell of themselves that their rows meet a condition, so that those which do not
// need not be looked up. What row security hides is shown to no condition that leaks.
bool CanFilterEntries(const RelOptInfo *rel, const Candidate *candidate,
                      const RestrictInfo *restriction);

// Offers those index tables and global indexes of a base table whose key begins with something that
// `columns` (offset as pull_varattnos does) can restrict or order, and owners' indexes over such.
// Locks them with AccessShareLock until the end of the transaction, as the planner locks indexes.
// Sets the size of `rel` from theirs. Null where there is none.
CandidateSet *OfferCandidates(PlannerInfo *root, RelOptInfo *rel, const Base *base,
                              const Bitmapset *columns);

// All columns of the relation.
Bitmapset *AllColumns(const RelOptInfo *rel);

} // namespace index_table
