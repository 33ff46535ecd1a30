-- Queries through global indexes: which use them, and that they return what they would without.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_scan;
SET search_path = global_scan;
\i sql/include/oracle.sql

-- What EXPLAIN shows, without what not every version of PostgreSQL adds.
CREATE FUNCTION plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
        CONTINUE WHEN line ~ 'Replaces: MinMaxAggregate'; -- since 19, which has names for such plans
        RETURN NEXT regexp_replace(replace(line, 'InitPlan minmax_1', 'InitPlan 1'), ' \(returns \$\d+\)|\.00(?= loops)|\n *"Disabled": false,', '', 'g');
    END LOOP;
END $$;
-- The indexes that a query reads, 'partitions' where it reads partitions.
CREATE FUNCTION reads(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ '(Index Table|Global Index): ' THEN found := found || substring(line, '(?:Index Table|Global Index): (.*)'); END IF;
        IF line ~ ' on \w+_p\d' OR line ~ 'All Partitions' THEN found := found || 'partitions'::text; END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT f, ', ' ORDER BY f) FROM unnest(found) AS f);
END $$;
-- Whether a query yields the same rows with indexes over all partitions and without.
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE differences bigint; before text := current_setting('index_table.enable_scan');
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    EXECUTE 'CREATE TEMP TABLE through ON COMMIT DROP AS ' || query;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE 'CREATE TEMP TABLE native ON COMMIT DROP AS ' || query;
    EXECUTE 'SELECT count(*) FROM ((TABLE through EXCEPT ALL TABLE native) UNION ALL (TABLE native EXCEPT ALL TABLE through)) AS d'
       INTO differences;
    DROP TABLE through, native;
    PERFORM set_config('index_table.enable_scan', before, true);
    RETURN differences = 0;
