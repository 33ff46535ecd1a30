// What is counted of relations, in shared memory: how much they are used, and what was last done to
// them.
//
// A backend counts for itself, by plain additions, and adds that to shared memory when a
// transaction ends, at most once a second, and when it exits: so a count is up to date but for what
// sessions have done in their last second. Counts are hints: what statements that fail have done
// may be missing, and all are gone after a crash or a restart.
//
// Shared memory is there where the library is in shared_preload_libraries; since PostgreSQL 17 it
// is made on demand elsewhere, too. Where there is none, nothing is counted, nor is it where
// track_counts is off.
#pragma once

#include "pg.h"

namespace index_table {

// Of a relation.
struct Counts {
    uint64 lookups; // scans that began, and calls of functions that read
    uint64 entries_read;
    uint64 rows_fetched;
    uint64 entries_skipped;  // that led to no row, or to one that was not asked for
    uint64 shard_statements; // for rows and entries on shards
    uint64 flushes;
    uint64 entries_written; // inserted, deleted, replaced
};

// What is done to a relation as a whole.
enum class Work : uint8 { Verify, Repair, Vacuum, Build };
constexpr int kWorks = 4;

struct LastWork {
    TimestampTz ended; // 0: never
    int64 milliseconds;
    int64
        result; // problems found, problems repaired, entries removed, entries built; -1: not known
};

// A pass of the worker that verifies, over a base table's partitions in the order of their OIDs.
struct VerifyPass {
    TimestampTz began; // 0: none is under way
    int64 problems;    // found so far
    int32 done;        // partitions
    int32 total;
    Oid next; // where it goes on: the first partition that is not less
};

// All that is known of a relation.
struct RelationStatistics {
    Counts counts;
    TimestampTz last_lookup; // about; 0: none
    LastWork works[kWorks];
    VerifyPass pass;
    TimestampTz since; // counted
};

// --- For whoever does something ------------------------------------------------

// This backend's counts, to be added to at once; null: nothing is counted. Raises where memory is
// short.
Counts *CountsOf(Oid relid);

// That something was done, since `began`, and with what result: once the transaction commits, but
// for Verify, which changes nothing: however it ends. What took long is logged.
// REQUIRES: a transaction.
void RecordWork(Oid relid, Work work, TimestampTz began, int64 result);
// That a relation is gone, once the transaction commits. REQUIRES: a transaction.
void ForgetCounts(Oid relid);

// What takes so long is to be in the server's log (index_table.log_min_duration).
bool IsWorthLogging(int64 milliseconds);

void AtEOXactCounters(bool committed);
void AtEOSubXactCounters(bool committed, int level);

// --- For whoever looks ----------------------------------------------------------

bool AreCountsKept();
// Of the database of the session, whose own counts are added to shared memory first. Nothing where
// nothing is kept; zeros where nothing was counted.
std::optional<RelationStatistics> GetStatistics(Oid relid);
// Sets counts, and what was last done, to nothing; a pass goes on.
void ResetStatistics(Oid relid);
// How often counts were lost because there was no room.
uint64 LostCounts();

// --- For the worker that verifies ------------------------------------------------

// False where there is no room.
bool SetVerifyPass(Oid relid, const VerifyPass &pass);
// Of a whole database: until when it is left alone.
TimestampTz GetVerifyPause(Oid database);
void SetVerifyPause(Oid database, TimestampTz until);
// Makes room: relations of this database that `is_there` denies are forgotten.
void ForgetGone(bool (*is_there)(Oid relid));
// The same for databases other than these.
void ForgetOtherDatabases(const List *databases);

// --- For the server ---------------------------------------------------------------

void InitializeCounters();
// In shmem_request_hook and shmem_startup_hook.
void RequestCounterMemory();
void AttachCounterMemory();

} // namespace index_table
