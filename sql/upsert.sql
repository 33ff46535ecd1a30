-- INSERT … ON CONFLICT with a target that is the key of a unique index table: beside one table without partitions
-- whose key PostgreSQL keeps unique.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA upsert;
SET search_path = upsert;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE parted (id int PRIMARY KEY, email text, name text, active bool DEFAULT true, n int DEFAULT 1 CONSTRAINT small CHECK (n < 100), twice int GENERATED ALWAYS AS (n * 2) STORED) PARTITION BY RANGE (id);
CREATE TABLE parted_1 (twice int GENERATED ALWAYS AS (n * 2) STORED, gone int, n int DEFAULT 1 CONSTRAINT small CHECK (n < 100), active bool DEFAULT true, name text, email text, id int NOT NULL);
ALTER TABLE parted_1 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20) PARTITION BY HASH (id);
CREATE TABLE parted_2_0 PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_2_1 PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
CREATE TABLE plain (id int PRIMARY KEY, email text CONSTRAINT plain_by_email_key UNIQUE, name text, active bool DEFAULT true, n int DEFAULT 1 CONSTRAINT small CHECK (n < 100), twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE UNIQUE INDEX ON plain (lower(name), n) WHERE active;
SELECT index_table.create('parted', 'email', is_unique => true);
SELECT index_table.create('parted', 'lower(name), n', is_unique => true, predicate => 'active', partitions => 2, name => 'parted_by_name');
INSERT INTO recomputation VALUES
    ('parted_by_email', 'email, partition_id, id', 'parted b', 'true'),
    ('parted_by_name', 'lower(name), n, partition_id, id', 'parted b', 'active');
INSERT INTO parted SELECT i, 'mail ' || i, 'name ' || i FROM generate_series(1, 24) AS i;
INSERT INTO plain SELECT id, email, name FROM parted;

\set on_both :abs_srcdir '/sql/include/on_both.sql'
\i :on_both
CREATE FUNCTION compare() RETURNS SETOF text LANGUAGE sql AS $$
    (SELECT 'lost ' || p::text FROM plain AS p EXCEPT ALL SELECT 'lost ' || p::text FROM parted AS p)
    UNION ALL
    (SELECT 'surplus ' || p::text FROM parted AS p EXCEPT ALL SELECT 'surplus ' || p::text FROM plain AS p)
    UNION ALL
    SELECT d::text FROM differences() AS d $$;

-- The row is found in any partition. One and many rows, where they come from, what they return, in order.
SELECT on_both($$ INSERT INTO t VALUES (30, 'mail 1', 'x') ON CONFLICT (email) DO UPDATE SET n = t.n + EXCLUDED.n, name = EXCLUDED.name RETURNING * $$);
SELECT on_both($$ INSERT INTO t VALUES (30, 'mail 2'), (31, 'new 31'), (32, 'mail 12'), (33, 'mail 24'), (34, 'new 34') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, email, n, twice $$);
SELECT on_both($$ INSERT INTO t SELECT i + 40, 'mail ' || i FROM generate_series(20, 27) AS i ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.id RETURNING id, n + 1 $$);
SELECT on_both($$ INSERT INTO t SELECT id + 100, email FROM t WHERE id < 4 ORDER BY id ON CONFLICT (email) DO UPDATE SET name = (SELECT string_agg(name, ',' ORDER BY id) FROM t AS o WHERE o.id < 3) RETURNING id, name $$);
SELECT on_both($$ INSERT INTO t AS mine VALUES (35, 'mail 3'), (36, 'mail 4') ON CONFLICT (email) DO UPDATE SET (name, n) = (EXCLUDED.email, mine.n + 5), active = DEFAULT WHERE mine.id <> 3 RETURNING * $$);
SELECT on_both($$ INSERT INTO t VALUES (35, 'mail 3') ON CONFLICT (email) DO UPDATE SET n = 2 WHERE NULL $$);
SELECT on_both($$ INSERT INTO t VALUES (35, 'mail 3'), (36, 'new 36'), (37, NULL), (38, NULL) ON CONFLICT (email) DO NOTHING RETURNING id $$);
SELECT on_both($$ WITH x AS (INSERT INTO t VALUES (39, 'mail 5'), (60, 'new 60') ON CONFLICT (email) DO UPDATE SET n = 9 RETURNING id, n) SELECT * FROM x $$);
SELECT on_both($$ WITH x AS (INSERT INTO t VALUES (39, 'mail 6'), (61, 'new 61') ON CONFLICT (email) DO UPDATE SET n = 9 RETURNING id, n) SELECT * FROM x LIMIT 1 $$);
SELECT on_both($$ WITH x AS (INSERT INTO t VALUES (39, 'mail 7'), (62, 'new 62') ON CONFLICT (email) DO UPDATE SET n = 9) SELECT * FROM (VALUES (1)) v $$);
SELECT compare();

-- Targets: expressions, predicates, operator classes, collations, constraints; PostgreSQL's own index where it has one.
SELECT on_both($$ INSERT INTO t VALUES (70, 'e', 'NAME 8', true, 1) ON CONFLICT (n, lower(name)) WHERE active DO UPDATE SET email = EXCLUDED.email RETURNING * $$);
SELECT on_both($$ INSERT INTO t VALUES (70, 'e2', 'NAME 8', false, 1) ON CONFLICT (lower(name), n) WHERE active AND id > 0 DO NOTHING $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9', 'NAME 9', true, 1) ON CONFLICT (lower(name), n) WHERE active DO UPDATE SET email = EXCLUDED.email $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9') ON CONFLICT ON CONSTRAINT t_by_email_key DO UPDATE SET n = 3 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9') ON CONFLICT (email text_ops) DO UPDATE SET n = 4 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9') ON CONFLICT (email COLLATE "default") DO UPDATE SET n = 5 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9') ON CONFLICT (email COLLATE "C") DO UPDATE SET n = 5 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (71, 'mail 9') ON CONFLICT (email text_pattern_ops) DO NOTHING $$);
SELECT on_both($$ INSERT INTO t VALUES (1, 'mail 1') ON CONFLICT (id) DO UPDATE SET n = 6 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (1, 'mail 2') ON CONFLICT (id) DO UPDATE SET n = 7 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t VALUES (72, 'mail 2') ON CONFLICT (id) DO NOTHING $$);
SELECT on_both($$ INSERT INTO t VALUES (1, 'another') ON CONFLICT (email) DO NOTHING $$);
SELECT on_both($$ INSERT INTO t VALUES (1, 'another') ON CONFLICT (email) DO UPDATE SET n = 8 $$);
SELECT compare();

