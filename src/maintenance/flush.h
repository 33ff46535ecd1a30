// When captured changes are carried out: at the end of a statement, before a nested one starts,
// and at the latest before the transaction commits.
#pragma once

#include "pg.h"

namespace index_table {

// Carries out everything that is captured, and what that defers. Raises what writing raises.
void FlushBeforeCommit();

void InitializeFlush();

} // namespace index_table
