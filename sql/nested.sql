-- Statements inside statements: triggers, functions and blocks that write while another statement runs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA nested;
SET search_path = nested;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

\set people :abs_srcdir '/sql/include/people.sql'
\i :people

INSERT INTO people SELECT i, (ARRAY['north', 'south', 'west'])[1 + i % 3], 'Town ' || i % 4, 'Name ' || i % 5, 'phone ' || i, i FROM generate_series(1, 60) AS i;

-- Blocks with exception handlers: what fails is undone, what succeeds stays.
DO $$
BEGIN
    FOR i IN 400..419 LOOP
        BEGIN
            INSERT INTO people (id, region, town, phone) VALUES (i, 'north', 'loop', i / 3);
            UPDATE people SET town = town || i WHERE id = i AND i % 2 = 0;
            IF i % 5 = 0 THEN
                RAISE 'no';
            END IF;
        EXCEPTION WHEN unique_violation OR raise_exception THEN
            UPDATE people SET name = 'after ' || i WHERE id = i - 1;
        END;
    END LOOP;
END $$;
SELECT count(*), string_agg(id::text, ' ' ORDER BY id) FROM people WHERE id >= 400;
SELECT * FROM differences();

-- AFTER triggers that change rows of the same statement before their own triggers have run: no orphans.
CREATE FUNCTION after_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name = 'lead' THEN
        UPDATE people SET town = 'led', name = 'follower' WHERE id BETWEEN NEW.id + 1 AND NEW.id + 8;
    ELSIF NEW.name = 'kill' THEN
        DELETE FROM people WHERE id BETWEEN NEW.id + 1 AND NEW.id + 3;
        INSERT INTO people (id, region, town, name) VALUES (NEW.id + 1, 'rest', 'heir', 'heir');
    ELSIF NEW.name = 'self' THEN
        UPDATE people SET name = 'done', phone = phone || phone WHERE id = NEW.id;
    ELSIF NEW.name = 'fail' THEN
        BEGIN
            UPDATE people SET town = 'failed' WHERE id = NEW.id + 1;
            DELETE FROM people WHERE id = NEW.id;
            RAISE 'no';
        EXCEPTION WHEN raise_exception THEN
            UPDATE people SET town = 'handled' WHERE id = NEW.id + 1;
        END;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_first AFTER INSERT OR UPDATE ON people FOR EACH ROW EXECUTE FUNCTION after_people();
INSERT INTO people (id, region, town, name, phone) SELECT 600 + i, 'north', 'one', CASE WHEN i = 1 THEN 'lead' END, '6' || i FROM generate_series(1, 9) AS i;
SELECT id, town, name FROM people WHERE id BETWEEN 600 AND 699 ORDER BY id;
UPDATE people SET town = 'two', name = CASE WHEN id = 601 THEN 'lead' ELSE name END WHERE id BETWEEN 600 AND 699;
SELECT count(*) FROM people_by_town WHERE id BETWEEN 600 AND 699;
SELECT * FROM differences();
UPDATE people SET name = CASE id WHEN 601 THEN 'kill' WHEN 605 THEN 'self' WHEN 607 THEN 'fail' ELSE name END WHERE id BETWEEN 600 AND 699;
SELECT id, region, town, name, phone FROM people WHERE id BETWEEN 600 AND 699 ORDER BY id;
INSERT INTO people (id, region, town, name) VALUES (700, 'north', 'seen', 'kill'), (702, 'south', 'seen', 'other'), (703, 'west', 'seen', 'fail'), (704, 'south', 'seen', 'self');
SELECT * FROM differences();
ALTER TABLE people DISABLE TRIGGER a_first;
-- What such a trigger reads through an index table is what it would read in the base table: rows whose own
-- triggers have not run yet, and rows that are undone when a block fails.
CREATE FUNCTION read_people() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    looked_up bigint;
    fetched bigint;
BEGIN
    BEGIN
        UPDATE people SET town = 'second' WHERE id = 712 AND NEW.id = 711;
        SELECT count(*) INTO fetched FROM index_table.fetch(NULL::people, 'people_by_town', 'first');
        RAISE 'no';
    EXCEPTION WHEN raise_exception THEN
        SELECT count(*) INTO looked_up FROM index_table.lookup('people_by_town', 'first');
    END;
    RAISE WARNING '%: % rows, % in the block, % in the base table', NEW.id, looked_up, fetched, (SELECT count(*) FROM people WHERE town = 'first');
    RETURN NULL;
END $$;
CREATE TRIGGER a_reads AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION read_people();
INSERT INTO people (id, region, town) VALUES (710, 'north', 'first'), (711, 'south', 'first'), (712, 'rest', 'first');
ALTER TRIGGER a_reads ON people RENAME TO z_reads;
INSERT INTO people (id, region, town) VALUES (713, 'north', 'first'), (714, 'south', 'other');
DROP TRIGGER z_reads ON people;
-- And of its entries, those that there are so far.
CREATE FUNCTION read_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '%: % entries', NEW.id, (SELECT count(*) FROM people_by_town WHERE town = NEW.town);
    RETURN NULL;
