-- What is deferred on index tables (foreign keys, unique keys, owners' constraint triggers) under commands that maintain
-- entries with the rights of the table's owner: they check at once. Statements that change rows defer, as ever.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA remote;
CREATE SCHEMA deferral;
SET search_path = deferral;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- --- Commands on partitions -----------------------------------------------------------

CREATE TABLE people (id int, region text, email text, town text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
CREATE TABLE people_b PARTITION OF people FOR VALUES IN ('b');
INSERT INTO people SELECT i, (ARRAY['a', 'b'])[1 + i % 2], 'mail ' || i, 'Town ' || i % 4 FROM generate_series(1, 12) AS i;
SELECT index_table.create('people', 'email', is_unique => true, is_deferrable => true, initially_deferred => true);
SELECT index_table.create('people', 'town', partitions => 2);
INSERT INTO recomputation VALUES
    ('people_by_email', 'email, partition_id, id, region', 'people b'),
    ('people_by_town', 'town, partition_id, id, region', 'people b');

-- A partition with a key that is there already, or twice in itself, is refused as the index of a constraint would.
CREATE TABLE people_c (LIKE people);
INSERT INTO people_c VALUES (100, 'c', 'mail 1', 'Town 1');
\set VERBOSITY default
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
\set VERBOSITY terse
\echo :SQLSTATE
UPDATE people_c SET email = 'twice';
INSERT INTO people_c VALUES (101, 'c', 'twice', 'Town 1');
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
\echo :SQLSTATE
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
\echo :SQLSTATE
ROLLBACK;
DELETE FROM people_c WHERE id = 101;
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
SELECT * FROM differences();
-- What the transaction itself has left to be checked when it commits stays so.
BEGIN;
INSERT INTO people VALUES (102, 'b', 'mail 1', 'Town 1');
CREATE TABLE people_d PARTITION OF people FOR VALUES IN ('d');
ALTER TABLE people DETACH PARTITION people_c;
SELECT index_table.vacuum();
TRUNCATE people_a;
UPDATE people SET email = 'another' WHERE id = 102;
COMMIT;
SELECT * FROM differences();
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
INSERT INTO people SELECT i, 'a', 'new ' || i, 'Town ' || i % 4 FROM generate_series(1, 6) AS i;
BEGIN;
INSERT INTO people VALUES (103, 'a', 'another', 'Town 1');
SELECT index_table.repair('people_by_email');
COMMIT;
\echo :SQLSTATE
SELECT * FROM differences();

-- Deferred triggers of the owner: not with the rights of whoever maintains the index table, now or when he commits.
CREATE ROLE regress_deferral_owner;
GRANT ALL ON SCHEMA deferral TO regress_deferral_owner;
CREATE TABLE seen (operation text, role name, n int);
GRANT ALL ON seen TO regress_deferral_owner;
ALTER TABLE people OWNER TO regress_deferral_owner;
ALTER TABLE people_a OWNER TO regress_deferral_owner;
ALTER TABLE people_b OWNER TO regress_deferral_owner;
ALTER TABLE people_c OWNER TO regress_deferral_owner;
ALTER TABLE people_d OWNER TO regress_deferral_owner;
SET ROLE regress_deferral_owner;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deferral.seen VALUES (TG_OP || ' ' || split_part(TG_TABLE_NAME, '_p', 1), current_user, 1);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON people_by_email DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON people_by_town DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
RESET ROLE;
CREATE FUNCTION noted() RETURNS TABLE (operation text, role name, n bigint) LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM deferral.seen RETURNING *)
    SELECT operation, CASE role WHEN session_user THEN 'own' ELSE role END, sum(n) FROM gone GROUP BY 1, 2 ORDER BY 1, 2
$$;
ALTER TABLE people DETACH PARTITION people_c;
SELECT * FROM noted();
SELECT * FROM differences();
ALTER TABLE people ATTACH PARTITION people_c FOR VALUES IN ('c');
SELECT * FROM noted();
TRUNCATE people_c;
SELECT * FROM noted();
INSERT INTO people_c VALUES (100, 'c', 'mail 100', 'Town 1');
BEGIN;
INSERT INTO people_c VALUES (104, 'c', 'mail 104', 'Town 1');
SELECT * FROM noted();
DROP TABLE people_c;
COMMIT;
SELECT * FROM noted();
SELECT * FROM differences();
SELECT index_table.vacuum('people_by_town') > 0 AS swept;
SELECT * FROM noted();
ALTER TABLE people_by_email DISABLE TRIGGER index_table_guard;
ALTER TABLE people_by_email DISABLE TRIGGER note;
UPDATE people_by_email SET email = 'wrong' WHERE id = 102;
ALTER TABLE people_by_email ENABLE TRIGGER note;
SELECT index_table.repair('people_by_email');
SELECT * FROM noted();
ALTER TABLE people_by_email ENABLE TRIGGER index_table_guard;
BEGIN;
TRUNCATE people;
INSERT INTO people VALUES (1, 'a', 'mail 1', 'Town 1');
TRUNCATE people;
SELECT count(*) AS so_far FROM seen;
COMMIT;
SELECT * FROM noted();
SELECT * FROM differences();
-- A statement's triggers wait for the end of the transaction, and have its rights, as they have natively.
BEGIN;
INSERT INTO people VALUES (1, 'a', 'mail 1', 'Town 1');
SELECT count(*) AS so_far FROM seen;
COMMIT;
SELECT * FROM noted();
-- They cannot put off what they do themselves either.
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS ALL DEFERRED;
    INSERT INTO deferral.later VALUES (1);
    RETURN NULL;
END $$;
CREATE TABLE later (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
GRANT ALL ON later TO regress_deferral_owner;
CREATE TABLE people_e (LIKE people);
INSERT INTO people_e VALUES (200, 'e', 'mail 200', 'Town 1');
ALTER TABLE people ATTACH PARTITION people_e FOR VALUES IN ('e');
\echo :SQLSTATE
TABLE later;
DROP TABLE later, people_e;
SELECT * FROM differences();
DROP TABLE people;

-- --- Draining -------------------------------------------------------------------------

DO $$
BEGIN
    EXECUTE format('CREATE SERVER regress_deferral FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_deferral;
CREATE TABLE remote.a (id int PRIMARY KEY, region text NOT NULL, email text);
CREATE TABLE accounts (id int NOT NULL, region text NOT NULL, email text) PARTITION BY LIST (region);
CREATE FOREIGN TABLE accounts_a PARTITION OF accounts FOR VALUES IN ('a') SERVER regress_deferral OPTIONS (schema_name 'remote', table_name 'a');
CREATE TABLE accounts_here PARTITION OF accounts (PRIMARY KEY (id)) FOR VALUES IN ('here');
INSERT INTO accounts SELECT i, 'a', 'm' || i FROM generate_series(1, 20) AS i;
SELECT index_table.create('accounts', 'email', is_unique => true, identity => 'id');
SELECT index_table.capture('remote.a');
DELETE FROM recomputation;
INSERT INTO recomputation VALUES ('accounts_by_email', 'email, partition_id, id', 'accounts b');
-- Of all rows; a row on the shard that is referred to is refused, with every other way of deferring.
CREATE TABLE orders (id int PRIMARY KEY, email text REFERENCES accounts_by_email (email) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO orders VALUES (1, 'm20');
DELETE FROM remote.a WHERE id = 3;
CALL index_table.drain();
SELECT index_table, pending, refused, error FROM index_table.queue;
SELECT * FROM differences();
DELETE FROM remote.a WHERE id IN (4, 20);
CALL index_table.drain();
SELECT leaf, identity, error, tries FROM index_table.undrained;
SELECT index_table, problem FROM differences();
DELETE FROM orders;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();
-- Keys that rows exchange in one batch are there all the time, as far as orders know.
INSERT INTO orders VALUES (1, 'm1'), (2, 'm2');
UPDATE remote.a SET email = '-' WHERE id = 1;
UPDATE remote.a SET email = 'm1' WHERE id = 2;
UPDATE remote.a SET email = 'm2' WHERE id = 1;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();
-- Actions, and what is deferred of those.
CREATE TABLE baskets (id int PRIMARY KEY, email text REFERENCES accounts_by_email (email) 
    ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE lines (basket int REFERENCES baskets (id) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO baskets VALUES (5, 'm5'), (6, 'm6'), (7, 'm7');
INSERT INTO lines VALUES (5);
DELETE FROM remote.a WHERE id IN (5, 6);
UPDATE remote.a SET email = 'seven' WHERE id = 7;
CALL index_table.drain();
SELECT leaf, identity, error FROM index_table.undrained;
TABLE baskets ORDER BY id;
DELETE FROM lines;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
TABLE baskets ORDER BY id;
SELECT * FROM differences();
-- The procedure that calls it may have things to be checked when it commits.
CREATE PROCEDURE order_and_drain(email text) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM orders WHERE id > 2;
    INSERT INTO orders VALUES (3, 'unknown');
    UPDATE orders SET email = order_and_drain.email WHERE id = 3;
    CALL index_table.drain();
    INSERT INTO orders VALUES (4, 'unknown');
    UPDATE orders SET email = order_and_drain.email WHERE id = 4;
END $$;
DELETE FROM remote.a WHERE id = 10;
CALL order_and_drain('m8');
CALL order_and_drain('nobody');
\echo :SQLSTATE
TABLE orders ORDER BY id;
SELECT * FROM differences();
-- The owner's triggers, on the shard's rows.
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.email = 'm12' THEN
        RAISE EXCEPTION 'm12 stays';
    END IF;
    INSERT INTO deferral.seen VALUES (TG_OP, current_user, 1);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON accounts_by_email DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
DELETE FROM remote.a WHERE id IN (11, 12, 13);
CALL index_table.drain();
SELECT leaf, identity, error FROM index_table.undrained;
SELECT operation, n FROM noted();
SELECT index_table, problem FROM differences();
DROP TRIGGER note ON accounts_by_email;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT * FROM differences();
-- repair, and TRUNCATE on the shard.
SELECT index_table.release('remote.a');
DELETE FROM remote.a WHERE id = 14;
DELETE FROM remote.a WHERE id = 8;
\c -
SET search_path = deferral;
SET client_min_messages = warning;
\set VERBOSITY terse
SELECT index_table.repair('accounts_by_email');
\echo :SQLSTATE
DELETE FROM orders;
\c -
SET search_path = deferral;
SET client_min_messages = warning;
\set VERBOSITY terse
SELECT index_table.repair('accounts_by_email');
SELECT * FROM differences();
SELECT index_table.capture('remote.a');
INSERT INTO orders VALUES (1, 'm1');
TRUNCATE remote.a;
CALL index_table.drain();
SELECT leaf, identity, error FROM index_table.undrained;
DELETE FROM orders;
DELETE FROM baskets;
CALL index_table.drain();
SELECT * FROM index_table.undrained;
SELECT count(*) FROM accounts_by_email;
SELECT * FROM differences();

DROP SCHEMA deferral, remote CASCADE;
DROP SERVER regress_deferral CASCADE;
DROP ROLE regress_deferral_owner;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
