-- Deferred maintenance of columns that partitions generate, of keys that cannot be hashed, and of domains.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA queue_columns;
SET search_path = queue_columns;
\pset footer off

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- The rows of a query, the same with index tables, in order, and without.
CREATE FUNCTION found(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE sorted text := format('SELECT array_agg(r::text ORDER BY r::text COLLATE "C") FROM (%s) AS r', query);
        line text; is_used boolean := false; through text[]; native text[];
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        is_used := is_used OR line ~ 'Index Table (Only )?Scan';
    END LOOP;
    EXECUTE sorted INTO through;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE sorted INTO native;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN CASE WHEN NOT is_used THEN 'no index table is used'
                WHEN through IS DISTINCT FROM native THEN format('%s is not %s', through::text, native::text)
                ELSE array_to_string(native, ' ') END;
END $$;

-- --- Generated columns ------------------------------------------------------------------------------

-- Partitions that are laid out as the table, otherwise, and otherwise with a trigger; one that is partitioned.
CREATE TABLE g (id int, a int, k int GENERATED ALWAYS AS (a + 1) STORED, ks int[] GENERATED ALWAYS AS (ARRAY[a, a + 1]) STORED,
                s text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE g_0 PARTITION OF g FOR VALUES FROM (0) TO (1000);
CREATE TABLE g_1 (s text, ks int[] GENERATED ALWAYS AS (ARRAY[a, a + 1]) STORED, gone int, k int GENERATED ALWAYS AS (a + 1) STORED, a int, id int NOT NULL);
ALTER TABLE g_1 DROP COLUMN gone;
ALTER TABLE g ATTACH PARTITION g_1 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE g_2 (k int GENERATED ALWAYS AS (a + 1) STORED, a int, s text, id int NOT NULL, ks int[] GENERATED ALWAYS AS (ARRAY[a, a + 1]) STORED);
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a + 100; RETURN NEW; END $$;
CREATE TRIGGER change BEFORE INSERT ON g_2 FOR EACH ROW EXECUTE FUNCTION change();
ALTER TABLE g ATTACH PARTITION g_2 FOR VALUES FROM (2000) TO (3000);
CREATE TABLE g_3 (a int, ks int[] GENERATED ALWAYS AS (ARRAY[a, a + 1]) STORED, s text, id int NOT NULL, k int GENERATED ALWAYS AS (a + 1) STORED)
    PARTITION BY RANGE (id);
CREATE TABLE g_3_0 (k int GENERATED ALWAYS AS (a + 1) STORED, id int NOT NULL, ks int[] GENERATED ALWAYS AS (ARRAY[a, a + 1]) STORED, a int, s text);
ALTER TABLE g_3 ATTACH PARTITION g_3_0 FOR VALUES FROM (3000) TO (3500);
CREATE TABLE g_3_1 PARTITION OF g_3 FOR VALUES FROM (3500) TO (4000);
ALTER TABLE g ATTACH PARTITION g_3 FOR VALUES FROM (3000) TO (4000);
SELECT index_table.create('g', 'ks', maintenance => 'deferred');
SELECT index_table.create('g', 'k', maintenance => 'deferred');
SELECT index_table.create('g', '(k % 10)', name => 'g_by_digit', maintenance => 'deferred');
SELECT index_table.create('g', 's', name => 'g_some', predicate => 'k > 500', maintenance => 'deferred');
INSERT INTO recomputation VALUES
    ('g_by_ks', 'e.k, p.partition_id, b.id', 'g AS b CROSS JOIN LATERAL (SELECT DISTINCT unnest(b.ks) AS k) AS e', DEFAULT),
    ('g_by_k', 'b.k, p.partition_id, b.id', 'g AS b', DEFAULT),
    ('g_by_digit', 'b.k % 10, p.partition_id, b.id', 'g AS b', DEFAULT),
    ('g_some', 'b.s, p.partition_id, b.id', 'g AS b', 'b.k > 500');
CREATE FUNCTION look() RETURNS TABLE (query text, rows text) LANGUAGE sql AS $$
    SELECT q, found(q) FROM unnest(ARRAY['SELECT id, k FROM g WHERE k = 11', 'SELECT id, ks FROM g WHERE ks @> ARRAY[11]',
                                         'SELECT id, k FROM g WHERE k % 10 = 1', 'SELECT id, s FROM g WHERE s = ''x'' AND k > 500']) AS q
$$;
INSERT INTO g (id, a, s) VALUES (1, 10, 'x'), (1001, 10, 'y'), (1002, 1000, 'x'), (2001, -90, 'y'), (2002, 900, 'x'), (3001, 10, 'x'), (3501, 10, 'y'), (3002, 500, 'x');
SELECT * FROM look();
COPY g (id, a, s) FROM STDIN;
2	10	x
1003	10	y
1004	600	x
2003	-90	y
3003	10	x
3502	600	x
\.
INSERT INTO g (id, a, s) VALUES (1005, 10, 'x'), (3004, 610, 'x'), (1001, 0, 'x'), (3002, 0, 'x') ON CONFLICT (id) DO UPDATE SET a = 700;
INSERT INTO g (id, a, s) VALUES (1006, 10, 'x'), (1001, 10, 'x') ON CONFLICT DO NOTHING;
MERGE INTO g USING (VALUES (1007, 10), (3005, 620), (1002, 30)) AS v (id, a) ON g.id = v.id
    WHEN MATCHED THEN UPDATE SET a = v.a WHEN NOT MATCHED THEN INSERT (id, a, s) VALUES (v.id, v.a, 'x');
INSERT INTO g_3 (id, a, s) VALUES (3006, 10, 'x'), (3503, 630, 'x');
INSERT INTO g_1 (id, a, s) VALUES (1008, 10, 'x');
SELECT * FROM look();
CALL index_table.drain();
SELECT * FROM differences();
SELECT * FROM look();
-- Rows that move, with what is generated from, and without.
UPDATE g SET id = id + 1500, a = a + 1 WHERE id IN (1001, 1003, 1005);
UPDATE g SET id = id + 2900 WHERE id IN (2, 1006);
UPDATE g SET id = id + 1099 WHERE id = 1;
UPDATE g SET s = 'z' WHERE id IN (1007, 3005);
DELETE FROM g WHERE id IN (1008, 3001);
SELECT * FROM look();
CALL index_table.drain();
SELECT * FROM differences();
DROP TABLE g;
DELETE FROM recomputation;

-- What is generated depends on the partition: of rows that move it is made anew. It is part of the identity.
CREATE TABLE h_0 (a int NOT NULL, id int NOT NULL);
ALTER TABLE h_0 ADD COLUMN k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'h_0'::regclass THEN a ELSE -a END) STORED, ADD COLUMN s text;
CREATE TABLE h (id int, a int NOT NULL, s text, k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'h_0'::regclass THEN a ELSE -a END) STORED,
                PRIMARY KEY (id, k)) PARTITION BY RANGE (id);
