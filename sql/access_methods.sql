-- Queries through the indexes of any access method that owners make on their index tables.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA access_methods;
SET search_path = access_methods;
SET jit = off;
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gist;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- What EXPLAIN shows, without what not every version of PostgreSQL adds.
CREATE FUNCTION plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
        RETURN NEXT regexp_replace(line, '\.00(?= loops)', '', 'g');
    END LOOP;
END $$;
-- The indexes and index tables that a query reads, 'partitions' where it reads partitions.
CREATE FUNCTION reads(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Index Table: ' THEN found := found || substring(line, 'Index Table: (.*)'); END IF;
        IF line ~ ' Index: ' THEN found[cardinality(found)] := substring(line, 'Index: (.*)'); END IF;
        IF line ~ ' on \w+_p\d' OR line ~ 'All Partitions' THEN found := found || 'partitions'::text; END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT f, ', ' ORDER BY f) FROM unnest(found) AS f);
END $$;
-- What a query reads, and how many rows it yields, where these are the same without index tables.
CREATE FUNCTION same(query text) RETURNS TABLE (through text, row_count bigint, is_same boolean) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL index_table.enable_scan = force;
    through := reads(query);
    EXECUTE format('CREATE TEMP TABLE through_index_table ON COMMIT DROP AS SELECT v::text FROM (%s) AS v', query);
    SET LOCAL index_table.enable_scan = off;
    EXECUTE format('CREATE TEMP TABLE native ON COMMIT DROP AS SELECT v::text FROM (%s) AS v', query);
    row_count := (SELECT count(*) FROM native);
    is_same := NOT EXISTS ((TABLE through_index_table EXCEPT ALL TABLE native) UNION ALL (TABLE native EXCEPT ALL TABLE through_index_table));
    DROP TABLE through_index_table, native;
    SET LOCAL index_table.enable_scan = on;
    RETURN NEXT;
END $$;

-- 24 partitions, one of them with its columns in another order.
CREATE TABLE visits (
    gone   int,
    id     int PRIMARY KEY,
    town   text,
    name   text,
    tags   text[],
    ip     inet,
    during int4range,
    day    int,
    place  point,
    note   text,
    stamp  date
) PARTITION BY HASH (id);
SELECT format('CREATE TABLE visits_p%s PARTITION OF visits FOR VALUES WITH (MODULUS 24, REMAINDER %s)', i, i)
  FROM generate_series(0, 22) AS i \gexec
ALTER TABLE visits DROP COLUMN gone;
CREATE TABLE visits_p23 (stamp date, note text, place point, junk int, day int, during int4range, ip inet, tags text[], name text, town text, id int NOT NULL);
ALTER TABLE visits_p23 DROP COLUMN junk;
ALTER TABLE visits ATTACH PARTITION visits_p23 FOR VALUES WITH (MODULUS 24, REMAINDER 23);
INSERT INTO visits
SELECT i, 'Town ' || i % 50, CASE WHEN i % 40 <> 0 THEN md5(i::text) END, ARRAY['t' || i % 700, 'u' || i % 5], ('10.0.' || i / 256 || '.' || i % 256)::inet,
       int4range(i * 10, i * 10 + 15), i / 3, point(i % 60, i / 60), CASE WHEN i % 10 = 0 THEN 'Note ' || i END,
       date '2020-01-01' + i / 3
  FROM generate_series(1, 3600) AS i;

SELECT index_table.create('visits', 'stamp', 'denormalized', name => 'visits_all');
SELECT index_table.create('visits', 'town', 'partial', include => 'name, tags', name => 'visits_by_town', partitions => 3);
SELECT index_table.create('visits', 'lower(name)', 'partial', include => 'day', predicate => 'note IS NOT NULL', name => 'noted_visits');
INSERT INTO recomputation VALUES
    ('visits_all', 'stamp, partition_id, id, town, name, tags, ip, during, day, place, note', 'visits b', 'true'),
    ('visits_by_town', 'town, partition_id, id, name, tags', 'visits b', 'true'),
    ('noted_visits', 'lower(name), partition_id, id, day', 'visits b', 'note IS NOT NULL');