END $$;
-- Its rows in their order.
CREATE FUNCTION rows_of(query text, scan text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text; before text := current_setting('index_table.enable_scan');
BEGIN
    PERFORM set_config('index_table.enable_scan', scan, true);
    EXECUTE format('SELECT string_agg(q::text, E''\n'') FROM (%s) AS q', query) INTO found;
    PERFORM set_config('index_table.enable_scan', before, true);
    RETURN found;
END $$;

-- 64 partitions, two of them with another row layout.
CREATE TABLE customers (
    gone        int,
    customer_id int,
    email       text COLLATE "C",
    town        text,
    last_name   text,
    balance     numeric,
    name        name,
    deleted_at  date
) PARTITION BY HASH (customer_id);
SELECT format('CREATE TABLE customers_p%s PARTITION OF customers FOR VALUES WITH (MODULUS 64, REMAINDER %s)', i, i)
  FROM generate_series(0, 61) AS i \gexec
ALTER TABLE customers DROP COLUMN gone;
CREATE TABLE customers_p62 (deleted_at date, name name, town text, extra int, email text COLLATE "C", balance numeric,
                            last_name text, customer_id int);
ALTER TABLE customers_p62 DROP COLUMN extra;
ALTER TABLE customers ATTACH PARTITION customers_p62 FOR VALUES WITH (MODULUS 64, REMAINDER 62);
CREATE TABLE customers_p63 PARTITION OF customers FOR VALUES WITH (MODULUS 64, REMAINDER 63);
INSERT INTO customers
SELECT i, CASE WHEN i % 50 > 0 THEN 'User' || i || '@example.com' END, 'Town ' || i % 200, 'Name ' || i % 37,
       CASE WHEN i % 11 > 0 THEN i % 100 END, 'n' || i % 400, CASE WHEN i % 100 = 0 THEN date '2024-01-01' + i % 30 END
  FROM generate_series(1, 8000) AS i;
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C", amount int);
INSERT INTO orders SELECT i, 'User' || i * 7 || '@example.com', i FROM generate_series(1, 1000) AS i;
ANALYZE customers, orders;

CREATE INDEX customers_email ON customers USING global (email);
CREATE INDEX customers_town ON customers USING global (town, last_name DESC NULLS LAST);
CREATE INDEX customers_lower ON customers USING global (lower(email), customer_id);
CREATE INDEX customers_name ON customers USING global (name);
CREATE INDEX customers_deleted ON customers USING global (deleted_at) WHERE deleted_at IS NOT NULL;

-- Plans.
SELECT plan($$ SELECT * FROM customers WHERE email = 'User7@example.com' $$);
SELECT plan($$ SELECT * FROM customers WHERE email = 'User7@example.com' AND balance > 5 $$);
SELECT plan($$ SELECT town, last_name, balance FROM customers WHERE town = 'Town 7' AND last_name > 'Name 3' $$);
SELECT plan($$ SELECT last_name FROM customers WHERE town = 'Town 7' ORDER BY last_name NULLS FIRST LIMIT 3 $$);
SELECT plan($$ SELECT max(email) FROM customers $$);
SELECT plan($$ SELECT c.* FROM orders o JOIN customers c USING (email) WHERE o.order_id = 17 $$);
SELECT plan($$ UPDATE customers SET balance = 1 WHERE email = 'User7@example.com' $$);
EXPLAIN (COSTS OFF, VERBOSE) SELECT town FROM customers AS c WHERE lower(email) = 'user7@example.com';
SELECT plan($$ SELECT balance FROM customers WHERE email = 'User7@example.com' $$, 'COSTS OFF, FORMAT JSON');
SELECT plan($$ SELECT * FROM customers WHERE email IN ('User7@example.com', 'User8@example.com', 'nobody') $$,
            'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF');

-- What is served.
SELECT query, reads(query), same(query) FROM (VALUES
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM customers WHERE 'User7@example.com' = email $$),
    ($$ SELECT * FROM customers WHERE email IN ('User7@example.com', 'User8@example.com') $$),
    ($$ SELECT * FROM customers WHERE email = ANY (ARRAY['User7@example.com', NULL]) $$),
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' OR 'User9@example.com' = email $$),
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' OR town = 'Town 7' $$),
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' OR (town = 'Town 7' AND last_name < 'Name 2') OR lower(email) LIKE 'user77%' $$),
    ($$ SELECT * FROM customers WHERE (email = 'User7@example.com' OR deleted_at = '2024-01-11') AND balance IS NOT NULL $$),
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' OR balance = 7 $$),
    ($$ SELECT o.*, (SELECT count(*) FROM customers c WHERE c.email = o.email OR c.town = 'Town ' || o.amount) FROM orders o WHERE order_id < 20 $$),
    ($$ SELECT * FROM customers WHERE email BETWEEN 'User77' AND 'User779' $$),
    ($$ SELECT * FROM customers WHERE email LIKE 'User77%' $$),
    ($$ SELECT * FROM customers WHERE email > 'User999' $$),
    ($$ SELECT * FROM customers WHERE email IS NULL $$),
    ($$ SELECT * FROM customers WHERE lower(email) = 'user77@example.com' $$),
    ($$ SELECT * FROM customers WHERE name = 'n77' $$),
    ($$ SELECT name FROM customers WHERE name IN ('n77', 'n78') $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' AND last_name = 'Name 5' $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' AND balance IS NULL $$),
    ($$ SELECT * FROM customers WHERE (town, last_name) = ('Town 5', 'Name 5') $$),
    ($$ SELECT * FROM customers WHERE (lower(email), customer_id) > ('user999', 7) $$),
    ($$ SELECT customer_id FROM customers WHERE deleted_at = '2024-01-11' $$),
    ($$ SELECT count(*) FROM customers WHERE town = 'Town 5' $$),
    ($$ SELECT min(email), max(email) FROM customers $$),
    ($$ SELECT tableoid::regclass AS t, ctid AS c, customers FROM customers WHERE email = 'User62@example.com' $$),
    ($$ SELECT upper(town) FROM customers WHERE email = 'User62@example.com' $$),
    ($$ SELECT 1 FROM customers WHERE email = 'User62@example.com' $$),
    ($$ SELECT c.*, o.amount FROM orders o JOIN customers c ON c.email = o.email WHERE o.order_id < 5 $$),
    ($$ SELECT c.*, o.amount FROM orders o LEFT JOIN customers c ON c.email = o.email WHERE o.order_id BETWEEN 48 AND 52 $$),
    ($$ SELECT c.*, o.amount FROM orders o JOIN customers c ON c.email = o.email AND o.email = 'User7@example.com' $$),
    ($$ SELECT a.customer_id, b.email FROM customers a JOIN customers b ON a.email = b.email WHERE b.town = 'Town 5' AND b.last_name = 'Name 5' $$),
    ($$ SELECT * FROM customers WHERE email IN (SELECT email FROM orders WHERE order_id < 4) $$),
    ($$ SELECT o.*, (SELECT c.town FROM customers c WHERE c.email = o.email) FROM orders o WHERE order_id < 20 $$),
    ($$ SELECT o.*, c.town FROM orders o, LATERAL (SELECT * FROM customers c WHERE c.email = o.email ORDER BY balance LIMIT 1) c WHERE order_id < 20 $$),
    ($$ SELECT * FROM orders o WHERE order_id < 100 AND NOT EXISTS (SELECT FROM customers c WHERE c.email = o.email) $$),
    ($$ WITH c AS MATERIALIZED (SELECT * FROM customers WHERE email = 'User7@example.com') SELECT * FROM c $$),
    ($$ SELECT email FROM customers WHERE email = 'User7@example.com' UNION ALL SELECT town FROM customers WHERE town = 'Town 5' $$),
    ($$ SELECT town, count(*) FROM customers WHERE town IN ('Town 5', 'Town 6') GROUP BY town HAVING count(*) > 1 $$),
    ($$ SELECT row_number() OVER (ORDER BY customer_id), email FROM customers WHERE town = 'Town 5' $$)) AS q(query);