CREATE TABLE h_1 (s text, k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'h_0'::regclass THEN a ELSE -a END) STORED, a int NOT NULL, id int NOT NULL);
ALTER TABLE h ATTACH PARTITION h_0 FOR VALUES FROM (0) TO (1000);
ALTER TABLE h ATTACH PARTITION h_1 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE h_2 PARTITION OF h FOR VALUES FROM (2000) TO (3000);
SELECT index_table.create('h', 's', maintenance => 'deferred');
SELECT index_table.create('h', 'k', maintenance => 'deferred');
INSERT INTO recomputation VALUES ('h_by_s', 'b.s, p.partition_id, b.id, b.k', 'h AS b'), ('h_by_k', 'b.k, p.partition_id, b.id', 'h AS b');
INSERT INTO h (id, a, s) VALUES (1, 5, 'x'), (1001, 5, 'x'), (2001, 5, 'x'), (2, 5, 'y'), (1002, 5, 'y');
CREATE OR REPLACE FUNCTION look() RETURNS TABLE (query text, rows text) LANGUAGE sql AS $$
    SELECT q, found(q) FROM unnest(ARRAY['SELECT * FROM h WHERE k = 5', 'SELECT * FROM h WHERE k = -5', 'SELECT * FROM h WHERE s = ''x''']) AS q
