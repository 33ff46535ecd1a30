-- INSERT … ON CONFLICT by the key of a unique index table where partitions are foreign tables: rows bound for shards, rows
-- found there. The shards are tables of this database, reached through postgres_fdw.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA shard;
CREATE SCHEMA upsert;
SET search_path = upsert;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
\set on_both :abs_srcdir '/sql/include/on_both.sql'
\i :on_both

\set loopback :abs_srcdir '/sql/include/loopback.sql'
\i :loopback
CREATE TABLE shard.one (k int PRIMARY KEY, mail text, name text, n int, twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE TABLE shard.two (n int, email text, id int PRIMARY KEY, name text, twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE TABLE parted (id int NOT NULL, email text, name text, n int DEFAULT 1, twice int GENERATED ALWAYS AS (n * 2) STORED) PARTITION BY RANGE (id);
CREATE TABLE parted_0 PARTITION OF parted (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE parted_1 PARTITION OF parted FOR VALUES FROM (10) TO (20) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'one');
ALTER FOREIGN TABLE parted_1 ALTER COLUMN id OPTIONS (column_name 'k'), ALTER COLUMN email OPTIONS (column_name 'mail');
CREATE FOREIGN TABLE parted_2 (n int DEFAULT 1, gone int, email text, id int NOT NULL, name text, twice int GENERATED ALWAYS AS (n * 2) STORED) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'two');
ALTER FOREIGN TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (20) TO (1000);
SELECT index_table.create('parted', 'email', is_unique => true, identity => 'id');
SELECT index_table.create('parted', 'n', 'denormalized', identity => 'id');
CREATE TABLE plain (id int PRIMARY KEY, email text UNIQUE, name text, n int DEFAULT 1, twice int GENERATED ALWAYS AS (n * 2) STORED);
INSERT INTO recomputation VALUES
    ('parted_by_email', 'email, partition_id, id', 'parted b', 'true'),
    ('parted_by_n', 'n, partition_id, id, email, name, twice', 'parted b', 'true');
INSERT INTO parted SELECT i, 'mail ' || i, 'name ' || i FROM generate_series(1, 30) AS i;
INSERT INTO plain SELECT id, email, name FROM parted;
CREATE FUNCTION compare() RETURNS SETOF text LANGUAGE sql AS $$
    (SELECT 'lost ' || p::text FROM plain AS p EXCEPT ALL SELECT 'lost ' || p::text FROM parted AS p)
    UNION ALL
    (SELECT 'surplus ' || p::text FROM parted AS p EXCEPT ALL SELECT 'surplus ' || p::text FROM plain AS p)
    UNION ALL
    SELECT d::text FROM differences() AS d $$;

-- DO NOTHING, with a target and without: rows bound for any partition, of which one there is in any partition.
SELECT on_both($$ INSERT INTO t (id, email) VALUES (40, 'mail 1'), (41, 'mail 11'), (42, 'mail 21'), (43, 'new 43'), (44, 'new 43'), (0, 'mail 12'), (19, 'x') ON CONFLICT (email) DO NOTHING RETURNING id $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (45, 'mail 1'), (46, 'mail 11'), (47, 'new 47'), (48, 'new 47') ON CONFLICT DO NOTHING RETURNING id $$);
SELECT on_both($$ INSERT INTO t (id, email) SELECT i + 60, 'mail ' || i FROM generate_series(28, 34) AS i ON CONFLICT DO NOTHING $$);
SELECT compare();
-- What the shard itself leaves out does not keep its key.
SELECT on_both($$ INSERT INTO t (id, email) VALUES (43, 'free'), (49, 'free') ON CONFLICT DO NOTHING RETURNING id $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (43, 'not free') ON CONFLICT (email) DO NOTHING $$);
SELECT compare();

-- DO UPDATE.
SELECT on_both($$ INSERT INTO t (id, email) VALUES (50, 'mail 1'), (51, 'mail 11'), (52, 'mail 21'), (53, 'new 53'), (8, 'mail 22') ON CONFLICT (email) DO UPDATE SET n = t.n + EXCLUDED.id, name = EXCLUDED.email RETURNING id, email, name, n, twice $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (54, 'mail 11'), (55, 'mail 21') ON CONFLICT (email) DO UPDATE SET n = 9 WHERE t.id < 20 RETURNING * $$);
SELECT on_both($$ INSERT INTO t (id, email) SELECT id + 200, email FROM t WHERE id BETWEEN 9 AND 12 OR id BETWEEN 19 AND 22 ORDER BY id ON CONFLICT (email) DO UPDATE SET name = (SELECT min(name) FROM t AS o WHERE o.id = t.id + 1) RETURNING id, name $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (56, 'mail 11'), (57, 'mail 21') ON CONFLICT (email) DO UPDATE SET email = EXCLUDED.email || '!' RETURNING id, email $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (58, 'mail 12') ON CONFLICT (email) DO UPDATE SET email = 'mail 13' $$);
SELECT on_both($$ WITH x AS (INSERT INTO t (id, email) VALUES (58, 'mail 12'), (59, 'new 59') ON CONFLICT (email) DO UPDATE SET n = 77 RETURNING id, n) SELECT * FROM x $$);
SELECT compare();
-- A row twice, wherever it is, whoever made it.
SELECT on_both($$ INSERT INTO t (id, email) VALUES (70, 'mail 12'), (71, 'mail 12') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (70, 'mail 2'), (71, 'mail 2') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (70, 'new 70'), (71, 'new 70') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT compare();

-- Triggers, in order.
CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log (side, line) VALUES (TG_ARGV[0], concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, pg_trigger_depth(), CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'INSERT' THEN OLD.id || ' ' || OLD.email || ' ' || OLD.n || ' =>' END, CASE WHEN TG_LEVEL = 'ROW' THEN NEW.id || ' ' || NEW.email || ' ' || NEW.n END));
    IF TG_LEVEL = 'ROW' AND TG_WHEN = 'BEFORE' AND TG_OP = 'UPDATE' THEN
        IF NEW.name = 'stays' THEN RETURN NULL; END IF;
        NEW.name := 'by the trigger';
    END IF;
    RETURN NEW;
END $$;
SELECT format($$
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON %1$s FOR EACH ROW EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER a AFTER INSERT OR UPDATE ON %1$s FOR EACH ROW EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER bs BEFORE INSERT OR UPDATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER s AFTER INSERT OR UPDATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION trace('%1$s') $$, t)
  FROM (VALUES ('parted'), ('plain')) AS v (t) \gexec
SELECT on_both($$ INSERT INTO t (id, email) VALUES (80, 'mail 3'), (81, 'mail 13'), (82, 'mail 23'), (83, 'new 83'), (3, 'mail 24') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, name, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (84, 'mail 13'), (85, 'mail 14') ON CONFLICT (email) DO UPDATE SET name = CASE t.id WHEN 13 THEN 'stays' END RETURNING id, name, n $$);
SELECT format('DROP TRIGGER %s ON %s', g, t) FROM unnest('{b,a,bs,s}'::text[]) AS g, (VALUES ('parted'), ('plain')) AS v (t) \gexec
SELECT compare();

-- What differs, and errors that leave nothing behind.
INSERT INTO parted (id, email) VALUES (5, 'mail 15') ON CONFLICT (email) DO UPDATE SET id = EXCLUDED.id;
\echo :SQLSTATE
INSERT INTO parted_1 (id, email) VALUES (18, 'mail 15') ON CONFLICT (email) DO UPDATE SET n = 5;
INSERT INTO parted_1 (id, email) VALUES (18, 'mail 15') ON CONFLICT (email) DO NOTHING;
BEGIN;
INSERT INTO parted (id, email) VALUES (390, 'mail 15'), (391, 'new 91') ON CONFLICT (email) DO UPDATE SET n = 5 RETURNING id, n;
SAVEPOINT s;
INSERT INTO parted (id, email) VALUES (392, 'mail 15'), (393, 'new 91') ON CONFLICT (email) DO UPDATE SET n = 6 RETURNING id, n;
ROLLBACK TO s;
SELECT id, n FROM parted WHERE email IN ('mail 15', 'new 91') ORDER BY id;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO parted (id, email) VALUES (390, 'mail 15'), (391, 'new 91') ON CONFLICT (email) DO UPDATE SET n = 5 RETURNING id, n;
INSERT INTO parted (id, email) VALUES (392, 'mail 15'), (393, 'new 91') ON CONFLICT (email) DO UPDATE SET n = 6 RETURNING id, n;
INSERT INTO parted (id, email) VALUES (392, 'mail 15'), (393, 'new 91') ON CONFLICT (email) DO NOTHING;
ROLLBACK;
SELECT compare();
EXPLAIN (COSTS OFF) INSERT INTO parted AS p (id, email) VALUES (1, 'x') ON CONFLICT (email) DO UPDATE SET n = p.n + 1;

-- Who may change the base table may change rows of shards.
CREATE ROLE regress_upsert_user;
GRANT USAGE ON SCHEMA upsert TO regress_upsert_user;
GRANT SELECT (id, email, n), INSERT (id, email, n), UPDATE (n) ON parted TO regress_upsert_user;
CREATE VIEW mails AS SELECT id, email, n FROM parted;
GRANT ALL ON mails TO regress_upsert_user;
SET ROLE regress_upsert_user;
INSERT INTO mails AS m (id, email) VALUES (90, 'mail 16') ON CONFLICT (email) DO UPDATE SET n = 55 RETURNING id, n;
RESET ROLE;
UPDATE plain SET n = 55 WHERE id = 16;
SELECT compare();

-- A foreign table that is the base table itself.
CREATE TABLE shard.three (id int PRIMARY KEY, email text);
CREATE FOREIGN TABLE alone (id int NOT NULL, email text) SERVER regress_shard OPTIONS (schema_name 'shard', table_name 'three');
SELECT index_table.create('alone', 'email', is_unique => true, identity => 'id');
INSERT INTO recomputation VALUES ('alone_by_email', 'email, partition_id, id', 'alone b', 'true');
INSERT INTO alone VALUES (1, 'a'), (2, 'a'), (3, 'b') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO alone VALUES (4, 'a'), (5, 'c') ON CONFLICT (email) DO NOTHING;
INSERT INTO alone VALUES (4, 'a'), (5, 'c') ON CONFLICT ON CONSTRAINT alone_by_email_key DO UPDATE SET email = 'x';
SELECT * FROM differences();

DROP OWNED BY regress_upsert_user;
DROP ROLE regress_upsert_user;
DROP SCHEMA upsert CASCADE;
DROP SCHEMA shard CASCADE;
DROP SERVER regress_shard CASCADE;
DROP SCHEMA extensions CASCADE;