-- Rows are changed and locked as well.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' FOR UPDATE $$),
    ($$ SELECT * FROM customers AS c, orders AS o WHERE c.email = 'User7@example.com' AND o.order_id = 1 FOR SHARE OF c SKIP LOCKED $$),
    ($$ UPDATE customers SET balance = 1 FROM orders WHERE orders.email = customers.email AND order_id = 1 $$),
    ($$ UPDATE orders SET amount = 1 FROM customers WHERE orders.order_id = 1 AND customers.email = 'User7@example.com' $$),
    ($$ DELETE FROM customers WHERE email = 'User7@example.com' $$),
    ($$ MERGE INTO customers USING orders ON orders.email = customers.email AND order_id = 1 WHEN MATCHED THEN DELETE $$),
    ($$ WITH d AS (DELETE FROM customers WHERE email = 'User7@example.com' RETURNING *) SELECT * FROM d $$)) AS q(query);

-- What is left to PostgreSQL.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM customers $$),
    ($$ SELECT * FROM customers WHERE balance = 5 $$),
    ($$ SELECT * FROM customers WHERE town > 'A' $$),
    ($$ UPDATE customers SET balance = 1 $$),
    ($$ SELECT * FROM customers WHERE customer_id = 7 AND email = 'User7@example.com' $$),
    ($$ SELECT xmin FROM customers WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM customers TABLESAMPLE SYSTEM (50) WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM ONLY customers WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM customers_p3 WHERE email = 'User7@example.com' $$)) AS q(query);

