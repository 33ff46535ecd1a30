-- Reading by hand: lookup, fetch and page.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA reading;
SET search_path = reading;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int, town varchar(20), last text COLLATE "C", gone int, born date, phone text, region char(2), PRIMARY KEY (region, id)) PARTITION BY LIST (region);
ALTER TABLE people DROP COLUMN gone;
CREATE TABLE people_n PARTITION OF people FOR VALUES IN ('n') PARTITION BY HASH (id);
CREATE TABLE people_n_0 PARTITION OF people_n FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_n_1 PARTITION OF people_n FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE people_s (phone text, x int, born date, id int NOT NULL, y text, last text COLLATE "C", region char(2) NOT NULL, town varchar(20));
ALTER TABLE people_s DROP COLUMN x, DROP COLUMN y;
ALTER TABLE people ATTACH PARTITION people_s FOR VALUES IN ('s');
INSERT INTO people
SELECT i, nullif('town' || i % 4, 'town3'), nullif(chr(65 + i % 5), 'C'), date '2000-01-01' + nullif(i % 6, 5), '555-' || i, CASE WHEN i % 3 = 0 THEN 's' ELSE 'n' END
  FROM generate_series(1, 40) AS i;
ALTER TABLE people ADD COLUMN note text DEFAULT 'none';
UPDATE people SET note = NULL WHERE id % 10 = 0;
SELECT index_table.create('people', 'town, last DESC, born');
SELECT index_table.create('people', 'born DESC', 'partial', include => 'phone, town');
SELECT index_table.create('people', 'last', 'denormalized', partitions => 3);
SELECT index_table.create('people', 'phone', is_unique => true, predicate => 'town IS NOT NULL');
INSERT INTO recomputation VALUES
    ('people_by_town_last_born', 'town, last, born, partition_id, region, id', 'people b', 'true'),
    ('people_by_born', 'born, partition_id, region, id, phone, town', 'people b', 'true'),
    ('people_by_last', 'last, partition_id, region, id, town, born, phone, note', 'people b', 'true'),
    ('people_by_phone', 'phone, partition_id, region, id', 'people b', 'town IS NOT NULL');

-- lookup: entries, in key order.
SELECT * FROM index_table.lookup('people_by_born', '2000-01-02');
SELECT * FROM index_table.lookup('people_by_last', 'B') LIMIT 2;
SELECT * FROM index_table.lookup('people_by_phone', '555-5');
SELECT * FROM index_table.lookup('people_by_phone', '555-3');
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', 'town1', 'B', '2000-01-02'::date);
-- A prefix, no key at all, NULL, an array of key values.
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', 'town1', 'B');
SELECT count(*) FROM index_table.lookup('people_by_town_last_born', 'town1');
SELECT count(*) FROM index_table.lookup('people_by_town_last_born');
SELECT count(*), (SELECT count(*) FROM people WHERE town IS NULL) FROM index_table.lookup('people_by_town_last_born', NULL);
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', 'town2', NULL, '2000-01-03');
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', NULL, NULL);
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', VARIADIC ARRAY['town2', NULL, '2000-01-03']);
SELECT partition, identity FROM index_table.lookup('people_by_town_last_born', VARIADIC ARRAY[NULL, NULL]::text[]);
SELECT count(*) FROM index_table.lookup('people_by_town_last_born', VARIADIC '{}'::text[]);
SELECT count(*) FROM index_table.lookup('people_by_town_last_born', 'nowhere');

-- fetch: rows of the base table.
SELECT * FROM index_table.fetch(NULL::people, 'people_by_town_last_born', 'town1', 'B');
SELECT * FROM index_table.fetch(NULL::people, 'people_by_born', NULL);
SELECT id, (f).note FROM index_table.fetch(NULL::people, 'people_by_last', 'A') AS f;
SELECT index_table.fetch(NULL::people, 'people_by_phone', '555-10');
SELECT p.id, f.id FROM people AS p, index_table.fetch(NULL::people, 'people_by_town_last_born', p.town, p.last, p.born) AS f WHERE p.id < 3 ORDER BY 1, 2;
SELECT p.id FROM people AS p WHERE NOT EXISTS (SELECT FROM index_table.fetch(p, 'people_by_town_last_born', p.town, p.last, p.born) AS f WHERE f = p);

