// SQL that the extension runs itself, under a search_path that finds nothing of the user's.
#pragma once

#include "core/names.h"

namespace index_table {

// Sets search_path so that nothing a user made is found unqualified; undo with AtEOXact_GUC(true,
// the returned nest level).
int SecureSearchPath();

// Has output functions write what input functions read as the same value, whatever the session's
// settings are, until the caller's AtEOXact_GUC() ends the level that it has begun.
void UseLosslessText();

// Whether they do so as the session's settings are.
bool IsTextLossless();

// The same, and values that are equal byte by byte have one text in all sessions.
void UseCanonicalText();

// Among the options of a cursor: its query is planned as without index tables, as one must be that
// takes their place, or says what they should hold. A bit that PostgreSQL has no use for.
constexpr int kPlanNatively = 1 << 30;

// A setting until the caller's AtEOXact_GUC() ends the level that it has begun.
void SetForQuery(const char *name, const char *value);

// Connects to SPI, runs one statement and disconnects; raises where it fails. `count`, where
// wanted, is that of its rows.
void RunStatement(const char *sql, uint64 *count = nullptr);

// An error context callback: errors of the parser point at `text`, a string that it was given,
// which is not what the client has sent.
void PointIntoText(void *text);

// Raises 25001 where a procedure cannot commit: called in a transaction block or a function.
void CheckMayCommit(FunctionCallInfo fcinfo, const char *procedure);

} // namespace index_table
