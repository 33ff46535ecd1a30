-- Index tables whose triggers were disabled while rows changed: nobody believes them until they have been compared. As fixtures are
-- loaded by client libraries, and tables emptied.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA missed;
SET search_path = missed;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE users (id int, day date NOT NULL, email text, name text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE users_1 PARTITION OF users FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE users_2 PARTITION OF users FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO users SELECT i, date '2026-01-01' + i % 50, 'old' || i, 'n' || i % 10 FROM generate_series(1, 200) AS i;
SELECT index_table.create('users', 'email', is_unique => true);
SELECT index_table.create('users', 'name', 'partial', include => 'email');
SELECT index_table.create('users', 'lower(name)', maintenance => 'deferred', name => 'users_later');
CREATE INDEX users_global ON users USING global (name);
INSERT INTO recomputation VALUES
    ('users_by_email', 'email, partition_id, id, day', 'users b'),
    ('users_by_name', 'name, partition_id, id, day, email', 'users b');
-- What the two ways find, and which tables queries use.
CREATE FUNCTION found(key text) RETURNS TABLE (natively bigint, by_index_table bigint, is_used bool) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    is_used := false;
    SET LOCAL index_table.enable_scan = off;
    SELECT count(*) INTO natively FROM users WHERE email = key;
    SET LOCAL index_table.enable_scan = force;
    EXECUTE format('SELECT count(*) FROM users WHERE email = %L', key) INTO by_index_table;
    FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT * FROM users WHERE email = %L', key) LOOP
        is_used := is_used OR line ~ 'users_by_email';
    END LOOP;
    SET LOCAL index_table.enable_scan = on;
    RETURN NEXT;
END $$;
CREATE VIEW states AS
    SELECT d.index_table, d.state, i.is_complete FROM index_table.definition AS d JOIN index_table.index_tables AS i USING (index_table)
     WHERE d.base = 'users'::regclass ORDER BY d.index_table::text COLLATE "C";
CREATE FUNCTION wrong() RETURNS TABLE (index_table text, problem text, entry text) LANGUAGE sql AS $$
    SELECT index_table::text, problem, entry FROM missed.differences()
    UNION ALL SELECT 'users_later', problem, key::text FROM index_table.verify('users_later')
    UNION ALL SELECT 'users_global', problem, key::text FROM index_table.verify('users_global') $$;
-- ALTER TABLE … of all tables, as Rails sends it.
CREATE PROCEDURE switch(what text) LANGUAGE plpgsql AS $$
DECLARE name text;
BEGIN
    FOR name IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'missed'::regnamespace AND c.relkind IN ('r', 'p')
                   AND c.relname LIKE 'users%' ORDER BY c.relname LOOP
        EXECUTE format('ALTER TABLE %I %s', name, what);
    END LOOP;
END $$;
PREPARE by_email AS SELECT id FROM users WHERE email = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_email('old8');

-- Fixtures in a transaction. A key that is there twice is found when triggers are enabled.
BEGIN;
CALL switch('DISABLE TRIGGER ALL');
TABLE states;
DELETE FROM users;
INSERT INTO users SELECT i, date '2026-01-01' + i % 50, 'new' || i, 'm' || i % 10 FROM generate_series(1, 200) AS i;
INSERT INTO users VALUES (2000, '2026-01-07', 'new7', 'the same key again');
SELECT * FROM found('new8');
EXECUTE by_email('new8');
CALL switch('ENABLE TRIGGER ALL');
ROLLBACK;
TABLE states;
SELECT * FROM wrong();
SELECT * FROM found('old8');
BEGIN;
CALL switch('DISABLE TRIGGER ALL');
DELETE FROM users;
INSERT INTO users SELECT i, date '2026-01-01' + i % 50, 'new' || i, 'm' || i % 10 FROM generate_series(1, 200) AS i;
CALL switch('ENABLE TRIGGER ALL');
COMMIT;
TABLE states;
SELECT * FROM wrong();
SELECT * FROM found('new8');
EXECUTE by_email('new8');
INSERT INTO users VALUES (3000, '2026-02-07', 'new8', 'a second one');
INSERT INTO users VALUES (3001, '2026-02-07', 'old5', 'free') ON CONFLICT (email) DO UPDATE SET name = 'u' RETURNING id, name;

-- Disabled by one transaction, enabled by another one. What reads an index table by itself says what is the matter.
ALTER TABLE users DISABLE TRIGGER USER;
SELECT * FROM index_table.lookup('users_by_email', 'new8');
SELECT * FROM index_table.lookup('users_by_name', 'm8');
SELECT count(*) FROM index_table.fetch(NULL::users, 'users_by_name', 'm8');
UPDATE users SET email = 'changed' WHERE id = 8;
EXECUTE by_email('changed');
SELECT * FROM found('changed');
SELECT problem, key FROM index_table.verify('users_by_email') ORDER BY 1;
-- Repaired it is out of use all the same; and no other is made, that would miss as much.
SELECT index_table.repair('users_by_email');
TABLE states;
SELECT index_table.create('users', 'id', name => 'users_more');
CALL index_table.create_concurrently('users', 'id', name => 'users_more');
SELECT index_table.set_maintenance('users_by_name', 'deferred');
ALTER TABLE users ENABLE TRIGGER index_table_maintain;
TABLE states;
SET client_min_messages = notice;
ALTER TABLE users ENABLE TRIGGER USER;
SET client_min_messages = warning;
TABLE states;
SELECT * FROM wrong();
EXECUTE by_email('changed');

-- One partition alone: a key cannot be kept unique over the others either.
ALTER TABLE users_2 DISABLE TRIGGER USER;
INSERT INTO users VALUES (4000, '2026-01-07', 'elsewhere', 'n');
INSERT INTO users VALUES (4001, '2026-01-07', 'elsewhere', 'n') ON CONFLICT (email) DO NOTHING;
INSERT INTO users VALUES (4002, '2026-02-07', 'here', 'n');
DELETE FROM users WHERE id = 40;
ALTER TABLE users_2 ENABLE TRIGGER USER;
SELECT * FROM wrong();
INSERT INTO users VALUES (4000, '2026-01-07', 'elsewhere', 'n');
SELECT index_table.drop('users_by_email');
DELETE FROM recomputation WHERE index_table = to_regclass('users_by_email') OR index_table::text !~ '^users';
ALTER TABLE users_2 DISABLE TRIGGER index_table_maintain;
INSERT INTO users VALUES (5000, '2026-01-07', 'one', 'n'), (5001, '2026-02-07', 'two', 'n');
TABLE states;
ALTER TABLE users_2 ENABLE ALWAYS TRIGGER index_table_maintain;
TABLE states;
SELECT * FROM wrong();
SELECT index_table.create('users', 'email', is_unique => true);
INSERT INTO recomputation VALUES ('users_by_email', 'email, partition_id, id, day', 'users b');

-- Entries, and what is queued, are changed past the guard.
BEGIN;
ALTER TABLE users_by_email DISABLE TRIGGER ALL;
DELETE FROM users_by_email WHERE email LIKE 'new1%';
SELECT * FROM found('new11');
ALTER TABLE users_by_email ENABLE TRIGGER ALL;
COMMIT;
SELECT * FROM found('new11');
UPDATE users SET name = 'queued' WHERE id = 3;
ALTER TABLE users_later_queue DISABLE TRIGGER ALL, ENABLE TRIGGER ALL;
ALTER TABLE users_later_queue_1 DISABLE TRIGGER ALL;
ALTER TABLE users_later_queue_2 DISABLE TRIGGER ALL;
TRUNCATE users_later_queue_1;
TRUNCATE users_later_queue_2;
TABLE states;
ALTER TABLE users_later_queue_1 ENABLE TRIGGER ALL;
ALTER TABLE users_later_queue_2 ENABLE TRIGGER ALL;
TABLE states;
SELECT count(*) FROM users WHERE lower(name) = 'queued';
SELECT * FROM wrong();

-- What a savepoint takes back has not happened; triggers of others do not matter.
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER others AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION nothing();
ALTER TABLE users DISABLE TRIGGER others;
BEGIN;
SAVEPOINT a;
ALTER TABLE users DISABLE TRIGGER ALL;
UPDATE users SET email = 'undone' WHERE id = 9;
ROLLBACK TO a;
SELECT * FROM found('undone');
SELECT * FROM found('new9');
ALTER TABLE users ENABLE TRIGGER others;
COMMIT;
TABLE states;

-- Triggers that are dropped: repair() makes them anew.
DROP TRIGGER index_table_announce ON users_2;
TABLE states;
INSERT INTO users VALUES (6000, '2026-01-07', 'six', 'n');
SELECT index_table.repair(index_table) FROM states;
DROP TRIGGER index_table_maintain ON users;
UPDATE users SET email = 'untold' WHERE id = 10;
SELECT * FROM found('untold');
SELECT index_table, index_table.repair(index_table) FROM states;
TABLE states;
SELECT * FROM wrong();

-- A partition that leaves takes its disabled triggers along.
CREATE TABLE users_3 PARTITION OF users FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
ALTER TABLE users_3 DISABLE TRIGGER ALL;
INSERT INTO users VALUES (7000, '2026-03-07', 'seven', 'n');
ALTER TABLE users DETACH PARTITION users_3;
TABLE states;
SELECT index_table.repair(index_table) FROM states;
TABLE states;
SELECT * FROM wrong();
ALTER TABLE users ATTACH PARTITION users_3 FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
SELECT * FROM wrong();
INSERT INTO users VALUES (7000, '2026-03-07', 'seven', 'n');

-- Foreign keys that point at a key: what is entered anew takes no references along, what is gone is missed.
CREATE TABLE orders (id int PRIMARY KEY, email text REFERENCES users_by_email (email) ON DELETE CASCADE);
INSERT INTO orders SELECT i, 'new' || i FROM generate_series(20, 30) AS i;
BEGIN;
CALL switch('DISABLE TRIGGER ALL');
UPDATE users SET id = id + 10000;
CALL switch('ENABLE TRIGGER ALL');
COMMIT;
SELECT count(*) FROM orders;
BEGIN;
CALL switch('DISABLE TRIGGER ALL');
DELETE FROM users WHERE email = 'new20';
CALL switch('ENABLE TRIGGER ALL');
ROLLBACK;
SELECT * FROM wrong();

-- Sessions that replicate are told to index tables as all are.
SET session_replication_role = replica;
UPDATE users SET email = 'replica', name = 'replica' WHERE email = 'new31';
DELETE FROM users WHERE email = 'new32';
INSERT INTO users VALUES (8000, '2026-01-07', 'new33', 'twice');
RESET session_replication_role;
SELECT * FROM found('replica');
SELECT * FROM wrong();

-- Dumps of data disable triggers, too, and bring entries, before or after the rows: what they have brought is looked at. Where
-- they bring none, changes were missed.
SET check_function_bodies = off;
ALTER TABLE users_1 DISABLE TRIGGER ALL;
SELECT state FROM states WHERE index_table = 'users_by_email'::regclass;
ALTER TABLE users_1 ENABLE TRIGGER ALL;
SELECT state FROM states WHERE index_table = 'users_by_email'::regclass;
ALTER TABLE users_by_email DISABLE TRIGGER ALL;
SELECT state FROM states WHERE index_table = 'users_by_email'::regclass;
ALTER TABLE users_by_email ENABLE TRIGGER ALL;
SELECT state FROM states WHERE index_table = 'users_by_email'::regclass;
ALTER TABLE users_2 DISABLE TRIGGER ALL;
SELECT state, is_complete FROM states WHERE index_table = 'users_by_email'::regclass;
ALTER TABLE users_2 ENABLE TRIGGER ALL;
SELECT state, is_complete FROM states WHERE index_table = 'users_by_email'::regclass;
RESET check_function_bodies;
TABLE states;
SELECT index_table.repair(index_table) FROM states;
INSERT INTO users VALUES (9000, '2026-02-07', 'nine', 'n');
TABLE states;
SELECT * FROM wrong();

-- What was being built begins anew.
INSERT INTO users VALUES (9001, '2026-01-07', 'nine thousand', 'twice'), (9002, '2026-02-07', 'nine thousand and one', 'twice');
CALL index_table.create_concurrently('users', 'name, lower(name)', is_unique => true, name => 'users_unfinished');
ALTER TABLE users_2 DISABLE TRIGGER ALL;
UPDATE users_2 SET name = id::text;
CALL index_table.rebuild('users_unfinished');
ALTER TABLE users_2 ENABLE TRIGGER ALL;
TABLE states;
UPDATE users SET name = id::text;
CALL index_table.rebuild('users_unfinished');
TABLE states;
SELECT count(*) FROM index_table.verify('users_unfinished');
SELECT * FROM wrong();
SELECT index_table.drop('users_unfinished');
SELECT index_table.drop('users_by_name');
DELETE FROM recomputation WHERE index_table::text !~ '^users';

-- TRUNCATE of all tables there are.
TRUNCATE TABLE users, users_1, users_2, users_3, users_by_email, users_later, users_later_queue, users_later_queue_1, users_later_queue_2, orders
    RESTART IDENTITY CASCADE;
TABLE states;
INSERT INTO users VALUES (1, '2026-01-07', 'a', 'n');
SELECT * FROM found('a');
INSERT INTO users VALUES (2, '2026-02-07', 'a', 'n');
SELECT * FROM wrong();
TRUNCATE users, users_by_email CASCADE;
INSERT INTO users VALUES (1, '2026-01-07', 'a', 'n');
SELECT * FROM wrong();
-- All partitions are the whole table; a part of it is not.
TRUNCATE users_1, users_2, users_3, users_by_email, orders;
INSERT INTO users VALUES (1, '2026-01-07', 'a', 'n');
SELECT * FROM wrong();
TRUNCATE users_1, users_2, users_by_email, orders;
TRUNCATE users_by_email CASCADE;
TRUNCATE users_later_queue;
DELETE FROM users_by_email;
SELECT * FROM wrong();
-- With triggers disabled, and by DELETE.
CALL switch('DISABLE TRIGGER ALL');
TRUNCATE TABLE users, users_1, users_2, users_3, users_by_email, users_later, users_later_queue, users_later_queue_1, users_later_queue_2, orders
    RESTART IDENTITY CASCADE;
CALL switch('ENABLE TRIGGER ALL');
TABLE states;
INSERT INTO users VALUES (1, '2026-01-07', 'a', 'n');
INSERT INTO users VALUES (2, '2026-01-07', 'a', 'n');
SELECT * FROM wrong();
CALL switch('DISABLE TRIGGER ALL');
DELETE FROM users_by_email;
DELETE FROM users;
DELETE FROM users_later;
CALL switch('ENABLE TRIGGER ALL');
TABLE states;
INSERT INTO users VALUES (1, '2026-01-07', 'a', 'n');
SELECT * FROM found('a');
SELECT * FROM wrong();
-- Partitions of an index table, and one over a plain table.
CREATE TABLE plain (id int PRIMARY KEY, v text);
SELECT index_table.create('plain', 'v', partitions => 2);
INSERT INTO recomputation VALUES ('plain_by_v', 'v, partition_id, id', 'plain b');
INSERT INTO plain SELECT i, 'v' || i FROM generate_series(1, 10) AS i;
TRUNCATE plain, plain_by_v;
INSERT INTO plain SELECT i, 'v' || i FROM generate_series(1, 10) AS i;
TRUNCATE plain_by_v, plain_by_v_p0, plain_by_v_p1, plain;
INSERT INTO plain SELECT i, 'v' || i FROM generate_series(1, 10) AS i;
TRUNCATE plain_by_v_p0, plain_by_v_p1;
SELECT * FROM wrong();

DROP SCHEMA missed CASCADE;