-- The same rows as a SELECT, and in the order of key and identity.
CREATE FUNCTION differs(actual text, expected text) RETURNS TABLE (place bigint, actual_row text, expected_row text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('
        SELECT n, a.entry, e.entry
          FROM (SELECT row_number() OVER () AS n, r::text AS entry FROM (%s) AS r) AS a
          FULL JOIN (SELECT row_number() OVER () AS n, r::text AS entry FROM (%s) AS r) AS e USING (n)
         WHERE a.entry IS DISTINCT FROM e.entry ORDER BY n', actual, expected);
END $$;
SELECT * FROM differs($$SELECT * FROM index_table.fetch(NULL::people, 'people_by_town_last_born')$$,
                      $$SELECT * FROM people ORDER BY town, last DESC, born, region, id$$);
SELECT * FROM differs($$SELECT * FROM index_table.fetch(NULL::people, 'people_by_born')$$,
                      $$SELECT * FROM people ORDER BY born DESC, region, id$$);
SELECT * FROM differs($$SELECT * FROM index_table.fetch(NULL::people, 'people_by_last')$$,
                      $$SELECT * FROM people ORDER BY last, region, id$$);
SELECT * FROM differs($$SELECT * FROM index_table.fetch(NULL::people, 'people_by_phone')$$,
                      $$SELECT * FROM people WHERE town IS NOT NULL ORDER BY phone, region, id$$);
SELECT * FROM differs($$SELECT f.* FROM (VALUES ('town0'), ('town1'), (NULL)) AS t (town), index_table.fetch(NULL::people, 'people_by_town_last_born', t.town) AS f$$,
                      $$SELECT p.* FROM (VALUES ('town0', 1), ('town1', 2), (NULL, 3)) AS t (town, n), people AS p WHERE p.town IS NOT DISTINCT FROM t.town ORDER BY n, last DESC, born, region, id$$);

-- Values are cast to the key columns' types; what does not cast names the column.
SELECT count(*) FROM index_table.lookup('people_by_town_last_born', 'town1'::text, 'B'::char(5), '2000-01-02'::date);
SELECT count(*) FROM index_table.lookup('people_by_town_last_born', 'town1'::name, 'B'::varchar);
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TABLE typed (id int8 PRIMARY KEY, i int, m mood, d small, n numeric(4,1), u uuid, ts timestamptz, c char(4));
INSERT INTO typed VALUES (1, 7, 'ok', 7, 7.0, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2000-01-01 00:00+00', 'ab');
SELECT index_table.create('typed', k) FROM unnest('{i,m,d,n,u,ts,c}'::text[]) AS k;
SELECT (SELECT count(*) FROM index_table.lookup('typed_by_i', '7')) AS i,
       (SELECT count(*) FROM index_table.lookup('typed_by_i', 7::int8)) AS i3, (SELECT count(*) FROM index_table.lookup('typed_by_m', 'ok')) AS m,
       (SELECT count(*) FROM index_table.lookup('typed_by_d', 7)) AS d, (SELECT count(*) FROM index_table.lookup('typed_by_d', 700)) AS d2,
       (SELECT count(*) FROM index_table.lookup('typed_by_n', 7)) AS n, (SELECT count(*) FROM index_table.lookup('typed_by_n', 7.04)) AS n2,
       (SELECT count(*) FROM index_table.lookup('typed_by_u', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')) AS u,
       (SELECT count(*) FROM index_table.lookup('typed_by_ts', '2000-01-01 01:00+01')) AS ts, (SELECT count(*) FROM index_table.lookup('typed_by_c', 'ab')) AS c,
       (SELECT count(*) FROM index_table.lookup('typed_by_c', 'ab  ')) AS c2;
SELECT * FROM index_table.lookup('typed_by_i', 'seven');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('typed_by_i', 7000000000);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('typed_by_m', 'happy');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::typed, 'typed_by_d', 'x');
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::typed, 'typed_by_ts', 1, NULL, 'yesterdayish');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('typed_by_u', 7);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('typed_by_i', now());
\echo :SQLSTATE
SELECT * FROM index_table.lookup('typed_by_i', ARRAY[7]);
\echo :SQLSTATE
DROP TABLE typed;

-- What is refused.
SELECT * FROM index_table.lookup('people_by_born', '2000-01-02', 1);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_town_last_born', 'a', 'b', NULL, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_born', VARIADIC NULL::text[]);
\echo :SQLSTATE
SELECT * FROM index_table.lookup(NULL, 1);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_last_p0');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('index_table.definition');
\echo :SQLSTATE
SELECT * FROM index_table.lookup('people_by_born_idx');
\echo :SQLSTATE
SELECT * FROM index_table.lookup(0::oid);
\echo :SQLSTATE
SELECT * FROM index_table.lookup('nothing');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::recomputation, 'people_by_born', '2000-01-02');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::people_s, 'people_by_born');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(1, 'people_by_born');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL, 'people_by_born');
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::people, NULL, 1);
\echo :SQLSTATE
SELECT * FROM index_table.fetch(NULL::people, 'people');
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, 'people_by_born', 0, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, 'people_by_born', -1, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, 'people_by_born', NULL, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, 'people_by_born', 1000001, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::recomputation, 'people_by_born', 1, NULL);
\echo :SQLSTATE
SELECT * FROM index_table.page(NULL::people, NULL, 1, NULL);
\echo :SQLSTATE

