-- Index tables over foreign partitions: the shards are tables of this database, reached through postgres_fdw.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA shard;
CREATE SCHEMA coordinator;
SET search_path = coordinator;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

\set loopback :abs_srcdir '/sql/include/loopback.sql'
\i :loopback

-- Local and foreign partitions, at two levels; one with its columns in another order, one with other names.
CREATE TABLE shard.south (age int, phone text, name text, town text, region text NOT NULL, id int NOT NULL, PRIMARY KEY (region, id));
CREATE TABLE shard.west (k int PRIMARY KEY, region text NOT NULL, town text, name text, phone text, age int);
CREATE TABLE shard.east (id int PRIMARY KEY, region text NOT NULL, town text, name text, phone text, age int);
CREATE TABLE people (id int NOT NULL, region text NOT NULL, town text, name text, phone text, age int) PARTITION BY LIST (region);
CREATE TABLE people_north PARTITION OF people (PRIMARY KEY (id)) FOR VALUES IN ('north');
CREATE FOREIGN TABLE people_south (age int, gone int, phone text, name text, town text, region text NOT NULL, id int NOT NULL)
    SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'south');
ALTER FOREIGN TABLE people_south DROP COLUMN gone;
ALTER TABLE people ATTACH PARTITION people_south FOR VALUES IN ('south');
CREATE TABLE people_west PARTITION OF people FOR VALUES IN ('west') PARTITION BY HASH (id);
CREATE TABLE people_west_0 PARTITION OF people_west (PRIMARY KEY (id)) FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE FOREIGN TABLE people_west_1 PARTITION OF people_west FOR VALUES WITH (MODULUS 2, REMAINDER 1)
    SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'west');
ALTER FOREIGN TABLE people_west_1 ALTER COLUMN id OPTIONS (column_name 'k');
INSERT INTO people SELECT i, (ARRAY['north', 'south', 'west'])[1 + i % 3], 'Town ' || i % 4, 'Name ' || i % 5, 'phone ' || i, i FROM generate_series(1, 60) AS i;

SELECT index_table.create('people', 'town');
\echo :SQLSTATE
CALL index_table.create_concurrently('people', 'town', identity => 'id, region');
\echo :SQLSTATE
SELECT index_table.create('people', 'town', identity => 'id, region', partitions => 2);
SELECT index_table.create('people', 'name DESC, town', 'partial', include => 'phone', identity => 'id, region');
SELECT index_table.create('people', 'age', 'denormalized', identity => 'id, region');
SELECT index_table.create('people', 'phone', is_unique => true, identity => 'id, region');
SELECT index_table.create('people', 'lower(town)', 'partial', include => 'age', predicate => 'age > 30', name => 'elders', identity => 'id, region');
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, region', 'people b', 'true'),
    ('people_by_name_town', 'name, town, partition_id, id, region, phone', 'people b', 'true'),
    ('people_by_age', 'age, partition_id, id, region, town, name, phone', 'people b', 'true'),
    ('people_by_phone', 'phone, partition_id, id, region', 'people b', 'true'),
    ('elders', 'lower(town), partition_id, id, region, age', 'people b', 'age > 30');
SELECT partition, server FROM index_table.partitions WHERE base = 'people'::regclass ORDER BY partition::text;
SELECT count(*) FROM people_by_town;
SELECT * FROM differences();

-- INSERT, through the parent and into a shard's table; COPY.
INSERT INTO people VALUES (101, 'south', 'Rome', 'Bob', '101', 20), (102, 'north', 'Oslo', 'Ann', '102', 40), (103, 'west', NULL, NULL, NULL, NULL), (104, 'west', 'Bonn', 'Eve', '104', 70);
INSERT INTO people_south (id, region, town) VALUES (105, 'south', 'Rome') RETURNING id, town;
COPY people (id, region, town, name, phone, age) FROM stdin WITH (FORMAT csv);
106,south,Bari,Cid,106,50
107,west,Bergen,Dan,107,60
108,north,Bonn,Eve,108,70
\.
COPY people_south (region, id, town, age) FROM stdin;
south	109	Bari	31
south	110	\N	32
\.
SELECT * FROM differences();

