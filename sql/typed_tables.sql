-- Typed tables: ALTER TYPE … CASCADE changes their columns, and is followed as ALTER TABLE is.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA typed_tables;
SET search_path = typed_tables;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TYPE thing AS (id int, region int, name text, price int, note text);
CREATE TABLE things OF thing (PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE things_1 PARTITION OF things FOR VALUES IN (1);
CREATE TABLE things_2 PARTITION OF things FOR VALUES IN (2) PARTITION BY RANGE (id);
CREATE TABLE things_2a PARTITION OF things_2 FOR VALUES FROM (0) TO (100);
INSERT INTO things SELECT i, 1 + i % 2, 'n' || i % 7, i * 10, 'x' || i FROM generate_series(1, 20) AS i;
CREATE TABLE plain OF thing (PRIMARY KEY (id));
INSERT INTO plain SELECT * FROM things;
SELECT index_table.create('things', 'name', 'denormalized');
SELECT index_table.create('things', 'price', 'partial', include => 'note', is_unique => true);
SELECT index_table.create('things', '(lower(note))', name => 'things_by_lower');
SELECT index_table.create('things', 'name', maintenance => 'deferred', name => 'things_later');
SELECT index_table.create('plain', 'name', 'denormalized', predicate => 'price > 30');
CREATE INDEX things_price ON things USING global (price);
CREATE INDEX things_2_note ON things_2 USING global (note);
INSERT INTO recomputation (index_table, entry, rows) VALUES
    ('things_by_name', 'name, partition_id, id, region, price, note', 'things b'),
    ('things_by_price', 'price, partition_id, id, region, note', 'things b'),
    ('things_by_lower', 'lower(note), partition_id, id, region', 'things b'),
    ('things_later', 'name, partition_id, id, region', 'things b');
INSERT INTO recomputation VALUES ('plain_by_name', 'name, partition_id, id, region, price, note', 'plain b', 'price > 30');
CREATE VIEW wrong AS
    SELECT t.index_table, v.* FROM index_table.index_tables t, LATERAL index_table.verify(t.index_table) v
     WHERE t.base IN ('things'::regclass, 'plain'::regclass)
    UNION ALL
    SELECT root, v.* FROM (VALUES ('things_price'), ('things_2_note')) g(name), to_regclass('typed_tables.' || g.name) root, LATERAL index_table.verify(root) v;
CREATE VIEW columns AS
    SELECT t.index_table, string_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)
      FROM index_table.index_tables t JOIN pg_attribute a ON a.attrelid = t.index_table AND a.attnum > 0 AND NOT a.attisdropped
     WHERE t.base IN ('things'::regclass, 'plain'::regclass) GROUP BY 1 ORDER BY t.index_table::text COLLATE "C";

-- A new attribute reaches denormalized index tables, alone or with others.
ALTER TYPE thing ADD ATTRIBUTE extra int;
ALTER TYPE thing ADD ATTRIBUTE extra int CASCADE;
ALTER TYPE thing ADD ATTRIBUTE more text CASCADE, ADD ATTRIBUTE "Word" varchar(5) CASCADE;
TABLE columns;
UPDATE recomputation SET entry = entry || ', extra, more, "Word"' WHERE entry LIKE 'name%note';
UPDATE things SET extra = id, "Word" = 'w' WHERE id % 3 = 0;
UPDATE plain SET extra = id;
CALL index_table.drain('things_later');
SELECT * FROM differences();
SELECT * FROM wrong;

-- Another type: of a key, of a copy, in an expression, in a predicate, of what is queued, of global indexes.
BEGIN;
INSERT INTO things VALUES (21, 1, 'n21', 210, 'x21'), (22, 2, 'n22', 220, 'x22');
ALTER TYPE thing ALTER ATTRIBUTE price TYPE bigint CASCADE, ALTER ATTRIBUTE note TYPE varchar(40) CASCADE;
COMMIT;
UPDATE things SET name = 'new' WHERE id = 5;
ALTER TYPE thing ALTER ATTRIBUTE name TYPE varchar COLLATE "C" CASCADE;
TABLE columns;
INSERT INTO things VALUES (23, 1, 'n23', 2300000000000, 'x23');
INSERT INTO things VALUES (24, 2, 'n24', 2300000000000, 'x24');
UPDATE plain SET price = 2400000000000 WHERE id = 1;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM things WHERE price = 100;
SELECT id FROM things WHERE price = 100;
SELECT id FROM things WHERE name = 'n3' ORDER BY id;
SELECT id FROM things WHERE lower(note) = 'x7';
RESET enable_seqscan;
CALL index_table.drain('things_later');
SELECT * FROM differences();
SELECT * FROM wrong;

-- A transaction that is rolled back, wholly or to a savepoint.
BEGIN;
SAVEPOINT s;
ALTER TYPE thing ALTER ATTRIBUTE price TYPE numeric CASCADE;
ROLLBACK TO s;
ALTER TYPE thing ADD ATTRIBUTE kept boolean CASCADE;
COMMIT;
BEGIN;
ALTER TYPE thing ALTER ATTRIBUTE name TYPE text CASCADE, DROP ATTRIBUTE extra CASCADE;
ROLLBACK;
UPDATE recomputation SET entry = entry || ', kept' WHERE entry LIKE '%extra%';
UPDATE things SET kept = true WHERE id < 10;
TABLE columns;
SELECT * FROM differences();
SELECT * FROM wrong;

