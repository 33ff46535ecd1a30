-- What strangers and careless owners may try with the parts of a global index: refused clearly, or harmless.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_attack;
SET search_path = global_attack;
CREATE TABLE t (id int, p int, email text, secret text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT i, 1 + i % 2, 'e' || i, 's' || i FROM generate_series(1, 200) AS i;
CREATE INDEX t_email ON t USING global (email) WITH (unique);
CREATE INDEX t_id ON t USING global (id);
SELECT storage, tree FROM index_table.global_indexes WHERE index = 't_email'::regclass \gset
CREATE FUNCTION problems() RETURNS TABLE (index regclass, problem text, key jsonb) LANGUAGE sql AS
    $$ SELECT g.index, v.problem, v.key FROM index_table.global_indexes AS g, index_table.verify(g.index) AS v WHERE g.is_built $$;
\set VERBOSITY terse

-- Whoever may only create.
CREATE ROLE global_attack_stranger;
CREATE SCHEMA global_attack_own AUTHORIZATION global_attack_stranger;
GRANT USAGE ON SCHEMA global_attack TO global_attack_stranger;
SET ROLE global_attack_stranger;
CREATE TABLE global_attack_own.own (a int) USING index_table_storage;
SET default_table_access_method = index_table_storage;
CREATE TABLE global_attack_own.own AS SELECT 1 AS a;
CREATE TEMP TABLE own (a int);
RESET default_table_access_method;
CREATE TABLE global_attack_own.own (a int);
ALTER TABLE global_attack_own.own SET ACCESS METHOD index_table_storage;
SELECT index_table.verify('t_email');
SELECT index_table.repair('t_email');
SELECT index_table.vacuum('t_email');
REINDEX INDEX t_email;
DROP INDEX t_1_email_idx;
RESET ROLE;

-- Parts by themselves.
DROP INDEX t_1_email_idx;
ALTER INDEX t_1_email_idx SET (unique = off);
ALTER INDEX t_email ATTACH PARTITION t_1_id_idx;
ALTER INDEX t_email ATTACH PARTITION t_id;
ALTER TABLE t_1 REPLICA IDENTITY USING INDEX t_1_email_idx;
CLUSTER t_1 USING t_1_email_idx;
-- Names have the root's number in them.
\set VERBOSITY sqlstate
SELECT * FROM :storage;
INSERT INTO :storage VALUES ('x');
CREATE INDEX ON :storage (c1);
ALTER TABLE :storage SET (fillfactor = 50);
TRUNCATE :storage;
DROP INDEX :tree;
CLUSTER :storage;
VACUUM FULL :storage;
REINDEX INDEX :tree;
REINDEX TABLE :storage;
CREATE PUBLICATION global_attack FOR TABLE :storage;
\set VERBOSITY terse
VACUUM (FREEZE, ANALYZE) :storage;
SELECT * FROM problems();

-- REINDEX CONCURRENTLY is refused before it has made copies of other indexes.
CREATE INDEX t_1_native ON t_1 (id);
REINDEX INDEX CONCURRENTLY t_1_email_idx;
REINDEX TABLE CONCURRENTLY t_1;
REINDEX TABLE CONCURRENTLY t;
REINDEX SCHEMA CONCURRENTLY global_attack;
SELECT format('REINDEX DATABASE CONCURRENTLY %I', current_database()) \gexec
CREATE TABLE u (id int, p int, q int) PARTITION BY LIST (p);
CREATE TABLE u_1 PARTITION OF u FOR VALUES IN (1) PARTITION BY LIST (q);
CREATE TABLE u_1_1 PARTITION OF u_1 FOR VALUES IN (1);
CREATE INDEX u_native ON u (id);
CREATE INDEX u_1_id ON u_1 USING global (id);
REINDEX TABLE CONCURRENTLY u;
SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid;
REINDEX TABLE CONCURRENTLY global_attack_own.own;
REINDEX INDEX CONCURRENTLY t_1_native;
REINDEX SCHEMA global_attack;
SELECT * FROM problems();

-- Without event triggers: nothing is found that is not there, and what has been missed is said.
ALTER EVENT TRIGGER index_table_ddl_start DISABLE;
ALTER EVENT TRIGGER index_table_ddl_end DISABLE;
ALTER EVENT TRIGGER index_table_drop DISABLE;
CREATE TABLE late (id int, p int) PARTITION BY LIST (p);
CREATE TABLE late_1 PARTITION OF late FOR VALUES IN (1);
CREATE INDEX late_id ON late USING global (id) WITH (unique);
INSERT INTO late VALUES (1, 1);
\echo :SQLSTATE
ALTER TABLE t DETACH PARTITION t_1;
INSERT INTO t_1 VALUES (1000, 1, 'e1000', 's');
ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1);
CREATE TABLE t_3 (LIKE t);
INSERT INTO t_3 VALUES (1001, 3, 'e1001', 's');
CREATE INDEX ON t_3 USING global (email) WITH (unique);
ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES IN (3);
INSERT INTO t VALUES (1002, 3, 'e1002', 's');
\echo :SQLSTATE
ALTER EVENT TRIGGER index_table_ddl_start ENABLE ALWAYS;
ALTER EVENT TRIGGER index_table_ddl_end ENABLE ALWAYS;
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;
SELECT * FROM problems() ORDER BY key;
SELECT index, is_built FROM index_table.global_indexes WHERE index = 't_email'::regclass;
SELECT index_table.repair('t_email'), index_table.repair('t_id');
REINDEX INDEX late_id;
INSERT INTO late VALUES (1, 1);
INSERT INTO t VALUES (1002, 3, 'e1000', 's');
INSERT INTO t VALUES (1002, 3, 'e1002', 's');
SELECT * FROM problems();

