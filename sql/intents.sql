-- Intents: what a transaction leaves behind that fails after some shards have committed. The shards are tables of this database.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA remote;
CREATE SCHEMA intents;
SET search_path = intents;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Three servers: postgres_fdw commits on one after the other. Each refuses, at its commit, a transaction with a row that says so.
CREATE FUNCTION remote.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
CREATE TABLE people (id int NOT NULL, region text NOT NULL, email text, note text, when_seen date NOT NULL) PARTITION BY LIST (region);
DO $$
DECLARE part text;
BEGIN
    FOREACH part IN ARRAY '{a,b,c}'::text[] LOOP
        EXECUTE format('CREATE SERVER regress_intents_%s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                       part, split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
        EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER regress_intents_%s', part);
        EXECUTE format('CREATE TABLE remote.%s (id int, region text NOT NULL, email text, note text, seen date, PRIMARY KEY (id, seen))', part);
        EXECUTE format($q$CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON remote.%s DEFERRABLE INITIALLY DEFERRED
                          FOR EACH ROW WHEN (NEW.note = 'refuse') EXECUTE FUNCTION remote.refuse()$q$, part);
    END LOOP;
END $$;
CREATE FOREIGN TABLE people_a PARTITION OF people FOR VALUES IN ('a') SERVER regress_intents_a OPTIONS (schema_name 'remote', table_name 'a');
ALTER FOREIGN TABLE people_a ALTER when_seen OPTIONS (column_name 'seen');
CREATE FOREIGN TABLE people_b (note text, when_seen date OPTIONS (column_name 'seen') NOT NULL, email text, region text NOT NULL, id int NOT NULL)
    SERVER regress_intents_b OPTIONS (schema_name 'remote', table_name 'b');
ALTER TABLE people ATTACH PARTITION people_b FOR VALUES IN ('b');
CREATE FOREIGN TABLE people_c PARTITION OF people FOR VALUES IN ('c') SERVER regress_intents_c OPTIONS (schema_name 'remote', table_name 'c');
ALTER FOREIGN TABLE people_c ALTER when_seen OPTIONS (column_name 'seen');
CREATE TABLE people_here PARTITION OF people (PRIMARY KEY (id, when_seen)) FOR VALUES IN ('here');
SELECT index_table.create('people', 'email', is_unique => true, identity => 'when_seen, id');
SELECT index_table.create('people', 'note', 'denormalized', identity => 'id, when_seen, region');
INSERT INTO recomputation VALUES
    ('people_by_email', 'email, partition_id, when_seen, id', 'people b', 'true'),
    ('people_by_note', 'note, partition_id, id, when_seen, region, email', 'people b', 'true');
CREATE FUNCTION add(first int, refusing text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO people SELECT first + n, part, 'mail ' || first + n, CASE WHEN part = refusing THEN 'refuse' ELSE 'note' END, date '2026-01-01' + n::int
      FROM unnest('{a,b,c,here}'::text[]) WITH ORDINALITY AS p (part, n) $$;

-- A transaction that commits leaves nothing, one that fails before that neither.
SELECT add(10, NULL);
UPDATE people SET note = 'n' || id;
SELECT count(*) FROM index_table.intent;
BEGIN;
SELECT add(20, NULL);
ROLLBACK;
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();

-- Whichever server refuses, those before it have committed: whatever their order, three rows in all.
SELECT add(30, 'a');
SELECT add(40, 'b');
SELECT add(50, 'c');
SELECT count(*) FROM people WHERE id >= 30;
SELECT count(*) FROM people_by_email WHERE id >= 30;
SELECT problem, count(*) FROM index_table.verify('people_by_email') GROUP BY 1;
SELECT columns, cardinality(identities) AS values, count(*) FROM index_table.intent GROUP BY 1, 2 ORDER BY 1, 2;
-- Dumps leave out the numbers of these partitions; not of those that a transaction in progress is writing to, or one has
-- written to that has committed, in the view of a snapshot that does not see that.
SELECT p::regclass FROM index_table.unsettled_partitions() AS p ORDER BY 1;
BEGIN;
INSERT INTO index_table.intent (leaf, written_by) VALUES ('people_here', pg_current_xact_id());
SELECT p::regclass FROM index_table.unsettled_partitions() AS p ORDER BY 1;
COMMIT;
SELECT p::regclass FROM index_table.unsettled_partitions() AS p ORDER BY 1;
DELETE FROM index_table.intent WHERE leaf = 'people_here'::regclass;
CALL index_table.drain('people_by_email');
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
SELECT count(*) FROM people_by_email WHERE id >= 30;

-- Rows that are changed and deleted, with savepoints.
INSERT INTO people SELECT i, (ARRAY['a', 'b', 'c'])[1 + i % 3], 'old ' || i, 'old', date '2026-02-01' + i FROM generate_series(100, 399) AS i;
BEGIN;
UPDATE people SET email = 'new ' || id WHERE id BETWEEN 100 AND 199;
SAVEPOINT one;
DELETE FROM people WHERE id BETWEEN 200 AND 210;
ROLLBACK TO one;
DELETE FROM people WHERE id BETWEEN 300 AND 320;
UPDATE people SET when_seen = when_seen - 1000 WHERE id BETWEEN 330 AND 340;
UPDATE people SET note = 'refuse' WHERE id = 399;
COMMIT;
BEGIN;
UPDATE people SET email = 'newer ' || id WHERE id BETWEEN 100 AND 199;
UPDATE people SET note = 'refuse' WHERE id = 398;
COMMIT;
BEGIN;
UPDATE people SET email = 'newest ' || id WHERE id BETWEEN 100 AND 199;
UPDATE people SET note = 'refuse' WHERE id = 397;
COMMIT;
SELECT count(*) > 0 AS is_out_of_step FROM index_table.verify('people_by_email');
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
SELECT count(DISTINCT split_part(email, ' ', 1)) > 1 AS some_changed FROM people WHERE id BETWEEN 100 AND 199;

-- TRUNCATE, which names no rows: of two servers one commits first.
BEGIN;
TRUNCATE people_a;
INSERT INTO people VALUES (450, 'b', 'x', 'refuse', '2026-01-01');
COMMIT;
BEGIN;
TRUNCATE people_b;
INSERT INTO people VALUES (450, 'a', 'x', 'refuse', '2026-01-01');
COMMIT;
SELECT count(*) FILTER (WHERE region = 'a') = 0 OR count(*) FILTER (WHERE region = 'b') = 0 AS one_is_empty FROM people;
SELECT count(*) FROM index_table.intent WHERE columns IS NULL AND identities IS NULL;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();

-- The first transaction of a session: postgres_fdw asks to be told of its end when it first connects to a shard, for TRUNCATE after
-- the triggers. Intents are there before any shard commits, whoever is asked first: here one refuses in a table without index tables.
CREATE FOREIGN TABLE elsewhere (id int, region text, note text, seen date) SERVER regress_intents_c OPTIONS (schema_name 'remote', table_name 'c');
CREATE FUNCTION empty_two() RETURNS void LANGUAGE plpgsql AS 'BEGIN TRUNCATE people_a, people_b; END';
SELECT add(460, NULL);
\c -
SET client_min_messages = warning;
SET search_path = intents;
LOAD 'index_table'; -- PostgreSQL 15 has no such triggers on foreign tables
BEGIN;
TRUNCATE people_a;
INSERT INTO elsewhere VALUES (1, 'c', 'refuse', '2026-01-01');
COMMIT;
SELECT DISTINCT leaf::regclass FROM index_table.intent WHERE identities IS NULL ORDER BY 1;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
SELECT add(470, NULL);
\c -
SET client_min_messages = warning;
SET search_path = intents;
TRUNCATE people \; INSERT INTO elsewhere VALUES (1, 'c', 'refuse', '2026-01-01');
SELECT DISTINCT leaf::regclass FROM index_table.intent WHERE identities IS NULL ORDER BY 1;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
SELECT add(480, NULL);
\c -
SET client_min_messages = warning;
SET search_path = intents;
LOAD 'index_table';
BEGIN;
SAVEPOINT a;
SELECT empty_two();
ROLLBACK TO a;
SELECT empty_two();
INSERT INTO elsewhere VALUES (1, 'c', 'refuse', '2026-01-01');
COMMIT;
SELECT DISTINCT leaf::regclass FROM index_table.intent WHERE identities IS NULL ORDER BY 1;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
SELECT add(490, NULL);
-- Rows that are changed after it.
\c -
SET client_min_messages = warning;
SET search_path = intents;
BEGIN;
TRUNCATE people;
INSERT INTO people VALUES (1, 'b', 'new', 'x', '2026-01-01');
INSERT INTO elsewhere VALUES (1, 'c', 'refuse', '2026-01-01');
COMMIT;
SELECT DISTINCT leaf::regclass, identities IS NULL AS of_all FROM index_table.intent ORDER BY 1;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
TRUNCATE people;
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
DROP FOREIGN TABLE elsewhere;
SELECT add(495, NULL);

-- Columns by which not every index table finds rows any more: the partition is read as a whole.
DELETE FROM recomputation WHERE index_table = 'people_by_email'::regclass;
SELECT index_table.drop('people_by_email');
SELECT add(500, 'a');
SELECT add(510, 'b');
SELECT add(520, 'c');
SELECT DISTINCT columns FROM index_table.intent;
SELECT index_table.create('people', 'email', is_unique => true, identity => 'id, when_seen');
INSERT INTO recomputation VALUES ('people_by_email', 'email, partition_id, id, when_seen', 'people b', 'true');
SELECT count(*) > 0 AS is_out_of_step FROM index_table.verify('people_by_note');
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();

-- A row that is refused, for its key was taken meanwhile, stays.
INSERT INTO people VALUES (600, 'a', 'taken', 'refuse', '2026-01-01'), (601, 'b', 'taken too', 'x', '2026-01-01'), (602, 'c', 'taken as well', 'x', '2026-01-01');
INSERT INTO people VALUES (610, 'a', 'taken', 'x', '2026-01-01'), (611, 'b', 'taken too', 'refuse', '2026-01-01'), (612, 'c', 'taken as well', 'x', '2026-01-01');
INSERT INTO people VALUES (620, 'a', 'taken', 'x', '2026-01-01'), (621, 'b', 'taken too', 'x', '2026-01-01'), (622, 'c', 'taken as well', 'refuse', '2026-01-01');
SELECT count(*), count(DISTINCT email) FROM people WHERE id >= 600;
INSERT INTO people VALUES (630, 'here', 'taken', 'x', '2026-01-01'), (631, 'here', 'taken too', 'x', '2026-01-01'), (632, 'here', 'taken as well', 'x', '2026-01-01');
CALL index_table.drain();
SELECT count(*) > 0 AS kept FROM index_table.intent;
SELECT count(DISTINCT identity) FROM index_table.undrained;
DELETE FROM people WHERE id BETWEEN 630 AND 632;
CALL index_table.drain();
SELECT count(*) FROM index_table.undrained;
SELECT problem, count(*) FROM index_table.verify('people_by_email') GROUP BY 1;
DELETE FROM people WHERE id >= 600;
CALL index_table.drain();
SELECT * FROM differences();
SELECT count(*) FROM index_table.intent;

-- Identities whose text depends on the session's settings, or whose type means something else without its length.
CREATE TABLE codes (region text NOT NULL, code char(5) NOT NULL, bits bit(4) NOT NULL, at timestamptz NOT NULL, weight float8 NOT NULL, note text)
    PARTITION BY LIST (region);
DO $$
DECLARE part text;
BEGIN
    FOREACH part IN ARRAY '{a,b}'::text[] LOOP
        EXECUTE format('CREATE TABLE remote.codes_%s (region text NOT NULL, code char(5), bits bit(4), at timestamptz, weight float8, note text, '
                       'PRIMARY KEY (code, bits, at, weight), UNIQUE (bits, weight))', part);
        EXECUTE format($q$CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON remote.codes_%s DEFERRABLE INITIALLY DEFERRED
                          FOR EACH ROW WHEN (NEW.note = 'refuse') EXECUTE FUNCTION remote.refuse()$q$, part);
        EXECUTE format('CREATE FOREIGN TABLE codes_%s PARTITION OF codes FOR VALUES IN (%L) SERVER regress_intents_%s '
                       'OPTIONS (schema_name %L, table_name %L)', part, part, part, 'remote', 'codes_' || part);
    END LOOP;
END $$;
SELECT index_table.create('codes', 'note', identity => 'code, bits, at, weight');
INSERT INTO recomputation VALUES ('codes_by_note', 'note, partition_id, code, bits, at, weight', 'codes b', 'true');
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'Asia/Kolkata';
SET extra_float_digits = 0;
INSERT INTO codes SELECT part, 'abc', b'1010', '2026-04-03 10:00+00', 0.1::float8 + 0.2, CASE part WHEN 'a' THEN 'refuse' ELSE 'first' END FROM unnest('{a,b}'::text[]) AS part;
INSERT INTO codes SELECT part, 'abd', b'0101', '2026-04-03 10:00+00', 0.1::float8 + 0.2, CASE part WHEN 'b' THEN 'refuse' ELSE 'second' END FROM unnest('{a,b}'::text[]) AS part;
SELECT count(*) FROM codes;
SELECT count(*) FROM codes_by_note;
SELECT DISTINCT identities FROM index_table.intent ORDER BY 1;
CALL index_table.drain('codes_by_note');
SELECT count(*) FROM codes_by_note;
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
DELETE FROM recomputation WHERE index_table = 'codes_by_note'::regclass;
SELECT index_table.drop('codes_by_note');
SELECT index_table.create('codes', 'note', identity => 'bits, weight');
SET index_table.enable_scan = force;
SELECT count(*) FROM codes WHERE note IN ('first', 'second');
SET index_table.shard_access = fdw;
SELECT count(*) FROM codes WHERE note IN ('first', 'second');
RESET index_table.shard_access;
SET index_table.enable_scan = off;
SELECT count(*) FROM codes WHERE note IN ('first', 'second');
RESET index_table.enable_scan;
RESET DateStyle;
RESET TimeZone;
RESET extra_float_digits;

-- Identities so long that an intent is toasted.
CREATE TABLE papers (region text NOT NULL, id text NOT NULL, note text) PARTITION BY LIST (region);
CREATE TABLE remote.papers (region text NOT NULL, id text PRIMARY KEY, note text);
CREATE FOREIGN TABLE papers_a PARTITION OF papers FOR VALUES IN ('a') SERVER regress_intents_a OPTIONS (schema_name 'remote', table_name 'papers');
CREATE FUNCTION long(n int, length int) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(md5(n || ' ' || i), '') FROM generate_series(1, length / 32) AS i $$;
SELECT index_table.create('papers', 'note', identity => 'id');
INSERT INTO recomputation VALUES ('papers_by_note', 'note, partition_id, id', 'papers b', 'true');
INSERT INTO papers SELECT 'a', long(n, n), 'note ' || n FROM unnest('{32, 1568, 1600, 1984, 2016, 2048, 2400, 2592}'::int[]) AS n;
INSERT INTO papers VALUES ('a', repeat('again ', 20000), 'compressed');
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
CREATE FOREIGN TABLE elsewhere (id int, region text, note text, seen date) SERVER regress_intents_c OPTIONS (schema_name 'remote', table_name 'c');
CREATE FOREIGN TABLE elsewhere_too (id int, region text, note text, seen date) SERVER regress_intents_b OPTIONS (schema_name 'remote', table_name 'b');
BEGIN;
UPDATE papers SET note = 'new ' || note;
DELETE FROM papers WHERE id = long(2400, 2400);
INSERT INTO papers SELECT 'a', long(n, n), 'note ' || n FROM unnest('{2304, 2336}'::int[]) AS n;
INSERT INTO elsewhere VALUES (1, 'c', 'refuse', '2026-01-01');
COMMIT;
SELECT count(*), count(DISTINCT v), sum(DISTINCT length(v)) FROM index_table.intent, unnest(identities) AS v;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'index_table.intent'::regclass;
VACUUM index_table.intent;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
BEGIN;
DELETE FROM papers;
INSERT INTO elsewhere_too VALUES (1, 'c', 'refuse', '2026-01-01');
COMMIT;
VACUUM index_table.intent;
SELECT count(DISTINCT v) >= 9 AS all_noted FROM index_table.intent, unnest(identities) AS v;
CALL index_table.drain();
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
DELETE FROM papers;
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();

-- Without them a failure is left to verify() and repair().
SET index_table.shard_intents = off;
SELECT add(700, 'a');
SELECT add(710, 'b');
SELECT add(720, 'c');
SELECT count(*) FROM index_table.intent;
CALL index_table.drain();
SELECT count(*) > 0 AS is_out_of_step FROM index_table.verify('people_by_note');
RESET index_table.shard_intents;
SELECT index_table.repair('people_by_note') > 0 AS mended, index_table.repair('people_by_email') > 0 AS mended;
SELECT * FROM differences();

SET client_min_messages = error;
DROP SCHEMA intents, remote CASCADE;
DROP SERVER regress_intents_a CASCADE;
DROP SERVER regress_intents_b CASCADE;
DROP SERVER regress_intents_c CASCADE;
