-- Foreign keys that point at a unique index table behave as if they pointed at the base table.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA foreign_keys;
SET search_path = foreign_keys;
RESET client_min_messages;
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE customers (id int PRIMARY KEY, email text, tier numeric, name text) PARTITION BY RANGE (id);
CREATE TABLE customers_0 PARTITION OF customers FOR VALUES FROM (0) TO (100);
CREATE TABLE customers_1 PARTITION OF customers FOR VALUES FROM (100) TO (200);
CREATE TABLE customers_2 PARTITION OF customers FOR VALUES FROM (200) TO (300);
SELECT index_table.create('customers', 'email', is_unique => true);
SELECT index_table.create('customers', 'email', 'partial', name => 'hashed', include => 'name', is_unique => true, partitions => 4);
SELECT index_table.create('customers', 'tier', 'denormalized', is_unique => true);
INSERT INTO recomputation VALUES
    ('customers_by_email', 'email, partition_id, id', 'customers b'),
    ('hashed', 'email, partition_id, id, name', 'customers b'),
    ('customers_by_tier', 'tier, partition_id, id, email, name', 'customers b');

CREATE TABLE orders (id int PRIMARY KEY, email text,
    CONSTRAINT to_email FOREIGN KEY (email) REFERENCES customers_by_email (email) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE notes (id int PRIMARY KEY, email text REFERENCES hashed (email) ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE ratings (id int PRIMARY KEY, tier numeric REFERENCES customers_by_tier (tier) ON UPDATE NO ACTION);
CREATE FUNCTION state() RETURNS TABLE (relation text, id int, value text) LANGUAGE sql AS $$
    SELECT 'customers', c.id, c.email FROM foreign_keys.customers AS c
    UNION ALL SELECT 'notes', n.id, n.email FROM foreign_keys.notes AS n
    UNION ALL SELECT 'orders', o.id, o.email FROM foreign_keys.orders AS o ORDER BY 1, 2 $$;

-- Natively there is no such key: the hint says what can be referenced.
\set VERBOSITY default
CREATE TABLE refers (email text REFERENCES customers (email));
ALTER TABLE notes ADD FOREIGN KEY (email) REFERENCES foreign_keys.customers (email);
ALTER TABLE notes ADD COLUMN tier numeric REFERENCES customers (tier), ADD UNIQUE (email);
CREATE TABLE refers (name text, FOREIGN KEY (name) REFERENCES customers (name));
CREATE TABLE refers (name text, FOREIGN KEY (name) REFERENCES customers (nothing));
\set VERBOSITY terse
INSERT INTO customers SELECT i, 'mail ' || i, i, 'name ' || i FROM generate_series(0, 290, 10) AS i;
INSERT INTO orders SELECT i, 'mail ' || i FROM generate_series(0, 90, 30) AS i;
INSERT INTO notes SELECT i, 'mail ' || i FROM generate_series(0, 90, 30) AS i;
INSERT INTO ratings VALUES (10, 10), (120, 120);
INSERT INTO orders VALUES (1, 'nobody');

-- A key that changes changes in the references, within its partition, and on the way to another.
UPDATE customers SET email = 'new 0' WHERE id = 0;
UPDATE customers SET id = 131, email = 'new 30' WHERE id = 30;
UPDATE customers SET id = 161 WHERE id = 60;
SELECT * FROM state() WHERE relation <> 'customers';
-- Each takes the key of the next, and the last goes.
UPDATE customers SET email = CASE id WHEN 0 THEN 'new 30' WHEN 131 THEN 'mail 60' WHEN 161 THEN 'mail 90' ELSE 'new 90' END
 WHERE id IN (0, 131, 161, 90);
SELECT * FROM state() WHERE relation <> 'customers';
-- In a circle, references stay with the key.
UPDATE customers SET email = CASE id WHEN 0 THEN 'mail 60' WHEN 131 THEN 'new 30' END WHERE id IN (0, 131);
SELECT * FROM state() WHERE relation <> 'customers';
-- A row takes the key of one that is deleted: the one's references go, the other's follow.
WITH gone AS (DELETE FROM customers WHERE id = 0) UPDATE customers SET email = 'mail 60' WHERE id = 131;
SELECT * FROM state() WHERE relation <> 'customers';
SELECT * FROM differences();

-- With triggers between the halves of a movement that change the same tables, and an update of an update.
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE customers SET name = 'touched by ' || old.id, email = email || ' touched' WHERE id = 220;
        INSERT INTO orders VALUES (1000 + old.id, 'mail 210');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER touch AFTER INSERT OR UPDATE OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO orders VALUES (220, 'mail 220');
UPDATE customers SET id = id + 100, email = 'moved ' || id WHERE id IN (131, 161);
SELECT * FROM state() WHERE relation <> 'customers';
DROP TRIGGER touch ON customers;
CREATE OR REPLACE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.email LIKE '%.' THEN UPDATE customers SET email = email || '!' WHERE id = new.id; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER a_touch AFTER UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION touch();
UPDATE customers SET email = 'twice.' WHERE id = 231;
SELECT * FROM state() WHERE relation <> 'customers';
DROP TRIGGER a_touch ON customers;
CREATE TRIGGER z_touch AFTER UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION touch();
UPDATE customers SET email = 'again.' WHERE id = 231;
SELECT * FROM state() WHERE relation <> 'customers';
DROP TRIGGER z_touch ON customers;
SELECT * FROM differences();

-- An insertion that is suppressed leaves a deletion.
CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER suppress BEFORE INSERT ON customers_0 FOR EACH ROW EXECUTE FUNCTION suppress();
UPDATE customers SET id = 1 WHERE id = 231;
SELECT * FROM state() WHERE relation <> 'customers';
DROP TRIGGER suppress ON customers_0;

-- Equal keys, written in another way.
UPDATE customers SET tier = '10.00' WHERE id = 120;
UPDATE customers SET tier = '120.00' WHERE id = 120;
SELECT * FROM ratings ORDER BY id;
UPDATE customers SET tier = '121' WHERE id = 120;
\echo :SQLSTATE
DELETE FROM customers WHERE id = 120;
\echo :SQLSTATE
INSERT INTO ratings VALUES (130, 130.000), (1, 1);
\echo :SQLSTATE
DELETE FROM ratings;
SELECT * FROM differences();

-- The other actions, composite keys, and a table that refers to its own index table.
CREATE TABLE teams (id int PRIMARY KEY, a int, b text, lead_a int, lead_b text) PARTITION BY RANGE (id);
CREATE TABLE teams_0 PARTITION OF teams FOR VALUES FROM (0) TO (10);
CREATE TABLE teams_1 PARTITION OF teams FOR VALUES FROM (10) TO (20);
SELECT index_table.create('teams', 'a, b', is_unique => true);
INSERT INTO recomputation VALUES ('teams_by_a_b', 'a, b, partition_id, id', 'teams b');
ALTER TABLE teams ADD FOREIGN KEY (lead_a, lead_b) REFERENCES teams_by_a_b (a, b) MATCH FULL ON UPDATE CASCADE ON DELETE NO ACTION;
CREATE TABLE members (id int PRIMARY KEY, a int DEFAULT 0, b text DEFAULT 'none',
    FOREIGN KEY (a, b) REFERENCES teams_by_a_b (a, b) ON DELETE SET DEFAULT ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE guests (a int, b text, FOREIGN KEY (a, b) REFERENCES teams_by_a_b (a, b) ON DELETE RESTRICT ON UPDATE RESTRICT);
INSERT INTO teams VALUES (0, 0, 'none', NULL, NULL), (1, 1, 'x', NULL, NULL);
INSERT INTO teams VALUES (2, 2, 'y', 1, 'x');
INSERT INTO teams VALUES (3, 3, 'y', 1, NULL);
\echo :SQLSTATE
INSERT INTO teams VALUES (11, 3, 'z', 2, 'y');
BEGIN;
INSERT INTO members VALUES (1, 4, 'later'), (2, 2, 'y');
INSERT INTO teams VALUES (4, 4, 'later', 3, 'z');
COMMIT;
INSERT INTO guests VALUES (3, 'z');
UPDATE teams SET id = 12, a = 22 WHERE id = 2;
UPDATE teams SET a = 44, lead_b = 'z' WHERE a = 4;
SELECT id, a, b, lead_a, lead_b FROM teams ORDER BY id;
SELECT * FROM members ORDER BY id;
UPDATE members SET a = 22, b = 'y' WHERE id = 2;
DELETE FROM teams WHERE id = 12;
\echo :SQLSTATE
-- ON DELETE and ON UPDATE RESTRICT; the error is another one since 18.
CREATE FUNCTION is_refused(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN false;
EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN
    RETURN true;
END $$;
SELECT is_refused('DELETE FROM teams WHERE id IN (11, 12, 4)'), is_refused('UPDATE teams SET b = ''zz'' WHERE a = 3');
DELETE FROM guests;
DELETE FROM teams WHERE id IN (11, 12, 4);
SELECT * FROM members ORDER BY id;
SELECT * FROM differences();
-- After an action, statements of the same transaction are checked at their own end, still.
BEGIN;
UPDATE customers SET email = email || ' again' WHERE id = 90;
SAVEPOINT before;
INSERT INTO customers VALUES (99, 'new 90 again');
\echo :SQLSTATE
ROLLBACK TO before;
DELETE FROM customers WHERE id = 90;
COMMIT;
SELECT * FROM differences();
-- Both sides in one statement.
INSERT INTO guests VALUES (1, 'x');
WITH gone AS (DELETE FROM teams WHERE id = 1) DELETE FROM guests;
\echo :SQLSTATE
ALTER TABLE guests ADD FOREIGN KEY (a, b) REFERENCES teams_by_a_b (a, b);
WITH new AS (INSERT INTO teams VALUES (5, 5, 'v') RETURNING a, b) INSERT INTO guests SELECT * FROM new;
SELECT * FROM guests;
-- A row whose own trigger has not fired is not found, unless the foreign key waits.
INSERT INTO teams VALUES (7, 7, 's', 7, 's');
\echo :SQLSTATE
WITH new AS (INSERT INTO teams VALUES (7, 7, 's')) INSERT INTO guests VALUES (7, 's');
\echo :SQLSTATE
ALTER TABLE guests ALTER CONSTRAINT guests_a_b_fkey1 DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE guests DROP CONSTRAINT guests_a_b_fkey;
WITH new AS (INSERT INTO teams VALUES (7, 7, 's')) INSERT INTO guests VALUES (7, 's');
ALTER TABLE teams ALTER CONSTRAINT teams_lead_a_lead_b_fkey DEFERRABLE INITIALLY DEFERRED;
INSERT INTO teams VALUES (8, 8, 't', 8, 't');
SELECT * FROM guests ORDER BY a;
SELECT * FROM differences();

-- Partitions that leave. Referred to, they stay; otherwise their entries go at once.
TRUNCATE orders, notes;
INSERT INTO orders VALUES (1, 'mail 110'), (2, 'mail 250');
CREATE VIEW dead AS
    SELECT t.relation, count(*) FROM (SELECT 'customers_by_email' AS relation, partition_id FROM customers_by_email
        UNION ALL SELECT 'hashed', partition_id FROM hashed UNION ALL SELECT 'customers_by_tier', partition_id FROM customers_by_tier) AS t
     WHERE partition_id NOT IN (SELECT partition_id FROM index_table.partition) GROUP BY 1 ORDER BY 1;
\set VERBOSITY default
TRUNCATE customers_1;
ALTER TABLE customers DETACH PARTITION customers_1;
ALTER TABLE customers DETACH PARTITION customers_1 CONCURRENTLY;
DROP TABLE customers_1;
TRUNCATE customers;
TRUNCATE customers CASCADE;
\set VERBOSITY terse
TRUNCATE customers_0;
SELECT * FROM dead;
SELECT count(*) FROM index_table.retired_partition WHERE index_table IN ('customers_by_email'::regclass, 'hashed'::regclass, 'customers_by_tier'::regclass);
BEGIN;
TRUNCATE customers, orders;
SELECT count(*) FROM customers_by_email;
ROLLBACK;
-- The same as the first statement of a session that does not preload the library.
\c -
SET search_path = foreign_keys;
BEGIN;
TRUNCATE customers, orders;
SELECT count(*) FROM customers_by_email;
ROLLBACK;
INSERT INTO customers VALUES (5, 'mail 50', 5);
DELETE FROM orders WHERE id = 1;
ALTER TABLE customers DETACH PARTITION customers_1 CONCURRENTLY;
SELECT * FROM dead;
INSERT INTO orders VALUES (3, 'mail 110');
\echo :SQLSTATE
ALTER TABLE customers ATTACH PARTITION customers_1 FOR VALUES FROM (100) TO (200);
INSERT INTO orders VALUES (3, 'mail 110');
DELETE FROM orders WHERE id = 3;
DROP TABLE customers_1;
SELECT * FROM dead;
SELECT * FROM differences();
SELECT count(*) FROM index_table.retired_partition WHERE index_table IN ('customers_by_email'::regclass, 'hashed'::regclass, 'customers_by_tier'::regclass);
DROP TABLE customers;
\echo :SQLSTATE
SELECT index_table.drop('customers_by_email');
\echo :SQLSTATE
-- Rows that leave together with what they refer to are no obstacle; others of the same table are.
INSERT INTO teams VALUES (13, 13, 'w');
UPDATE teams SET lead_a = 13, lead_b = 'w' WHERE id = 13;
INSERT INTO teams VALUES (14, 14, 'w', 13, 'w');
TRUNCATE teams_1;
INSERT INTO teams VALUES (13, 13, 'w');
INSERT INTO teams VALUES (14, 14, 'w', 13, 'w'), (6, 6, 'u', 13, 'w');
TRUNCATE teams_1;
\echo :SQLSTATE
ALTER TABLE teams DETACH PARTITION teams_1;
\echo :SQLSTATE
DROP TABLE teams_1;
\echo :SQLSTATE
BEGIN;
TRUNCATE teams, guests, members;
SELECT count(*) FROM teams_by_a_b;
ROLLBACK;
UPDATE teams SET lead_a = NULL, lead_b = NULL WHERE id = 6;
DROP TABLE teams_1;
SELECT * FROM differences();

-- A foreign key that is new meets no dead entries.
CREATE TABLE plain (id int PRIMARY KEY, email text) PARTITION BY RANGE (id);
CREATE TABLE plain_0 PARTITION OF plain FOR VALUES FROM (0) TO (10);
CREATE TABLE plain_1 PARTITION OF plain FOR VALUES FROM (10) TO (20);
SELECT index_table.create('plain', 'email', is_unique => true);
INSERT INTO recomputation VALUES ('plain_by_email', 'email, partition_id, id', 'plain b');
INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (11, 'c');
TRUNCATE plain_0;
INSERT INTO plain VALUES (3, 'b');
CREATE TABLE refers (id int, email text) PARTITION BY LIST (id);
CREATE TABLE refers_1 PARTITION OF refers FOR VALUES IN (1);
INSERT INTO refers VALUES (1, 'a'), (1, 'b'), (1, 'c');
SELECT email FROM plain_by_email ORDER BY 1;
\set VERBOSITY default
ALTER TABLE refers ADD CONSTRAINT to_plain FOREIGN KEY (email) REFERENCES plain_by_email (email);
\set VERBOSITY terse
ALTER TABLE refers_1 ADD CONSTRAINT to_plain FOREIGN KEY (email) REFERENCES plain_by_email (email) NOT VALID;
SELECT email FROM plain_by_email ORDER BY 1;
ALTER TABLE refers_1 VALIDATE CONSTRAINT to_plain;
\echo :SQLSTATE
DELETE FROM refers WHERE email = 'a';
ALTER TABLE refers_1 VALIDATE CONSTRAINT to_plain;
ALTER TABLE refers ADD CONSTRAINT to_plain FOREIGN KEY (email) REFERENCES plain_by_email (email) ON DELETE CASCADE;
TRUNCATE plain_1;
\echo :SQLSTATE
SELECT * FROM differences();

-- One that is being built is not unique yet.
INSERT INTO plain VALUES (19, 'c twice');
CALL index_table.create_concurrently('plain', '(left(email, 1))', name => 'unfinished', is_unique => true);
\echo :SQLSTATE
CREATE TABLE early ("left" text REFERENCES unfinished ("left"));
\echo :SQLSTATE
SELECT index_table.drop('unfinished');
DELETE FROM plain WHERE id = 19;

-- What mends an index table fires nothing.
ALTER TABLE refers DROP CONSTRAINT to_plain;
ALTER TABLE refers_1 DROP CONSTRAINT IF EXISTS to_plain;
ALTER TABLE refers ADD CONSTRAINT to_plain FOREIGN KEY (email) REFERENCES plain_by_email (email) ON DELETE CASCADE ON UPDATE CASCADE;
SET session_replication_role = replica;
ALTER TABLE plain_by_email DISABLE TRIGGER index_table_guard;
UPDATE plain_by_email SET partition_id = 1000000 WHERE email = 'b';
UPDATE plain_by_email SET id = 12 WHERE email = 'c';
RESET session_replication_role;
SELECT problem FROM index_table.verify('plain_by_email') ORDER BY 1;
SELECT index_table.repair('plain_by_email');
SELECT * FROM refers ORDER BY email;
SELECT * FROM differences();
SET session_replication_role = replica;
INSERT INTO plain_by_email SELECT 'stale', partition_id, id FROM plain_by_email WHERE email = 'c';
RESET session_replication_role;
INSERT INTO refers VALUES (1, 'stale');
\set VERBOSITY default
SELECT index_table.repair('plain_by_email');
\set VERBOSITY terse
DELETE FROM refers WHERE email = 'stale';
SELECT index_table.repair('plain_by_email');
SELECT * FROM refers ORDER BY email;
ALTER TABLE plain_by_email ENABLE TRIGGER index_table_guard;
CALL index_table.rebuild('plain_by_email');
\echo :SQLSTATE
ALTER TABLE plain ALTER COLUMN email TYPE varchar;
\echo :SQLSTATE
SELECT * FROM refers ORDER BY email;
SELECT * FROM differences();

-- Tables whose keys refer to each other: a change goes round. A ring of two is compared with native tables; in larger ones those
-- raise 23503.
CREATE TABLE ring (number serial, name text, native bool, state text);
CREATE PROCEDURE make_ring(names text[], native bool, deferred text) LANGUAGE plpgsql AS $$
DECLARE
    size int := cardinality(names); target text;
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    DROP TABLE IF EXISTS ring_a, ring_b, ring_c CASCADE;
    FOR i IN 1..size LOOP
        IF native THEN
            EXECUTE format('CREATE TABLE %s (k int PRIMARY KEY, id text UNIQUE)', names[i]);
        ELSE
            EXECUTE format('CREATE TABLE %s (k int PRIMARY KEY, id text) PARTITION BY RANGE (k)', names[i]);
            EXECUTE format('CREATE TABLE %s_0 PARTITION OF %1$s FOR VALUES FROM (0) TO (10)', names[i]);
            EXECUTE format('CREATE TABLE %s_1 PARTITION OF %1$s FOR VALUES FROM (10) TO (20)', names[i]);
            PERFORM index_table.create(names[i]::regclass, 'id', is_unique => true, partitions => CASE i WHEN 2 THEN 2 ELSE 0 END);
        END IF;
        EXECUTE format($q$INSERT INTO %s VALUES (1, 'one'), (2, 'two'), (11, 'eleven')$q$, names[i]);
    END LOOP;
    FOR i IN 1..size LOOP
        target := names[1 + i % size];
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT next FOREIGN KEY (id) REFERENCES %s (id) ON UPDATE CASCADE ON DELETE CASCADE %s', names[i],
                       CASE WHEN native THEN target ELSE target || '_by_id' END, CASE WHEN i = size THEN deferred END);
    END LOOP;
END $$;
CREATE PROCEDURE try_ring(names text[], native bool, deferred text) LANGUAGE plpgsql AS $$
DECLARE
    statement text; result text; keys text;
BEGIN
    CALL make_ring(names, native, deferred);
    FOREACH statement IN ARRAY ARRAY[
        $q$UPDATE ring_a SET id = 'updated' WHERE k = 1$q$, $q$UPDATE ring_b SET id = id || '!'$q$, $q$UPDATE ring_a SET k = k + 1 WHERE k = 2$q$,
        $q$UPDATE ring_b SET id = 'more', k = k + 3 WHERE k = 2$q$, $q$UPDATE ring_a SET id = 'moved', k = 15 WHERE k = 1$q$,
        $q$INSERT INTO ring_a VALUES (5, 'nowhere')$q$, $q$UPDATE ring_b SET id = 'eleven!' WHERE k = 1$q$,
        $q$WITH u AS (UPDATE ring_a SET id = 'both' WHERE k = 15) UPDATE ring_b SET id = id || '?' WHERE k = 11$q$,
        $q$DELETE FROM ring_b WHERE k = 11$q$] LOOP
        BEGIN
            EXECUTE statement;
            result := '';
        EXCEPTION WHEN OTHERS THEN
            result := SQLSTATE || ' ';
        END;
        FOR i IN 1..cardinality(names) LOOP
            EXECUTE format('SELECT string_agg(k || id, $q$ $q$ ORDER BY k) FROM %s', names[i]) INTO keys;
            result := result || names[i] || ': ' || keys || '; ';
        END LOOP;
        INSERT INTO ring (name, native, state) VALUES (statement, native, result);
    END LOOP;
END $$;
CREATE FUNCTION problems() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT d.index_table || ' ' || v.problem FROM index_table.definition AS d, index_table.verify(d.index_table) AS v WHERE d.index_table::text LIKE 'ring%' $$;
SET client_min_messages = warning;
CALL try_ring('{ring_a,ring_b}', true, '');
CALL try_ring('{ring_a,ring_b}', false, '');
SELECT state FROM ring WHERE NOT native ORDER BY number;
SELECT name, state FROM ring GROUP BY 1, 2 HAVING count(*) <> 2;
SELECT * FROM problems();
DELETE FROM ring;
CALL try_ring('{ring_a,ring_b}', true, 'DEFERRABLE INITIALLY DEFERRED');
CALL try_ring('{ring_a,ring_b}', false, 'DEFERRABLE INITIALLY DEFERRED');
SELECT name, state FROM ring GROUP BY 1, 2 HAVING count(*) <> 2;
SELECT * FROM problems();
DELETE FROM ring;
CALL try_ring('{ring_a,ring_b,ring_c}', false, '');
SELECT state FROM ring ORDER BY number;
SELECT * FROM problems();
-- The row triggers of such tables have another name, those of partitions too that come later.
CREATE TABLE ring_a_2 (LIKE ring_a);
ALTER TABLE ring_a ATTACH PARTITION ring_a_2 FOR VALUES FROM (20) TO (30);
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgfoid = 'index_table.maintain'::regproc AND tgrelid::regclass::text ~ '^(ring_a|customers$)' ORDER BY 1;
DROP TRIGGER "RI_ConstraintTrigger_b_index_table" ON ring_a;
SELECT index_table.repair('ring_a_by_id');
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgfoid = 'index_table.maintain'::regproc AND tgrelid::regclass::text ~ '^ring_a' ORDER BY 1;
SELECT index_table.drop('ring_c_by_id');
\echo :SQLSTATE
ALTER TABLE ring_b DROP CONSTRAINT next;
SELECT index_table.drop('ring_c_by_id');
SELECT count(*) FROM pg_trigger WHERE tgfoid = 'index_table.maintain'::regproc AND tgrelid::regclass::text ~ '^ring_c';
DROP TABLE ring_a, ring_b, ring_c CASCADE;
-- A table that refers to itself: its rows may refer to themselves. The index table may come after the partition's foreign key.
CREATE TABLE self (k int PRIMARY KEY, id text, up text) PARTITION BY RANGE (k);
CREATE TABLE self_0 PARTITION OF self FOR VALUES FROM (0) TO (10);
CREATE TABLE self_1 PARTITION OF self FOR VALUES FROM (10) TO (20);
SELECT index_table.create('self', 'id', is_unique => true);
INSERT INTO recomputation VALUES ('self_by_id', 'id, partition_id, k', 'self b');
ALTER TABLE self ADD FOREIGN KEY (up) REFERENCES self_by_id (id) ON UPDATE CASCADE ON DELETE SET NULL;
INSERT INTO self VALUES (1, 'one', 'one'), (2, 'two', 'one'), (11, 'eleven', 'two');
INSERT INTO self VALUES (3, 'three', 'nobody');
UPDATE self SET id = 'self', up = 'self' WHERE k = 1;
UPDATE self SET id = 'again', k = 12 WHERE k = 1;
UPDATE self SET id = id || '!' WHERE k IN (2, 11);
DELETE FROM self WHERE k = 2;
SELECT * FROM self ORDER BY k;
SELECT * FROM differences() WHERE index_table = 'self_by_id'::regclass;

-- Foreign keys of a table that has an index table are its own to drop and to rename; the name of a key is not.
CREATE TABLE named (id int PRIMARY KEY, email text, code text) PARTITION BY RANGE (id);
CREATE TABLE named_0 PARTITION OF named FOR VALUES FROM (0) TO (10);
SELECT index_table.create('named', 'code', is_unique => true);
ALTER TABLE named ADD CONSTRAINT named_email FOREIGN KEY (email) REFERENCES customers_by_email (email);
ALTER TABLE named ADD CONSTRAINT named_code FOREIGN KEY (code) REFERENCES named_by_code (code);
ALTER TABLE named RENAME CONSTRAINT named_email TO other;
ALTER TABLE named RENAME CONSTRAINT named_code TO more;
INSERT INTO named VALUES (1, 'nobody', 'a');
INSERT INTO named VALUES (1, NULL, 'a') ON CONFLICT ON CONSTRAINT other DO NOTHING;
INSERT INTO named VALUES (1, NULL, 'a') ON CONFLICT ON CONSTRAINT named_by_code_key DO NOTHING;
ALTER TABLE named RENAME CONSTRAINT named_by_code_key TO mine;
\echo :SQLSTATE
ALTER TABLE named DROP CONSTRAINT named_by_code_key;
\echo :SQLSTATE
ALTER TABLE named DROP CONSTRAINT other, DROP CONSTRAINT more;
ALTER TABLE named_0 ADD CONSTRAINT named_by_code_key CHECK (id < 100);
ALTER TABLE named_0 DROP CONSTRAINT named_by_code_key;
INSERT INTO named VALUES (2, 'nobody', 'a') ON CONFLICT ON CONSTRAINT named_by_code_key DO NOTHING;
INSERT INTO named VALUES (2, 'nobody', 'b');
SELECT * FROM index_table.verify('named_by_code');
DROP TABLE named, self CASCADE;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA foreign_keys CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
