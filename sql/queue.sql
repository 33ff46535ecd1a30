-- Deferred maintenance of local partitions: what is queued, what queries make of it, and that the drain
-- leaves what immediate maintenance would have.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA queue;
SET search_path = queue;
\pset footer off

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Queries whose rows are to be the same with index tables and without; `is_ordered`: in the same order.
CREATE TABLE queries (number int GENERATED ALWAYS AS IDENTITY, is_ordered boolean, query text);
CREATE FUNCTION uses(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Index Table (Only )?Scan' THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;
-- The queries that do not use an index table, or yield other rows without.
CREATE FUNCTION compare() RETURNS TABLE (number int, problem text, query text) LANGUAGE plpgsql AS $$
DECLARE q queries; numbered text; through text[]; native text[];
BEGIN
    FOR q IN SELECT * FROM queries AS t ORDER BY t.number LOOP
        numbered := format('SELECT array_agg(r::text %s) FROM (%s) AS r', CASE WHEN NOT q.is_ordered THEN 'ORDER BY r::text COLLATE "C"' ELSE '' END, q.query);
        PERFORM set_config('index_table.enable_scan', 'force', true);
        IF NOT uses(q.query) THEN
            RETURN QUERY SELECT q.number, 'not used', q.query;
        END IF;
        EXECUTE numbered INTO through;
        PERFORM set_config('index_table.enable_scan', 'off', true);
        EXECUTE numbered INTO native;
        PERFORM set_config('index_table.enable_scan', 'on', true);
        IF through IS DISTINCT FROM native THEN
            RETURN QUERY SELECT q.number, format('%s is not %s', through::text, native::text), q.query;
        END IF;
    END LOOP;
END $$;
-- What is queued.
CREATE FUNCTION queued(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT coalesce(sum(changes), 0) FROM %I', name || '_queue') INTO n;
    RETURN n;
END $$;

-- --- A tree with sub-partitions, default partitions, other column orders, dropped columns ------------

CREATE TABLE items (gone int, id int, region text, n bigint, amount numeric, name text COLLATE "C", tags text[], note text,
                    PRIMARY KEY (id, region)) PARTITION BY HASH (id);
ALTER TABLE items DROP COLUMN gone;
CREATE TABLE items_0 PARTITION OF items FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE items_1 (note text, extra int, name text COLLATE "C", id int NOT NULL, n bigint, region text NOT NULL, tags text[], amount numeric,
                      PRIMARY KEY (id, region)) PARTITION BY LIST (region);
ALTER TABLE items_1 DROP COLUMN extra;
ALTER TABLE items ATTACH PARTITION items_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE items_1_eu PARTITION OF items_1 FOR VALUES IN ('eu');
CREATE TABLE items_1_other PARTITION OF items_1 DEFAULT;
CREATE TABLE items_2 (tags text[], note text, region text NOT NULL, id int NOT NULL, amount numeric, n bigint, name text COLLATE "C");
ALTER TABLE items ATTACH PARTITION items_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO items (id, region, n, amount, name, tags, note)
SELECT i, (ARRAY['eu', 'us', 'as'])[1 + i % 3], CASE WHEN i % 10 > 0 THEN i % 25 END, (i % 30) / 4.0, 'Name ' || i % 20,
       CASE WHEN i % 7 > 0 THEN ARRAY['t' || i % 9, 't' || i % 5, NULL] END, 'note ' || i
  FROM generate_series(1, 300) AS i;
SELECT index_table.create('items', 'n', maintenance => 'deferred');
SELECT index_table.create('items', 'amount DESC NULLS LAST, name', 'partial', include => 'note', maintenance => 'deferred');
SELECT index_table.create('items', 'name', 'denormalized', predicate => 'region <> ''as''', name => 'items_named', maintenance => 'deferred');
SELECT index_table.create('items', 'upper(note)', name => 'items_noted', partitions => 4, maintenance => 'deferred');
SELECT index_table.create('items', 'unnest(tags)', name => 'items_tagged', maintenance => 'deferred');
CREATE INDEX items_tagged_hash ON items_tagged USING hash (unnest);
CREATE INDEX items_named_gin ON items_named USING gin (tags);
CREATE INDEX items_named_n ON items_named (n, id);
INSERT INTO recomputation VALUES
    ('items_by_n', 'n, partition_id, id, region', 'items b', DEFAULT),
    ('items_by_amount_name', 'amount, name, partition_id, id, region, note', 'items b', DEFAULT),
    ('items_named', 'name, partition_id, id, region, n, amount, tags, note', 'items b', 'region <> ''as'''),
    ('items_noted', 'upper(note), partition_id, id, region', 'items b', DEFAULT),
    ('items_tagged', 'tag, partition_id, id, region', 'items b CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags)) AS m (tag)', DEFAULT);
SELECT * FROM differences();

INSERT INTO queries (is_ordered, query) VALUES
    -- equality, other types, NULL, ranges, patterns
    (false, $$ SELECT * FROM items WHERE n = 5 $$),
    (false, $$ SELECT *, tableoid::regclass FROM items WHERE n = 5::smallint $$),
    (false, $$ SELECT id, region FROM items WHERE n = ANY ('{1, 2, 77, NULL}'::int[]) $$),
    (false, $$ SELECT id, note FROM items WHERE n IN (3, 4, 1000) AND region = 'eu' $$),
    (false, $$ SELECT id FROM items WHERE n IS NULL $$),
    (false, $$ SELECT id FROM items WHERE n > 20 $$),
    (false, $$ SELECT id FROM items WHERE n BETWEEN 7 AND 9 $$),
    (false, $$ SELECT id FROM items WHERE n = (SELECT 6) $$),
    (false, $$ SELECT count(*) FROM items WHERE amount = 1.50 $$),
    (false, $$ SELECT count(*) FROM items WHERE amount = 2 $$),
    (false, $$ SELECT amount, name, id, region, note FROM items WHERE amount > 6 AND name >= 'Name 15' $$),
    (false, $$ SELECT count(*) FROM items WHERE amount IS NULL $$),
    (false, $$ SELECT name, n, amount, tags, note, id FROM items WHERE name LIKE 'Name 1%' AND region <> 'as' $$),
    (false, $$ SELECT count(*) FROM items WHERE name = 'Name 7' AND region <> 'as' $$),
    (false, $$ SELECT id FROM items WHERE upper(note) = 'NOTE 17' $$),
    (false, $$ SELECT id FROM items WHERE upper(note) IN ('NOTE 18', 'NOTE 19', 'CHANGED') $$),
    (false, $$ SELECT id FROM items WHERE upper(note) > 'NOTE 95' $$),
    (false, $$ SELECT id, tags FROM items WHERE 't3' = ANY (tags) $$),
    (false, $$ SELECT id, tags FROM items WHERE tags @> '{t3,t4}' $$),
    (false, $$ SELECT id, tags FROM items WHERE tags && '{t8,t1}' AND region <> 'as' $$),
    -- OR over two index tables
    (false, $$ SELECT id, n, note FROM items WHERE n = 5 OR upper(note) = 'NOTE 17' $$),
    (false, $$ SELECT id FROM items WHERE n = 5 OR upper(note) = 'CHANGED' $$),
    -- joins
    (false, $$ SELECT k, id FROM (VALUES (1), (5), (77)) AS v (k) CROSS JOIN LATERAL (SELECT id FROM items WHERE n = k OFFSET 0) AS i $$),
    (false, $$ SELECT k, (SELECT count(*) FROM items WHERE n = k) FROM generate_series(0, 30) AS k $$),
    -- order
    -- (of rows that tie any may come: only what it goes by is compared)
    (true, $$ SELECT n FROM items WHERE n > 3 ORDER BY n LIMIT 30 $$),
    (true, $$ SELECT n FROM items ORDER BY n LIMIT 40 $$),
    (true, $$ SELECT n FROM items ORDER BY n DESC LIMIT 45 $$),
    (true, $$ SELECT amount, name FROM items ORDER BY amount DESC NULLS LAST, name LIMIT 60 $$),
    (true, $$ SELECT amount, name FROM items ORDER BY amount NULLS FIRST, name DESC LIMIT 60 $$),
    (true, $$ SELECT amount, name FROM items WHERE amount < 5 ORDER BY amount DESC NULLS LAST, name LIMIT 25 OFFSET 5 $$),
    (true, $$ SELECT min(n) AS lowest, max(n) AS highest FROM items $$);
SELECT * FROM compare();

-- Changes of all kinds, queued; nothing of the entries changes.
INSERT INTO items (id, region, n, amount, name, tags, note) VALUES
    (1001, 'eu', 5, 1.5, 'Name 7', '{t3,t4}', 'changed'), (1002, 'af', 77, 1.500, 'Name 7', '{t8}', 'Changed'),
    (1003, 'as', NULL, NULL, NULL, NULL, NULL), (1004, 'eu', -1, 100, 'Name 15', '{}', 'note 17');
SELECT queued('items_by_n'), queued('items_by_amount_name'), queued('items_named'), queued('items_noted'), queued('items_tagged');
SELECT index_table, count(*) FROM differences() GROUP BY index_table ORDER BY index_table::text COLLATE "C";
SELECT * FROM compare();
UPDATE items SET n = n + 1, amount = amount + 0.5 WHERE id % 3 = 0;
UPDATE items SET n = NULL WHERE id % 31 = 0;
UPDATE items SET amount = NULL, tags = '{t8,t9}' WHERE id % 29 = 0;
UPDATE items SET note = 'changed' WHERE id IN (17, 18, 19, 1004);
UPDATE items SET amount = 1.500 WHERE amount = 1.5;
DELETE FROM items WHERE id % 37 = 0;
SELECT * FROM compare();
-- Rows change their partition, and their identity; some more than once.
UPDATE items SET region = CASE region WHEN 'eu' THEN 'us' ELSE 'eu' END WHERE id % 5 = 0;
UPDATE items SET id = id + 2000 WHERE id BETWEEN 20 AND 40;
UPDATE items SET id = id - 2000, n = 5 WHERE id BETWEEN 2025 AND 2030;
DELETE FROM items WHERE id BETWEEN 100 AND 110;
INSERT INTO items SELECT i, 'us', i % 25, i % 30, 'Name 7', ARRAY['t3'], 'again' FROM generate_series(100, 110) AS i;
SELECT * FROM compare();
-- In the same transaction, in subtransactions, after they are rolled back.
BEGIN;
DELETE FROM items WHERE n = 6;
SAVEPOINT s;
UPDATE items SET n = 6 WHERE id IN (41, 42);
INSERT INTO items (id, region, n) VALUES (1005, 'eu', 6);
SELECT * FROM compare();
ROLLBACK TO s;
SELECT * FROM compare();
COMMIT;
SELECT * FROM compare();
-- Directly in partitions, and in a table of the tree that is neither root nor leaf.
INSERT INTO items_1 (id, region, n, note) SELECT i, 'eu', 5, 'direct' FROM generate_series(3000, 3030) AS i
 WHERE satisfies_hash_partition('items'::regclass, 3, 1, i);
UPDATE items_1 SET n = 6, region = 'xx' WHERE n = 5 AND id % 2 = 0;
UPDATE items_1_eu SET n = 3 WHERE n = 4;
DELETE FROM items_1_other WHERE n = 7;
UPDATE items_2 SET tags = '{t3}' WHERE n = 8;
SELECT * FROM compare();
SELECT problem, count(*) > 0 AS differ FROM differences() GROUP BY problem ORDER BY problem;

-- Prepared statements, cursors over writes and a drain; held ones too.
SET index_table.enable_scan = force;
SET plan_cache_mode = force_generic_plan;
PREPARE by_n(bigint) AS SELECT count(*) FROM items WHERE n = $1;
PREPARE by_any(int[]) AS SELECT count(*) FROM items WHERE n = ANY ($1);
EXECUTE by_n(11);
EXECUTE by_any('{11,12}');
INSERT INTO items (id, region, n) VALUES (1100, 'eu', 11);
EXECUTE by_n(11);
EXECUTE by_any('{11,12}');
BEGIN;
DECLARE plain CURSOR FOR SELECT n FROM items WHERE n >= 11 ORDER BY n;
DECLARE back SCROLL CURSOR FOR SELECT n FROM items WHERE n <= 11 ORDER BY n;
DECLARE held CURSOR WITH HOLD FOR SELECT n FROM items WHERE n = 11;
FETCH 2 FROM plain;
FETCH 2 FROM back;
INSERT INTO items (id, region, n) VALUES (1101, 'eu', 11);
DELETE FROM items WHERE n = 12;
FETCH 3 FROM plain;
FETCH BACKWARD 1 FROM back;
MOVE FORWARD ALL IN back;
FETCH BACKWARD 2 FROM back;
COMMIT;
CALL index_table.drain('items_by_n');
SELECT queued('items_by_n'), queued('items_by_amount_name'), queued('items_named'), queued('items_noted'), queued('items_tagged');
SELECT * FROM differences();
FETCH ALL FROM held;
CLOSE held;
EXECUTE by_n(11);
EXECUTE by_n(12);
EXECUTE by_any('{11,12}');
DEALLOCATE ALL;
RESET plan_cache_mode;
RESET index_table.enable_scan;
SELECT * FROM compare();
-- What EXPLAIN says of it, and who takes what is drained.
CREATE FUNCTION queued_rows(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text := 'none';
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line ~ 'Queued Rows: ' THEN found := trim(line); END IF;
    END LOOP;
    RETURN found;
END $$;
SELECT queued_rows('SELECT id FROM items WHERE n = 3');
UPDATE items SET n = 3 WHERE id IN (41, 42, 43);
INSERT INTO items (id, region, n) VALUES (1200, 'eu', 24);
SELECT queued_rows('SELECT id FROM items WHERE n = 3'), queued_rows('SELECT id FROM items WHERE n = 1000');
SET index_table.read_consistency = eventual;
SELECT queued_rows('SELECT id FROM items WHERE n = 3');
SET index_table.enable_scan = force;
SELECT count(*) FROM items WHERE id IN (41, 42, 43) AND n = 3;
SELECT id FROM items WHERE id > 1100 AND n = 24;
CALL index_table.drain();
SELECT id FROM items WHERE id > 1100 AND n = 24;
RESET index_table.enable_scan;
RESET index_table.read_consistency;
-- An expression is evaluated of rows that are queued and not of others; NULL is a key, too.
SELECT * FROM differences();
DROP TABLE items;
DELETE FROM recomputation;
DELETE FROM queries;
SELECT relname FROM pg_class WHERE relnamespace = 'queue'::regnamespace AND relname LIKE '%queue%';

-- --- Keys of many types: what is equal to a key has its hash, whatever its type --------------------

-- Not every PostgreSQL has ICU.
DO $$ BEGIN CREATE COLLATION fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false); EXCEPTION WHEN feature_not_supported THEN NULL; END $$;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE kinds (number int GENERATED ALWAYS AS IDENTITY, type text, stored text[], conditions text[]);
INSERT INTO kinds (type, stored, conditions) VALUES
    ('int2', '{1,2,-3}', ARRAY['v = 1', 'v = 1::int4', 'v = 2::int8', 'v = 100000', $$v = ANY ('{1,2}'::int8[])$$, 'v < 2::int8', 'v IS NULL']),
    ('int8', '{1,2,5000000000}', ARRAY['v = 1::int2', 'v IN (1, 2)', $$v = ANY ('{1,NULL}'::int4[])$$, 'v = 5000000000']),
    ('float4', '{1,0.1,-0,0,NaN}', ARRAY['v = 0.1::float4', 'v = 0.1::float8', 'v = 0', $$v = '-0'$$, $$v = 'NaN'::float8$$]),
    ('float8', '{1,0.1,-0,0,0.10000000149011612}', ARRAY['v = 0.1', 'v = 0.1::float4', $$v = '-0'$$]),
    ('numeric', '{1,1.0,1.00,NaN,0,-0.00}', ARRAY['v = 1', 'v = 1.000', 'v = 0', $$v = 'NaN'$$, 'v > 0.5']),
    ('text COLLATE "C"', '{a,A,ab}', ARRAY[$$v = 'a'$$, $$v LIKE 'a%'$$, $$v IN ('a', 'b')$$, $$v >= 'a'$$]),
    ('text COLLATE queue.fold', '{a,A,aB}', ARRAY[$$v = 'a'$$, $$v = 'A'$$, $$v IN ('AB', 'b')$$]),
    ('char(4)', '{a,ab}', ARRAY[$$v = 'a'$$, $$v = 'ab  '::bpchar$$]),
    ('name', '{a,b}', ARRAY[$$v = 'a'$$, $$v = 'a'::text$$]),
    ('date', '{2024-01-01,infinity}', ARRAY[$$v = '2024-01-01'$$, $$v = '2024-01-01'::timestamp$$, $$v < '2024-01-02'::timestamptz$$]),
    ('timestamptz', '{2024-01-01,2024-01-02}', ARRAY[$$v = '2024-01-01'$$, $$v = '2024-01-01'::date$$, $$v = '2024-01-02'::timestamp$$]),
    ('interval', '{1 day,24 hours,1 month}', ARRAY[$$v = '1 day'$$, $$v = '30 days'$$]),
    ('money', '{1,2}', ARRAY[$$v = '1'::money$$]),
    ('varbit', '{101,10}', ARRAY[$$v = B'101'$$]),
    ('bool', '{t,f}', ARRAY['v', 'NOT v']),
    ('jsonb', '{1,1.0,[1]}', ARRAY[$$v = '1'$$, $$v = '[1.0]'$$]),
    ('queue.pair', '{"(1,a)","(2,)"}', ARRAY[$$v = ROW(1, 'a')::queue.pair$$, $$v = ROW(2, NULL)::queue.pair$$]),
    ('int4range', '{"[1,3)",empty}', ARRAY[$$v = '[1,2]'$$]),
    ('int[]', '{"{1,2}","{}"}', ARRAY['1 = ANY (v)', $$v @> '{1,2}'$$]);
DELETE FROM kinds WHERE type LIKE '%fold' AND NOT EXISTS (SELECT FROM pg_collation WHERE collname = 'fold' AND collnamespace = 'queue'::regnamespace);
-- Each condition after changes that are queued: problems only.
CREATE FUNCTION try_kinds() RETURNS TABLE (type text, problem text, queried boolean) LANGUAGE plpgsql AS $$
DECLARE k kinds; n bigint := 0;
BEGIN
    FOR k IN SELECT * FROM kinds AS t ORDER BY t.number LOOP
        EXECUTE format('CREATE TABLE values_of (id int PRIMARY KEY, v %s) PARTITION BY HASH (id)', k.type);
        CREATE TABLE values_of_0 PARTITION OF values_of FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE values_of_1 PARTITION OF values_of FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        EXECUTE format('INSERT INTO values_of SELECT i, ($1)[1 + i %% (cardinality($1) + 1)]::%s FROM generate_series(1, 40) AS i', split_part(k.type, ' COLLATE', 1)) USING k.stored;
        PERFORM index_table.create('values_of', 'v', name => 'by_v', maintenance => 'deferred');
        DELETE FROM queries;
        INSERT INTO queries (is_ordered, query) SELECT false, 'SELECT id, v FROM values_of WHERE ' || c FROM unnest(k.conditions) AS c;
        -- (those that are equal may differ in bytes, and come in any order)
        INSERT INTO queries (is_ordered, query) SELECT false, 'SELECT count(*), count(*) FILTER (WHERE v < before) FROM (SELECT v, lag(v) OVER () AS before FROM (SELECT v FROM values_of ORDER BY v LIMIT 20) AS o) AS w'
         WHERE k.type <> 'int[]';
        EXECUTE format('UPDATE values_of SET v = ($1)[1 + (id + 1) %% (cardinality($1) + 1)]::%s WHERE id %% 3 > 0', split_part(k.type, ' COLLATE', 1)) USING k.stored;
        RETURN QUERY SELECT k.type, c.problem || ': ' || c.query, NULL::boolean FROM compare() AS c;
        DELETE FROM values_of WHERE id % 5 = 0;
        EXECUTE format('INSERT INTO values_of SELECT i, ($1)[1 + i %% (cardinality($1) + 1)]::%s FROM generate_series(41, 60) AS i', split_part(k.type, ' COLLATE', 1)) USING k.stored;
        RETURN QUERY SELECT k.type, c.problem || ': ' || c.query, NULL::boolean FROM compare() AS c;
        n := n + (SELECT count(*) FROM queries);
        DROP TABLE values_of;
    END LOOP;
    RETURN QUERY SELECT NULL, NULL, n > 50;
END $$;
SELECT * FROM try_kinds();
DELETE FROM queries;

-- --- Changes that come in other ways ---------------------------------------------------------------

CREATE TABLE events (id int PRIMARY KEY, k int, s text COLLATE "C") PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (100);
CREATE TABLE events_2 (s text COLLATE "C", k int, id int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE events_2a PARTITION OF events_2 FOR VALUES FROM (100) TO (150);
CREATE TABLE events_2b PARTITION OF events_2 DEFAULT;
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES FROM (100) TO (200);
CREATE TABLE events_d PARTITION OF events DEFAULT;
INSERT INTO events SELECT i, i % 10, 's' || i % 7 FROM generate_series(1, 250) AS i;
SELECT index_table.create('events', 'k', maintenance => 'deferred');
SELECT index_table.create('events', 's', 'denormalized', predicate => 'k <> 4', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('events_by_k', 'k, partition_id, id', 'events b', DEFAULT), ('events_by_s', 's, partition_id, id, k', 'events b', 'k <> 4');
INSERT INTO queries (is_ordered, query) VALUES
    (false, 'SELECT id, s, tableoid::regclass FROM events WHERE k = 3'), (false, 'SELECT id FROM events WHERE k > 7'),
    (true, 'SELECT k FROM events ORDER BY k LIMIT 50'), (true, 'SELECT k FROM events ORDER BY k DESC LIMIT 50'),
    (false, $$ SELECT s, k, id FROM events WHERE s = 's3' AND k <> 4 $$), (false, $$ SELECT id FROM events WHERE s >= 's5' AND k <> 4 $$);
SELECT * FROM compare();
INSERT INTO events SELECT i, 3, 's3' FROM generate_series(95, 105) AS i ON CONFLICT (id) DO UPDATE SET k = events.k + 1, s = EXCLUDED.s;
INSERT INTO events SELECT i, 3, 's3' FROM generate_series(245, 255) AS i ON CONFLICT DO NOTHING;
SELECT * FROM compare();
MERGE INTO events USING (SELECT generate_series(240, 260) AS i) AS v ON events.id = v.i
 WHEN MATCHED AND v.i % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 3, id = events.id - 220 + 1000 WHEN NOT MATCHED THEN INSERT VALUES (v.i, 3, 's3');
SELECT * FROM compare();
\set VERBOSITY sqlstate
COPY events (id, k, s) FROM stdin;
5000	3	s3
150	3	s3
\.
\set VERBOSITY default
COPY events (id, k, s) FROM stdin;
5000	3	s3
5001	4	s3
\.
COPY events_1 (id, k, s) FROM stdin;
0	3	s3
\.
SELECT * FROM compare();
WITH u AS (UPDATE events SET k = 3 WHERE id < 10 RETURNING id), i AS (INSERT INTO events SELECT id + 6000, 3, 's3' FROM u RETURNING id),
     d AS (DELETE FROM events WHERE id BETWEEN 11 AND 20 RETURNING id)
SELECT (SELECT count(*) FROM u) AS updated, (SELECT count(*) FROM i) AS inserted, (SELECT count(*) FROM d) AS deleted;
SELECT * FROM compare();
-- BEFORE triggers that change rows, and suppress changes.
CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RETURN CASE WHEN OLD.id % 2 = 1 THEN OLD END;
    END IF;
    NEW.k := NEW.k + 2;
    RETURN CASE WHEN NEW.id % 3 > 0 THEN NEW END;
END $$;
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION before_row();
UPDATE events SET k = 1 WHERE id < 40;
DELETE FROM events WHERE id BETWEEN 30 AND 50;
UPDATE events SET id = id + 7000 WHERE id BETWEEN 51 AND 75;
INSERT INTO events SELECT i, i % 10, 's3' FROM generate_series(8000, 8030) AS i;
INSERT INTO events SELECT i, i % 10, 's3' FROM generate_series(8020, 8040) AS i ON CONFLICT (id) DO UPDATE SET k = EXCLUDED.k, s = 's5';
SELECT * FROM compare();
DROP TRIGGER before_row ON events;
-- Rows that foreign keys change.
CREATE TABLE parents (p int PRIMARY KEY);
INSERT INTO parents SELECT generate_series(0, 20);
ALTER TABLE events ADD FOREIGN KEY (k) REFERENCES parents ON UPDATE CASCADE ON DELETE SET NULL;
UPDATE parents SET p = p + 100 WHERE p IN (3, 7);
DELETE FROM parents WHERE p IN (103, 8);
SELECT * FROM compare();
INSERT INTO parents VALUES (3);
UPDATE events SET k = 3 WHERE k IS NULL AND id < 100;
SELECT * FROM compare();
ALTER TABLE events DROP CONSTRAINT events_k_fkey;
-- As a replica, whose row triggers queue; and as neither.
SET session_replication_role = replica;
INSERT INTO events VALUES (9000, 3, 's3');
UPDATE events SET k = k + 1 WHERE id % 8 = 0;
UPDATE events SET id = id + 10000, k = 3 WHERE id % 17 = 0;
DELETE FROM events WHERE id % 13 = 0;
UPDATE events_1 SET k = 3 WHERE id % 19 = 0;
DELETE FROM events_2 WHERE id % 11 = 0;
SET session_replication_role = local;
UPDATE events SET k = k + 1 WHERE id % 9 = 0;
RESET session_replication_role;
SELECT * FROM compare();
-- Found by key.
SET index_table.enable_scan = force;
WITH c AS (UPDATE events SET s = 's5' WHERE k = 3 AND id < 10 RETURNING id) SELECT * FROM c ORDER BY id;
WITH c AS (UPDATE events SET k = 4 WHERE k = 3 AND id < 10 RETURNING id) SELECT * FROM c ORDER BY id;
WITH c AS (UPDATE events SET k = 3 WHERE k = 4 AND id < 6 RETURNING id) SELECT * FROM c ORDER BY id;
WITH c AS (DELETE FROM events WHERE k = 4 AND id < 10 RETURNING id) SELECT * FROM c ORDER BY id;
SELECT id, k FROM events WHERE k = 3 AND id < 10 ORDER BY id FOR UPDATE;
WITH c AS (UPDATE events SET k = events.k + 1 FROM (VALUES (3), (4)) AS v (k) WHERE events.k = v.k AND id < 10 RETURNING id, events.k) SELECT * FROM c ORDER BY id;
MERGE INTO events USING (VALUES (4), (5)) AS v (k) ON events.k = v.k WHEN MATCHED AND id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 3;
RESET index_table.enable_scan;
SELECT * FROM compare();
CALL index_table.drain('events_by_k');
SELECT * FROM differences();
-- Prepared transactions.
BEGIN;
UPDATE events SET k = 3 WHERE id % 2 = 0;
PREPARE TRANSACTION 'regress_queue';
CALL index_table.drain();
SELECT * FROM compare();
COMMIT PREPARED 'regress_queue';
SELECT * FROM compare();

-- --- Reading one's own table in the middle of a statement ------------------------------------------

CREATE TABLE log (number serial, what text, through text, native text);
CREATE FUNCTION look(wanted int) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE through text; native text;
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    EXECUTE 'SELECT string_agg(id::text, '' '' ORDER BY id) FROM events WHERE k = $1' INTO through USING wanted;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE 'SELECT string_agg(id::text, '' '' ORDER BY id) FROM events WHERE k = $1' INTO native USING wanted;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN ARRAY[through, native];
END $$;
CREATE FUNCTION look_on() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found text[]; i int;
BEGIN
    FOR i IN 0..6 LOOP
        found := look(i);
        INSERT INTO log (what, through, native) VALUES (concat_ws(' ', TG_NAME, TG_WHEN, TG_OP, TG_LEVEL), found[1], found[2]);
    END LOOP;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION volatile_look(k int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE found text[] := look(k);
BEGIN
    INSERT INTO log (what, through, native) VALUES ('function', found[1], found[2]);
    RETURN k + 1;
END $$;
CREATE TRIGGER a_row AFTER INSERT OR UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION look_on();
CREATE TRIGGER z_row AFTER INSERT OR UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION look_on();
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION look_on();
CREATE TRIGGER a_statement AFTER INSERT OR UPDATE OR DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION look_on();
CREATE TRIGGER z_statement AFTER INSERT OR UPDATE OR DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION look_on();
UPDATE events SET k = k + 1 WHERE k = 2 AND id < 150;
UPDATE events SET id = id + 20000, k = 2 WHERE id IN (21, 22, 23);
INSERT INTO events VALUES (24, 1, 's'), (20021, 1, 's') ON CONFLICT (id) DO UPDATE SET k = 5;
DELETE FROM events WHERE k = 2 AND id > 200;
DROP TRIGGER a_row ON events;
DROP TRIGGER z_row ON events;
DROP TRIGGER before_row ON events;
DROP TRIGGER a_statement ON events;
DROP TRIGGER z_statement ON events;
UPDATE events SET k = volatile_look(k) WHERE id BETWEEN 100 AND 120;
DELETE FROM events WHERE volatile_look(k) = 6 AND id < 130;
INSERT INTO events SELECT 30000 + i, volatile_look(i % 5) FROM generate_series(1, 10) AS i;
WITH u AS (UPDATE events SET k = 6 WHERE id < 30 RETURNING volatile_look(6)) SELECT count(*) FROM u;
SELECT what, count(*) > 0 AS looked, count(*) FILTER (WHERE through IS DISTINCT FROM native) AS differ FROM log GROUP BY what ORDER BY what COLLATE "C";
SELECT * FROM compare();
CALL index_table.drain();
SELECT * FROM differences();
DROP TABLE log;

-- --- Partitions that come and go, TRUNCATE ---------------------------------------------------------

CREATE PROCEDURE change() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events SELECT i, i % 10, 's' || i % 7 FROM generate_series(1001, 1020) AS i ON CONFLICT (id) DO UPDATE SET k = events.k + 1;
    UPDATE events SET k = k + 1, s = s || 'x' WHERE id % 9 = 0;
END $$;
CALL change();
TRUNCATE events_1;
SELECT * FROM compare();
INSERT INTO events SELECT i, i % 10, 's' || i % 7 FROM generate_series(1, 50) AS i;
BEGIN;
TRUNCATE events_2;
INSERT INTO events VALUES (120, 3, 's3');
SELECT * FROM compare();
SAVEPOINT s;
TRUNCATE events;
INSERT INTO events VALUES (121, 3, 's3');
SELECT * FROM compare();
ROLLBACK TO s;
SELECT * FROM compare();
ROLLBACK;
SELECT * FROM compare();
CALL change();
ALTER TABLE events DETACH PARTITION events_2;
SELECT * FROM compare();
UPDATE events_2 SET k = 3 WHERE id < 110;
CALL index_table.drain();
SELECT * FROM differences();
CALL change();
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES FROM (100) TO (200);
UPDATE events SET k = 3 WHERE id BETWEEN 110 AND 120;
UPDATE events_2 SET k = 9 WHERE id < 105;
SELECT * FROM compare();
ALTER TABLE events DETACH PARTITION events_1;
CREATE TABLE events_new PARTITION OF events FOR VALUES FROM (0) TO (100);
INSERT INTO events SELECT i, 3, 's3' FROM generate_series(1, 10) AS i;
SELECT * FROM compare();
DROP TABLE events_new;
SELECT * FROM compare();
ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM (0) TO (100);
SELECT * FROM compare();
SELECT * FROM compare();
CALL index_table.drain();
SELECT * FROM differences();
TRUNCATE events_1, events_2;
INSERT INTO events SELECT i, i % 10, 's' || i % 7 FROM generate_series(1, 199) AS i;
SELECT * FROM compare();

-- --- Switching, verify(), repair(), rebuild(), create_concurrently() ----------------------------------

SELECT index_table.set_maintenance('events_by_k', 'immediate');
SELECT index_table, count(*) > 0 AS differs FROM differences() GROUP BY index_table;
CALL change();
SELECT * FROM compare();
SELECT index_table, count(*) > 0 AS differs FROM differences() GROUP BY index_table;
SELECT index_table.set_maintenance('events_by_k', 'deferred');
CALL change();
BEGIN;
SELECT index_table.set_maintenance('events_by_k', 'immediate');
CALL change();
SELECT * FROM compare();
SELECT index_table.set_maintenance('events_by_k', 'deferred');
CALL change();
SELECT * FROM compare();
ROLLBACK;
SELECT * FROM compare();
BEGIN;
CALL change();
SELECT index_table.set_maintenance('events_by_k', 'immediate');
SAVEPOINT s;
SELECT index_table.set_maintenance('events_by_s', 'immediate');
SELECT * FROM differences();
ROLLBACK TO s;
SELECT * FROM compare();
COMMIT;
SELECT * FROM compare();
SELECT index_table.set_maintenance('events_by_s', 'immediate');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'events'::regclass AND NOT tgisinternal ORDER BY tgname;
SELECT relname FROM pg_class WHERE relnamespace = 'queue'::regnamespace AND relname LIKE '%queue%';
SELECT * FROM differences();
SELECT index_table.set_maintenance('events_by_s', 'deferred');
SELECT index_table.set_maintenance('events_by_k', 'deferred');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'events'::regclass AND NOT tgisinternal ORDER BY tgname;
-- What is queued is no problem; what is wrong and not queued is.
CALL change();
SELECT * FROM index_table.verify('events_by_k');
SELECT * FROM index_table.verify('events_by_s');
SET session_replication_role = replica;
DELETE FROM events_by_k WHERE id IN (5, 1001);
UPDATE events_by_s SET s = 'wrong' WHERE id = 5;
RESET session_replication_role;
SELECT * FROM index_table.verify('events_by_k');
SELECT * FROM index_table.verify('events_by_s');
SELECT index_table.repair('events_by_k') > 0 AS repaired, index_table.repair('events_by_s') > 0 AS repaired;
SELECT queued('events_by_k'), queued('events_by_s');
SELECT * FROM differences();
CALL change();
CALL index_table.rebuild('events_by_k');
SELECT * FROM compare();
CALL index_table.create_concurrently('events', 'k, s', name => 'events_concurrent', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('events_concurrent', 'k, s, partition_id, id', 'events b', DEFAULT);
CALL change();
SELECT queued('events_concurrent') > 0 AS queued;
SELECT * FROM compare();
CALL index_table.drain();
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'events_concurrent'::regclass;
CALL change();
DROP TABLE events_concurrent;
SELECT * FROM compare();
-- A key that fails is set aside, others are not held up; nothing is lost by trying to switch.
CREATE TABLE failing (k int);
CREATE FUNCTION checked(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM queue.failing AS f WHERE f.k = $1) THEN
        RAISE 'failed on purpose' USING ERRCODE = 'P0042';
    END IF;
    RETURN k;
END $$;
SELECT index_table.create('events', 'checked(k)', name => 'events_checked', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('events_checked', 'k, partition_id, id', 'events b', DEFAULT);
UPDATE events SET k = 42 WHERE id = 7;
UPDATE events SET k = 43 WHERE id = 8;
INSERT INTO failing VALUES (42);
CALL index_table.drain('events_checked');
SELECT changes, error, tries, retry_at > now() AS later, identity_1 FROM events_checked_queue;
SELECT problem, count(*) FROM differences() GROUP BY problem ORDER BY problem;
CALL index_table.drain('events_checked');
SELECT tries FROM events_checked_queue;
\set SHOW_CONTEXT never
SELECT index_table.set_maintenance('events_checked', 'immediate');
\echo :SQLSTATE
\set SHOW_CONTEXT errors
SELECT maintenance FROM index_table.index_tables WHERE index_table = 'events_checked'::regclass;
SELECT index_table.retry('events_checked'), index_table.retry('events_checked');
CALL index_table.drain('events_checked');
SELECT changes, error, tries, identity_1 FROM events_checked_queue;
TRUNCATE failing;
CALL index_table.drain('events_checked');
SELECT count(*) FROM events_checked_queue;
SELECT index_table.retry('events_checked');
CALL index_table.drain('events_checked');
SELECT count(*) FROM events_checked_queue;
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'events_checked'::regclass;
SELECT index_table.drop('events_checked');
SELECT index_table.retry('events_checked');
\echo :SQLSTATE

-- --- ALTER TABLE --------------------------------------------------------------------------------------

CALL change();
ALTER TABLE events RENAME TO happenings;
ALTER TABLE happenings RENAME k TO kk;
ALTER TABLE happenings RENAME id TO ident;
SET index_table.enable_scan = force;
SELECT count(*) = (SELECT count(*) FROM happenings WHERE kk + 0 = 3) AS same FROM happenings WHERE kk = 3;
RESET index_table.enable_scan;
ALTER TABLE happenings RENAME TO events;
ALTER TABLE events RENAME kk TO k;
ALTER TABLE events RENAME ident TO id;
ALTER TABLE events_by_k RENAME TO events_k;
CALL change();
SELECT * FROM compare();
ALTER TABLE events ALTER k TYPE bigint;
SELECT * FROM compare();
CALL change();
SELECT * FROM compare();
ALTER TABLE events ADD COLUMN d int DEFAULT 7;
UPDATE events SET d = 8, k = k + 1 WHERE id < 20;
SELECT * FROM compare();
ALTER TABLE events DROP COLUMN d;
CALL change();
SELECT * FROM compare();
-- A column by which rows are found, too.
CREATE TABLE pairs (id int, part int, k int, PRIMARY KEY (id, part)) PARTITION BY HASH (part);
CREATE TABLE pairs_0 PARTITION OF pairs FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO pairs SELECT i, i % 3, i % 10 FROM generate_series(1, 50) AS i;
SELECT index_table.create('pairs', 'k', maintenance => 'deferred');
UPDATE pairs SET k = k + 1 WHERE id % 3 = 0;
INSERT INTO queries (is_ordered, query) VALUES (false, 'SELECT id, part FROM pairs WHERE k = 3');
SELECT * FROM compare();
ALTER TABLE pairs ALTER id TYPE bigint;
SELECT * FROM compare();
UPDATE pairs SET k = k + 1 WHERE id % 4 = 0;
SELECT * FROM compare();
ALTER TABLE pairs ALTER id TYPE text COLLATE "C";
SELECT attname, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'pairs_by_k_queue'::regclass AND attname ~ 'identity' ORDER BY attnum;
UPDATE pairs SET k = k + 1, id = id || 'x' WHERE id LIKE '1%';
SELECT * FROM compare();
CALL index_table.drain();
INSERT INTO recomputation VALUES ('pairs_by_k', 'k, partition_id, id, part', 'pairs b', DEFAULT);
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'pairs_by_k'::regclass;
DELETE FROM queries WHERE query LIKE '%pairs%';
DROP TABLE pairs;
CREATE ROLE regress_queue_owner;
GRANT USAGE, CREATE ON SCHEMA queue TO regress_queue_owner;
CALL change();
ALTER TABLE events OWNER TO regress_queue_owner;
SELECT relname, relowner::regrole FROM pg_class WHERE relnamespace = 'queue'::regnamespace AND relname LIKE 'events\_%queue%' ORDER BY relname COLLATE "C";
CALL change();
SELECT * FROM compare();
CALL index_table.drain();
SELECT * FROM differences();
-- Without its primary key queries do without the index table; it stays right.
ALTER TABLE events DROP CONSTRAINT events_pkey;
INSERT INTO events (id, k, s) VALUES (1, 3, 's3'), (1, 4, 's5');
UPDATE events SET k = 5 WHERE id = 1;
CALL index_table.drain();
SELECT * FROM differences();
DELETE FROM events WHERE id = 1;
ALTER TABLE events ADD PRIMARY KEY (id);
UPDATE events SET k = k + 1 WHERE id < 20;
SELECT * FROM compare();
CALL index_table.drain();
SELECT * FROM differences();

-- --- Who may, and what may not be done to a queue -----------------------------------------------------

UPDATE events SET k = k + 1 WHERE id < 20;
DROP TABLE events_by_k_queue;
\echo :SQLSTATE
DROP TABLE events_by_k_queue_1;
\echo :SQLSTATE
INSERT INTO events_by_k_queue SELECT * FROM events_by_k_queue;
\echo :SQLSTATE
\set VERBOSITY sqlstate
DELETE FROM events_by_k_queue;
UPDATE events_by_k_queue_1 SET changes = 0;
TRUNCATE events_by_k_queue_2;
TRUNCATE events_by_k_queue;
ALTER TABLE events_by_k_queue ADD COLUMN x int;
ALTER TABLE events_by_k_queue DETACH PARTITION events_by_k_queue_1;
ALTER TABLE events_by_k_queue_1 DROP COLUMN tries;
CREATE TABLE events_by_k_queue_3 PARTITION OF events_by_k_queue FOR VALUES IN (3);
\set VERBOSITY default
DROP TABLE IF EXISTS events_by_k_queue_3;
SELECT * FROM compare();
CREATE ROLE regress_queue_reader;
GRANT USAGE ON SCHEMA queue TO regress_queue_reader;
GRANT SELECT (id, k) ON events TO regress_queue_reader;
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON events USING (id % 2 = 0);
GRANT SELECT ON queries TO regress_queue_reader;
DELETE FROM queries;
INSERT INTO queries (is_ordered, query) VALUES (false, 'SELECT id FROM events WHERE k = 3'), (true, 'SELECT k FROM events ORDER BY k LIMIT 20');
SET ROLE regress_queue_reader;
SELECT * FROM compare();
SELECT * FROM events_by_k_queue;
\echo :SQLSTATE
CALL index_table.drain('events_k');
\echo :SQLSTATE
CALL index_table.drain();
SELECT index_table.retry('events_k');
\echo :SQLSTATE
RESET ROLE;
SELECT queued('events_by_k') > 0 AS queued;

-- --- What goes with what ----------------------------------------------------------------------------

ALTER TABLE events DROP COLUMN s;
SELECT relname FROM pg_class WHERE relnamespace = 'queue'::regnamespace AND relname LIKE 'events\_%queue%' ORDER BY relname COLLATE "C";
UPDATE events SET k = k + 1 WHERE id < 30;
SELECT * FROM compare();
CALL index_table.drain();
DELETE FROM recomputation WHERE entry LIKE 's,%';
SELECT * FROM differences();
-- A table without partitions, that is not logged, and whose identity has other values that are equal.
CREATE UNLOGGED TABLE single (id numeric PRIMARY KEY, k int);
INSERT INTO single SELECT i, i % 10 FROM generate_series(1, 50) AS i;
SELECT index_table.create('single', 'k', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('single_by_k', 'k, partition_id, id', 'single b', DEFAULT);
SELECT relname, relpersistence FROM pg_class WHERE relname LIKE 'single%queue\__' ORDER BY relname COLLATE "C";
UPDATE single SET id = id + 0.00 WHERE id % 3 = 0;
UPDATE single SET k = k + 1 WHERE id % 2 = 0;
DELETE FROM single WHERE id = 5.0;
INSERT INTO single VALUES (5.000, 5);
SELECT * FROM index_table.verify('single_by_k');
CALL index_table.drain('single_by_k');
SELECT * FROM differences();
DELETE FROM recomputation;
UPDATE single SET k = k + 1;
-- A partition for what was in the default one: a row by the same columns is elsewhere now.
CREATE TABLE days (id int, day int, k int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM (0) TO (2);
CREATE TABLE days_d PARTITION OF days DEFAULT;
INSERT INTO days SELECT i, 3, i % 3 FROM generate_series(1, 10) AS i;
SELECT index_table.create('days', 'k', maintenance => 'deferred');
DELETE FROM queries;
INSERT INTO queries (is_ordered, query) VALUES (false, 'SELECT id, day FROM days WHERE k = 2');
UPDATE days SET day = 9;
CREATE TABLE days_3 PARTITION OF days FOR VALUES FROM (3) TO (4);
UPDATE days SET day = 3;
SELECT * FROM compare();
CALL index_table.drain('days_by_k');
SELECT * FROM compare();
SELECT problem, partition FROM index_table.verify('days_by_k');
INSERT INTO recomputation VALUES ('days_by_k', 'k, partition_id, id, day', 'days b', DEFAULT);
SELECT * FROM differences();
DELETE FROM recomputation;
DROP TABLE days;
-- MERGE that inserts a row before it moves others: PostgreSQL may give triggers the wrong NEW TABLE.
CREATE TABLE merged (id int, day int, k int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE merged_1 PARTITION OF merged FOR VALUES FROM (0) TO (10);
CREATE TABLE merged_2 PARTITION OF merged FOR VALUES FROM (10) TO (20);
INSERT INTO merged SELECT i, i, 1 FROM generate_series(1, 6) AS i;
SELECT index_table.create('merged', 'k', maintenance => 'deferred');
SET enable_hashjoin = off;
SET enable_mergejoin = off;
MERGE INTO merged USING (VALUES (101), (2), (102), (3)) AS v (i) ON merged.id = v.i
 WHEN MATCHED THEN UPDATE SET k = 77, day = merged.day + 10 WHEN NOT MATCHED THEN INSERT VALUES (v.i, 5, 1);
RESET enable_hashjoin;
RESET enable_mergejoin;
DELETE FROM queries;
INSERT INTO queries (is_ordered, query) VALUES (false, 'SELECT id, day FROM merged WHERE k = 77');
SELECT * FROM compare();
CALL index_table.drain('merged_by_k');
INSERT INTO recomputation VALUES ('merged_by_k', 'k, partition_id, id, day', 'merged b', DEFAULT);
SELECT * FROM differences();
DELETE FROM recomputation;
DROP TABLE merged;
-- A superuser moves the index table of somebody who has no rights in the schema, with its queue.
CREATE TABLE notes (id text PRIMARY KEY, v text, tags text[]) PARTITION BY HASH (id);
CREATE TABLE notes_1 PARTITION OF notes FOR VALUES WITH (MODULUS 1, REMAINDER 0);
ALTER TABLE notes OWNER TO regress_queue_owner;
INSERT INTO notes SELECT i, 'v' || i % 50 FROM generate_series(1, 2000) AS i;
SELECT index_table.create('notes', 'v', maintenance => 'deferred');
CREATE SCHEMA queue_too;
ALTER TABLE notes_by_v SET SCHEMA queue_too;
SELECT count(*) FROM pg_class WHERE relnamespace = 'queue_too'::regnamespace AND relkind IN ('r', 'p');
ALTER TABLE queue_too.notes_by_v SET SCHEMA queue;
DROP SCHEMA queue_too;
-- What is done to a queue past its guard ends in an error.
UPDATE notes SET v = 'v7' WHERE id = '1';
SET session_replication_role = replica;
SET index_table.enable_scan = force;
UPDATE notes_by_v_queue SET identity_1 = array_fill(NULL::text, ARRAY[cardinality(identity_1)]);
SELECT count(*) FROM notes WHERE v = 'v7';
UPDATE notes_by_v_queue SET identity_1 = array_fill('1'::text, ARRAY[cardinality(identity_1)], ARRAY[2]);
SELECT count(*) FROM notes WHERE v = 'v7';
UPDATE notes_by_v_queue SET identity_1 = array_fill('1'::text, ARRAY[cardinality(identity_1)]);
SELECT count(*) FROM notes WHERE v = 'v7';
RESET session_replication_role;
-- Rows of many keys.
SELECT index_table.create('notes', 'unnest(tags)', maintenance => 'deferred', name => 'notes_by_tag');
UPDATE notes SET tags = (SELECT array_agg('t' || i % 5000) FROM generate_series(1, 10000) AS i) WHERE id = '1';
UPDATE notes SET tags = (SELECT array_agg('t' || i) FROM generate_series(1, 5000, 3) AS i) || tags[1:10] WHERE id = '1';
CALL index_table.drain();
SELECT count(*) FROM notes WHERE tags @> ARRAY['t4'] OR tags @> ARRAY['t4996'];
RESET index_table.enable_scan;
INSERT INTO recomputation VALUES ('notes_by_v', 'b.v, p.partition_id, b.id', 'notes AS b', DEFAULT);
SELECT * FROM differences();
DELETE FROM recomputation;
(SELECT unnest, id FROM notes_by_tag EXCEPT ALL SELECT DISTINCT t, id FROM notes, unnest(tags) AS t)
UNION ALL (SELECT DISTINCT t, id FROM notes, unnest(tags) AS t EXCEPT ALL SELECT unnest, id FROM notes_by_tag);
DROP TABLE notes;
DROP TABLE events;
DROP TABLE single;
SELECT relname FROM pg_class WHERE relnamespace = 'queue'::regnamespace AND relname LIKE '%queue%';
SELECT count(*) FROM index_table.emptied;
DROP OWNED BY regress_queue_owner, regress_queue_reader CASCADE;
DROP ROLE regress_queue_owner, regress_queue_reader;
DROP SCHEMA queue CASCADE;
