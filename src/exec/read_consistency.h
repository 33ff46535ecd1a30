// index_table.read_consistency
#pragma once

namespace index_table {

// Whether queries take index tables that are maintained deferred as they are.
bool ReadsEventually();

void InitializeReadConsistency();

} // namespace index_table
