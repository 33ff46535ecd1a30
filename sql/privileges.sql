-- Privileges: an index table gives nobody more than the base table does.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_privileges_owner;
CREATE ROLE regress_privileges_reader;
CREATE ROLE regress_privileges_nobody;
CREATE SCHEMA privileges;
GRANT USAGE ON SCHEMA privileges TO regress_privileges_reader, regress_privileges_nobody;
GRANT USAGE, CREATE ON SCHEMA privileges TO regress_privileges_owner;
SET search_path = privileges;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

SET ROLE regress_privileges_owner;
CREATE TABLE people (id int PRIMARY KEY, town text, name text, secret text, tags text[]) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'town ' || i % 2, 'name ' || i, 'secret ' || i, ARRAY['tag ' || i % 3] FROM generate_series(1, 8) AS i;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'name', 'partial', include => 'secret', partitions => 2);
SELECT index_table.create('people', 'lower(town)', predicate => 'secret < ''secret 5''');
SELECT index_table.create('people', 'tags', 'denormalized');
RESET ROLE;
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id', 'people b', 'true'),
    ('people_by_name', 'name, partition_id, id, secret', 'people b', 'true'),
    ('people_by_lower', 'lower(town), partition_id, id', 'people b', 'secret < ''secret 5'''),
    ('people_by_tags', 'tag, partition_id, id, town, name, secret, tags', 'people b CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags)) AS m (tag)', 'true');
SELECT DISTINCT pg_get_userbyid(relowner) AS owner, relacl FROM pg_class WHERE relnamespace = 'privileges'::regnamespace AND relname LIKE 'people\_by%';

-- Nothing granted: nothing seen, nothing done, and nothing waited for.
SET ROLE regress_privileges_nobody;
SELECT * FROM people_by_town;
\echo :SQLSTATE
SELECT * FROM people_by_name_p0;
SELECT * FROM index_table.lookup('people_by_town', 'town 1');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_town');
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town', 'town 1');
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, 'people_by_town', 1, NULL);
\echo :SQLSTATE
SELECT index_table.create('people', 'town', name => 'mine');
\echo :SQLSTATE
SELECT index_table.drop('people_by_town');
\echo :SQLSTATE
SELECT * FROM index_table.verify('people_by_town');
\echo :SQLSTATE
SELECT index_table.repair('people_by_town');
\echo :SQLSTATE
DELETE FROM index_table.definition;
INSERT INTO index_table.partition (base, relation) VALUES ('people', 'people');
SELECT nextval('index_table.partition_id_seq');
SELECT setval('index_table.partition_id_seq', 1);
SELECT * FROM index_table.intent;
SELECT * FROM index_table.undrained;
-- Who restores a dump inserts into what is dumped: rows about what she does not own are left out.
CREATE TEMP TABLE mine (id int, number bigint GENERATED ALWAYS AS IDENTITY);
INSERT INTO index_table.partition SELECT 1000000, 'people'::regclass, c FROM unnest('{mine,people,people_0,index_table.definition}'::regclass[]) AS c;
INSERT INTO index_table.partition SELECT 1000000, c, 'mine'::regclass FROM unnest('{people,people_0}'::regclass[]) AS c;
INSERT INTO index_table.partition VALUES (1000000, NULL, 'mine'), (1000001, 'mine', NULL), (1000002, 0::oid, 'mine'), (1000003, 99999999::oid, 99999999::oid);
INSERT INTO index_table.retired_partition SELECT 'people_by_town'::regclass, partition_id, 'people'::regclass, 0 FROM index_table.partition;
INSERT INTO index_table.retired_partition SELECT 'mine'::regclass, partition_id, 'people'::regclass, 0 FROM index_table.partition;
INSERT INTO index_table.retired_partition VALUES ('people_by_town', 1000000, 'mine', 0), ('mine', 1000001, NULL, 0);
INSERT INTO index_table.loaded_partition VALUES ('people_by_town', 1);
INSERT INTO index_table.captured VALUES ('people', 'mine', '{id}'), ('mine', 'people', '{id}'), ('mine', 'mine', '{id}'), ('mine', 'mine', '{NULL}'), ('mine', 'mine', '{}');
SELECT count(*) FROM index_table.partition WHERE partition_id >= 1000000 OR relation IN (SELECT 'mine'::regclass);
SELECT (SELECT count(*) FROM index_table.retired_partition) AS retired, (SELECT count(*) FROM index_table.loaded_partition) AS loaded,
       (SELECT count(*) FROM index_table.captured) AS captured;