-- UPDATE of keys, of included columns, of others, of identities; DELETE. With and without row-by-row work on the shard.
UPDATE people SET town = 'New ' || town WHERE id % 2 = 0;
UPDATE people SET age = age + 1;
UPDATE people SET phone = phone || '!', name = name || '?' WHERE id % 3 = 1;
UPDATE people_south SET id = id + 1000 WHERE id % 5 = 0;
UPDATE people SET (town, name) = (name, town) WHERE id BETWEEN 20 AND 30;
UPDATE people SET town = t.v FROM (VALUES (101, 'Turku'), (104, NULL)) AS t (id, v) WHERE people.id = t.id;
SELECT * FROM differences();
DELETE FROM people WHERE id % 7 = 0;
WITH deleted AS (DELETE FROM people_west_1 WHERE age < 30 RETURNING id) SELECT id FROM deleted ORDER BY id;
SELECT * FROM differences();

-- Rows move into shards, and not out of them.
UPDATE people SET region = 'south' WHERE id = 102 AND region = 'north';
SELECT tableoid::regclass, id, region FROM people WHERE id = 102;
SELECT * FROM index_table.lookup('people_by_phone', '102');
UPDATE people SET region = 'north' WHERE id = 102;
\echo :SQLSTATE
UPDATE people SET id = 302 WHERE id = 103 AND region = 'west';
\echo :SQLSTATE
INSERT INTO people_south (id, region) VALUES (111, 'north');
\echo :SQLSTATE
SELECT tableoid::regclass, id, region FROM people WHERE id IN (102, 103, 111, 302) ORDER BY id;
SELECT * FROM differences();

-- Transactions and savepoints.
BEGIN;
INSERT INTO people VALUES (201, 'south', 'Oslo', 'A', '201', 1), (202, 'west', 'Oslo', 'B', '202', 2);
SAVEPOINT a;
UPDATE people SET town = 'Nowhere' WHERE id IN (201, 202);
DELETE FROM people WHERE id = 101;
SELECT * FROM differences();
ROLLBACK TO a;
SELECT * FROM differences();
SAVEPOINT b;
UPDATE people SET town = 'Somewhere' WHERE id = 201;
RELEASE b;
DO $$ BEGIN
    DELETE FROM coordinator.people WHERE region = 'south';
    RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
    NULL;
END $$;
SELECT id, town FROM index_table.fetch(NULL::people, 'people_by_town', 'Somewhere');
COMMIT;
SELECT * FROM differences();
BEGIN;
DELETE FROM people;
SELECT * FROM differences();
ROLLBACK;
SELECT * FROM differences();

-- Triggers that change what the statement changes.
CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() = 1 THEN
        UPDATE coordinator.people SET name = 'seen ' || id WHERE id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER rename AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION rename();
INSERT INTO people VALUES (301, 'south', 'Pisa', 'x', '301', 41), (302, 'west', 'Pisa', 'y', '302', 42), (303, 'north', 'Pisa', 'z', '303', 43), (304, 'south', 'Pisa', 'x', '304', 44);
SELECT id, name FROM index_table.fetch(NULL::people, 'people_by_town', 'Pisa') ORDER BY id;
SELECT * FROM differences();
DROP TRIGGER rename ON people;

-- Unique across shards.
INSERT INTO people VALUES (401, 'south', 'Pisa', 'x', '302', 41);
\echo :SQLSTATE
INSERT INTO people VALUES (401, 'north', 'Pisa', 'x', '301', 41);
\echo :SQLSTATE
UPDATE people SET phone = '303' WHERE id = 301;
\echo :SQLSTATE
INSERT INTO people VALUES (401, 'south', 'Pisa', 'x', '303', 41) ON CONFLICT DO NOTHING;
\echo :SQLSTATE
INSERT INTO people VALUES (401, 'north', 'Pisa', 'x', '301', 41), (402, 'north', 'Pisa', 'x', '402', 41) ON CONFLICT DO NOTHING;
UPDATE people SET phone = CASE id WHEN 301 THEN '302' ELSE '301' END WHERE id IN (301, 302);
SELECT id, phone FROM people WHERE id IN (301, 302, 401, 402) ORDER BY id;
SELECT * FROM differences();