-- page: each row once, in the order of fetch, whatever the page size.
CREATE FUNCTION paged(index_table regclass, page_size int, VARIADIC key text[] DEFAULT '{}') RETURNS SETOF people LANGUAGE plpgsql AS $$
DECLARE
    token text;
    next_token text;
    r record;
    rows int;
    pages int := 0;
BEGIN
    LOOP
        pages := pages + 1;
        rows := 0;
        next_token := NULL;
        FOR r IN SELECT * FROM index_table.page(NULL::people, index_table, page_size, token, VARIADIC key) LOOP
            rows := rows + 1;
            next_token := r.next;
            RETURN NEXT r.entity;
        END LOOP;
        IF rows > page_size OR (rows < page_size AND next_token IS NOT NULL) OR (token IS NOT NULL AND rows = 0) OR pages > 100 THEN
            RAISE 'page % of % has % rows', pages, page_size, rows;
        END IF;
        EXIT WHEN next_token IS NULL;
        token := next_token;
    END LOOP;
END $$;
SELECT index_table.create('people', key, name => name)
  FROM (VALUES ('town DESC, last NULLS FIRST', 'o1'), ('town NULLS FIRST, born DESC NULLS LAST', 'o2'), ('last DESC NULLS LAST, town DESC NULLS LAST, id DESC', 'o3'),
               ('lower(last) COLLATE "C", note DESC', 'o4'), ('region DESC, id', 'o5'), ('note', 'o6')) AS o (key, name);
CREATE VIEW orders AS
    SELECT * FROM (VALUES ('people_by_town_last_born', 'town, last DESC, born'), ('people_by_born', 'born DESC'), ('people_by_last', 'last'),
                          ('o1', 'town DESC, last NULLS FIRST'), ('o2', 'town NULLS FIRST, born DESC NULLS LAST'), ('o3', 'last DESC NULLS LAST, town DESC NULLS LAST, id DESC'),
                          ('o4', 'lower(last), note DESC'), ('o5', 'region DESC, id'), ('o6', 'note')) AS o (name, ordering);
SELECT name, page_size, d.*
  FROM orders, unnest('{1,2,3,7,39,40,41,1000}'::int[]) AS page_size,
       differs(format('SELECT * FROM paged(%L, %s)', name, page_size), format('SELECT * FROM people ORDER BY %s, region, id', ordering)) AS d;
-- Under a key: the rows of fetch.
SELECT name, page_size, k, d.*
  FROM orders, unnest('{1,2,5}'::int[]) AS page_size,
       (VALUES ('people_by_town_last_born', '''town1'''), ('people_by_town_last_born', '''town2'', NULL'), ('people_by_town_last_born', 'NULL, ''B'''),
               ('people_by_born', 'NULL'), ('people_by_born', '''2000-01-03'''), ('people_by_last', '''A'''), ('o1', 'NULL'), ('o2', '''town0'''),
               ('o3', 'NULL, ''town1'''), ('o3', '''D'''), ('o4', '''b'''), ('o4', 'NULL, ''none'''), ('o5', '''s'''), ('o6', '''none''')) AS keys (of, k),
       differs(format('SELECT * FROM paged(%L, %s, %s)', name, page_size, k), format('SELECT * FROM index_table.fetch(NULL::people, %L, %s)', name, k)) AS d
 WHERE of = name;
