-- What PostgreSQL itself offers for a column that is not the partition key.
\set ECHO queries
\echo 'Uniqueness first:'
\echo
\set ON_ERROR_STOP off
CREATE UNIQUE INDEX ON customers (email);
\set ON_ERROR_STOP on
\echo
\echo 'That is refused. A plain index is possible: one on each partition.'
