-- How far index tables lag behind that are maintained deferred over local partitions, and what comes of it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA queue_lag;
SET search_path = queue_lag;
LOAD 'index_table';

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (1000);
CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (1000) TO (100000);
INSERT INTO people SELECT i, 'Town ' || i % 50 FROM generate_series(1, 2000) AS i;
SELECT index_table.create('people', 'town', maintenance => 'deferred');
CREATE TABLE plain (id int PRIMARY KEY, town text);
SELECT index_table.create('plain', 'town');
INSERT INTO recomputation VALUES ('people_by_town', 'town, partition_id, id', 'people b'), ('plain_by_town', 'town, partition_id, id', 'plain b');
ANALYZE people;
-- A town that is too long for a B-tree.
CREATE FUNCTION too_long() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(md5(i::text), '') FROM generate_series(1, 125) AS i $$;
CREATE VIEW queued AS
    SELECT index_table, partition, server, pending, oldest BETWEEN now() - interval '1 hour' AND now() AS oldest, refused, left(error, 14) AS error, tries
      FROM index_table.queue WHERE index_table IN ('people_by_town'::regclass, 'plain_by_town'::regclass);
CREATE VIEW lags AS
    SELECT index_table, pending, lag > interval '0' AS lags, lag < interval '1 hour' AS recently
      FROM index_table.stat WHERE index_table IN ('people_by_town'::regclass, 'plain_by_town'::regclass) ORDER BY index_table::text;
