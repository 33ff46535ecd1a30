-- verify() finds what is wrong in an index table, repair() mends it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA verify;
SET search_path = verify;
SET session_replication_role = replica; -- may tamper with index tables

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int, region text, town text, amount numeric, phone text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
CREATE TABLE people_b (phone text, x int, id int NOT NULL, amount numeric, region text NOT NULL, town text);
ALTER TABLE people_b DROP COLUMN x;
ALTER TABLE people ATTACH PARTITION people_b FOR VALUES IN ('b');
INSERT INTO people SELECT i, chr(97 + i % 2), nullif('town ' || i % 4, 'town 3'), i, '555-' || i FROM generate_series(1, 20) AS i;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'amount', 'partial', include => 'phone, town');
SELECT index_table.create('people', 'phone', is_unique => true);
SELECT index_table.create('people', 'town, amount DESC', 'denormalized', partitions => 3, name => 'people_parts');
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, region, id', 'people b'),
    ('people_by_amount', 'amount, partition_id, region, id, phone, town', 'people b'),
    ('people_by_phone', 'phone, partition_id, region, id', 'people b'),
    ('people_parts', 'town, amount, partition_id, region, id, phone', 'people b');

-- Nothing to report.
SELECT * FROM index_table.verify('people_by_town');
SELECT index_table.repair('people_by_town');
SELECT * FROM differences();

-- Missing entries.
DELETE FROM people_by_town WHERE id IN (3, 4, 7);
SELECT * FROM index_table.verify('people_by_town') ORDER BY identity;
SELECT count(*) FROM differences();
SELECT index_table.repair('people_by_town');
SELECT * FROM index_table.verify('people_by_town');
SELECT * FROM differences();

-- Stale entries: of rows that are gone, under keys that changed, in the wrong partition, with a NULL key.
INSERT INTO people_by_town SELECT 'ghost', partition_id, region, id FROM people_by_town WHERE id = 3;
INSERT INTO people_by_town SELECT town, partition_id, region, 1000 FROM people_by_town WHERE id = 4;
INSERT INTO people_by_town SELECT NULL, partition_id, region, id FROM people_by_town WHERE id = 5;
INSERT INTO people_by_town SELECT e.town, other.partition_id, e.region, e.id FROM people_by_town AS e, index_table.partition AS other
 WHERE e.id = 6 AND other.relation = 'people_b'::regclass;
-- An entry whose number is not live does not exist: no problem.
INSERT INTO people_by_town SELECT town, -1, region, id FROM people_by_town WHERE id = 8;
SELECT * FROM index_table.verify('people_by_town') ORDER BY identity, key;
SELECT index_table.repair('people_by_town');
SELECT * FROM differences();
-- It is swept away on the occasion.
SELECT count(*) FROM people_by_town WHERE partition_id = -1;

-- Entries that are there twice or more often.
INSERT INTO people_by_town SELECT e.* FROM people_by_town AS e, generate_series(1, 2) WHERE id IN (9, 11) AND partition_id > 0;
SELECT * FROM index_table.verify('people_by_town') ORDER BY identity;
SELECT index_table.repair('people_by_town');
SELECT * FROM differences();

-- Entries with other copies, or with a key that is only equal.
UPDATE people_by_amount SET phone = 'wrong' WHERE id = 1;
UPDATE people_by_amount SET town = NULL WHERE id = 2;
UPDATE people_by_amount SET amount = 4.00 WHERE id = 4;
UPDATE people_by_amount SET town = 'town 3' WHERE id = 7;
SELECT * FROM index_table.verify('people_by_amount') ORDER BY identity;
SELECT index_table.repair('people_by_amount');
SELECT * FROM differences();
INSERT INTO people_by_amount SELECT amount, partition_id, region, id, 'other', town FROM people_by_amount WHERE id = 5;
SELECT * FROM index_table.verify('people_by_amount');
SELECT index_table.repair('people_by_amount');
SELECT * FROM differences();

-- Unique: keys that changed hands; duplicates the damage let in.
DELETE FROM people_by_phone WHERE id IN (1, 2);
INSERT INTO people_by_phone SELECT '555-2', p.partition_id, b.region, b.id FROM people AS b JOIN index_table.partition AS p ON p.relation = b.tableoid WHERE id = 1;
UPDATE people SET phone = NULL WHERE id IN (10, 11, 12);
DELETE FROM people_by_phone WHERE id IN (10, 12);
INSERT INTO people_by_phone SELECT NULL, partition_id, region, id FROM people_by_phone WHERE id IN (11, 13);
SELECT * FROM index_table.verify('people_by_phone') ORDER BY identity, key, problem;
SELECT index_table.repair('people_by_phone');
SELECT * FROM index_table.verify('people_by_phone');
SELECT * FROM differences();
-- When the rows themselves break the promise, repair cannot keep it.
ALTER TABLE people DISABLE TRIGGER index_table_maintain;
UPDATE people SET phone = '555-1' WHERE id = 2;
ALTER TABLE people ENABLE ALWAYS TRIGGER index_table_maintain;
\echo :SQLSTATE
SELECT * FROM index_table.verify('people_by_phone') ORDER BY identity, key, problem;
SELECT index_table.repair('people_by_phone');
\echo :SQLSTATE
UPDATE people SET phone = '555-22' WHERE id = 2;
SELECT * FROM index_table.verify('people_by_phone');
SELECT index_table.repair('people_by_phone');
ALTER TABLE people ENABLE ALWAYS TRIGGER index_table_maintain;
SELECT * FROM differences();

