-- Speculative entries beside what owners have added to an index table, and in statements that fail.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA speculation;
SET search_path = speculation;
RESET client_min_messages;
\set VERBOSITY terse
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- A target is the key: other unique indexes and exclusion constraints of its index table raise.
CREATE TABLE users (id int PRIMARY KEY, email text, phone text, n int DEFAULT 0) PARTITION BY RANGE (id);
CREATE TABLE users_0 PARTITION OF users FOR VALUES FROM (0) TO (100);
CREATE TABLE users_1 PARTITION OF users FOR VALUES FROM (100) TO (200);
SELECT index_table.create('users', 'email', 'partial', include => 'phone, n', is_unique => true);
INSERT INTO recomputation VALUES ('users_by_email', 'email, partition_id, id, phone, n', 'users b');
CREATE UNIQUE INDEX ON users_by_email (phone);
CREATE UNIQUE INDEX ON users_by_email (email) WHERE phone = '0';
ALTER TABLE users_by_email ADD EXCLUDE USING btree ((length(phone)) WITH =) WHERE (length(phone) > 3);
INSERT INTO users VALUES (1, 'a', '1'), (102, 'b', '2'), (3, 'c', '1234');
INSERT INTO users VALUES (4, 'd', '1') ON CONFLICT (email) DO NOTHING;
\echo :SQLSTATE
INSERT INTO users VALUES (4, 'd', '2') ON CONFLICT (email) DO UPDATE SET n = 9;
\echo :SQLSTATE
INSERT INTO users VALUES (4, 'd', '4321') ON CONFLICT (email) DO UPDATE SET n = 9;
\echo :SQLSTATE
INSERT INTO users VALUES (4, 'd', '4321'), (5, 'e', '2') ON CONFLICT DO NOTHING;
INSERT INTO users VALUES (4, 'a', '2'), (5, 'e', '5') ON CONFLICT (email) DO UPDATE SET n = users.n + 1 RETURNING id, email, phone, n;
WITH gone AS (DELETE FROM users WHERE id = 102 RETURNING phone) INSERT INTO users SELECT 6, 'f', phone FROM gone ON CONFLICT (email) DO NOTHING;
DROP TABLE users_1;
CREATE TABLE users_1 PARTITION OF users FOR VALUES FROM (100) TO (200);
INSERT INTO users VALUES (102, 'g', '7');
TRUNCATE users_1;
INSERT INTO users VALUES (103, 'h', '7') ON CONFLICT (email) DO UPDATE SET n = 9;
TABLE users ORDER BY id;
SELECT * FROM differences();
-- What is deferred is checked in time.
ALTER TABLE users_by_email ADD CONSTRAINT later UNIQUE (n, email) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO users VALUES (7, 'i', '8'), (8, 'a', '8') ON CONFLICT (email) DO UPDATE SET n = 8 RETURNING id, n;
SELECT * FROM differences();
DROP TABLE users;
DELETE FROM recomputation;

-- Index tables with triggers: on a partition alone; rows that a nested statement changes; entries with toasted parts.
CREATE TABLE posts (id int PRIMARY KEY, title text, n int DEFAULT 0, body text) PARTITION BY RANGE (id);
CREATE TABLE posts_0 PARTITION OF posts FOR VALUES FROM (0) TO (10);
CREATE TABLE posts_1 PARTITION OF posts FOR VALUES FROM (10) TO (1000);
SELECT index_table.create('posts', 'title', is_unique => true, partitions => 4, name => 'hashed');
SELECT index_table.create('posts', 'title, n', 'denormalized', is_unique => true, name => 'whole');
INSERT INTO recomputation VALUES
    ('hashed', 'title, partition_id, id', 'posts b'),
    ('whole', 'title, n, partition_id, id, body', 'posts b');
CREATE TABLE seen (relation text, id int);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen VALUES (TG_RELNAME, NEW.id); RETURN NEW; END';
SELECT format('CREATE TRIGGER see AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION see()', relid) AS command
  FROM pg_partition_tree('hashed') WHERE isleaf ORDER BY relid::text LIMIT 1 OFFSET 2