SELECT * FROM index_table.page(NULL::people, 'people_by_town_last_born', 5, NULL, 'nowhere');
SELECT count(*), count(next), count(DISTINCT next), sum((entity).id) FROM index_table.page(NULL::people, 'people_by_born', 7, NULL);

-- Between pages the table may change: rows that stay where they are come once.
SELECT next AS token FROM index_table.page(NULL::people, 'people_by_last', 10, NULL) LIMIT 1 \gset
BEGIN;
SELECT count(*) AS rest FROM index_table.page(NULL::people, 'people_by_last', 100, :'token') \gset
SELECT count(*) + 10 AS total FROM index_table.page(NULL::people, 'people_by_last', 100, :'token');
DELETE FROM people WHERE id IN (SELECT (entity).id FROM index_table.page(NULL::people, 'people_by_last', 10, NULL));
SELECT count(*) - :rest AS missing FROM index_table.page(NULL::people, 'people_by_last', 100, :'token');
UPDATE people SET region = CASE region WHEN 's' THEN 'n' ELSE 's' END WHERE last > 'B';
SELECT count(*) - :rest AS missing FROM index_table.page(NULL::people, 'people_by_last', 100, :'token');
INSERT INTO people (id, region, last) VALUES (1001, 'n', ''), (1002, 's', 'ZZ');
SELECT (entity).id FROM index_table.page(NULL::people, 'people_by_last', 100, :'token') WHERE (entity).id > 1000;
DELETE FROM people;
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_last', 100, :'token');
ROLLBACK;

-- Tokens serve their own index table and key only.
SELECT next AS token FROM index_table.page(NULL::people, 'people_by_town_last_born', 2, NULL, 'town1') LIMIT 1 \gset
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token', 'town1');
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token', 'town1'::name);
\set VERBOSITY terse
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token', 'town2');
\echo :SQLSTATE
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token', NULL);
\echo :SQLSTATE
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token', 'town1', 'B');
\echo :SQLSTATE
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, :'token');
\echo :SQLSTATE
SELECT count(*) FROM index_table.page(NULL::people, 'o1', 100, :'token', 'town1');
\echo :SQLSTATE
\set VERBOSITY default
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_born', 1, '');
\echo :SQLSTATE
\set VERBOSITY terse
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_born', 1, 'garbage');
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_born', 1, '!"$%&/()=');
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_born', 1, repeat('A', 100));
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_born', 1, repeat('AAAA', 100000));
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, left(:'token', -4), 'town1');
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, 'AAAA' || :'token', 'town1');
SELECT count(*) FROM index_table.page(NULL::people, 'people_by_town_last_born', 100, overlay(:'token' PLACING 'xx' FROM 9), 'town1');
\echo :SQLSTATE
\set VERBOSITY default

-- Identities that are not unique, or NULL: rows that share key and identity stay on one page.
CREATE TABLE log (at int, what text, who text) PARTITION BY RANGE (at);
CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (10);
CREATE TABLE log_2 PARTITION OF log FOR VALUES FROM (10) TO (20);
INSERT INTO log SELECT i % 20, 'what ' || i % 3, nullif('who ' || i % 2, 'who 1') FROM generate_series(1, 60) AS i;
SELECT index_table.create('log', 'what', identity => 'who');
INSERT INTO recomputation VALUES ('log_by_what', 'what, partition_id, who', 'log b');
SELECT * FROM differs($$SELECT l.* FROM index_table.fetch(NULL::log, 'log_by_what') AS l ORDER BY l::text$$, $$SELECT * FROM log ORDER BY log::text$$);
SELECT count(*), (SELECT count(*) FROM log WHERE what = 'what 2') FROM index_table.fetch(NULL::log, 'log_by_what', 'what 2');
CREATE FUNCTION log_pages(page_size int) RETURNS SETOF log LANGUAGE plpgsql AS $$
DECLARE
    token text;
    r record;
BEGIN
    FOR page IN 1..100 LOOP
        FOR r IN SELECT * FROM index_table.page(NULL::log, 'log_by_what', page_size, token) LOOP
            RETURN NEXT r.entity;
        END LOOP;
        token := r.next;
        EXIT WHEN token IS NULL;
    END LOOP;