-- Foreign keys that point at it: a row that moves into a shard keeps its key.
INSERT INTO people VALUES (451, 'north', 'Pisa', 'x', '451', 41), (452, 'south', 'Pisa', 'x', '452', 41), (453, 'south', 'Pisa', 'x', '453', 41);
CREATE TABLE calls (id int PRIMARY KEY, phone text REFERENCES people_by_phone (phone) ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO calls VALUES (1, '451'), (2, '452'), (3, '453');
INSERT INTO calls VALUES (4, 'nobody');
\echo :SQLSTATE
UPDATE people SET region = 'south' WHERE id = 451 AND region = 'north';
UPDATE people SET phone = 'new ' || phone WHERE id = 452;
DELETE FROM people WHERE id = 453;
SELECT c.*, tableoid::regclass FROM calls AS c ORDER BY id;
TRUNCATE people_south;
\echo :SQLSTATE
ALTER TABLE people DETACH PARTITION people_south;
\echo :SQLSTATE
SELECT id FROM people WHERE id IN (451, 452, 453) ORDER BY id;
SELECT * FROM differences();
DROP TABLE calls;
DELETE FROM people WHERE id BETWEEN 451 AND 453;

-- What the shard makes of a row, its entries have.
CREATE FUNCTION shard.tidy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id = 463 THEN RETURN NULL; END IF;
    NEW.town := upper(NEW.town);
    RETURN NEW;
END $$;
CREATE TRIGGER tidy BEFORE INSERT OR UPDATE ON shard.south FOR EACH ROW EXECUTE FUNCTION shard.tidy();
INSERT INTO people VALUES (461, 'south', 'quiet', 'x', '461', 41), (462, 'south', 'loud', 'x', '462', 41), (463, 'south', 'left out', 'x', '463', 41);
UPDATE people SET town = 'changed' WHERE id = 462;
SELECT id, town FROM people_by_town WHERE id BETWEEN 461 AND 463 ORDER BY id;
SELECT * FROM differences();
DROP TRIGGER tidy ON shard.south;
DELETE FROM people WHERE id BETWEEN 461 AND 463;

-- Reading by hand.
SELECT partition, server, identity, included FROM index_table.lookup('people_by_name_town', 'seen 301');
SELECT * FROM index_table.shards('people_by_town', 'Pisa') ORDER BY partition::text;
SELECT id, town FROM index_table.fetch(NULL::people, 'people_by_town', 'New Town 2') ORDER BY id;
SELECT (entity).id, next IS NULL AS last FROM index_table.page(NULL::people, 'people_by_town', 3, NULL, 'New Town 2');
SELECT (entity).id, p.next IS NULL AS last FROM (SELECT next FROM index_table.page(NULL::people, 'people_by_town', 3, NULL, 'New Town 2') LIMIT 1) AS before,
    index_table.page(NULL::people, 'people_by_town', 3, before.next, 'New Town 2') AS p;
SELECT (SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town')) = (SELECT count(*) FROM people) AS same;
SELECT (SELECT array_agg(id ORDER BY id) FROM index_table.fetch(NULL::people, 'people_by_town')) = (SELECT array_agg(id ORDER BY id) FROM people) AS same;
-- Who may read the base table needs no rights on its partitions, but a user mapping.
CREATE ROLE regress_reader;
\set SHOW_CONTEXT never
GRANT USAGE ON SCHEMA coordinator TO regress_reader;
GRANT SELECT ON people TO regress_reader;
SET ROLE regress_reader;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_phone', '303');
\set VERBOSITY sqlstate
SELECT id FROM index_table.fetch(NULL::people, 'people_by_phone', '302');
\set VERBOSITY default
RESET ROLE;
CREATE USER MAPPING FOR regress_reader SERVER regress_shard OPTIONS (user 'regress_reader', password_required 'false');
ALTER ROLE regress_reader LOGIN;
GRANT USAGE ON SCHEMA shard TO regress_reader;
SET ROLE regress_reader;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_phone', '302');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT ON shard.south TO regress_reader;
SET ROLE regress_reader;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_phone', '302');
RESET ROLE;
DROP USER MAPPING FOR regress_reader SERVER regress_shard;

-- Plain queries go through index tables (foreign_scan.sql); changes ask every partition, as without.
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Custom Scan' THEN RETURN NEXT line; END IF;
    END LOOP;
END $$;
SELECT plan('SELECT * FROM people WHERE phone = ''301''');
SELECT plan('UPDATE people SET town = NULL WHERE phone = ''301''');
SELECT plan('SELECT * FROM people_north WHERE phone = ''301'' FOR UPDATE');
SELECT id FROM people WHERE phone = '301';
PREPARE by_town AS SELECT count(*) FROM people WHERE town = $1;
EXECUTE by_town('Pisa');

-- TRUNCATE: of a shard's table, of a table above, of all.
TRUNCATE people_south;
SELECT count(*) FROM people WHERE region = 'south';
SELECT * FROM differences();
SELECT * FROM index_table.verify('people_by_town');
INSERT INTO people VALUES (501, 'south', 'Oslo', 'A', '501', 1), (502, 'west', 'Oslo', 'B', '502', 2), (503, 'west', 'Oslo', 'B', '503', 2), (504, 'north', 'Oslo', 'B', '504', 2);
SELECT * FROM differences();
TRUNCATE people_west;
SELECT * FROM differences();
BEGIN;
TRUNCATE people;
SELECT * FROM differences();
INSERT INTO people VALUES (505, 'south', 'Oslo', 'A', '501', 1);
SELECT * FROM differences();
ROLLBACK;
SELECT * FROM differences();
SELECT id FROM index_table.fetch(NULL::people, 'people_by_phone', '501');
-- By sessions that have not loaded the library: PostgreSQL 15 has nothing that would tell of a foreign table.
\c -
SET search_path = coordinator;
TRUNCATE people;
SELECT * FROM differences();
INSERT INTO people VALUES (501, 'south', 'Oslo', 'A', '501', 1), (502, 'west', 'Oslo', 'B', '502', 2), (503, 'west', 'Oslo', 'B', '503', 2), (504, 'north', 'Oslo', 'B', '504', 2);
\c -
SET search_path = coordinator;
TRUNCATE people_south, people_west_1;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Oslo') ORDER BY id;
SELECT count(index_table.repair(index_table)) FROM index_table.index_tables WHERE base = 'people'::regclass;
SELECT * FROM differences();
TRUNCATE people;
INSERT INTO people VALUES (501, 'south', 'Oslo', 'A', '501', 1), (502, 'west', 'Oslo', 'B', '502', 2), (503, 'west', 'Oslo', 'B', '503', 2), (504, 'north', 'Oslo', 'B', '504', 2);
SELECT * FROM differences();

-- Partitions come and go.
INSERT INTO shard.east VALUES (601, 'east', 'Linz', 'E', '601', 61), (602, 'east', 'Linz', 'F', '602', 62);
CREATE FOREIGN TABLE people_east PARTITION OF people FOR VALUES IN ('east') SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'east');
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Linz') ORDER BY id;
SELECT * FROM differences();
ALTER TABLE people DETACH PARTITION people_east;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Linz') ORDER BY id;
INSERT INTO people_east VALUES (603, 'east', 'Linz', 'G', '603', 63);
SELECT tgname FROM pg_trigger WHERE tgrelid = 'people_east'::regclass;
ALTER TABLE people ATTACH PARTITION people_east FOR VALUES IN ('east');
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Linz') ORDER BY id;
INSERT INTO people_east VALUES (604, 'east', 'Linz', 'G', '604', 63);
SELECT * FROM differences();
ALTER TABLE people DETACH PARTITION people_east;
UPDATE people_east SET phone = '501' WHERE id = 603;
ALTER TABLE people ATTACH PARTITION people_east FOR VALUES IN ('east');
\echo :SQLSTATE
UPDATE people_east SET phone = '603' WHERE id = 603;
CREATE TABLE people_far PARTITION OF people DEFAULT PARTITION BY LIST (region);
ALTER TABLE people_far ATTACH PARTITION people_east FOR VALUES IN ('east');
SELECT * FROM differences();
DROP FOREIGN TABLE people_east;
SELECT * FROM differences();
SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town', 'Linz');
CREATE FOREIGN TABLE people_east PARTITION OF people_far FOR VALUES IN ('east') SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'east');
SELECT * FROM differences();

