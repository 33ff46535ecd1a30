-- CREATE INDEX CONCURRENTLY of global indexes: what it makes, what it leaves behind when it fails, and what is refused.
-- Those who write meanwhile are in test/specs/global_online.spec and test/t/114_global_online.pl.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA global_online;
SET search_path = global_online;
CREATE EXTENSION amcheck;

-- The oracle: trees are in order and have every row; what is found by them is what is found without.
CREATE FUNCTION check_trees() RETURNS TABLE (index text, is_unique boolean, built boolean, entries bigint) LANGUAGE plpgsql AS $$
DECLARE
    found_tree regclass; query text; of_index text; natively text; through text;
BEGIN
    FOR index, is_unique, built, found_tree, query IN
        SELECT g.index, g.is_unique, g.is_built, g.tree,
               format('SELECT string_agg(r::text, E''\n'' ORDER BY r::text) FROM %s AS r WHERE %s IS NOT NULL', g.base, pg_get_indexdef(g.index, 1, true))
          FROM index_table.global_indexes g WHERE g.base::text NOT LIKE '%.%' ORDER BY g.index::text COLLATE "C" LOOP
        entries := NULL;
        IF built THEN
            PERFORM bt_index_parent_check(found_tree, true, true);
            SELECT reltuples FROM pg_class WHERE oid = found_tree INTO entries;
        END IF;
        PERFORM set_config('index_table.enable_scan', 'off', true);
        EXECUTE query INTO natively;
        PERFORM set_config('index_table.enable_scan', 'force', true);
        EXECUTE query INTO through;
        IF natively IS DISTINCT FROM through THEN RAISE WARNING '%: % is not %', index, through, natively; END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM FROM pg_class s WHERE s.relkind = 't' AND s.relname LIKE 'index\_table\_global\_%'
       AND NOT EXISTS (SELECT FROM index_table.global_indexes g WHERE g.storage = s.oid);
    IF FOUND THEN RAISE WARNING 'a storage of no global index'; END IF;
    PERFORM FROM pg_locks WHERE objsubid = 4 AND classid = 'pg_class'::regclass AND pid = pg_backend_pid();
    IF FOUND THEN RAISE WARNING 'a lock is left'; END IF;
END $$;

CREATE TABLE t (id int, p int, q int, k text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1) PARTITION BY LIST (q);
CREATE TABLE t_1_1 (k text, gone int, q int, id int, p int);
ALTER TABLE t_1_1 DROP COLUMN gone;
ALTER TABLE t_1 ATTACH PARTITION t_1_1 FOR VALUES IN (1);
CREATE UNLOGGED TABLE t_1_2 PARTITION OF t_1 FOR VALUES IN (2);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT i, 1 + i % 2, 1 + i / 2 % 2, CASE WHEN i % 10 > 0 THEN 'key ' || i % 50 END FROM generate_series(1, 1000) i;
INSERT INTO t VALUES (1001, 2, 1, repeat('a long key that is toasted ', 60));
UPDATE t SET k = k || '.' WHERE id % 5 = 0;
DELETE FROM t WHERE id % 50 = 1;
ANALYZE t;

-- CONCURRENTLY itself is for sessions that have loaded the library.
\c -
SET search_path = global_online;
SET client_min_messages = warning;
CREATE INDEX CONCURRENTLY t_k ON t USING global (k);
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX t_k ON t USING global (k)');
SELECT * FROM check_trees();
\d t
LOAD 'index_table';
SET index_table.enable_scan = force;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE k = 'key 7' ORDER BY k;
CREATE INDEX CONCURRENTLY ON t USING global (lower(k) DESC NULLS LAST, id) INCLUDE (q) WITH (vacuum = eager, fillfactor = 80) WHERE id > 100;
CALL index_table.create_index_concurrently('create index concurrently "T id" on global_online.t using global (id) with (unique);');
SELECT * FROM check_trees();
SELECT index, definition FROM index_table.global_indexes WHERE base = 't'::regclass ORDER BY index::text COLLATE "C";
-- Partitions are as large as they were.
SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'global_online'::regnamespace AND relkind = 'r' ORDER BY relname;
-- Each part is one of its parent's, and valid.
SELECT relid, parentrelid, isleaf, level, indisvalid FROM pg_partition_tree('"T id"') JOIN pg_index ON indexrelid = relid ORDER BY relid::text COLLATE "C";
INSERT INTO t VALUES (7, 2, 1, 'twice');
\echo :SQLSTATE
INSERT INTO t VALUES (7, 2, 1, 'conflicts') ON CONFLICT (id) DO UPDATE SET k = excluded.k RETURNING *;
-- A table without partitions, and one below another.
CREATE TABLE empty (a int) PARTITION BY HASH (a);
CREATE INDEX CONCURRENTLY empty_a ON empty USING global (a);
CREATE TABLE empty_0 PARTITION OF empty FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO empty VALUES (1), (2);
CREATE INDEX CONCURRENTLY t_1_q ON t_1 USING global (q);
SELECT * FROM check_trees();
-- A default of the session's that the build must not follow.
SET default_transaction_isolation = 'serializable';
CREATE INDEX CONCURRENTLY t_q ON t USING global (q);
RESET default_transaction_isolation;
SELECT * FROM check_trees();
SELECT count(*) FROM index_table.progress;

