// What a query asks of one of its base tables, gathered before PostgreSQL's planner distributes the
// clauses: a first look, good enough to estimate by. Nothing is decided here about what is right;
// the planner's own matching does that later.
#pragma once

#include "pg.h"

namespace index_table {

// key = 1 OR key = 2 as key = ANY (ARRAY[1, 2]), which an index can serve; stands for the clause in
// that cell of the query's join tree.
struct MergedClause {
    ListCell *cell;
    Expr *merged;
    Expr *original;
};

struct Clauses {
    Index relid;
    List *own;          // RestrictInfos that concern the relation alone, row security's too
    List *merged;       // MergedClauses
    Bitmapset *columns; // the relation's, that these or ORDER BY refer to; offset as usual
};

Clauses CollectClauses(PlannerInfo *root, Index relid);

// Puts the merged clauses into the join tree, for the planner to find.
void ApplyMergedClauses(const Clauses *clauses);

// An implicitly ANDed list with the original in place of each merged clause, copied: what is
// checked row by row stops at the first arm that is true, as the query has it.
List *WithoutMerged(const List *merged, const List *clauses);

// Without relabelling to binary compatible types, which indexes do not care about.
Node *StripRelabels(Node *node);

} // namespace index_table
