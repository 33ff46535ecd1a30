-- Global indexes that change hands, and move, by commands that name no table: their trees follow.
CREATE EXTENSION IF NOT EXISTS index_table;
SET client_min_messages = warning;
CREATE SCHEMA global_moves;
CREATE ROLE regress_global_moves_one;
CREATE ROLE regress_global_moves_two;
GRANT USAGE, CREATE ON SCHEMA global_moves TO regress_global_moves_one, regress_global_moves_two;
SET search_path = global_moves;

-- What each global index consists of, with an owner and a tablespace that are not the index's.
CREATE VIEW differing AS
    SELECT g.index, c.relname LIKE '%\_tree' AS is_tree, pg_get_userbyid(c.relowner) AS owner, t.spcname
      FROM index_table.global_indexes AS g
      JOIN pg_class AS i ON i.oid = g.index
      JOIN pg_class AS c ON c.oid IN (g.storage, g.tree)
      LEFT JOIN pg_tablespace AS t ON t.oid = c.reltablespace
     WHERE c.relowner <> i.relowner OR (c.oid = g.tree AND c.reltablespace <> i.reltablespace);
GRANT SELECT ON differing TO PUBLIC;

SET ROLE regress_global_moves_one;
CREATE TABLE t (id int, p int, k text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES IN (1, 2, 3);
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
CREATE INDEX t_k ON t USING global (k) WITH (unique);
CREATE INDEX t_ks ON t USING global ((ARRAY[k])) WITH (method = gin);
CREATE INDEX t_2_id ON t_2 USING global (id);
RESET ROLE;

-- A session that has not loaded the library.
\c -
SET search_path = global_moves;
REASSIGN OWNED BY regress_global_moves_one TO regress_global_moves_two;
SELECT index, pg_get_userbyid(relowner) AS owner FROM index_table.global_indexes JOIN pg_class ON oid = index WHERE base IN ('t'::regclass, 't_2'::regclass) ORDER BY index::text;
SELECT * FROM differing;
DROP OWNED BY regress_global_moves_one;
DROP ROLE regress_global_moves_one;
SET ROLE regress_global_moves_two;
INSERT INTO t VALUES (3, 2, 'a');
\echo :SQLSTATE
INSERT INTO t VALUES (3, 2, 'c');
VACUUM t;
SELECT index_table.vacuum('t_k');
SELECT index_table.repair('t_k');
CREATE TABLE t_3 (LIKE t);
INSERT INTO t_3 VALUES (4, 3, 'd');
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
ALTER TABLE t ALTER k TYPE varchar;
REINDEX TABLE t_1;
VACUUM FULL t_1;
REINDEX INDEX t_k;
-- It is undone, a part of it, too.
RESET ROLE;
CREATE ROLE regress_global_moves_one;
GRANT USAGE, CREATE ON SCHEMA global_moves TO regress_global_moves_one;
BEGIN;
SAVEPOINT s;
REASSIGN OWNED BY regress_global_moves_two TO regress_global_moves_one;
SELECT * FROM differing;
SELECT count(*) FROM index_table.verify('t_k');
ROLLBACK TO s;
SELECT * FROM differing;
ALTER TABLE t OWNER TO regress_global_moves_one;
SELECT * FROM differing;
ROLLBACK;
SELECT * FROM differing;
SELECT DISTINCT pg_get_userbyid(c.relowner) FROM index_table.global_indexes AS g JOIN pg_class AS c ON c.oid IN (g.index, g.storage, g.tree) WHERE g.base = 't'::regclass;

-- ALTER INDEX ALL IN TABLESPACE.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_global_moves_a LOCATION '';
CREATE TABLESPACE regress_global_moves_b LOCATION '';
GRANT CREATE ON TABLESPACE regress_global_moves_a, regress_global_moves_b TO PUBLIC;
CREATE TABLE u (id int, p int) PARTITION BY LIST (p);
CREATE TABLE u_1 PARTITION OF u FOR VALUES IN (1);
INSERT INTO u VALUES (1, 1), (2, 1);
CREATE INDEX u_id ON u USING global (id) TABLESPACE regress_global_moves_a;
ALTER INDEX t_k SET TABLESPACE regress_global_moves_a;
ALTER INDEX t_1_k_idx SET TABLESPACE regress_global_moves_a;
CREATE INDEX u_native ON u (p) TABLESPACE regress_global_moves_a;
CREATE VIEW spaces AS SELECT c.oid::regclass AS index, t.spcname FROM pg_class AS c LEFT JOIN pg_tablespace AS t ON t.oid = c.reltablespace
    WHERE c.oid IN ('u_id'::regclass, 'u_native'::regclass, 't_k'::regclass, 't_1_k_idx'::regclass);
SELECT * FROM differing;
ALTER INDEX ALL IN TABLESPACE regress_global_moves_a OWNED BY regress_global_moves_two SET TABLESPACE regress_global_moves_b;
SELECT * FROM spaces ORDER BY index::text;
SELECT * FROM differing;
-- Whoever does not own one fails, and has moved nothing.
SET ROLE regress_global_moves_two;
\set VERBOSITY sqlstate
ALTER INDEX ALL IN TABLESPACE regress_global_moves_a SET TABLESPACE regress_global_moves_b;
\set VERBOSITY default
RESET ROLE;
ALTER INDEX ALL IN TABLESPACE regress_global_moves_a SET TABLESPACE regress_global_moves_b NOWAIT;
SELECT * FROM spaces ORDER BY index::text;
SELECT * FROM differing;
DROP TABLESPACE regress_global_moves_a;
BEGIN;
ALTER INDEX ALL IN TABLESPACE regress_global_moves_b SET TABLESPACE pg_default;
SELECT * FROM differing;
INSERT INTO t VALUES (3, 2, 'a');
\echo :SQLSTATE
ROLLBACK;
SELECT * FROM differing;
ALTER INDEX ALL IN TABLESPACE regress_global_moves_b SET TABLESPACE pg_default;
ALTER TABLE ALL IN TABLESPACE regress_global_moves_b SET TABLESPACE pg_default;
SELECT * FROM spaces ORDER BY index::text;
SELECT * FROM differing;
DROP TABLESPACE regress_global_moves_b;
INSERT INTO t VALUES (3, 2, 'a');
\echo :SQLSTATE

-- The oracle: every row is found by its key, and by no other way.
SELECT index, problem FROM index_table.global_indexes, index_table.verify(index) WHERE base IN ('t'::regclass, 't_2'::regclass, 'u'::regclass);
SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > 1;
SET client_min_messages = warning;
DROP SCHEMA global_moves CASCADE;
DROP ROLE regress_global_moves_one, regress_global_moves_two;
