-- Unique index tables: no two live rows share a key, in whatever partitions they are.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA "unique";
SET search_path = "unique";

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int PRIMARY KEY, email text, first text, last text, active bool DEFAULT true, nums int[]) PARTITION BY RANGE (id);
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (100);
CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (100) TO (200);
CREATE TABLE people_3 (nums int[], active bool DEFAULT true, x int, last text, first text, email text, id int NOT NULL);
ALTER TABLE people_3 DROP COLUMN x;
ALTER TABLE people ATTACH PARTITION people_3 FOR VALUES FROM (200) TO (300);
INSERT INTO people VALUES (1, 'a@x', 'Ann', 'A'), (2, 'b@x', 'Bob', 'B'), (101, 'c@x', 'Ann', 'C'), (102, NULL, NULL, 'D'), (201, NULL, NULL, 'D');
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'first DESC, last', 'denormalized', is_unique => true, name => 'people_by_name');
SELECT index_table.create('people', 'nums', 'partial', include => 'email', is_unique => true, name => 'people_by_num');
INSERT INTO recomputation VALUES
    ('people_by_email', 'email, partition_id, id', 'people b', 'true'),
    ('people_by_name', 'first, last, partition_id, id, email, active, nums', 'people b', 'true'),
    ('people_by_num', 'n, partition_id, id, email', 'people b CROSS JOIN LATERAL (SELECT DISTINCT unnest(nums)) AS m (n)', 'true');

-- Refused, with a name that says where.
INSERT INTO people VALUES (3, 'a@x');
\echo :SQLSTATE
INSERT INTO people VALUES (103, 'a@x');
INSERT INTO people VALUES (4, 'd@x'), (104, 'd@x');
UPDATE people SET email = 'b@x' WHERE id = 101;
UPDATE people SET email = 'same';
UPDATE people SET first = 'Ann', last = 'A' WHERE id = 2;
COPY people (id, email) FROM stdin;
5	e@x
105	c@x
\.
INSERT INTO people (id, nums) VALUES (6, '{1,2,1}'), (106, '{3,2}');
DO $$
DECLARE
    table_name text; constraint_name text; schema_name text;
BEGIN
    INSERT INTO people VALUES (203, 'c@x');
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS table_name = TABLE_NAME, constraint_name = CONSTRAINT_NAME, schema_name = SCHEMA_NAME;
    RAISE WARNING '%.%: %', schema_name, table_name, constraint_name;
END $$;
SELECT * FROM people ORDER BY id;
SELECT * FROM differences();

-- Not refused: NULL is unlike NULL, a predicate leaves rows out, a row may move, keys may change hands.
INSERT INTO people (id) VALUES (7), (107), (108), (207);
INSERT INTO people (id, first, last) VALUES (8, 'Ann', NULL), (9, 'Ann', NULL), (208, NULL, 'A'), (209, NULL, 'A');
UPDATE people SET id = id + 150 WHERE id IN (1, 101);
UPDATE people SET email = CASE email WHEN 'a@x' THEN 'b@x' WHEN 'b@x' THEN 'c@x' ELSE 'a@x' END WHERE email IN ('a@x', 'b@x', 'c@x');
SELECT id, email FROM people WHERE email IS NOT NULL ORDER BY id;
WITH gone AS (DELETE FROM people WHERE id = 2 RETURNING *) INSERT INTO people SELECT id + 200, email, first, last FROM gone;
INSERT INTO people (id, nums) VALUES (11, '{1,2,1}'), (111, '{3,NULL,4}'), (211, '{NULL}'), (212, '{}'), (213, NULL);
UPDATE people SET nums = CASE id WHEN 11 THEN '{3,4}'::int[] ELSE '{2,1,5}' END WHERE id IN (11, 111);
SELECT * FROM differences();
BEGIN;
DELETE FROM people WHERE email = 'c@x';
INSERT INTO people (id, email) VALUES (299, 'c@x');
DELETE FROM people WHERE id = 299;
INSERT INTO people (id, email) VALUES (298, 'c@x');
SAVEPOINT s;
INSERT INTO people (id, email) VALUES (297, 'c@x');
\echo :SQLSTATE
ROLLBACK TO s;
UPDATE people SET email = 'z@x' WHERE id = 298;
INSERT INTO people (id, email) VALUES (297, 'c@x');
ROLLBACK TO s;
INSERT INTO people (id, email) VALUES (297, 'z@x');
SELECT * FROM differences();
ROLLBACK;
SELECT * FROM differences();