-- IF NOT EXISTS
CREATE INDEX CONCURRENTLY t_k ON t USING global (id);
\echo :SQLSTATE
SET client_min_messages = notice;
CREATE INDEX CONCURRENTLY IF NOT EXISTS t_k ON t USING global (id);
CALL index_table.create_index_concurrently('CREATE INDEX IF NOT EXISTS t_k ON t USING global (id)');
SET client_min_messages = warning;

-- What is refused
BEGIN;
CREATE INDEX CONCURRENTLY ON t USING global (id);
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CALL index_table.create_index_concurrently('CREATE INDEX ON t USING global (id)');
\echo :SQLSTATE
ROLLBACK;
\set VERBOSITY sqlstate
DO $$ BEGIN CREATE INDEX CONCURRENTLY ON t USING global (id); END $$;
\set VERBOSITY default
\echo :SQLSTATE
DO $$ BEGIN CALL index_table.create_index_concurrently('CREATE INDEX ON t USING global (id)'); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
\echo :SQLSTATE
CREATE UNIQUE INDEX CONCURRENTLY ON t USING global (id);
\echo :SQLSTATE
CREATE INDEX CONCURRENTLY ON ONLY t USING global (id);
\echo :SQLSTATE
CREATE INDEX CONCURRENTLY ON t_2 USING global (id);
\echo :SQLSTATE
CREATE INDEX CONCURRENTLY ON t USING global (id) WITH (color = red);
\echo :SQLSTATE
\set VERBOSITY sqlstate
CREATE INDEX CONCURRENTLY ON t USING global (nothing);
\set VERBOSITY default
\echo :SQLSTATE
CREATE INDEX CONCURRENTLY ON nothing USING global (id);
\echo :SQLSTATE
CALL index_table.create_index_concurrently(NULL);
\echo :SQLSTATE
CALL index_table.create_index_concurrently('');
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX ON t USNG global (id)');
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX ON t (id)');
\echo :SQLSTATE
CALL index_table.create_index_concurrently('DROP TABLE t');
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX ON t USING global (id); DROP TABLE t');
\echo :SQLSTATE
-- Within a block of a procedure it may commit.
DO $$ BEGIN CALL index_table.create_index_concurrently('CREATE INDEX t_p ON t USING global (p, q)'); END $$;
SELECT * FROM check_trees() WHERE index = 't_p';
DROP INDEX t_p, t_q, t_1_q;