-- Each access method, and rows fetched as well as entries alone.
CREATE INDEX all_name_trgm ON visits_all USING gin (name gin_trgm_ops);
CREATE INDEX all_tags_gin ON visits_all USING gin (tags);
CREATE INDEX all_during_gist ON visits_all USING gist (during);
CREATE INDEX all_id_gist ON visits_all USING gist (id);
CREATE INDEX all_ip_hash ON visits_all USING hash (ip);
CREATE INDEX all_ip_spgist ON visits_all USING spgist (ip);
CREATE INDEX all_day_brin ON visits_all USING brin (day) WITH (pages_per_range = 2);
CREATE INDEX all_place_spgist ON visits_all USING spgist (place);
CREATE INDEX all_town_name ON visits_all (town, name DESC NULLS LAST);
CREATE INDEX all_initial ON visits_all (left(town, 6), id) WHERE day > 1000;
CREATE INDEX all_partition ON visits_all (partition_id);
VACUUM ANALYZE visits_all;

SELECT plan($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$);
SELECT plan($$ SELECT * FROM visits WHERE name LIKE '%abcd%' FOR UPDATE $$);
SELECT plan($$ UPDATE visits SET note = 'seen' WHERE tags @> '{t7}' $$);
SELECT plan($$ DELETE FROM visits WHERE during && int4range(100, 120) $$);
SELECT plan($$ SELECT id FROM visits WHERE name LIKE '%abcd%' $$, 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF');

\pset format unaligned
\pset tuples_only on
\pset fieldsep ' : '
CREATE TABLE asked (number serial, query text);
INSERT INTO asked (query) VALUES
    ($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$),
    ($$ SELECT * FROM visits WHERE name ILIKE '%ABC_E%' AND day > 100 $$),
    ($$ SELECT id FROM visits WHERE name ~ 'ab[cd]e+f' $$),
    ($$ SELECT * FROM visits WHERE name LIKE '%a%' AND id < 30 $$),
    ($$ SELECT * FROM visits WHERE name LIKE ANY ('{%abcd%, %bcde%, %abcde%}') $$),
    ($$ SELECT * FROM visits WHERE name LIKE ANY ('{}') $$),
    ($$ SELECT * FROM visits WHERE tags @> '{t7, u2}' $$),
    ($$ SELECT * FROM visits WHERE tags && '{t7, t9}' $$),
    ($$ SELECT * FROM visits WHERE tags <@ '{t7, u2}' $$),
    ($$ SELECT * FROM visits WHERE tags = '{t7, u2}' $$),
    ($$ SELECT * FROM visits WHERE during && int4range(100, 120) $$),
    ($$ SELECT * FROM visits WHERE during @> 1234 OR during @> 2345 $$),
    ($$ SELECT * FROM visits WHERE during && ANY (ARRAY[int4range(100, 120), int4range(110, 140), NULL]) $$),
    ($$ SELECT town FROM visits WHERE id <-> 100 < 3 OR id BETWEEN 7 AND 9 $$),
    ($$ SELECT * FROM visits WHERE id BETWEEN 700 AND 710 $$),
    ($$ SELECT * FROM visits WHERE ip = '10.0.1.5' $$),
    ($$ SELECT * FROM visits WHERE ip = ANY ('{10.0.1.5, 10.0.7.7, 10.0.1.5, NULL, 1.1.1.1}') $$),
    ($$ SELECT * FROM visits WHERE ip IS NULL $$),
    ($$ SELECT * FROM visits WHERE ip << '10.0.3.0/27' $$),
    ($$ SELECT * FROM visits WHERE place <@ box(point(3, 3), point(5, 6)) $$),
    ($$ SELECT * FROM visits WHERE town = 'Town 7' AND name > 'd' $$),
    ($$ SELECT * FROM visits WHERE (town, name) = ('Town 7', md5('7')) $$),
    ($$ SELECT * FROM visits WHERE town = 'Town 30' AND name IS NULL $$),
    ($$ SELECT id FROM visits WHERE left(town, 6) = 'Town 7' AND day > 1100 $$),
    ($$ SELECT id FROM visits WHERE left(town, 6) = 'Town 7' AND day > 900 $$),
    ($$ SELECT * FROM visits WHERE name LIKE '%abcd%' OR tags @> '{t7}' OR ip = '10.0.1.5' $$),
    ($$ SELECT * FROM visits WHERE name LIKE '%abcd%' AND NOT tags @> '{u1}' $$),
    ($$ SELECT count(*), min(day) FROM visits WHERE name LIKE '%bcd%' $$),
    ($$ SELECT v.* FROM visits v JOIN (VALUES ('10.0.1.5'::inet), ('10.0.2.7'), (NULL)) AS w (ip) ON v.ip = w.ip $$),
    ($$ SELECT v.id, w.k FROM generate_series(1, 40) AS w (k) LEFT JOIN visits v ON v.ip = ('10.0.2.' || w.k)::inet AND v.tags @> '{u1}' $$),
    ($$ SELECT (SELECT count(*) FROM visits v WHERE v.tags @> ARRAY['t' || k]) FROM generate_series(1, 20) AS k $$),
    ($$ SELECT * FROM visits WHERE EXISTS (SELECT FROM visits w WHERE w.ip = visits.ip AND w.name LIKE '%abcd%') AND tags && '{u1, u2}' $$);
SELECT asked.query, s.* FROM asked, same(query) AS s ORDER BY number;
-- Through the rows of entries.
SET enable_indexonlyscan = off;
SELECT asked.query, s.* FROM asked, same(query) AS s WHERE number % 3 = 0 ORDER BY number;
RESET enable_indexonlyscan;
-- An index that is not valid.
BEGIN;
DROP INDEX all_town_name, all_ip_spgist;
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'all_ip_hash'::regclass;
SELECT * FROM same($$ SELECT * FROM visits WHERE ip = '10.0.1.5' $$);
SELECT * FROM same($$ SELECT * FROM visits WHERE town = 'Town 7' AND name > 'd' $$);
ROLLBACK;
\pset format aligned
\pset tuples_only off

-- Entries in the order of an owner's B-tree.
SELECT plan($$ SELECT id, town, name FROM visits WHERE town >= 'Town 8' ORDER BY town, name DESC NULLS LAST LIMIT 5 $$);
CREATE FUNCTION ordered(query text) RETURNS TABLE (through text, row_count int, is_same boolean) LANGUAGE plpgsql AS $$
DECLARE found text[]; native text[];
BEGIN
    SET LOCAL index_table.enable_scan = force;
    SET LOCAL enable_sort = off;
    through := reads(query);
    EXECUTE format('SELECT array(SELECT v::text FROM (%s) AS v)', query) INTO found;
    SET LOCAL index_table.enable_scan = off;
    EXECUTE format('SELECT array(SELECT v::text FROM (%s) AS v)', query) INTO native;
    row_count := cardinality(native);
    is_same := found = native;
    RETURN NEXT;
END $$;
SELECT * FROM ordered($$ SELECT town, name FROM visits WHERE town BETWEEN 'Town 1' AND 'Town 2' ORDER BY town, name DESC NULLS LAST LIMIT 1000 $$);
SELECT * FROM ordered($$ SELECT town, name FROM visits ORDER BY town DESC, name NULLS FIRST LIMIT 200 $$);
SET enable_indexonlyscan = off;
SELECT * FROM ordered($$ SELECT town, name FROM visits ORDER BY town DESC, name NULLS FIRST LIMIT 200 $$);
RESET enable_indexonlyscan;

-- A partitioned index table; its B-tree knows which partition has a key, others do not.
CREATE INDEX town_name_trgm ON visits_by_town USING gin (name gin_trgm_ops);
CREATE INDEX town_hash ON visits_by_town USING hash (town);
CREATE INDEX town_upper ON visits_by_town (upper(town)) INCLUDE (name);
DROP INDEX all_name_trgm;
ANALYZE visits_by_town;
SELECT plan($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$);
SELECT * FROM same($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$);
SELECT * FROM same($$ SELECT * FROM visits WHERE upper(town) = 'TOWN 7' $$);
SELECT * FROM same($$ SELECT name FROM visits WHERE upper(town) IN ('TOWN 7', 'TOWN 8') AND tags @> '{u1}' $$);

-- Keys that are expressions, and predicates: the index table's and the index's.
CREATE INDEX noted_name_trgm ON noted_visits USING gin (lower gin_trgm_ops);
CREATE INDEX noted_late ON noted_visits USING brin (day) WHERE lower < 'c';
DROP INDEX town_name_trgm;
SELECT plan($$ SELECT id FROM visits WHERE lower(name) LIKE '%abc%' AND note IS NOT NULL $$);
SELECT * FROM same($$ SELECT id FROM visits WHERE lower(name) LIKE '%abc%' AND note IS NOT NULL $$);
SELECT * FROM same($$ SELECT id FROM visits WHERE lower(name) LIKE '%abc%' AND note LIKE 'Note 1%' $$);
SELECT * FROM same($$ SELECT id FROM visits WHERE lower(name) LIKE '%abc%' $$);
SELECT * FROM same($$ SELECT day FROM visits WHERE lower(name) < 'b' AND day BETWEEN 200 AND 400 AND note IS NOT NULL $$);

CREATE INDEX noted_few ON noted_visits USING gist (lower gist_trgm_ops) WHERE day = 300;
SELECT * FROM same($$ SELECT id FROM visits WHERE day = 300 AND note IS NOT NULL $$);

-- Where a row has many entries they would show it many times. Partition numbers are nothing of a row's.
SELECT index_table.create('visits', 'tags', 'partial', include => 'name, ip', name => 'visits_by_tag');
INSERT INTO recomputation VALUES
    ('visits_by_tag', 'tag, partition_id, id, name, ip', 'visits b CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags)) AS e(tag)', 'true');
CREATE INDEX tag_name_trgm ON visits_by_tag USING gin (name gin_trgm_ops);
CREATE INDEX all_partition_name ON visits_all ((name || partition_id));
SELECT reads($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$) IS DISTINCT FROM 'tag_name_trgm' AS not_many_times;
SELECT * FROM same($$ SELECT * FROM visits WHERE name LIKE '%abcd%' $$);
SELECT * FROM same($$ SELECT * FROM visits WHERE tags @> '{t7}' AND name LIKE '%a%' $$);

CREATE TABLE visits_copy AS TABLE visits;
-- Prepared statements notice that indexes come and go.
SET plan_cache_mode = force_generic_plan;
PREPARE by_name (text) AS SELECT id FROM visits WHERE name LIKE $1 ORDER BY id;
PREPARE by_ip (inet[]) AS SELECT count(*) FROM visits WHERE ip = ANY ($1) AND town <> '';
EXECUTE by_name('%abcd%');
SELECT reads($$ EXECUTE by_name('%abcd%') $$) = 'partitions' AS by_partitions;
CREATE INDEX all_name_trgm ON visits_all USING gin (name gin_trgm_ops);
SELECT plan($$ EXECUTE by_name('%abcd%') $$);
EXECUTE by_name('%abcd%');
CREATE TEMP TABLE found AS EXECUTE by_name('%');
SELECT count(*) = (SELECT count(name) FROM visits_copy) AS same FROM found;
EXECUTE by_name(NULL);
SELECT plan($$ EXECUTE by_ip('{}') $$);
EXECUTE by_ip('{10.0.1.5, 10.0.1.6}');
EXECUTE by_ip('{}');
EXECUTE by_ip(NULL);
DROP INDEX all_name_trgm, all_ip_hash, all_ip_spgist;
SELECT reads($$ EXECUTE by_name('%abcd%') $$) = 'partitions' AS by_partitions;
EXECUTE by_name('%abcd%');
EXECUTE by_ip('{10.0.1.5, 10.0.1.6}');
CREATE INDEX CONCURRENTLY all_name_trgm ON visits_all USING gin (name gin_trgm_ops);
SELECT reads($$ EXECUTE by_name('%abcd%') $$);
EXECUTE by_name('%abcd%');
REINDEX INDEX CONCURRENTLY all_name_trgm;
EXECUTE by_name('%abcd%');
DROP INDEX CONCURRENTLY all_name_trgm;
EXECUTE by_name('%abcd%');
CREATE INDEX all_name_trgm ON visits_all USING gin (name gin_trgm_ops);
RESET plan_cache_mode;

-- A loop whose rows are changed meanwhile goes on with what its snapshot sees.
CREATE FUNCTION loop_and_change(setting text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; ids int[] := '{}'; result text;
BEGIN
    PERFORM set_config('index_table.enable_scan', setting, true);
    result := reads($q$ SELECT id FROM visits WHERE tags @> '{u2}' AND name <> '' $q$);
    FOR r IN SELECT id FROM visits WHERE tags @> '{u2}' AND name <> '' LOOP
        ids := ids || r.id;
        IF cardinality(ids) = 20 THEN
            UPDATE visits SET tags = '{gone}' WHERE tags @> '{u2}' AND id % 2 = 0;
            DELETE FROM visits WHERE tags @> '{u2}' AND id % 3 = 0;
            INSERT INTO visits (id, town, name, tags) SELECT i, 'Town 1', 'new', '{u2}' FROM generate_series(5001, 5100) AS i;
        END IF;
    END LOOP;
    RETURN concat_ws(' ', result, cardinality(ids), md5((SELECT string_agg(v::text, ' ' ORDER BY v) FROM unnest(ids) AS v)));
END $$;
BEGIN;
SELECT loop_and_change('force') AS looped \gset
ROLLBACK;
BEGIN;
SELECT :'looped' AS looped, substring(:'looped', ' .*') = substring(loop_and_change('off'), ' .*') AS is_same;
ROLLBACK;

-- Rows are changed and locked.
SET index_table.enable_scan = force;
UPDATE visits SET name = name || 'abcd' WHERE name LIKE '%abcd%';
UPDATE visits SET day = day + 1000, note = 'moved' WHERE tags @> '{t7}' RETURNING id, day;
DELETE FROM visits WHERE during && int4range(20000, 20040);
MERGE INTO visits v USING (VALUES (int4range(3000, 3005)), (int4range(4000, 4005))) AS w (during) ON v.during && w.during AND v.day > 0
 WHEN MATCHED AND v.id % 2 = 0 THEN UPDATE SET note = 'merged'
 WHEN MATCHED THEN DELETE;
SELECT id FROM visits WHERE name LIKE '%abcdabcd%' ORDER BY id FOR UPDATE;
SET index_table.enable_scan = off;
UPDATE visits_copy SET name = name || 'abcd' WHERE name LIKE '%abcd%';
UPDATE visits_copy SET day = day + 1000, note = 'moved' WHERE tags @> '{t7}';
DELETE FROM visits_copy WHERE during && int4range(20000, 20040);
DELETE FROM visits_copy WHERE during && int4range(3000, 3005) AND id % 2 = 1 OR during && int4range(4000, 4005) AND id % 2 = 1;
UPDATE visits_copy SET note = 'merged' WHERE (during && int4range(3000, 3005) OR during && int4range(4000, 4005)) AND id % 2 = 0;
SELECT id, name, tags, day, note FROM visits EXCEPT ALL SELECT id, name, tags, day, note FROM visits_copy;
SELECT id, name, tags, day, note FROM visits_copy EXCEPT ALL SELECT id, name, tags, day, note FROM visits;
RESET index_table.enable_scan;

-- Versions of an entry on a page: whichever of them a page of a BRIN index stands for, the row comes
-- once.
UPDATE visits SET note = 'again' WHERE stamp BETWEEN '2020-06-01' AND '2020-06-20';
UPDATE visits SET note = 'and again' WHERE stamp BETWEEN '2020-06-10' AND '2020-06-15';
SELECT * FROM same($$ SELECT * FROM visits WHERE day BETWEEN 160 AND 170 AND name <> '' $$);
SELECT * FROM same($$ SELECT note FROM visits WHERE day = 165 $$);

-- Bitmaps that do not fit into memory.
CREATE TABLE wide (id int PRIMARY KEY, k int, tags text[], filler text) PARTITION BY HASH (id);
SELECT format('CREATE TABLE wide_p%s PARTITION OF wide FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i) FROM generate_series(0, 7) AS i \gexec
INSERT INTO wide SELECT i, i, ARRAY['u' || i % 4, 'v' || i % 3, 'w'], repeat('x', 1900) FROM generate_series(1, 6000) AS i;
SELECT index_table.create('wide', 'k', 'denormalized');
INSERT INTO recomputation VALUES ('wide_by_k', 'k, partition_id, id, tags, filler', 'wide b', 'true');
CREATE INDEX wide_tags ON wide_by_k USING gin (tags) WHERE k % 7 > 0;
CREATE INDEX wide_filler ON wide_by_k USING hash (filler);
UPDATE wide SET filler = 'y' WHERE id % 5 = 0;
SET work_mem = '64kB';
CREATE FUNCTION removes(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean := false;
BEGIN
    SET LOCAL index_table.enable_scan = force;
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        found := found OR line ~ 'Entries Removed by Index Recheck';
    END LOOP;
    RETURN found;
END $$;
SELECT removes($$ SELECT id FROM wide WHERE tags @> '{u1}' AND k % 7 > 0 $$);
SELECT * FROM same($$ SELECT * FROM wide WHERE tags @> '{w}' AND k % 7 > 0 AND k <> 1003 $$);
SELECT * FROM same($$ SELECT id FROM wide WHERE tags @> '{u1}' AND k % 7 > 0 $$);
SELECT * FROM same($$ SELECT k, tags FROM wide WHERE filler = repeat('x', 1900) AND tags <> '{}' $$);
RESET work_mem;

-- Partitions that are gone: their entries show nothing.
TRUNCATE wide_p3;
ALTER TABLE wide DETACH PARTITION wide_p5;
SELECT * FROM same($$ SELECT id FROM wide WHERE tags @> '{u1}' AND k % 7 > 0 $$);
SELECT * FROM same($$ SELECT * FROM wide WHERE tags @> '{v1}' AND k % 7 > 0 $$);

-- Amid a change of the base table entries are made from it, in the order that the plan relies on.
CREATE INDEX all_town_name_again ON visits_all (town DESC NULLS LAST, name);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE setting text; rows text[]; seen text[] := '{}'; line text;
BEGIN
    FOREACH setting IN ARRAY ARRAY['force', 'off'] LOOP
        PERFORM set_config('index_table.enable_scan', setting, true), set_config('enable_sort', 'off', true);
        rows := ARRAY(SELECT v FROM visits AS v WHERE name LIKE '%abc%' ORDER BY id)::text[]
             || ARRAY(SELECT v FROM visits AS v WHERE tags && '{t7, t9}' AND id < 2000 ORDER BY id)::text[]
             || ARRAY(SELECT id FROM visits AS v WHERE during && int4range(100, 130) ORDER BY id)::text[]
             || ARRAY(SELECT (town, name) FROM visits AS v WHERE town < 'Town 2' ORDER BY town DESC NULLS LAST, name LIMIT 100)::text[];
        seen := seen || md5(rows::text);
    END LOOP;
    SET LOCAL index_table.enable_scan = force;
    FOR line IN EXECUTE $q$ EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT id FROM visits WHERE name LIKE '%abc%' $q$ LOOP
        IF line ~ ' Index: |Entries From' THEN RAISE WARNING '%', line; END IF;
    END LOOP;
    RAISE WARNING '% rows, same: %', cardinality(rows), seen[1] = seen[2];
    RETURN NULL;
END $$;
CREATE TRIGGER look AFTER UPDATE ON visits FOR EACH ROW WHEN (NEW.id IN (70, 700)) EXECUTE FUNCTION look();
UPDATE visits SET name = 'abc' || name, tags = tags || '{t9}', town = 'Town 1' WHERE id IN (7, 70, 700);
DROP TRIGGER look ON visits;
-- An operator that may tell what it is given does not see rows that row security hides.
CREATE ROLE access_methods_reader;
GRANT USAGE ON SCHEMA access_methods TO access_methods_reader;
GRANT SELECT ON visits, visits_copy TO access_methods_reader;
ALTER TABLE visits ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON visits FOR SELECT TO access_methods_reader USING (tags @> '{u1}');
SET ROLE access_methods_reader;
SET index_table.enable_scan = force;
SELECT plan($$ SELECT id FROM visits WHERE name LIKE '%abc%' $$);
SELECT count(*) FROM visits WHERE name LIKE '%abc%';
SET index_table.enable_scan = off;
SELECT count(*) FROM visits WHERE name LIKE '%abc%';
RESET index_table.enable_scan;
RESET ROLE;
ALTER TABLE visits DISABLE ROW LEVEL SECURITY;

-- A collation under which different strings are equal, where there is one: SP-GiST, GIN and GiST do not know it, hash indexes do.
SELECT getdatabaseencoding() = 'UTF8' AND EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu') AS has_icu \gset
\if :has_icu
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION caseless FROM "C";
\endif
CREATE TABLE words (id int PRIMARY KEY, word text COLLATE caseless) PARTITION BY HASH (id);
CREATE TABLE words_p0 PARTITION OF words FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE words_p1 PARTITION OF words FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO words SELECT i, (ARRAY['one', 'One', 'ONE', 'two'])[1 + i % 4] FROM generate_series(1, 40) AS i;
SELECT index_table.create('words', 'id', 'partial', include => 'word', name => 'words_by_id');
INSERT INTO recomputation VALUES ('words_by_id', 'id, partition_id, word', 'words b', 'true');
CREATE INDEX words_spgist ON words_by_id USING spgist (word);
CREATE INDEX words_gin ON words_by_id USING gin (word gin_trgm_ops);
CREATE INDEX words_gist ON words_by_id USING gist (word);
SELECT row_count > 0 AS found, is_same FROM same($$ SELECT id FROM words WHERE word = 'ONE' $$);
CREATE INDEX words_hash ON words_by_id USING hash (word);
SELECT row_count > 0 AS found, is_same FROM same($$ SELECT id FROM words WHERE word = 'ONE' $$);

SELECT * FROM differences();
SET client_min_messages = error;
DROP OWNED BY access_methods_reader;
DROP ROLE access_methods_reader;
DROP SCHEMA access_methods CASCADE;
