-- Index tables that queries do not use: they are maintained, and unique, all the same.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA visible;
SET search_path = visible;
LOAD 'index_table';

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int PRIMARY KEY, email text, town text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE people_2 PARTITION OF people FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE people_3 PARTITION OF people FOR VALUES WITH (MODULUS 4, REMAINDER 3);
INSERT INTO people SELECT i, 'p' || i, 'Town ' || i % 1000 FROM generate_series(1, 5000) AS i;
ANALYZE people;
SELECT index_table.create('people', 'email', is_unique => true);
SELECT index_table.create('people', 'town', is_visible => false);
CREATE INDEX people_global ON people USING global (town);
INSERT INTO recomputation VALUES ('people_by_email', 'email, partition_id, id', 'people b'), ('people_by_town', 'town, partition_id, id', 'people b');

-- The index tables that a statement's plan uses.
CREATE FUNCTION uses(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    used text := '';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        used := used || COALESCE(substring(line FROM 'Index Table: (\S+)') || ' ', substring(line FROM '(Global Index: \S+)') || ' ', '');
    END LOOP;
    RETURN used;
END $$;
\set by_email 'SELECT uses($$ SELECT * FROM people WHERE email = \'p7\' $$);'
\set by_town 'SELECT uses($$ SELECT * FROM people WHERE town = \'Town 7\' $$);'
CREATE VIEW visibility AS
    SELECT index_table, i.is_visible, (index_table.describe(index_table)).is_visible AS described, is_unique
      FROM index_table.index_tables AS i WHERE base = 'people'::regclass ORDER BY index_table::text COLLATE "C";

TABLE visibility;
:by_email
SELECT index_table.set_visible('people_by_email', false);
TABLE visibility;
:by_email
-- Nor do changes find their rows through it.
SELECT uses($$ UPDATE people SET town = 'x' WHERE email = 'p7' $$), uses($$ DELETE FROM people WHERE email = 'p7' $$);
-- Whoever names it reads it.
SELECT identity FROM index_table.lookup('people_by_email', 'p7');
SELECT * FROM index_table.fetch(NULL::people, 'people_by_email', 'p7');
SELECT (entity).id FROM index_table.page(NULL::people, 'people_by_email', 2, NULL, 'p7');
-- It is maintained, unique, and what ON CONFLICT names.
INSERT INTO people VALUES (6000, 'p7', 'x');
INSERT INTO people VALUES (6000, 'p6000', 'x');
UPDATE people SET email = 'p6001' WHERE id = 6000;
INSERT INTO people VALUES (6002, 'p6001', 'y') ON CONFLICT (email) DO UPDATE SET town = EXCLUDED.town RETURNING id, town;
SELECT identity FROM index_table.lookup('people_by_email', 'p6001');
SELECT * FROM index_table.verify('people_by_email');
SELECT index_table.repair('people_by_email'), index_table.vacuum('people_by_email');

-- A session that tries what is invisible.
SET index_table.use_invisible = on;
:by_email
SELECT uses($$ UPDATE people SET town = 'x' WHERE email = 'p7' $$);
RESET index_table.use_invisible;
:by_email

-- Plans that are kept follow it, and the setting.
PREPARE by_email AS SELECT id FROM people WHERE email = 'p7';
SELECT uses('EXECUTE by_email');
SELECT index_table.set_visible('people_by_email', true);
SELECT uses('EXECUTE by_email');
SELECT index_table.set_visible('people_by_email', false);
SELECT uses('EXECUTE by_email');
SET index_table.use_invisible = on;
SELECT uses('EXECUTE by_email');
RESET index_table.use_invisible;
SELECT uses('EXECUTE by_email');
EXECUTE by_email;

-- What is rolled back has not been.
BEGIN;
SELECT index_table.set_visible('people_by_email', true);
:by_email
SAVEPOINT s;
SELECT index_table.set_visible('people_by_email', false);
:by_email
ROLLBACK TO s;
:by_email
-- Neither readers nor writers wait.
SELECT c.relname, l.mode FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
 WHERE l.pid = pg_backend_pid() AND c.relname IN ('people', 'people_0', 'people_by_email') AND l.mode LIKE '%Exclusive%' ORDER BY 1, 2;
ROLLBACK;
:by_email
TABLE visibility;

-- It stays so while other things change.
SELECT index_table.set_maintenance('people_by_town', 'deferred');
ALTER TABLE people ALTER COLUMN town TYPE varchar(100);
SELECT index_table.set_maintenance('people_by_town', 'immediate');
CALL index_table.rebuild('people_by_town');
ALTER TABLE people RENAME COLUMN town TO city;
ALTER TABLE people RENAME COLUMN city TO town;
TABLE visibility;
CALL index_table.create_concurrently('people', 'town', name => 'people_later', is_visible => false);
INSERT INTO recomputation VALUES ('people_later', 'town, partition_id, id', 'people b');
SELECT index_table, is_visible FROM visibility WHERE index_table = 'people_later'::regclass;

-- Global indexes.
CREATE VIEW globals AS SELECT index, is_visible, definition FROM index_table.global_indexes WHERE base = 'people'::regclass ORDER BY 1;
:by_town
SELECT index_table.set_visible('people_global', false);
:by_town
TABLE globals;
SET index_table.use_invisible = on;
SELECT uses($$ SELECT * FROM people WHERE town = 'Town 7' $$) <> '' AS used;
RESET index_table.use_invisible;
PREPARE by_town AS SELECT count(*) FROM people WHERE town = 'Town 7';
SELECT uses('EXECUTE by_town');
SELECT index_table.set_visible('people_global', true);
SELECT uses('EXECUTE by_town');
TABLE globals;
BEGIN;
SELECT index_table.set_visible('people_global', false);
:by_town
ROLLBACK;
:by_town
CREATE INDEX people_hidden ON people USING global (email) WITH (unique, visible = off);
:by_email
INSERT INTO people VALUES (7000, 'p9', 'x');
CREATE TABLE people_4 (LIKE people);
TABLE globals;
SELECT index_table.set_visible('people_hidden', true);
TABLE globals;
SELECT uses($$ SELECT * FROM people WHERE email = 'p7' $$);
SELECT * FROM index_table.verify('people_hidden');
ALTER INDEX people_hidden SET (visible = off);
DROP INDEX people_hidden;

-- Errors, and who may.
SELECT index_table.set_visible('people', false);
SELECT index_table.set_visible('people_0_pkey', false);
SELECT index_table.set_visible(0, false);
SELECT index_table.set_visible(NULL, false);
CREATE ROLE visible_stranger;
GRANT USAGE ON SCHEMA visible TO visible_stranger;
SET ROLE visible_stranger;
SELECT index_table.set_visible('people_by_email', true);
SELECT index_table.set_visible('people_global', false);
RESET ROLE;
REVOKE USAGE ON SCHEMA visible FROM visible_stranger;
DROP ROLE visible_stranger;
TABLE visibility;

SELECT * FROM differences();
DROP VIEW visibility, globals;
DROP TABLE people;
