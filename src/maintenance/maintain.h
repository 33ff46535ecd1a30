// The row trigger, for those who cannot wait until PostgreSQL fires it.
#pragma once

#include "pg.h"

namespace index_table {

// Captures the update of a row in a partition that is a table. The trigger will not capture it
// again if RememberCaptured() says so. `cached`: null at first; keeps what one relation needs from
// one call to the next, in `memory`.
void CaptureUpdate(Relation rel, TupleTableSlot *before, TupleTableSlot *after, void **cached,
                   MemoryContext memory);

} // namespace index_table
