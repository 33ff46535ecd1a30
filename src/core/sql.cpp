#include "core/sql.h"

namespace index_table {

int SecureSearchPath() {
    Assert(IsTransactionState());
    int nest_level = NewGUCNestLevel();
    set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
                      GUC_ACTION_SAVE, true, 0, false);
    return nest_level;
}

void RunStatement(const char *sql) {
    Assert(IsTransactionState());
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    int result = SPI_execute(sql, false, 0);
    if (result < 0)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
    SPI_finish();
}

} // namespace index_table
