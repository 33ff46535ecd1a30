-- Plain SELECTs through index tables: which queries use them, and that they return what they would
-- without.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA scan;
SET search_path = scan;

-- What EXPLAIN shows, without numbers that vary and what not every version of PostgreSQL adds.
CREATE FUNCTION plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
        CONTINUE WHEN line ~ 'Replaces: MinMaxAggregate'; -- since 19, which has names for such plans
        RETURN NEXT regexp_replace(replace(line, 'InitPlan minmax_1', 'InitPlan 1'), ' \(returns \$\d+\)|\.00(?= loops)|\n *"Disabled": false,', '', 'g');
    END LOOP;
END $$;
-- The index tables that a query reads, 'partitions' where it reads partitions.
CREATE FUNCTION reads(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Index Table: ' THEN found := found || substring(line, 'Index Table: (.*)'); END IF;
        IF line ~ ' on \w+_p\d' OR line ~ 'All Partitions' THEN found := found || 'partitions'::text; END IF;
    END LOOP;
    RETURN (SELECT string_agg(DISTINCT f, ', ' ORDER BY f) FROM unnest(found) AS f);
END $$;
-- Whether a query yields the same rows with index tables and without.
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE differences bigint; used boolean;
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    EXECUTE 'CREATE TEMP TABLE through ON COMMIT DROP AS ' || query;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE 'CREATE TEMP TABLE native ON COMMIT DROP AS ' || query;
    EXECUTE 'SELECT count(*) FROM ((TABLE through EXCEPT ALL TABLE native) UNION ALL (TABLE native EXCEPT ALL TABLE through)) AS d'
       INTO differences;
    DROP TABLE through, native;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN differences = 0;
END $$;

-- 64 partitions, two of them with another row layout.
CREATE TABLE customers (
    gone        int,
    customer_id int PRIMARY KEY,
    email       text COLLATE "C",
    town        text,
    last_name   text,
    balance     numeric,
    phones      text[],
    deleted_at  date
) PARTITION BY HASH (customer_id);
SELECT format('CREATE TABLE customers_p%s PARTITION OF customers FOR VALUES WITH (MODULUS 64, REMAINDER %s)', i, i)
  FROM generate_series(0, 61) AS i \gexec
ALTER TABLE customers DROP COLUMN gone;
CREATE TABLE customers_p62 (deleted_at date, phones text[], town text, extra int, email text COLLATE "C", balance numeric,
                            last_name text, customer_id int NOT NULL);
ALTER TABLE customers_p62 DROP COLUMN extra;
ALTER TABLE customers ATTACH PARTITION customers_p62 FOR VALUES WITH (MODULUS 64, REMAINDER 62);
CREATE TABLE customers_p63 PARTITION OF customers FOR VALUES WITH (MODULUS 64, REMAINDER 63);
INSERT INTO customers
SELECT i, CASE WHEN i % 50 > 0 THEN 'User' || i || '@example.com' END, 'Town ' || i % 200, 'Name ' || i % 37,
       CASE WHEN i % 11 > 0 THEN i % 100 END, CASE WHEN i % 7 > 0 THEN ARRAY['a' || i % 300, 'b' || i % 200] END,
       CASE WHEN i % 100 = 0 THEN date '2024-01-01' + i % 30 END
  FROM generate_series(1, 8000) AS i;
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C", amount int);
INSERT INTO orders SELECT i, 'User' || i * 7 || '@example.com', i FROM generate_series(1, 1000) AS i;
ANALYZE customers, orders;

SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('customers', 'town, last_name DESC', 'partial', include => 'balance');
SELECT index_table.create('customers', 'lower(email)');
SELECT index_table.create('customers', 'unnest(phones)');
SELECT index_table.create('customers', 'deleted_at', predicate => 'deleted_at IS NOT NULL', name => 'customers_deleted');

-- Plans.
SELECT plan($$ SELECT * FROM customers WHERE email = 'User7@example.com' $$);
SELECT plan($$ SELECT * FROM customers WHERE email = 'User7@example.com' AND balance > 5 $$);
SELECT plan($$ SELECT town, last_name, balance, customer_id FROM customers WHERE town = 'Town 7' AND last_name > 'Name 3' $$);
SELECT plan($$ SELECT last_name FROM customers WHERE town = 'Town 7' ORDER BY last_name LIMIT 3 $$);
SELECT plan($$ SELECT max(email) FROM customers $$);
SELECT plan($$ SELECT * FROM customers WHERE 'a17' = ANY (phones) $$);
SELECT plan($$ SELECT c.* FROM orders o JOIN customers c USING (email) WHERE o.order_id = 17 $$);
EXPLAIN (COSTS OFF, VERBOSE) SELECT town FROM customers AS c WHERE lower(email) = 'user7@example.com';
SELECT plan($$ SELECT town FROM customers WHERE email = 'User7@example.com' $$, 'COSTS OFF, FORMAT JSON');
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
    ($$ SELECT * FROM customers WHERE town = 'Town 5' $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' AND last_name = 'Name 5' $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' AND balance IS NULL $$),
    ($$ SELECT * FROM customers WHERE (town, last_name) = ('Town 5', 'Name 5') $$),
    ($$ SELECT * FROM customers WHERE phones @> ARRAY['a5'] $$),
    ($$ SELECT * FROM customers WHERE phones @> ARRAY['a5', 'b5'] $$),
    ($$ SELECT * FROM customers WHERE ARRAY['a5'] <@ phones AND town = 'Town 5' $$),
    ($$ SELECT * FROM customers WHERE 'a5' = ANY (phones) $$),
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

-- Rows are changed and locked as well. What is left to PostgreSQL: the whole partition key, and what is no base table.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM customers WHERE email = 'User7@example.com' FOR UPDATE $$),
    ($$ SELECT * FROM customers AS c, orders AS o WHERE c.email = 'User7@example.com' AND o.order_id = 1 FOR SHARE OF c SKIP LOCKED $$),
    ($$ UPDATE customers SET balance = 1 WHERE email = 'User7@example.com' $$),
    ($$ UPDATE customers SET balance = 1 FROM orders WHERE orders.email = customers.email AND order_id = 1 $$),
    ($$ UPDATE orders SET amount = 1 FROM customers WHERE orders.order_id = 1 AND customers.email = 'User7@example.com' $$),
    ($$ DELETE FROM customers WHERE email = 'User7@example.com' $$),
    ($$ MERGE INTO customers USING orders ON orders.email = customers.email AND order_id = 1 WHEN MATCHED THEN DELETE $$),
    ($$ WITH d AS (DELETE FROM customers WHERE email = 'User7@example.com' RETURNING *) SELECT * FROM d $$),
    ($$ UPDATE customers SET balance = 1 $$),
    ($$ UPDATE customers SET balance = 1 WHERE customer_id = 7 AND email = 'User7@example.com' $$),
    ($$ DELETE FROM customers_p3 WHERE email = 'User7@example.com' $$),
    ($$ INSERT INTO customers VALUES (7, 'User7@example.com') ON CONFLICT (customer_id) DO UPDATE SET balance = 7 $$)) AS q(query);

