// The statements this backend is inside of, and which base tables they change.
//
// As long as a statement around the current one changes a base table, some of its rows may have
// been changed whose own triggers have not fired: what has been captured of the base table is then
// not the whole truth, and the index tables do not show what the base table shows.
#pragma once

#include "pg.h"

namespace index_table {

// A statement that runs; lives on the C stack of whoever runs it.
struct ActiveStatement {
    ActiveStatement *outer;
    QueryDesc *query; // null: COPY
    Oid copied;       // the relation of COPY FROM
    List *cascaded;   // relations that foreign key actions changed, whose triggers this one fires
    List *bases;      // found when first asked for
    bool bases_known;
};

void EnterStatement(ActiveStatement *statement, QueryDesc *query, Oid copied);
// Also called after an error, in PG_FINALLY.
void LeaveStatement(ActiveStatement *statement);

// At the end of a query that leaves its triggers to the statement around it, as the queries of
// foreign key actions do.
void RememberCascade(QueryDesc *query);

// A statement is about to change rows of a relation. Its trigger may have loaded the library just
// now: then the hooks never saw it begin, but will see it end.
void AnnounceStatement(Oid relid);

// Rows of a base table are being captured. Where no statement that changes it is known, none can be
// told from another for the rest of the transaction (logical replication fires row triggers alone).
void RememberChange(Oid base);

// A statement begins or is finished; `query` null: not a query. Whether it was the one that was
// announced.
void StatementBegins(QueryDesc *query);
bool StatementEnds(QueryDesc *query);
// A query is about to be shut down. Whether it was the one that was announced, and was not finished
// before the hooks were there.
bool QueryEnds(QueryDesc *query);

// Whether a statement around may have changed rows of a base table that were not captured yet; the
// second, whether a snapshot whose command id is `command` may see such rows.
bool IsBeingChanged(Oid base);
bool IsBeingChanged(Oid base, CommandId command);

// The command id of the innermost statement, that with which it changes rows.
CommandId StatementCommand();

// The TRUNCATE that runs. Returns the one around it, to be set again after it, even after an error.
const TruncateStmt *SetTruncate(const TruncateStmt *statement);
// What it names, with partitions, a list of OIDs; what CASCADE adds is not among them.
List *TruncatedRelations();
// Partition numbers whose entries it has seen to.
void RememberTruncated(List *numbers);
bool WasTruncated(int32 number);

// A subtransaction, or the transaction, has ended.
void AtEOSubXactStatements(bool commits, int level);
void AtEOXactStatements();

} // namespace index_table
