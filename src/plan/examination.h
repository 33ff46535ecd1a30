// What index_table.explain() asks of the planning of a query, and learns of it: which references to
// base tables the query has, what keeps indexes from them, and what the plan costs. A query is
// examined once as it would be planned, and once for each index and reference: then the reference
// is read by that index if it can be (a trial).
//
// A nested planning, of a function that is simplified by being run, is not examined.
#pragma once

#include "plan/candidates.h"

namespace index_table {

// What keeps indexes from serving a reference; what keeps them least comes first.
enum class Obstacle : int {
    None,
    PartitionKey,
    SystemColumn,
    ForeignRows,
    Standby,
    UnmatchedTargets,
    Server,
    Inserted,
    Sample,
    Only,
    Partition,
    Plain,
    Unread, // the planner has not come to it
};

struct ExaminedReference {
    Oid base;
    Oid name; // what tells it from others, see NameOf() in planner.cpp
    Obstacle obstacle;
};

// An index table, global index or owner's index that is tried for a reference.
struct Trial {
    Oid name;        // of the reference; InvalidOid: nothing is tried
    Oid table;       // the index table, or the storage of a global index
    Oid owner_index; // InvalidOid: the index over the key
    List *native;    // other references that are left to PostgreSQL
    // Learnt:
    bool finds_nothing;   // the conditions contradict each other
    bool lacks_predicate; // the query does not imply that of the index
    bool is_young;        // the index must not be used with older snapshots
};

struct Examination {
    MemoryContext context; // of what is learnt
    bool is_survey;        // planned as if index_table.enable_scan were on
    Trial trial;
    // Learnt:
    List *references; // ExaminedReferences, in the order of the query
    List *native;     // names of those that the plan leaves to PostgreSQL
    Cost cost;        // of the plan, as plans are compared
};

// Plans a query for an examination, as EXPLAIN would. The query is not the same afterwards.
PlannedStmt *PlanExamined(Query *query, Examination *examination);
// Of the planning that begins; null: it is not examined.
Examination *TakeExamination();

void NoteReference(Examination *examination, Oid base, Oid name, Obstacle obstacle);
bool IsTried(const Trial &trial, Oid table, Oid index, bool is_owner_index);

// Whether a plan reads what is tried.
bool ReadsTried(const PlannedStmt *plan, const Trial &trial);

} // namespace index_table
