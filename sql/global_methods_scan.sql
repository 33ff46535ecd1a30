-- Queries through global indexes that are no B-trees: every method, distances, bitmaps.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gist;
CREATE SCHEMA global_methods_scan;
SET search_path = global_methods_scan, public;
SET jit = off;

-- The indexes that a query reads, 'partitions' where it reads partitions.
CREATE FUNCTION reads(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Global Index: ' THEN found := found || substring(line, 'Global Index: (.*)'); END IF;
        IF line ~ 'Order By: ' THEN found := found || 'by distance'::text; END IF;
        IF line ~ ' on \w+_p\d' OR line ~ 'All Partitions' THEN found := found || 'partitions'::text; END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT f, ', ' ORDER BY f) FROM unnest(found) AS f);
END $$;
-- Whether a query yields the same rows with global indexes and without.
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE differences bigint; before text := current_setting('index_table.enable_scan');
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    EXECUTE 'CREATE TEMP TABLE through ON COMMIT DROP AS ' || query;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE 'CREATE TEMP TABLE native ON COMMIT DROP AS ' || query;
    EXECUTE 'SELECT count(*) FROM ((SELECT through::text FROM through EXCEPT ALL SELECT native::text FROM native)
                         UNION ALL (SELECT native::text FROM native EXCEPT ALL SELECT through::text FROM through)) AS d'
       INTO differences;
    DROP TABLE through, native;
    PERFORM set_config('index_table.enable_scan', before, true);
    RETURN differences = 0;
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
-- Lines of EXPLAIN ANALYZE, as far as they are the same everywhere.
CREATE FUNCTION run(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
        CONTINUE WHEN line ~ 'Partitions Visited|Entries Read|Rows Fetched|Exact Heap Blocks';
        RETURN NEXT regexp_replace(regexp_replace(line, '(Lossy Heap Blocks|Recheck): \d+', '\1: N'), '\.00(?= loops)', '');
    END LOOP;
END $$;

-- 32 partitions, one of them with another row layout.
CREATE TABLE places (
    gone  int,
    id    int,
    place point,
    area  box,
    shape polygon,
    tags  int[],
    name  text,
    town  text,
    n     int,
    valid int4range
) PARTITION BY HASH (id);
SELECT format('CREATE TABLE places_p%s PARTITION OF places FOR VALUES WITH (MODULUS 32, REMAINDER %s)', i, i)
  FROM generate_series(0, 30) AS i \gexec
ALTER TABLE places DROP COLUMN gone;
CREATE TABLE places_p31 (valid int4range, n int, town text, extra int, name text, tags int[], shape polygon, area box, place point, id int);
ALTER TABLE places_p31 DROP COLUMN extra;
ALTER TABLE places ATTACH PARTITION places_p31 FOR VALUES WITH (MODULUS 32, REMAINDER 31);
CREATE TABLE plain (id int, place point, area box, shape polygon, tags int[], name text, town text, n int, valid int4range);
INSERT INTO plain
SELECT i, CASE WHEN i % 50 > 0 THEN point(i * 37 % 1000, i * 91 % 777) END,
       box(point(i % 100, i % 77), point(i % 100 + 3, i % 77 + 2)),
       polygon(8, circle(point(i * 7 % 503, i * 13 % 499), 5 + i % 9)),
       CASE WHEN i % 60 > 0 THEN ARRAY[i % 20, 100 + i % 33, 200 + i % 700] END,
       CASE WHEN i % 70 > 0 THEN 'name ' || md5(i::text) END, 'Town ' || i % 400,
       CASE WHEN i % 80 > 0 THEN i % 500 END, CASE WHEN i % 90 > 0 THEN int4range(i % 300, i % 300 + i % 5) END
  FROM generate_series(1, 6000) AS i;
INSERT INTO places SELECT * FROM plain;
CREATE INDEX places_place ON places USING global (place) WITH (method = 'gist');
CREATE INDEX places_area ON places USING global (area) WITH (method = 'spgist');
CREATE INDEX places_shape ON places USING global (shape) WITH (method = 'gist');
CREATE INDEX places_tags ON places USING global (tags) WITH (method = 'gin');
CREATE INDEX places_name ON places USING global (name gin_trgm_ops) WITH (method = 'gin');
CREATE INDEX places_town ON places USING global (town gist_trgm_ops) WITH (method = 'gist');
CREATE INDEX places_town_text ON places USING global (town) WITH (method = 'spgist');
CREATE INDEX places_n ON places USING global (n) WITH (method = 'hash');
CREATE INDEX places_valid ON places USING global (valid, n) WITH (method = 'gist');
CREATE INDEX places_lower ON places USING global ((id % 1000), point(id, n)) WITH (method = 'gist') WHERE n < 250;
ANALYZE places;
CREATE TABLE asked AS
SELECT i AS id, point(i * 50, i * 35) AS p, box(point(i * 10, i * 7), point(i * 10 + 40, i * 7 + 40)) AS b,
       '%' || substr(md5((i * 70 + 1)::text), 1, 5) || '%' AS pattern, ARRAY[i, 100 + i] AS tags
  FROM generate_series(1, 15) AS i;
ANALYZE asked;

-- Plans.
SELECT run($$ SELECT id FROM places WHERE place <@ box '((0,0),(50,50))' $$);
SELECT run($$ SELECT id FROM places ORDER BY place <-> point '(100,100)' LIMIT 5 $$);
SELECT run($$ SELECT id FROM places WHERE place <@ box '((0,0),(500,500))' AND n > 5 ORDER BY place <-> point '(100,100)' LIMIT 5 $$);
SELECT run($$ SELECT id FROM places WHERE tags @> '{3, 105}' $$);
SELECT run($$ SELECT id FROM places WHERE name LIKE '%abcd%' $$);
SELECT run($$ SELECT id FROM places WHERE n IN (7, 8, 7, NULL) $$);
EXPLAIN (COSTS OFF, VERBOSE) SELECT name FROM places AS x ORDER BY point '(100,100)' <-> place LIMIT 2;

-- What is served.
SELECT query, reads(query), same(query) FROM (VALUES
    ($$ SELECT * FROM places WHERE place <@ box '((0,0),(50,50))' $$),
    ($$ SELECT place FROM places WHERE place <@ box '((0,0),(50,50))' $$),
    ($$ SELECT * FROM places WHERE box '((0,0),(50,50))' @> place AND n > 100 $$),
    ($$ SELECT * FROM places WHERE place ~= point '(37,91)' $$),
    ($$ SELECT * FROM places WHERE area && box '((10,10),(12,12))' AND n = 10 $$),
    ($$ SELECT * FROM places WHERE area <@ box '((10,10),(15,15))' $$),
    ($$ SELECT * FROM places WHERE shape && polygon '((0,0),(9,0),(9,9))' $$),
    ($$ SELECT * FROM places WHERE tags @> '{3, 105}' $$),
    ($$ SELECT * FROM places WHERE tags && '{203, 205}' $$),
    ($$ SELECT * FROM places WHERE tags = '{3, 103, 203}' $$),
    ($$ SELECT * FROM places WHERE name LIKE '%abcd%' $$),
    ($$ SELECT * FROM places WHERE name ILIKE '%ABC%' AND name ~ 'abc[0-5]' $$),
    ($$ SELECT * FROM places WHERE name LIKE ANY (ARRAY['%abcd%', '%abcd%', '%ffee%']) $$),
    ($$ SELECT * FROM places WHERE town LIKE '%wn 37%' $$),
    ($$ SELECT * FROM places WHERE town = 'Town 37' $$),
    ($$ SELECT town FROM places WHERE town = 'Town 37' $$),
    ($$ SELECT town FROM places WHERE town ^@ 'Town 37' $$),
    ($$ SELECT * FROM places WHERE n = 7 $$),
    ($$ SELECT * FROM places WHERE n = 7 OR 8 = n $$),
    ($$ SELECT * FROM places WHERE n IN (7, 8, 7, NULL) AND id < 3000 $$),
    ($$ SELECT * FROM places WHERE n = ANY ('{}') $$),
    ($$ SELECT * FROM places WHERE valid @> 7 AND n = 7 $$),
    ($$ SELECT * FROM places WHERE valid && int4range(5, 7) AND n IN (5, 6, 305, 306, 5) $$),
    ($$ SELECT valid, n FROM places WHERE valid && int4range(5, 7) AND n IN (5, 6, 305, 306, 5) $$),
    ($$ SELECT * FROM places WHERE valid -|- int4range(3, 5) AND n BETWEEN 1 AND 100 $$),
    ($$ SELECT * FROM places WHERE n IS NULL AND valid @> 7 $$),
    ($$ SELECT count(*) FROM places WHERE valid IS NULL $$),
    ($$ SELECT * FROM places WHERE id % 1000 = 7 AND n < 250 $$),
    ($$ SELECT * FROM places WHERE id % 1000 = 7 $$),
    ($$ SELECT * FROM places WHERE n = 7 OR tags @> '{3, 105, 203}' $$),
    ($$ SELECT * FROM places WHERE name LIKE '%abcd%' OR place <@ box '((0,0),(20,20))' OR n IN (7, 8) $$),
    ($$ SELECT tableoid::regclass AS t, ctid AS c, places FROM places WHERE tags @> '{3, 105}' $$),
    ($$ SELECT a.id, p.id AS found FROM asked AS a JOIN places AS p ON p.place <@ a.b $$),
    ($$ SELECT a.id, p.id AS found FROM asked AS a LEFT JOIN places AS p ON a.b @> p.place AND p.n > 50 WHERE a.id < 5 $$),
    ($$ SELECT a.id, p.id AS found FROM asked AS a JOIN places AS p ON p.name LIKE a.pattern $$),
    ($$ SELECT a.id, p.id AS found FROM asked AS a JOIN places AS p ON p.n = a.id $$),
    ($$ SELECT a.id, (SELECT count(*) FROM places AS p WHERE p.tags @> a.tags) FROM asked AS a $$),
    ($$ SELECT a.id, (SELECT count(*) FROM places AS p WHERE p.n IN (a.id, a.id + 1, a.id)) FROM asked AS a $$),
    ($$ SELECT * FROM asked AS a WHERE NOT EXISTS (SELECT FROM places AS p WHERE p.name LIKE a.pattern) $$)) AS q(query);

-- What is left to PostgreSQL.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM places WHERE place <@ box '((0,0),(900,900))' $$),
    ($$ SELECT * FROM places ORDER BY place <-> point '(100,100)' $$),
    ($$ SELECT * FROM places ORDER BY place <-> point '(100,100)' DESC LIMIT 5 $$)) AS q(query);

