// A node below a nested loop, on its outer side, that reads rows ahead, so that the inner side asks
// shards for what goes with all of them at once (exec/scan_ahead.h). The join is PostgreSQL's: it
// gets the rows one by one, sets its parameters, and has the inner side scan, which has read
// already what is asked for.
#pragma once

#include "pg.h"

namespace index_table {

// The plan's custom_private: a list of the number of rows to be read ahead at first.
const CustomScanMethods *OuterRowsMethods();

void InitializeOuterRows();

} // namespace index_table
