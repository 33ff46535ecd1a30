-- Index tables whose definitions have been restored, before anybody has written: readers use them where they look right.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA restored;
SET search_path = restored;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Partitions of the past, of next month, and a default one: two of them have no rows.
CREATE TABLE o (id int, at int, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE o_1 PARTITION OF o FOR VALUES FROM (0) TO (100);
CREATE TABLE o_2 PARTITION OF o FOR VALUES FROM (100) TO (200);
CREATE TABLE o_next PARTITION OF o FOR VALUES FROM (200) TO (300);
CREATE TABLE o_default PARTITION OF o DEFAULT;
INSERT INTO o SELECT i, i % 200, 'v' || i FROM generate_series(1, 400) AS i;
SELECT index_table.create('o', 'at', name => 'kept');
SELECT index_table.create('o', 'id', is_unique => true);
SELECT index_table.create('o', 'v', strategy => 'denormalized', partitions => 2);
SELECT index_table.create('o', 'v', name => 'o_by_none', predicate => 'id < 0');
INSERT INTO recomputation VALUES
    ('kept', 'at, partition_id, id', 'o b'), ('o_by_id', 'id, partition_id, at', 'o b'),
    ('o_by_v', 'v, partition_id, id, at', 'o b'), ('o_by_none', 'v, partition_id, id, at', 'o b');
UPDATE recomputation SET condition = 'b.id < 0' WHERE index_table = 'o_by_none'::regclass;
SELECT * FROM differences();

-- As a dump brings the definition: numbers and entries are there, and no session has looked at them. What is done
-- meanwhile, the index table does not learn.
CREATE FUNCTION restore(index_table regclass, meanwhile text DEFAULT 'SELECT') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    rule text := (SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = index_table AND rulename = 'index_table_definition');
BEGIN
    EXECUTE format('DROP RULE index_table_definition ON %s', index_table);
    EXECUTE meanwhile;
    EXECUTE rule;
END $$;
CREATE FUNCTION states() RETURNS TABLE (index_table regclass, state "char", is_complete boolean) LANGUAGE sql AS $$
SELECT t.index_table, d.state, t.is_complete FROM index_table.index_tables AS t JOIN index_table.definition AS d USING (index_table)
 WHERE t.base = 'o'::regclass ORDER BY t.index_table::text COLLATE "C" $$;
SELECT restore(t) FROM unnest('{o_by_id,o_by_v,o_by_none}'::regclass[]) AS t;
-- One without entries is not believed: whether some should be there is for a writer to find out.
SELECT * FROM states();
SET index_table.enable_scan = force;
EXPLAIN (COSTS OFF) SELECT * FROM o WHERE id = 5;
SELECT * FROM o WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT v, id FROM o WHERE v = 'v7';
SELECT v, id FROM o WHERE v = 'v7';
SELECT partition, identity FROM index_table.lookup('o_by_id', 7);
SELECT count(*) FROM index_table.verify('o_by_id');

-- The first writer settles what they are.
UPDATE o SET v = v WHERE id = 5;
SELECT * FROM states();
INSERT INTO o VALUES (1000, 250, 'new'), (1001, 999, 'newer');
SELECT * FROM o WHERE id IN (5, 1000, 1001) ORDER BY id;
INSERT INTO o VALUES (5, 260, 'twice');
\echo :SQLSTATE
SELECT * FROM differences();

-- Rows of a partition were left out: entries that lead there do not exist, before and after somebody writes.
SELECT restore('o_by_v', 'DELETE FROM o WHERE at BETWEEN 100 AND 199');
SELECT state, is_complete FROM states() WHERE index_table = 'o_by_v'::regclass;
SELECT count(*) > 100 AS are_stored FROM o_by_v;
EXPLAIN (COSTS OFF) SELECT v, id FROM o WHERE v IN ('v150', 'v201');
SELECT v, id FROM o WHERE v IN ('v150', 'v201');
SELECT count(*) FROM o WHERE v > 'v1';
SELECT partition, identity FROM index_table.lookup('o_by_v', 'v150') UNION ALL SELECT partition, identity FROM index_table.lookup('o_by_v', 'v201');
SELECT * FROM index_table.fetch(NULL::o, 'o_by_v', 'v150');
SELECT * FROM index_table.shards('o_by_v') ORDER BY 1;
SET index_table.enable_scan = off;
SELECT v, id FROM o WHERE v IN ('v150', 'v201');
SELECT count(*) FROM o WHERE v > 'v1';
SET index_table.enable_scan = force;
DELETE FROM o WHERE id = 201;
SELECT v, id FROM o WHERE v IN ('v150', 'v201');
SELECT state, is_complete FROM states() WHERE index_table = 'o_by_v'::regclass;
INSERT INTO o VALUES (150, 150, 'v150');
SELECT v, id FROM o WHERE v IN ('v150', 'v201');
SELECT * FROM differences();

-- Rows whose entries were left out: nothing shows it where other entries are there, but where a table that stores
-- entries has none.
SELECT restore('o_by_id', 'DELETE FROM o_by_id');
SELECT state, is_complete FROM states() WHERE index_table = 'o_by_id'::regclass;
SELECT * FROM o WHERE id = 5;
INSERT INTO o VALUES (5, 260, 'twice');
\echo :SQLSTATE
SELECT index_table.repair('o_by_id') > 0 AS repaired;
SELECT * FROM differences();

-- A table without rows, all of whose partitions have numbers.
CREATE TABLE e (id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE e_1 PARTITION OF e FOR VALUES FROM (0) TO (100);
SELECT index_table.create('e', 'at', name => 'e_kept'), index_table.create('e', 'id', is_unique => true);
SELECT restore('e_by_id');
SELECT is_complete FROM index_table.index_tables WHERE index_table = 'e_by_id'::regclass;
SELECT * FROM e WHERE id = 1;
INSERT INTO e VALUES (1, 1);
SELECT * FROM e WHERE id = 1;
INSERT INTO recomputation VALUES ('e_kept', 'at, partition_id, id', 'e b'), ('e_by_id', 'id, partition_id, at', 'e b');
SELECT * FROM differences();

DROP SCHEMA restored CASCADE;
