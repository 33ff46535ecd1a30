-- What create() refuses, and how it says so. Nothing is left behind.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_errors;
CREATE SCHEMA errors;
GRANT USAGE, CREATE ON SCHEMA errors TO regress_errors;
SET search_path = errors;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (
    id int PRIMARY KEY, town text, name text, "Odd" int, doc json, place point, tags text[], born timestamptz, gone int, "system" xid
) PARTITION BY RANGE (id);
ALTER TABLE people DROP COLUMN gone;
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (10);
CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE people_2_1 PARTITION OF people_2 FOR VALUES FROM (10) TO (20);
INSERT INTO people (id, town) VALUES (1, 'a'), (11, 'b');
CREATE TABLE bare (a int, b text);
CREATE FUNCTION stable_fn(text) RETURNS text STABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE FUNCTION failing(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'failed on purpose' USING ERRCODE = 'P0042'; END $$;
CREATE FUNCTION leftovers() RETURNS TABLE (definitions bigint, partitions bigint, relations bigint, triggers bigint, search_path text, myself bool)
LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM index_table.definition), (SELECT count(*) FROM index_table.partition),
           (SELECT count(*) FROM pg_class WHERE relnamespace = 'errors'::regnamespace), (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index\_table%'),
           current_setting('search_path'), current_user = session_user
$$;
SELECT * FROM leftovers();

-- Which table.
SELECT index_table.create(NULL, 'town');
\echo :SQLSTATE
SELECT index_table.create('nowhere', 'town');
\echo :SQLSTATE
SELECT index_table.create(0, 'town');
\echo :SQLSTATE
CREATE VIEW a_view AS SELECT * FROM people;
SELECT index_table.create('a_view', 'town');
\echo :SQLSTATE
CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM people;
SELECT index_table.create('a_matview', 'town');
\echo :SQLSTATE
CREATE SEQUENCE a_sequence;
SELECT index_table.create('a_sequence', 'last_value');
\echo :SQLSTATE
SELECT index_table.create('people_pkey', 'id');
\echo :SQLSTATE
CREATE TYPE a_type AS (a int);
SELECT index_table.create((SELECT typrelid FROM pg_type WHERE typname = 'a_type'), 'a');
\echo :SQLSTATE
SELECT index_table.create('pg_class', 'relname');
\echo :SQLSTATE
SELECT index_table.create('pg_toast.pg_toast_1255', 'chunk_id');
\echo :SQLSTATE
SELECT index_table.create('index_table.partition', 'base');
\echo :SQLSTATE
CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY, town text);
SELECT index_table.create('temporary', 'town');
\echo :SQLSTATE
SELECT index_table.create('people_1', 'town');
\echo :SQLSTATE
SELECT index_table.create('people_2_1', 'town');
\echo :SQLSTATE
SELECT index_table.create('people_2', 'town');
\echo :SQLSTATE
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (town text) INHERITS (parent);
SELECT index_table.create('parent', 'id');
\echo :SQLSTATE
CREATE TABLE mixed (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE mixed_2 PARTITION OF mixed FOR VALUES FROM (10) TO (20);
SELECT index_table.create('mixed', 'town');
\echo :SQLSTATE
CREATE FOREIGN DATA WRAPPER regress_errors_fdw;
CREATE SERVER regress_errors_server FOREIGN DATA WRAPPER regress_errors_fdw;
CREATE FOREIGN TABLE a_foreign (id int, town text) SERVER regress_errors_server;
\set SHOW_CONTEXT never
SELECT index_table.create('a_foreign', 'town', identity => 'id');
\echo :SQLSTATE
CREATE TABLE sharded (id int, town text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE sharded_1 PARTITION OF sharded FOR VALUES FROM (0) TO (10) SERVER regress_errors_server;
SELECT index_table.create('sharded', 'town', identity => 'id');
\echo :SQLSTATE
\set SHOW_CONTEXT errors
SET ROLE regress_errors;
SELECT index_table.create('people', 'town');
\echo :SQLSTATE
SELECT index_table.create('a_view', 'town');
\echo :SQLSTATE
SELECT index_table.create('pg_class', 'relname');
\echo :SQLSTATE
RESET ROLE;
DROP VIEW a_view;
DROP MATERIALIZED VIEW a_matview;
DROP SEQUENCE a_sequence;
DROP TYPE a_type;
DROP FOREIGN DATA WRAPPER regress_errors_fdw CASCADE;
DROP TABLE temporary, parent, child, mixed, sharded;
SELECT * FROM leftovers();

-- Which columns find a row.
SELECT index_table.create('bare', 'a');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => 'nope');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => '');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => 'a,');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => 'a, A');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => 'lower(b)');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => 'ctid');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', identity => 'doc');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', identity => 'id, gone');
\echo :SQLSTATE

