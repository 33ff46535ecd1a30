// Index tables that were maintained immediately, and are to be deferred from now on.
#pragma once

#include "catalog/public.h"

namespace index_table {

// Has an index table of the current user maintained deferred: through a queue of its own, or those
// of foreign partitions' servers. Raises what CheckMayDefer() raises, and 55000 where the index
// table is not to be trusted.
//
// Defer() takes AccessExclusiveLock on the base table and its partitions, until the transaction
// ends. DeferGently() keeps writers out alone, as LockOutWriters() does, and lets a row trigger
// that is not needed any more stay where it cannot be dropped without waiting for readers.
void Defer(const IndexTable *table);
void DeferGently(const IndexTable *table);

} // namespace index_table