-- What is refused, and what to do.
INSERT INTO parted VALUES (80, 'mail 1', 'name 1') ON CONFLICT (lower(name), n) DO NOTHING;
INSERT INTO parted VALUES (80, 'mail 1', 'name 1') ON CONFLICT (name) DO NOTHING;
INSERT INTO parted VALUES (80, 'mail 1', 'name 1') ON CONFLICT ON CONSTRAINT parted_by_mail_key DO NOTHING;
INSERT INTO parted VALUES (15, 'mail 3') ON CONFLICT (email) DO UPDATE SET id = EXCLUDED.id;
\echo :SQLSTATE
BEGIN;
INSERT INTO parted VALUES (15, 'mail 3') ON CONFLICT (email) DO UPDATE SET id = 103 RETURNING *;
ROLLBACK;
BEGIN;
INSERT INTO parted VALUES (25, 'mail 23') ON CONFLICT (email) DO UPDATE SET id = EXCLUDED.id RETURNING tableoid::regclass, id;
ROLLBACK;
INSERT INTO parted_1 (id, email) VALUES (8, 'mail 3') ON CONFLICT (email) DO UPDATE SET name = 'in the partition';
INSERT INTO parted_3 (id, email) VALUES (88, 'mail 3') ON CONFLICT (email) DO UPDATE SET name = 'in another';
INSERT INTO parted_3 (id, email) VALUES (88, 'mail 3') ON CONFLICT (email) DO NOTHING;
INSERT INTO parted_2 (id, email) VALUES (12, 'mail 13') ON CONFLICT (email) DO UPDATE SET name = 'below' RETURNING tableoid::regclass, *;
UPDATE plain SET name = p.name FROM parted AS p WHERE p.id = plain.id;
CREATE TABLE odd (id int PRIMARY KEY, tags int[], n int) PARTITION BY RANGE (id);
CREATE TABLE odd_1 PARTITION OF odd FOR VALUES FROM (0) TO (100);
SELECT index_table.create('odd', 'tags', is_unique => true);
SELECT index_table.create('odd', 'n', is_unique => true, is_deferrable => true);
INSERT INTO odd VALUES (1, '{1,2}', 1) ON CONFLICT (tags) DO NOTHING;
INSERT INTO odd VALUES (1, '{1,2}', 1) ON CONFLICT ON CONSTRAINT odd_by_tags_key DO NOTHING;
INSERT INTO odd VALUES (1, '{1,2}', 1) ON CONFLICT (n) DO NOTHING;
INSERT INTO odd VALUES (1, '{1,2}', 1) ON CONFLICT ON CONSTRAINT odd_by_n_key DO NOTHING;
SELECT compare();