$$;
SELECT * FROM look();
CALL index_table.drain();
SELECT * FROM differences();
-- What is stored of rows that move depends on release and plan.
UPDATE h SET id = id + 1010 WHERE id IN (1, 1001);
UPDATE h SET id = id - 990 WHERE id = 1002;
UPDATE h SET id = id + 1000 WHERE id = 2;
SELECT query, rows LIKE '%not%' AS differs FROM look();
CALL index_table.drain();
SELECT * FROM differences();
SELECT query, rows LIKE '%not%' AS differs FROM look();
DROP TABLE h;
DELETE FROM recomputation;

-- Before PostgreSQL 16 partitions may generate what the table does not. One comes while the session knows the table.
CREATE TABLE alone (id int PRIMARY KEY, a int, k int) PARTITION BY RANGE (id);
CREATE TABLE alone_0 PARTITION OF alone FOR VALUES FROM (0) TO (1000);
CREATE TABLE alone_1 PARTITION OF alone FOR VALUES FROM (1000) TO (3000) PARTITION BY RANGE (id);
CREATE TABLE alone_1_0 PARTITION OF alone_1 FOR VALUES FROM (1000) TO (2000);
SELECT index_table.create('alone', 'k', maintenance => 'deferred');
SELECT index_table.create('alone', 'a', name => 'alone_twos', predicate => 'k = 2', maintenance => 'deferred');
INSERT INTO alone VALUES (1, 1, 1), (1001, 1, 1);
CREATE TABLE alone_1_1 (k int GENERATED ALWAYS AS (a + 1) STORED, a int, id int NOT NULL);
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 160000 THEN
        ALTER TABLE alone_1_1 ALTER COLUMN k DROP EXPRESSION;
    END IF;
END $$;
ALTER TABLE alone_1 ATTACH PARTITION alone_1_1 FOR VALUES FROM (2000) TO (3000);
INSERT INTO alone VALUES (2001, 1, 7);
INSERT INTO alone_1 VALUES (2002, 1, 7);
UPDATE alone SET id = 2003 WHERE id = 1;
UPDATE alone SET id = id + 1003 WHERE id = 1001;
UPDATE alone SET id = id - 900 WHERE id = 2001;
CREATE FUNCTION look_alone() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT q FROM unnest(ARRAY['SELECT id FROM alone WHERE k = 1', 'SELECT id FROM alone WHERE k = 2', 'SELECT id FROM alone WHERE k = 7',
                               'SELECT id, k FROM alone WHERE a = 1 AND k = 2']) AS q WHERE found(q) LIKE '%not%'
$$;
SELECT * FROM look_alone();
CALL index_table.drain();
INSERT INTO recomputation VALUES ('alone_by_k', 'b.k, p.partition_id, b.id', 'alone AS b', DEFAULT), ('alone_twos', 'b.a, p.partition_id, b.id', 'alone AS b', 'b.k = 2');
SELECT * FROM differences();
SELECT * FROM look_alone();
DROP TABLE alone;
DELETE FROM recomputation;

-- --- Keys that contain what cannot be hashed ---------------------------------------------------------