-- Distances: rows of the same distance come in any order, so distances are compared.
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT place <-> point '(100,100)' FROM places ORDER BY place <-> point '(100,100)' LIMIT 50 $$),
    ($$ SELECT point '(100,100)' <-> place FROM places ORDER BY point '(100,100)' <-> place LIMIT 50 $$),
    ($$ SELECT place <-> point '(100,100)' FROM places WHERE n % 7 = 0 ORDER BY place <-> point '(100,100)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(100,100)' FROM places WHERE place <@ box '((150,0),(500,500))' ORDER BY place <-> point '(100,100)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(100,100)' FROM places WHERE n IN (7, 8) ORDER BY place <-> point '(100,100)' LIMIT 50 $$),
    ($$ SELECT place <-> point '(100,100)' FROM places WHERE place IS NOT NULL ORDER BY place <-> point '(100,100)' LIMIT 5 OFFSET 500 $$),
    ($$ SELECT place <-> NULL FROM places ORDER BY place <-> NULL LIMIT 3 $$),
    ($$ SELECT shape <-> point '(100,100)' FROM places ORDER BY shape <-> point '(100,100)' LIMIT 200 $$),
    ($$ SELECT shape <-> point '(100,100)' FROM places WHERE n > 100 ORDER BY shape <-> point '(100,100)' LIMIT 200 $$),
    ($$ SELECT area <-> point '(50,20)' FROM places ORDER BY area <-> point '(50,20)' LIMIT 200 $$),
    ($$ SELECT town <-> 'twon 37' FROM places ORDER BY town <-> 'twon 37' LIMIT 40 $$),
    ($$ SELECT town <-> 'twon 37' FROM places WHERE town LIKE '%7%' ORDER BY town <-> 'twon 37' LIMIT 40 $$),
    ($$ SELECT (id % 1000) <-> 77 FROM places WHERE n < 250 ORDER BY (id % 1000) <-> 77 LIMIT 40 $$),
    ($$ SELECT (id % 1000) <-> 77, point(id, n) <-> point '(3,4)' FROM places WHERE n < 250 ORDER BY (id % 1000) <-> 77, point(id, n) <-> point '(3,4)' LIMIT 40 $$),
    ($$ SELECT a.id, p.d FROM asked AS a, LATERAL (SELECT place <-> a.p AS d FROM places ORDER BY place <-> a.p LIMIT 3) AS p ORDER BY 1, 2 $$),
    ($$ SELECT a.id, p.d FROM asked AS a, LATERAL (SELECT shape <-> a.p AS d FROM places ORDER BY shape <-> a.p LIMIT 3) AS p ORDER BY 1, 2 $$),
    ($$ SELECT sum(d) FROM (SELECT place <-> point '(1,1)' AS d FROM places ORDER BY place <-> point '(1,1)' LIMIT 100) AS s $$)) AS q(query);
