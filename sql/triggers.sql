-- ALTER TABLE … ENABLE and DISABLE TRIGGER, with which dumps of data load it: the extension's triggers fire always, or not at all.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA triggers;
SET search_path = triggers;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE FUNCTION others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TABLE people (id int, region text, town text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
CREATE TABLE people_b PARTITION OF people FOR VALUES IN ('b') PARTITION BY HASH (id);
CREATE TABLE people_b_0 PARTITION OF people_b FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TRIGGER others AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION others();
INSERT INTO people SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, 'town ' || i % 3 FROM generate_series(1, 20) AS i;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'id', 'denormalized');
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, region', 'people b'),
    ('people_by_id', 'id, partition_id, region, town', 'people b');
-- Of the row trigger and the statement trigger, and of another one.
CREATE VIEW states AS
    SELECT tgrelid::regclass::text COLLATE "C" AS relation, string_agg(tgenabled::text, '' ORDER BY tgname DESC) FILTER (WHERE tgname LIKE 'index%') AS own,
           string_agg(tgenabled::text, '') FILTER (WHERE tgname = 'others') AS others
      FROM pg_trigger WHERE tgname IN ('others', 'index_table_maintain', 'index_table_announce') GROUP BY 1 ORDER BY 1;
TABLE states;

-- As dumps do it, a partition at a time.
ALTER TABLE people_a DISABLE TRIGGER ALL;
TABLE states;
ALTER TABLE people_a ENABLE TRIGGER ALL;
TABLE states;
-- The whole tree, which PostgreSQL descends for row triggers; part of it; one trigger; and what is not meant stays disabled.
ALTER TABLE people ENABLE TRIGGER ALL;
TABLE states;
ALTER TABLE people_b ENABLE REPLICA TRIGGER index_table_maintain;
TABLE states;
ALTER TABLE people ENABLE REPLICA TRIGGER others, ENABLE TRIGGER index_table_announce;
TABLE states;
ALTER TABLE ONLY people ENABLE TRIGGER index_table_maintain;
TABLE states;
SET session_replication_role = replica;
UPDATE people SET town = 'as replica' WHERE id IN (1, 2);
RESET session_replication_role;
SELECT * FROM differences();

-- Disabling them is the owner's choice, and has consequences, see missed.sql. Dumps hide the notice.
\set VERBOSITY terse
SET client_min_messages = notice;
ALTER TABLE people DISABLE TRIGGER ALL;
SET client_min_messages = warning;
\set VERBOSITY default
ALTER TABLE people DISABLE TRIGGER others;
ALTER TABLE people_a DISABLE TRIGGER others;
ALTER TABLE people DISABLE TRIGGER USER;
ALTER TABLE people_b_0 DISABLE TRIGGER index_table_maintain;
ALTER TABLE people ENABLE TRIGGER others;
TABLE states;
INSERT INTO people VALUES (100, 'a', 'behind'), (101, 'b', 'behind');
DELETE FROM people WHERE id < 5;
-- Who verifies or repairs meanwhile is told.
SELECT count(*) > 0 AS damaged FROM index_table.verify('people_by_town');
SELECT index_table.repair('people_by_town') > 0 AS mended;
INSERT INTO people VALUES (104, 'a', 'behind again'), (105, 'b', 'behind again');
ALTER TABLE people_b ENABLE TRIGGER index_table_maintain;
TABLE states;
ALTER TABLE people ENABLE TRIGGER ALL;
INSERT INTO people VALUES (102, 'a', 'before'), (103, 'b', 'before');
SELECT count(*) FROM differences();
SELECT index_table.repair('people_by_town'), index_table.repair('people_by_id');
SELECT * FROM differences();
ALTER TABLE people_a DISABLE TRIGGER index_table_announce, DISABLE TRIGGER index_table_maintain;
TRUNCATE people_a;
ALTER TABLE people_a ENABLE TRIGGER ALL;
ALTER TABLE people_b_0 ENABLE TRIGGER ALL, DISABLE TRIGGER others;
TABLE states;
SELECT index_table.repair('people_by_town'), index_table.repair('people_by_id');
SELECT * FROM differences();
-- Dropped, they come back with repair().
SET client_min_messages = notice;
DROP TRIGGER index_table_maintain ON people;
INSERT INTO people VALUES (110, 'a', 'missed');
SELECT count(*) > 0 AS missed FROM differences();
DROP TRIGGER index_table_announce ON people;
DROP TRIGGER index_table_announce ON people_a;
TRUNCATE people_a;
INSERT INTO people VALUES (111, 'a', 'missed, too');
RESET client_min_messages;
SET client_min_messages = warning;
SELECT index_table.repair('people_by_town') > 0 AS mended, index_table.repair('people_by_id') > 0 AS mended;
TABLE states;
INSERT INTO people VALUES (112, 'a', 'followed');
SELECT * FROM differences();
-- What triggers write BEFORE TRUNCATE into what is about to be truncated goes with it; what they write elsewhere, or AFTER, stays.
SELECT index_table.create('people', 'town, id', is_unique => true, name => 'people_towns');
INSERT INTO recomputation VALUES ('people_towns', 'town, id, partition_id, region', 'people b');
CREATE FUNCTION writes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO people VALUES (200 + pg_trigger_depth(), 'a', 'from ' || TG_RELID::regclass || TG_NAME || TG_WHEN) ON CONFLICT DO NOTHING;
    INSERT INTO people VALUES (300, 'b', 'from ' || TG_RELID::regclass || TG_NAME || TG_WHEN) ON CONFLICT (id, region) DO UPDATE SET town = excluded.town;
    UPDATE people SET town = town || '!' WHERE id BETWEEN 10 AND 20;
    UPDATE people SET region = CASE region WHEN 'a' THEN 'b' ELSE 'a' END WHERE id = 112;
    DELETE FROM people WHERE id IN (11, 12);
    RETURN NULL;