CREATE TYPE price AS (a int, m money);
CREATE TYPE place AS (a int, b int);
CREATE TYPE span AS RANGE (SUBTYPE = money, MULTIRANGE_TYPE_NAME = spans);
CREATE DOMAIN dear AS span;
CREATE TABLE kinds (id int PRIMARY KEY, c price, r span, d dear, m spans, cs price[], w place) PARTITION BY HASH (id);
CREATE TABLE kinds_0 PARTITION OF kinds FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE kinds_1 PARTITION OF kinds FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE FUNCTION add_kinds(first int, last int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO kinds SELECT i, ROW(i, i::money)::price, span(i::money, (i + 1)::money), span(i::money, (i + 1)::money),
                             spans(span(i::money, (i + 1)::money)), ARRAY[ROW(i, 1::money), ROW(-i, 1::money)]::price[], ROW(i, i)::place
      FROM generate_series(first, last) AS i
$$;
SELECT add_kinds(1, 20);
SELECT index_table.create('kinds', key, name => 'kinds_by_' || key, maintenance => 'deferred') FROM unnest(ARRAY['c', 'r', 'd', 'm', 'cs', 'w']) AS key;
SELECT add_kinds(21, 40);
INSERT INTO kinds (id) VALUES (41);
UPDATE kinds SET c = NULL WHERE id = 3;
UPDATE kinds SET c = ROW(7, 7::money), r = span(7::money, 8::money), w = ROW(7, 7) WHERE id = 4;
DELETE FROM kinds WHERE id = 5;
CREATE OR REPLACE FUNCTION look() RETURNS TABLE (query text, rows text) LANGUAGE sql AS $$
    SELECT condition, found('SELECT id FROM kinds WHERE ' || condition) FROM unnest(ARRAY[
        'c = ROW(7, 7::money)::price', 'c = ROW(27, 27::money)', 'c IN (ROW(4, 4::money)::price, ROW(28, 28::money)::price)', 'c IS NULL AND id > 40',
        'r = span(7::money, 8::money)', 'r = span(30::money, 31::money)', 'd = span(30::money, 31::money)',
        'm = spans(span(30::money, 31::money))', 'cs @> ARRAY[ROW(-31, 1::money)::price]', 'w = ROW(7, 7)', 'w = ROW(27, 27)::place',
        'w IN (ROW(7, 7)::place, ROW(28, 28)::place)',
        -- A column of another type is not come to.
        'w = ROW(-1, 1::money)', 'w = ANY (ARRAY[ROW(-1, 1::money), ROW(-2, 1::money)])']) AS condition
$$;
SELECT * FROM look();
CALL index_table.drain();
SELECT * FROM look();
INSERT INTO recomputation VALUES
    ('kinds_by_c', 'b.c, p.partition_id, b.id', 'kinds AS b'), ('kinds_by_r', 'b.r, p.partition_id, b.id', 'kinds AS b'),
    ('kinds_by_d', 'b.d, p.partition_id, b.id', 'kinds AS b'), ('kinds_by_m', 'b.m, p.partition_id, b.id', 'kinds AS b'),
    ('kinds_by_cs', 'e.c, p.partition_id, b.id', 'kinds AS b CROSS JOIN LATERAL (SELECT DISTINCT e::price AS c FROM unnest(b.cs) AS e) AS e'),
    ('kinds_by_w', 'b.w, p.partition_id, b.id', 'kinds AS b');
SELECT * FROM differences();
-- Columns that a type gets while values of it are queued, and known to sessions.
SELECT add_kinds(51, 60);
ALTER TYPE place ADD ATTRIBUTE more int;
SELECT found('SELECT id FROM kinds WHERE w = ROW(57, 57, NULL)::place');
ALTER TYPE place ADD ATTRIBUTE m money;
INSERT INTO kinds (id, w) VALUES (61, '(61,61,,)');
SELECT found('SELECT id FROM kinds WHERE w = ''(57,57,,)''::place');
SELECT found('SELECT id FROM kinds WHERE w = ''(61,61,,)''::place');
CALL index_table.drain();
SELECT * FROM differences();
DROP TABLE kinds;
DELETE FROM recomputation;

-- --- Domains -----------------------------------------------------------------------------------------

CREATE DOMAIN number AS int;
CREATE DOMAIN numbers AS int[];
CREATE TABLE d (id number, ids numbers, k int, PRIMARY KEY (id, ids)) PARTITION BY RANGE (id);
CREATE TABLE d_0 PARTITION OF d FOR VALUES FROM (0) TO (1000);
SELECT index_table.create('d', 'k', maintenance => 'deferred');
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'd_by_k_queue'::regclass AND attname LIKE 'identity%' ORDER BY attnum;
INSERT INTO d SELECT i, ARRAY[i, 1], i % 3 FROM generate_series(1, 6) AS i;
ALTER DOMAIN number ADD CHECK (VALUE > 0);
SELECT found('SELECT * FROM d WHERE k = 1');
CALL index_table.drain();
SELECT found('SELECT * FROM d WHERE k = 1');
-- Queues of 0.1.0 have arrays of the domain, and stay what they are.
UPDATE pg_attribute SET atttypid = 'number[]'::regtype
 WHERE attname = 'identity_1' AND attrelid IN (SELECT relid FROM pg_partition_tree('d_by_k_queue'));
DELETE FROM d WHERE id = 1;
INSERT INTO d VALUES (8, '{8}', 1);
SELECT found('SELECT * FROM d WHERE k = 1');
SELECT pending FROM index_table.queue WHERE index_table = 'd_by_k'::regclass;
CALL index_table.drain();
SELECT pending FROM index_table.queue WHERE index_table = 'd_by_k'::regclass;
INSERT INTO recomputation VALUES ('d_by_k', 'b.k, p.partition_id, b.id, b.ids', 'd AS b');
SELECT * FROM differences();
DROP TABLE d;
-- MERGE that moves rows, as what loads the library in a session.
CREATE TABLE m (id int, day int, k int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE m_1 PARTITION OF m FOR VALUES FROM (0) TO (10);
CREATE TABLE m_2 PARTITION OF m FOR VALUES FROM (10) TO (20);
INSERT INTO m SELECT i, i, 1 FROM generate_series(1, 6) AS i;
SELECT index_table.create('m', 'k', maintenance => 'deferred');
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('m_by_k', 'b.k, p.partition_id, b.id, b.day', 'm AS b');
\c -
SET search_path = queue_columns;
MERGE INTO m USING (VALUES (2), (3)) AS v (i) ON m.id = v.i WHEN MATCHED THEN UPDATE SET k = 77, day = m.day + 10;
SELECT found('SELECT * FROM m WHERE k = 77');
CALL index_table.drain();
SELECT * FROM differences();
\c -
SET search_path = queue_columns;
DO $$ BEGIN
    MERGE INTO m USING (VALUES (2), (4), (5)) AS v (i) ON m.id = v.i
     WHEN MATCHED AND v.i = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 78, day = (m.day + 10) % 20
     WHEN NOT MATCHED THEN INSERT VALUES (v.i, 5, 78);
END $$;
SELECT found('SELECT * FROM m WHERE k = 78');
CALL index_table.drain();
SELECT * FROM differences();
-- One that inserts, too, may have to be repeated.
\c -
SET search_path = queue_columns;
DO $$
DECLARE statement text := 'MERGE INTO m USING (VALUES (2), (101), (4), (6), (102), (1)) AS v (i) ON m.id = v.i
     WHEN MATCHED AND v.i = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 78, day = (m.day + 10) % 20
     WHEN NOT MATCHED THEN INSERT VALUES (v.i, 5, 78)';
BEGIN
    EXECUTE statement;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    EXECUTE statement;
END $$;
SELECT found('SELECT * FROM m WHERE k = 78');
CALL index_table.drain();
SELECT * FROM differences();
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '%', TG_OP; RETURN NULL; END $$;
CREATE TRIGGER noted AFTER DELETE ON m EXECUTE FUNCTION note();
\c -
SET search_path = queue_columns;
MERGE INTO m USING (VALUES (2), (3)) AS v (i) ON m.id = v.i WHEN MATCHED THEN UPDATE SET day = 19 - m.day;
SELECT * FROM differences();
DROP TABLE m;

-- --- Owners who may not create anything in the schema any more ---------------------------------------

CREATE ROLE regress_queue_columns;
CREATE DOMAIN short AS varchar(5);
CREATE TABLE o (area int, id int, note short, k int, PRIMARY KEY (area, id, note)) PARTITION BY RANGE (area);
CREATE TABLE o_1 PARTITION OF o FOR VALUES FROM (0) TO (100);
CREATE TABLE o_2 PARTITION OF o FOR VALUES FROM (100) TO (200);
GRANT USAGE, CREATE ON SCHEMA queue_columns TO regress_queue_columns;
ALTER TABLE o OWNER TO regress_queue_columns;
ALTER TABLE o_1 OWNER TO regress_queue_columns;
ALTER TABLE o_2 OWNER TO regress_queue_columns;
SET ROLE regress_queue_columns;
INSERT INTO o SELECT i, i, 'n' || i, i % 7 FROM generate_series(1, 150) AS i;
SELECT index_table.create('o', 'k', maintenance => 'deferred');
RESET ROLE;
REVOKE CREATE ON SCHEMA queue_columns FROM regress_queue_columns;
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('o_by_k', 'b.k, p.partition_id, b.area, b.id, b.note', 'o AS b');
GRANT SELECT ON recomputation TO PUBLIC;
SET ROLE regress_queue_columns;
INSERT INTO o VALUES (151, 151, 'late', 3), (1, 1, 'more', 3);
DELETE FROM o WHERE id = 10;
ALTER TABLE o ALTER k TYPE bigint;
SELECT * FROM differences();
INSERT INTO o VALUES (152, 152, 'late', 3);
SELECT found('SELECT id, note FROM o WHERE k = 3 AND id > 145');
-- Columns of the identity, which the queue has.
ALTER TABLE o ALTER id TYPE bigint, ALTER note TYPE text COLLATE "C";
SELECT * FROM differences();
SELECT attname, format_type(atttypid, atttypmod), attcollation::regcollation FROM pg_attribute WHERE attrelid = 'o_by_k_queue_2'::regclass AND attname LIKE 'identity%';
INSERT INTO o VALUES (153, 153, 'late, and long', 3);
UPDATE o SET k = 4 WHERE id = 3;
SELECT found('SELECT id, note FROM o WHERE k = 3 AND id > 145');
CALL index_table.drain();
SELECT * FROM differences();
SELECT q.relname, q.relrewrite = q.oid AS is_local, t.relrewrite = t.oid AS is_toast_local FROM pg_class AS q JOIN pg_class AS t ON t.oid = q.reltoastrelid
 WHERE q.oid = ANY (ARRAY['o_by_k_queue_1', 'o_by_k_queue_2']::regclass[]) ORDER BY 1;
INSERT INTO o_by_k_queue VALUES (1);
\echo :SQLSTATE
-- It is undone, with what was queued.
UPDATE o SET k = 5 WHERE id = 3;
BEGIN;
ALTER TABLE o ALTER id TYPE numeric;
UPDATE o SET k = 6 WHERE id = 4;
SELECT found('SELECT id FROM o WHERE k IN (5, 6) AND id < 5');
ROLLBACK;
SELECT found('SELECT id FROM o WHERE k IN (5, 6) AND id < 5');
CALL index_table.drain();
SELECT * FROM differences();
-- Drains make the index by which they find entries, where it was dropped.
SELECT indexrelid::regclass AS identity_index FROM pg_index WHERE indrelid = 'o_by_k'::regclass AND indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = 'o_by_k'::regclass AND attname = 'area') \gset
DROP INDEX :identity_index;
UPDATE o SET k = k + 1 WHERE id BETWEEN 90 AND 110;
CALL index_table.drain();
SELECT * FROM index_table.queue WHERE refused > 0;
SELECT count(*) FROM pg_index WHERE indrelid = 'o_by_k'::regclass AND pg_get_indexdef(indexrelid) LIKE '% (area, id, note, partition_id)';
SELECT * FROM differences();
DROP TABLE o;
RESET ROLE;
DROP SCHEMA queue_columns CASCADE;
DROP ROLE regress_queue_columns;
