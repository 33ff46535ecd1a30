-- Draining: rows written on the shards, past the coordinator, arrive in its index tables. The shards are tables of this database.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA remote;
CREATE SCHEMA drain;
SET search_path = drain;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

DO $$
BEGIN
    EXECUTE format('CREATE SERVER regress_drain FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_drain;

-- One local partition, and foreign ones; one has its columns in another order, one of them under another name.
CREATE TABLE remote.a (id int, region text NOT NULL, email text, tags text[], town text, n numeric, PRIMARY KEY (id));
CREATE TABLE remote.b (n numeric, tags text[], town text, email text, region text NOT NULL, k int PRIMARY KEY);
CREATE TABLE remote.c (id int PRIMARY KEY, region text NOT NULL, email text, tags text[], town text, n numeric);
CREATE TABLE people (id int NOT NULL, gone int, region text NOT NULL, email text, tags text[], town text, n numeric) PARTITION BY LIST (region);
ALTER TABLE people DROP COLUMN gone;
CREATE FOREIGN TABLE people_a PARTITION OF people FOR VALUES IN ('a') SERVER regress_drain OPTIONS (schema_name 'remote', table_name 'a');
CREATE FOREIGN TABLE people_b (n numeric, tags text[], town text, email text, region text NOT NULL, id int OPTIONS (column_name 'k') NOT NULL)
    SERVER regress_drain OPTIONS (schema_name 'remote', table_name 'b');
ALTER TABLE people ATTACH PARTITION people_b FOR VALUES IN ('b');
CREATE FOREIGN TABLE people_c PARTITION OF people FOR VALUES IN ('c') SERVER regress_drain OPTIONS (schema_name 'remote', table_name 'c');
CREATE TABLE people_here PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN ('here');
INSERT INTO people SELECT i, (ARRAY['a', 'b', 'c', 'here'])[1 + i % 4], 'mail ' || i, ARRAY['t' || i % 3, 't' || i % 5], 'Town ' || i % 7, i FROM generate_series(1, 80) AS i;
SELECT index_table.create('people', 'email', is_unique => true, identity => 'id, region');
SELECT index_table.create('people', 'lower(town)', 'denormalized', name => 'by_town', identity => 'id, region', partitions => 2);
SELECT index_table.create('people', 'tags', 'partial', include => 'n', identity => 'id, region');
SELECT index_table.create('people', 'n', predicate => 'n > 10', identity => 'region, id');
INSERT INTO recomputation VALUES
    ('people_by_email', 'email, partition_id, id, region', 'people b', 'true'),
    ('by_town', 'lower(town), partition_id, id, region, email, tags, town, n', 'people b', 'true'),
    ('people_by_tags', 'tag, partition_id, id, region, n', 'people b CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags)) AS m (tag)', 'true'),
    ('people_by_n', 'n, partition_id, region, id', 'people b', 'n > 10');
SELECT * FROM differences();
-- What is not captured is not drained.
CALL index_table.drain();
SELECT * FROM index_table.undrained;

SELECT index_table.capture('remote.a'), index_table.capture('remote.b'), index_table.capture('remote.c');
-- What the coordinator writes is there already.
UPDATE people SET town = 'New', n = n + 1 WHERE id < 20;
INSERT INTO people VALUES (201, 'a', 'mail 201', '{x}', 'Rome', 1), (202, 'b', 'mail 202', '{x,y}', 'Rome', 100);
DELETE FROM people WHERE id IN (30, 31, 32, 33);
SELECT count(*) FROM people_by_tags;
CALL index_table.drain('people_by_email');
SELECT count(*) FROM people_by_tags;
SELECT * FROM differences();
SELECT changes FROM index_table.backlog('remote.a');
-- They have got an index by which entries of a row are found; only once.
SELECT indexdef FROM pg_indexes WHERE schemaname = 'drain' AND indexdef LIKE '%(id,%' OR indexdef LIKE '%(k,%' ORDER BY indexname COLLATE "C";

-- Every kind of change, past the coordinator.
INSERT INTO remote.a SELECT i, 'a', 'direct ' || i, ARRAY['d', 't' || i % 3], 'Direct', i FROM generate_series(1001, 1040) AS i;
UPDATE remote.a SET town = upper(town), tags = tags || ARRAY['more', NULL], n = n * 1.0 WHERE id < 40;
UPDATE remote.b SET k = k + 500 WHERE k < 20;
UPDATE remote.b SET n = 5 WHERE k > 60;
DELETE FROM remote.c WHERE id > 40;
INSERT INTO remote.c VALUES (300, 'c', NULL, NULL, NULL, NULL);
UPDATE remote.c SET email = 'c ' || id;
COPY remote.c FROM stdin WITH (FORMAT csv);
301,c,copied,{x},Town,77
\.
SELECT count(*) > 0 AS differ FROM differences();
CALL index_table.drain();
SELECT * FROM differences();
SELECT a.changes, b.changes, c.changes FROM index_table.backlog('remote.a') AS a, index_table.backlog('remote.b') AS b, index_table.backlog('remote.c') AS c;
-- In small batches; twice; changed and undone.
SET index_table.drain_batch = 3;
UPDATE remote.a SET email = 'again ' || id;
UPDATE remote.a SET n = 0 WHERE id < 20;
DELETE FROM remote.a WHERE id BETWEEN 1001 AND 1003;
INSERT INTO remote.a SELECT 1001, 'a', 'back';
INSERT INTO remote.b SELECT i FROM generate_series(1, 0) AS i;
CALL index_table.drain();
SELECT * FROM differences();
RESET index_table.drain_batch;
CALL index_table.drain();
SELECT * FROM differences();

-- Drained again, nothing happens: here the numbers are not discarded at the end, as when the coordinator dies.
CREATE TABLE kept AS TABLE remote.a_outbox;
UPDATE remote.a SET town = 'kept';
INSERT INTO kept SELECT * FROM remote.a_outbox;
CALL index_table.drain();
INSERT INTO remote.a_outbox OVERRIDING SYSTEM VALUE SELECT * FROM kept;
CREATE TABLE entries AS SELECT ctid AS place, * FROM people_by_email;
CALL index_table.drain();
SELECT * FROM differences();
SELECT count(*) FROM (SELECT ctid, * FROM people_by_email EXCEPT TABLE entries) AS written;
SELECT changes FROM index_table.backlog('remote.a');

-- TRUNCATE, with rows before and after it.
UPDATE remote.b SET town = 'before';
TRUNCATE remote.b;
INSERT INTO remote.b (k, region, email) VALUES (1, 'b', 'after');
SELECT partition_id AS before FROM index_table.partition WHERE relation = 'people_b'::regclass \gset
CALL index_table.drain();
SELECT partition_id > :before AS renumbered FROM index_table.partition WHERE relation = 'people_b'::regclass;
SELECT * FROM differences();
TRUNCATE people_c;
INSERT INTO people VALUES (1, 'c', 'mail c1');
CALL index_table.drain();
SELECT * FROM differences();

-- A unique key that is there twice: the row is noted, others are not kept waiting, and it is tried again.
INSERT INTO people VALUES (500, 'here', 'mine');
INSERT INTO remote.a VALUES (600, 'a', 'six hundred', '{x}', 'Town', 50), (601, 'a', 'mine', '{x}', 'Town', 50), (602, 'a', 'six hundred two', NULL, NULL, NULL);
CALL index_table.drain();
SELECT index_table, problem FROM differences();
SELECT leaf, identity, error, tries FROM index_table.undrained;
CALL index_table.drain();
SELECT leaf, identity, tries FROM index_table.undrained;
SELECT p::regclass AS left_out_of_dumps FROM index_table.unsettled_partitions() AS p;
SELECT changes FROM index_table.backlog('remote.a');
DELETE FROM people WHERE id = 500;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();

-- Rows that exchange keys: in two partitions, and in two batches of one.
INSERT INTO people (id, region, email, town) VALUES (510, 'a', 'a one', 'Town'), (510, 'b', 'b one', 'Town'), (511, 'a', 'a two', 'Town'), (512, 'a', 'a three', 'Town');
CALL index_table.drain();
UPDATE remote.a SET email = 'b one' WHERE id = 510;
UPDATE remote.b SET email = 'a one' WHERE k = 510;
UPDATE remote.a SET email = 'for a moment' WHERE id = 511;
UPDATE remote.a SET email = 'a two' WHERE id = 512;
UPDATE remote.a SET email = 'a three' WHERE id = 511;
SET index_table.drain_batch = 1;
CALL index_table.drain();
CALL index_table.drain();
RESET index_table.drain_batch;
SELECT * FROM index_table.undrained;
SELECT * FROM differences();

-- Partitions that cannot be drained are noted, and warned of; the others are drained.
SELECT index_table.release('remote.b');
SELECT index_table.capture('remote.b');
INSERT INTO remote.a (id, region, email) VALUES (700, 'a', 'seven hundred');
INSERT INTO remote.b (k, region, email) VALUES (700, 'b', 'seven hundred b');
ALTER FOREIGN TABLE people_a OPTIONS (SET table_name 'nowhere');
CALL index_table.drain();
SELECT leaf, identity, error, tries FROM index_table.undrained;
ALTER FOREIGN TABLE people_a OPTIONS (SET table_name 'a');
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();
-- DDL on the shards that changes values. Names are what columns are known by here.
ALTER TABLE remote.c ADD spare text DEFAULT 'Spare';
CALL index_table.drain();
ALTER TABLE remote.a ALTER town TYPE text USING reverse(town), ALTER email TYPE varchar;
ALTER TABLE remote.b DROP town, ALTER n TYPE numeric(6, 1) USING n + 100;
ALTER TABLE remote.b ADD town text DEFAULT 'New';
ALTER TABLE remote.c RENAME town TO was;
ALTER TABLE remote.c RENAME spare TO town;
SELECT count(*) > 0 AS differ FROM differences();
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();
SET index_table.enable_scan = force;
SELECT region, count(*) FROM people WHERE lower(town) IN ('spare', 'new', 'tpek') GROUP BY region ORDER BY region;
SET index_table.enable_scan = off;
SELECT region, count(*) FROM people WHERE lower(town) IN ('spare', 'new', 'tpek') GROUP BY region ORDER BY region;
RESET index_table.enable_scan;
-- Captured by columns that entries do not have.
SELECT index_table.release('remote.c');
ALTER TABLE remote.c ADD UNIQUE (email), ALTER COLUMN email SET NOT NULL;
SELECT index_table.capture('remote.c', 'email');
CALL index_table.drain();
SELECT leaf, identity, tries FROM index_table.undrained;
SELECT index_table.release('remote.c');
CALL index_table.drain();
SELECT * FROM index_table.undrained;

-- An identity whose type has a cast to text that tells other values than those which are read.
CREATE TYPE remote.level AS ENUM ('low', 'high', 'mid');
CREATE FUNCTION remote.label(remote.level) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT CASE $1 WHEN 'low' THEN 'high' WHEN 'high' THEN 'low' ELSE 'none' END $$;
CREATE CAST (remote.level AS text) WITH FUNCTION remote.label(remote.level);
CREATE TABLE remote.levels (level remote.level, active bool, town text, PRIMARY KEY (level, active));
CREATE TABLE levels (level remote.level NOT NULL, active bool NOT NULL, town text) PARTITION BY LIST (active);
CREATE FOREIGN TABLE levels_1 PARTITION OF levels FOR VALUES IN (true) SERVER regress_drain OPTIONS (schema_name 'remote', table_name 'levels');
SELECT index_table.capture('remote.levels');
SELECT index_table.create('levels', 'town', identity => 'level, active');
INSERT INTO recomputation VALUES ('levels_by_town', 'town, partition_id, level, active', 'levels b', 'true');
INSERT INTO remote.levels VALUES ('low', true, 'Low'), ('high', true, 'High');
SELECT identity FROM index_table.pending('remote.levels', 10) ORDER BY identity;
CALL index_table.drain();
UPDATE remote.levels SET town = 'Changed' WHERE level = 'low';
INSERT INTO remote.levels VALUES ('mid', true, 'Mid');
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();

-- Who may.
CREATE ROLE regress_drain_nobody;
GRANT USAGE ON SCHEMA drain TO regress_drain_nobody;
SET ROLE regress_drain_nobody;
CALL index_table.drain('people_by_email');
\echo :SQLSTATE
CALL index_table.drain();
RESET ROLE;
BEGIN;
CALL index_table.drain();
\echo :SQLSTATE
ROLLBACK;
CALL index_table.drain('people');
\echo :SQLSTATE

REVOKE ALL ON SCHEMA drain FROM regress_drain_nobody;
DROP ROLE regress_drain_nobody;
SELECT * FROM differences();
DROP SCHEMA drain, remote CASCADE;
DROP SERVER regress_drain CASCADE;
SELECT * FROM index_table.undrained;
