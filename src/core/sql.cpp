#include "core/sql.h"

namespace index_table {

void SetForQuery(const char *name, const char *value) {
    set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

int SecureSearchPath() {
    Assert(IsTransactionState());
    int nest_level = NewGUCNestLevel();
    SetForQuery("search_path", "pg_catalog, pg_temp");
    return nest_level;
}

bool IsTextLossless() {
    return DateStyle == USE_ISO_DATES && IntervalStyle == INTSTYLE_POSTGRES &&
           extra_float_digits >= 1 && Array_nulls;
}

void UseLosslessText() {
    if (DateStyle != USE_ISO_DATES)
        SetForQuery("datestyle", "ISO");
    if (IntervalStyle != INTSTYLE_POSTGRES)
        SetForQuery("intervalstyle", "postgres");
    if (extra_float_digits < 1) // more make no difference
        SetForQuery("extra_float_digits", "3");
    if (!Array_nulls)
        SetForQuery("array_nulls", "on");
}

void UseCanonicalText() {
    UseLosslessText();
    SetForQuery("timezone", "UTC");
    SetForQuery("bytea_output", "hex");
    SetForQuery("lc_monetary", "C");
}

void RunStatement(const char *sql, uint64 *count) {
    Assert(IsTransactionState());
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "SPI_connect failed");
    int result = SPI_execute(sql, false, 0);
    if (result < 0)
        elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
    if (count)
        *count = SPI_processed;
    SPI_finish();
}

void CheckMayCommit(FunctionCallInfo fcinfo, const char *procedure) {
    bool may_commit = fcinfo->context && IsA(fcinfo->context, CallContext) &&
                      !reinterpret_cast<CallContext *>(fcinfo->context)->atomic &&
                      !IsSubTransaction();
    if (!may_commit)
        ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                        errmsg("%s cannot be called in a transaction block", procedure),
                        errhint("It commits several times: CALL it by itself.")));
}

void PointIntoText(void *text) {
    int position = geterrposition();
    if (position <= 0)
        return;
    errposition(0);
    internalerrposition(position);
    internalerrquery(static_cast<const char *>(text));
}

} // namespace index_table