-- An expression, a predicate, and an index table in partitions.
CREATE TABLE users (id int PRIMARY KEY, name text COLLATE "C", active bool) PARTITION BY HASH (id);
CREATE TABLE users_0 PARTITION OF users FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE users_1 PARTITION OF users FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('users', 'lower(name)', is_unique => true, predicate => 'active', partitions => 2);
INSERT INTO recomputation VALUES ('users_by_lower', 'lower(name), partition_id, id', 'users b', 'active');
INSERT INTO users VALUES (1, 'ann', true), (2, 'ANN', false), (3, 'Ann', NULL), (4, NULL, true), (5, NULL, true);
INSERT INTO users VALUES (6, 'aNN', true);
\echo :SQLSTATE
UPDATE users SET active = true WHERE id = 3;
\echo :SQLSTATE
UPDATE users SET active = id = 2 WHERE id < 4;
UPDATE users SET name = CASE id WHEN 2 THEN 'Bob' ELSE 'anN' END, active = true WHERE id IN (2, 3);
UPDATE users SET name = CASE id WHEN 2 THEN 'ann' WHEN 3 THEN 'bob' END WHERE id IN (2, 3, 4);
SELECT * FROM users ORDER BY id;
SELECT * FROM differences();

-- ON CONFLICT with a target knows the base table's own indexes only: what an index table refuses is an error.
INSERT INTO people (id, email) VALUES (297, 'c@x') ON CONFLICT DO NOTHING;
INSERT INTO people (id, email) VALUES (297, 'c@x') ON CONFLICT (id) DO UPDATE SET email = excluded.email;
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (207, 'y@x') ON CONFLICT (id) DO UPDATE SET email = excluded.email;
INSERT INTO people (id, email) VALUES (207, 'c@x') ON CONFLICT (id) DO NOTHING;
SELECT id FROM people WHERE email IN ('c@x', 'y@x') ORDER BY id;
MERGE INTO people AS p USING (VALUES (207, 'w@x'), (208, 'y@x')) AS v (id, email) ON p.id = v.id WHEN MATCHED THEN UPDATE SET email = v.email;
SELECT id, email FROM people WHERE id IN (207, 208) ORDER BY id;
SELECT * FROM differences();

-- Nested statements: a key that is free when the statement ends is free.
CREATE FUNCTION give_way() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE people SET email = 'was ' || email WHERE email = NEW.email AND id <> NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER a_gives_way AFTER INSERT OR UPDATE OF email ON people FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION give_way();
INSERT INTO people (id, email) VALUES (150, 'c@x');
SELECT id, email FROM people WHERE email LIKE '%c@x' ORDER BY id;
ALTER TRIGGER a_gives_way ON people RENAME TO z_gives_way;
UPDATE people SET email = 'was c@x' WHERE id = 207;
SELECT id, email FROM people WHERE email LIKE '%c@x' ORDER BY id;
DROP TRIGGER z_gives_way ON people;
CREATE FUNCTION stand_fast() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO people (id, email) VALUES (NEW.id + 1, 'q@x');
    RETURN NULL;
END $$;
CREATE TRIGGER stands_fast AFTER INSERT ON people FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION stand_fast();
INSERT INTO people (id, email) VALUES (160, 'q@x');
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (160, 'p@x'), (162, 'r@x');
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (160, 'p@x');
DROP TRIGGER stands_fast ON people;
SELECT id, email FROM people WHERE id >= 160 AND id < 200 ORDER BY id;
SELECT * FROM differences();

