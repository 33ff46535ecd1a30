-- Deferred maintenance of tables with foreign partitions: those through their queues alone, local ones at once.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA remote;
CREATE SCHEMA deferred;
SET search_path = deferred;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

DO $$
BEGIN
    EXECUTE format('CREATE SERVER regress_deferred FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_deferred;
CREATE TABLE remote.a (id int PRIMARY KEY, region text, town text);
CREATE TABLE remote.b (id int PRIMARY KEY, region text, town text);
CREATE TABLE people (id int NOT NULL, region text, town text) PARTITION BY LIST (region);
CREATE FOREIGN TABLE people_a PARTITION OF people FOR VALUES IN ('a') SERVER regress_deferred OPTIONS (schema_name 'remote', table_name 'a');
CREATE TABLE people_here PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN ('here');
INSERT INTO people SELECT i, (ARRAY['a', 'here'])[1 + i % 2], 'Town ' || i % 7 FROM generate_series(1, 40) AS i;
CREATE TABLE plain (id int PRIMARY KEY, town text);
CREATE VIEW triggers AS SELECT tgrelid::regclass, tgparentid <> 0 AS cloned FROM pg_trigger WHERE tgname = 'index_table_maintain' AND tgrelid::regclass::text LIKE 'people%' ORDER BY tgrelid::regclass::text COLLATE "C";

-- What it needs.
\set VERBOSITY sqlstate
SELECT index_table.create('plain', 'id', identity => 'town', maintenance => 'deferred');
\set VERBOSITY default
SELECT index_table.create('people', 'town', identity => 'id', maintenance => 'later');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', identity => 'id', is_unique => true, maintenance => 'deferred');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', identity => 'id', maintenance => 'deferred');
\echo :SQLSTATE
SELECT index_table.capture('remote.a');
SELECT index_table.create('people', 'town', identity => 'id', maintenance => 'deferred');
SELECT index_table, maintenance FROM index_table.index_tables WHERE base = 'people'::regclass;
INSERT INTO recomputation VALUES ('people_by_town', 'town, partition_id, id', 'people b');
SELECT * FROM differences();
TABLE triggers;

-- Changes come with the drain, those of local partitions at once. Foreign ones are deleted by one statement.
INSERT INTO people VALUES (101, 'a', 'Rome'), (102, 'here', 'Rome'), (103, 'a', 'Oslo');
UPDATE people SET town = 'Bonn' WHERE id <= 6;
UPDATE people SET town = 'Bari' WHERE id <= 3;
DELETE FROM people WHERE id IN (7, 8);
INSERT INTO remote.a VALUES (104, 'a', 'Rome');
EXPLAIN (COSTS OFF) DELETE FROM people_a WHERE town = 'Rome';
SELECT problem, count(*) FROM differences() GROUP BY problem ORDER BY problem;
SELECT partition, server, pending, refused, error, tries FROM index_table.queue WHERE index_table = 'people_by_town'::regclass;
SELECT index_table.wait_caught_up('people_by_town', '100 ms');
-- Queries do without it, unless they take what they can get.
LOAD 'index_table';
SET index_table.enable_scan = force;
SELECT * FROM people WHERE town = 'Rome' ORDER BY id;
SET index_table.read_consistency = eventual;
SELECT * FROM people WHERE town = 'Rome' ORDER BY id;
CALL index_table.drain('people_by_town');
SELECT * FROM people WHERE town = 'Rome' ORDER BY id;
RESET index_table.read_consistency;
RESET index_table.enable_scan;
SELECT * FROM differences();
SELECT index_table.wait_caught_up('people_by_town', '100 ms');
SELECT partition, server, pending, oldest, refused, error, tries FROM index_table.queue WHERE index_table = 'people_by_town'::regclass;

-- Partitions that come and go.
CREATE FOREIGN TABLE people_b PARTITION OF people FOR VALUES IN ('b') SERVER regress_deferred OPTIONS (schema_name 'remote', table_name 'b');
\echo :SQLSTATE
SELECT index_table.capture('remote.b');
INSERT INTO remote.b VALUES (200, 'b', 'Before');
CREATE FOREIGN TABLE people_b PARTITION OF people FOR VALUES IN ('b') SERVER regress_deferred OPTIONS (schema_name 'remote', table_name 'b');
CREATE TABLE people_c PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN ('c');
CREATE TABLE people_d (town text, region text, id int PRIMARY KEY);
INSERT INTO people_d VALUES ('Attached', 'd', 300);
ALTER TABLE people ATTACH PARTITION people_d FOR VALUES IN ('d');
TABLE triggers;
SELECT * FROM differences();
INSERT INTO people VALUES (201, 'b', 'b'), (202, 'c', 'c'), (203, 'd', 'd');
UPDATE people SET region = 'd' WHERE id = 202;
ALTER TABLE people DETACH PARTITION people_c;
CALL index_table.drain();
SELECT * FROM differences();
TABLE triggers;
TRUNCATE people_b;
INSERT INTO people VALUES (204, 'b', 'after');
TRUNCATE people_d;
CALL index_table.drain();
SELECT * FROM differences();

