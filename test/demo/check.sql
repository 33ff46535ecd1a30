-- Compares every index table with its recomputation from the base table, in plain SQL.
-- Fails if any differs or was not compared.
CREATE TABLE demo.verdict (index_table regclass, entries bigint, missing bigint, wrong bigint, verify bigint);

\set index_table customers_by_email
\set columns 'email, partition_id, customer_id'
\set recomputed 'SELECT email, partition_id, customer_id FROM customers c JOIN index_table.partition p ON p.relation = c.tableoid'
\ir compare.sql

\set index_table customers_by_town
\set columns 'town, partition_id, customer_id'
\set recomputed 'SELECT town, partition_id, customer_id FROM customers c JOIN index_table.partition p ON p.relation = c.tableoid'
\ir compare.sql

\set index_table customers_by_town_last_name
\set columns 'town, last_name, partition_id, customer_id, first_name, phone'
\set recomputed 'SELECT town, last_name, partition_id, customer_id, first_name, phone FROM customers c JOIN index_table.partition p ON p.relation = c.tableoid'
\ir compare.sql

\set index_table films_by_genre
\set columns 'unnest, partition_id, genre, film_id'
\set recomputed 'SELECT g, partition_id, genre, film_id FROM films f JOIN index_table.partition p ON p.relation = f.tableoid, LATERAL (SELECT DISTINCT unnest(genres)) e (g)'
\ir compare.sql

\echo
\echo 'For instance, films_by_actor:'
\echo
\set index_table films_by_actor
\set columns 'unnest, partition_id, genre, film_id, title, year, actors'
\set recomputed 'SELECT a, partition_id, genre, film_id, title, year, actors\n          FROM films f JOIN index_table.partition p ON p.relation = f.tableoid,\n               LATERAL (SELECT DISTINCT unnest(actors)) e (a)'
\set ECHO queries
\ir compare.sql
\set ECHO none

\pset title 'Every index table against its recomputation from the base table'
SELECT t.index_table, v.entries, v.missing, v.wrong, v.verify AS "problems found by verify()",
       CASE WHEN v.missing = 0 AND v.wrong = 0 AND v.verify = 0 THEN 'equal' ELSE 'DIFFERS' END AS verdict
  FROM index_table.index_tables t LEFT JOIN demo.verdict v USING (index_table)
 ORDER BY 1;
\pset title

SELECT count(*) = 0 OR bool_or((v.missing = 0 AND v.wrong = 0 AND v.verify = 0) IS NOT TRUE) AS differs
  FROM index_table.index_tables t LEFT JOIN demo.verdict v USING (index_table) \gset
\if :differs
DO $$ BEGIN RAISE 'an index table differs from its base table'; END $$;
\endif
