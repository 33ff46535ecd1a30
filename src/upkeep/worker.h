// The launcher, and the background worker that it has visit each database: it vacuums index tables,
// and verifies them (background_verify.h). They run where the library is in
// shared_preload_libraries; without it, index_table.vacuum() and verify() are there for whoever
// calls them.
#pragma once

namespace index_table {

void InitializeWorker();

} // namespace index_table
