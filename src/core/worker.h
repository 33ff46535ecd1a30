// What background workers have in common.
#pragma once

namespace index_table {

// Sleeps until the time is over or the latch is set, then obeys signals and changed settings.
void SleepInWorker(long milliseconds);

} // namespace index_table