-- Only the owner may, and functions of the key run as the owner.
CREATE ROLE regress_global_owner;
CREATE ROLE regress_global_other;
GRANT USAGE, CREATE ON SCHEMA global_online TO regress_global_owner, regress_global_other;
CREATE FUNCTION note(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '% for %', v, current_user; RETURN v; END $$;
CREATE TABLE owned (a int, b int) PARTITION BY LIST (a);
CREATE TABLE owned_1 PARTITION OF owned FOR VALUES IN (1);
INSERT INTO owned VALUES (1, 1), (1, 2);
ALTER TABLE owned OWNER TO regress_global_owner;
ALTER TABLE owned_1 OWNER TO regress_global_owner;
SET ROLE regress_global_other;
CREATE INDEX CONCURRENTLY ON owned USING global (b);
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX ON global_online.owned USING global (b)');
\echo :SQLSTATE
RESET ROLE;
CREATE INDEX CONCURRENTLY owned_b ON owned USING global (note(b));
SELECT DISTINCT c.relowner::regrole FROM index_table.global_indexes g JOIN pg_class c ON c.oid IN (g.index, g.tree, g.storage) WHERE g.base = 'owned'::regclass;
DROP INDEX owned_b;
SET ROLE regress_global_owner;
CREATE INDEX CONCURRENTLY owned_a ON owned USING global (a, b) WITH (unique);
RESET ROLE;
SELECT * FROM check_trees() WHERE index ~ 'owned';

-- A key that is there twice: the index stays, not valid, and is in nobody's way but of those keys that it has.
INSERT INTO t VALUES (500, 2, 2, 'five hundred');
\echo :SQLSTATE
DROP INDEX "T id";
INSERT INTO t VALUES (500, 2, 2, 'five hundred');
CREATE INDEX CONCURRENTLY t_id ON t USING global (id) WITH (unique);
\echo :SQLSTATE
SELECT * FROM check_trees();
CREATE INDEX CONCURRENTLY t_id ON t USING global (id) WITH (unique);
\echo :SQLSTATE
CALL index_table.create_index_concurrently('CREATE INDEX IF NOT EXISTS t_id ON t USING global (id)');
INSERT INTO t VALUES (3, 1, 1, 'again') ON CONFLICT (id) DO NOTHING;
\echo :SQLSTATE
REINDEX INDEX t_id;
\echo :SQLSTATE
SELECT * FROM check_trees() WHERE index = 't_id';
-- What becomes of it with partitions.
CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t VALUES (2000, 3, 3, 'new');
CREATE TABLE t_4 (id int, p int, q int, k text);
INSERT INTO t_4 VALUES (2001, 4, 4, 'newer');
CREATE INDEX ON t_4 USING global (id);
ALTER TABLE t ATTACH PARTITION t_4 FOR VALUES IN (4);
TRUNCATE t_3;
REINDEX TABLE t;
VACUUM t;
SELECT is_built FROM index_table.global_indexes WHERE index = 't_id'::regclass;
DELETE FROM t WHERE k = 'five hundred';
-- What a snapshot of somebody else still sees would be counted.
DO $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xid, backend_xmin) IS NOT NULL) LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END $$;
REINDEX INDEX t_id;
SELECT * FROM check_trees();
SELECT relid, parentrelid, isleaf, level, indisvalid FROM pg_partition_tree('t_id') JOIN pg_index ON indexrelid = relid ORDER BY relid::text COLLATE "C";
INSERT INTO t VALUES (2001, 1, 1, 'twice');
\echo :SQLSTATE
-- One that is valid by the last ALTER INDEX … ATTACH PARTITION is built then.
INSERT INTO t VALUES (3, 1, 1, 'three'), (3, 1, 1, 'three') ON CONFLICT (id) DO NOTHING;
DROP INDEX t_id;
INSERT INTO t SELECT id, 4, q, k FROM t WHERE p = 1 AND id = 4;
CREATE INDEX CONCURRENTLY t_id ON t USING global (id) WITH (unique);
\echo :SQLSTATE
DELETE FROM t WHERE id = 4;
SELECT relid, level FROM pg_partition_tree('t_id') ORDER BY relid::text COLLATE "C";
CREATE INDEX t_1_2_by_id ON t_1_2 USING global (id) WITH (unique);
ALTER INDEX t_1_id_idx ATTACH PARTITION t_1_2_by_id;
SELECT * FROM check_trees();
DROP INDEX t_id;
SELECT * FROM check_trees();

-- REINDEX CONCURRENTLY is refused, whatever it is of, and leaves nothing; in a session that has not loaded the library, too.
\c -
SET search_path = global_online;
SET client_min_messages = warning;
REINDEX TABLE CONCURRENTLY t_2;
\echo :SQLSTATE
\c -
SET search_path = global_online;
SET client_min_messages = warning;
REINDEX SCHEMA CONCURRENTLY global_online;
\echo :SQLSTATE
REINDEX INDEX CONCURRENTLY t_2_k_idx;
\echo :SQLSTATE
REINDEX INDEX CONCURRENTLY t_k;
\echo :SQLSTATE
REINDEX TABLE CONCURRENTLY t;
\echo :SQLSTATE
SELECT format('REINDEX INDEX CONCURRENTLY %s', 'pg_toast.index_table_global_' || 't_k'::regclass::oid || '_tree') AS command \gset
\set VERBOSITY sqlstate
:command;
\set VERBOSITY default
SELECT indexrelid::regclass FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relnamespace = 'global_online'::regnamespace AND NOT (indisvalid AND indisready);
REINDEX SCHEMA global_online;
SELECT * FROM check_trees();

DROP SCHEMA global_online CASCADE;
DROP ROLE regress_global_owner, regress_global_other;
SELECT count(*) FROM pg_class WHERE relname LIKE 'index\_table\_global\_%';