-- An array whose elements would be looked for one by one is left to be checked.
SET enable_sort = off;
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT n <-> 77 FROM places WHERE n IN (70, 80, 90) AND valid && int4range(60, 95) ORDER BY n <-> 77 LIMIT 40 $$),
    ($$ SELECT n <-> 77 FROM places WHERE n IN (70, 80, 90) ORDER BY n <-> 77 LIMIT 40 $$)) AS q(query);
RESET enable_sort;
-- All rows by distance, those without one last.
SELECT count(*), count(*) FILTER (WHERE d >= before), count(*) FILTER (WHERE d IS NULL AND number > 6000 - 120) FROM
    (SELECT d, lag(d) OVER (ORDER BY number) AS before, number FROM
        (SELECT row_number() OVER () AS number, d FROM
            (SELECT place <-> point '(1,1)' AS d FROM places ORDER BY place <-> point '(1,1)' LIMIT 5999999) AS a) AS b) AS c;
BEGIN;
DECLARE c CURSOR FOR SELECT round((shape <-> point '(100,100)')::numeric, 6) AS far FROM places ORDER BY shape <-> point '(100,100)';
FETCH 3 FROM c;
MOVE 100 IN c;
FETCH 2 FROM c;
-- Without an index.
SELECT far FROM (SELECT row_number() OVER (ORDER BY shape <-> point '(100,100)') AS number, round((shape <-> point '(100,100)')::numeric, 6) AS far FROM plain) AS p
 WHERE number <= 3 OR number IN (104, 105) ORDER BY number;
