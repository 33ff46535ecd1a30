-- verify() finds what is wrong in a global index, repair() makes it anew.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_verify;
SET search_path = global_verify;
CREATE EXTENSION amcheck;

CREATE TABLE people (id int, region text, town text, phone text, nick name, note text) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
CREATE TABLE people_b (note text, x int, phone text, id int, region text, nick name, town text) WITH (autovacuum_enabled = off);
ALTER TABLE people_b DROP COLUMN x;
ALTER TABLE people ATTACH PARTITION people_b FOR VALUES IN ('b');
CREATE TABLE people_c PARTITION OF people FOR VALUES IN ('c') PARTITION BY HASH (id);
CREATE TABLE people_c_0 PARTITION OF people_c FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE UNLOGGED TABLE people_c_1 PARTITION OF people_c FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE people_a SET (autovacuum_enabled = off);
INSERT INTO people SELECT i, chr(97 + i % 3), nullif('town ' || i % 4, 'town 3'), '555-' || i, 'n' || i, repeat('note ', 500)
  FROM generate_series(1, 60) AS i;
-- What an index of this function has is what the function was when rows were entered.
CREATE FUNCTION short(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN left($1, 6); END';
CREATE INDEX by_town ON people USING global (town);
CREATE INDEX by_phone ON people USING global (phone) WITH (unique, deduplicate_items = off);
CREATE INDEX by_short ON people USING global (short(phone), id DESC) INCLUDE (town);
CREATE INDEX by_nick ON people USING global (nick, note) WHERE id > 10;
UPDATE people SET town = 'town 9' WHERE id % 10 = 0;
UPDATE people SET note = 'x' WHERE id % 10 = 1;
DELETE FROM people WHERE id % 10 = 2;

-- Every index of the table, with what verify() says, and the row that it says it of.
CREATE FUNCTION problems() RETURNS TABLE (index regclass, problem text, partition regclass, key jsonb, id int)
LANGUAGE sql AS $$
    SELECT g.index, v.problem, v.partition, v.key, p.id
      FROM index_table.global_indexes AS g, index_table.verify(g.index) AS v
      LEFT JOIN people AS p ON p.tableoid = v.partition AND p.ctid = (v.identity->>'ctid')::tid
     WHERE g.base = 'people'::regclass ORDER BY g.index::text COLLATE "C", v.key, v.problem, p.id
$$;
-- For damage: children of a table that PostgreSQL does not write to, and VACUUM does not tell of what it removes.
CREATE FUNCTION set_ready(partition regclass, ready boolean) RETURNS void LANGUAGE sql AS $$
    UPDATE pg_index SET indisready = ready WHERE indrelid = partition;
    UPDATE pg_class SET relhasindex = true WHERE oid = partition AND NOT relhasindex
$$;

-- Nothing to report, whatever became of entries.
SELECT * FROM problems();
VACUUM people;
INSERT INTO people SELECT 100 + i, chr(97 + i % 3), 'new', '556-' || i, 'm' || i FROM generate_series(1, 30) AS i;
SELECT * FROM problems();
BEGIN;
DELETE FROM people WHERE id < 5;
UPDATE people SET phone = phone || 'x' WHERE id BETWEEN 5 AND 7;
SAVEPOINT truncated;
TRUNCATE people_a;
INSERT INTO people VALUES (1, 'a', 'here', '557', 'h');
SELECT * FROM problems();
ROLLBACK TO truncated;
SELECT * FROM problems();
ROLLBACK;
SELECT * FROM problems();
SELECT index_table.repair('by_town'), index_table.repair('by_phone');

-- Missing entries, also of a key with NULL, and only of rows that the predicate takes.
SELECT set_ready('people_b', false);
INSERT INTO people VALUES (1, 'b', NULL, '558', 'one'), (200, 'b', 'two', '555-1', 'two');
SELECT set_ready('people_b', true);
SELECT * FROM problems();
SELECT index_table.repair('by_town'), index_table.repair('by_short'), index_table.repair('by_nick');
-- A key that two rows have cannot be entered.
SELECT index_table.repair('by_phone');
\echo :SQLSTATE
REINDEX INDEX by_phone;
\echo :SQLSTATE
UPDATE people SET phone = '559' WHERE id = 200;
SELECT * FROM problems();
SELECT index_table.repair('by_phone');
SELECT * FROM problems();

-- A key that two rows have, both with entries.
UPDATE pg_index SET indisunique = false WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'by_phone'::regclass);
INSERT INTO people VALUES (201, 'a', 'two', '555-1', 'two'), (202, 'c', 'two', '555-1', 'two'), (203, 'c', 'two', NULL, 'two'), (204, 'c', 'two', NULL, 'two');
UPDATE pg_index SET indisunique = true WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'by_phone'::regclass);
SELECT count(*), index, problem, key FROM problems() GROUP BY 2, 3, 4;
DELETE FROM people WHERE id IN (201, 202);
SELECT * FROM problems();