\gexec
INSERT INTO posts SELECT i, 'title ' || i FROM generate_series(1, 20) AS i ON CONFLICT DO NOTHING;
INSERT INTO posts SELECT i, 'title ' || i FROM generate_series(1, 40) AS i ON CONFLICT (title) DO NOTHING;
SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM posts) FROM seen;
SELECT * FROM differences();
CREATE TRIGGER see AFTER INSERT ON whole FOR EACH ROW EXECUTE FUNCTION see();
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen VALUES ('before', NEW.id);
    UPDATE posts SET n = n + 1 WHERE id = NEW.id - 2;
    IF NEW.id % 3 = 0 THEN
        BEGIN
            UPDATE posts SET n = n + 5 WHERE id IN (NEW.id - 1, NEW.id - 4);
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
        END;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO posts SELECT i, 'title ' || i, 0, (SELECT string_agg(sha512((i || ' ' || j)::bytea)::text, '') FROM generate_series(1, 50) AS j) FROM generate_series(41, 50) AS i
    ON CONFLICT DO NOTHING;
SELECT id, n, length(body) FROM posts WHERE id > 40 ORDER BY id;
SELECT relation, count(*), count(DISTINCT id) FROM seen WHERE id > 40 GROUP BY 1 ORDER BY 1;
SELECT * FROM differences();
INSERT INTO posts SELECT i, 'title ' || i, 0, (SELECT string_agg(sha512((i || ' ' || j)::bytea)::text, '') FROM generate_series(1, 50) AS j) FROM generate_series(49, 55) AS i
    ON CONFLICT (title) DO UPDATE SET n = 77;
SELECT id, n, length(body) FROM posts WHERE id > 45 ORDER BY id;
SELECT * FROM differences();
DROP TRIGGER meddle ON posts;

-- Statements that fail leave no memory behind until the transaction ends.
DO $$
DECLARE
    failed int := 0;
BEGIN
    FOR i IN 1..50 LOOP
        BEGIN
            INSERT INTO posts VALUES (1, 'another ' || i) ON CONFLICT (title) DO NOTHING;
        EXCEPTION WHEN unique_violation THEN
            failed := failed + 1;
        END;
    END LOOP;
    RAISE WARNING '% failed, % left', failed, (SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'index_table speculation');
END $$;

-- Nor what is to be checked again of entries that are no more, in relations that are no more.
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() = 1 THEN INSERT INTO late SELECT NEW.id + 100, NEW.title; END IF;
    RETURN NULL;
END $$;
BEGIN;
SAVEPOINT before;
CREATE TABLE late (id int PRIMARY KEY, title text) PARTITION BY RANGE (id);
CREATE TABLE late_0 PARTITION OF late DEFAULT;
SELECT index_table.create('late', 'title', is_unique => true);
CREATE TRIGGER again AFTER INSERT ON late FOR EACH ROW EXECUTE FUNCTION again();
INSERT INTO late VALUES (1, 'a'), (2, 'b'), (3, 'c');
\echo :SQLSTATE
ROLLBACK TO before;
SELECT 'goes on' AS transaction;
COMMIT;

-- A partition that is published without a replica identity takes no updates.
SET client_min_messages = error; -- wal_level
CREATE PUBLICATION speculation FOR TABLE posts;
RESET client_min_messages;
ALTER TABLE posts_0 REPLICA IDENTITY NOTHING;
INSERT INTO posts VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = 100;
\echo :SQLSTATE
INSERT INTO posts VALUES (60, 'title 1') ON CONFLICT (title) DO UPDATE SET n = 100;
\echo :SQLSTATE
INSERT INTO posts VALUES (9, 'title 11'), (61, 'title 12') ON CONFLICT (title) DO UPDATE SET n = 100 RETURNING id;
SELECT * FROM differences();
DROP PUBLICATION speculation;

SET client_min_messages = warning;
DROP SCHEMA speculation CASCADE;