-- What one statement of a function breaks, its handler catches.
CREATE FUNCTION try(id int, email text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO people (id, email) VALUES (id, email);
    RETURN 'inserted';
EXCEPTION WHEN unique_violation THEN
    RETURN 'refused';
END $$;
SELECT id, email, try(id, email) FROM (VALUES (170, 'm@x'), (171, 'm@x'), (172, 'n@x'), (173, 'q@x')) AS v (id, email);
-- The first statement of a session is held to it as well.
\c -
INSERT INTO "unique".people (id, email) VALUES (174, 'm@x');
\echo :SQLSTATE
\c -
COPY "unique".people (id, email) FROM stdin;
175	m@x
\.
\echo :SQLSTATE
\c -
UPDATE "unique".people SET email = 'n@x' WHERE id = 170;
\echo :SQLSTATE
\c -
SET search_path = "unique";
SET client_min_messages = warning;
SELECT id, email FROM people WHERE id BETWEEN 170 AND 179 ORDER BY id;
SELECT * FROM differences();

-- Entries of partitions that were truncated, detached or dropped never collide.
INSERT INTO people (id, email, first, last, nums) SELECT i, 'mail ' || i, 'first ' || i, 'last', ARRAY[i] FROM generate_series(20, 40) AS i;
\set VERBOSITY sqlstate
INSERT INTO people (id, email, first, last, nums) SELECT i + 100, 'mail ' || i, 'first ' || i, 'last', ARRAY[i] FROM generate_series(20, 40) AS i;
\set VERBOSITY default
TRUNCATE people_1;
INSERT INTO people (id, email, first, last, nums) SELECT i + 100, 'mail ' || i, 'first ' || i, 'last', ARRAY[i] FROM generate_series(20, 40) AS i;
SELECT count(*) FROM people_by_email WHERE email LIKE 'mail %';
BEGIN;
TRUNCATE people_2;
UPDATE people SET email = 'mail ' || 220 - id, nums = ARRAY[id - 180] WHERE id BETWEEN 201 AND 220;
INSERT INTO people (id, email) VALUES (1, 'mail 25');
SELECT * FROM differences();
ROLLBACK;
INSERT INTO people (id, email) VALUES (1, 'mail 25');
\echo :SQLSTATE
ALTER TABLE people DETACH PARTITION people_2;
INSERT INTO people (id, email, first, last, nums) SELECT i + 200, 'mail ' || i, 'first ' || i, 'last', ARRAY[i] FROM generate_series(20, 40) AS i;
SELECT * FROM differences();
-- Back it may not come with keys that are taken.
\set VERBOSITY sqlstate
ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES FROM (100) TO (200);
\set VERBOSITY default
SELECT count(*) FROM index_table.partitions WHERE partition = 'people_2'::regclass;
DELETE FROM people WHERE id BETWEEN 220 AND 239;
\set VERBOSITY sqlstate
ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES FROM (100) TO (200);
\set VERBOSITY default
DELETE FROM people WHERE id = 240;
ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES FROM (100) TO (200);
SELECT * FROM differences();
INSERT INTO people (id, email) VALUES (1, 'mail 25');
\echo :SQLSTATE
DROP TABLE people_2;
INSERT INTO people (id, email, nums) VALUES (1, 'mail 25', '{25}');
UPDATE people SET email = 'mail 26', nums = '{26,27}', first = 'first 20', last = 'last' WHERE id = 1;
SELECT * FROM differences();

-- Rows with NULL keys go one by one, and the right ones.
DELETE FROM people WHERE id = 208;
UPDATE people SET first = 'x' WHERE id = 209;
UPDATE people SET id = 217 WHERE id = 207;
DELETE FROM people WHERE id IN (SELECT id FROM people WHERE email IS NULL ORDER BY id DESC LIMIT 2);
SELECT id, email, first, last FROM people WHERE email IS NULL OR first IS NULL OR last IS NULL ORDER BY id;
SELECT * FROM differences();

-- A build finds duplicates, and leaves nothing.
\set VERBOSITY terse
SELECT index_table.create('people', '(id % 2)', is_unique => true);
\echo :SQLSTATE
SELECT index_table.create('people', '(id % 3)', 'denormalized', is_unique => true, partitions => 1, predicate => 'id > 200');
\echo :SQLSTATE
\set VERBOSITY default
SELECT relname FROM pg_class WHERE relname LIKE 'people\_by\_expr%' AND relnamespace = '"unique"'::regnamespace;
SELECT index_table.create('people', '(id % 2)', is_unique => true, predicate => 'id IN (1, 202)');
INSERT INTO recomputation VALUES ('people_by_expr', 'id % 2, partition_id, id', 'people b', 'id IN (1, 202)');
SELECT index_table FROM index_table.index_tables WHERE base = 'people'::regclass ORDER BY index_table::text COLLATE "C";

-- A foreign key may point at a unique index table: the entry outlives the row when its key changes hands.
CREATE TABLE orders (id int PRIMARY KEY, email text REFERENCES people_by_email (email));
INSERT INTO orders VALUES (1, 'mail 26');
INSERT INTO orders VALUES (2, 'nobody');
\echo :SQLSTATE
UPDATE people SET id = id + 1 WHERE id = 1;
WITH gone AS (DELETE FROM people WHERE id = 2 RETURNING *) INSERT INTO people SELECT 250, email FROM gone;
DELETE FROM people WHERE id = 250;
\echo :SQLSTATE
UPDATE people SET email = 'renamed' WHERE id = 250;
\echo :SQLSTATE
SELECT id FROM index_table.fetch(NULL::people, 'people_by_email', 'mail 26');
DELETE FROM orders;
DELETE FROM people WHERE id = 250;
DROP TABLE orders;
SELECT * FROM differences();

-- A statement so big that it is carried out in parts: every key moves on to the next row.
CREATE TABLE big (id int PRIMARY KEY, k int, pad text) PARTITION BY HASH (id);
CREATE TABLE big_0 PARTITION OF big FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE big_1 PARTITION OF big FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT index_table.create('big', 'k', 'partial', include => 'pad', is_unique => true);
INSERT INTO big SELECT i, i, repeat('x', 1900) FROM generate_series(1, 20000) AS i;
UPDATE big SET k = k + 1;
UPDATE big SET k = CASE WHEN k = 2 THEN 20001 ELSE k - 1 END;
\set VERBOSITY sqlstate
UPDATE big SET k = 5000 WHERE id = 5;
UPDATE big SET k = k / 2;
INSERT INTO big SELECT i, 100000 + i % 39999, repeat('x', 1900) FROM generate_series(100001, 140000) AS i;
\set VERBOSITY default
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('big_by_k', 'k, partition_id, id, pad', 'big b');
SELECT count(*), min(k), max(k) FROM big;
SELECT * FROM differences();

DROP SCHEMA "unique" CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
