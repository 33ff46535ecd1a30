-- What CREATE EXTENSION installs and DROP EXTENSION leaves behind.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS index_table CASCADE;

CREATE ROLE regress_setup;
GRANT CREATE ON DATABASE :DBNAME TO regress_setup;
SET ROLE regress_setup;
CREATE EXTENSION index_table;
RESET ROLE;
REVOKE CREATE ON DATABASE :DBNAME FROM regress_setup;
DROP ROLE regress_setup;
CREATE EXTENSION index_table SCHEMA public;
CREATE EXTENSION index_table;
SELECT extversion, extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'index_table';

-- Objects. Row types are members only from PostgreSQL 17 on; operator classes are those that PostgreSQL has.
SELECT pg_describe_object(classid, objid, objsubid) AS object FROM pg_depend
 WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass AND classid NOT IN ('pg_type'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass)
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'index_table')
 ORDER BY pg_describe_object(classid, objid, objsubid) COLLATE "C";

-- Contents that pg_dump saves.
SELECT c.oid::regclass AS dumped FROM pg_extension AS e JOIN pg_class AS c ON c.oid = ANY (e.extconfig)
 WHERE e.extname = 'index_table' ORDER BY c.relname COLLATE "C";

-- Functions: what they promise.
SELECT oid::regprocedure AS function, proretset AS set, provolatile AS volatile, proisstrict AS strict,
       proparallel AS parallel, prosecdef AS definer
  FROM pg_proc WHERE pronamespace = 'index_table'::regnamespace
 ORDER BY oid::regprocedure::text COLLATE "C";

-- Those that run SQL with other rights than the caller's must not trust the caller's search_path.
SELECT oid::regprocedure AS trusting FROM pg_proc
 WHERE pronamespace = 'index_table'::regnamespace
   AND (prosecdef OR prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c'))
   AND NOT COALESCE(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false);

-- Everything a user may call or read says what it is for.
SELECT oid::regprocedure AS without_comment FROM pg_proc
 WHERE pronamespace = 'index_table'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL;
SELECT oid::regclass AS without_comment FROM pg_class
 WHERE relnamespace = 'index_table'::regnamespace AND relkind IN ('r', 'v')
   AND obj_description(oid, 'pg_class') IS NULL;

-- Privileges of a role that was granted nothing.
SELECT oid::regprocedure AS not_executable FROM pg_proc
 WHERE pronamespace = 'index_table'::regnamespace AND NOT has_function_privilege('public', oid, 'EXECUTE')
 ORDER BY oid::regprocedure::text COLLATE "C";
SELECT has_schema_privilege('public', 'index_table', 'USAGE') AS usage,
       has_schema_privilege('public', 'index_table', 'CREATE') AS "create";
SELECT oid::regclass AS relation, has_table_privilege('public', oid, 'SELECT') AS readable,
       has_table_privilege('public', oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') AS writable
  FROM pg_class WHERE relnamespace = 'index_table'::regnamespace AND relkind IN ('r', 'v')
 ORDER BY oid::regclass::text COLLATE "C";
SELECT has_sequence_privilege('public', 'index_table.partition_id_seq', 'USAGE, UPDATE, SELECT') AS any_privilege;

-- The event triggers fire whatever session_replication_role says.
SELECT evtname, evtevent, evtenabled, evtfoid::regproc FROM pg_event_trigger
 WHERE evtfoid::regproc::text LIKE 'index\_table.%' ORDER BY evtname;

-- Nothing yet.
SELECT * FROM index_table.index_tables;
SELECT * FROM index_table.partitions;
SELECT * FROM index_table.progress;

CREATE SCHEMA setup;
SET search_path = setup;
CREATE TABLE people (id int PRIMARY KEY, town text) PARTITION BY HASH (id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO people SELECT i, 'town ' || i % 3 FROM generate_series(1, 10) AS i;
SELECT index_table.create('people', 'town');

-- The trigger functions serve as triggers only, and only of their own kind.
SELECT index_table.maintain();
\echo :SQLSTATE
SELECT index_table.announce();
\echo :SQLSTATE
SELECT index_table.on_drop();
\echo :SQLSTATE
CREATE TABLE other (id int PRIMARY KEY);
CREATE TRIGGER early BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION index_table.maintain();
INSERT INTO other VALUES (1);
\echo :SQLSTATE
DROP TRIGGER early ON other;
CREATE TRIGGER of_statement AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION index_table.maintain();
INSERT INTO other VALUES (1);
\echo :SQLSTATE
DROP TRIGGER of_statement ON other;
CREATE TRIGGER late AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION index_table.announce();
INSERT INTO other VALUES (1);
\echo :SQLSTATE
DROP TRIGGER late ON other;
CREATE TRIGGER of_row BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION index_table.announce();
INSERT INTO other VALUES (1);
\echo :SQLSTATE
DROP TRIGGER of_row ON other;
-- On a table without index tables they do nothing.
CREATE TRIGGER stray AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION index_table.maintain();
CREATE TRIGGER stray_too BEFORE INSERT OR TRUNCATE ON other FOR EACH STATEMENT EXECUTE FUNCTION index_table.announce();
INSERT INTO other VALUES (1);
TRUNCATE other;
SELECT count(*) FROM other;
DROP TABLE other;

-- The extension can go only together with the triggers. Index tables stay, as tables of their owner.
\set VERBOSITY terse
DROP EXTENSION index_table;
\set VERBOSITY default
\echo :SQLSTATE
BEGIN;
DROP EXTENSION index_table CASCADE;
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgname LIKE 'index\_table%';
INSERT INTO people VALUES (11, 'town 11');
UPDATE people SET town = 'town 0';
TRUNCATE people_0;
DROP TABLE people_1;
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT count(*) FROM people_by_town;
CREATE EXTENSION index_table;
SELECT index_table.create('people', 'town', name => 'people_by_town_again');
SELECT index_table, base FROM index_table.index_tables;
SELECT * FROM index_table.verify('people_by_town_again');
ROLLBACK;
SELECT index_table, base FROM index_table.index_tables;
INSERT INTO people VALUES (12, 'town 12');
SELECT * FROM index_table.verify('people_by_town');

-- The oracle: the index table equals its recomputation from the base table.
CREATE VIEW differences AS
    WITH recomputed AS (
        SELECT b.town, p.partition_id, b.id FROM people AS b JOIN index_table.partition AS p ON p.relation = b.tableoid
    ), stored AS (
        SELECT e.* FROM people_by_town AS e WHERE e.partition_id IN (SELECT partition_id FROM index_table.partition)
    )
    SELECT 'missing' AS problem, m.* FROM (TABLE recomputed EXCEPT ALL TABLE stored) AS m
    UNION ALL
    SELECT 'surplus', s.* FROM (TABLE stored EXCEPT ALL TABLE recomputed) AS s;
TABLE differences;
SELECT count(*) FROM people_by_town;

DROP SCHEMA setup CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
