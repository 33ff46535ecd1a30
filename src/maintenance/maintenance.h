// Keeping index tables in step: what other folders may ask of maintenance/.
#pragma once

#include "catalog/definition.h"

namespace index_table {

// Carries the changes captured so far at this transaction nest level into the index tables, so
// that what reads or alters them next finds them in step. May raise what writing a table raises.
void FlushChanges();

// The same where no statement around may bring more: unique keys are checked now.
void FlushAllChanges();

// Whether changes remain captured that belong to an outer nest level: an index table then lacks
// them until the subtransaction ends.
bool HasUnflushedChanges(Oid index_table);

void InitializeMaintenance();

} // namespace index_table
