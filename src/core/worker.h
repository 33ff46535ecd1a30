// What background workers have in common.
#pragma once

#include "pg.h"

namespace index_table {

// Fills in a worker that runs an exported function of the library and connects to a database, once
// the server may be written to.
void DescribeWorker(BackgroundWorker *worker, const char *function, const char *name);

// Whether this process is such a worker.
bool IsOwnWorker();

// Sets what matters to the extension, whatever the database, or the role, sets for others.
void SetWorkerOptions();

// Sleeps until the time is over or the latch is set, then obeys signals and changed settings.
void SleepInWorker(long milliseconds);

} // namespace index_table