-- Columns: renamed, added on the shards first, of another type.
ALTER TABLE people RENAME COLUMN town TO city;
\set ECHO none
UPDATE recomputation SET entry = replace(entry, 'town', 'city');
\set ECHO all
ALTER FOREIGN TABLE people_south ALTER COLUMN city OPTIONS (column_name 'town');
ALTER FOREIGN TABLE people_west_1 ALTER COLUMN city OPTIONS (column_name 'town');
ALTER FOREIGN TABLE people_east ALTER COLUMN city OPTIONS (column_name 'town');
SELECT * FROM differences();
ALTER TABLE shard.south ADD COLUMN note text DEFAULT 'remote';
ALTER TABLE shard.west ADD COLUMN note text;
ALTER TABLE shard.east ADD COLUMN note text;
ALTER TABLE people ADD COLUMN note text DEFAULT 'local';
UPDATE recomputation SET entry = entry || ', note' WHERE index_table = 'people_by_age'::regclass;
SELECT id, note FROM people_by_age ORDER BY id;
SELECT * FROM differences();
ALTER TABLE people ALTER COLUMN age TYPE bigint;
SELECT * FROM differences();

-- postgres_fdw has one snapshot of a shard for a transaction: what it read before writers were locked out is of no use.
BEGIN;
SELECT count(*) > 0 AS has_rows FROM people;
SELECT index_table.create('people', 'note', identity => 'id, region');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
SELECT count(*) > 0 AS has_rows FROM people_south;
SELECT index_table.repair('people_by_town');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
SELECT index_table.create('people', 'note', identity => 'id, region');
SELECT index_table.create('people', 'note, city', identity => 'id, region');
SELECT index_table.repair('people_by_note');
SAVEPOINT a;
INSERT INTO people VALUES (851, 'south', 'Oslo', 'A', '851', 1);
SELECT index_table.create('people', 'note, name', identity => 'id, region');
SELECT * FROM index_table.verify('people_by_note_name');
ROLLBACK;
BEGIN;
CREATE TABLE newer (id int, town text) PARTITION BY RANGE (id);
SELECT count(*) > 0 AS has_rows FROM people_south;
CREATE TABLE shard.newer_1 (id int PRIMARY KEY, town text);
COMMIT;
BEGIN;
SELECT count(*) > 0 AS has_rows FROM people_south;
CREATE FOREIGN TABLE newer_1 PARTITION OF newer FOR VALUES FROM (0) TO (10) SERVER regress_shard OPTIONS (schema_name 'shard');
INSERT INTO newer VALUES (1, 'Oslo');
SELECT index_table.create('newer', 'town', identity => 'id');
COMMIT;
SELECT * FROM index_table.verify('newer_by_town');
DROP TABLE newer;

