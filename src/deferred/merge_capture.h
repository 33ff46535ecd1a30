// MERGE and transition tables: a row that MERGE has inserted into a partition is what PostgreSQL
// puts into NEW TABLE of the updates after it, too, or it crashes (15 before 15.20, 17.11, 18.6).
// Queues would miss rows that moved.
#pragma once

#include "pg.h"

namespace index_table {

// Nor does it fire the triggers of rows that MERGE moves to another partition, where MERGE itself
// neither inserts nor deletes.

// Has each MERGE of a query that has been started forget the row it has inserted before it goes on
// to the next one, and fires our triggers for rows that it moves. Nothing where it collects no
// rows. Raises 0A000 where it would have to fire users' triggers, too.
void RepairMergeCapture(QueryDesc *query);
// The same of a query that was started before its triggers loaded the library: our triggers for
// rows that it has moved, before it is finished. Raises 55000 where it may have collected wrong
// ones.
void CompleteMergeCapture(QueryDesc *query);

} // namespace index_table
