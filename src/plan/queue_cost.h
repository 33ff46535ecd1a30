// What the queue of an index table that is maintained deferred adds to the cost of reading it.
#pragma once

#include "plan/candidates.h"

namespace index_table {

// Looks at the queue, without counting it.
QueueCosts EstimateQueueCosts(const IndexTable *table);

// Whether a path looks keys up, for which few of the queued rows have to be read; else all.
bool LooksKeysUp(const IndexPath *path);

// In microseconds, of a scan.
double CostOfQueue(const Candidate *candidate, bool looks_keys_up);

} // namespace index_table
