-- Functions of keys and predicates that call others by bare names: refused with the same error of an empty and of a filled table.
-- Those with a path of their own, and names with schemas, work everywhere.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA search_path;
SET search_path = search_path;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TYPE color AS ENUM ('red', 'green');
CREATE FUNCTION inner_f(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN n % 1000; END';
CREATE FUNCTION bare(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN inner_f(n) + 1; END';
CREATE FUNCTION bare_sql(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT inner_f(n) + 1 FROM (SELECT 1) AS x LIMIT 1';
CREATE FUNCTION bare_set(n int) RETURNS SETOF int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN NEXT inner_f(n); RETURN NEXT n; END';
CREATE FUNCTION bare_test(s text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN inner_f(length(s)) > 0; END $$;
CREATE FUNCTION bare_type(s text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE c color := 'red'; BEGIN RETURN c || s; END $$;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION own(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE SET search_path = search_path AS 'BEGIN RETURN inner_f(n) + 1; END';
CREATE FUNCTION named(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN search_path.inner_f(n) + 1; END';
CREATE FUNCTION picky(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF n < 5 THEN RAISE 'too small'; END IF; RETURN n; END $$;
CREATE FUNCTION typed(c color, p positive, a int[], d date, u uuid, j jsonb, b char(3)) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN RETURN inner_f(length(c::text) + p + a[1] + extract(year FROM d)::int + length(u::text) + length(j::text) + length(b)); END';
-- Its message, and what it says of the path.
CREATE FUNCTION answer(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE message text; hint text;
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || message || CASE WHEN hint LIKE '%ALTER FUNCTION%search_path%' THEN ' (hint)' ELSE '' END;
END $$;
CREATE TABLE hollow (id int PRIMARY KEY, n int, s text, c color, p positive, a int[], d date, u uuid, j jsonb, b char(3)) PARTITION BY RANGE (id);
CREATE TABLE hollow_0 PARTITION OF hollow FOR VALUES FROM (0) TO (100);
CREATE TABLE filled (LIKE hollow INCLUDING ALL) PARTITION BY RANGE (id);
CREATE TABLE filled_0 PARTITION OF filled FOR VALUES FROM (0) TO (100);
INSERT INTO filled SELECT i, 1000 + i, 's' || i, 'red', i, ARRAY[i], '2026-01-01', gen_random_uuid(), '{}', 'b' FROM generate_series(1, 10) AS i;
SELECT key, predicate, t AS base, answer(format('SELECT index_table.create(%L, %L, predicate => %L)', t, key, predicate))
  FROM (VALUES (1, 'bare(n)', NULL), (2, 'id, bare_sql(n)', NULL), (3, 'bare_set(n)', NULL), (4, 'id', 'bare_test(s)'), (5, 'bare_type(s)', NULL),
               (7, 'typed(c, p, a, d, u, j, b)', NULL), (8, 'bare(n)', 'id > 50'), (9, 'own(n)', NULL), (10, 'named(n)', NULL),
               (11, 'picky(n)', NULL)) AS k (number, key, predicate), (VALUES ('hollow'), ('filled')) AS tables (t)
 ORDER BY number, t DESC;
SELECT key, t AS base, answer(format('CREATE INDEX %1$s_g%2$s ON %1$s USING global (%3$s)', t, number, key))
  FROM (VALUES (1, 'bare(n)'), (3, 's) WHERE (bare_test(s)'), (4, 'own(n)'), (5, 'named(n)')) AS k (number, key),
       (VALUES ('hollow'), ('filled')) AS tables (t)
 ORDER BY number, t DESC;
CALL index_table.create_concurrently('hollow', 'bare(n)');
CREATE INDEX CONCURRENTLY hollow_c ON hollow USING global (bare(n));
SELECT count(*) FROM pg_class WHERE relname ~ '^(hollow|filled)_(by_bare|g1|g2|g3|c$)';
-- What was accepted goes on working, whoever maintains and repairs it.
INSERT INTO hollow SELECT * FROM filled WHERE id > 4;
SET search_path = pg_catalog;
INSERT INTO search_path.filled SELECT i, 1000 + i, 's' FROM generate_series(11, 20) AS i;
SET search_path = search_path;
SELECT i.index_table, count(v.problem) FROM index_table.index_tables AS i LEFT JOIN LATERAL index_table.verify(i.index_table) AS v ON true
 WHERE i.base IN ('hollow'::regclass, 'filled'::regclass) GROUP BY 1 ORDER BY 1;
-- A function that comes to call others so later on. It keeps no other index from being made.
CREATE OR REPLACE FUNCTION named(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN inner_f(n) + 1; END';
SELECT answer('SELECT * FROM index_table.verify(''filled_by_named'')');
SELECT answer('SELECT index_table.repair(''filled_by_named'')');
CREATE INDEX hollow_g6 ON hollow USING global (own(n));
CREATE TABLE late (LIKE filled INCLUDING ALL);
INSERT INTO late SELECT 100, n, s FROM filled WHERE id = 1;
SELECT answer('ALTER TABLE filled ATTACH PARTITION late FOR VALUES FROM (100) TO (200)');
ALTER FUNCTION named(int) SET search_path = search_path;
SELECT answer('ALTER TABLE filled ATTACH PARTITION late FOR VALUES FROM (100) TO (200)');
SELECT count(*) FROM index_table.verify('filled_by_named');
INSERT INTO recomputation VALUES ('filled_by_named', 'named(n), partition_id, id', 'filled b'), ('hollow_by_own', 'own(n), partition_id, id', 'hollow b');
SELECT * FROM differences();

DROP SCHEMA search_path CASCADE;