-- About her own she may say what she likes, as long as there is enough left for others.
INSERT INTO index_table.partition VALUES (2000000000, 'mine', 'mine');
\echo :SQLSTATE
INSERT INTO index_table.partition VALUES (0, 'mine', 'mine');
\echo :SQLSTATE
\set VERBOSITY terse
INSERT INTO index_table.partition VALUES ((SELECT min(partition_id) FROM index_table.partition), 'mine', 'mine');
\set VERBOSITY default
INSERT INTO index_table.partition VALUES ((SELECT max(partition_id) + 1 FROM index_table.partition), 'mine', 'mine');
UPDATE index_table.partition SET base = 'people';
DELETE FROM index_table.partition;
SELECT base = 'mine'::regclass AS own FROM index_table.partition WHERE relation = 'mine'::regclass;
SELECT max(partition_id) AS number FROM index_table.partition \gset
DROP TABLE mine;
SELECT count(*) FROM index_table.partition WHERE partition_id = :number;
-- What there is, is no secret; as it is none in pg_class.
SELECT index_table, key FROM index_table.index_tables WHERE base = 'people'::regclass ORDER BY index_table::text;
RESET ROLE;

-- SELECT on the base table is enough, for index tables too; writing them is not for readers.
GRANT SELECT ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT identity FROM index_table.lookup('people_by_town', 'town 1');
SELECT identity, included FROM index_table.lookup('people_by_name', 'name 7');
SELECT * FROM index_table.fetch(NULL::people, 'people_by_tags', 'tag 1');
SELECT entity, next IS NULL AS last FROM index_table.page(NULL::people, 'people_by_lower', 10, NULL);
SELECT * FROM people_by_town;
\echo :SQLSTATE
SELECT * FROM people_by_name_p1;
\echo :SQLSTATE
SELECT * FROM index_table.verify('people_by_name');
\echo :SQLSTATE
RESET ROLE;

-- Column privileges: lookup wants the columns it shows and those it searches by; rows want all.
REVOKE SELECT ON people FROM regress_privileges_reader;
GRANT SELECT (id, town) ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT identity FROM index_table.lookup('people_by_town', 'town 1');
SELECT * FROM index_table.lookup('people_by_name', 'name 7');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_lower', 'town 1');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_tags', 'tag 1');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town', 'town 1');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (secret) ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT identity FROM index_table.lookup('people_by_lower', 'town 1');
SELECT * FROM index_table.lookup('people_by_name', 'name 7');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (name, tags) ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT included FROM index_table.lookup('people_by_name', 'name 7');
SELECT id FROM index_table.fetch(NULL::people, 'people_by_name', 'name 7');
RESET ROLE;

-- Writing the base table takes no privilege on the index tables, and no schema privilege either.
GRANT INSERT, UPDATE, DELETE, TRUNCATE ON people TO regress_privileges_nobody;
GRANT SELECT (id) ON people TO regress_privileges_nobody;
SET ROLE regress_privileges_nobody;
INSERT INTO people VALUES (9, 'town 9', 'name 9', 'secret 9', '{tag 9}');
UPDATE people SET town = 'town 10' WHERE id = 1;
DELETE FROM people WHERE id = 2;
RESET ROLE;
REVOKE USAGE ON SCHEMA index_table FROM PUBLIC;
SET ROLE regress_privileges_nobody;
UPDATE people SET town = 'town 11', secret = 'secret 1' WHERE id = 9;
SELECT * FROM index_table.lookup('people_by_town');
RESET ROLE;
GRANT USAGE ON SCHEMA index_table TO PUBLIC;
SELECT * FROM differences();