-- A row twice; a key that the statement gives away, or takes.
SELECT on_both($$ INSERT INTO t VALUES (81, 'mail 1'), (82, 'mail 1') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t VALUES (81, 'new'), (82, 'new') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t VALUES (81, 'new'), (82, 'new') ON CONFLICT (email) DO NOTHING RETURNING id $$);
SELECT on_both($$ INSERT INTO t VALUES (83, 'mail 1'), (84, 'mail 1') ON CONFLICT (email) DO UPDATE SET email = 'given away' RETURNING id, email $$);
SELECT on_both($$ INSERT INTO t VALUES (85, 'mail 1'), (86, 'taken') ON CONFLICT (email) DO UPDATE SET email = 'taken' RETURNING id, email $$);
SELECT on_both($$ INSERT INTO t VALUES (85, 'mail 2') ON CONFLICT (email) DO UPDATE SET email = 'mail 3' $$);
SELECT on_both($$ INSERT INTO t VALUES (85, 'mail 2'), (86, 'mail 2'), (87, 'mail 2') ON CONFLICT (email) DO UPDATE SET email = 'mail 2a' $$);
SELECT on_both($$ WITH gone AS (DELETE FROM t WHERE id = 2 RETURNING *) INSERT INTO t (id, email) SELECT id + 90, email FROM gone ON CONFLICT (email) DO UPDATE SET n = 50 RETURNING id, n $$);
SELECT compare();

-- Checks: NOT NULL, CHECK, generated columns, of what is inserted first and of what it becomes.
SELECT on_both($$ INSERT INTO t (id, email, n) VALUES (90, 'mail 3', 100) ON CONFLICT (email) DO UPDATE SET n = 3 $$);
SELECT on_both($$ INSERT INTO t (id, email, n) VALUES (90, 'mail 3', 99) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.twice $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (NULL, 'mail 3') ON CONFLICT (email) DO UPDATE SET n = 3 $$);
SELECT on_both($$ INSERT INTO t (id, email, n) VALUES (90, 'mail 3', 40) ON CONFLICT (email) DO UPDATE SET n = t.twice + EXCLUDED.twice RETURNING n, twice $$);

-- Triggers, in order: rows and statements, what they see, what they change, what they keep from being done.
CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log (side, line) VALUES (TG_ARGV[0], concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, pg_trigger_depth(), CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'INSERT' THEN OLD.id || ' ' || OLD.email || ' ' || OLD.n || ' =>' END, CASE WHEN TG_LEVEL = 'ROW' THEN NEW.id || ' ' || NEW.email || ' ' || NEW.n END));
    IF TG_LEVEL = 'ROW' AND TG_WHEN = 'BEFORE' THEN
        IF NEW.name = 'never' AND TG_OP = 'INSERT' OR NEW.name = 'stays' AND TG_OP = 'UPDATE' THEN RETURN NULL; END IF;
        IF NEW.name = 'plus' THEN NEW.n := NEW.n + 10; END IF;
        NEW.email := replace(NEW.email, 'was ', '');
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION trace_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN INSERT INTO log (side, line) SELECT TG_ARGV[0], 'inserted ' || string_agg(id || ' ' || n, ', ' ORDER BY id) FROM new_rows;
    ELSE INSERT INTO log (side, line) SELECT TG_ARGV[0], 'updated ' || string_agg(o.id || ' ' || o.n || ' => ' || w.n, ', ' ORDER BY o.id) FROM old_rows o JOIN new_rows w USING (id); END IF;
    RETURN NULL;
