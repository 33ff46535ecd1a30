-- What is stored, paged through and checked is the same whatever a session's settings are.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA settings;
SET search_path = settings;
LOAD 'index_table';

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
ALTER FUNCTION differences() SET extra_float_digits = 3;

SET timezone = 'UTC';
SET datestyle = ISO;
CREATE TABLE t (id int PRIMARY KEY, k varchar(10), ts timestamptz, x float8, a int[]) PARTITION BY HASH (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO t SELECT i, 'k' || i % 3, '2020-01-01 00:00+00'::timestamptz + i * interval '1 hour', i / 3.0::float8, ARRAY[NULL, i] FROM generate_series(-30, 30) AS i;
INSERT INTO t VALUES (100, 'k1', '2021-01-01 00:00+00', 0.3), (101, 'k1', '2021-01-01 00:00+00', 0.1::float8 + 0.2);

-- A definition goes through text, here under settings in which that text would be read as another
-- value, or as none: before 18, IST, which SQL prints, is another zone.
CREATE PROCEDURE odd_settings() LANGUAGE plpgsql AS $$
BEGIN
    SET datestyle = 'SQL';
    SET timezone = 'Asia/Kolkata';
    SET intervalstyle = 'sql_standard';
    SET extra_float_digits = 0;
    SET array_nulls = off;
END $$;
SELECT index_table.create('t', 'k, ts', name => 'but_for', predicate => $$ a <> '{NULL,5}' $$);
CALL odd_settings();
SELECT index_table.create('t', 'k', name => 'since', predicate => $$ ts > timestamptz '2020-01-01 00:00:00+00' $$);
SELECT index_table.create('t', '(x < ''0.30000000000000004''::float8), k', name => 'below', predicate => $$ x < '0.30000000000000004'::float8 $$);
INSERT INTO recomputation VALUES
    ('since', 'k, partition_id, id', 't b', $$ ts > '2020-01-01 00:00:00+00' $$),
    ('below', 'x < ''0.30000000000000004''::float8, k, partition_id, id', 't b', $$ x < '0.30000000000000004'::float8 $$),
    ('but_for', 'k, ts, partition_id, id', 't b', $$ a <> ARRAY[NULL, 5] $$);
SELECT predicate FROM index_table.index_tables WHERE base = 't'::regclass ORDER BY index_table::text;
SELECT index_table.ddl('since');
SELECT * FROM differences();

-- Made anew as text when a column of the key changes.
ALTER TABLE t ALTER COLUMN k TYPE varchar(20);
SELECT predicate FROM index_table.index_tables WHERE base = 't'::regclass ORDER BY index_table::text;
SELECT * FROM differences();
INSERT INTO t VALUES (200, 'k1', timestamptz '2020-01-01 00:30+00', 0.3, ARRAY[NULL, 5]), (201, 'k1', timestamptz '2019-12-31 23:30+00', '0.30000000000000004'::float8, ARRAY[5]);
SELECT * FROM differences();
SET index_table.enable_scan = force;
SELECT count(*) FROM t WHERE k = 'k1' AND ts > timestamptz '2020-01-01 03:30:00+00';
SELECT count(*) FROM t WHERE k = 'k1' AND x < '0.30000000000000004'::float8;
SET index_table.enable_scan = off;
SELECT count(*) FROM t WHERE k = 'k1' AND ts > timestamptz '2020-01-01 03:30:00+00';
SELECT count(*) FROM t WHERE k = 'k1' AND x < '0.30000000000000004'::float8;
RESET index_table.enable_scan;

-- What a statement of ddl() makes is the same, whoever runs it.
SELECT index_table.ddl('below') AS below, index_table.ddl('but_for') AS but_for \gset
DELETE FROM recomputation WHERE index_table <> 'since'::regclass;
SELECT index_table.drop('below'), index_table.drop('but_for');
SET array_nulls = on;
:below;
:but_for;
SET array_nulls = off;
INSERT INTO recomputation VALUES
    ('below', 'x < ''0.30000000000000004''::float8, k, partition_id, id', 't b', $$ x < '0.30000000000000004'::float8 $$),
    ('but_for', 'k, ts, partition_id, id', 't b', $$ a <> ARRAY[NULL, 5] $$);
SELECT * FROM differences();
CREATE INDEX since_global ON t USING global (k) WHERE x < '0.30000000000000004'::float8;
SELECT index_table.ddl('since_global');

-- The value that existing rows have of a new column.
CREATE TABLE plain (id int PRIMARY KEY, k text);
INSERT INTO plain VALUES (1, 'a');
SELECT index_table.create('plain', 'k', strategy => 'denormalized', name => 'plain_by_k');
ALTER TABLE plain ADD COLUMN ts timestamptz DEFAULT '2020-01-01 00:00:00+00'::timestamptz, ADD COLUMN f float8 DEFAULT 0.1::float8 + 0.2, ADD COLUMN a int[] DEFAULT ARRAY[NULL, 1];
INSERT INTO recomputation VALUES ('plain_by_k', 'k, partition_id, id, ts, f, a', 'plain b');
SELECT * FROM differences();
SELECT * FROM index_table.verify('plain_by_k');

-- What differs by less than a session prints is another value.
SET session_replication_role = replica;
UPDATE plain_by_k SET f = 0.3;
RESET session_replication_role;
SELECT problem, key, identity FROM index_table.verify('plain_by_k');
SELECT index_table.repair('plain_by_k');

-- A page goes on after the one before, and in other sessions as well.
SELECT index_table.create('t', 'ts', name => 'by_ts');
SELECT index_table.create('t', 'x', name => 'by_x');
SELECT index_table.create('t', 'ts, x', name => 'twice');
CREATE TYPE listed AS (a int[], b interval);
CREATE TABLE lists (id int PRIMARY KEY, l listed);
INSERT INTO lists SELECT i, (ARRAY[NULL, i], - i * interval '1 day 2 hours')::listed FROM generate_series(1, 9) AS i;
SELECT index_table.create('lists', 'l', name => 'by_l');
INSERT INTO recomputation VALUES ('by_ts', 'ts, partition_id, id', 't b'), ('by_x', 'x, partition_id, id', 't b'), ('by_l', 'l, partition_id, id', 'lists b'),
    ('twice', 'ts, x, partition_id, id', 't b');
CREATE FUNCTION pages(base anyelement, index_table regclass, OUT pages bigint, OUT count bigint, OUT distinct_count bigint) LANGUAGE plpgsql AS $$
DECLARE
    token text;
    ids int[] := '{}';
    more int[];
BEGIN
    pages := 0;
    LOOP
        EXECUTE format('SELECT array_agg((p.entity).id), max(p.next) FROM index_table.page($1, $2, 4, $3) AS p') INTO more, token USING base, index_table, token;
        ids := ids || more;
        pages := pages + 1;
        EXIT WHEN token IS NULL OR pages > 100;
    END LOOP;
    SELECT count(*), count(DISTINCT i) INTO count, distinct_count FROM unnest(ids) AS i;
END $$;
SELECT * FROM pages(NULL::t, 'by_ts');
SELECT * FROM pages(NULL::t, 'by_x');
SELECT * FROM pages(NULL::lists, 'by_l');
SELECT count(*) FROM t;
SELECT count(*) FROM lists;
SELECT max(next) AS keyed FROM index_table.page(NULL::t, 'but_for', 1, NULL, 'k1') \gset
SELECT max(next) AS timed FROM index_table.page(NULL::t, 'twice', 1, NULL, timestamptz '2021-01-01 00:00+00') \gset
SELECT max(next) AS token FROM index_table.page(NULL::t, 'by_ts', 10, NULL) \gset
RESET ALL;
SET client_min_messages = warning;
SET search_path = settings;
SELECT array_agg((entity).id) FROM index_table.page(NULL::t, 'by_ts', 3, :'token');
SELECT count(*) > 0 AS goes_on FROM index_table.page(NULL::t, 'but_for', 3, :'keyed', 'k1');
SELECT (entity).id FROM index_table.page(NULL::t, 'twice', 3, :'timed', timestamptz '2021-01-01 00:00+00');

SELECT * FROM differences();
DROP SCHEMA settings CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
