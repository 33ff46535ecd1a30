-- Global indexes that are not built, as pg_upgrade and pg_repack leave them: whoever asks is told, and REINDEX of whatever
-- belongs to one builds it, as repair() does.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA global_unbuilt;
CREATE ROLE regress_global_unbuilt;
CREATE ROLE regress_global_unbuilt_leaf;
GRANT USAGE, CREATE ON SCHEMA global_unbuilt TO regress_global_unbuilt, regress_global_unbuilt_leaf;
SET search_path = global_unbuilt;
CREATE EXTENSION amcheck;

CREATE TABLE t (id int, p int, k text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES IN (10, 11, 12);
CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (10, 2, 'c');

-- Without its event trigger CREATE INDEX leaves what pg_upgrade does: the indexes, and no tree.
CREATE PROCEDURE unbuild() LANGUAGE plpgsql SET client_min_messages = error AS $$
BEGIN
    DROP INDEX IF EXISTS t_k, t_id;
    ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
    CREATE INDEX t_k ON t USING global (k) WITH (unique);
    CREATE INDEX t_id ON t USING global (id) WITH (method = hash);
    ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
END $$;
CREATE VIEW built AS SELECT index, is_unique, is_built, tree IS NOT NULL AS has_tree FROM index_table.global_indexes
    WHERE base = 't'::regclass;
CALL unbuild();
SELECT * FROM built ORDER BY index::text;
SELECT index_table, base, entries, dead_entries, scans FROM index_table.stat WHERE base = 't'::regclass ORDER BY index_table::text;
INSERT INTO t VALUES (3, 1, 'd');
\echo :SQLSTATE
SELECT index_table.verify('t_k');
\echo :SQLSTATE
SELECT index_table.is_built('t'), index_table.is_built('t_1_k_idx'), index_table.is_built(0::regclass);

-- repair() builds it, and says how many rows it lacked.
SELECT index_table.repair('t_k');
SELECT * FROM built ORDER BY index::text;
INSERT INTO t VALUES (3, 1, 'c');
\echo :SQLSTATE
SELECT index_table.repair('t_id');
INSERT INTO t VALUES (3, 1, 'c');
\echo :SQLSTATE
INSERT INTO t VALUES (3, 1, 'd');
SELECT index_table.repair('t_k'), index_table.repair('t_id');

-- REINDEX of whatever belongs to it does, in a session that has not loaded the library.
CALL unbuild();
\c -
SET search_path = global_unbuilt;
REINDEX TABLE t_1;
SELECT * FROM built ORDER BY index::text;
CALL unbuild();
\c -
SET search_path = global_unbuilt;
REINDEX TABLE t;
SELECT * FROM built ORDER BY index::text;
CALL unbuild();
\c -
SET search_path = global_unbuilt;
REINDEX INDEX t_3_k_idx;
SELECT * FROM built ORDER BY index::text;
\c -
SET search_path = global_unbuilt;
REINDEX INDEX t_id;
SELECT * FROM built ORDER BY index::text;
CALL unbuild();
\c -
SET search_path = global_unbuilt;
SET client_min_messages = warning;
REINDEX SCHEMA global_unbuilt;
SELECT * FROM built ORDER BY index::text;
INSERT INTO t VALUES (4, 1, 'c');
\echo :SQLSTATE
-- Not what is undone, and what fails with its transaction.
CALL unbuild();
BEGIN;
SAVEPOINT s;
REINDEX TABLE t_1;
ROLLBACK TO s;
SAVEPOINT s;
REINDEX INDEX t_1_id_idx;
RELEASE s;
SELECT * FROM built ORDER BY index::text;
COMMIT;
SELECT * FROM built ORDER BY index::text;
CALL unbuild();
ALTER INDEX t_k RENAME TO gone;
BEGIN;
REINDEX TABLE t_1;
DROP INDEX gone;
COMMIT;
CALL unbuild();
DROP INDEX t_id;
CREATE TABLE t_4 (LIKE t INCLUDING DEFAULTS);
INSERT INTO t_4 VALUES (5, 4, 'a');
ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
ALTER TABLE t ATTACH PARTITION t_4 FOR VALUES IN (4);
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
BEGIN;
REINDEX TABLE t_1;
COMMIT;
\echo :SQLSTATE
REINDEX TABLE t;
\echo :SQLSTATE
SELECT index_table.repair('t_k');
\echo :SQLSTATE
SELECT * FROM built ORDER BY index::text;
UPDATE t_4 SET k = 'e';
DELETE FROM t_4;
REINDEX TABLE t_4;
SELECT * FROM built ORDER BY index::text;
-- Not what gives one partition another file.
CALL unbuild();
\c -
SET search_path = global_unbuilt;
TRUNCATE t_4;
VACUUM FULL t_1;
SELECT * FROM built ORDER BY index::text;
-- Whoever owns a partition, and not the table, has nothing of the table's done.
ALTER TABLE t OWNER TO regress_global_unbuilt;
ALTER TABLE t_3 OWNER TO regress_global_unbuilt_leaf;
SELECT * FROM built ORDER BY index::text;
CALL unbuild();
SET ROLE regress_global_unbuilt_leaf;
REINDEX TABLE global_unbuilt.t_3;
SELECT index_table.is_built('global_unbuilt.t_k');
RESET ROLE;
SELECT index_table.repair('t_k') > 0 AS built, index_table.repair('t_id') > 0;

-- A file in the place of a part's, as pg_repack puts it there: of a partition with rows, and of one without.
CREATE PROCEDURE replace_file(name text) LANGUAGE plpgsql SET client_min_messages = error AS $$
DECLARE theirs oid; ours oid;
BEGIN
    CREATE TABLE other (id int, p int, k text);
    CREATE INDEX other_k ON other USING global (k);
    SELECT relfilenode INTO theirs FROM pg_class WHERE oid = 'other_k'::regclass;
    SELECT relfilenode INTO ours FROM pg_class WHERE oid = name::regclass;
    UPDATE pg_class SET relfilenode = CASE relname WHEN 'other_k' THEN ours ELSE theirs END WHERE oid IN ('other_k'::regclass, name::regclass);
    DROP TABLE other;
END $$;
CALL replace_file('t_1_k_idx');
SELECT * FROM built ORDER BY index::text;
INSERT INTO t VALUES (6, 1, 'f');
\echo :SQLSTATE
SELECT index_table.repair('t_k') > 0 AS repaired;
SELECT * FROM built ORDER BY index::text;
CALL replace_file('t_3_k_idx');
SELECT * FROM built ORDER BY index::text;
SELECT index_table.verify('t_k');
INSERT INTO t VALUES (6, 3, 'f');
\echo :SQLSTATE
SELECT index_table.repair('t_k');
SELECT * FROM built ORDER BY index::text;
INSERT INTO t VALUES (6, 3, 'f');
CALL replace_file('t_3_k_idx');
REINDEX TABLE t_3;
SELECT * FROM built ORDER BY index::text;
-- What others have locked is not waited for, and not looked at.
BEGIN;
LOCK TABLE ONLY t_1;
SELECT pg_catalog.set_config('lock_timeout', '1s', true);
SELECT index_table.is_built('t_k');
ROLLBACK;

-- The oracle: every row is found by its key, and no key is there twice.
LOAD 'index_table';
SELECT index, problem FROM index_table.global_indexes, index_table.verify(index) WHERE base = 't'::regclass;
SELECT bt_index_check(tree, true) FROM index_table.global_indexes WHERE index = 't_k'::regclass;
SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > 1;
SET client_min_messages = warning;
DROP SCHEMA global_unbuilt CASCADE;
DROP ROLE regress_global_unbuilt, regress_global_unbuilt_leaf;
