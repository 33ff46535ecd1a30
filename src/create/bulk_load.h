// Filling a new index table, that has no indexes yet, with rows that come in order.
//
// Where the table was created in this subtransaction, rows may be frozen at once, as under COPY
// FREEZE: nobody sees the table before the transaction commits.
#pragma once

#include "catalog/public.h"

namespace index_table {

// A destination for a query that returns the entries of an index table, column by column;
// sorted first, or as they are scanned.
DestReceiver *CreateBulkLoadReceiver(const IndexTable *table, bool is_sorted, bool freeze,
                                     Progress *progress);

} // namespace index_table