-- A new name.
ALTER TYPE thing RENAME ATTRIBUTE name TO label CASCADE;
ALTER TYPE thing RENAME ATTRIBUTE extra TO additional CASCADE;
UPDATE recomputation SET entry = replace(replace(entry, 'name,', 'label,'), 'extra', 'additional');
SELECT index_table, key, include FROM index_table.index_tables WHERE base IN ('things'::regclass, 'plain'::regclass) ORDER BY index_table::text COLLATE "C";
UPDATE things SET label = 'renamed' WHERE id IN (1, 2);
SELECT * FROM index_table.lookup('things_by_name', 'renamed') ORDER BY 1;
CALL index_table.drain('things_later');
SELECT * FROM differences();

-- What index tables cannot follow.
SELECT index_table.create('things', 'additional', partitions => 2);
INSERT INTO recomputation VALUES ('things_by_additional', 'additional, partition_id, id, region', 'things b');
ALTER TYPE thing ALTER ATTRIBUTE additional TYPE bigint CASCADE;
\echo :SQLSTATE
CREATE INDEX things_hash ON things USING global (id) WITH (method = hash);
ALTER TYPE thing ALTER ATTRIBUTE id TYPE text CASCADE;
\echo :SQLSTATE
DROP INDEX things_hash;
ALTER TYPE thing ALTER ATTRIBUTE price TYPE int CASCADE;
\echo :SQLSTATE
SELECT * FROM differences();

-- An index table that its owner has made one of a type.
CREATE TYPE entry AS ("Word" varchar(5), partition_id int, id int, region int);
SELECT index_table.create('things', '"Word"');
INSERT INTO recomputation VALUES ('"things_by_Word"', '"Word", partition_id, id, region', 'things b');
ALTER TABLE "things_by_Word" OF entry;
ALTER TYPE entry ALTER ATTRIBUTE "Word" TYPE text CASCADE;
ALTER TYPE entry DROP ATTRIBUTE region CASCADE;
ALTER TYPE entry RENAME ATTRIBUTE id TO number CASCADE;
ALTER TYPE entry ADD ATTRIBUTE mine int CASCADE;
ALTER TABLE "things_by_Word" NOT OF;
ALTER TABLE "things_by_Word" DROP COLUMN mine;

-- Attributes that go take copies with them, and index tables by them.
ALTER TYPE thing DROP ATTRIBUTE additional CASCADE, DROP ATTRIBUTE kept CASCADE;
UPDATE recomputation SET entry = replace(entry, ', additional, more, "Word", kept', ', more, "Word"');
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = recomputation.index_table);
TABLE columns;
SELECT * FROM differences();
SELECT * FROM wrong;
ALTER TYPE thing DROP ATTRIBUTE label CASCADE;
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = recomputation.index_table);
TABLE columns;
INSERT INTO things VALUES (30, 1, 300, 'x30', 'more', 'w');
SELECT * FROM differences();
SELECT * FROM wrong;

-- A table that has nothing but a global index.
CREATE TYPE bare AS (id int, price int);
CREATE TABLE bares OF bare PARTITION BY HASH (id);
CREATE TABLE bares_0 PARTITION OF bares FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE bares_1 PARTITION OF bares FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO bares SELECT i, i FROM generate_series(1, 20) AS i;
CREATE INDEX bares_price ON bares USING global (price);
ALTER TYPE bare ALTER ATTRIBUTE price TYPE bigint CASCADE;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM bares WHERE price = 7;
SELECT id FROM bares WHERE price = 7;
RESET enable_seqscan;
SELECT * FROM index_table.verify('bares_price');

-- ALTER TYPE of other kinds, and of types without tables, with changes that wait.
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE floats AS RANGE (subtype = float8);
CREATE TABLE people (id int PRIMARY KEY, mood mood, pair pair);
SELECT index_table.create('people', 'mood', 'denormalized');
INSERT INTO recomputation VALUES ('people_by_mood', 'mood, partition_id, id, pair', 'people b');
BEGIN;
INSERT INTO people VALUES (1, 'sad', '(1,a)');
ALTER TYPE mood ADD VALUE 'good';
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
ALTER TYPE mood RENAME TO humour;
ALTER TYPE pair ADD ATTRIBUTE c int CASCADE;
ALTER TYPE pair RENAME ATTRIBUTE a TO aa CASCADE;
ALTER TYPE pair OWNER TO CURRENT_USER;
ALTER TYPE floats SET SCHEMA public;
ALTER TYPE public.floats SET SCHEMA typed_tables;
COMMIT;
ALTER TYPE nothing ADD ATTRIBUTE a int CASCADE;
ALTER TYPE things ADD ATTRIBUTE a int CASCADE;
ALTER TYPE humour RENAME ATTRIBUTE a TO b CASCADE;
UPDATE people SET mood = 'good';
SELECT * FROM differences();

DROP SCHEMA typed_tables CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions;