-- Order, forward and backward, from the middle; compared row by row.
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT * FROM customers ORDER BY email LIMIT 5 $$),
    ($$ SELECT * FROM customers ORDER BY email DESC NULLS LAST, customer_id LIMIT 5 $$),
    ($$ SELECT email FROM customers WHERE email IS NOT NULL ORDER BY email DESC LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE email >= 'User5' ORDER BY email LIMIT 20 $$),
    ($$ SELECT * FROM customers WHERE email < 'User5' ORDER BY email DESC LIMIT 20 $$),
    ($$ SELECT * FROM customers WHERE balance > 50 AND email IS NOT NULL ORDER BY email LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' ORDER BY last_name DESC NULLS LAST, customer_id LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' ORDER BY last_name NULLS FIRST, customer_id DESC LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE (lower(email), customer_id) > ('user5', 7) ORDER BY lower(email), customer_id LIMIT 5 $$),
    ($$ SELECT town, last_name FROM customers ORDER BY town DESC, last_name NULLS FIRST LIMIT 5 $$)) AS q(query);

-- A cursor that goes back.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT customer_id, email FROM customers WHERE email > 'User5' ORDER BY email;
FETCH 2 FROM c;
FETCH 1 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 2 FROM c;
COMMIT;

-- Cursors and loops over queries: which read partitions, and that all yield the same.
CREATE FUNCTION looped(query_key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; found text := ''; c SCROLL CURSOR (k text) FOR SELECT customer_id FROM customers WHERE email = k;
BEGIN
    FOR r IN SELECT customer_id FROM customers WHERE email = query_key LOOP found := found || r.customer_id || ' loop '; END LOOP;
    FOR r IN c (query_key) LOOP found := found || r.customer_id || ' cursor '; END LOOP;
    RETURN found || (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^customers_p\d+$') || ' partitions locked';
END $$;
CREATE FUNCTION by_sql(query_key text) RETURNS SETOF int LANGUAGE sql VOLATILE AS $$ SELECT customer_id FROM customers WHERE email = query_key $$;
SELECT looped('User7@example.com');
BEGIN;
SELECT by_sql('User7@example.com');
SELECT count(*) AS locked FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^customers_p\d+$';
COMMIT;
SELECT reads(q || $$ CURSOR FOR SELECT customer_id FROM customers WHERE email = 'User7@example.com' $$ || r), q, r
  FROM unnest('{DECLARE c, DECLARE c SCROLL, DECLARE c INSENSITIVE}'::text[]) AS q, unnest('{"", ORDER BY email, FOR UPDATE}'::text[]) AS r
 WHERE q = 'DECLARE c' OR r <> 'FOR UPDATE';
SELECT reads($$ DECLARE c CURSOR WITH HOLD FOR SELECT customer_id FROM customers WHERE email = 'User7@example.com' $$),
       reads($$ DECLARE c CURSOR FOR SELECT count(*) FROM customers WHERE email = 'User7@example.com' $$),
       reads($$ DECLARE c CURSOR FOR SELECT * FROM (SELECT customer_id FROM customers WHERE email = 'User7@example.com' LIMIT 5) AS s $$);
-- WHERE CURRENT OF: of those that PostgreSQL plans.
BEGIN;
DECLARE u CURSOR FOR SELECT * FROM customers WHERE email = 'User7@example.com';
MOVE u;
UPDATE customers SET balance = -7 WHERE CURRENT OF u;
DECLARE l CURSOR FOR SELECT * FROM customers WHERE email = 'User8@example.com' ORDER BY email FOR UPDATE;
MOVE l;
DELETE FROM customers WHERE CURRENT OF l;
SELECT email, balance FROM customers WHERE email IN ('User7@example.com', 'User8@example.com');
DECLARE s INSENSITIVE CURSOR FOR SELECT * FROM customers WHERE email = 'User9@example.com';
MOVE s;
UPDATE customers SET balance = -9 WHERE CURRENT OF s;
ROLLBACK;
-- A cursor sees neither what its transaction does later nor misses what it gives other places.
BEGIN;
DECLARE c INSENSITIVE CURSOR FOR SELECT customer_id FROM customers WHERE email BETWEEN 'User700' AND 'User7010' ORDER BY email;
DECLARE h CURSOR WITH HOLD FOR SELECT customer_id FROM customers WHERE email BETWEEN 'User70' AND 'User71' ORDER BY email;
FETCH 1 FROM c;
DO $$
DECLARE p oid;
BEGIN
    FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'customers'::regclass AND inhrelid NOT IN (SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND relation IS NOT NULL) LOOP
        EXECUTE format('REINDEX TABLE %s', p::regclass);
    END LOOP;
END $$;
UPDATE customers SET balance = 1 WHERE email = 'User7009@example.com';
DELETE FROM customers WHERE email = 'User7009@example.com';
FETCH ALL FROM c;
FETCH 1 FROM h;
COMMIT;
FETCH 2 FROM h;
CLOSE h;

-- Settings.
SET index_table.enable_scan = off;
SELECT reads($$ SELECT * FROM customers WHERE email = 'User7@example.com' $$);
SET index_table.enable_scan = force;
SELECT reads($$ SELECT * FROM customers WHERE town > 'A' $$), same($$ SELECT * FROM customers WHERE town > 'A' $$);
RESET index_table.enable_scan;

-- Prepared statements, with plans of their own and generic ones, across DDL.
SET plan_cache_mode = force_generic_plan;
PREPARE by_email(text) AS SELECT customer_id, town FROM customers WHERE email = $1;
EXPLAIN (COSTS OFF) EXECUTE by_email('User7@example.com');
EXECUTE by_email('User7@example.com');
EXECUTE by_email(NULL);
DROP INDEX customers_email;
EXECUTE by_email('User7@example.com');
EXPLAIN (COSTS OFF) SELECT * FROM customers WHERE email = 'User7@example.com' AND customer_id = 7;
CREATE INDEX customers_email ON customers USING global (email) INCLUDE (town) WITH (unique);
EXECUTE by_email('User7@example.com');
EXPLAIN (COSTS OFF) EXECUTE by_email('User7@example.com');
ALTER TABLE customers ADD COLUMN added int DEFAULT 3;
SELECT customer_id, town, added FROM customers WHERE email = 'User7@example.com';
EXECUTE by_email('User7@example.com');
RESET plan_cache_mode;

-- Partitions that leave, are emptied, join.
PREPARE held AS SELECT customer_id, town FROM customers WHERE town = 'Town 7' AND customer_id IN (7, 207, 407);
SELECT count(*) FROM customers WHERE email IS NOT NULL AND town = 'Town 7';
SELECT tableoid::regclass AS partition FROM customers WHERE email = 'User7@example.com' \gset
TRUNCATE :partition;
SELECT count(*) FROM customers WHERE email = 'User7@example.com';
SELECT same($$ SELECT * FROM customers WHERE town = 'Town 7' $$);
INSERT INTO customers (customer_id, email, town) VALUES (7, 'User7@example.com', 'Town 7');
SELECT customer_id, town, added FROM customers WHERE email = 'User7@example.com';
BEGIN;
TRUNCATE :partition;
SELECT count(*) FROM customers WHERE email = 'User7@example.com';
ROLLBACK;
SELECT customer_id, town, added FROM customers WHERE email = 'User7@example.com';
ALTER TABLE customers DETACH PARTITION :partition;
SELECT count(*) FROM customers WHERE email = 'User7@example.com';
SELECT same($$ SELECT * FROM customers WHERE town = 'Town 7' $$);
SELECT format('ALTER TABLE customers ATTACH PARTITION %s FOR VALUES WITH (MODULUS 64, REMAINDER %s)', :'partition', substring(:'partition', '\d+$')) \gexec
SELECT customer_id, town, added FROM customers WHERE email = 'User7@example.com';
SELECT same($$ SELECT * FROM customers WHERE town = 'Town 7' $$);

-- Index tables beside them: the conditions of an OR may need one of each kind.
ALTER TABLE customers ADD PRIMARY KEY (customer_id);
SELECT index_table.create('customers', 'balance', name => 'customers_by_balance');
INSERT INTO recomputation VALUES ('customers_by_balance', 'balance, partition_id, customer_id', 'customers b');
SELECT plan($$ SELECT * FROM customers WHERE email = 'User7@example.com' OR balance = 7.5 $$);
SELECT query, reads(query), same(query) FROM (VALUES
    ($$ SELECT * FROM customers WHERE balance = 77 $$),
    ($$ SELECT * FROM customers WHERE email = 'User77@example.com' $$),
    ($$ SELECT * FROM customers WHERE email = 'User77@example.com' OR balance = 77 $$),
    ($$ SELECT * FROM customers WHERE email = 'User77@example.com' OR balance = 7.5 $$)) AS q(query);

-- Two levels of partitions, by range and list, every kind of key; changes are those of a table without partitions.
CREATE TABLE parted (id int, region text, k int, note text COLLATE "C", at timestamp, v int DEFAULT 0) PARTITION BY LIST (region);
CREATE TABLE parted_north PARTITION OF parted FOR VALUES IN ('north') PARTITION BY RANGE (id);
CREATE TABLE parted_north_p1 PARTITION OF parted_north FOR VALUES FROM (MINVALUE) TO (500);
CREATE TABLE parted_north_p2 (v int DEFAULT 0, gone int, at timestamp, note text COLLATE "C", k int, region text, id int);
ALTER TABLE parted_north_p2 DROP COLUMN gone;
ALTER TABLE parted_north ATTACH PARTITION parted_north_p2 FOR VALUES FROM (500) TO (MAXVALUE);
CREATE TABLE parted_p3 PARTITION OF parted FOR VALUES IN ('south');
CREATE TABLE parted_p4 PARTITION OF parted DEFAULT;
CREATE TABLE plain (id int, region text, k int, note text COLLATE "C", at timestamp, v int DEFAULT 0);
CREATE INDEX parted_k ON parted USING global (k DESC NULLS FIRST, note);
CREATE INDEX parted_t ON parted USING global (note text_pattern_ops, at);
CREATE INDEX parted_even ON parted USING global ((k % 100)) WHERE v = 0;
CREATE INDEX plain_k ON plain (k);
\i sql/include/on_both.sql
SET index_table.enable_scan = force;
SELECT on_both($$ INSERT INTO t SELECT i, (ARRAY['north', 'south', 'east'])[i % 3 + 1], nullif(i / 2, 7), 'n' || i % 50, timestamp '2024-01-01' + i * interval '1 hour' FROM generate_series(1, 1000) AS i $$);
ANALYZE parted, plain;
SELECT query, reads(query), same(query) FROM (VALUES
    ($$ SELECT * FROM parted WHERE k = 77 $$),
    ($$ SELECT * FROM parted WHERE k IS NULL $$),
    ($$ SELECT * FROM parted WHERE k IS NULL OR k = 8 $$),
    ($$ SELECT * FROM parted WHERE k < 8 AND note > 'n3' $$),
    ($$ SELECT * FROM parted WHERE (k, note) = (77, 'n4') $$),
    ($$ SELECT * FROM parted WHERE (k, note) < (77, 'n4') $$),
    ($$ SELECT * FROM parted WHERE note LIKE 'n4%' AND at > '2024-01-20' $$),
    ($$ SELECT * FROM parted WHERE note = ANY (ARRAY['n4', 'n5', 'n5']) AND at > '2024-01-20' $$),
    ($$ SELECT * FROM parted WHERE k % 100 = 7 AND v = 0 $$),
    ($$ SELECT * FROM parted WHERE k % 100 = 7 $$)) AS q(query);
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT k, note FROM parted ORDER BY k DESC NULLS FIRST, note LIMIT 7 $$),
    ($$ SELECT k, note FROM parted ORDER BY k NULLS LAST, note DESC LIMIT 7 $$),
    ($$ SELECT k, note FROM parted WHERE k IS NULL ORDER BY k, note LIMIT 7 $$),
    ($$ SELECT k, note FROM parted WHERE k <= 10 ORDER BY k DESC NULLS FIRST, note LIMIT 7 $$),
    ($$ SELECT id, at FROM parted WHERE note = 'n7' ORDER BY at DESC LIMIT 7 $$),
    ($$ SELECT max(at) FROM parted WHERE note = 'n7' $$)) AS q(query);
