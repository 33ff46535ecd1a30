-- The nearest rows of all partitions, through one index of the owner's on an index table.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
LOAD 'index_table';
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gist;
CREATE SCHEMA distance;
SET search_path = distance, public;
SET jit = off;
\pset footer off

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- The indexes that a query reads, 'partitions' where it reads partitions.
CREATE FUNCTION reads(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ ' Index: ' THEN found := found || substring(line, 'Index: (.*)'); END IF;
        IF line ~ 'Order By: ' THEN found := found || 'by distance'::text; END IF;
        IF line ~ 'Index Table Only Scan' THEN found := found || 'entries alone'::text; END IF;
        IF line ~ ' on \w+_p\d' OR line ~ 'All Partitions' THEN found := found || 'partitions'::text; END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT f, ', ' ORDER BY f) FROM unnest(found) AS f);
END $$;
-- Its rows in their order.
CREATE FUNCTION rows_of(query text, scan text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text; before text := current_setting('index_table.enable_scan');
BEGIN
    PERFORM set_config('index_table.enable_scan', scan, true);
    EXECUTE format('SELECT string_agg(q::text, E''\n'') FROM (%s) AS q', query) INTO found;
    PERFORM set_config('index_table.enable_scan', before, true);
    RETURN found;
END $$;
CREATE FUNCTION forced(query text) RETURNS text LANGUAGE plpgsql SET index_table.enable_scan = force AS $$
BEGIN
    RETURN reads(query);
END $$;
-- Lines of EXPLAIN ANALYZE, as far as they are the same everywhere.
CREATE FUNCTION run(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
        RETURN NEXT replace(line, '.00 loops', ' loops');
    END LOOP;
END $$;

-- 16 partitions, one of them with another row layout.
CREATE TABLE places (gone int, id int, kind int, place point, area box, shape polygon, town text, n int, PRIMARY KEY (id)) PARTITION BY HASH (id);
SELECT format('CREATE TABLE places_p%s PARTITION OF places FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i)
  FROM generate_series(0, 14) AS i \gexec
ALTER TABLE places DROP COLUMN gone;
CREATE TABLE places_p15 (n int, town text, extra int, shape polygon, area box, place point, kind int, id int NOT NULL, PRIMARY KEY (id));
ALTER TABLE places_p15 DROP COLUMN extra;
ALTER TABLE places ATTACH PARTITION places_p15 FOR VALUES WITH (MODULUS 16, REMAINDER 15);
-- Places repeat, so that there are ties, and some have none.
CREATE FUNCTION rows(low int, high int) RETURNS SETOF places LANGUAGE sql AS $$
    SELECT i, i % 10, CASE WHEN i % 50 > 0 THEN point(i * 37 % 100, i * 91 % 77) END,
           box(point(i % 100, i % 77), point(i % 100 + 3, i % 77 + 2)),
           polygon(8, circle(point(i * 7 % 503, i * 13 % 499), 5 + i % 9)), 'Town ' || i % 400,
           CASE WHEN i % 80 > 0 THEN i % 500 END
      FROM generate_series(low, high) AS i $$;
INSERT INTO places SELECT * FROM rows(1, 2400);
SELECT index_table.create('places', 'kind', strategy => 'partial', include => 'place, area, shape, n');
SELECT index_table.create('places', 'town', strategy => 'denormalized', predicate => 'kind < 8');
CREATE INDEX place_gist ON places_by_kind USING gist (place);
CREATE INDEX area_spgist ON places_by_kind USING spgist (area);
CREATE INDEX shape_gist ON places_by_kind USING gist (shape);
CREATE INDEX kind_place ON places_by_kind USING gist (kind, place);
CREATE INDEX n_place ON places_by_kind USING gist (n, place) WHERE n < 250;
CREATE INDEX point_gist ON places_by_kind USING gist (point(id, n));
CREATE INDEX town_trgm ON places_by_town USING gist (town gist_trgm_ops);
CREATE INDEX town_place ON places_by_town USING spgist (place);
INSERT INTO recomputation VALUES
    ('places_by_kind', 'kind, partition_id, id, place, area, shape, n', 'places b', 'true'),
    ('places_by_town', 'town, partition_id, id, kind, place, area, shape, n', 'places b', 'kind < 8');
ANALYZE places, places_by_kind, places_by_town;
CREATE TABLE asked AS SELECT i AS id, point(i * 5, i * 4) AS p FROM generate_series(1, 6) AS i;
ANALYZE asked;

-- Plans.
EXPLAIN (COSTS OFF) SELECT town FROM places ORDER BY place <-> point '(10,10)' LIMIT 5;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM places AS x WHERE kind = 3 ORDER BY point '(10,10)' <-> place LIMIT 2;
EXPLAIN (COSTS OFF) SELECT * FROM places WHERE place <@ box '((0,0),(50,50))' AND n > 5 ORDER BY place <-> point '(10,10)' LIMIT 5;
-- Entries are read as far as needed. A polygon is farther than its bounding box is.
SELECT run($$ SELECT town FROM places ORDER BY area <-> point '(-3,-4)' LIMIT 1 $$);
-- Entries tell which rows need not be looked up.
SELECT count(*) FROM run($$ SELECT town FROM places WHERE n BETWEEN 400 AND 402 ORDER BY area <-> point '(-3,-4)' LIMIT 1 $$) AS line
 WHERE line ~ 'Index: area_spgist|Entries Removed by Filter: \d\d|Rows Fetched: 1$';

CREATE TABLE queries (number serial, query text);
INSERT INTO queries (query) VALUES
    ($$ SELECT place <-> point '(10,10)' FROM places ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', (town IS NULL) FROM places ORDER BY place <-> point '(10,10)' LIMIT 300 $$),
    ($$ SELECT point '(10,10)' <-> place FROM places ORDER BY point '(10,10)' <-> place LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', kind, town LIKE 'Town%' FROM places WHERE kind = 3 ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', town LIKE 'Town%' FROM places WHERE kind IN (3, 4, NULL) AND town > 'Town 2' ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)' FROM places WHERE kind = 3 AND n % 7 = 0 ORDER BY place <-> point '(10,10)' LIMIT 20 $$),
    ($$ SELECT place <-> point '(10,10)' FROM places WHERE town LIKE '%7%' ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', max(town) FROM places WHERE n < 200 GROUP BY 1 ORDER BY 1 LIMIT 5 $$),
    ($$ SELECT n <-> 77, town LIKE 'T%' FROM places WHERE n < 200 ORDER BY n <-> 77 LIMIT 70 $$),
    ($$ SELECT n <-> 77, place <-> point '(3,4)', town LIKE 'T%' FROM places WHERE n < 200 ORDER BY n <-> 77, place <-> point '(3,4)' LIMIT 70 $$),
    ($$ SELECT place <-> point '(10,10)', town LIKE 'T%' FROM places WHERE place <@ box '((15,0),(50,50))' ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', town LIKE 'T%' FROM places WHERE place IS NOT NULL ORDER BY place <-> point '(10,10)' LIMIT 5 OFFSET 500 $$),
    ($$ SELECT place <-> NULL FROM places ORDER BY place <-> NULL LIMIT 3 $$),
    ($$ SELECT shape <-> point '(100,100)' FROM places ORDER BY shape <-> point '(100,100)' LIMIT 200 $$),
    ($$ SELECT shape <-> point '(100,100)', town LIKE 'T%' FROM places WHERE n > 100 ORDER BY shape <-> point '(100,100)' LIMIT 200 $$),
    ($$ SELECT shape <-> point '(100,100)', town LIKE 'T%' FROM places WHERE shape && polygon '((0,0),(300,0),(0,300))' ORDER BY shape <-> point '(100,100)' LIMIT 60 $$),
    ($$ SELECT area <-> point '(50,20)', town LIKE 'T%' FROM places ORDER BY area <-> point '(50,20)' LIMIT 200 $$),
    ($$ SELECT town <-> 'twon 37' FROM places WHERE kind < 8 ORDER BY town <-> 'twon 37' LIMIT 40 $$),
    ($$ SELECT town <-> 'twon 37' FROM places WHERE town LIKE '%7%' AND kind < 8 ORDER BY town <-> 'twon 37' LIMIT 40 $$),
    ($$ SELECT point(id, n) <-> point '(1000,4)', town LIKE 'T%' FROM places ORDER BY point(id, n) <-> point '(1000,4)' LIMIT 40 $$),
    ($$ SELECT a.id, p.d FROM asked AS a, LATERAL (SELECT place <-> a.p AS d, town FROM places ORDER BY place <-> a.p LIMIT 3) AS p WHERE p.town LIKE 'T%' ORDER BY 1, 2 $$),
    ($$ SELECT a.id, p.d FROM asked AS a, LATERAL (SELECT shape <-> a.p AS d, town FROM places WHERE kind <> a.id ORDER BY shape <-> a.p LIMIT 3) AS p WHERE p.town LIKE 'T%' ORDER BY 1, 2 $$),
    ($$ SELECT a.id, (SELECT place <-> a.p FROM places AS p WHERE p.town > 'Town 3' ORDER BY p.place <-> a.p LIMIT 1) FROM asked AS a ORDER BY 1 $$),
    ($$ SELECT sum(d) FROM (SELECT place <-> point '(1,1)' AS d, town FROM places ORDER BY place <-> point '(1,1)' LIMIT 100) AS s WHERE town LIKE 'T%' $$),
    ($$ SELECT (SELECT count(*) FROM places AS m WHERE m.id = p.id AND m.place ~= p.place) FROM (SELECT * FROM places ORDER BY place <-> point '(70,7)' LIMIT 9) AS p $$);
SELECT number, query, forced(query) ~ 'by distance' AS by_distance FROM queries ORDER BY number;
-- Those that differ from what they yield without index tables.
CREATE FUNCTION differing() RETURNS TABLE (number int, query text) LANGUAGE plpgsql AS $$
DECLARE q queries;
BEGIN
    FOR q IN SELECT * FROM queries AS t ORDER BY t.number LOOP
        IF rows_of(q.query, 'force') IS DISTINCT FROM rows_of(q.query, 'off') THEN
            RETURN QUERY SELECT q.number, q.query;
        END IF;
    END LOOP;
END $$;
SELECT * FROM differing();
-- What is chosen of itself, and what is left to PostgreSQL.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM places ORDER BY place <-> point '(10,10)' LIMIT 5 $$),
    ($$ SELECT id, kind FROM places ORDER BY place <-> point '(10,10)' LIMIT 5 $$),
    ($$ SELECT * FROM places WHERE id = 5 ORDER BY place <-> point '(10,10)' LIMIT 5 $$),
    ($$ SELECT * FROM places ORDER BY place <-> point '(10,10)' $$),
    ($$ SELECT * FROM places ORDER BY place <-> point '(10,10)' DESC LIMIT 5 $$),
    ($$ SELECT * FROM places ORDER BY place <-> point '(10,10)' NULLS FIRST LIMIT 5 $$),
    ($$ SELECT * FROM places ORDER BY place <-> point(random(), 5) LIMIT 5 $$),
    ($$ SELECT * FROM places ORDER BY town <-> 'Town 5' LIMIT 5 $$)) AS q(query);
-- All rows by distance, those without one last.
SET index_table.enable_scan = force;
SELECT count(*), count(*) FILTER (WHERE d >= before), count(*) FILTER (WHERE d IS NULL AND number > 2400 - 48) FROM
    (SELECT d, lag(d) OVER (ORDER BY number) AS before, number FROM
        (SELECT row_number() OVER () AS number, d FROM
            (SELECT place <-> point '(1,1)' AS d, town FROM places ORDER BY place <-> point '(1,1)' LIMIT 2399999) AS a WHERE town > 'A') AS b) AS c;
RESET index_table.enable_scan;

-- Changes: of the transaction's own, too, and taken back.
DELETE FROM places WHERE id % 13 = 0;
UPDATE places SET place = point(place[0] + 40, place[1] / 2), shape = polygon(8, circle(point(id % 400, id % 77), 9)) WHERE id % 7 = 0;
UPDATE places SET place = NULL WHERE id % 41 = 0;
UPDATE places SET place = point(n, 5) WHERE place IS NULL AND n < 90;
UPDATE places SET town = 'Towns ' || id, kind = 9 - kind WHERE id % 11 = 0;
SELECT * FROM differing();
BEGIN;
UPDATE places SET place = point '(10,10)' WHERE id < 20;
INSERT INTO places SELECT * FROM rows(7001, 7100);
SELECT * FROM differing();
SAVEPOINT s;
DELETE FROM places WHERE place <-> point '(10,10)' < 20;
UPDATE places SET place = point '(11,10)', kind = 3 WHERE id BETWEEN 100 AND 120;
SELECT * FROM differing();
SELECT count(*) FROM (SELECT place <-> point '(11,10)' AS d, town FROM places ORDER BY place <-> point '(11,10)' LIMIT 30) AS p WHERE d = 0 AND town > 'A';
ROLLBACK TO s;
SELECT * FROM differing();
ROLLBACK;
SELECT * FROM differing();

-- Partitions that leave, are emptied, join; entries of those that are gone are skipped.
ALTER TABLE places DETACH PARTITION places_p5;
TRUNCATE places_p6;
SELECT * FROM differing();
BEGIN;
TRUNCATE places_p7;
DROP TABLE places_p8;
SELECT * FROM differing();
ROLLBACK;
SELECT * FROM differing();
ALTER TABLE places ATTACH PARTITION places_p5 FOR VALUES WITH (MODULUS 16, REMAINDER 5);
SELECT * FROM differing();
ALTER TABLE places DETACH PARTITION places_p15;
SELECT count(*) > 0 AS has_dead FROM places_by_kind WHERE partition_id NOT IN (SELECT partition_id FROM index_table.partition);
SELECT * FROM differing();
SELECT index_table.vacuum('places_by_kind') > 0 AS vacuumed;
VACUUM places_by_kind, places;
SELECT * FROM differing();
ALTER TABLE places ATTACH PARTITION places_p15 FOR VALUES WITH (MODULUS 16, REMAINDER 15);

-- One snapshot for a transaction; one with locks on what was read.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM differing();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM differing();
COMMIT;

-- A trigger reads in the midst of the statement: entries are made from the base table.
CREATE TABLE seen (id int, nearest float8, native float8);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found float8; native float8;
BEGIN
    SET LOCAL index_table.enable_scan = force;
    SELECT sum(d) INTO found FROM (SELECT place <-> new.place AS d, town FROM places ORDER BY place <-> new.place LIMIT 12) AS p WHERE town > 'A';
    SET LOCAL index_table.enable_scan = off;
    SELECT sum(d) INTO native FROM (SELECT place <-> new.place AS d, town FROM places ORDER BY place <-> new.place LIMIT 12) AS p WHERE town > 'A';
    INSERT INTO seen VALUES (new.id, found, native);
    RETURN NULL;
END $$;
CREATE TRIGGER looks AFTER UPDATE ON places FOR EACH ROW EXECUTE FUNCTION look();
UPDATE places SET place = point(id, 3) WHERE id IN (1, 3, 4);
SELECT id, nearest = native AS same FROM seen ORDER BY id;
DROP TRIGGER looks ON places;

-- Cursors, prepared statements, and DDL between.
BEGIN;
DECLARE c CURSOR FOR SELECT round((shape <-> point '(100,100)')::numeric, 6) AS far, town > 'A' AS has_town FROM places ORDER BY shape <-> point '(100,100)';
FETCH 3 FROM c;
MOVE 100 IN c;
FETCH 2 FROM c;
SET LOCAL index_table.enable_scan = off;
SELECT far FROM (SELECT row_number() OVER (ORDER BY shape <-> point '(100,100)') AS number, round((shape <-> point '(100,100)')::numeric, 6) AS far FROM places) AS p
 WHERE number <= 3 OR number IN (104, 105) ORDER BY number;
COMMIT;
SET plan_cache_mode = force_generic_plan;
PREPARE nearest(point, int) AS SELECT place <-> $1 AS d, kind, town LIKE 'Town%' AS t FROM places WHERE kind = $2 ORDER BY place <-> $1 LIMIT 2;
EXPLAIN (COSTS OFF) EXECUTE nearest('(37,20)', 3);
EXECUTE nearest('(37,20)', 3);
EXECUTE nearest('(74,18)', 4);
EXECUTE nearest(NULL, 4);
DROP INDEX kind_place, place_gist, n_place;
EXECUTE nearest('(74,18)', 4);
CREATE INDEX kind_place ON places_by_kind USING gist (kind, place);
CREATE INDEX n_place ON places_by_kind USING gist (n, place) WHERE n < 250;
CREATE INDEX place_gist ON places_by_kind USING spgist (place);
EXECUTE nearest('(74,18)', 4);
EXPLAIN (COSTS OFF) EXECUTE nearest('(74,18)', 4);
RESET plan_cache_mode;
-- SP-GiST now.
SELECT * FROM differing();

-- Rows are locked, and changed.
SET index_table.enable_scan = force;
EXPLAIN (COSTS OFF) SELECT id FROM places WHERE kind = 3 ORDER BY place <-> point '(1000,1000)' LIMIT 2 FOR UPDATE;
SELECT place <-> point '(1000,1000)' AS d FROM places WHERE kind = 3 ORDER BY place <-> point '(1000,1000)' LIMIT 2 FOR UPDATE;
RESET index_table.enable_scan;
SELECT place <-> point '(1000,1000)' AS d FROM places WHERE kind = 3 ORDER BY place <-> point '(1000,1000)' LIMIT 2;
UPDATE places SET town = 'near' WHERE id IN (SELECT id FROM places WHERE place IS NOT NULL ORDER BY place <-> point '(1000,1000)', id LIMIT 5);
SELECT * FROM differing();
SELECT * FROM differences();

-- Row security, and columns that a role may not read.
CREATE ROLE distance_reader;
GRANT USAGE ON SCHEMA distance TO distance_reader;
GRANT SELECT (id, kind, place, town) ON places TO distance_reader;
CREATE FUNCTION tells(id int) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    IF id % 3 > 0 THEN RAISE EXCEPTION 'told of %', id; END IF;
    RETURN true;
END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distance TO distance_reader;
CREATE POLICY thirds ON places USING (CASE WHEN town > ' ' THEN id % 3 = 0 END);
ALTER TABLE places ENABLE ROW LEVEL SECURITY;
SET ROLE distance_reader;
SELECT forced($$ SELECT id FROM places ORDER BY place <-> point '(1000,1000)' LIMIT 3 $$);
SELECT query, rows_of(query, 'force') = rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT id % 3, place <-> point '(10,10)' FROM places ORDER BY place <-> point '(10,10)' LIMIT 30 $$),
    ($$ SELECT id % 3, town > 'A', place <-> point '(10,10)' FROM places WHERE kind = 3 ORDER BY place <-> point '(10,10)' LIMIT 30 $$)) AS q(query);
-- A condition that would tell of what the policy hides is not asked of entries.
SET index_table.enable_scan = force;
EXPLAIN (COSTS OFF) SELECT town > 'A' FROM places WHERE tells(id) AND kind <> 4 ORDER BY place <-> point '(10,10)' LIMIT 3;
SELECT town > 'A' FROM places WHERE tells(id) AND kind <> 4 ORDER BY place <-> point '(10,10)' LIMIT 3;
RESET index_table.enable_scan;
SELECT id FROM places ORDER BY shape <-> point '(1000,1000)' LIMIT 3;
SELECT * FROM places_by_kind LIMIT 1;
RESET ROLE;
ALTER TABLE places DISABLE ROW LEVEL SECURITY;

-- Parallel workers do not share such a scan.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT town FROM places ORDER BY place <-> point '(10,10)' LIMIT 5;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;

-- Deferred: what is queued comes where it belongs, and nowhere else.
SELECT index_table.set_maintenance('places_by_kind', 'deferred');
INSERT INTO places SELECT * FROM rows(8001, 8300);
UPDATE places SET place = point(place[0] / 2, place[1] + 9), shape = polygon(8, circle(point(id % 300, id % 97), 7)), n = n + 3 WHERE id % 5 = 0;
UPDATE places SET place = NULL WHERE id % 43 = 0;
UPDATE places SET place = point '(10,10)', kind = 3 WHERE place IS NULL AND id % 2 = 0;
DELETE FROM places WHERE id % 17 = 0;
SELECT sum(changes) > 500 AS is_queued FROM places_by_kind_queue;
SELECT count(*) > 500 AS lags FROM differences();
SELECT * FROM differing();
SET index_table.enable_scan = force;
SELECT line FROM run($$ SELECT id, kind FROM places ORDER BY place <-> point '(10,10)' LIMIT 50 $$) AS line WHERE line ~ 'Order By|Index:';
SELECT count(*) FILTER (WHERE line ~ 'Queued Rows: [1-9]') AS queued FROM run($$ SELECT id, kind FROM places ORDER BY place <-> point '(10,10)' LIMIT 50 $$) AS line;
RESET index_table.enable_scan;
BEGIN;
UPDATE places SET place = point '(12,12)' WHERE id BETWEEN 200 AND 300;
SAVEPOINT s;
UPDATE places SET place = point '(10,11)' WHERE id BETWEEN 200 AND 210;
SELECT * FROM differing();
ROLLBACK TO s;
SELECT * FROM differing();
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM differing();
COMMIT;
-- A query that takes what entries have: in order, and of rows that are where their entries say.
SET index_table.read_consistency = eventual;
SELECT forced($$ SELECT town FROM places ORDER BY place <-> point '(10,10)' LIMIT 5 $$);
SET index_table.enable_scan = force;
SELECT count(*), count(*) FILTER (WHERE d >= before) = count(*) - 1 AS in_order FROM
    (SELECT d, lag(d) OVER () AS before FROM
        (SELECT place <-> point '(10,10)' AS d, town FROM places WHERE place IS NOT NULL ORDER BY place <-> point '(10,10)' LIMIT 200) AS a WHERE town > 'A') AS b;
RESET index_table.enable_scan;
RESET index_table.read_consistency;
CALL index_table.drain('places_by_kind');
SELECT * FROM differing();
SELECT * FROM differences();
SELECT index_table.set_maintenance('places_by_kind', 'immediate');

-- An index table in partitions of its own is read by conditions alone.
SELECT index_table.create('places', 'kind', strategy => 'partial', include => 'place', name => 'places_parted', partitions => 4);
CREATE INDEX parted_place ON places_parted USING gist (place);
INSERT INTO recomputation VALUES ('places_parted', 'kind, partition_id, id, place', 'places b', 'true');
DROP INDEX place_gist, kind_place, n_place, town_place;
SELECT forced($$ SELECT town FROM places WHERE place <@ box '((0,0),(5,5))' ORDER BY place <-> point '(10,10)' LIMIT 5 $$);
SELECT forced($$ SELECT town FROM places ORDER BY place <-> point '(10,10)' LIMIT 5 $$);
SELECT * FROM differing();
SELECT * FROM differences();

-- Rows of foreign partitions are fetched many at once, in the order of their entries.
CREATE SCHEMA distance_shards;
DO $$
BEGIN
    EXECUTE format('CREATE SERVER regress_distance FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_distance;
CREATE TABLE distance_shards.a (shape polygon, place point, id int PRIMARY KEY, kind int);
CREATE TABLE distance_shards.b (id int PRIMARY KEY, kind int, place point, shape polygon);
CREATE TABLE spots (id int NOT NULL, kind int, place point, shape polygon) PARTITION BY RANGE (id);
CREATE TABLE spots_p1 PARTITION OF spots (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (300);
CREATE FOREIGN TABLE spots_p2 PARTITION OF spots FOR VALUES FROM (300) TO (900) SERVER regress_distance OPTIONS (schema_name 'distance_shards', table_name 'a');
CREATE FOREIGN TABLE spots_p3 PARTITION OF spots FOR VALUES FROM (900) TO (2000) SERVER regress_distance OPTIONS (schema_name 'distance_shards', table_name 'b');
INSERT INTO spots SELECT id, kind, place, shape FROM rows(1, 1500);
SELECT index_table.create('spots', 'kind', strategy => 'partial', include => 'place, shape', identity => 'id');
CREATE INDEX spots_place ON spots_by_kind USING gist (place);
CREATE INDEX spots_shape ON spots_by_kind USING gist (shape);
INSERT INTO recomputation VALUES ('spots_by_kind', 'kind, partition_id, id, place, shape', 'spots b', 'true');
ANALYZE spots, spots_by_kind;
TRUNCATE queries;
INSERT INTO queries (query) VALUES
    ($$ SELECT place <-> point '(10,10)' FROM spots ORDER BY place <-> point '(10,10)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(10,10)', id % 2 < 5 FROM spots WHERE shape IS NOT NULL ORDER BY place <-> point '(10,10)' LIMIT 5 $$),
    ($$ SELECT shape <-> point '(300,100)' FROM spots WHERE kind = 3 ORDER BY shape <-> point '(300,100)' LIMIT 80 $$),
    ($$ SELECT shape <-> point '(300,100)' FROM spots ORDER BY shape <-> point '(300,100)' LIMIT 1000 $$),
    ($$ SELECT a.id, p.d FROM asked AS a, LATERAL (SELECT shape <-> a.p AS d FROM spots ORDER BY shape <-> a.p LIMIT 3) AS p ORDER BY 1, 2 $$);
SELECT query, forced(query) ~ 'by distance' AS by_distance FROM queries ORDER BY number;
SELECT * FROM differing();
SET index_table.shard_access = fdw;
SELECT * FROM differing();
RESET index_table.shard_access;
UPDATE spots SET place = point(id % 30, 4), shape = polygon(8, circle(point(300 + id % 90, id % 177), 8)) WHERE id % 7 = 0;
DELETE FROM spots WHERE id % 19 = 0;
SELECT * FROM differing();
SELECT * FROM differences();

SET client_min_messages = error;
DROP OWNED BY distance_reader;
DROP ROLE distance_reader;
DROP SCHEMA distance, distance_shards CASCADE;
DROP SERVER regress_distance CASCADE;
DROP EXTENSION pg_trgm, btree_gist;
