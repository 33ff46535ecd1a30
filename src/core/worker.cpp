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

bool IsOwnWorker() {
    return MyBgworkerEntry && strcmp(MyBgworkerEntry->bgw_library_name, "index_table") == 0;
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

void SetWorkerOptions() {
    constexpr const char *kOptions[][2] = {{"role", "none"},
                                           {"session_replication_role", "origin"},
                                           {"search_path", "pg_catalog, pg_temp"},
                                           {"default_transaction_isolation", "read committed"},
                                           {"default_transaction_read_only", "off"},
                                           {"default_transaction_deferrable", "off"},
                                           {"statement_timeout", "0"},
                                           {"transaction_timeout", "0"}, // since 17
                                           {"lock_timeout", "0"},
                                           {"idle_in_transaction_session_timeout", "0"},
                                           {"zero_damaged_pages", "off"},
                                           {"row_security", "on"}};
    for (const auto &[name, value] : kOptions)
        if (GetConfigOption(name, true, false))
            SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

} // namespace index_table
