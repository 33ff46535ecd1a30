// Progress of builds and checks, as index_table.progress shows it.
//
// It travels through PostgreSQL's own facility: the backend reports a CREATE INDEX command (so that
// pg_stat_progress_create_index shows it too), marked as ours in parameters that CREATE INDEX does
// not use. A lock on the object (index_table.definition, base table) tells which session works on
// which base table, and lets one build run at a time; locks on (index_table.partition, base table,
// phase) tell which phases it has reached.
#pragma once

#include "pg.h"

namespace index_table {

enum class Phase : int64 { Scanning = 1, Loading, Indexing, Analyzing, Verifying, Repairing };
inline constexpr Phase kLastPhase = Phase::Repairing;

// Where a build is a sequence of counts, a partition each: what the others have done and have yet
// to do. rows_total is of all.
struct DoneBefore {
    int64 rows;
    int partitions;
    int partitions_to_come;
};

// A running build or check. The shared part counts what parallel workers scan, too; `ticket` is
// what index_table.count_row() finds it by. Released by EndProgress or, after an error, by the
// resource owner.
struct Progress {
    Oid base;
    Oid index_table;
    LOCKMODE mode;
    uint32 reached; // a bit for each phase
    dsm_segment *segment;
    int64 ticket;
    DoneBefore before;
    int partition_count; // of all counts
    int64 rows_total;
};

// Takes the object lock in `mode`. EndProgress is for the same subtransaction, as is ReportPhase.
Progress *BeginProgress(Oid base, Oid index_table, LOCKMODE mode);
// Makes count_row() know the leaves. rows_total is an estimate.
void StartCounting(Progress *progress, List *leaves, int64 rows_total, DoneBefore before = {});
void ReportPhase(Progress *progress, Phase phase);
void ReportRows(Progress *progress, int64 rows);
void EndProgress(Progress *progress);

// What is called for each row that this backend counts, and may raise; null: nothing. Keys may be
// slow to compute: it is for the callee to do nothing most times.
void WatchRows(void (*watch)());

} // namespace index_table