COMMIT;

-- Lossy bitmaps.
SET work_mem = '64kB';
CREATE TABLE wide (id int, tags int[], filler text) PARTITION BY HASH (id);
CREATE TABLE wide_p0 PARTITION OF wide FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE wide_p1 PARTITION OF wide FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE wide_p0 SET (fillfactor = 10);
ALTER TABLE wide_p1 SET (fillfactor = 10);
INSERT INTO wide SELECT i, ARRAY[i % 3, 10 + i % 7], repeat('x', 300) FROM generate_series(1, 8000) AS i;
CREATE INDEX wide_tags ON wide USING global (tags) WITH (method = 'gin');
ANALYZE wide;
SET index_table.enable_scan = force;
SET enable_seqscan = off;
SELECT run($$ SELECT count(*) FROM wide WHERE tags @> '{1}' $$);
SELECT same($$ SELECT * FROM wide WHERE tags @> '{1}' $$), same($$ SELECT * FROM wide WHERE tags && '{1, 11}' $$);
-- the line pointers of some rows are taken by others, whose tags are not those of the entries
DELETE FROM wide WHERE id % 3 = 1;
VACUUM (TRUNCATE off) wide;
INSERT INTO wide SELECT i, ARRAY[i % 3, 10 + i % 7], repeat('y', 300) FROM generate_series(8001, 12000) AS i;
UPDATE wide SET filler = 'short' WHERE id % 5 = 0;
UPDATE wide SET tags = ARRAY[1, 12] WHERE id % 50 = 0;
SELECT run($$ SELECT count(*) FROM wide WHERE tags @> '{1}' $$) LIMIT 2;
SELECT same($$ SELECT * FROM wide WHERE tags @> '{1}' $$), same($$ SELECT * FROM wide WHERE tags && '{1, 11}' $$),
       same($$ SELECT * FROM wide WHERE tags @> '{1, 12}' $$);
DELETE FROM wide WHERE id < 9000;
VACUUM wide;
SELECT same($$ SELECT * FROM wide WHERE tags @> '{1}' $$), same($$ SELECT * FROM wide WHERE tags && '{1, 11}' $$);
RESET work_mem;
RESET enable_seqscan;
RESET index_table.enable_scan;