-- Row security: entries show when their rows do.
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON people FOR SELECT USING (id % 2 = 0);
CREATE POLICY writing ON people FOR UPDATE USING (true);
REVOKE SELECT (id, town, secret, name, tags) ON people FROM regress_privileges_reader;
GRANT SELECT, UPDATE ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT id FROM people ORDER BY id;
SELECT identity FROM index_table.lookup('people_by_town');
SELECT id, town FROM index_table.fetch(NULL::people, 'people_by_town');
SELECT id FROM index_table.fetch(NULL::people, 'people_by_tags', 'tag 1');
SELECT (entity).id, next IS NULL AS last FROM index_table.page(NULL::people, 'people_by_name', 2, NULL);
SELECT p2.* FROM index_table.page(NULL::people, 'people_by_name', 2, NULL) AS p1, index_table.page(NULL::people, 'people_by_name', 2, p1.next) AS p2 WHERE (p1.entity).id = 4;
RESET ROLE;
-- With column privileges as well.
REVOKE SELECT ON people FROM regress_privileges_reader;
GRANT SELECT (id, town) ON people TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT id, town FROM people ORDER BY id;
SELECT identity FROM index_table.lookup('people_by_town', 'town 0');
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town', 'town 0');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT ON people TO regress_privileges_reader;
-- A stale entry shows nobody a row under another key.
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO people_by_town SELECT 'ghost', partition_id, id FROM people_by_town WHERE id = 4;
SET LOCAL ROLE regress_privileges_reader;
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town', 'ghost');
SELECT * FROM index_table.page(NULL::people, 'people_by_town', 1, NULL, 'ghost');
ROLLBACK;
-- row_security = off is an error for those whom policies bind, not a way around them.
SET row_security = off;
SET ROLE regress_privileges_reader;
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_town');
\echo :SQLSTATE
SET ROLE regress_privileges_owner;
SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town');
RESET ROLE;
RESET row_security;
-- The owner is bound when policies are forced. Builds, verification and repair see all rows nevertheless.
SET ROLE regress_privileges_owner;
SELECT count(*) FROM index_table.lookup('people_by_town');
ALTER TABLE people FORCE ROW LEVEL SECURITY;
SELECT count(*) FROM index_table.lookup('people_by_town');
SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town');
SELECT index_table.create('people', 'secret', partitions => 1);
SELECT * FROM index_table.verify('people_by_secret');
-- A key that is taken is not shown to him then, no more than PostgreSQL would.
BEGIN;
CREATE POLICY "any" ON people FOR INSERT WITH CHECK (true);
SELECT index_table.create('people', 'name', is_unique => true, name => 'forced');
INSERT INTO people VALUES (1000, 'town', 'name 1', 'secret');
ROLLBACK;
ALTER TABLE people_by_secret_p0 DISABLE TRIGGER index_table_guard;
DELETE FROM people_by_secret_p0;
SELECT count(*) FROM index_table.verify('people_by_secret');
SELECT index_table.repair('people_by_secret');
DELETE FROM people_by_secret_p0;
ALTER TABLE people_by_secret_p0 ENABLE TRIGGER index_table_guard;
RESET ROLE;
INSERT INTO recomputation VALUES ('people_by_secret', 'secret, partition_id, id', 'people b', 'true');
SELECT * FROM differences();
-- A policy that looks at another table does so with the reader's rights.
CREATE TABLE allowed (id int);
INSERT INTO allowed VALUES (1), (4);
DROP POLICY even ON people;
CREATE POLICY listed ON people FOR SELECT USING (id IN (SELECT id FROM privileges.allowed));
SET ROLE regress_privileges_reader;
SELECT * FROM index_table.lookup('people_by_town');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT ON allowed TO regress_privileges_reader;
SET ROLE regress_privileges_reader;
SELECT identity FROM index_table.lookup('people_by_town');
RESET ROLE;
ALTER TABLE people NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;