END $$;
SELECT format($$
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON %1$s FOR EACH ROW EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER o BEFORE UPDATE OF name ON %1$s FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER a AFTER INSERT OR UPDATE ON %1$s FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER bs BEFORE INSERT OR UPDATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER s AFTER INSERT OR UPDATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION trace('%1$s');
CREATE TRIGGER ri AFTER INSERT ON %1$s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trace_rows('%1$s');
CREATE TRIGGER ru AFTER UPDATE ON %1$s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION trace_rows('%1$s') $$, t)
  FROM (VALUES ('parted'), ('plain')) AS v (t) \gexec
SELECT on_both($$ INSERT INTO t (id, email) VALUES (200, 'mail 9'), (201, 'new 201'), (202, 'mail 14') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email, name) VALUES (203, 'was mail 9', 'plus'), (204, 'mail 10', 'never'), (205, 'was new 205', 'plus') ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n, name = 'plus' RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (206, 'mail 10') ON CONFLICT (email) DO UPDATE SET n = 5, name = 'stays' RETURNING id $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (206, 'mail 10'), (207, 'mail 11') ON CONFLICT (email) DO UPDATE SET email = 'was ' || EXCLUDED.email || '!' WHERE t.id < 11 RETURNING id, email $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (208, 'mail 11') ON CONFLICT (email) DO NOTHING $$);
SELECT on_both($$ INSERT INTO t (id, email) SELECT 209, 'mail 11' WHERE false ON CONFLICT (email) DO UPDATE SET n = 1 $$);
SELECT compare();
-- Triggers that write to the table.
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() > 1 THEN RETURN NEW; END IF;
    IF NEW.email LIKE 'del %' THEN EXECUTE format('DELETE FROM %I WHERE email = %L', TG_ARGV[0], NEW.email); END IF;
    IF NEW.email LIKE 'ins %' THEN EXECUTE format('INSERT INTO %I (id, email) VALUES (%s, %L)', TG_ARGV[0], NEW.id + 1000, NEW.email); END IF;
    IF TG_OP = 'UPDATE' AND NEW.email LIKE 'upd %' THEN EXECUTE format('UPDATE %I SET n = n + 1 WHERE email = %L', TG_ARGV[0], NEW.email); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON parted FOR EACH ROW EXECUTE FUNCTION meddle('parted');
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON plain FOR EACH ROW EXECUTE FUNCTION meddle('plain');
SELECT on_both($$ INSERT INTO t (id, email) VALUES (210, 'del 1'), (211, 'upd 1') ON CONFLICT (email) DO NOTHING $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (212, 'del 1') ON CONFLICT (email) DO UPDATE SET n = 70 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (213, 'upd 1') ON CONFLICT (email) DO UPDATE SET n = 70 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (214, 'mail 15') ON CONFLICT (email) DO UPDATE SET email = 'ins 1' RETURNING id, n $$);
SELECT compare();
DROP TRIGGER m ON parted;
DROP TRIGGER m ON plain;
SELECT format('DROP TRIGGER %s ON %s', g, t) FROM unnest('{b,o,a,bs,s,ri,ru}'::text[]) AS g, (VALUES ('parted'), ('plain')) AS v (t) \gexec