CREATE FUNCTION uses(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    line text;
    found boolean := false;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        found := found OR line LIKE '%Index Table: people_by_town%';
    END LOOP;
    RETURN found;
END $$;
\set query 'SELECT uses($$ SELECT * FROM people WHERE town = \'Town 7\' $$);'

-- What is queued, before and after it is drained. A snapshot sees its own changes and no later ones.
TABLE queued;
TABLE lags;
INSERT INTO people VALUES (2001, 'Rome'), (2002, 'Oslo');
UPDATE people SET town = 'Bonn' WHERE id <= 3;
BEGIN;
DELETE FROM people WHERE id = 4;
SELECT pending FROM queued;
ROLLBACK;
TABLE queued;
TABLE lags;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
CALL index_table.drain('people_by_town');
TABLE queued;
TABLE lags;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
-- What nobody can drain before it is committed is not waited for.
BEGIN;
INSERT INTO people VALUES (2003, 'Rome');
SELECT index_table.wait_caught_up('people_by_town', '0 s');
SAVEPOINT s;
INSERT INTO people VALUES (2004, 'Rome');
SELECT index_table.wait_caught_up('people_by_town', '0 s');
SELECT pending FROM queued;
ROLLBACK;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
SELECT * FROM differences();

-- What cannot be entered is set aside, and does not lag.
INSERT INTO people VALUES (2010, too_long()), (2011, 'Rome'), (2012, too_long() || 'x');
TABLE lags;
CALL index_table.drain('people_by_town');
TABLE queued;
TABLE lags;
SELECT problem, count(*) FROM differences() GROUP BY problem;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
UPDATE people SET town = 'Short' WHERE id = 2012;
SELECT pending, refused FROM queued;
SELECT lags FROM lags WHERE index_table = 'people_by_town'::regclass;
SELECT index_table.retry('people_by_town');
CALL index_table.drain('people_by_town');
TABLE queued;
TABLE lags;
DELETE FROM people WHERE id = 2010;
SELECT index_table.retry('people_by_town');
CALL index_table.drain('people_by_town');
TABLE queued;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
SELECT * FROM differences();
SELECT index_table.retry('plain_by_town');
\echo :SQLSTATE

-- Who may see it: numbers everybody, in detail the owner.
CREATE ROLE regress_queue_lag_nobody;
INSERT INTO people VALUES (2020, 'Rome');
GRANT USAGE ON SCHEMA queue_lag TO regress_queue_lag_nobody;
SET ROLE regress_queue_lag_nobody;
SELECT index_table, pending, lag > interval '0' AS lags FROM index_table.stat WHERE index_table IN ('people_by_town'::regclass, 'plain_by_town'::regclass) ORDER BY index_table::text;
SELECT * FROM index_table.queue;
SELECT count(*) FROM people_by_town_queue;
\echo :SQLSTATE
RESET ROLE;
REVOKE ALL ON SCHEMA queue_lag FROM regress_queue_lag_nobody;
DROP ROLE regress_queue_lag_nobody;
CALL index_table.drain('people_by_town');

-- avoid: queries do without what lags too far, under either consistency; changes of their own do not count.
SHOW index_table.on_lag;
INSERT INTO people VALUES (2031, 'Rome'), (2032, 'Rome');
:query
SET index_table.max_lag_changes = 2;
:query
SET index_table.max_lag_changes = 1;
:query
SET index_table.read_consistency = eventual;
:query
SET index_table.enable_scan = force;
:query
RESET index_table.read_consistency;
:query
SELECT * FROM people WHERE town = 'Rome' ORDER BY id;
RESET index_table.enable_scan;
SET index_table.on_lag = warn;
:query
SET index_table.on_lag = wait;
:query
SET index_table.on_lag = avoid;
CALL index_table.drain('people_by_town');
SET index_table.max_lag_changes = 1;
:query
BEGIN;
INSERT INTO people VALUES (2033, 'Rome'), (2034, 'Rome'), (2035, 'Rome');
SAVEPOINT s;
INSERT INTO people VALUES (2036, 'Rome');
SET index_table.max_lag_changes = 1;
:query
COMMIT;
SET index_table.max_lag_changes = 1;
:query
-- Plans that were made stay, until a setting is changed.
CALL index_table.drain('people_by_town');
SET index_table.max_lag_changes = 1;
SET plan_cache_mode = force_generic_plan;
PREPARE by_town AS SELECT * FROM people WHERE town = 'Town 7';
SELECT uses('EXECUTE by_town');
INSERT INTO people VALUES (2037, 'Rome'), (2038, 'Rome');
SELECT uses('EXECUTE by_town');
SET index_table.max_lag_changes = 0;
SELECT uses('EXECUTE by_town');
SET index_table.max_lag_changes = 1;
SELECT uses('EXECUTE by_town');
SET index_table.on_lag = warn;
SELECT uses('EXECUTE by_town');
CALL index_table.drain('people_by_town');
DEALLOCATE by_town;
RESET plan_cache_mode;
-- What is set aside does not count.
INSERT INTO people VALUES (2041, too_long()), (2042, too_long());
CALL index_table.drain('people_by_town');
SET index_table.on_lag = avoid;
SET index_table.max_lag_changes = 1;
:query
DELETE FROM people WHERE id IN (2041, 2042);
SELECT index_table.retry('people_by_town');
CALL index_table.drain('people_by_town');
-- Seconds.
RESET index_table.max_lag_changes;
INSERT INTO people VALUES (2051, 'Rome');
SELECT pg_sleep(1.2);
SET index_table.max_lag = 1;
:query
SET index_table.max_lag = 3600;
:query
CALL index_table.drain('people_by_town');
SET index_table.max_lag = 1;
:query
RESET index_table.max_lag;
SET index_table.max_lag_changes = -1;
\echo :SQLSTATE
SET index_table.on_lag = never;
\echo :SQLSTATE

-- warn: once a transaction.
\set VERBOSITY terse
SET index_table.on_lag = warn;
INSERT INTO people VALUES (2061, 'Rome'), (2062, 'Rome');
SET index_table.max_lag_changes = 1;
BEGIN;
INSERT INTO people VALUES (2063, 'Rome');
UPDATE people SET town = 'Oslo' WHERE id = 2063;
COMMIT;
DELETE FROM people WHERE id = 2062;
UPDATE people_2 SET town = 'Bari' WHERE id = 2063;
SELECT count(*) FROM people WHERE town = 'Oslo';
COPY people FROM stdin;
2064	Rome
\.
INSERT INTO plain VALUES (1, 'Rome');
CALL index_table.drain('people_by_town');
SET index_table.max_lag_changes = 1;
-- Its own changes are none to be warned of, or to be waited for.
BEGIN;
INSERT INTO people VALUES (2065, 'Rome'), (2066, 'Rome');
SET index_table.max_lag_changes = 1;
INSERT INTO people VALUES (2067, 'Rome');
SET index_table.on_lag = wait;
INSERT INTO people VALUES (2068, 'Rome');
COMMIT;
CALL index_table.drain('people_by_town');
SET index_table.max_lag_changes = 1;
INSERT INTO people VALUES (2069, 'Rome');
RESET index_table.max_lag_changes;
RESET index_table.on_lag;
CALL index_table.drain('people_by_town');
SELECT * FROM differences();

-- Without a queue there is nothing to tell.
SELECT index_table.set_maintenance('people_by_town', 'immediate');
TABLE queued;
TABLE lags;
SELECT index_table.wait_caught_up('people_by_town', '0 s');
SELECT * FROM differences();
DELETE FROM recomputation;

-- What statements on a parent change in a table that inherits from it is not queued, and so refused.
\set VERBOSITY default
CREATE TABLE parent (id int, v text);
CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (parent);
SELECT index_table.create('heir', 'v', maintenance => 'deferred');
\echo :SQLSTATE
SELECT index_table.create('heir', 'v');
SELECT index_table.set_maintenance('heir_by_v', 'deferred');
\echo :SQLSTATE
CREATE TABLE late_heir (id int PRIMARY KEY, v text);
SELECT index_table.create('late_heir', 'v', maintenance => 'deferred');
ALTER TABLE late_heir INHERIT parent;
\echo :SQLSTATE
SELECT index_table.set_maintenance('late_heir_by_v', 'immediate');
ALTER TABLE late_heir INHERIT parent;
INSERT INTO heir SELECT i, 'v' || i % 3 FROM generate_series(1, 10) AS i;
INSERT INTO late_heir SELECT i, 'v' || i % 3 FROM generate_series(11, 20) AS i;
UPDATE parent SET v = 'changed' WHERE id % 4 = 0;
DELETE FROM parent WHERE id % 5 = 1;
CALL index_table.drain();
INSERT INTO recomputation VALUES ('heir_by_v', 'b.v, p.partition_id, b.id', 'heir AS b', DEFAULT), ('late_heir_by_v', 'b.v, p.partition_id, b.id', 'late_heir AS b', DEFAULT);
SELECT * FROM differences();
DELETE FROM recomputation;
DROP TABLE parent CASCADE;
DROP SCHEMA queue_lag CASCADE;