END $$;
CREATE TRIGGER z_reads AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION read_entries();
INSERT INTO people (id, region, town) VALUES (715, 'north', 'third'), (716, 'south', 'third');
DROP TRIGGER z_reads ON people;
CREATE FUNCTION seen(text) RETURNS text LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM index_table.lookup('people_by_town', $1)) || ' of ' || (SELECT count(*) FROM people WHERE town = $1)
$$;
INSERT INTO people (id, region, town) SELECT 720 + i, 'west', 'self' FROM generate_series(1, 5) AS i WHERE seen('self') <> '3 of 3' RETURNING id, seen('self');
SELECT seen('self');
UPDATE people SET name = seen('self') WHERE town = 'self' RETURNING name, seen('self');
SELECT * FROM differences();
-- The same after, by alphabet, our own trigger; and in a statement trigger.
CREATE TRIGGER z_last AFTER INSERT OR UPDATE ON people FOR EACH ROW EXECUTE FUNCTION after_people();
INSERT INTO people (id, region, town, name) SELECT 800 + i, 'south', 'one', CASE WHEN i = 1 THEN 'lead' WHEN i = 11 THEN 'kill' END FROM generate_series(1, 14) AS i;
UPDATE people SET town = 'two', name = 'lead' WHERE id = 801;
UPDATE people SET name = CASE id WHEN 801 THEN 'kill' WHEN 805 THEN 'self' WHEN 807 THEN 'fail' ELSE name END WHERE id BETWEEN 800 AND 899;
SELECT * FROM differences();
DROP TRIGGER z_last ON people;
CREATE FUNCTION after_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE people SET town = 'statement ' || (SELECT count(*) FROM index_table.lookup('people_by_town', 'one')) WHERE id = 806;
    RETURN NULL;
END $$;
CREATE TRIGGER after_statement AFTER UPDATE OF phone ON people FOR EACH STATEMENT EXECUTE FUNCTION after_statement();
UPDATE people SET town = 'one', phone = id WHERE id IN (808, 809, 815, 816);
SELECT town, (SELECT count(*) FROM people WHERE people.town = 'one') FROM people WHERE id = 806;
DROP TRIGGER after_statement ON people;
-- Statements inside a query: functions that write while it runs.
CREATE FUNCTION touch(int, text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    UPDATE people SET town = $2, name = 'touched' WHERE id = $1;
    RETURN $1;
END $$;
SELECT count(touch(id, 'touched ' || id % 2)) FROM people WHERE id BETWEEN 400 AND 410;
UPDATE people SET phone = 'x' || touch(id + 1, 'ahead')::text || id WHERE id BETWEEN 800 AND 808 AND id % 2 = 0;
INSERT INTO people (id, region, town) SELECT 900 + touch(id, 'selected'), 'west', town FROM people WHERE id BETWEEN 600 AND 605;
SELECT * FROM differences();

-- The first statement of a session loads the library when it is already under way.
\c -
SET search_path = nested;
SET client_min_messages = warning;
INSERT INTO people (id, region, town) VALUES (950, 'north', 'fresh');
SELECT * FROM differences();
\c -
UPDATE nested.people SET town = 'fresher' WHERE id = 950;
\c -
COPY nested.people (id, region, town) FROM stdin;
951	north	copied
\.
\c -
BEGIN;
DELETE FROM nested.people WHERE id = 950;
SAVEPOINT s;
DELETE FROM nested.people WHERE id = 951;
ROLLBACK TO s;
COMMIT;
\c -
TRUNCATE nested.people_south;
SET search_path = nested;
SET client_min_messages = warning;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'copied');
SELECT * FROM differences();

-- Partitions are pruned when a query starts, by functions, whose own queries may fail while they start.
CREATE TABLE pruned (k int) PARTITION BY LIST (k);
CREATE TABLE pruned_1 PARTITION OF pruned FOR VALUES IN (1);
CREATE TABLE pruned_2 PARTITION OF pruned FOR VALUES IN (2);
INSERT INTO pruned VALUES (1), (2);
CREATE FUNCTION divide(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1 / $1; END';
CREATE FUNCTION chosen(zero int) RETURNS int STABLE LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM FROM pruned WHERE k = divide(zero);
    RETURN 2;
EXCEPTION WHEN division_by_zero THEN
    RETURN 1;
END $$;
CREATE TABLE moved (id int PRIMARY KEY, k int, n int) PARTITION BY RANGE (id);
CREATE TABLE moved_1 PARTITION OF moved FOR VALUES FROM (0) TO (10);
CREATE TABLE moved_2 (n int, k int, id int NOT NULL);
ALTER TABLE moved ATTACH PARTITION moved_2 FOR VALUES FROM (10) TO (20);
INSERT INTO moved SELECT i, i, i FROM generate_series(1, 19) AS i;
SELECT index_table.create('moved', 'k');
SET index_table.enable_scan = force;
WITH c AS MATERIALIZED (SELECT id, n FROM moved WHERE k IN (3, 15) FOR UPDATE) SELECT c.* FROM c, pruned WHERE pruned.k = chosen(0) ORDER BY id;
WITH c AS (UPDATE moved SET k = k + 100 WHERE k IN (3, 15) RETURNING id, k) SELECT c.* FROM c, pruned WHERE pruned.k = chosen(0) ORDER BY id;
WITH c AS (INSERT INTO moved VALUES (5, 1, 1), (9, 103, 1) ON CONFLICT DO NOTHING RETURNING id) SELECT count(*) FROM c, pruned WHERE pruned.k = chosen(0);
RESET index_table.enable_scan;
INSERT INTO recomputation VALUES ('moved_by_k', 'b.k, p.partition_id, b.id', 'moved AS b', 'true');
SELECT * FROM differences();

DROP SCHEMA nested CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