-- Functions, prepared statements, views, savepoints.
CREATE FUNCTION touch(new_email text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result record;
BEGIN
    INSERT INTO parted AS p (id, email) VALUES (300, new_email) ON CONFLICT (email) DO UPDATE SET n = p.n + 1 RETURNING * INTO result;
    RETURN result.id || ' ' || result.n || ' ' || FOUND;
END $$;
CREATE FUNCTION touch_sql(text) RETURNS int BEGIN ATOMIC INSERT INTO parted AS p (id, email) VALUES (301, $1) ON CONFLICT (email) DO UPDATE SET n = p.n + 1 RETURNING p.n; END;
SELECT touch('mail 16'), touch('mail 16'), touch_sql('mail 16'), touch('new 300'), touch('new 300'), touch_sql('new 301'), touch_sql('new 301');
CREATE VIEW emails AS SELECT id, email AS mail, n FROM parted WHERE n < 50 WITH CHECK OPTION;
INSERT INTO emails AS e VALUES (302, 'mail 16', 1), (302, 'new 302', 1) ON CONFLICT (mail) DO UPDATE SET n = e.n + EXCLUDED.n RETURNING *;
INSERT INTO emails AS e VALUES (303, 'mail 16', 1) ON CONFLICT (mail) DO UPDATE SET n = 50;
INSERT INTO emails AS e VALUES (303, 'mail 16', 50) ON CONFLICT (mail) DO UPDATE SET n = 1;
PREPARE upsert (int, text) AS INSERT INTO parted AS p (id, email) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET n = p.n + 1 RETURNING id, n;
SET plan_cache_mode = force_generic_plan;
EXECUTE upsert (304, 'mail 17');
EXECUTE upsert (304, 'new 304');
EXECUTE upsert (305, 'new 304');
BEGIN;
SAVEPOINT s;
EXECUTE upsert (306, 'mail 17');
EXECUTE upsert (306, 'new 306');
ROLLBACK TO s;
EXECUTE upsert (307, 'mail 17');
EXECUTE upsert (307, 'new 306');
UPDATE parted SET email = 'moved', id = 72 WHERE id = 304;
EXECUTE upsert (308, 'moved');
DELETE FROM parted WHERE email = 'moved';
EXECUTE upsert (308, 'moved');
DECLARE c CURSOR FOR SELECT id FROM parted WHERE email = 'moved' FOR UPDATE;
FETCH c;
EXECUTE upsert (309, 'moved');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
EXECUTE upsert (309, 'mail 18');
EXECUTE upsert (309, 'mail 18');
EXECUTE upsert (309, 'new 309');
COMMIT;
RESET plan_cache_mode;
SELECT * FROM differences();

-- Row security and privileges.
CREATE ROLE upsert_user;
GRANT USAGE ON SCHEMA upsert TO upsert_user;
DELETE FROM plain;
INSERT INTO plain (id, email, name, active, n) SELECT id, email, name, active, n FROM parted;
SELECT format('GRANT SELECT (id, email, n), INSERT (id, email, n), UPDATE (n) ON %s TO upsert_user', t) FROM (VALUES ('parted'), ('plain')) AS v (t) \gexec
GRANT ALL ON log TO upsert_user;
SET ROLE upsert_user;
SELECT on_both($$ INSERT INTO t (id, email) VALUES (310, 'mail 19') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (310, 'mail 19') ON CONFLICT (email) DO UPDATE SET email = 'x' $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (310, 'mail 19') ON CONFLICT (email) DO UPDATE SET n = length(t.name) $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (310, 'mail 19') ON CONFLICT (lower(name), n) WHERE active DO NOTHING $$);
RESET ROLE;
SELECT format($$
GRANT ALL ON %1$s TO upsert_user;
ALTER TABLE %1$s ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON %1$s FOR SELECT USING (id <> 20);
CREATE POLICY inserters ON %1$s FOR INSERT WITH CHECK (id >= 400);
CREATE POLICY updaters ON %1$s FOR UPDATE USING (id <> 21) WITH CHECK (n < 60) $$, t) FROM (VALUES ('parted'), ('plain')) AS v (t) \gexec
SET ROLE upsert_user;
SELECT on_both($$ INSERT INTO t (id, email) VALUES (400, 'mail 19') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (399, 'mail 19') ON CONFLICT (email) DO UPDATE SET n = t.n + 1 RETURNING id, n $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (400, 'mail 19') ON CONFLICT (email) DO UPDATE SET n = 60 $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (400, 'mail 20') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (400, 'mail 21') ON CONFLICT (email) DO UPDATE SET n = 2 $$);
SELECT on_both($$ INSERT INTO t (id, email) VALUES (400, 'mail 20') ON CONFLICT (email) DO NOTHING $$);
RESET ROLE;
SELECT format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', t) FROM (VALUES ('parted'), ('plain')) AS v (t) \gexec
SELECT compare();

-- Plans, and plans that were made before.
SET enable_partition_pruning = on;
EXPLAIN (COSTS OFF) INSERT INTO parted AS p (id, email) VALUES (1, 'x') ON CONFLICT (email) DO UPDATE SET n = p.n + 1 WHERE p.n < 5;
EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO parted AS p (id, email) VALUES (1, 'x') ON CONFLICT ON CONSTRAINT parted_by_email_key DO UPDATE SET n = p.n + 1 RETURNING p.id, p.n + 1;
EXPLAIN (COSTS OFF) INSERT INTO parted AS p (id, email) VALUES (1, 'x') ON CONFLICT (email) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO parted AS p (id, email) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET n = 1;
SET plan_cache_mode = force_generic_plan;
EXECUTE upsert (401, 'mail 19');
DELETE FROM recomputation WHERE index_table = 'parted_by_email'::regclass;
SELECT index_table.drop('parted_by_email');
EXECUTE upsert (401, 'mail 19');
SELECT index_table.create('parted', 'email', is_unique => true, name => 'by_email');
INSERT INTO recomputation VALUES ('by_email', 'email, partition_id, id', 'parted b', 'true');
EXECUTE upsert (401, 'mail 19');

-- The name of the key: it follows, and cannot be changed on the base table.
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'parted'::regclass AND contype NOT IN ('n', 'c') ORDER BY 1;
ALTER INDEX by_email_key RENAME TO email_key;
INSERT INTO parted AS p (id, email) VALUES (401, 'mail 19') ON CONFLICT ON CONSTRAINT email_key DO UPDATE SET n = p.n + 1 RETURNING n;
ALTER TABLE parted DROP CONSTRAINT email_key;
-- It follows, too, where the new name finds another relation first.
CREATE SCHEMA upsert_earlier CREATE TABLE mail_key ();
BEGIN;
SELECT set_config('search_path', 'upsert_earlier, ' || current_setting('search_path'), true) IS NOT NULL AS ok;
ALTER INDEX email_key RENAME TO mail_key;
INSERT INTO parted AS p (id, email) VALUES (401, 'mail 19') ON CONFLICT ON CONSTRAINT mail_key DO UPDATE SET n = p.n + 1 RETURNING n;
ROLLBACK;
DROP SCHEMA upsert_earlier CASCADE;
ALTER TABLE parted RENAME CONSTRAINT email_key TO other_key;
-- Dropping the index table does not lock the base table's readers out.
BEGIN;
SELECT index_table.drop('by_email');
SELECT mode FROM pg_locks WHERE relation = 'parted'::regclass AND pid = pg_backend_pid() AND mode = 'AccessExclusiveLock';
ROLLBACK;
BEGIN;
DROP TABLE by_email;
SELECT mode FROM pg_locks WHERE relation = 'parted'::regclass AND pid = pg_backend_pid() AND mode = 'AccessExclusiveLock';
SELECT conname FROM pg_constraint WHERE conname = 'email_key';
ROLLBACK;
INSERT INTO parted AS p (id, email) VALUES (401, 'mail 19') ON CONFLICT ON CONSTRAINT email_key DO UPDATE SET n = p.n + 1 RETURNING n;
-- EXPLAIN finds the subqueries that columns refer to, and says which they are (PostgreSQL 17 and later).
DO $$
DECLARE
    statement text;
    line text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'INSERT INTO parted AS p (id, email) VALUES (500, ''mail 19'') ON CONFLICT (email) DO UPDATE SET n = p.n + 1 RETURNING id, (SELECT max(n) FROM plain)',
        'WITH x AS (INSERT INTO parted AS p (id, email) VALUES (500, ''mail 19'') ON CONFLICT (email) DO UPDATE SET n = p.n + 1 RETURNING id, (SELECT max(n) FROM plain)) TABLE x',
        'UPDATE parted AS p SET (name, n) = (SELECT q.name, q.n FROM plain AS q WHERE q.id = p.id) WHERE email = ''mail 19''',
        'WITH x AS (UPDATE parted AS p SET (name, n) = (SELECT q.email::varchar(30), q.n FROM plain AS q WHERE q.id = p.id) WHERE email = ''mail 19'' RETURNING name) TABLE x'] LOOP
        FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
            IF line ~ '\$\d' AND current_setting('server_version_num')::int >= 170000 THEN
                RAISE EXCEPTION '%: %', statement, line;
            END IF;
        END LOOP;
    END LOOP;
END $$;
DROP TABLE by_email;
DELETE FROM recomputation WHERE index_table::text ~ '^[0-9]';
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'parted'::regclass AND contype NOT IN ('n', 'c') ORDER BY 1;
SELECT * FROM differences();

DROP OWNED BY upsert_user;
DROP SCHEMA upsert CASCADE;
DROP ROLE upsert_user;
