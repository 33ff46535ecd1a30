-- Maintenance: whatever changes the base table changes its index tables in the same statement.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA maintain;
SET search_path = maintain;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

\set people :abs_srcdir '/sql/include/people.sql'
\i :people

-- INSERT, through the parent and into a partition; COPY; SELECT; DEFAULT VALUES would break the primary key.
INSERT INTO people VALUES (1, 'north', 'Oslo', 'Ann', '1', 40), (2, 'south', 'Rome', 'Bob', '2', 20), (3, 'east', NULL, NULL, NULL, NULL);
INSERT INTO people_south (id, region, town) VALUES (4, 'south', 'Rome') RETURNING label;
COPY people (id, region, town, name, phone, age) FROM stdin WITH (FORMAT csv);
5,north,Oslo,Cid,5,50
6,north,Bergen,Dan,6,60
7,west,"Bonn",Eve,7,70
\.
COPY people_south (region, id, town, age) FROM stdin;
south	8	Bari	31
south	9	\N	32
\.
INSERT INTO people SELECT i, (ARRAY['north', 'south', 'west'])[1 + i % 3], 'Town ' || i % 4, 'Name ' || i % 5, 'phone ' || i, i FROM generate_series(10, 60) AS i;
SELECT * FROM differences();

-- UPDATE of the key, of included columns, of others; of the identity; between partitions; in a partition.
UPDATE people SET town = 'New ' || town WHERE id % 2 = 0;
UPDATE people SET age = age + 1;
UPDATE people SET phone = phone || '!', name = name || '?' WHERE id % 3 = 0;
UPDATE people SET id = id + 100 WHERE id % 10 = 0;
UPDATE people SET region = CASE region WHEN 'north' THEN 'south' WHEN 'south' THEN 'west' ELSE 'north' END WHERE id % 4 = 1;
UPDATE people_south SET town = 'Napoli' WHERE town IS NULL;
UPDATE people SET town = t.v FROM (VALUES (1, 'Turku'), (2, NULL), (2, 'never both')) AS t (id, v) WHERE people.id = t.id AND t.v IS DISTINCT FROM 'never both';
UPDATE people SET (town, name) = (name, town) WHERE id BETWEEN 20 AND 30;
SELECT * FROM differences();
DELETE FROM people WHERE id % 7 = 0;
DELETE FROM people_rest USING people_south WHERE people_rest.id = people_south.id + 1;
DELETE FROM ONLY people WHERE true;
SELECT * FROM differences();

-- ON CONFLICT, MERGE, WITH.
INSERT INTO people (id, region, town, phone) VALUES (1, 'south', 'Lund', 'a'), (200, 'south', 'Lund', 'b')
    ON CONFLICT (id, region) DO UPDATE SET town = excluded.town || ' again', phone = excluded.phone;
INSERT INTO people (id, region, town) SELECT id, region, 'ignored' FROM people ON CONFLICT DO NOTHING;
INSERT INTO people AS p (id, region, town) VALUES (200, 'south', 'Ghent') ON CONFLICT (id, region) DO UPDATE SET id = 201 WHERE p.town = 'Lund';
MERGE INTO people AS p USING (VALUES (200, 'south', 'Nice'), (202, 'north', 'Lyon'), (4, 'south', NULL), (12, 'north', 'Metz')) AS v (id, region, town)
    ON p.id = v.id AND p.region = v.region
    WHEN MATCHED AND v.town IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET town = v.town, region = 'west'
    WHEN NOT MATCHED THEN INSERT (id, region, town) VALUES (v.id, v.region, v.town);
WITH gone AS (DELETE FROM people WHERE region = 'west' AND id < 40 RETURNING id, town, name),
     added AS (INSERT INTO people (id, region, town, name) SELECT id, 'back', town, name FROM gone RETURNING id),
     changed AS (UPDATE people SET name = 'changed' WHERE region = 'north' AND id IN (SELECT id + 1 FROM gone) RETURNING id)
SELECT (SELECT count(*) FROM gone) = (SELECT count(*) FROM added) AS moved, (SELECT count(*) > 0 FROM changed) AS changed;
SELECT * FROM differences();
-- Row by row through a cursor; in a prepared statement.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM people_south ORDER BY id;
MOVE 2 IN c;
FETCH NEXT FROM c;
UPDATE people_south SET town = 'here' WHERE CURRENT OF c;
FETCH NEXT FROM c;
DELETE FROM people_south WHERE CURRENT OF c;
COMMIT;
PREPARE move_to(text, int) AS UPDATE people SET town = $1 WHERE id = $2;
EXECUTE move_to('Pau', 11);
EXECUTE move_to('Pau', 12);
EXECUTE move_to(NULL, 11);
DEALLOCATE move_to;
SELECT * FROM differences();

