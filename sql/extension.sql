-- What becomes of index tables when what they need goes: roles, dependencies that no dump holds, the extension.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_extension_one;
CREATE ROLE regress_extension_two;
CREATE SCHEMA extension;
GRANT USAGE, CREATE ON SCHEMA extension TO regress_extension_one, regress_extension_two;
SET search_path = extension;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE FUNCTION shout(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT upper($1)';
CREATE TABLE people (id int PRIMARY KEY, town text, phone text, note text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'town ' || i % 3, 'phone ' || i, 'note' FROM generate_series(1, 20) AS i;
SELECT index_table.create('people', 'town', 'partial', include => 'phone');
SELECT index_table.create('people', 'phone', is_unique => true, partitions => 2);
SELECT index_table.create('people', 'shout(note)', 'denormalized', name => 'shouted');
CALL index_table.create_concurrently('people', 'note', name => 'unfinished', is_unique => true);
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, phone', 'people b'),
    ('people_by_phone', 'phone, partition_id, id', 'people b'),
    ('shouted', 'upper(note), partition_id, id, town, phone, note', 'people b');
CREATE VIEW owners AS
    SELECT relname COLLATE "C" AS relation, relkind, pg_get_userbyid(relowner) AS owner FROM pg_class
     WHERE relnamespace = 'extension'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'recomputation' ORDER BY 1;
SELECT * FROM differences();

-- Its schema is where it is.
ALTER EXTENSION index_table SET SCHEMA extension;
ALTER SCHEMA index_table RENAME TO other;
DROP SCHEMA index_table;

-- A role that owns the base table owns its index tables and what belongs to them, whoever it got them from.
ALTER TABLE people OWNER TO regress_extension_one;
TABLE owners;
DROP ROLE regress_extension_one;
REASSIGN OWNED BY regress_extension_one TO regress_extension_two;
TABLE owners;
SET ROLE regress_extension_two;
DELETE FROM extension.people WHERE id = 20;
CALL index_table.rebuild('unfinished');
SELECT index_table.repair('people_by_town');
RESET ROLE;
SELECT * FROM differences();
-- What a role owned, not the table: a function in a key, a partition.
ALTER FUNCTION shout(text) OWNER TO regress_extension_one;
DROP OWNED BY regress_extension_one;
BEGIN;
DROP OWNED BY regress_extension_one CASCADE;
SELECT index_table FROM index_table.definition ORDER BY index_table::text COLLATE "C";
UPDATE people SET note = 'other' WHERE id = 1;
ROLLBACK;
ALTER FUNCTION shout(text) OWNER TO regress_extension_two;
ALTER TABLE people_0 OWNER TO regress_extension_one;
BEGIN;
DROP OWNED BY regress_extension_one;
UPDATE people SET town = 'moved';
SELECT * FROM differences();
ROLLBACK;
BEGIN;
DROP OWNED BY regress_extension_two;
SELECT relation FROM owners;
SELECT count(*) FROM index_table.definition;
ROLLBACK;

-- pg_upgrade does not carry such dependencies over, and gives the rules others. They are made up for before anything is dropped.
CREATE PROCEDURE forget() LANGUAGE sql AS $$
    DELETE FROM pg_depend WHERE (objid IN (SELECT index_table FROM index_table.definition) OR objid = 'people_by_phone_p0'::regclass)
       AND refobjid IN ('people'::regclass, 'shout'::regproc);
    INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
        SELECT 'pg_rewrite'::regclass, r.oid, 0, 'pg_class'::regclass, a.attrelid, a.attnum, 'n'
          FROM pg_rewrite r, pg_attribute a
         WHERE r.rulename = 'index_table_definition' AND a.attrelid = 'people'::regclass AND a.attnum > 0 $$;
BEGIN;
CALL forget();
ALTER TABLE people DROP COLUMN phone;
UPDATE people SET town = 'without', note = 'phone' WHERE id = 1;
SELECT index_table, include FROM index_table.index_tables ORDER BY index_table::text COLLATE "C";
SELECT index_table, count(*) FROM index_table.index_tables, index_table.verify(index_table) WHERE is_complete GROUP BY index_table;
ROLLBACK;
BEGIN;
CALL forget();
DROP FUNCTION shout(text);
ROLLBACK;
BEGIN;
CALL forget();
DROP TABLE people;
SELECT relation FROM owners;
TABLE index_table.definition;
ROLLBACK;
-- A definition that cannot be followed any more keeps nobody from dropping what is in the way.
BEGIN;
ALTER TABLE people DISABLE TRIGGER USER;
CALL forget();
CREATE TABLE bystander (a int);
CREATE RULE other AS ON DELETE TO bystander DO ALSO SELECT 1;
SET allow_system_table_mods = on;
UPDATE pg_rewrite r SET ev_action = o.ev_action FROM pg_rewrite o
 WHERE o.rulename = 'other' AND r.ev_class = 'shouted'::regclass;
ALTER TABLE bystander RENAME COLUMN a TO b;
DROP TABLE shouted;
UPDATE people SET town = 'moved' WHERE id = 2;
ROLLBACK;
SELECT * FROM differences();

-- The extension goes: base tables are as they were, index tables are plain tables that go with their base table.
DROP EXTENSION index_table;
BEGIN;
DROP EXTENSION index_table CASCADE;
SELECT relation FROM owners;
SELECT tgname FROM pg_trigger WHERE tgrelid IN ('people'::regclass, 'people_0'::regclass);
SELECT evtname FROM pg_event_trigger;
INSERT INTO people VALUES (100, 'a', 'b'), (101, 'a', 'b');
UPDATE people SET id = 200 WHERE id = 100;
ALTER TABLE people ADD COLUMN extra int;
ALTER TABLE people ALTER COLUMN town TYPE varchar(30), ALTER COLUMN phone TYPE varchar(31);
TRUNCATE people_0;
DELETE FROM people_by_town;
DROP TABLE people;
SELECT relation FROM owners;
ROLLBACK;
SELECT * FROM differences();
DROP EXTENSION index_table CASCADE;
INSERT INTO people VALUES (100, 'a', 'b', 'c'), (101, 'a', 'b', 'c');
UPDATE people SET id = 200 WHERE id = 100;
TRUNCATE people_0;
-- And comes back, in the same session.
CREATE EXTENSION index_table;
TABLE index_table.definition;
TRUNCATE recomputation;
DROP TABLE people_by_town;
SELECT index_table.create('people', 'town', 'partial', include => 'phone');
INSERT INTO recomputation VALUES ('people_by_town', 'town, partition_id, id, phone', 'people b');
UPDATE people SET town = 'again';
TRUNCATE people_1;
INSERT INTO people SELECT i, 'town ' || i % 3, 'phone ' || i, 'note' FROM generate_series(1, 20) AS i;
SELECT * FROM differences();

DROP SCHEMA extension CASCADE;
DROP ROLE regress_extension_one, regress_extension_two;
SELECT count(*) FROM index_table.definition;
