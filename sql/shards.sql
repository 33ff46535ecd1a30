-- Shards: from a partition key to its partition, and where that is; from a key of an index table to the partitions that have it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA shards;
SET search_path = shards, public;

-- Every kind of partitioning. The oracle is where PostgreSQL has put the rows.
CREATE TABLE by_hash (gone int, id bigint, name text) PARTITION BY HASH (id, name);
ALTER TABLE by_hash DROP COLUMN gone;
SELECT format('CREATE TABLE by_hash_%s PARTITION OF by_hash FOR VALUES WITH (MODULUS 5, REMAINDER %1$s)', i) FROM generate_series(0, 4) AS i \gexec
INSERT INTO by_hash SELECT CASE WHEN i % 10 <> 0 THEN i END, CASE WHEN i % 7 <> 0 THEN 'name ' || i END FROM generate_series(1, 200) AS i;
SELECT count(*) AS rows, count(*) FILTER (WHERE s.partition IS DISTINCT FROM t.tableoid) AS wrong
  FROM by_hash AS t LEFT JOIN LATERAL index_table.shard_of('by_hash', id, name) AS s ON true;

CREATE TABLE by_range (a int, b text COLLATE "C", c date) PARTITION BY RANGE (a, b);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE, MINVALUE) TO (10, 'm');
CREATE TABLE by_range_2 (c date, b text COLLATE "C", a int);
ALTER TABLE by_range ATTACH PARTITION by_range_2 FOR VALUES FROM (10, 'm') TO (20, MAXVALUE);
CREATE TABLE by_range_rest PARTITION OF by_range DEFAULT;
INSERT INTO by_range SELECT CASE WHEN i % 10 <> 0 THEN i % 30 END, CASE WHEN i % 7 <> 0 THEN chr(97 + i % 26) END FROM generate_series(1, 500) AS i;
SELECT count(*) AS rows, count(*) FILTER (WHERE s.partition IS DISTINCT FROM t.tableoid) AS wrong
  FROM by_range AS t LEFT JOIN LATERAL index_table.shard_of('by_range', a, b) AS s ON true;

CREATE TABLE by_list (kind text, n int) PARTITION BY LIST (upper(kind));
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN ('A', 'B');
CREATE TABLE by_list_2 PARTITION OF by_list FOR VALUES IN ('C', NULL);
INSERT INTO by_list VALUES ('a'), ('B'), ('c'), (NULL);
SELECT t.kind, t.tableoid::regclass, s.partition FROM by_list AS t LEFT JOIN LATERAL index_table.shard_of('by_list', kind) AS s ON true ORDER BY 1;
SELECT * FROM index_table.shard_of('by_list', 'd');

-- Partitions that are partitioned in turn, by other columns in other places; some of them elsewhere.
CREATE SERVER one FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'one.example.com', port '5433', dbname 'shop');
CREATE SERVER two FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname 'shop');
CREATE USER MAPPING FOR CURRENT_USER SERVER one OPTIONS (user 'somebody', password 'secret');
CREATE TABLE orders (id bigint, day date, country text) PARTITION BY RANGE (day);
CREATE TABLE orders_old PARTITION OF orders FOR VALUES FROM ('2020-01-01') TO ('2025-01-01') PARTITION BY LIST (country);
CREATE TABLE orders_old_at PARTITION OF orders_old FOR VALUES IN ('at');
CREATE FOREIGN TABLE orders_old_de PARTITION OF orders_old FOR VALUES IN ('de') SERVER one OPTIONS (schema_name 'archive', table_name 'orders');
CREATE TABLE orders_new (country text, id bigint, day date) PARTITION BY HASH (id, day);
CREATE FOREIGN TABLE orders_new_0 PARTITION OF orders_new FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER two;
CREATE FOREIGN TABLE orders_new_1 PARTITION OF orders_new FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER one OPTIONS (table_name 'o1');
ALTER TABLE orders ATTACH PARTITION orders_new FOR VALUES FROM ('2025-01-01') TO ('2027-01-01');
SELECT * FROM index_table.shard_of('orders', '2024-05-05', 'de');
SELECT * FROM index_table.shard_of('orders', date '2024-05-05', 'at'::varchar);
SELECT * FROM index_table.shard_of('orders', '2024-05-05', 'fr');
SELECT * FROM index_table.shard_of('orders', '2024-05-05');
SELECT * FROM index_table.shard_of('orders', '2028-01-01');
SELECT * FROM index_table.shard_of('orders');
SELECT * FROM index_table.shard_of('orders', VARIADIC ARRAY['2026-05-05', '2']);
SELECT count(*) AS rows, count(*) FILTER (WHERE NOT satisfies_hash_partition('orders_new'::regclass, 2, right(partition::text, 1)::int, id, date '2026-05-05')) AS wrong
  FROM generate_series(1, 100::bigint) AS id, index_table.shard_of('orders', '2026-05-05', id);