-- What is left to PostgreSQL: few rows of many partitions are what index tables are for.
SELECT query, reads(query) FROM (VALUES
    ($$ SELECT * FROM customers $$),
    ($$ SELECT * FROM customers WHERE balance = 5 $$),
    ($$ SELECT * FROM customers WHERE town > 'A' $$),
    ($$ SELECT * FROM customers WHERE customer_id = 7 AND email = 'User7@example.com' $$),
    ($$ SELECT xmin FROM customers WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM customers TABLESAMPLE SYSTEM (50) WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM ONLY customers WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM customers_p3 WHERE email = 'User7@example.com' $$)) AS q(query);
SELECT count(*) FROM ONLY customers;

-- Order, forward and backward, from the middle; compared row by row.
CREATE FUNCTION rows_of(query text, scan text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    PERFORM set_config('index_table.enable_scan', scan, true);
    EXECUTE format('SELECT string_agg(q::text, E''\n'') FROM (%s) AS q', query) INTO found;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN found;
END $$;
SELECT query, reads(query), rows_of(query, 'force') IS NOT DISTINCT FROM rows_of(query, 'off') AS same FROM (VALUES
    ($$ SELECT * FROM customers ORDER BY email LIMIT 5 $$),
    ($$ SELECT * FROM customers ORDER BY email DESC NULLS LAST, customer_id LIMIT 5 $$),
    ($$ SELECT email FROM customers WHERE email IS NOT NULL ORDER BY email DESC LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE email >= 'User5' ORDER BY email LIMIT 20 $$),
    ($$ SELECT * FROM customers WHERE email < 'User5' ORDER BY email DESC LIMIT 20 $$),
    ($$ SELECT * FROM customers WHERE balance > 50 AND email IS NOT NULL ORDER BY email LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' ORDER BY last_name DESC, customer_id LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE town = 'Town 5' ORDER BY last_name, customer_id DESC LIMIT 5 $$),
    ($$ SELECT * FROM customers WHERE (lower(email), customer_id) > ('user5', 7) ORDER BY lower(email), customer_id LIMIT 5 $$)) AS q(query);

-- Settings.
SET index_table.enable_scan = off;
SELECT reads($$ SELECT * FROM customers WHERE email = 'User7@example.com' $$);
SET index_table.enable_scan = force;
SELECT reads($$ SELECT * FROM customers WHERE town > 'A' $$), same($$ SELECT * FROM customers WHERE town > 'A' $$);
SET index_table.enable_scan = sometimes;
RESET index_table.enable_scan;

-- Prepared statements, with plans of their own and generic ones, across DDL.
SET plan_cache_mode = force_generic_plan;
PREPARE by_email(text) AS SELECT customer_id, town FROM customers WHERE email = $1;
EXPLAIN (COSTS OFF) EXECUTE by_email('User7@example.com');
EXECUTE by_email('User7@example.com');
SELECT index_table.drop('customers_by_email');
EXECUTE by_email('User7@example.com');
SELECT index_table.create('customers', 'email', is_unique => true);
EXECUTE by_email('User7@example.com');
EXPLAIN (COSTS OFF) EXECUTE by_email('User7@example.com');
ALTER TABLE customers ADD COLUMN added int DEFAULT 3;
EXECUTE by_email('User7@example.com');
SELECT tableoid::regclass AS partition FROM customers WHERE email = 'User7@example.com' \gset
BEGIN;
TRUNCATE :partition;
EXECUTE by_email('User7@example.com');
ROLLBACK;
BEGIN;
ALTER TABLE customers DETACH PARTITION :partition;
EXECUTE by_email('User7@example.com');
ROLLBACK;
EXECUTE by_email('User7@example.com');
RESET plan_cache_mode;
DEALLOCATE by_email;

-- Inside a statement that changes the base table: rows that its triggers have not seen yet show.
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '% %: % found', TG_WHEN, NEW.email, (SELECT count(*) FROM customers WHERE email IN ('new1', 'new2', 'new3'));
    RETURN NEW;
END $$;
CREATE TRIGGER look_before BEFORE INSERT ON customers FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER look_after AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION look();
BEGIN;
INSERT INTO customers (customer_id, email) VALUES (-1, 'new1'), (-2, 'new2'), (-3, 'new3');
SAVEPOINT s;
INSERT INTO customers (customer_id, email) VALUES (-4, 'new4');
SELECT customer_id FROM customers WHERE email IN ('new3', 'new4') ORDER BY 1;
ROLLBACK TO s;
SELECT customer_id FROM customers WHERE email IN ('new3', 'new4') ORDER BY 1;
WITH moved AS (UPDATE customers SET email = 'new5' WHERE customer_id = -3 RETURNING *)
SELECT (SELECT count(*) FROM customers WHERE email = 'new5') AS after, (SELECT count(*) FROM customers WHERE email = 'new3') AS before,
       count(*) FROM moved;
UPDATE customers SET town = (SELECT c.last_name FROM customers c WHERE c.email = 'User7@example.com') WHERE customer_id = -1;
SELECT town FROM customers WHERE email = 'new1';
ROLLBACK;
DROP TRIGGER look_before ON customers;
DROP TRIGGER look_after ON customers;

-- Cursors: scrollable, held, and one that WHERE CURRENT OF may use, which PostgreSQL plans.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT customer_id FROM customers WHERE town = 'Town 5' ORDER BY last_name, customer_id LIMIT 3;
FETCH ALL FROM c;
FETCH BACKWARD 2 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT customer_id FROM customers WHERE email = 'User7@example.com';
DECLARE u CURSOR FOR SELECT * FROM customers WHERE email = 'User7@example.com';
MOVE u;
UPDATE customers SET balance = -7 WHERE CURRENT OF u;
SELECT balance FROM customers WHERE email = 'User7@example.com';
COMMIT;
FETCH ALL FROM h;
CLOSE h;

-- Privileges on the base table alone, and row security.
CREATE ROLE regress_scan;
GRANT USAGE ON SCHEMA scan TO regress_scan;
GRANT SELECT (customer_id, email, town) ON customers TO regress_scan;
SET ROLE regress_scan;
SELECT customer_id, town FROM customers WHERE email = 'User7@example.com';
SELECT balance FROM customers WHERE email = 'User7@example.com';
SELECT customer_id FROM customers WHERE lower(email) = 'user7@example.com' AND balance > 0;
RESET ROLE;
GRANT SELECT ON customers TO regress_scan;
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON customers TO regress_scan USING (customer_id % 2 = 0);
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.001 AS $$ BEGIN RAISE WARNING 'saw %', $1; RETURN true; END $$;
CREATE FUNCTION leaky_eq(text, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.001 AS $$ BEGIN RAISE WARNING 'saw %', $1; RETURN $1 = $2; END $$;
SET ROLE regress_scan;
SELECT customer_id FROM customers WHERE email IN ('User7@example.com', 'User8@example.com') AND leak(email);
EXPLAIN (COSTS OFF) SELECT customer_id FROM customers WHERE email IN ('User7@example.com', 'User8@example.com') AND leak(email);
SELECT customer_id FROM customers WHERE lower(email) IN ('user7@example.com', 'user8@example.com');
SELECT count(*), sum(customer_id % 2) FROM customers WHERE town = 'Town 8' AND leaky_eq(last_name, 'Name 8');
RESET ROLE;
ALTER TABLE customers DISABLE ROW LEVEL SECURITY;

-- Views, also with a security barrier, and functions that are inlined.
CREATE VIEW plain AS SELECT customer_id, email, town FROM customers WHERE balance IS NOT NULL;
CREATE VIEW barrier WITH (security_barrier) AS SELECT customer_id, email, town FROM customers WHERE balance IS NOT NULL;
CREATE FUNCTION of_town(text) RETURNS SETOF customers LANGUAGE sql STABLE AS $$ SELECT * FROM customers WHERE town = $1 $$;
SELECT query, reads(query), same(query) FROM (VALUES
    ($$ SELECT * FROM plain WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM barrier WHERE email = 'User7@example.com' $$),
    ($$ SELECT * FROM of_town('Town 7') $$)) AS q(query);

-- The index tables are what they should be: the oracle, in plain SQL.
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
INSERT INTO recomputation VALUES
    ('customers_by_email', 'email, p.partition_id, customer_id', 'customers b', 'true'),
    ('customers_by_town_last_name', 'town, last_name, p.partition_id, customer_id, balance', 'customers b', 'true'),
    ('customers_by_lower', 'lower(email), p.partition_id, customer_id', 'customers b', 'true'),
    ('customers_by_unnest', 'e, p.partition_id, customer_id', 'customers b CROSS JOIN LATERAL (SELECT DISTINCT unnest(b.phones) AS e) AS t', 'true'),
    ('customers_deleted', 'deleted_at, p.partition_id, customer_id', 'customers b', 'deleted_at IS NOT NULL');
SELECT * FROM differences();
DELETE FROM customers WHERE customer_id % 3 = 0;
UPDATE customers SET email = 'x' || email WHERE customer_id % 5 = 0;
SELECT * FROM differences();
SELECT same($$ SELECT * FROM customers WHERE email LIKE 'xU%' $$);

-- An OR that is checked row by row stops at what is true, as it does without index tables.
CREATE FUNCTION fails(text) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN IF $1 = 'x' THEN RAISE 'it was asked'; END IF; RETURN $1; END $$;
SET index_table.enable_scan = force;
SET plan_cache_mode = force_generic_plan;
PREPARE one_of AS SELECT town FROM customers WHERE email = $1 AND (town = $2 OR town = fails($3));
SELECT * FROM plan($$ EXECUTE one_of ('User7@example.com', 'Town 7', 'x') $$);
EXECUTE one_of ('User7@example.com', 'Town 7', 'x');
PREPARE either AS SELECT count(*) FROM customers WHERE town = $1 OR town = fails($2);
EXECUTE either ('Town 7', 'Town 8');
SELECT reads($$ EXECUTE either ('Town 7', 'Town 8') $$);
DEALLOCATE one_of;
DEALLOCATE either;
RESET plan_cache_mode;
RESET index_table.enable_scan;

-- An index table that was tampered with: no row is shown that the query does not ask for.
BEGIN;
SET LOCAL session_replication_role = replica;
SET LOCAL index_table.enable_scan = force;
UPDATE customers_by_email SET email = 'stale' WHERE customer_id = 7;
UPDATE customers_by_town_last_name SET town = 'Town 8' WHERE customer_id = 7;
UPDATE customers_by_unnest SET unnest = 'a8' WHERE customer_id = 1;
SET LOCAL session_replication_role = origin;
SELECT phones FROM customers WHERE email = 'stale';
SELECT phones FROM customers WHERE email = 'stale' OR town = 'Town 8' AND customer_id = 7;
SELECT phones FROM customers WHERE town = 'Town 8' AND customer_id = 7;
SELECT town, last_name, phones FROM customers WHERE town IN ('Town 7', 'Town 8') AND customer_id < 300 ORDER BY town, last_name LIMIT 5;
SELECT customer_id, town FROM customers WHERE 'a8' = ANY (phones) AND customer_id < 10;
SELECT o.order_id, c.town FROM orders AS o JOIN customers AS c ON c.email = replace(o.email, 'User49@example.com', 'stale') WHERE o.order_id = 7;
ROLLBACK;
SELECT * FROM differences();

DROP OWNED BY regress_scan;
DROP SCHEMA scan CASCADE;
DROP ROLE regress_scan;
