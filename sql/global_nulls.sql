-- NULLS NOT DISTINCT of unique global indexes: NULL is as equal as any value, for INSERT, UPDATE, ON CONFLICT, builds.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_nulls;
SET search_path = global_nulls;
CREATE EXTENSION amcheck;

CREATE TABLE t (id int, p int, a text, b int) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 (b int, gone int, a text, p int, id int);
ALTER TABLE t_2 DROP COLUMN gone;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES IN (2);
-- Beside it, a table in one piece with PostgreSQL's own.
CREATE TABLE native (id int, p int, a text, b int);
CREATE UNIQUE INDEX native_ab ON native (a, b) NULLS NOT DISTINCT;

-- Only with unique.
CREATE INDEX t_ab ON t USING global (a, b) NULLS NOT DISTINCT;
\echo :SQLSTATE
CREATE INDEX t_ab ON t USING global (a, b) NULLS NOT DISTINCT WITH (unique = off, vacuum = eager);
\echo :SQLSTATE
-- Not over rows that it would not take.
INSERT INTO t VALUES (1, 1, NULL, 1), (2, 2, NULL, 1);
CREATE INDEX t_ab ON t USING global (a, b) NULLS NOT DISTINCT WITH (unique);
\echo :SQLSTATE
DELETE FROM t WHERE id = 2;
CREATE INDEX t_ab ON t USING global (a, b DESC) NULLS NOT DISTINCT WITH (unique);
SELECT pg_get_indexdef('t_ab'::regclass), pg_get_indexdef('t_2_a_b_idx'::regclass);
SELECT i.indexrelid = g.tree AS tree, indisunique, indnullsnotdistinct FROM pg_index AS i, index_table.global_indexes AS g
 WHERE i.indexrelid IN (g.tree, g.index) ORDER BY 1;
INSERT INTO native SELECT * FROM t;

INSERT INTO t VALUES (3, 2, NULL, 1);
\echo :SQLSTATE
INSERT INTO native VALUES (3, 2, NULL, 1);
INSERT INTO t VALUES (4, 2, NULL, NULL), (5, 1, NULL, NULL);
INSERT INTO native VALUES (4, 2, NULL, NULL), (5, 1, NULL, NULL);
INSERT INTO t VALUES (6, 2, NULL, NULL), (7, 1, 'a', NULL), (8, 2, 'b', NULL);
INSERT INTO native VALUES (6, 2, NULL, NULL), (7, 1, 'a', NULL), (8, 2, 'b', NULL);
UPDATE t SET a = NULL WHERE a IN ('a');
\echo :SQLSTATE
UPDATE t SET a = 'a', p = 3 - p WHERE a = 'b';
\echo :SQLSTATE
UPDATE t SET p = 3 - p;

-- ON CONFLICT: with target, without, with changes, twice in a statement, of what the same transaction has inserted.
INSERT INTO t VALUES (10, 1, NULL, NULL), (11, 2, 'a', NULL), (12, 1, 'c', NULL), (13, 2, 'c', NULL) ON CONFLICT (a, b) DO NOTHING RETURNING *;
INSERT INTO native VALUES (10, 1, NULL, NULL), (11, 2, 'a', NULL), (12, 1, 'c', NULL), (13, 2, 'c', NULL) ON CONFLICT (a, b) DO NOTHING RETURNING *;
INSERT INTO t VALUES (14, 2, NULL, 1), (15, 1, NULL, 2) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO native VALUES (14, 2, NULL, 1), (15, 1, NULL, 2) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t VALUES (16, 2, NULL, NULL), (17, 1, NULL, 3) ON CONFLICT (a, b) DO UPDATE SET id = excluded.id RETURNING id, a, b;
INSERT INTO native VALUES (16, 2, NULL, NULL), (17, 1, NULL, 3) ON CONFLICT (a, b) DO UPDATE SET id = excluded.id RETURNING id, a, b;
INSERT INTO t VALUES (18, 2, NULL, 4), (19, 1, NULL, 4) ON CONFLICT (a, b) DO UPDATE SET id = excluded.id;
\echo :SQLSTATE
INSERT INTO native VALUES (18, 2, NULL, 4), (19, 1, NULL, 4) ON CONFLICT (a, b) DO UPDATE SET id = excluded.id;
\echo :SQLSTATE
BEGIN;
INSERT INTO t VALUES (20, 1, NULL, 5) ON CONFLICT DO NOTHING;
SAVEPOINT s;
INSERT INTO t VALUES (21, 2, NULL, 5) ON CONFLICT DO NOTHING RETURNING *;
DELETE FROM t WHERE b = 5;
INSERT INTO t VALUES (22, 2, NULL, 5) ON CONFLICT DO NOTHING RETURNING id;
ROLLBACK TO s;
INSERT INTO t VALUES (23, 2, NULL, 5);
ROLLBACK;
SELECT a, b FROM t EXCEPT ALL SELECT a, b FROM native;
SELECT a, b FROM native EXCEPT ALL SELECT a, b FROM t;

