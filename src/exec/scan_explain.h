// What EXPLAIN says of a scan: which index tables it reads and how, what shards are asked, and
// under ANALYZE what was counted.
#pragma once

#include "pg.h"

namespace index_table {

// As CustomExecMethods have it.
void ExplainScan(CustomScanState *node, List *ancestors, ExplainState *es);

} // namespace index_table
