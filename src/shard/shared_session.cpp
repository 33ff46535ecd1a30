#include "shard/shared_session.h"

namespace index_table {
namespace {

// The answers to what SendShared() sends, in this order.
enum Step {
    kBegin,
    kReset,
    kSettings,
    kStatement,
    kEnd,
    kSync,
    kRollback, // where something failed
};

constexpr char kOwnSettings[] = "SELECT " INDEX_TABLE_SHARD_SETTINGS(
    "true") ", "
            "pg_catalog.set_config('session_authorization', NULL, true), "
            "pg_catalog.set_config('role', NULL, true), "
            "pg_catalog.set_config('statement_timeout', NULL, true), "
            "pg_catalog.set_config('lock_timeout', NULL, true), "
            "pg_catalog.set_config('client_encoding', $1, true), "
            "CASE WHEN $2::pg_catalog.bool THEN "
            "pg_catalog.set_config('client_connection_check_interval', '2s', true) END";

bool Send(PGconn *conn, const char *sql, int count, const char *const *values) {
    return PQsendQueryParams(conn, sql, count, nullptr, values, nullptr, nullptr, 0) == 1;
}

bool RollBack(PGconn *conn, SharedAnswer *answer) {
    answer->step = kRollback;
    return Send(conn, "ROLLBACK", 0, nullptr) && PQpipelineSync(conn) == 1;
}

// The next answer begins.
void Advance(PGconn *conn, SharedAnswer *answer) {
    if (answer->step < kSync)
        answer->step++;
    if (answer->step == kStatement && answer->by_row)
        PQsetSingleRowMode(conn);
}

} // namespace

bool SendShared(PGconn *conn, SharedAnswer *answer, SharedPurpose purpose, bool checks_client,
                const char *sql, int count, const char *const *values) {
    Assert(PQtransactionStatus(conn) != PQTRANS_ACTIVE);
    *answer = {.step = kBegin};
    const char *settings[] = {GetDatabaseEncodingName(), checks_client ? "t" : "f"};
    bool reads = purpose == SharedPurpose::Reading;
    // What is reset stays so where the transaction is committed, for others as well: so writing,
    // which nothing but this library does there, is content with what is set for it.
    return PQenterPipelineMode(conn) == 1 &&
           Send(conn,
                reads ? "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY"
                      : "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
                0, nullptr) &&
           Send(conn, reads ? "RESET ALL" : "", 0, nullptr) &&
           Send(conn, kOwnSettings, lengthof(settings), settings) &&
           Send(conn, sql, count, values) &&
           Send(conn, reads ? "ROLLBACK" : "COMMIT", 0, nullptr) && PQpipelineSync(conn) == 1;
}

Arrival ReceiveShared(PGconn *conn, SharedAnswer *answer, PGresult **result) {
    for (;;) {
        if (PQisBusy(conn))
            return Arrival::Nothing;
        *result = PQgetResult(conn);
        if (!*result) {
            if (PQstatus(conn) != CONNECTION_OK || answer->step == kSync)
                return Arrival::End;
            Advance(conn, answer);
            continue;
        }
        ExecStatusType status = PQresultStatus(*result);
        bool is_error = status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
        bool is_answer = answer->step == kStatement && status != PGRES_PIPELINE_ABORTED;
        if (status != PGRES_PIPELINE_SYNC && (is_error || is_answer))
            return Arrival::Result;
        PQclear(*result);
        *result = nullptr;
        if (status != PGRES_PIPELINE_SYNC)
            continue;
        if (PQtransactionStatus(conn) == PQTRANS_INERROR && RollBack(conn, answer))
            continue;
        PQexitPipelineMode(conn);
        return Arrival::End;
    }
}

} // namespace index_table
