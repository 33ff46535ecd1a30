-- What runs where PostgreSQL has no snapshot at hand: procedures that have committed, the end of a transaction. Functions that are
-- computed when a key is planned, for their arguments are constants, and long definitions, which are toasted.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
LOAD 'index_table';
CREATE SCHEMA snapshots;
CREATE SCHEMA remote_snapshots;
SET search_path = snapshots;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE words (i int PRIMARY KEY, word text);
INSERT INTO words SELECT i, 'w' || i FROM generate_series(1, 5) AS i;
CREATE FUNCTION word(n int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS -- as far as anybody knows
    $$ BEGIN RETURN (SELECT string_agg(word, '' ORDER BY i) FROM snapshots.words WHERE i <= n); END $$;
-- Text of that length, as a literal.
CREATE FUNCTION long(length int) RETURNS text LANGUAGE sql AS
    $$ SELECT quote_literal(string_agg(md5(i::text), '')) FROM generate_series(1, length / 32) AS i $$;
CREATE TABLE things (id int NOT NULL, part int NOT NULL, name text, n int) PARTITION BY LIST (part);
CREATE TABLE things_1 PARTITION OF things (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE things_2 PARTITION OF things (PRIMARY KEY (id)) FOR VALUES IN (2);
INSERT INTO things SELECT i, 1 + i % 2, 'name ' || i, i FROM generate_series(10, 200) AS i;

SELECT format('name <> %s AND length(snapshots.word(n %% 3 + 1)) > 0 AND snapshots.word(2) = ''w1w2''', long(20000)) AS condition,
       format('(CASE WHEN name = %s THEN snapshots.word(3) ELSE snapshots.word(2) || name END)', long(20000)) AS key \gset
CALL index_table.create_concurrently('things', :'key', is_unique => true, identity => 'id', name => 'things_unique');
CALL index_table.create_concurrently('things', :'key', 'denormalized', predicate => :'condition', identity => 'id', name => 'things_wide');
INSERT INTO recomputation VALUES
    ('things_unique', :'key' || ', partition_id, id', 'things b', 'true'),
    ('things_wide', :'key' || ', partition_id, id, part, name, n', 'things b', :'condition');
SELECT * FROM differences();
UPDATE things SET name = name || '!', n = n + 1 WHERE id % 5 = 0;
SELECT * FROM differences();
CALL index_table.rebuild('things_wide');
SELECT index_table.repair('things_unique');
TRUNCATE things_1;
SELECT index_table.vacuum() > 0 AS removed;
SELECT * FROM differences();

-- The first row trigger of a session comes by COPY: it is entered when the transaction ends.
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
BEGIN;
COPY things FROM stdin;
1000	1	copied	1
1001	2	copied too	2
\.
COMMIT;
SELECT * FROM differences();
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
BEGIN;
COPY things FROM stdin;
1002	1	prepared	1
\.
PREPARE TRANSACTION 'snapshots';
COMMIT PREPARED 'snapshots';
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'things_wide'::regclass;
SELECT index_table.drop('things_wide');

-- A foreign partition is drained, in transactions of the procedure's own.
LOAD 'index_table';
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_snapshots FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
    split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_snapshots;
CREATE TABLE remote_snapshots.things (id int PRIMARY KEY, part int NOT NULL, name text, n int);
CREATE FOREIGN TABLE things_3 PARTITION OF things FOR VALUES IN (3) SERVER regress_snapshots OPTIONS (schema_name 'remote_snapshots', table_name 'things');
SELECT index_table.capture('remote_snapshots.things', 'id');
INSERT INTO things SELECT i, 3, 'name ' || i, i FROM generate_series(2001, 2010) AS i;
INSERT INTO remote_snapshots.things SELECT i, 3, 'name ' || i, i FROM generate_series(2011, 2020) AS i;
CALL index_table.drain();
SELECT * FROM differences();
UPDATE remote_snapshots.things SET name = 'name 11', n = 2 WHERE id = 2020;
UPDATE remote_snapshots.things SET name = 'other ' || id WHERE id < 2015;
CALL index_table.drain();
SELECT identity, error FROM index_table.undrained;
SELECT id, name FROM things WHERE id IN (11, 2020);
DELETE FROM things WHERE id = 11;
CALL index_table.drain('things_unique');
SELECT count(*) FROM index_table.undrained;
SELECT * FROM differences();

-- Triggers on an index table that use a shard. Where they are fired at the end of the transaction postgres_fdw may not be told of it.
CREATE TABLE remote_snapshots.seen (name text, what text);
CREATE FOREIGN TABLE seen (name text, what text) SERVER regress_snapshots OPTIONS (schema_name 'remote_snapshots');
CREATE TABLE local_words (word text, what text);
CREATE FUNCTION note_seen() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE format('INSERT INTO snapshots.%I VALUES ($1, $2)', TG_ARGV[0]) USING NEW.id::text, TG_NAME; RETURN NULL; END $$;
CREATE FUNCTION count_seen() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF (SELECT count(*) FROM snapshots.seen) < 0 THEN RAISE EXCEPTION 'negative'; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER locally AFTER INSERT ON things_unique DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_seen('local_words');
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON things_unique DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_seen('seen');
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
COPY things FROM stdin;
1	2	late	1
\.
SELECT count(*) FROM seen;
-- The library is loaded by now; postgres_fdw knows of the session's transactions.
COPY things FROM stdin;
2	2	in time	1
\.
SELECT name, what FROM seen;
SELECT word, what FROM local_words;
DROP TRIGGER deferred ON things_unique;
CREATE CONSTRAINT TRIGGER reading AFTER INSERT ON things_unique DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_seen();
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
COPY things FROM stdin;
3	2	late	1
\.
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
LOAD 'index_table';
COPY things FROM stdin;
3	2	in time, too	1
\.
DROP TRIGGER reading ON things_unique;
\c -
SET client_min_messages = warning;
SET search_path = snapshots;
\set VERBOSITY terse
COPY things FROM stdin;
4	2	here	1
\.
SELECT word FROM local_words ORDER BY word;
SELECT * FROM differences();

SET client_min_messages = error;
DROP SCHEMA snapshots, remote_snapshots CASCADE;
DROP SERVER regress_snapshots CASCADE;