-- Beside one that is maintained immediately; one becomes the other.
SELECT index_table.create('people', 'town, id', name => 'at_once', identity => 'id');
INSERT INTO recomputation VALUES ('at_once', 'town, id, partition_id', 'people b');
TABLE triggers;
INSERT INTO people VALUES (301, 'a', 'Both'), (302, 'here', 'Both');
SELECT index_table, problem FROM differences();
CALL index_table.drain();
SELECT * FROM differences();
SELECT index_table.set_maintenance('at_once', 'deferred');
TABLE triggers;
UPDATE people SET town = 'Later' WHERE id IN (301, 302);
SELECT index_table, problem FROM differences();
SELECT index_table.set_maintenance('people_by_town', 'immediate');
TABLE triggers;
CALL index_table.drain();
SELECT * FROM differences();
UPDATE people SET town = 'Now' WHERE id IN (301, 302);
SELECT index_table, problem FROM differences();
SELECT index_table.set_maintenance('people_by_town', 'deferred');
CALL index_table.drain();
DELETE FROM recomputation WHERE index_table = 'at_once'::regclass;
SELECT index_table.drop('at_once');
TABLE triggers;
SELECT index_table.repair('people_by_town');
SELECT index_table.set_maintenance('people_by_town', 'never');
\echo :SQLSTATE
SELECT index_table.release('remote.b');
SELECT index_table.set_maintenance('people_by_town', 'immediate');
SELECT index_table.set_maintenance('people_by_town', 'deferred');
\echo :SQLSTATE

-- A base table that is itself a foreign one.
CREATE TABLE remote.events ("Day" date NOT NULL, n numeric(8, 2), tags text[], id uuid NOT NULL, PRIMARY KEY ("Day", id));
CREATE FOREIGN TABLE alone (id uuid NOT NULL, tags text[], day date OPTIONS (column_name 'Day') NOT NULL, n numeric(8, 2)) SERVER regress_deferred OPTIONS (schema_name 'remote', table_name 'events');
SELECT index_table.capture('remote.events');
SELECT index_table.create('alone', 'n', 'denormalized', identity => 'day, id', maintenance => 'deferred');
SELECT index_table.create('alone', 'tags', identity => 'id, day', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('alone_by_n', 'n, partition_id, day, id, tags', 'alone b'),
    ('alone_by_tags', 'tag, partition_id, id, day', 'alone b CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags)) AS m (tag)');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'alone'::regclass;
SET DateStyle = 'German';
INSERT INTO alone SELECT md5(i::text)::uuid, ARRAY['a"b', 'c,d', NULL, i::text], date '2024-06-01' + i * 100, i FROM generate_series(1, 4) AS i;
CALL index_table.drain('alone_by_n');
SELECT * FROM differences();
SELECT count(*) FROM alone_by_tags;
UPDATE remote.events SET "Day" = "Day" + interval '1 year', n = n * 1.5 WHERE "Day" < '2025-01-01';
UPDATE remote.events SET tags = '{}' WHERE n = 4;
DELETE FROM remote.events WHERE n = 3;
CALL index_table.drain('alone_by_tags');
SELECT * FROM differences();
SELECT n, day FROM alone_by_n ORDER BY n;
TRUNCATE remote.events;
INSERT INTO remote.events VALUES ('2025-05-05', 7, '{7}', md5('7')::uuid);
CALL index_table.drain('alone_by_tags');
SELECT * FROM differences();
RESET DateStyle;
TRUNCATE alone;
CALL index_table.drain('alone_by_tags');
SELECT * FROM differences();
DELETE FROM recomputation WHERE rows LIKE 'alone%';
DROP FOREIGN TABLE alone;
SELECT index_table FROM index_table.definition WHERE base NOT IN (SELECT oid FROM pg_class);

-- Who may.
CREATE ROLE regress_deferred_nobody;
GRANT USAGE ON SCHEMA deferred TO regress_deferred_nobody;
SET ROLE regress_deferred_nobody;
SELECT index_table.set_maintenance('people_by_town', 'deferred');
\echo :SQLSTATE
SELECT index_table.wait_caught_up('people_by_town');
\echo :SQLSTATE
SELECT * FROM index_table.queue;
RESET ROLE;
REVOKE ALL ON SCHEMA deferred FROM regress_deferred_nobody;
DROP ROLE regress_deferred_nobody;

SELECT * FROM differences();
SELECT index_table.drop('people_by_town');
TABLE triggers;
DROP SCHEMA deferred, remote CASCADE;
DROP SERVER regress_deferred CASCADE;