SELECT * FROM index_table.shard_of('orders_new', 7, '2026-05-05');
SELECT * FROM index_table.shard_of('orders_old_de');

-- What is wrong with the arguments.
SELECT * FROM index_table.shard_of('orders', '2024-05-05', 'de', 1);
\echo :SQLSTATE
SELECT * FROM index_table.shard_of('by_hash', 'x', 'y');
\echo :SQLSTATE
SELECT * FROM index_table.shard_of('by_hash', point '(1,1)', 'y');
\echo :SQLSTATE
SELECT * FROM index_table.shard_of(NULL, 1);
\echo :SQLSTATE
SELECT * FROM index_table.shard_of('orders', VARIADIC NULL::text[]);
\echo :SQLSTATE
SELECT * FROM index_table.shard_of('pg_class_oid_index', 1);
\echo :SQLSTATE
CREATE ROLE regress_reader;
GRANT USAGE ON SCHEMA shards TO regress_reader;
SET ROLE regress_reader;
SELECT * FROM index_table.shard_of('orders', '2024-05-05');
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (day) ON orders TO regress_reader;
SET ROLE regress_reader;
SELECT * FROM index_table.shard_of('orders', '2024-05-05');
RESET ROLE;

-- The partitions that a key touches. The oracle is a count over the base table.
CREATE TABLE customers (id int PRIMARY KEY, town text, name text) PARTITION BY HASH (id);
SELECT format('CREATE TABLE customers_%s PARTITION OF customers FOR VALUES WITH (MODULUS 3, REMAINDER %1$s)', i) FROM generate_series(0, 2) AS i \gexec
INSERT INTO customers SELECT i, CASE WHEN i % 11 <> 0 THEN 'town ' || i % 40 END, 'name ' || i % 3 FROM generate_series(1, 150) AS i;
SELECT index_table.create('customers', 'town, name');
CREATE FUNCTION differing(town text) RETURNS TABLE (partition regclass, server name, entries bigint) LANGUAGE sql AS $$
    (SELECT * FROM index_table.shards('customers_by_town_name', $1)
     EXCEPT ALL SELECT tableoid::regclass, NULL, count(*) FROM customers AS c WHERE c.town IS NOT DISTINCT FROM $1 GROUP BY 1)
    UNION ALL
    (SELECT tableoid::regclass, NULL, count(*) FROM customers AS c WHERE c.town IS NOT DISTINCT FROM $1 GROUP BY 1
     EXCEPT ALL SELECT * FROM index_table.shards('customers_by_town_name', $1))
$$;
SELECT * FROM index_table.shards('customers_by_town_name', 'town 7') ORDER BY 1;
SELECT * FROM index_table.shards('customers_by_town_name', 'town 7', 'name 1') ORDER BY 1;
SELECT * FROM index_table.shards('customers_by_town_name', 'nowhere');
SELECT * FROM index_table.shards('customers_by_town_name') ORDER BY 1;
SELECT d.* FROM (SELECT DISTINCT town FROM customers) AS t, differing(t.town) AS d;
TRUNCATE customers_1;
SELECT * FROM index_table.shards('customers_by_town_name') ORDER BY 1;
SELECT d.* FROM (SELECT DISTINCT town FROM customers) AS t, differing(t.town) AS d;
GRANT SELECT (id, town, name) ON customers TO regress_reader;
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY some_of_them ON customers FOR SELECT USING (name = 'name 1');
SET ROLE regress_reader;
SELECT sum(entries), (SELECT count(id) FROM customers) FROM index_table.shards('customers_by_town_name');
RESET ROLE;
REVOKE SELECT (town) ON customers FROM regress_reader;
SET ROLE regress_reader;
SELECT * FROM index_table.shards('customers_by_town_name', 'town 7');
\echo :SQLSTATE
RESET ROLE;
SELECT * FROM index_table.shards('customers_by_town_name', 1, 2, 3);
\echo :SQLSTATE
SELECT * FROM index_table.shards('customers');
\echo :SQLSTATE

DROP SCHEMA shards CASCADE;
DROP SERVER one CASCADE;
DROP SERVER two;
DROP ROLE regress_reader;
