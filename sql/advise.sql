-- index_table.advise(), and what create() warns of. Statements' statistics, which need a library to be preloaded, are for
-- test/t/085_advisor.pl: here texts are read by hand, and the scans of indexes say what is asked for.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA advise;
SET search_path = advise;
LOAD 'index_table';
SET datestyle = ISO;
\set SHOW_CONTEXT never

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int, region int, email text, town text, "The ""Name" text, tags text[], born date, code varchar(10), PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE people_1 PARTITION OF people FOR VALUES IN (1);
CREATE TABLE people_2 PARTITION OF people FOR VALUES IN (2);
CREATE TABLE hashed (a int, b int, c int, PRIMARY KEY (a, b)) PARTITION BY HASH (a, b);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE "Odd 'Names'" (id int PRIMARY KEY, "it's" text, a$b text) PARTITION BY HASH (id);
CREATE FUNCTION initial(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left($1, 1) $$;
CREATE VIEW shown AS SELECT email AS mail, town FROM people WHERE born > '2000-01-01';

-- How a statement refers to a table.
CREATE FUNCTION asks(statement text, base regclass DEFAULT 'people') RETURNS TABLE (command text, equal text, types text, ranged text, shown text, changed text) LANGUAGE sql AS $$
    SELECT command, array_to_string(equal, '; '), array_to_string(equal_types::regtype[], '; '), array_to_string(ranged, '; '), array_to_string(shown, ' '), array_to_string(changed, ' ')
      FROM index_table.statement_conditions(base, statement, 'advise, public') $$;
SELECT * FROM asks('SELECT * FROM people WHERE email = $1');
SELECT * FROM asks('select born from advise.people p where $1 = p.town and p.id in ($2, $3) and born between $4 and $5 limit $6');
SELECT * FROM asks('SELECT id FROM people WHERE initial(email) = $1 AND "The ""Name" = $2 AND code = $3 AND lower(town) || $4 = $5');
-- Not by code of others, which who may read the table has asked by.
CREATE ROLE advise_other;
CREATE FUNCTION others(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1 $$;
ALTER FUNCTION others OWNER TO advise_other;
SELECT * FROM asks('SELECT id FROM people WHERE others(email) = $1 AND lower(others(town)) = $2 AND town = $3');
DROP FUNCTION others;
CREATE DOMAIN others AS text CHECK (VALUE <> '');
CREATE DOMAIN of_others AS others;
ALTER DOMAIN others OWNER TO advise_other;
SELECT * FROM asks('SELECT id FROM people WHERE email::others = $1 AND lower(town::of_others) = $2 AND town = $3');
DROP DOMAIN of_others;
DROP DOMAIN others;
SELECT * FROM asks('SELECT id FROM people WHERE $1 = ANY (tags)');
SELECT * FROM asks('SELECT id FROM people WHERE tags @> ARRAY[$1]');
SELECT * FROM asks('UPDATE people SET town = $1, email = $2 WHERE email = $3');
SELECT * FROM asks('DELETE FROM people WHERE town = $1');
SELECT * FROM asks('INSERT INTO people (id, region) VALUES ($1, $2)');
SELECT * FROM asks('PREPARE p (text) AS SELECT id FROM people WHERE email = $1');
-- Quotes and dollars in names and comments are no strings.
SELECT * FROM asks('SELECT id FROM "Odd ''Names''" WHERE "it''s" = $1', '"Odd ''Names''"');
SELECT * FROM asks('SELECT id FROM "Odd ''Names''" AS u WHERE u.a$b = $1 AND U&"it\0027s" > $2', '"Odd ''Names''"');
SELECT * FROM asks(E'SELECT /* it''s /* $x$ */ */ id FROM people -- ''t''is\n WHERE email = $1');
-- Through views, joins, subqueries, and more than once.
SELECT * FROM asks('SELECT mail FROM shown WHERE mail = $1');
SELECT * FROM asks('SELECT p.id FROM hashed h JOIN people p ON p.town = h.c::text LEFT JOIN people q USING (email) WHERE EXISTS (SELECT FROM people r WHERE r.code = h.b::text)');
SELECT * FROM asks('WITH w AS (SELECT id FROM people WHERE email = $1) SELECT * FROM (SELECT town AS t, id FROM people) s JOIN w USING (id) WHERE t = $2');
SELECT * FROM asks('SELECT c FROM hashed WHERE a = $1', 'hashed');
-- What follows the name of a type is a constant, which statistics have made a parameter.
SELECT * FROM asks('SELECT id FROM people WHERE email = $1 AND born > date $2 - interval $3 AND id > $4 AND region <> int $5');
-- Conditions that are none, and what nobody understands.
SELECT * FROM asks('SELECT id FROM people WHERE email = town OR email = $1');
SELECT * FROM asks('SELECT id FROM people WHERE email = random()::text');
SELECT * FROM asks('SELECT id FROM people WHERE email <> $1 AND NOT town = $2');
SELECT * FROM asks('SELECT nothing FROM people WHERE email = $1');
SELECT * FROM asks('SELECT FROM WHERE');
SELECT * FROM asks('SELECT 1 FROM pg_class WHERE relname = $1');
SELECT * FROM asks('CREATE TABLE people (email text)');
SELECT * FROM asks('');
-- A type's code does not run, whoever's it is, nor does a table stay locked.
CREATE FUNCTION tells(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'it has run'; RETURN true; END $$;
CREATE DOMAIN telling AS text CHECK (tells(VALUE));
SELECT * FROM asks('SELECT id FROM people WHERE email = $1 AND ''{x}''::telling[] IS NOT NULL');
SELECT * FROM asks('SELECT id FROM people WHERE email = $1 AND $x${x}$x$::telling[] IS NOT NULL');
SELECT * FROM asks('SELECT id FROM people WHERE email = $1 AND telling[] $2 IS NOT NULL');
SELECT * FROM asks('SELECT id AS "''" FROM people WHERE email = $1 AND e''{x}''::telling[] IS NOT NULL');
SELECT * FROM asks('SELECT id AS "''" FROM people WHERE email = $1 AND U&''{x}''::telling[] IS NOT NULL');
SELECT * FROM asks('SELECT id AS a$b FROM people WHERE email = $1 AND $x${x}$x$::telling[] IS NOT NULL');
SELECT * FROM asks('SELECT $1a FROM people WHERE ''{x}''::telling[] IS NOT NULL');
BEGIN;
SELECT count(*) FROM asks('DELETE FROM people WHERE town = $1');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'people'::regclass;
COMMIT;

-- Without statistics of statements the scans of indexes say what is asked for.
SELECT * FROM index_table.advise('people') AS a (columns, key, recommendation);
CREATE TABLE orders (id bigint, customer int, reference text, status text, kind int, note text, placed date, PRIMARY KEY (placed, id)) PARTITION BY RANGE (placed);
SELECT format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES FROM (%L) TO (%L)', i, date '2020-01-01' + i * 100, date '2020-01-01' + (i + 1) * 100) FROM generate_series(0, 7) AS i \gexec
INSERT INTO orders SELECT i, i % 5000, 'R' || i, CASE WHEN i % 10 < 7 THEN 'done' ELSE 'state ' || i % 4000 END, i % 5, CASE WHEN i % 4 = 0 THEN 'note ' || i END, date '2020-01-01' + i % 800 FROM generate_series(1, 20000) AS i;
CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX orders_reference ON orders (reference);
CREATE INDEX orders_status ON orders (status);
CREATE INDEX orders_kind ON orders (kind);
CREATE INDEX orders_note ON orders (note);
CREATE INDEX orders_placed ON orders (placed);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM orders WHERE customer = 7;
SELECT count(*) FROM orders WHERE reference = 'R7';
SELECT count(*) FROM orders WHERE status = 'state 2039';
SELECT count(*) FROM orders WHERE kind = 3;
SELECT count(*) FROM orders WHERE note = 'note 8';
SELECT count(*) FROM orders WHERE placed = '2020-01-03';
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT pg_stat_force_next_flush();
CREATE VIEW advice AS SELECT columns, key, recommendation, statement, reason, calls, round(selectivity::numeric, 6) AS selectivity, strategy, estimated_bytes > 0 AS estimated,
                             estimated_write_cost, (SELECT string_agg(e, ' ' ORDER BY e) FROM jsonb_object_keys(estimates) AS e) AS estimates
                        FROM index_table.advise('orders');
SELECT columns, recommendation, statement FROM advice;
ANALYZE orders;
\x
SELECT * FROM advice ORDER BY key;
\x
-- What it says can be run; then it is served, and nothing has read it yet.
SELECT statement FROM advice WHERE recommendation = 'create' ORDER BY key \gexec
INSERT INTO recomputation VALUES ('orders_by_reference', 'reference, partition_id, placed, id', 'orders b', 'true'), ('orders_by_customer', 'customer, partition_id, placed, id', 'orders b', 'true'),
                                 ('orders_by_status', 'status, partition_id, placed, id', 'orders b', 'true'), ('orders_by_note', 'note, partition_id, placed, id', 'orders b', 'note IS NOT NULL');
SELECT key, recommendation, statement, calls FROM advice ORDER BY key, recommendation;
SELECT index_table.set_visible('orders_by_customer', false);
SELECT key, recommendation, statement, reason FROM advice WHERE key = 'customer';
SELECT index_table.set_visible('orders_by_customer', true);
SELECT count(*) FROM index_table.lookup('orders_by_customer', 7);
SELECT pg_stat_force_next_flush();
SELECT key, recommendation, statement, reason FROM advice WHERE key = 'customer';
-- What nobody has asked for, and nobody has read.
SELECT index_table.create('orders', 'note, kind', name => 'unread');
CREATE INDEX unread_index ON orders USING global (status, note);
SELECT key, recommendation, statement, regexp_replace(reason, 'since \S+', 'since then') AS reason FROM advice WHERE statement LIKE '%unread%' ORDER BY statement;
SELECT index_table.set_visible('unread', false), index_table.set_visible('unread_index', false);
SELECT key, recommendation, statement FROM advice WHERE statement LIKE '%unread%' ORDER BY statement;
SELECT statement FROM advice WHERE statement LIKE '%unread%' ORDER BY statement \gexec
SELECT key, recommendation, statement FROM advice WHERE statement LIKE '%unread%' ORDER BY statement;

-- What create() warns of, by statistics; it refuses nothing.
SELECT index_table.create('orders', 'kind', name => 'few_keys');
SELECT index_table.create('orders', 'status', name => 'skewed');
SELECT index_table.create('orders', 'status', name => 'not_skewed', predicate => $$ status <> 'done' $$);
-- The same of global indexes; of unique ones, and those of other methods, nothing.
CREATE INDEX global_few ON orders USING global (kind);
CREATE INDEX global_skewed ON orders USING global (status);
CREATE INDEX global_not_skewed ON orders USING global (status) WHERE (status <> 'done');
CREATE INDEX global_hash ON orders USING global (kind) WITH (method = hash);
CREATE INDEX CONCURRENTLY global_later ON orders USING global (kind);
BEGIN;
SET LOCAL check_function_bodies = off;
CREATE INDEX global_restored ON orders USING global (kind);
ROLLBACK;
DROP INDEX global_few, global_skewed, global_not_skewed, global_hash, global_later;
-- Each is told of once in a transaction, and who may not ask gets the index all the same.
BEGIN;
CREATE INDEX global_few ON orders USING global (kind);
CREATE INDEX global_customer ON orders USING global (customer);
ROLLBACK;
BEGIN;
CREATE ROLE regress_advise_owner;
GRANT USAGE, CREATE ON SCHEMA advise TO regress_advise_owner;
ALTER TABLE orders OWNER TO regress_advise_owner;
REVOKE USAGE ON SCHEMA index_table FROM PUBLIC;
SET LOCAL ROLE regress_advise_owner;
CREATE INDEX global_few ON orders USING global (kind);
ROLLBACK;
UPDATE orders SET note = NULL WHERE id % 5 <> 0;
UPDATE orders SET customer = customer + 1;
SELECT pg_stat_force_next_flush();
ANALYZE orders;
SELECT index_table.create('orders', 'note', name => 'nulls');
SELECT index_table.create('orders', 'note', name => 'no_nulls', predicate => 'note IS NOT NULL');
CALL index_table.create_concurrently('orders', 'kind', name => 'few_later');
SELECT index_table.create('orders', 'customer', name => 'changed');
SELECT index_table.create('orders', 'customer', name => 'changed_later', maintenance => 'deferred');
SELECT index_table.create('orders', 'lower(status)', name => 'expression');
SELECT concern FROM index_table.key_concerns('people', ARRAY[3]::smallint[], false, false, false);

-- Errors, and who may.
SELECT index_table.advise('orders_by_reference');
SELECT index_table.advise('orders_pkey');
SELECT index_table.advise('shown');
SELECT index_table.advise('pg_class');
CREATE TEMPORARY TABLE passing (id int PRIMARY KEY);
SELECT index_table.advise('passing');
SELECT index_table.advise(0);
SELECT index_table.advise(NULL);
CREATE TABLE plain (id int PRIMARY KEY, email text);
SELECT * FROM index_table.advise('plain');
CREATE ROLE advise_stranger;
GRANT USAGE ON SCHEMA advise TO advise_stranger;
GRANT SELECT ON orders TO advise_stranger;
SET ROLE advise_stranger;
SELECT index_table.advise('orders');
RESET ROLE;
REVOKE USAGE ON SCHEMA advise FROM advise_stranger;
REVOKE SELECT ON orders FROM advise_stranger;
DROP ROLE advise_stranger;
-- Statistics that row security hides.
CREATE TABLE hidden (id int PRIMARY KEY, a int) PARTITION BY HASH (id);
CREATE TABLE hidden_0 PARTITION OF hidden FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO hidden SELECT i, i FROM generate_series(1, 100) AS i;
ANALYZE hidden;
ALTER TABLE hidden OWNER TO advise_other;
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA advise TO advise_other;
SET ROLE advise_other;
SELECT recommendation, reason FROM index_table.advise('hidden');
RESET ROLE;
DROP TABLE hidden;
REVOKE USAGE ON SCHEMA advise FROM advise_other;
DROP ROLE advise_other;
BEGIN READ ONLY;
SELECT count(*) > 0 AS any FROM index_table.advise('orders');
COMMIT;

SELECT * FROM differences();
DROP VIEW advice, shown;
DROP FUNCTION asks;
DROP TABLE people, hashed, orders, plain, "Odd 'Names'";
