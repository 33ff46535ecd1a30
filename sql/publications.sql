-- Which tables are published: the mark by which logical decoding passes tables over. What
-- arrives on subscribers, and what dumps carry: test/t/011_publications.pl.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA publications;
SET search_path = publications;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Tables of the extension that are published, and tables of others that are not.
CREATE VIEW published AS
    SELECT c.oid::regclass::text COLLATE "C" AS relation FROM pg_class c
     WHERE relkind = 'r' AND relrewrite = 0
       AND (relnamespace = 'index_table'::regnamespace OR relname ~ '_outbox$' OR relname ~ '_by_'
            OR oid IN (SELECT (index_table.describe(index_table)).log FROM index_table.definition))
     ORDER BY 1;
CREATE VIEW unpublished AS
    SELECT c.oid::regclass::text COLLATE "C" AS relation FROM pg_class c
     WHERE relrewrite <> 0 AND relkind = 'r' AND relnamespace = 'publications'::regnamespace ORDER BY 1;

-- A FOR ALL TABLES publication is there before anything else.
CREATE PUBLICATION regress_all FOR ALL TABLES;
CREATE TABLE people (id int PRIMARY KEY, town text, phone text NOT NULL, note text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'town ' || i % 3, 'phone ' || i, 'note' FROM generate_series(1, 20) AS i;
SELECT index_table.create('people', 'town', 'partial', include => 'phone');
SELECT index_table.create('people', 'phone', is_unique => true, partitions => 2);
CALL index_table.create_concurrently('people', 'note', name => 'people_by_note', is_unique => true);
SELECT index_table.capture('people');
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, phone', 'people b'),
    ('people_by_phone', 'phone, partition_id, id', 'people b');
TABLE published;
TABLE unpublished;

-- TOAST tables are decoded by themselves.
SELECT count(*) > 3 AS some, count(*) FILTER (WHERE t.relrewrite = 0) AS published
  FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.relrewrite <> 0;

-- What the extension changes itself needs no replica identity.
UPDATE people SET town = 'moved', phone = phone || '!' WHERE id < 5;
DELETE FROM people WHERE id = 6;
TRUNCATE people_1;
SELECT index_table.vacuum('people_by_town') > 0 AS vacuumed;
SELECT index_table.discard('people', array_agg(number)) > 0 AS discarded FROM index_table.pending('people', 100);
INSERT INTO index_table.intent VALUES ('people', '{id}', '{1}');
UPDATE index_table.intent SET settled_after = '1';
DELETE FROM index_table.intent;
CALL index_table.rebuild('people_by_town');
SELECT * FROM differences();

-- An owner may have index tables and queues published: by a replica identity.
ALTER TABLE people_by_town REPLICA IDENTITY FULL;
ALTER TABLE people_by_phone_p0 REPLICA IDENTITY FULL;
ALTER TABLE people_outbox REPLICA IDENTITY USING INDEX people_outbox_pkey;
TABLE published;
ALTER TABLE people_by_phone ADD PRIMARY KEY (phone, id);
TABLE published;
ALTER TABLE people_by_phone DROP CONSTRAINT people_by_phone_pkey;
ALTER TABLE people_by_phone_p0 REPLICA IDENTITY NOTHING;
ALTER TABLE people_outbox REPLICA IDENTITY DEFAULT;
ALTER TABLE index_table.definition REPLICA IDENTITY FULL;
TABLE published;
ALTER TABLE index_table.definition REPLICA IDENTITY DEFAULT;
ALTER TABLE people_by_town ALTER COLUMN town SET NOT NULL, ALTER COLUMN id SET NOT NULL;
CREATE UNIQUE INDEX identity ON people_by_town (town, id);
ALTER TABLE people_by_town REPLICA IDENTITY USING INDEX identity;
TABLE published;
DROP INDEX identity;
TABLE published;
SELECT * FROM differences();

-- A publication that names what it does not publish.
CREATE PUBLICATION regress_some FOR TABLE people, people_by_town, index_table.definition;
ALTER PUBLICATION regress_some ADD TABLE people_outbox;
ALTER PUBLICATION regress_some DROP TABLE people_outbox;

-- What is not decoded has no identity by default, which tools want that rewrite tables by what is decoded.
ALTER TABLE people_outbox REPLICA IDENTITY DEFAULT;
SELECT oid::regclass FROM pg_class WHERE relrewrite = oid AND relreplident = 'd' AND oid IN (SELECT indrelid FROM pg_index WHERE indisprimary) AND relnamespace <> 'pg_toast'::regnamespace;
-- Marks that are missing are made up for.
UPDATE pg_class SET relrewrite = 0 WHERE relrewrite <> 0;
ALTER PUBLICATION regress_some SET (publish = 'insert');
TABLE published;

-- Without its guard and its definition a table is as any other; so are all without the extension.
CREATE TABLE plain (id int);
CREATE TRIGGER index_table_guard BEFORE INSERT ON plain FOR EACH STATEMENT EXECUTE FUNCTION index_table.guard();
TABLE unpublished;
DROP TRIGGER index_table_guard ON plain;
TABLE unpublished;
SELECT * FROM differences();
DROP PUBLICATION regress_all, regress_some;
BEGIN;
DROP EXTENSION index_table CASCADE;
TABLE unpublished;
ROLLBACK;
TABLE unpublished;

DROP SCHEMA publications CASCADE;