END $$;
CREATE TRIGGER a_writes BEFORE TRUNCATE ON people_a FOR EACH STATEMENT EXECUTE FUNCTION writes();
CREATE TRIGGER z_writes BEFORE TRUNCATE ON people_a FOR EACH STATEMENT EXECUTE FUNCTION writes();
CREATE TRIGGER z_writes BEFORE TRUNCATE ON people_b_0 FOR EACH STATEMENT EXECUTE FUNCTION writes();
TRUNCATE people_a;
SELECT * FROM differences();
SELECT index_table, problem FROM index_table.index_tables AS i, index_table.verify(i.index_table) WHERE base = 'people'::regclass;
TRUNCATE people_a, people_b_0;
SELECT * FROM differences();
SELECT count(*) FROM people;
-- Of one that is rolled back nothing stays.
INSERT INTO people VALUES (1, 'a', 'x'), (2, 'b', 'x');
BEGIN;
SAVEPOINT s;
TRUNCATE people;
ROLLBACK TO s;
INSERT INTO people VALUES (3, 'a', 'x');
COMMIT;
SELECT * FROM differences();
CREATE TRIGGER y_writes AFTER TRUNCATE ON people_a FOR EACH STATEMENT EXECUTE FUNCTION writes();
TRUNCATE people;
SELECT * FROM differences();
SELECT id, region FROM people ORDER BY id;
-- The first statement of a session, whose hooks did not see it begin.
\c -
SET search_path = triggers;
TRUNCATE people;
SET client_min_messages = warning;
SELECT * FROM differences();
-- What is done about it in a block that fails is done again.
INSERT INTO people SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, 'x' FROM generate_series(1, 20) AS i;
\c -
SET search_path = triggers;
SET client_min_messages = warning;
DO $$ BEGIN
    TRUNCATE people_a;
    FOR i IN 1..2 LOOP
        BEGIN
            INSERT INTO people VALUES (1, 'a', 'fails');
            RAISE EXCEPTION 'fails';
        EXCEPTION WHEN raise_exception THEN
        END;
    END LOOP;
    INSERT INTO people VALUES (2, 'a', 'stays');
END $$;
SELECT * FROM differences();
SELECT index_table.drop('people_towns');
DELETE FROM recomputation WHERE entry ~ 'town, id';
DROP FUNCTION writes CASCADE;
-- Where there are no index tables nothing is said, and other tables' triggers are theirs.
ALTER TABLE recomputation DISABLE TRIGGER ALL;
CREATE TRIGGER others AFTER INSERT ON recomputation FOR EACH ROW EXECUTE FUNCTION others();
ALTER TABLE recomputation ENABLE TRIGGER ALL;
SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'recomputation'::regclass;

-- After numbers were loaded past triggers, all is looked at again.
CREATE TABLE loaded AS SELECT * FROM index_table.partition WHERE base = 'people'::regclass;
ALTER TABLE index_table.partition DISABLE TRIGGER ALL;
DELETE FROM index_table.partition WHERE base = 'people'::regclass;
INSERT INTO index_table.partition TABLE loaded;
ALTER TABLE index_table.partition ENABLE TRIGGER ALL;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'index_table.partition'::regclass ORDER BY tgname;
SELECT DISTINCT state FROM index_table.definition;
INSERT INTO people VALUES (104, 'a', 'after'), (105, 'b', 'after');
SELECT DISTINCT state FROM index_table.definition;
SELECT * FROM differences();

DROP SCHEMA triggers CASCADE;
SELECT count(*) FROM index_table.definition;