-- Partitions that come: one with a matching index of its own, one whose index takes NULLs for distinct, as a dump restores
-- what was detached.
SET check_function_bodies = off;
CREATE TABLE t_3 (LIKE t);
INSERT INTO t_3 VALUES (30, 3, NULL, NULL);
CREATE INDEX t_3_ab ON t_3 USING global (a, b DESC) NULLS NOT DISTINCT WITH (unique);
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
\echo :SQLSTATE
UPDATE t_3 SET b = 30;
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
CREATE TABLE t_4 (LIKE t);
INSERT INTO t_4 VALUES (40, 4, NULL, 40);
CREATE INDEX t_4_ab ON t_4 USING global (a, b DESC) WITH (unique);
RESET check_function_bodies;
ALTER TABLE t ATTACH PARTITION t_4 FOR VALUES IN (4);
SELECT inhrelid::regclass, indnullsnotdistinct FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid WHERE inhparent = 't_ab'::regclass ORDER BY inhrelid::regclass::text COLLATE "C";
INSERT INTO t VALUES (41, 1, NULL, 40);
\echo :SQLSTATE
INSERT INTO t VALUES (42, 4, NULL, 30);
\echo :SQLSTATE
REINDEX INDEX t_ab;
REINDEX TABLE t_4;
INSERT INTO t VALUES (43, 1, NULL, 40) ON CONFLICT (a, b) DO UPDATE SET id = excluded.id RETURNING id, p, b;
-- VACUUM, and the same NULL again in its place.
DELETE FROM t WHERE b = 40;
VACUUM t_4;
INSERT INTO t VALUES (44, 4, NULL, 40);
INSERT INTO t VALUES (45, 2, NULL, 40);
\echo :SQLSTATE

-- By an expression, and for some rows; NULLs that are distinct beside.
CREATE INDEX t_lower ON t USING global (nullif(lower(a), 'x')) NULLS NOT DISTINCT WITH (unique) WHERE b IS NULL;
\echo :SQLSTATE
INSERT INTO t VALUES (50, 1, 'x', NULL);
\echo :SQLSTATE
INSERT INTO t VALUES (51, 1, 'x', 7);
CREATE INDEX t_b ON t USING global (a) WITH (unique) WHERE b > 1000;
INSERT INTO t VALUES (52, 1, NULL, 1001), (53, 2, NULL, 1002);

-- The oracle.
CREATE TEMP TABLE conditions AS SELECT unnest(ARRAY['a IS NULL', 'a IS NULL AND b IS NULL', 'a = ''a''', 'a IS NULL AND b = 40', 'a > '''' ORDER BY a, b']) AS condition;
CREATE FUNCTION rows_where(condition text, way text) RETURNS SETOF t LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('index_table.enable_scan', way, true);
    RETURN QUERY EXECUTE 'SELECT * FROM t WHERE ' || condition;
END $$;
SELECT condition FROM conditions
 WHERE EXISTS (SELECT * FROM rows_where(condition, 'off') EXCEPT ALL SELECT * FROM rows_where(condition, 'force'))
    OR EXISTS (SELECT * FROM rows_where(condition, 'force') EXCEPT ALL SELECT * FROM rows_where(condition, 'off'));
SELECT index, v.* FROM index_table.global_indexes, index_table.verify(index) AS v WHERE base = 't'::regclass;
SELECT count(bt_index_parent_check(tree, true, true)) FROM index_table.global_indexes WHERE base = 't'::regclass;
SELECT a, b, count(*) FROM t GROUP BY a, b HAVING count(*) > 1;

DROP SCHEMA global_nulls CASCADE;