-- What is written to the shard directly is found and mended.
DELETE FROM shard.east WHERE id = 601;
UPDATE shard.east SET town = 'Graz' WHERE id = 602;
INSERT INTO shard.south (id, region, town) VALUES (701, 'south', 'Rome');
SELECT problem, partition, identity FROM index_table.verify('people_by_town') ORDER BY identity->>'id', problem;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Linz') ORDER BY id;
SELECT t.name, index_table.repair(t.name::regclass) FROM (VALUES ('people_by_town'), ('people_by_name_town'), ('people_by_age'), ('people_by_phone'), ('elders')) AS t (name);
SELECT * FROM index_table.verify('people_by_town');
SELECT * FROM differences();
DELETE FROM shard.east;
CALL index_table.rebuild('people_by_town');
CALL index_table.rebuild('people_by_name_town');
CALL index_table.rebuild('people_by_age');
CALL index_table.rebuild('people_by_phone');
CALL index_table.rebuild('elders');
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'elders'::regclass;
SELECT index_table.drop('elders');
INSERT INTO people VALUES (801, 'south', 'Oslo', 'A', '801', 1);
SELECT * FROM differences();
\set VERBOSITY terse
DROP SERVER regress_shard;
\echo :SQLSTATE

\set VERBOSITY default

-- A base table that is a foreign table itself.
CREATE TABLE shard.single (id int PRIMARY KEY, town text);
CREATE FOREIGN TABLE single (id int NOT NULL, town text) SERVER regress_shard OPTIONS (schema_name 'shard');
INSERT INTO single VALUES (1, 'Oslo'), (2, 'Rome');
SELECT index_table.create('single', 'town', identity => 'id');
INSERT INTO recomputation VALUES ('single_by_town', 'town, partition_id, id', 'single b', 'true');
INSERT INTO single VALUES (3, 'Oslo'), (4, NULL);
UPDATE single SET town = 'Bari' WHERE id = 2;
DELETE FROM single WHERE id = 1;
SELECT id FROM index_table.fetch(NULL::single, 'single_by_town', 'Oslo');
SELECT * FROM differences();
TRUNCATE single;
SELECT * FROM differences();
INSERT INTO single VALUES (5, 'Oslo');
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'single_by_town'::regclass;
DROP FOREIGN TABLE single;
SELECT to_regclass('single_by_town');

