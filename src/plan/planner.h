#pragma once

#include "catalog/public.h"

namespace index_table {

struct Examination;
struct Trial;

// Whether a query is being planned in which base tables are, or were, marked.
bool IsPlanningScans();

// Whether a range table entry is marked: planned as a plain table for now.
bool IsMarked(const RangeTblEntry *rte);
// The planner has made its paths for a marked entry: what executes it is told the truth.
void RestoreRelationKind(RangeTblEntry *rte);

// What the planner would know of the parent of partitions.
void GetNativeInfo(PlannerInfo *root, Oid relid, RelOptInfo *rel);

// The plan being made reads an index table, or a global index.
void RememberUse(const IndexTable *table);

// What is known of the query being planned. Planning may plan again, and go on after an error:
// functions are simplified by running them.
struct PlanningState {
    bool is_active;          // base tables may be scanned through index tables
    bool has_marks;          // a reference is marked, or was: without one there is nothing to do
    bool may_mark_late;      // a function may be replaced by its query, with base tables
    bool is_asking_natively; // the planner is being asked about a partitioned table as such
    bool is_replanning;      // after HasLostPaths(): no reference is served
    // References to base tables, by what tells them apart, in lists of OIDs.
    List *native;             // that are left to PostgreSQL
    List *doubted;            // whose indexes are offered, though another plan may cost less
    List *scanned;            // of which the plan scans all partitions by a node of the extension
    Cost native_start;        // of the doubted ones, before the first row natively
    Cost opening;             // of the native ones' partitions, which the planner does not count
    List *used;               // index tables and storages that the plan being made reads
    List *bases;              // of which they are
    List *considered;         // those that would be looked at if it were made again
    Examination *examination; // null: explain() does not ask why
};
// What EndPlanning() is to be given, also after an error.
PlanningState CurrentPlanning();
// Before a query is planned: marks its references to base tables. Afterwards the plan is finished.
void BeginPlanning(Query *query, int options);
void FinishPlan(PlannedStmt *plan);
// A copy of a query that is marked and not planned yet, of which planning leaves nothing as it was.
// Null where no other plan will be wanted; `may_lose_paths`: HasLostPaths() may be true.
Query *CopyForAlternatives(const Query *query, bool may_lose_paths);
// Whether a plan scans a marked table in a way that cannot be executed. Other extensions, whose
// hooks act after ours, may have made paths of their own for it (pg_hint_plan makes those again
// that it has hints for). The plan is looked at, not the paths: PostgreSQL frees those that lose
// against others. Before FinishPlan().
bool HasLostPaths(const PlannedStmt *plan);
// Before a copy of the query, marked as it was, is planned for that reason: natively.
void BeginReplanning();
// What other plans of the query may cost less than one made with the indexes of all of its base
// tables: a list of lists of references that are to be left to PostgreSQL. NIL where none can.
List *ListAlternatives(const PlannedStmt *plan);
// Before a copy of the query, marked as it was, is planned so.
void BeginAlternative(const List *native);
// What a plan costs that was made in such a state.
Cost CostOf(const PlannedStmt *plan, const PlanningState &state);
void EndPlanning(const PlanningState &outer);

// The plan being made scans all partitions of a base table by a node of the extension.
void RememberScanOfAll(const RangeTblEntry *rte);

// Whether a reference is to be read by an index wherever it can be.
bool ForcesIndexes(const RangeTblEntry *rte);
// The index that is tried for a reference; null: none is, all are offered.
Trial *GetTrial(const RangeTblEntry *rte);

// After the planner has learnt of a relation: offers it the indexes of index tables.
void OfferIndexTables(PlannerInfo *root, bool inhparent, RelOptInfo *rel);

} // namespace index_table