-- Entries that lead to other rows: VACUUM has not said that it took rows away.
SELECT set_ready('people_a', false);
DELETE FROM people WHERE id BETWEEN 3 AND 9 AND region = 'a';
VACUUM people_a;
SELECT set_ready('people_a', true);
-- To no row yet, but to where the next will be.
SELECT * FROM problems() WHERE index = 'by_town'::regclass;
SELECT index_table.repair('by_nick'), index_table.repair('by_short'), index_table.repair('by_town');
INSERT INTO people VALUES (300, 'a', 'three', '560', 'three');
SELECT * FROM problems();
SELECT index_table.repair('by_phone');
SELECT * FROM problems();

-- The same key once more at the same place: two entries for a row.
INSERT INTO people VALUES (301, 'a', 'four', '561', 'four');
SELECT ctid AS place FROM people_a WHERE id = 301 \gset
SELECT set_ready('people_a', false);
DELETE FROM people WHERE id = 301;
VACUUM people_a;
SELECT set_ready('people_a', true);
UPDATE pg_index SET indisunique = false WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'by_phone'::regclass);
INSERT INTO people VALUES (302, 'a', 'four', '561', 'four');
UPDATE pg_index SET indisunique = true WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'by_phone'::regclass);
SELECT ctid = :'place' AS same_place FROM people_a WHERE id = 302;
SELECT index, problem, partition, key FROM problems();
SELECT index_table.repair(index) FROM (SELECT DISTINCT index FROM problems() ORDER BY 1) AS p;
SELECT * FROM problems();