-- What the shard's own catalog says: the table, its columns, their types, what is unique.
CREATE TABLE checked (id int, code varchar(20), town text, at timestamptz) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE checked_1 PARTITION OF checked FOR VALUES FROM (0) TO (10) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'target');
\set check 'SELECT index_table.create(''checked'', ''town, at'', identity => ''id, code'');'
:check
\echo :SQLSTATE
CREATE VIEW shard.target AS SELECT 1 AS id, 'a'::varchar(20) AS code, 'b' AS town, now() AS at;
:check
\echo :SQLSTATE
DROP VIEW shard.target;
CREATE TABLE shard.target (id int, code varchar(20), town text, at timestamptz, PRIMARY KEY (id)) PARTITION BY RANGE (id);
:check
\echo :SQLSTATE
DROP TABLE shard.target;
CREATE TABLE shard.target (id int, code varchar(20), town text);
:check
\echo :SQLSTATE
ALTER TABLE shard.target ADD COLUMN at timestamp;
:check
\echo :SQLSTATE
ALTER TABLE shard.target ALTER COLUMN at TYPE timestamptz, ALTER COLUMN id TYPE bigint;
:check
\echo :SQLSTATE
ALTER TABLE shard.target ALTER COLUMN id TYPE int, ALTER COLUMN code TYPE varchar(30);
:check
\echo :SQLSTATE
ALTER TABLE shard.target ALTER COLUMN code TYPE varchar(20);
:check
\echo :SQLSTATE
CREATE UNIQUE INDEX nullable ON shard.target (id);
CREATE UNIQUE INDEX partial ON shard.target (code) WHERE town = 'Oslo';
CREATE UNIQUE INDEX expression ON shard.target (lower(code));
ALTER TABLE shard.target ALTER COLUMN code SET NOT NULL, ADD CONSTRAINT deferred_one UNIQUE (code) DEFERRABLE;
CREATE UNIQUE INDEX another ON shard.target (code, at);
:check
\echo :SQLSTATE
CREATE UNIQUE INDEX right_one ON shard.target (code) INCLUDE (at);
:check
-- Domains are what they are over.
CREATE DOMAIN shard.place AS text;
CREATE DOMAIN shard.here AS shard.place;
CREATE TABLE shard.more (code varchar(20) PRIMARY KEY, id int, town shard.here, at timestamptz);
CREATE FOREIGN TABLE checked_2 PARTITION OF checked FOR VALUES FROM (10) TO (20) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'more');
INSERT INTO recomputation VALUES ('checked_by_town_at', 'town, at, partition_id, id, code', 'checked b', 'true');
INSERT INTO checked VALUES (1, 'a', 'Oslo', '2000-01-01'), (11, 'a', 'Oslo', '2000-01-01');
SELECT * FROM differences();
-- So it is looked at when partitions join.
CREATE TABLE shard.bare (id int, code varchar(20), town text, at timestamptz);
CREATE FOREIGN TABLE checked_3 PARTITION OF checked FOR VALUES FROM (20) TO (30) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'bare');
\echo :SQLSTATE
CREATE FOREIGN TABLE checked_3 (id int, code varchar(20), town text, at timestamptz) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'bare');
ALTER TABLE checked ATTACH PARTITION checked_3 FOR VALUES FROM (20) TO (30);
\echo :SQLSTATE
ALTER TABLE shard.bare ADD PRIMARY KEY (id);
ALTER TABLE checked ATTACH PARTITION checked_3 FOR VALUES FROM (20) TO (30);
INSERT INTO checked VALUES (21, 'a', 'Oslo', '2000-01-01');
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'checked_by_town_at'::regclass;
DROP TABLE checked;