SELECT on_both($$ UPDATE t SET v = v + 1 WHERE k = 77 RETURNING id, v $$);
SELECT on_both($$ UPDATE t SET k = k + 1 WHERE k BETWEEN 10 AND 30 $$);
SELECT on_both($$ UPDATE t SET k = 31, region = 'south' WHERE k = 40 RETURNING id, region, k $$);
SELECT on_both($$ UPDATE t SET id = id + 600 WHERE k = 31 AND region = 'north' $$);
SELECT on_both($$ DELETE FROM t WHERE k = 33 RETURNING id $$);
SELECT on_both($$ MERGE INTO t USING (VALUES (50), (51), (99999)) AS s(x) ON t.k = s.x WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 9, k = -1 $$);
SELECT on_both($$ SELECT * FROM t WHERE k = 31 ORDER BY id FOR UPDATE $$);
SELECT on_both($$ UPDATE t SET v = o.v + 100 FROM t AS o WHERE t.k = o.k AND o.id = 200 RETURNING t.id, t.v $$);
SELECT on_both($$ INSERT INTO t VALUES (2001, 'north', 777, 'x'), (2002, 'west', 777, 'x') RETURNING id $$);
SELECT on_both($$ WITH d AS (DELETE FROM t USING (VALUES (777)) AS s(x) WHERE t.k = s.x RETURNING id) SELECT * FROM d ORDER BY id $$);
RESET index_table.enable_scan;
(TABLE parted EXCEPT ALL TABLE plain) UNION ALL (TABLE plain EXCEPT ALL TABLE parted);
SELECT same($$ SELECT * FROM parted WHERE k < 1000 $$), same($$ SELECT * FROM parted WHERE note > 'n' $$),
       same($$ SELECT * FROM parted WHERE k % 100 < 50 AND v = 0 $$);
