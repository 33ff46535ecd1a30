-- Global indexes of tables that are not partitioned: they hold nothing, so one that is to be unique is refused where it is
-- asked for, and whatever else leaves one says so.
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_alone;
SET search_path = global_alone;
SET client_min_messages = warning;

CREATE TABLE t (id int, p int, name text) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES IN (10, 11, 12);
INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (10, 2, 'a');
CREATE TABLE plain (id int, p int, name text);
INSERT INTO plain VALUES (1, 3, 'a');

-- Asked for.
CREATE INDEX t_1_name ON t_1 USING global (name) WITH (unique);
\echo :SQLSTATE
CREATE INDEX ON t_2_1 USING global (name) WITH (unique = true, vacuum = eager);
CREATE INDEX plain_name ON plain USING global (name) WITH (unique);
\echo :SQLSTATE
CREATE INDEX IF NOT EXISTS plain_name ON plain USING global (name) NULLS NOT DISTINCT WITH (unique = on);
\echo :SQLSTATE
CREATE SCHEMA global_alone_too
    CREATE TABLE too (id int)
    CREATE INDEX too_id ON too USING global (id) WITH (unique);
\echo :SQLSTATE
SET session_replication_role = replica;
CREATE INDEX plain_name ON plain USING global (name) WITH (unique);
\echo :SQLSTATE
RESET session_replication_role;
INSERT INTO t_1 VALUES (9, 1, 'a');
SELECT count(*) FROM pg_index WHERE indrelid IN ('t_1'::regclass, 't_2_1'::regclass, 'plain'::regclass);
-- What is not to be unique is of no use either.
CREATE INDEX t_1_name ON t_1 USING global (name) WITH (unique = off);
CREATE INDEX plain_name ON plain USING global (name);
DROP INDEX t_1_name, plain_name;
-- What keeps the key unique.
DELETE FROM t WHERE id = 9;
CREATE INDEX t_name ON t USING global (name) WITH (unique);
\echo :SQLSTATE
UPDATE t SET name = 'c' WHERE id = 10;
CREATE INDEX t_name ON t USING global (name) WITH (unique);
INSERT INTO t VALUES (3, 1, 'c');
\echo :SQLSTATE
DROP INDEX t_name;

-- Part by part: an index is a part where the one above lacks it, and no other is.
CREATE INDEX t_name ON ONLY t USING global (name) WITH (unique);
CREATE INDEX t_1_id ON t_1 USING global (id) WITH (unique);
\echo :SQLSTATE
CREATE INDEX t_1_both ON t_1 USING global (name, id) WITH (unique);
\echo :SQLSTATE
CREATE INDEX t_1_covers ON t_1 USING global (name) INCLUDE (id) WITH (unique);
\echo :SQLSTATE
CREATE INDEX t_2_1_name ON t_2_1 USING global (name) WITH (unique);
\echo :SQLSTATE
CREATE INDEX t_1_name ON t_1 USING global (name) WITH (unique);
ALTER INDEX t_name ATTACH PARTITION t_1_name;
CREATE INDEX t_1_again ON t_1 USING global (name) WITH (unique);
\echo :SQLSTATE
CREATE INDEX t_2_name ON ONLY t_2 USING global (name) WITH (unique);
CREATE INDEX t_2_1_name ON t_2_1 USING global (name) WITH (unique);
ALTER INDEX t_2_name ATTACH PARTITION t_2_1_name;
ALTER INDEX t_name ATTACH PARTITION t_2_name;
INSERT INTO t VALUES (3, 1, 'c');
\echo :SQLSTATE
SELECT index, is_unique, is_built FROM index_table.global_indexes WHERE base = 't'::regclass;

-- LIKE.
CREATE TABLE like_plain (LIKE t INCLUDING INDEXES);
CREATE TABLE like_leaf (LIKE t_1 INCLUDING ALL);
CREATE TABLE IF NOT EXISTS like_leaf (LIKE t_1 INCLUDING ALL);
CREATE TABLE like_all (LIKE t INCLUDING ALL EXCLUDING INDEXES);
CREATE TABLE like_parts (LIKE t INCLUDING INDEXES) PARTITION BY LIST (p);
CREATE TABLE like_parts_1 PARTITION OF like_parts FOR VALUES IN (1);
CREATE TABLE like_parts_2 PARTITION OF like_parts FOR VALUES IN (2);
INSERT INTO like_parts VALUES (1, 1, 'a'), (2, 2, 'a');
\echo :SQLSTATE
CREATE SCHEMA global_alone_too CREATE TABLE too (LIKE global_alone.t INCLUDING ALL);
DROP SCHEMA global_alone_too CASCADE;

-- Attached it is a part of the table's; what has no counterpart there stays alone.
INSERT INTO like_plain VALUES (4, 4, 'a');
ALTER TABLE t ATTACH PARTITION like_plain FOR VALUES IN (4);
\echo :SQLSTATE
UPDATE like_plain SET name = 'd';
ALTER TABLE t ATTACH PARTITION like_plain FOR VALUES IN (4);
INSERT INTO t VALUES (5, 1, 'd');
\echo :SQLSTATE
CREATE TABLE other (id int, p int, name text) PARTITION BY LIST (p);
ALTER TABLE other ATTACH PARTITION like_leaf FOR VALUES IN (5);
CREATE INDEX other_name ON other USING global (name) WITH (unique);
ALTER TABLE other DETACH PARTITION like_leaf;
DROP TABLE other;

-- A partition that leaves is told, once it is a table by itself.
SET client_min_messages = notice;
ALTER TABLE t DETACH PARTITION like_plain;
INSERT INTO like_plain VALUES (6, 4, 'd');
ALTER TABLE t DETACH PARTITION t_2;
INSERT INTO t_2 VALUES (11, 2, 'c');
\echo :SQLSTATE
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES IN (2);
ALTER TABLE t_2 DETACH PARTITION t_2_1 CONCURRENTLY;
CREATE INDEX t_id ON t USING global (id);
ALTER TABLE t DETACH PARTITION t_1;
SET client_min_messages = warning;

-- As a dump restores it, whose commands must not fail: parts come in any order, detached tables with what they had.
SET check_function_bodies = off;
CREATE TABLE restored (id int, p int, name text) PARTITION BY LIST (p);
CREATE TABLE restored_1 PARTITION OF restored FOR VALUES IN (1);
CREATE TABLE detached (id int, p int, name text);
CREATE INDEX restored_1_name ON restored_1 USING global (name) WITH (unique);
CREATE INDEX detached_name ON detached USING global (name) WITH (unique);
CREATE INDEX restored_name ON ONLY restored USING global (name) WITH (unique);
ALTER INDEX restored_name ATTACH PARTITION restored_1_name;
RESET check_function_bodies;
INSERT INTO restored VALUES (1, 1, 'a'), (2, 1, 'a');
\echo :SQLSTATE

-- The oracle: no key that is said to be unique is there twice.
INSERT INTO restored VALUES (1, 1, 'a');
SELECT name, count(*) FROM (SELECT 't' AS rel, name FROM t UNION ALL SELECT 'parts', name FROM like_parts UNION ALL SELECT 'restored', name FROM restored) AS keys GROUP BY rel, name HAVING count(*) > 1;
SELECT index, is_unique, is_built, (SELECT count(*) FROM index_table.verify(index)) AS problems FROM index_table.global_indexes WHERE index::text NOT LIKE '%.%' ORDER BY index::text COLLATE "C";

DROP SCHEMA global_alone CASCADE;