-- Functions in keys and predicates run as the owner when a superuser builds, verifies or repairs.
SET ROLE regress_privileges_owner;
CREATE FUNCTION whoami(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN current_user; END $$;
CREATE FUNCTION grab(text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = 'regress_privileges_owner' THEN
        PERFORM set_config('session_authorization', session_user, false);
    END IF;
    RETURN true;
END $$;
CREATE TABLE bait (id int PRIMARY KEY, v text);
INSERT INTO bait VALUES (1, 'a');
RESET ROLE;
SELECT index_table.create('privileges.bait', 'privileges.whoami(v)');
SELECT whoami FROM bait_by_whoami;
SELECT * FROM index_table.verify('bait_by_whoami');
ALTER TABLE bait_by_whoami DISABLE TRIGGER index_table_guard;
DELETE FROM bait_by_whoami;
SELECT index_table.repair('bait_by_whoami');
SELECT whoami FROM bait_by_whoami;
DELETE FROM bait_by_whoami;
ALTER TABLE bait_by_whoami ENABLE TRIGGER index_table_guard;
SELECT whoami FROM bait_by_whoami;
\set VERBOSITY terse
SELECT index_table.create('bait', 'v', predicate => 'grab(v)');
\echo :SQLSTATE
\set VERBOSITY default
SELECT current_user = session_user AS still_myself, current_setting('search_path') AS search_path;
-- The caller's search_path is not theirs.
SET ROLE regress_privileges_owner;
CREATE FUNCTION lower(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'trapped'::text $$;
SET search_path = privileges, pg_catalog;
SELECT index_table.create('bait', 'lower(v)');
SET search_path = pg_catalog;
SELECT index_table.create('privileges.bait', 'lower(v)', name => 'privileges.bait_by_real_lower');
SELECT * FROM index_table.verify('privileges.bait_by_lower');
RESET ROLE;
SET search_path = privileges;
SELECT e.lower, r.lower FROM bait_by_lower AS e, bait_by_real_lower AS r;
SELECT index_table, key FROM index_table.index_tables WHERE base = 'bait'::regclass ORDER BY index_table::text COLLATE "C";

-- Owner of the base table, but without CREATE on its schema.
REVOKE CREATE ON SCHEMA privileges FROM regress_privileges_owner;
SET ROLE regress_privileges_owner;
\set VERBOSITY sqlstate
SELECT index_table.create('bait', 'v');
\set VERBOSITY default
SELECT index_table.drop('bait_by_lower');
RESET ROLE;
-- Members of the owning role are owners.
GRANT regress_privileges_owner TO regress_privileges_nobody;
SET ROLE regress_privileges_nobody;
SELECT * FROM index_table.verify('people_by_town');
SELECT index_table.repair('people_by_town');
SELECT index_table.drop('people_by_secret');
DROP TABLE people_by_tags;
RESET ROLE;
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = index_table);
SELECT * FROM differences();

-- Without an argument vacuum() looks at nothing of others': neither keys that cannot be read, nor what is dropped.
CREATE SCHEMA hidden;
CREATE FUNCTION hidden.f(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE TABLE hidden.secrets (id int PRIMARY KEY, v text);
INSERT INTO hidden.secrets VALUES (1, 'a');
SELECT index_table.create('hidden.secrets', 'hidden.f(v)', name => 'by_f');
TRUNCATE hidden.secrets;
TRUNCATE bait;
SELECT count(*) FROM hidden.by_f;
\c -
SET client_min_messages = warning;
SET search_path = privileges;
SET ROLE regress_privileges_owner;
SELECT index_table.vacuum() > 0 AS own;
RESET ROLE;
SELECT count(*) FROM hidden.by_f;
SELECT index_table.vacuum() AS all_others;
DROP SCHEMA hidden CASCADE;
SELECT * FROM differences();

DROP SCHEMA privileges CASCADE;
DROP ROLE regress_privileges_owner, regress_privileges_reader, regress_privileges_nobody;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