-- An index table in partitions: damage in each of them, and in the wrong one.
DELETE FROM people_parts WHERE id % 5 = 0;
UPDATE people_parts SET phone = 'x' WHERE id % 7 = 0;
INSERT INTO people_parts SELECT * FROM people_parts WHERE id = 4;
INSERT INTO people_parts SELECT 'ghost', amount, partition_id, region, id, phone FROM people_parts WHERE id = 6;
SELECT problem, partition, key, identity FROM index_table.verify('people_parts') ORDER BY identity, key;
SELECT index_table.repair('people_parts');
SELECT * FROM index_table.verify('people_parts');
SELECT * FROM differences();
-- All of it, as after a restore without data.
TRUNCATE people_parts, people_by_amount, people_by_phone, people_by_town;
SELECT count(*) FROM index_table.verify('people_parts');
SELECT index_table.repair('people_parts'), index_table.repair('people_by_amount'), index_table.repair('people_by_phone'), index_table.repair('people_by_town');
SELECT * FROM differences();

-- Changes made behind the triggers' back: disabled triggers, lost numbers, event triggers that were off.
ALTER TABLE people DISABLE TRIGGER ALL;
INSERT INTO people VALUES (100, 'a', 'behind', 100, '555-100');
UPDATE people SET town = 'moved' WHERE id IN (1, 2);
DELETE FROM people WHERE id = 3;
SELECT * FROM index_table.verify('people_by_town') ORDER BY identity, problem;
SELECT index_table.repair('people_by_town'), index_table.repair('people_by_amount'), index_table.repair('people_by_phone'), index_table.repair('people_parts');
SELECT * FROM differences();
UPDATE people SET town = 'moved again' WHERE id IN (1, 2);
ALTER TABLE people ENABLE TRIGGER ALL;
SELECT * FROM differences();
ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
CREATE TABLE people_c (LIKE people INCLUDING INDEXES);
INSERT INTO people_c VALUES (200, 'c', 'quiet', 200, '555-200');
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
INSERT INTO people VALUES (201, 'c', 'loud', 201, '555-201');
\echo :SQLSTATE
SELECT * FROM index_table.verify('people_by_town');
\echo :SQLSTATE
SELECT index_table.repair('people_by_town');
SELECT index_table.repair('people_by_amount'), index_table.repair('people_by_phone'), index_table.repair('people_parts');
INSERT INTO people VALUES (201, 'c', 'loud', 201, '555-201');
TRUNCATE people_c;
SELECT * FROM differences();
CREATE TABLE grown (id int PRIMARY KEY, name text, gone int);
INSERT INTO grown VALUES (1, 'a');
ALTER TABLE grown DROP gone;
SELECT index_table.create('grown', 'name', 'denormalized');
SELECT index_table.create('grown', 'name', name => 'grown_normalized');
INSERT INTO recomputation VALUES ('grown_by_name', 'name, partition_id, id, told', 'grown b');
ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
ALTER TABLE grown ADD untold int DEFAULT 3;
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
ALTER TABLE grown ADD told int;
SELECT * FROM index_table.verify('grown_by_name');
SELECT index_table.repair('grown_by_name');
SELECT index_table.repair('grown_normalized');
INSERT INTO grown VALUES (2, 'b', 4, 5);
SELECT * FROM differences();
DROP TABLE grown;
DELETE FROM recomputation WHERE rows = 'grown b';

-- Keys of many values, expressions and predicates.
CREATE TABLE films (id int PRIMARY KEY, actors text[], year int);
INSERT INTO films VALUES (1, '{Ann,Bob,Ann}', 1990), (2, '{Bob,NULL}', 2000), (3, '{}', 2010), (4, NULL, 2020), (5, '{Cid}', 1980);
SELECT index_table.create('films', 'upper(unnest(actors))', predicate => 'year >= 1990');
SELECT index_table.create('films', '(year / 10 * 10), actors', 'partial', include => 'year', is_unique => true, predicate => 'id <> 2');
INSERT INTO recomputation VALUES
    ('films_by_upper', 'actor, partition_id, id', 'films b CROSS JOIN LATERAL (SELECT DISTINCT upper(unnest(actors))) AS m (actor)', 'year >= 1990'),
    ('films_by_expr_actors', 'year / 10 * 10, actor, partition_id, id, year', 'films b CROSS JOIN LATERAL (SELECT DISTINCT unnest(actors)) AS m (actor)', 'id <> 2');