-- The key.
SELECT index_table.create('people', NULL);
\echo :SQLSTATE
SELECT index_table.create('people', 'city');
\echo :SQLSTATE
SELECT index_table.create('people', 'odd');
\echo :SQLSTATE
SELECT index_table.create('people', 'gone');
\echo :SQLSTATE
SELECT index_table.create('people', '"........pg.dropped.9........"');
\echo :SQLSTATE
SELECT index_table.create('people', 'lower(city)');
\echo :SQLSTATE
SELECT index_table.create('people', 'lower(people_1.town)');
\echo :SQLSTATE
\set VERBOSITY sqlstate
SELECT index_table.create('people', 'town COLLATE nowhere');
\set VERBOSITY default
SELECT index_table.create('people', 'id COLLATE "C"');
\echo :SQLSTATE
SELECT index_table.create('people', 'town int4_ops');
\echo :SQLSTATE
SELECT index_table.create('people', 'town no_ops');
\echo :SQLSTATE
\set VERBOSITY terse
SELECT index_table.create('people', 'nofunction(town)');
\set VERBOSITY default
\echo :SQLSTATE
SELECT index_table.create('people', 'doc');
\echo :SQLSTATE
SELECT index_table.create('people', 'place');
\echo :SQLSTATE
SELECT index_table.create('people', '"system"');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', partitions => 2, predicate => 'id');
\echo :SQLSTATE
SELECT index_table.create('people', '(town || now())');
\echo :SQLSTATE
SELECT index_table.create('people', 'random()');
\echo :SQLSTATE
SELECT index_table.create('people', 'stable_fn(town)');
\echo :SQLSTATE
SELECT index_table.create('people', 'to_char(born, ''YYYY'')');
\echo :SQLSTATE
SELECT index_table.create('people', '(born::text)');
\echo :SQLSTATE
SELECT index_table.create('people', 'max(town)');
\echo :SQLSTATE
SELECT index_table.create('people', '(sum(id) OVER ())');
\echo :SQLSTATE
SELECT index_table.create('people', '((SELECT 1))');
\echo :SQLSTATE
SELECT index_table.create('people', '(EXISTS (SELECT FROM bare))');
\echo :SQLSTATE
SELECT index_table.create('people', 'ctid');
\echo :SQLSTATE
SELECT index_table.create('people', 'tableoid');
\echo :SQLSTATE
SELECT index_table.create('people', '(people)');
\echo :SQLSTATE
SELECT index_table.create('people', '(people.*)');
\echo :SQLSTATE
\set VERBOSITY terse
SELECT index_table.create('people', '(ROW(id, town))');
\echo :SQLSTATE
\set VERBOSITY default
SELECT index_table.create('people', '(NULL)');
SELECT index_table.drop('people_by_expr');
SELECT index_table.create('people', '($1)');
\echo :SQLSTATE
SELECT index_table.create('people', '(DEFAULT)');
\echo :SQLSTATE
\set VERBOSITY terse
SELECT index_table.create('people', 'failing(town)');
\echo :SQLSTATE
\set VERBOSITY default
SELECT index_table.create('people', 'town text_ops (siglen = 1)');
\echo :SQLSTATE
SELECT index_table.create('bare', 'a', identity => (SELECT string_agg('c' || i, ', ') FROM generate_series(1, 3) AS i));
\echo :SQLSTATE
SELECT format('CREATE TABLE wide (id int PRIMARY KEY, %s)', string_agg('c' || i || ' int', ', ')) FROM generate_series(1, 40) AS i \gexec
SELECT index_table.create('wide', (SELECT string_agg('c' || i, ', ') FROM generate_series(1, 31) AS i), name => 'wide_index');
\echo :SQLSTATE
SELECT index_table.create('wide', (SELECT string_agg('c' || i, ', ') FROM generate_series(1, 40) AS i), name => 'wide_index');
\echo :SQLSTATE
SELECT index_table.create('wide', (SELECT string_agg('c' || i, ', ') FROM generate_series(1, 30) AS i), name => 'wide_index', is_unique => true);
SELECT index_table.drop('wide_index');
DROP TABLE wide;
SELECT * FROM leftovers();

