-- Partitions with global indexes of their own, at all levels, which are attached and detached: every row is in the tree of
-- its table, and in no other.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_attach;
SET search_path = global_attach;
CREATE EXTENSION amcheck;
SET index_table.enable_scan = force;

-- The oracle: trees are in order and have every row; each key leads to the rows that it has natively, and to no other.
CREATE FUNCTION check_trees() RETURNS TABLE (index regclass, built boolean, keys bigint) LANGUAGE plpgsql AS $$
DECLARE
    t text; natively bigint; through bigint;
BEGIN
    FOR index, built IN SELECT g.index, g.is_built FROM index_table.global_indexes g WHERE g.base::text NOT LIKE '%.%' ORDER BY g.index::text COLLATE "C" LOOP
        keys := 0;
        IF built THEN
            PERFORM bt_index_check(format('pg_toast.index_table_global_%s_tree', index::oid)::regclass, true);
        END IF;
        FOR t IN EXECUTE format('SELECT DISTINCT t FROM (SELECT t FROM t UNION SELECT t FROM other) AS v') LOOP
            PERFORM set_config('index_table.enable_scan', 'off', true);
            EXECUTE format('SELECT count(*) FROM %s WHERE t = %L', (SELECT indrelid::regclass FROM pg_index WHERE indexrelid = index), t) INTO natively;
            PERFORM set_config('index_table.enable_scan', 'force', true);
            EXECUTE format('SELECT count(*) FROM %s WHERE t = %L', (SELECT indrelid::regclass FROM pg_index WHERE indexrelid = index), t) INTO through;
            IF natively <> through THEN RAISE WARNING '%: % rows with %, not %', index, through, t, natively; END IF;
            keys := keys + through;
        END LOOP;
        RETURN NEXT;
    END LOOP;
    -- Nothing is left behind.
    PERFORM FROM pg_class s WHERE s.relkind = 't' AND s.relname LIKE 'index\_table\_global\_%'
       AND NOT EXISTS (SELECT FROM index_table.global_indexes g WHERE g.storage = s.oid);
    IF FOUND THEN RAISE WARNING 'a storage of no global index'; END IF;
END $$;

CREATE TABLE t (id int, p int, q int, t text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1) PARTITION BY LIST (q);
CREATE TABLE t_1_1 PARTITION OF t_1 FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
CREATE TABLE other (t text);
INSERT INTO other VALUES ('a'), ('b'), ('c'), ('d'), ('e'), ('f');

-- An index of a partition that has partitions is a global index of its own.
CREATE INDEX t_1_t ON t_1 USING global (t) WITH (unique);
INSERT INTO t VALUES (1, 1, 1, 'a'), (2, 2, 1, 'a');
INSERT INTO t VALUES (3, 1, 1, 'a');
\echo :SQLSTATE
SELECT * FROM check_trees();
-- The table's takes it in.
CREATE INDEX t_t ON t USING global (t) WITH (unique);
\echo :SQLSTATE
SELECT * FROM check_trees();
DELETE FROM t WHERE id = 2;
CREATE INDEX t_t ON t USING global (t) WITH (unique);
SELECT inhrelid::regclass, inhparent::regclass FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE relkind IN ('i', 'I') ORDER BY inhrelid::regclass::text COLLATE "C";
SELECT * FROM check_trees();
INSERT INTO t VALUES (4, 2, 1, 'a');
\echo :SQLSTATE
INSERT INTO t VALUES (5, 2, 1, 'b');

-- It leaves with one of its own: neither table's keys are the other's.
ALTER TABLE t DETACH PARTITION t_1;
INSERT INTO t VALUES (6, 2, 1, 'a');
INSERT INTO t_1 VALUES (7, 1, 1, 'b');
INSERT INTO t_1 VALUES (8, 1, 1, 'a');
\echo :SQLSTATE
SELECT * FROM check_trees();
-- And comes back with what has changed.
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
\echo :SQLSTATE
DELETE FROM t;
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
SELECT * FROM check_trees();
INSERT INTO t VALUES (9, 2, 1, 'a');
\echo :SQLSTATE
BEGIN;
ALTER TABLE t DETACH PARTITION t_1;
INSERT INTO t_1 VALUES (10, 1, 1, 'c');
INSERT INTO t VALUES (11, 2, 1, 'd');
SELECT * FROM check_trees();
SAVEPOINT detached;
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
SELECT * FROM check_trees();
INSERT INTO t VALUES (12, 2, 1, 'c');
\echo :SQLSTATE
ROLLBACK TO detached;
INSERT INTO t VALUES (12, 2, 1, 'c');
SELECT * FROM check_trees();
ROLLBACK;
SELECT * FROM check_trees();