DELETE FROM films_by_upper WHERE upper = 'BOB' AND id = 1;
UPDATE films_by_upper SET upper = 'EVE' WHERE upper IS NULL;
INSERT INTO films_by_upper SELECT 'CID', partition_id, 5 FROM films_by_upper WHERE id = 1;
UPDATE films_by_expr_actors SET year = 0 WHERE actors = 'Ann';
SELECT * FROM index_table.verify('films_by_upper') ORDER BY identity, key;
SELECT * FROM index_table.verify('films_by_expr_actors') ORDER BY identity, key;
SELECT index_table.repair('films_by_upper'), index_table.repair('films_by_expr_actors');
SELECT * FROM differences();

-- Rows that nothing tells apart have as many entries as there are rows.
CREATE TABLE log (what text, who text);
INSERT INTO log VALUES ('a', 'x'), ('a', 'x'), ('a', NULL), ('a', NULL), ('b', 'y');
SET client_min_messages = error;
SELECT index_table.create('log', 'what', identity => 'who');
SET client_min_messages = warning;
INSERT INTO recomputation VALUES ('log_by_what', 'what, partition_id, who', 'log b');
DELETE FROM log_by_what WHERE ctid = (SELECT min(ctid) FROM log_by_what WHERE who = 'x');
INSERT INTO log_by_what SELECT * FROM log_by_what WHERE what = 'a' AND who IS NULL;
SELECT problem, key, identity FROM index_table.verify('log_by_what') ORDER BY identity;
SELECT index_table.repair('log_by_what');
SELECT * FROM differences();

-- In step with what this transaction has done, and undone with it.
BEGIN;
UPDATE people SET town = 'now' WHERE id = 5;
SELECT * FROM index_table.verify('people_by_town');
DELETE FROM people_by_town WHERE id = 5;
SELECT problem, key FROM index_table.verify('people_by_town');
SAVEPOINT s;
SELECT index_table.repair('people_by_town');
ROLLBACK TO s;
SELECT problem, key FROM index_table.verify('people_by_town');
ROLLBACK;
SELECT * FROM differences();

SELECT * FROM index_table.verify('people');
\echo :SQLSTATE
SELECT index_table.repair('people_a');
\echo :SQLSTATE
SELECT * FROM index_table.verify(NULL);
SELECT index_table.repair(NULL);
SELECT * FROM index_table.progress;

-- What it should hold is never read from the index table itself, nor from another one, however much
-- cheaper that is.
CREATE TABLE many (id int PRIMARY KEY, k int, s text) PARTITION BY RANGE (id);
CREATE TABLE many_0 PARTITION OF many FOR VALUES FROM (0) TO (10000);
CREATE TABLE many_1 PARTITION OF many FOR VALUES FROM (10000) TO (40000);
INSERT INTO many SELECT i, i, 's' FROM generate_series(0, 19999) AS i;
VACUUM ANALYZE many;
SELECT index_table.create('many', 'k', name => 'many_high', predicate => 'k > 19990');
SELECT index_table.create('many', 's, k', name => 'many_higher', predicate => 'k > 19995');
INSERT INTO recomputation VALUES ('many_high', 'k, partition_id, id', 'many b', 'k > 19990'), ('many_higher', 's, k, partition_id, id', 'many b', 'k > 19995');
UPDATE many_1 SET k = 30000 WHERE id = 10001;
DELETE FROM many_1 WHERE id = 19998;
DELETE FROM many_high WHERE k = 30000;
DELETE FROM many_higher WHERE k = 30000;
INSERT INTO many_high SELECT 19998, partition_id, 19998 FROM index_table.partition WHERE relation = 'many_1'::regclass;
INSERT INTO many_higher SELECT 's', 19998, partition_id, 19998 FROM index_table.partition WHERE relation = 'many_1'::regclass;
SELECT 'many_high' AS index_table, problem, key, identity FROM index_table.verify('many_high')
UNION ALL
SELECT 'many_higher', problem, key, identity FROM index_table.verify('many_higher') ORDER BY 1, 2;
SELECT index_table.repair('many_high');
SELECT * FROM index_table.verify('many_high');
SELECT * FROM differences() WHERE index_table = 'many_high'::regclass;
CALL index_table.create_concurrently('many', 'k, s', name => 'many_online', predicate => 'k > 19996');
SELECT index_table.create('many', 'k', name => 'many_again', predicate => 'k > 19996');
INSERT INTO recomputation VALUES ('many_online', 'k, s, partition_id, id', 'many b', 'k > 19996'), ('many_again', 'k, partition_id, id', 'many b', 'k > 19996');
SELECT index_table.repair('many_higher');
SELECT * FROM differences();

DROP SCHEMA verify CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