-- Text that reaches out of its place.
SELECT index_table.create('people', 'town); DROP TABLE errors.people; SELECT (1');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', predicate => 'true; DROP TABLE errors.people');
\echo :SQLSTATE
\set VERBOSITY sqlstate
SELECT index_table.create('people', 'town) WHERE (true');
SELECT index_table.create('people', '');
SELECT index_table.create('people', '   ');
SELECT index_table.create('people', ',');
SELECT index_table.create('people', 'town,');
SELECT index_table.create('people', 'town; DROP TABLE errors.people');
SELECT index_table.create('people', 'town); DROP TABLE errors.people; --');
SELECT index_table.create('people', 'town); DROP TABLE errors.people; SELECT (1');
SELECT index_table.create('people', 'town) INCLUDE (name');
SELECT index_table.create('people', 'town) WITH (fillfactor = 10');
SELECT index_table.create('people', 'town) NULLS NOT DISTINCT --');
SELECT index_table.create('people', 'town) NULLS NOT DISTINCT WHERE (true');
SELECT index_table.create('people', 'town /*');
SELECT index_table.create('people', 'town -- ');
SELECT key FROM index_table.index_tables WHERE index_table = 'people_by_town'::regclass;
SELECT index_table.drop('people_by_town');
SELECT index_table.create('people', '''town');
SELECT index_table.create('people', 'town || name');
SELECT index_table.create('people', 'town AS x');
SELECT index_table.create('people', 'town', predicate => '');
SELECT index_table.create('people', 'town', predicate => 'true; DROP TABLE errors.people');
SELECT index_table.create('people', 'town', predicate => 'true) OR (true');
SELECT index_table.create('people', 'town', predicate => 'city = 1');
SELECT index_table.create('people', 'town', predicate => 'max(id) > 1');
SELECT index_table.create('people', 'town', predicate => 'id IN (SELECT a FROM bare)');
SELECT index_table.create('people', 'town', predicate => 'born < now()');
SELECT index_table.create('people', 'town', predicate => 'ctid IS NOT NULL');
SELECT index_table.create('people', 'town', predicate => 'failing(town) = ''x''');
\set VERBOSITY default
SELECT * FROM leftovers();

-- The other arguments.
SELECT index_table.create('people', 'town', 'covering');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', NULL);
\echo :SQLSTATE
SELECT index_table.create('people', 'town', include => 'name');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'denormalized', include => 'name');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => 'name, city');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => 'name, town');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => 'name, name');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => '');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => 'xmin');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', 'partial', include => 'upper(name)');
\echo :SQLSTATE
\set VERBOSITY sqlstate
SELECT index_table.create('bare', 'a', identity => 'a', maintenance => 'deferred');
SELECT index_table.create('people', 'town', identity => 'town', maintenance => 'deferred');
\set VERBOSITY default
SELECT index_table.create('people', 'town', is_unique => true, maintenance => 'deferred');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', maintenance => 'sometimes');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', maintenance => NULL);
\echo :SQLSTATE
SELECT index_table.create('people', 'town', partitions => -1);
\echo :SQLSTATE
SELECT index_table.create('people', 'town', partitions => 100000);
\echo :SQLSTATE
SELECT index_table.create('people', 'id', partitions => 2, tablespace => 'nowhere');
\echo :SQLSTATE
SELECT index_table.create('people', 'id', tablespace => 'nowhere');
SELECT index_table.create('people', 'id', tablespace => '');
\echo :SQLSTATE
SELECT index_table.create('people', 'id', tablespace => 'pg_global');
\echo :SQLSTATE
CREATE TABLE cash (id int PRIMARY KEY, amount money);
\set VERBOSITY terse
SELECT index_table.create('cash', 'amount', partitions => 2);
\echo :SQLSTATE
\set VERBOSITY default
DROP TABLE cash;
SELECT * FROM leftovers();

-- Names.
SELECT index_table.create('people', 'town', name => 'people');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'people_pkey');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'nowhere.people_by_town');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'a.b.c');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => '');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'people by town');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'x; DROP TABLE people');
\echo :SQLSTATE
\set VERBOSITY sqlstate
SELECT index_table.create('people', 'town', name => 'pg_catalog.people_by_town');
SELECT index_table.create('people', 'town', name => 'pg_temp.people_by_town');
\set VERBOSITY default
CREATE DOMAIN taken AS int;
\set VERBOSITY terse
SELECT index_table.create('people', 'town', name => 'taken');
\echo :SQLSTATE
\set VERBOSITY default
DROP DOMAIN taken;