-- Functions that fail, or lie.
CREATE FUNCTION fails(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF $1 = 'boom' THEN RAISE 'boom'; END IF; RETURN length($1); END $$;
CREATE INDEX t_fails ON t USING global (fails(secret)) WHERE fails(email) > 0;
INSERT INTO t VALUES (2000, 1, 'boom', 's');
INSERT INTO t VALUES (2000, 1, 'e2000', 'boom') ON CONFLICT (email) DO NOTHING;
CREATE OR REPLACE FUNCTION fails(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'always'; END $$;
SELECT * FROM index_table.verify('t_fails');
SELECT index_table.repair('t_fails');
DELETE FROM t WHERE id = 10;
VACUUM t;
DROP FUNCTION fails CASCADE;
CREATE SEQUENCE numbers;
CREATE FUNCTION lies(text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT nextval('global_attack.numbers') $$;
CREATE INDEX t_lies ON t USING global (lies(email)) WITH (unique);
INSERT INTO t SELECT 3000 + i, 1, 'l' || i, 's' FROM generate_series(1, 20) AS i;
UPDATE t SET email = email || '!' WHERE id > 3000;
SELECT problem, count(*) = (SELECT count(*) FROM t) AS all_of_them FROM index_table.verify('t_lies') GROUP BY 1 ORDER BY 1;
DROP INDEX t_lies;
SELECT * FROM problems();

-- Keys are shown to who may see them.
\set VERBOSITY default
GRANT INSERT, SELECT (id) ON t TO global_attack_stranger;
SET ROLE global_attack_stranger;
INSERT INTO global_attack.t VALUES (1, 2, 'e2', 's');
SELECT id FROM global_attack.t WHERE email = 'e2';
RESET ROLE;
GRANT SELECT, INSERT, UPDATE, DELETE ON t, t_1, t_2 TO global_attack_stranger;
SET ROLE global_attack_stranger;
INSERT INTO global_attack.t VALUES (1, 2, 'e2', 's');
RESET ROLE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
ALTER TABLE t_2 ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_p ON t USING (p = 2) WITH CHECK (true);
CREATE POLICY of_p ON t_2 USING (p = 2) WITH CHECK (true);
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE WARNING 'seen: %', $1; RETURN true; END $$;
SET ROLE global_attack_stranger;
SET index_table.enable_scan = force;
INSERT INTO global_attack.t VALUES (1, 2, 'e2', 's');
SELECT * FROM global_attack.t WHERE email IN ('e2', 'e3') AND global_attack.leak(secret);
INSERT INTO global_attack.t VALUES (1, 2, 'e2', 's') ON CONFLICT (email) DO UPDATE SET secret = 'mine' RETURNING *;
INSERT INTO global_attack.t VALUES (1, 2, 'e2', 's') ON CONFLICT DO NOTHING RETURNING *;
DELETE FROM global_attack.t WHERE email = 'e2';
UPDATE global_attack.t SET secret = 'mine' WHERE email IN ('e2', 'e3') RETURNING *;
RESET index_table.enable_scan;
RESET ROLE;

-- The oracle.
SELECT * FROM problems();
CREATE FUNCTION found(way text) RETURNS SETOF t LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('index_table.enable_scan', way, true);
    RETURN QUERY EXECUTE 'SELECT * FROM t WHERE email > ''e5''';
    RETURN QUERY EXECUTE 'SELECT * FROM t WHERE id < 50';
END $$;
(SELECT * FROM found('force') EXCEPT ALL SELECT * FROM found('off')) UNION ALL (SELECT * FROM found('off') EXCEPT ALL SELECT * FROM found('force'));
DROP SCHEMA global_attack, global_attack_own CASCADE;
DROP ROLE global_attack_stranger;