-- Keys and what is included, of a function that is another now: equal ones, and others.
CREATE OR REPLACE FUNCTION short(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN CASE WHEN $1 = ''555-1'' THEN ''other'' ELSE left($1, 6) END; END';
SELECT * FROM problems();
SELECT index_table.repair('by_short');
SELECT * FROM problems();
CREATE TABLE numbers (id int, n numeric, m numeric) PARTITION BY LIST (id);
CREATE TABLE numbers_1 PARTITION OF numbers FOR VALUES IN (1);
CREATE FUNCTION scaled(numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
INSERT INTO numbers VALUES (1, 1.5, 2), (1, NULL, 3);
CREATE INDEX numbers_n ON numbers USING global (scaled(n)) INCLUDE (m);
CREATE OR REPLACE FUNCTION scaled(numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + 0.00; END';
SELECT * FROM index_table.verify('numbers_n');
SELECT index_table.repair('numbers_n');
SELECT * FROM index_table.verify('numbers_n');
-- A file in the place of a child's.
CREATE TABLE other (id int, n numeric, m numeric);
CREATE INDEX other_n ON other USING global (scaled(n)) INCLUDE (m);
SELECT relfilenode AS theirs FROM pg_class WHERE relname = 'other_n' \gset
SELECT relfilenode AS ours FROM pg_class WHERE relname = 'numbers_1_scaled_m_idx' \gset
UPDATE pg_class SET relfilenode = CASE relname WHEN 'other_n' THEN :ours ELSE :theirs END WHERE relname IN ('other_n', 'numbers_1_scaled_m_idx');
SELECT * FROM index_table.verify('numbers_n') ORDER BY identity;
SELECT index_table.repair('numbers_n');
SELECT * FROM index_table.verify('numbers_n');

-- Methods that are not scanned as a whole: a row has several entries in GIN, none in hash where its key is NULL.
CREATE TABLE things (id int, k int, tags text[], note text) PARTITION BY HASH (id);
CREATE TABLE things_0 PARTITION OF things FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (autovacuum_enabled = off);
CREATE TABLE things_1 PARTITION OF things FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off);
INSERT INTO things SELECT i, nullif(i % 50, 7), CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '{}' ELSE ARRAY['t' || i % 9, 'all', NULL] END FROM generate_series(1, 300) AS i;
CREATE INDEX things_k ON things USING global (k) WITH (method = hash);
CREATE INDEX things_tags ON things USING global (tags) WITH (method = gin);
CREATE INDEX things_some ON things USING global (tags) WITH (method = gin) WHERE id > 100;
CREATE FUNCTION things_problems() RETURNS TABLE (index regclass, problem text, partition regclass, key jsonb, ids int[])
LANGUAGE sql AS $$
    SELECT g.index, v.problem, v.partition, v.key, array_agg(p.id ORDER BY p.id)
      FROM index_table.global_indexes AS g, index_table.verify(g.index) AS v
      LEFT JOIN things AS p ON p.tableoid = v.partition AND p.ctid = (v.identity->>'ctid')::tid
     WHERE g.base = 'things'::regclass GROUP BY 1, 2, 3, 4 ORDER BY g.index::text COLLATE "C", v.partition::text COLLATE "C", v.problem, v.key
$$;
SELECT * FROM things_problems();
INSERT INTO things SELECT i, i, ARRAY['late', 't' || i] FROM generate_series(301, 400) AS i;
DELETE FROM things WHERE id % 3 = 0;
VACUUM things_1;
UPDATE things SET k = -k, tags = tags || 'more'::text WHERE id % 10 = 1;
SELECT * FROM things_problems();
SELECT index_table.vacuum('things_tags') > 0, index_table.vacuum('things_k') > 0;
SELECT * FROM things_problems();
BEGIN;
INSERT INTO things SELECT i, i, ARRAY['later'] FROM generate_series(401, 420) AS i;
TRUNCATE things_0;
SELECT * FROM things_problems();
ROLLBACK;
SELECT * FROM things_problems();
-- Rows without entries, in tables and indexes of either kind.
SELECT set_ready('things_1', false);
INSERT INTO things SELECT i, nullif(i, 502), CASE WHEN i % 2 = 0 THEN ARRAY['x', 'y'] END FROM generate_series(500, 507) AS i;
SELECT set_ready('things_1', true);
SELECT index, problem, partition, ids = ARRAY(SELECT id FROM things_1 WHERE id >= 500 AND to_jsonb(CASE WHEN index = 'things_k'::regclass THEN to_jsonb(k) ELSE to_jsonb(tags) END) IS NOT DISTINCT FROM nullif(coalesce(key->'k', key->'tags'), 'null') ORDER BY id) AS those
  FROM things_problems();
SELECT count(*) AS of_k, (SELECT count(*) FROM things_1 WHERE id >= 500 AND k IS NOT NULL) AS rows FROM index_table.verify('things_k');
SELECT count(*) AS of_tags, (SELECT count(*) FROM things_1 WHERE id >= 500) AS rows FROM index_table.verify('things_tags');
-- Entries that VACUUM was not asked about lead to where the next rows will be.
SELECT set_ready('things_0', false);
DELETE FROM things_0 WHERE id BETWEEN 10 AND 20;
VACUUM things_0;
SELECT set_ready('things_0', true);
SELECT index, problem, partition, count(*) > 0 FROM (SELECT g.index, v.* FROM index_table.global_indexes AS g, index_table.verify(g.index) AS v WHERE g.base = 'things'::regclass) AS p GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT index_table.repair('things_k') > 0, index_table.repair('things_tags') > 0, index_table.repair('things_some') > 0;
SELECT * FROM things_problems();
-- A scan of this session's holds pages that reading all entries waits for.
SET enable_seqscan = off;
SET index_table.enable_scan = force;
SELECT id, index_table.verify('things_k') FROM things WHERE k = 302 LIMIT 1;
\echo :SQLSTATE
RESET index_table.enable_scan;
RESET enable_seqscan;
SET maintenance_work_mem = '1MB';
INSERT INTO things SELECT i, i, ARRAY['t' || i % 7, 't' || i] FROM generate_series(1000, 21000) AS i;
SELECT * FROM things_problems();
RESET maintenance_work_mem;

-- With as little memory as there can be, in many batches.
SET maintenance_work_mem = '1MB';
CREATE TABLE many (id int, k int, t text) PARTITION BY HASH (id);
CREATE TABLE many_0 PARTITION OF many FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE many_1 PARTITION OF many FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO many SELECT i, i, repeat('x', i % 40) FROM generate_series(1, 30000) AS i;
CREATE INDEX many_k ON many USING global (k) WITH (unique);
CREATE INDEX many_t ON many USING global (t, id);
SELECT * FROM index_table.verify('many_k') UNION ALL SELECT * FROM index_table.verify('many_t');
SELECT set_ready('many_0', false);
INSERT INTO many SELECT i, i, repeat('x', i % 40) FROM generate_series(30001, 30100) AS i;
SELECT set_ready('many_0', true);
SELECT problem, partition, count(*) = (SELECT count(*) FROM many_0 WHERE id > 30000) AS all_of_them FROM index_table.verify('many_t') GROUP BY 1, 2;
UPDATE pg_index SET indisunique = false WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'many_k'::regclass);
INSERT INTO many SELECT id + 100000, k, t FROM many WHERE id <= 30000;
UPDATE pg_index SET indisunique = true WHERE indexrelid = (SELECT tree FROM index_table.global_indexes WHERE index = 'many_k'::regclass);
SELECT problem, count(*), count(DISTINCT key) FROM index_table.verify('many_k') WHERE problem <> 'missing' GROUP BY 1;
DELETE FROM many WHERE id > 100000;
SELECT index_table.repair('many_k') > 0, index_table.repair('many_t') > 0;
SELECT * FROM index_table.verify('many_k') UNION ALL SELECT * FROM index_table.verify('many_t');
RESET maintenance_work_mem;

-- What the views tell. Making an index leaves alone what ANALYZE has said of tables.
ANALYZE many;
CREATE INDEX many_id ON many USING global (id);
REINDEX INDEX many_id;
SELECT sum(reltuples) FROM pg_class WHERE relname IN ('many_0', 'many_1');
INSERT INTO many SELECT i, -i, 'more' FROM generate_series(200001, 200100) AS i;
VACUUM ANALYZE many;
SELECT entries FROM index_table.global_indexes WHERE index = 'many_id'::regclass;
SELECT FROM pg_stat_force_next_flush();
SELECT index_table.vacuum('many_id');
SELECT entries, stale_entries, last_sweep IS NOT NULL AS swept FROM index_table.global_indexes WHERE index = 'many_id'::regclass;
SELECT entries, dead_entries FROM index_table.stat WHERE index_table = 'many_id'::regclass;

-- What verify() is not for, and who may.
CREATE TABLE plain (id int);
CREATE INDEX plain_id ON plain USING global (id);
CREATE INDEX plain_id_btree ON plain (id);
SELECT index_table.verify('plain_id');
\echo :SQLSTATE
SELECT index_table.verify('people_a_town_idx');
\echo :SQLSTATE
SELECT index_table.repair('people_c_town_idx');
\echo :SQLSTATE
SELECT index_table.verify('plain_id_btree');
\echo :SQLSTATE
\set VERBOSITY sqlstate
SELECT index_table.verify(storage) FROM index_table.global_indexes WHERE index = 'by_town'::regclass;
\set VERBOSITY default
\echo :SQLSTATE
CREATE ROLE global_verify_owner;
CREATE ROLE global_verify_other;
GRANT USAGE ON SCHEMA global_verify TO global_verify_owner, global_verify_other;
GRANT CREATE ON SCHEMA global_verify TO global_verify_owner;
SET ROLE global_verify_other;
SELECT index_table.verify('by_town');
\echo :SQLSTATE
SELECT index_table.repair('by_town');
\echo :SQLSTATE
RESET ROLE;
-- Functions of a key run as the owner of the partition, and can do nothing for others.
SET ROLE global_verify_owner;
CREATE FUNCTION spy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_user <> 'global_verify_owner' THEN RAISE 'run by %', current_user; END IF;
    RETURN $1;
END $$;
CREATE TABLE spied (id int) PARTITION BY LIST (id);
CREATE TABLE spied_1 PARTITION OF spied FOR VALUES IN (1);
INSERT INTO spied VALUES (1);
CREATE INDEX spied_id ON spied USING global (spy(id)) WHERE spy(id) > 0;
RESET ROLE;
SELECT * FROM index_table.verify('spied_id');
SELECT index_table.repair('spied_id');
ALTER TABLE spied_1 OWNER TO global_verify_other;
SELECT * FROM index_table.verify('spied_id');
ALTER TABLE spied_1 OWNER TO global_verify_owner;
SET ROLE global_verify_owner;
CREATE OR REPLACE FUNCTION spy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    EXECUTE 'SET ROLE NONE';
    RETURN $1;
END $$;
RESET ROLE;
SELECT * FROM index_table.verify('spied_id');
\echo :SQLSTATE
SELECT current_user = session_user;

-- It locks nobody out, and what it holds is read access.
BEGIN;
SELECT * FROM index_table.verify('many_k');
SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation';
ROLLBACK;

-- REINDEX takes the options that it has natively. All parts are in one tablespace.
REINDEX (VERBOSE) INDEX many_k;
REINDEX (CONCURRENTLY false, VERBOSE false) INDEX many_k;
REINDEX (TABLESPACE pg_default) INDEX many_k;
REINDEX (TABLESPACE nowhere) INDEX many_k;
REINDEX (VERBOS) INDEX many_k;
SELECT * FROM index_table.verify('many_k');

-- It takes the memory that it needs, whatever it might take.
CREATE FUNCTION frugal(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT sum(total_bytes) > 4000000 FROM pg_backend_memory_contexts WHERE name LIKE 'index\_table%') THEN RAISE 'it takes %', (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'index\_table%'); END IF;
    RETURN $1;
END $$;
CREATE TABLE modest (id int, k int) PARTITION BY LIST (id);
CREATE TABLE modest_1 PARTITION OF modest FOR VALUES IN (1);
INSERT INTO modest SELECT 1, i FROM generate_series(1, 5000) AS i;
CREATE INDEX modest_k ON modest USING global (k);
CREATE INDEX modest_frugal ON modest USING global (frugal(k)) WHERE k % 1000 = 7;
CREATE INDEX modest_hash ON modest USING global (frugal(k)) WITH (method = hash) WHERE k % 1000 = 7;
SET maintenance_work_mem = '1GB';
SELECT count(*) FROM index_table.verify('modest_k');
SELECT count(*) FROM index_table.verify('modest_frugal');
SELECT count(*) FROM index_table.verify('modest_hash');
RESET maintenance_work_mem;
-- Of more entries than it takes to begin with, and than it takes at all.
SET maintenance_work_mem = '1MB';
INSERT INTO modest SELECT 1, i FROM generate_series(5001, 30000) AS i;
SELECT count(*) FROM index_table.verify('modest_k');
RESET maintenance_work_mem;

-- The oracle: what queries find, with and without.
SET index_table.enable_scan = force;
CREATE TEMP TABLE through AS SELECT * FROM people WHERE phone > '555-3' UNION ALL SELECT * FROM people WHERE phone IS NULL UNION ALL SELECT * FROM people WHERE town = 'town 1';
SET index_table.enable_scan = off;
CREATE TEMP TABLE natively AS SELECT * FROM people WHERE phone > '555-3' UNION ALL SELECT * FROM people WHERE phone IS NULL UNION ALL SELECT * FROM people WHERE town = 'town 1';
(TABLE through EXCEPT ALL TABLE natively) UNION ALL (TABLE natively EXCEPT ALL TABLE through);
SELECT count(bt_index_parent_check(tree, true, true)) FROM index_table.global_indexes WHERE base IN ('people'::regclass, 'many'::regclass);

DROP SCHEMA global_verify CASCADE;
DROP ROLE global_verify_owner;
DROP ROLE global_verify_other;