-- Who may connect: the owner, by a user mapping with a password, unless a superuser says otherwise.
CREATE ROLE regress_sharder LOGIN;
GRANT USAGE ON FOREIGN SERVER regress_shard TO regress_sharder;
GRANT USAGE, CREATE ON SCHEMA coordinator TO regress_sharder;
GRANT USAGE ON SCHEMA shard TO regress_sharder;
SET ROLE regress_sharder;
CREATE FOREIGN TABLE owned (id int, town text) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'single');
\set VERBOSITY sqlstate
SELECT index_table.create('owned', 'town', identity => 'id');
\set VERBOSITY default
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_shard;
SELECT index_table.create('owned', 'town', identity => 'id');
\echo :SQLSTATE
ALTER USER MAPPING FOR CURRENT_USER SERVER regress_shard OPTIONS (ADD password 'of no use where trust is');
SELECT index_table.create('owned', 'town', identity => 'id');
\echo :SQLSTATE
RESET ROLE;
ALTER USER MAPPING FOR regress_sharder SERVER regress_shard OPTIONS (ADD password_required 'false', ADD user 'regress_sharder');
SELECT index_table.create('owned', 'town', identity => 'id');
\echo :SQLSTATE
GRANT SELECT ON shard.single TO regress_sharder;
SELECT index_table.create('owned', 'town', identity => 'id');
SELECT count(*) FROM index_table.fetch(NULL::owned, 'owned_by_town');
DROP OWNED BY regress_sharder;
DROP ROLE regress_sharder;

-- Everything goes with the base table.
DELETE FROM recomputation;
DROP TABLE people;
SELECT count(*) FROM index_table.partition AS p WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.relation);
SELECT to_regclass('people_by_town'), to_regclass('people_by_phone');
DROP OWNED BY regress_reader;
DROP ROLE regress_reader;
DROP SCHEMA coordinator CASCADE;
DROP SCHEMA shard CASCADE;
DROP SERVER regress_shard CASCADE;
DROP EXTENSION postgres_fdw;
DROP SCHEMA extensions;
