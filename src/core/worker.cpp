#include "core/worker.h"

namespace index_table {

void DescribeWorker(BackgroundWorker *worker, const char *function, const char *name) {
    memset(worker, 0, sizeof(BackgroundWorker));
    worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
    strlcpy(worker->bgw_library_name, "index_table", sizeof(worker->bgw_library_name));
    strlcpy(worker->bgw_function_name, function, sizeof(worker->bgw_function_name));
    strlcpy(worker->bgw_name, name, sizeof(worker->bgw_name));
    strlcpy(worker->bgw_type, name, sizeof(worker->bgw_type));
}

void SleepInWorker(long milliseconds) {
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
              PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
    if (ConfigReloadPending) {
        ConfigReloadPending = false;
        ProcessConfigFile(PGC_SIGHUP);
    }
}

} // namespace index_table