-- A statement sees the entries of those before it, in its own transaction too, and what is undone was never there.
BEGIN;
INSERT INTO people (id, region, town) VALUES (300, 'north', 'Paris');
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Paris');
SAVEPOINT a;
UPDATE people SET town = 'London' WHERE id = 300;
INSERT INTO people (id, region, town) VALUES (301, 'south', 'Paris');
SAVEPOINT b;
DELETE FROM people WHERE id = 300;
SELECT id, town FROM index_table.fetch(NULL::people, 'people_by_town', 'Paris');
ROLLBACK TO b;
SELECT id, town FROM index_table.fetch(NULL::people, 'people_by_town', 'London');
RELEASE a;
UPDATE people SET town = 'Madrid' WHERE id = 301;
SAVEPOINT c;
UPDATE people SET town = 'Lisbon' WHERE id IN (300, 301);
ROLLBACK TO c;
UPDATE people SET region = 'south' WHERE id = 300;
SELECT * FROM differences();
COMMIT;
BEGIN;
UPDATE people SET town = 'lost', id = id + 1000;
DELETE FROM people WHERE id % 2 = 0;
SELECT count(*) AS differences FROM differences();
ROLLBACK;
SELECT id, town, region FROM people WHERE id >= 300 ORDER BY id;
SELECT * FROM differences();

-- BEFORE triggers change keys, swallow rows and send them elsewhere.
CREATE FUNCTION before_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.town = 'nowhere' THEN
        RETURN NULL;
    END IF;
    NEW.town := upper(NEW.town);
    RETURN NEW;
END $$;
CREATE TRIGGER before_people BEFORE INSERT OR UPDATE ON people FOR EACH ROW EXECUTE FUNCTION before_people();
INSERT INTO people (id, region, town) VALUES (500, 'north', 'Accra'), (501, 'south', 'nowhere'), (502, 'south', 'Dakar');
UPDATE people SET age = 99 WHERE id IN (500, 502);
UPDATE people SET age = age WHERE region = 'north';
UPDATE people SET town = 'nowhere' WHERE id = 500;
SELECT id, town FROM people WHERE id >= 500 ORDER BY id;
SELECT * FROM differences();
DROP TRIGGER before_people ON people;

-- Foreign keys carry changes into the base table.
CREATE TABLE towns (town text PRIMARY KEY);
INSERT INTO towns SELECT DISTINCT town FROM people WHERE town IS NOT NULL;
ALTER TABLE people ADD FOREIGN KEY (town) REFERENCES towns ON UPDATE CASCADE ON DELETE SET NULL;
CREATE TABLE regions (region text PRIMARY KEY);
INSERT INTO regions SELECT DISTINCT region FROM people;
ALTER TABLE people ADD FOREIGN KEY (region) REFERENCES regions ON DELETE CASCADE ON UPDATE CASCADE;
UPDATE towns SET town = town || '*';
DELETE FROM towns WHERE town < 'P';
UPDATE regions SET region = CASE region WHEN 'north' THEN 'polar' WHEN 'rest' THEN 'core' ELSE region END;
DELETE FROM regions WHERE region = 'back';
SELECT * FROM differences();
ALTER TABLE people DROP CONSTRAINT people_region_fkey;
ALTER TABLE people DROP CONSTRAINT people_town_fkey;

-- A replica's apply worker is not exempt.
SET session_replication_role = replica;
INSERT INTO people (id, region, town) VALUES (1000, 'south', 'Applied');
UPDATE people SET town = town || '+' WHERE id % 3 = 0;
UPDATE people SET region = 'west' WHERE id = 1000;
DELETE FROM people WHERE id % 5 = 0 AND id <> 1000;
TRUNCATE people_south;
RESET session_replication_role;
SELECT town, region FROM people WHERE id = 1000;
SELECT * FROM differences();

-- TRUNCATE costs nothing: the entries stay, but no longer exist.
INSERT INTO people (id, region, town) SELECT i, 'south', 'Town ' || i % 3 FROM generate_series(2000, 2020) AS i;
BEGIN;
SELECT count(*) AS before FROM people_by_town \gset
TRUNCATE people_south;
SELECT count(*) = :before AS kept FROM people_by_town;
SELECT * FROM differences();
INSERT INTO people (id, region, town) VALUES (2000, 'south', 'Town 0');
SAVEPOINT s;
TRUNCATE people;
INSERT INTO people (id, region, town) VALUES (2001, 'north', 'Town 0');
SELECT identity FROM index_table.lookup('people_by_town');
SELECT * FROM differences();
ROLLBACK TO s;
SELECT id FROM index_table.fetch(NULL::people, 'people_by_town', 'Town 0') WHERE id >= 2000;
SELECT * FROM differences();
ROLLBACK;
SELECT count(*) FROM index_table.fetch(NULL::people, 'people_by_town', 'Town 0') WHERE id >= 2000;
SELECT * FROM differences();
TRUNCATE people_north_1, people_rest;
TRUNCATE people_north;
INSERT INTO people (id, region, town, phone) SELECT i, 'polar', 'Town ' || i % 3, i FROM generate_series(3000, 3020) AS i;
SELECT * FROM differences();
TRUNCATE people RESTART IDENTITY CASCADE;
SELECT count(*) FROM index_table.lookup('people_by_town');
INSERT INTO people (id, region, town, phone, age) SELECT i, 'south', 'Town ' || i % 3, i, i FROM generate_series(1, 20) AS i;
SELECT * FROM differences();

DROP SCHEMA maintain CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