-- Not while this session reads or writes the table.
\set VERBOSITY sqlstate
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM people;
FETCH c;
SELECT index_table.create('people', 'town');
ROLLBACK;
SELECT index_table.create('bare', 'a', identity => 'a') FROM bare;
INSERT INTO bare VALUES (1, 'b');
INSERT INTO bare SELECT 1, index_table.create('bare', 'a', identity => 'a')::text;
UPDATE bare SET b = index_table.create('bare', 'b', identity => 'a')::text;
INSERT INTO people (id, town) SELECT 3, index_table.create('people', 'town')::text;
INSERT INTO people_1 (id, town) SELECT 3, index_table.create('people', 'town')::text;
\set VERBOSITY default
-- Nor by nothing.
SELECT index_table.create('people', ' ');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', predicate => '');
\echo :SQLSTATE
-- Nor over an index table, nor in a read-only transaction.
SELECT index_table.create('people', 'town', partitions => 1);
SELECT index_table.create('people_by_town', 'town', identity => 'town');
\echo :SQLSTATE
SELECT index_table.create('people_by_town_p0', 'town', identity => 'town');
\echo :SQLSTATE
SELECT index_table.drop('people_by_town');
BEGIN READ ONLY;
\set VERBOSITY sqlstate
SELECT index_table.create('people', 'town');
ROLLBACK;
SELECT index_table.create('people', 'town');
SELECT index_table.capture('people');
BEGIN READ ONLY;
SELECT index_table.drop('people_by_town');
ROLLBACK;
BEGIN READ ONLY;
SELECT index_table.set_visible('people_by_town', false);
ROLLBACK;
BEGIN READ ONLY;
SELECT index_table.release('people');
ROLLBACK;
\set VERBOSITY default
SELECT is_visible FROM index_table.index_tables WHERE index_table = 'people_by_town'::regclass;
SELECT index_table.drop('people_by_town'), index_table.release('people');
-- Nobody changes an index table directly, a partition or the log of one: not even its owner.
SELECT index_table.create('people', 'town', partitions => 1, name => 'guarded');
INSERT INTO guarded SELECT * FROM guarded;
\echo :SQLSTATE
\set VERBOSITY sqlstate
UPDATE guarded SET town = 'x';
DELETE FROM guarded;
TRUNCATE guarded;
INSERT INTO guarded_p0 SELECT * FROM guarded_p0;
DELETE FROM guarded_p0 WHERE false;
TRUNCATE guarded_p0;
COPY guarded FROM stdin;
\.
-- PostgreSQL before 17 says that there are rules.
DO $$ BEGIN
    MERGE INTO guarded USING (SELECT 1) AS s ON true WHEN MATCHED THEN DELETE;
    RAISE 'not refused';
EXCEPTION WHEN wrong_object_type OR feature_not_supported THEN NULL; END $$;
WITH d AS (DELETE FROM guarded RETURNING *) SELECT * FROM d;
CREATE TABLE towns (town text PRIMARY KEY);
INSERT INTO towns SELECT DISTINCT town FROM guarded WHERE town IS NOT NULL;
ALTER TABLE guarded ADD FOREIGN KEY (town) REFERENCES towns ON DELETE CASCADE ON UPDATE CASCADE;
DELETE FROM towns WHERE town IN (SELECT town FROM guarded);
UPDATE towns SET town = town || '!' WHERE town IN (SELECT town FROM guarded);
TRUNCATE towns CASCADE;
\set VERBOSITY default
INSERT INTO recomputation VALUES ('guarded', 'town, partition_id, id', 'people b');
SELECT * FROM differences();
-- What replicas do is none of the guard's business.
BEGIN;
SET LOCAL session_replication_role = replica;
DELETE FROM guarded;
SELECT count(*) > 0 AS missing FROM differences();
ROLLBACK;
DELETE FROM recomputation;
DROP TABLE guarded, towns;
-- A failure that is caught leaves nothing either.
DO $$
BEGIN
    PERFORM index_table.create('people', 'failing(town)');
EXCEPTION WHEN SQLSTATE 'P0042' THEN
    RAISE WARNING 'caught';
END $$;
SELECT * FROM leftovers();

-- After all that, everything works.
SELECT index_table.create('people', 'town');
INSERT INTO people (id, town) VALUES (2, 'c'), (12, 'd');
INSERT INTO recomputation VALUES ('people_by_town', 'town, partition_id, id', 'people b');
SELECT * FROM differences();

DROP SCHEMA errors CASCADE;
DROP ROLE regress_errors;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
