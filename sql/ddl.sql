-- Partitions come and go, owners change, tables are dropped: index tables follow as indexes would.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_ddl_one;
CREATE ROLE regress_ddl_two;
CREATE SCHEMA ddl;
SET search_path = ddl;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int, region text, town text, phone text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'phone', 'denormalized', is_unique => true, partitions => 2);
SELECT index_table.create('people', 'upper(town), note', 'partial', include => 'phone', predicate => 'note IS NOT NULL OR region > ''a''', name => 'noted');
CREATE VIEW live AS
    SELECT partition::text COLLATE "C" AS partition FROM index_table.partitions WHERE base::text = 'people' ORDER BY 1;
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, region', 'people b', 'true'),
    ('people_by_phone', 'phone, partition_id, id, region, town, note', 'people b', 'true'),
    ('noted', 'upper(town), note, partition_id, id, region, phone', 'people b', 'note IS NOT NULL OR region > ''a''');
INSERT INTO people SELECT i, 'a', 'town ' || i % 3, i, 'note ' || i FROM generate_series(1, 10) AS i;

-- New partitions: created, attached with rows and with other columns, partitioned themselves, default.
CREATE TABLE people_b PARTITION OF people FOR VALUES IN ('b');
CREATE TABLE IF NOT EXISTS people_b PARTITION OF people FOR VALUES IN ('b'); -- is there
CREATE TABLE people_c PARTITION OF people FOR VALUES IN ('c', 'd') PARTITION BY HASH (id);
TABLE live;
CREATE TABLE people_c_0 PARTITION OF people_c FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_c_1 (note text, gone int, phone text, region text NOT NULL, town text, id int NOT NULL);
ALTER TABLE people_c_1 DROP COLUMN gone;
INSERT INTO people_c_1 (id, region, town, phone) SELECT i, 'd', 'town ' || i % 4, i FROM generate_series(11, 40) AS i WHERE satisfies_hash_partition('people_c'::regclass, 2, 1, i);
ALTER TABLE people_c ATTACH PARTITION people_c_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE tree (note text, region text, id int, phone text, town text, PRIMARY KEY (id, region)) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (200);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (200) TO (300);
INSERT INTO tree (region, id, town, phone, note) SELECT 'e', i, 'Tree ' || i, i, 'n' FROM generate_series(195, 205) AS i;
ALTER TABLE people ATTACH PARTITION tree FOR VALUES IN ('e');
CREATE TABLE people_rest PARTITION OF people DEFAULT;
INSERT INTO people VALUES (300, 'a', 'x', 'p300'), (301, 'b', 'x', 'p301'), (302, 'c', 'x', 'p302'), (303, 'd', 'x', 'p303'), (206, 'e', 'x', 'p304');
INSERT INTO people VALUES (305, 'z', 'x', 'p305', 'n');
TABLE live;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgname LIKE 'index\_table%' AND tgrelid::regclass::text IN ('people_c_1', 'tree', 'tree_1', 'people_rest') ORDER BY tgrelid::regclass::text, tgname;
UPDATE people SET town = town || '!' WHERE id % 3 = 0;
SELECT * FROM differences();
-- Rows that are in the way of a unique key stay out.
CREATE TABLE people_f (LIKE people INCLUDING ALL);
INSERT INTO people_f VALUES (401, 'f', 'ok', 'p401'), (402, 'f', 'bad', 'p302');
\set VERBOSITY sqlstate
ALTER TABLE people ATTACH PARTITION people_f FOR VALUES IN ('f');
\set VERBOSITY default
SELECT relispartition FROM pg_class WHERE oid = 'people_f'::regclass;
DELETE FROM people_f WHERE id = 402;
ALTER TABLE people ATTACH PARTITION people_f FOR VALUES IN ('f');
SELECT * FROM differences();
-- In a transaction that changes its mind.
BEGIN;
CREATE TABLE people_g PARTITION OF people FOR VALUES IN ('g');
INSERT INTO people VALUES (500, 'g', 'x', 'p500');
SAVEPOINT s;
DROP TABLE people_g;
INSERT INTO people VALUES (501, 'g', 'x', 'p500');
SELECT * FROM differences();
ROLLBACK TO s;
SELECT * FROM differences();
ALTER TABLE people DETACH PARTITION people_g;
DROP TABLE people_b;
SELECT * FROM differences();
ROLLBACK;
SELECT count(*) FROM live WHERE partition IN ('people_b', 'people_g');
SELECT * FROM differences();
-- A partition in CREATE SCHEMA.
CREATE SCHEMA ddl_other CREATE TABLE people_h PARTITION OF ddl.people FOR VALUES IN ('h');
INSERT INTO people VALUES (600, 'h', 'x', 'p600');
SELECT count(*) FROM live WHERE partition LIKE '%people_h';
SELECT * FROM differences();