VACUUM parted;
SELECT same($$ SELECT * FROM parted WHERE k < 1000 $$), same($$ SELECT * FROM parted WHERE note > 'n' $$),
       same($$ SELECT * FROM parted WHERE k % 100 < 50 AND v = 0 $$);

-- Sessions recall which partition has an extent. Here 66 are freed, which is enough for them to be given to others.
CREATE TABLE regiven (part int, v int) PARTITION BY LIST (part);
DO $$ BEGIN FOR i IN 1..80 LOOP EXECUTE format('CREATE TABLE regiven_p%s PARTITION OF regiven FOR VALUES IN (%s)', i, i); END LOOP; END $$;
INSERT INTO regiven SELECT i, i FROM generate_series(1, 70) AS i;
CREATE INDEX regiven_v ON regiven USING global (v);
SELECT index_table.vacuum('regiven_v');
SET index_table.enable_scan = force;
PREPARE look_up AS SELECT count(*) FROM generate_series(1, 80) AS i, LATERAL (SELECT * FROM regiven WHERE v = i OFFSET 0) AS r;
EXECUTE look_up;
DO $$ BEGIN FOR i IN 1..66 LOOP EXECUTE format('TRUNCATE regiven_p%s', i); END LOOP; END $$;
INSERT INTO regiven SELECT 70, i FROM generate_series(1, 66) AS i;
SELECT index_table.vacuum('regiven_v');
INSERT INTO regiven SELECT i, i FROM generate_series(71, 80) AS i;
EXECUTE look_up;
RESET index_table.enable_scan;
SELECT same($$ SELECT * FROM regiven WHERE v < 78 $$);
DROP TABLE regiven;

SELECT * FROM differences();
SET client_min_messages = error;
DROP SCHEMA global_scan CASCADE;