-- Prepared statements, with generic plans, across DDL.
SET plan_cache_mode = force_generic_plan;
PREPARE nearest(point, int) AS SELECT id, place FROM places ORDER BY place <-> $1, id LIMIT $2;
PREPARE by_name(text) AS SELECT id FROM places WHERE name LIKE $1 ORDER BY id;
PREPARE by_n(int[]) AS SELECT id FROM places WHERE n = ANY ($1) ORDER BY id LIMIT 3;
PREPARE by_place(point) AS SELECT id FROM places ORDER BY place <-> $1 LIMIT 2;
EXECUTE nearest('(37,91)', 1);
EXECUTE by_name('%abcde%');
EXECUTE by_name(NULL);
EXECUTE by_n('{7, 8, 7}');
EXECUTE by_n(NULL);
EXPLAIN (COSTS OFF) EXECUTE by_place('(37,91)');
EXECUTE by_place('(37,91)');
EXECUTE by_place('(74,182)');
DROP INDEX places_place;
EXECUTE by_place('(37,91)');
CREATE INDEX places_place ON places USING global (place) WITH (method = 'spgist');
EXPLAIN (COSTS OFF) EXECUTE by_place('(37,91)');
EXECUTE by_place('(37,91)');
RESET plan_cache_mode;
-- SP-GiST by distance.
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT place <-> point '(100,100)' FROM places ORDER BY place <-> point '(100,100)' LIMIT 50 $$),
    ($$ SELECT place FROM places WHERE place IS NOT NULL AND place <@ box '((0,0),(60,60))' ORDER BY place <-> point '(100,100)' LIMIT 5 $$)) AS q(query);

-- Rows are changed and locked, as in a table without partitions.
CREATE INDEX plain_place ON plain USING gist (place);
CREATE FUNCTION on_both(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE counts int[] := '{}'; affected int; name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['places', 'plain'] LOOP
        EXECUTE regexp_replace(statement, '\mt\M', name, 'g');
        GET DIAGNOSTICS affected = ROW_COUNT;
        counts := counts || affected;
    END LOOP;
    RETURN CASE WHEN counts[1] = counts[2] THEN counts[1]::text ELSE 'different: ' || counts::text END;
END $$;
SET index_table.enable_scan = force;
SELECT query, reads(replace(query, ' t', ' places')) FROM (VALUES
    ($$ UPDATE t SET n = n + 1 WHERE place <@ box '((0,0),(50,50))' $$),
    ($$ DELETE FROM t WHERE name LIKE '%abcd%' $$),
    ($$ SELECT * FROM t ORDER BY place <-> point '(100,100)' LIMIT 2 FOR UPDATE $$)) AS q(query);
SELECT on_both($$ UPDATE t SET n = coalesce(n, 0) + 1 WHERE place <@ box '((0,0),(50,50))' $$);
SELECT on_both($$ UPDATE t SET place = place + point(1, 1) WHERE place <@ box '((0,0),(200,200))' $$);
SELECT on_both($$ UPDATE t SET id = id + 10000, n = 9 WHERE tags @> '{3, 105}' $$);
SELECT on_both($$ UPDATE t SET name = 'moved ' || name, tags = tags || 999 WHERE n IN (7, 8, 9, 9) $$);
SELECT on_both($$ DELETE FROM t WHERE name LIKE '%abcd%' $$);
SELECT on_both($$ DELETE FROM t USING asked AS a WHERE t.place <@ a.b AND t.n % 2 = 0 $$);
SELECT on_both($$ MERGE INTO t USING asked AS a ON t.n = a.id WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET valid = int4range(5, 9) $$);
SELECT on_both($$ SELECT * FROM t WHERE valid @> 7 FOR UPDATE $$);
SELECT on_both($$ SELECT * FROM t WHERE place IS NOT NULL ORDER BY place <-> point '(100,100)' LIMIT 20 FOR NO KEY UPDATE $$);
SELECT on_both($$ INSERT INTO t SELECT 20000 + i, point(i, i), NULL, NULL, ARRAY[3, 105], 'name abcd' || i FROM generate_series(1, 300) AS i $$);
RESET index_table.enable_scan;
(SELECT t::text FROM places AS t EXCEPT ALL SELECT t::text FROM plain AS t) UNION ALL (SELECT t::text FROM plain AS t EXCEPT ALL SELECT t::text FROM places AS t);
-- Entries of rows that are gone, whose line pointers others have.
CREATE FUNCTION check_all() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT q FROM unnest(ARRAY[
        $q$ SELECT * FROM places WHERE place <@ box '((0,0),(300,300))' $q$, $q$ SELECT place FROM places WHERE place IS NULL OR n = 3 $q$,
        $q$ SELECT place FROM places WHERE place <@ box '((0,0),(300,300))' $q$, $q$ SELECT * FROM places WHERE area && box '((0,0),(50,50))' $q$,
        $q$ SELECT * FROM places WHERE shape && polygon '((0,0),(300,0),(0,300))' $q$, $q$ SELECT * FROM places WHERE tags && '{3, 4, 999}' $q$,
        $q$ SELECT * FROM places WHERE name LIKE '%abc%' $q$, $q$ SELECT * FROM places WHERE town LIKE '%3%' $q$, $q$ SELECT town FROM places WHERE town > 'Town 3' $q$,
        $q$ SELECT * FROM places WHERE n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10) $q$, $q$ SELECT * FROM places WHERE valid && int4range(1, 100) $q$,
        $q$ SELECT valid, n FROM places WHERE n BETWEEN 10 AND 30 $q$, $q$ SELECT * FROM places WHERE id % 1000 < 50 AND n < 250 $q$]) AS q WHERE NOT same(q)
    UNION ALL SELECT q FROM unnest(ARRAY[
        $q$ SELECT place <-> point '(9,9)' FROM places ORDER BY place <-> point '(9,9)' LIMIT 6000 $q$, $q$ SELECT shape <-> point '(9,9)' FROM places ORDER BY shape <-> point '(9,9)' LIMIT 6000 $q$,
        $q$ SELECT town <-> 'Town 3' FROM places ORDER BY town <-> 'Town 3' LIMIT 6000 $q$]) AS q WHERE rows_of(q, 'force') IS DISTINCT FROM rows_of(q, 'off');