END $$;
SELECT page_size, d.* FROM unnest('{1,4,10,100}'::int[]) AS page_size,
       differs(format($$SELECT l.* FROM log_pages(%s) AS l ORDER BY l::text$$, page_size), $$SELECT * FROM log ORDER BY log::text$$) AS d;

-- Stale entries lead nowhere, missing ones hide their rows: reading never invents.
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO people_by_born SELECT born + 100, partition_id, region, id, phone, town FROM people_by_born WHERE id = 1;
INSERT INTO people_by_born SELECT born, partition_id, region, id + 1000, phone, town FROM people_by_born WHERE id = 2;
INSERT INTO people_by_born SELECT born, partition_id + 1000, region, id, phone, town FROM people_by_born WHERE id = 3;
SELECT count(*), count(DISTINCT id) FROM index_table.fetch(NULL::people, 'people_by_born');
SELECT count(*), count(DISTINCT id) FROM paged('people_by_born', 3);
ROLLBACK;
SELECT * FROM differences();

-- A column that is declared NOT NULL of rows to come alone (NOT VALID, since PostgreSQL 18) may hold NULLs: no unique
-- index tells such rows from each other.
CREATE TABLE halves (id int, k int, note text) PARTITION BY HASH (id);
CREATE TABLE halves_0 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE halves_1 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE UNIQUE INDEX ON halves (id);
INSERT INTO halves SELECT NULL, 1, 'nobody ' || i FROM generate_series(1, 6) AS i;
INSERT INTO halves SELECT i, 1 + i % 90, 'somebody ' || i FROM generate_series(1, 900) AS i;
DO $$ BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        EXECUTE 'ALTER TABLE halves ADD CONSTRAINT id_is_there NOT NULL id NOT VALID';
    END IF;
END $$;
SELECT index_table.create('halves', 'k', identity => 'id');
SELECT note FROM index_table.fetch(NULL::halves, 'halves_by_k', 1) WHERE id IS NULL ORDER BY note;
ANALYZE halves;
LOAD 'index_table';
SET index_table.enable_scan = force;
SELECT note FROM halves WHERE k = 1 AND note LIKE 'nobody%' ORDER BY note;
RESET index_table.enable_scan;
DROP TABLE halves;

-- A row of NULLs is a value.
CREATE TYPE pair AS (a int, b text);
CREATE TABLE pairs (id int PRIMARY KEY, p pair) PARTITION BY HASH (id);
CREATE TABLE pairs_0 PARTITION OF pairs FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE pairs_1 PARTITION OF pairs FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO pairs VALUES (1, '(1,a)'), (2, '(,)'), (3, '(,)'), (4, NULL), (5, NULL), (6, '(2,)');
SELECT index_table.create('pairs', 'p');
SELECT array_agg(id ORDER BY id) FROM index_table.fetch(NULL::pairs, 'pairs_by_p', '(,)');
SELECT array_agg(id ORDER BY id) FROM index_table.fetch(NULL::pairs, 'pairs_by_p', NULL);
WITH RECURSIVE page AS (
SELECT 1 AS n, (entity).*, next FROM index_table.page(NULL::pairs, 'pairs_by_p', 1, NULL)
UNION ALL
SELECT n + 1, (p.entity).*, p.next FROM page, LATERAL index_table.page(NULL::pairs, 'pairs_by_p', 1, page.next) AS p
 WHERE page.next IS NOT NULL AND n < 20)
SELECT n, p, count(*) OVER (PARTITION BY id) AS times FROM page ORDER BY n;
DROP TABLE pairs;

-- Values that have one text where settings say less of them are not the same.
CREATE TYPE weight AS (kg float8);
CREATE TABLE weights (id int PRIMARY KEY, w weight) PARTITION BY HASH (id);
CREATE TABLE weights_0 PARTITION OF weights FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO weights VALUES (1, ROW(0.3));
SELECT index_table.create('weights', 'w', maintenance => 'deferred');
UPDATE weights SET w = ROW(0.1::float8 + 0.2::float8);
SET extra_float_digits = 0;
SELECT * FROM weights;
SELECT * FROM index_table.fetch(NULL::weights, 'weights_by_w', ROW(0.3)::weight);
RESET extra_float_digits;
DROP TABLE weights;
CALL index_table.rebuild(NULL);
\echo :SQLSTATE

DROP SCHEMA reading CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