-- Partitions leave: detached, detached concurrently, dropped, with partitions of their own. Their entries are left behind, unseen.
SELECT count(*) AS before FROM people_by_town \gset
ALTER TABLE people DETACH PARTITION people_a;
ALTER TABLE people DETACH PARTITION people_c;
SELECT * FROM differences();
SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town') WHERE region IN ('a', 'c', 'd');
INSERT INTO people_a VALUES (1000, 'a', 'no longer', 'p302');
TRUNCATE people_c;
SELECT tgrelid::regclass FROM pg_trigger WHERE tgname LIKE 'index\_table%' AND tgrelid::regclass::text IN ('people_a', 'people_c', 'people_c_0', 'people_c_1');
DROP TABLE people_rest;
ALTER TABLE people DETACH PARTITION people_b CONCURRENTLY;
TABLE live;
SELECT * FROM differences();
ALTER TABLE tree DETACH PARTITION tree_1;
DROP TABLE tree;
TABLE live;
SELECT * FROM differences();
SELECT count(*) = :before AS kept FROM people_by_town;
-- And come back.
DELETE FROM people_a WHERE id = 1000;
ALTER TABLE people ATTACH PARTITION people_a FOR VALUES IN ('a');
ALTER TABLE people ATTACH PARTITION people_b FOR VALUES IN ('b');
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c', 'd');
INSERT INTO people SELECT i, chr(97 + i % 4), 'town ' || i % 4, 'q' || i, 'note ' || i FROM generate_series(700, 720) AS i;
TABLE live;
SELECT * FROM differences();

-- The owner follows, partitions of an index table included.
GRANT USAGE, CREATE ON SCHEMA ddl TO regress_ddl_one, regress_ddl_two;
ALTER TABLE people OWNER TO regress_ddl_one;
SELECT relname, pg_get_userbyid(relowner) AS owner FROM pg_class
 WHERE relkind IN ('r', 'p') AND (relname LIKE 'people\_by%' OR relname = 'noted') AND relnamespace = 'ddl'::regnamespace ORDER BY relname COLLATE "C";
REASSIGN OWNED BY regress_ddl_one TO regress_ddl_two;
SELECT relname, pg_get_userbyid(relowner) AS owner FROM pg_class
 WHERE relkind IN ('r', 'p') AND (relname LIKE 'people\_by%' OR relname = 'noted') AND relnamespace = 'ddl'::regnamespace ORDER BY relname COLLATE "C";
SET ROLE regress_ddl_two;
SELECT index_table.repair('people_by_phone');
RESET ROLE;
INSERT INTO people VALUES (800, 'h', 'x', 'p800');
SELECT * FROM differences();

-- Dropping index tables: one, and the last; by either name; and undone.
SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index\_table%' AND tgrelid::regclass::text IN ('people', 'people_a', 'people_c', 'people_c_0');
SELECT index_table.drop('noted');
DROP TABLE people_by_town;
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = index_table);
UPDATE people SET town = town || '.';
SELECT * FROM differences();
BEGIN;
SELECT index_table.drop('people_by_phone');
SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index\_table%' AND tgrelid::regclass::text IN ('people', 'people_a', 'people_c', 'people_c_0');
SELECT count(*) FROM index_table.partition WHERE base = 'people'::regclass;
UPDATE people SET phone = phone || '.';
ROLLBACK;
UPDATE people SET phone = phone || ',';
SELECT * FROM differences();
CREATE VIEW on_phone AS SELECT phone FROM people_by_phone;
SELECT index_table.drop('people_by_phone');
\echo :SQLSTATE
DROP VIEW on_phone;
SELECT index_table.drop('people_by_phone');
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = index_table);
SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index\_table%' AND tgrelid::regclass::text IN ('people', 'people_a', 'people_c', 'people_c_0');
SELECT count(*) FROM index_table.partition WHERE base = 'people'::regclass;
UPDATE people SET phone = phone || '.';
-- (The partitions belong to another role by now.)
SELECT index_table.create('people', 'phone', is_unique => true);
INSERT INTO recomputation VALUES ('people_by_phone', 'phone, partition_id, id, region', 'people b');
TRUNCATE people_a;
CREATE TABLE people_i PARTITION OF people FOR VALUES IN ('i');
INSERT INTO people VALUES (900, 'i', 'x', 'p900'), (901, 'a', 'x', 'p901');
ALTER TABLE people DETACH PARTITION people_i;
ALTER TABLE people ATTACH PARTITION people_i FOR VALUES IN ('i');
SELECT * FROM differences();
SELECT index_table.drop('people');
\echo :SQLSTATE
SELECT index_table.drop('people_by_phone_key');
\echo :SQLSTATE
SELECT index_table.drop(NULL);
-- The base table goes, and with it what was built over it.
DROP TABLE people;
SELECT relname FROM pg_class WHERE relname LIKE 'people\_by%' AND relnamespace = 'ddl'::regnamespace;
SELECT * FROM index_table.index_tables;
DELETE FROM recomputation;
-- So do a collation and an operator class of the key, as with an index.
CREATE COLLATION ordering FROM "C";
CREATE OPERATOR CLASS int_ordering FOR TYPE int USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
CREATE TABLE sorted (id int PRIMARY KEY, word text, n int);
SELECT index_table.create('sorted', 'word COLLATE ordering');
SELECT index_table.create('sorted', 'n int_ordering');
SELECT index_table.create('sorted', 'word, n');
\set VERBOSITY terse
DROP COLLATION ordering;
DROP OPERATOR FAMILY int_ordering USING btree;
\set VERBOSITY default
DROP COLLATION ordering CASCADE;
DROP OPERATOR FAMILY int_ordering USING btree CASCADE;
SELECT index_table FROM index_table.index_tables WHERE base = 'sorted'::regclass;
INSERT INTO sorted VALUES (1, 'a', 1);
DROP TABLE sorted;
SET ROLE regress_ddl_two;
CREATE TABLE owned (id int PRIMARY KEY, v int);
SELECT index_table.create('owned', 'v');
RESET ROLE;
DROP OWNED BY regress_ddl_two;
SELECT to_regclass('owned_by_v');

DROP SCHEMA ddl, ddl_other CASCADE;
DROP ROLE regress_ddl_one, regress_ddl_two;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;