END $$;
SELECT check_all();
DELETE FROM places WHERE id % 3 = 0;
VACUUM places;
SELECT check_all();
INSERT INTO places SELECT id + 30000, point(3, 4), area, shape, ARRAY[3], 'abcd', 'Town 3', 5, valid FROM plain WHERE id % 3 = 0;
SELECT check_all();

-- Partitions that leave, are emptied, get another file, join; in one transaction, and rolled back.
ALTER TABLE places DETACH PARTITION places_p5;
SELECT same($$ SELECT * FROM places WHERE tags && '{3, 4, 999}' $$), same($$ SELECT * FROM places WHERE place <@ box '((0,0),(300,300))' $$);
ALTER TABLE places ATTACH PARTITION places_p5 FOR VALUES WITH (MODULUS 32, REMAINDER 5);
TRUNCATE places_p6;
SELECT check_all();
BEGIN;
TRUNCATE places_p7;
SELECT check_all();
ROLLBACK;
VACUUM FULL places_p7;
SELECT check_all();
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT check_all();
COMMIT;
DROP TABLE places_p8;
SELECT index_table.vacuum('places_tags') >= 0 AS swept;
SELECT check_all();

-- Conditions joined by OR: one of the indexes could be read backward, the other cannot, and the order is
-- the sort's; what a bitmap reads in order costs what it costs alone.
CREATE INDEX places_id ON places USING global (id);
DROP INDEX places_place;
CREATE INDEX places_place ON places USING global (place) WITH (method = 'gist');
SELECT q AS query, same(q), reads(q)
  FROM (VALUES ($$ SELECT * FROM places WHERE id > 5995 OR place ~= point(5, 5) ORDER BY id DESC $$),
               ($$ SELECT * FROM places WHERE id > 5995 OR place <@ box '((0,0),(20,20))' ORDER BY id DESC LIMIT 3 $$)) AS v(q);
CREATE TABLE tagged (id int, a int, tags int[]) PARTITION BY HASH (id);
DO $$ BEGIN FOR i IN 0 .. 63 LOOP EXECUTE format('CREATE TABLE tagged_p%s PARTITION OF tagged FOR VALUES WITH (MODULUS 64, REMAINDER %s)', i, i); END LOOP; END $$;
INSERT INTO tagged SELECT i, i, ARRAY[i % 60, 1000 + i % 7] FROM generate_series(1, 60000) AS i;
CREATE INDEX tagged_tags ON tagged USING global (tags) WITH (method = 'gin');
CREATE INDEX tagged_a ON tagged USING global (a);
ANALYZE tagged;
SET index_table.enable_scan = on;
SELECT reads($$ SELECT * FROM tagged WHERE tags @> ARRAY[7] $$), reads($$ SELECT * FROM tagged WHERE tags @> ARRAY[7] OR a = -1 $$);
SELECT same($$ SELECT * FROM tagged WHERE tags @> ARRAY[7] OR a = -1 $$);

SET client_min_messages = error;
DROP SCHEMA global_methods_scan CASCADE;
DROP EXTENSION pg_trgm, btree_gist;