-- A table that is made, filled, indexed and attached in one transaction.
BEGIN;
CREATE TABLE t_3 (id int, p int, q int, t text);
INSERT INTO t_3 VALUES (13, 3, 1, 'c');
SET LOCAL check_function_bodies = off; -- as a dump restores a table that was detached
CREATE INDEX ON t_3 USING global (t) WITH (unique);
INSERT INTO t_3 VALUES (14, 3, 1, 'd');
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
SELECT * FROM check_trees();
COMMIT;
BEGIN;
ALTER TABLE t DETACH PARTITION t_3;
INSERT INTO t_3 VALUES (15, 3, 1, 'e'), (16, 3, 1, 'e');
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
\echo :SQLSTATE
ROLLBACK;
BEGIN;
ALTER TABLE t DETACH PARTITION t_3;
INSERT INTO t_3 VALUES (15, 3, 1, 'e');
DELETE FROM t_3 WHERE t = 'd';
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
COMMIT;
SELECT * FROM check_trees();
-- One without an index, and one of another key.
CREATE TABLE t_4 (id int, p int, q int, t text);
INSERT INTO t_4 VALUES (17, 4, 1, 'f');
CREATE INDEX ON t_4 USING global (id);
ALTER TABLE t ATTACH PARTITION t_4 FOR VALUES IN (4);
SELECT * FROM check_trees();
INSERT INTO t VALUES (18, 2, 1, 'f');
\echo :SQLSTATE

-- As a dump restores it: nothing of the table is built before all of it is there.
DROP INDEX t_t;
CREATE INDEX t_t ON ONLY t USING global (t) WITH (unique);
CREATE INDEX t_1_t ON ONLY t_1 USING global (t) WITH (unique);
CREATE INDEX t_1_1_t ON t_1_1 USING global (t) WITH (unique);
CREATE INDEX t_2_t ON t_2 USING global (t) WITH (unique);
CREATE INDEX t_3_t ON t_3 USING global (t) WITH (unique);
CREATE INDEX t_4_t ON t_4 USING global (t) WITH (unique);
-- Another one, of the level below.
CREATE INDEX t_1_id ON t_1 USING global (id);
ALTER INDEX t_1_t ATTACH PARTITION t_1_1_t;
SELECT is_built FROM index_table.global_indexes WHERE index = 't_t'::regclass;
ALTER INDEX t_t ATTACH PARTITION t_1_t;
ALTER INDEX t_t ATTACH PARTITION t_2_t;
ALTER INDEX t_t ATTACH PARTITION t_3_t;
SELECT is_built FROM index_table.global_indexes WHERE index = 't_t'::regclass;
ALTER INDEX t_t ATTACH PARTITION t_4_t;
SELECT * FROM check_trees();
INSERT INTO t VALUES (19, 2, 1, 'f');
\echo :SQLSTATE

-- Files that TRUNCATE empties in place, for the transaction has made them: the rows after it have the
-- places of those before.
CREATE TABLE e (id int, k int, v text) PARTITION BY LIST (id);
CREATE TABLE e_1 PARTITION OF e FOR VALUES IN (1);
CREATE INDEX e_k ON e USING global (k) WITH (unique);
CREATE INDEX e_v ON e USING global (v) WITH (method = hash);
SET index_table.enable_scan = force;
BEGIN;
CREATE TABLE e_2 PARTITION OF e FOR VALUES IN (2);
INSERT INTO e SELECT 2, i, 'old ' || i FROM generate_series(1, 10) AS i;
TRUNCATE e_2;
INSERT INTO e SELECT 2, 100 + i, 'new ' || i FROM generate_series(1, 10) AS i;
SELECT * FROM e WHERE k IN (3, 103);
TRUNCATE e_2;
INSERT INTO e SELECT 2, 100 + i, 'new ' || i FROM generate_series(1, 10) AS i;
COMMIT;
SELECT * FROM e WHERE k IN (3, 103);
SELECT * FROM e WHERE v IN ('old 4', 'new 4');
BEGIN;
TRUNCATE e_1;
INSERT INTO e SELECT 1, i, 'old' FROM generate_series(1, 10) AS i;
TRUNCATE e_1;
INSERT INTO e SELECT 1, i, 'new' FROM generate_series(1, 9) AS i;
COMMIT;
SELECT count(*), sum(k) FROM e WHERE k BETWEEN 1 AND 10;
BEGIN;
CREATE UNLOGGED TABLE e_3 PARTITION OF e FOR VALUES IN (3);
INSERT INTO e SELECT 3, 200 + i, 'old' FROM generate_series(1, 10) AS i;
TRUNCATE e_3;
INSERT INTO e SELECT 3, 220 + i, 'new' FROM generate_series(1, 10) AS i;
COMMIT;
SELECT * FROM e WHERE k IN (203, 223);
BEGIN;
SAVEPOINT s;
TRUNCATE e_1;
INSERT INTO e VALUES (1, 500, 'gone');
TRUNCATE e_1;
INSERT INTO e VALUES (1, 501, 'gone');
ROLLBACK TO s;
SELECT count(*), sum(k) FROM e WHERE k BETWEEN 1 AND 10 OR k > 499;
COMMIT;
SELECT index_table.vacuum('e_k') > 0;
INSERT INTO e VALUES (1, 203, 'old'), (2, 3, 'new');
\echo :SQLSTATE
SELECT i, v.* FROM unnest('{e_k,e_v}'::regclass[]) AS i, index_table.verify(i) AS v;
SELECT * FROM check_trees();
RESET index_table.enable_scan;
SELECT (SELECT count(*) FROM e WHERE k > 0) = (SELECT count(*) FROM e) AS same;

DROP SCHEMA global_attach CASCADE;
SELECT count(*) FROM pg_class WHERE relname LIKE 'index\_table\_global\_%';
