// The background worker that vacuums index tables. It runs where the library is in
// shared_preload_libraries; without it, index_table.vacuum() is there for whoever calls it.
#pragma once

namespace index_table {

void InitializeWorker();

} // namespace index_table
