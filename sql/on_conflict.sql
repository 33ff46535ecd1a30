-- INSERT … ON CONFLICT DO NOTHING: what conflicts with a unique index table is left out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA on_conflict;
SET search_path = on_conflict;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int DEFAULT 1, email text DEFAULT 'a@x', name text, nums int[], active bool DEFAULT true, mail text GENERATED ALWAYS AS (lower(email)) STORED, PRIMARY KEY (id), CONSTRAINT lucky CHECK (id <> 13)) PARTITION BY RANGE (id);
CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (100);
CREATE TABLE people_2 PARTITION OF people FOR VALUES FROM (100) TO (200) PARTITION BY HASH (id);
CREATE TABLE people_2_0 PARTITION OF people_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE people_2_1 PARTITION OF people_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE people_3 (nums int[], active bool DEFAULT true, x int, mail text GENERATED ALWAYS AS (lower(email)) STORED, name text, email text DEFAULT 'a@x', id int NOT NULL DEFAULT 1, CONSTRAINT lucky CHECK (id <> 13));
ALTER TABLE people_3 DROP COLUMN x;
ALTER TABLE people ATTACH PARTITION people_3 FOR VALUES FROM (200) TO (300);
INSERT INTO people (id, email, name, nums) VALUES (1, 'A@x', 'Ann', '{1,2}'), (101, 'B@x', 'Bob', '{3}'), (201, 'C@x', 'Cid', '{4,5}'), (202, NULL, NULL, NULL);
SELECT index_table.create('people', 'mail', is_unique => true);
SELECT index_table.create('people', 'lower(name)', 'denormalized', is_unique => true, predicate => 'active', partitions => 2, name => 'people_by_name');
SELECT index_table.create('people', 'nums', 'partial', include => 'email', is_unique => true, name => 'people_by_num');
SELECT index_table.create('people', 'active');
INSERT INTO recomputation VALUES
    ('people_by_mail', 'mail, partition_id, id', 'people b', 'true'),
    ('people_by_name', 'lower(name), partition_id, id, email, name, nums, active, mail', 'people b', 'active'),
    ('people_by_num', 'n, partition_id, id, email', 'people b CROSS JOIN LATERAL (SELECT DISTINCT unnest(nums)) AS m (n)', 'true'),
    ('people_by_active', 'active, partition_id, id', 'people b', 'true');

-- Every form of INSERT, every kind of target.
INSERT INTO people (id, email) VALUES (2, 'a@x'), (102, 'd@x'), (203, 'D@X'), (3, NULL), (4, NULL) ON CONFLICT DO NOTHING RETURNING id, mail, tableoid::regclass;
INSERT INTO people DEFAULT VALUES ON CONFLICT DO NOTHING;
INSERT INTO people (id, email) SELECT i, 'e' || i % 5 FROM generate_series(103, 112) AS i ON CONFLICT DO NOTHING;
INSERT INTO people_1 (id, email) VALUES (5, 'B@x'), (6, 'f@x') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO people_2 (id, email) VALUES (113, 'a@x'), (114, 'g@x'), (115, 'G@x') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO people_2_0 (id, email) SELECT i, 'h' || i % 2 FROM generate_series(120, 140) AS i WHERE satisfies_hash_partition('people_2'::regclass, 2, 0, i) ON CONFLICT DO NOTHING;
INSERT INTO people_3 (id, email) VALUES (204, 'a@x'), (205, 'i@x') ON CONFLICT DO NOTHING RETURNING nums, id;
WITH first AS (INSERT INTO people (id, email) VALUES (7, 'a@x'), (8, 'j@x') ON CONFLICT DO NOTHING RETURNING id),
     second AS (INSERT INTO people_3 (id, email) VALUES (206, 'j@x'), (207, 'k@x') ON CONFLICT DO NOTHING RETURNING id)
SELECT 'first', id FROM first UNION ALL SELECT 'second', id FROM second ORDER BY 1;
PREPARE attempt (int, text) AS INSERT INTO people (id, email) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id;
EXECUTE attempt (9, 'a@x');
EXECUTE attempt (9, 'l@x');
CREATE FUNCTION attempt(new_id int, new_email text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO people (id, email) VALUES (new_id, new_email) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
CREATE FUNCTION attempt_sql(int, text) RETURNS int BEGIN ATOMIC INSERT INTO people (id, email) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id; END;
SELECT attempt(10, 'a@x'), attempt(10, 'm@x'), attempt(10, 'n@x'), attempt(11, 'm@x'), attempt_sql(11, 'm@x'), attempt_sql(11, 'n@x');
CREATE VIEW mails AS SELECT id, email FROM people WHERE id < 300 WITH CHECK OPTION;
INSERT INTO mails VALUES (208, 'a@x'), (208, 'o@x') ON CONFLICT DO NOTHING RETURNING id;
SELECT * FROM differences();

-- Keys that are expressions, have predicates, many values; several conflicts of one row.
INSERT INTO people (id, email, name, active) VALUES (20, 'p@x', 'ANN', true), (21, 'q@x', 'ANN', false), (22, 'r@x', 'Dan', NULL), (122, 's@x', 'dan', true), (222, 't@x', 'DAN', true) ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO people (id, email, nums) VALUES (23, 'u@x', '{6,1}'), (143, 'v@x', '{6,6,7}'), (223, 'w@x', '{8,7}'), (24, 'x@x', '{8,NULL}'), (144, 'y@x', '{NULL}'), (224, 'z@x', '{}') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO people (id, email, name, nums) VALUES (1, 'new', 'new', '{100}'), (25, 'a@x', 'new', '{100}'), (25, 'new', 'ann', '{100}'), (25, 'new', 'new', '{100,1}'), (25, 'new', 'new', '{100}'), (26, 'newer', 'newer', '{101}') ON CONFLICT DO NOTHING RETURNING id;
SELECT * FROM differences();

-- With a target: other constraints raise, as ever.
INSERT INTO people (id, email) VALUES (30, 'a@x') ON CONFLICT (id) DO NOTHING;
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (1, 'zz') ON CONFLICT (id) DO NOTHING;
INSERT INTO people (id, email) VALUES (30, 'a@x') ON CONFLICT (id) DO UPDATE SET email = excluded.email;
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (30, 'a@x') ON CONFLICT (mail) DO NOTHING;
INSERT INTO people_3 (id, email) VALUES (30, 'a@x') ON CONFLICT (mail) DO UPDATE SET email = excluded.email;
WITH i AS (INSERT INTO people (id, name) VALUES (30, 'x') ON CONFLICT (lower(name)) DO NOTHING) SELECT 1;
INSERT INTO people (id, email) VALUES (30, 'a@x') ON CONFLICT (email) DO NOTHING;
INSERT INTO people (id, email) VALUES (30, 'a@x') ON CONFLICT (mail, id) DO NOTHING;

-- What is checked before conflicts are looked for: constraints, partitions, row security.
INSERT INTO people (id, email) VALUES (13, 'a@x') ON CONFLICT DO NOTHING;
INSERT INTO people (id, email) VALUES (NULL, 'a@x') ON CONFLICT DO NOTHING;
INSERT INTO people (id, email) VALUES (300, 'a@x') ON CONFLICT DO NOTHING;
INSERT INTO people_1 (id, email) VALUES (100, 'a@x') ON CONFLICT DO NOTHING;
INSERT INTO mails VALUES (-1, 'a@x') ON CONFLICT DO NOTHING;
CREATE ROLE on_conflict_user;
GRANT USAGE ON SCHEMA on_conflict TO on_conflict_user;
GRANT SELECT, INSERT ON people TO on_conflict_user;
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON people FOR SELECT USING (id < 100);
CREATE POLICY writers ON people FOR INSERT WITH CHECK (id BETWEEN 30 AND 39);
SET ROLE on_conflict_user;
INSERT INTO people (id, email) VALUES (40, 'a@x') ON CONFLICT DO NOTHING;
INSERT INTO people (id, email) VALUES (30, 'c@x'), (31, 'aa@x') ON CONFLICT DO NOTHING RETURNING id;
RESET ROLE;
ALTER TABLE people DISABLE ROW LEVEL SECURITY;
SELECT * FROM differences();

-- Triggers: BEFORE triggers fire for every row and may change the key; AFTER triggers for what is inserted.
CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '% %: % %', TG_WHEN, TG_TABLE_NAME, NEW.id, NEW.email;
    IF NEW.email = 'never' THEN RETURN NULL; END IF;
    IF TG_WHEN = 'BEFORE' THEN NEW.email := replace(NEW.email, 'was ', ''); END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION trace_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '% %: %', TG_OP, TG_TABLE_NAME, (SELECT string_agg(id || ' ' || email, ', ' ORDER BY id) FROM inserted);
    RETURN NULL;
END $$;
CREATE TRIGGER zz_before BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION trace();
CREATE TRIGGER after AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION trace();
CREATE TRIGGER after_all AFTER INSERT ON people REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION trace_all();
INSERT INTO people (id, email) VALUES (50, 'was a@x'), (150, 'was bb@x'), (51, 'bb@x'), (250, 'never'), (52, 'was never'), (1, 'cc@x') ON CONFLICT DO NOTHING;
DROP TRIGGER after ON people;
DROP TRIGGER after_all ON people;
-- A trigger that writes: what it inserts conflicts, what it deletes does not.
CREATE OR REPLACE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() = 1 AND NEW.email LIKE 'taken%' THEN INSERT INTO people (id, email) VALUES (NEW.id + 100, NEW.email); END IF;
    IF pg_trigger_depth() = 1 AND NEW.email LIKE 'free%' THEN DELETE FROM people WHERE email = NEW.email; END IF;
    IF pg_trigger_depth() = 1 AND NEW.email LIKE 'try%' THEN INSERT INTO people (id, email) VALUES (NEW.id + 100, NEW.email) ON CONFLICT DO NOTHING; END IF;
    RETURN NEW;
END $$;
INSERT INTO people (id, email) VALUES (60, 'taken 1'), (61, 'dd@x'), (62, 'taken 1'), (63, 'free 1'), (64, 'free 1'), (65, 'try 1'), (66, 'try 1') ON CONFLICT DO NOTHING RETURNING id;
\echo :SQLSTATE
INSERT INTO people (id, email) VALUES (60, 'taken 1'), (61, 'dd@x'), (63, 'free 1'), (64, 'free 1'), (65, 'try 1'), (66, 'try 1') ON CONFLICT DO NOTHING RETURNING id;
SELECT id, email FROM people WHERE id % 100 BETWEEN 60 AND 69 ORDER BY id;
DROP TRIGGER zz_before ON people;
-- An AFTER trigger that changes rows of the statement before, or after, they are captured.
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE people SET email = 'late ' || email WHERE id = NEW.id + 1 AND email LIKE 'm%';
    DELETE FROM people WHERE id = NEW.id + 2 AND email LIKE 'm%';
    RETURN NULL;
END $$;
CREATE TRIGGER a_meddles AFTER INSERT ON people FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO people (id, email) SELECT 70 + i, 'm' || i FROM generate_series(0, 5) AS i ON CONFLICT DO NOTHING;
ALTER TRIGGER a_meddles ON people RENAME TO zz_meddles;
INSERT INTO people (id, email) SELECT 170 + i, 'ma' || i FROM generate_series(0, 5) AS i ON CONFLICT DO NOTHING;
SELECT id, email FROM people WHERE id % 100 BETWEEN 70 AND 79 ORDER BY id;
DROP TRIGGER zz_meddles ON people;
SELECT * FROM differences();

-- What RETURNING calls changes the row at once.
CREATE FUNCTION take_away(int) RETURNS text LANGUAGE sql AS $$ DELETE FROM people WHERE id = $1 RETURNING email $$;
CREATE FUNCTION give_name(int) RETURNS text LANGUAGE sql AS $$ UPDATE people SET email = 'given ' || email, nums = nums || '{400}' WHERE id = $1 RETURNING email $$;
INSERT INTO people (id, email, nums) VALUES (53, 'ee@x', '{401,402}'), (54, 'ee@x', '{402}'), (54, 'a@x', NULL), (55, 'ff@x', NULL) ON CONFLICT DO NOTHING RETURNING id, CASE WHEN id < 55 THEN take_away(id) END;
INSERT INTO people (id, email, nums) VALUES (56, 'gg@x', '{403,404}'), (57, 'gg@x', '{405}'), (58, 'given gg@x', '{406}'), (59, 'hh@x', '{400}') ON CONFLICT DO NOTHING RETURNING id, CASE WHEN id = 56 THEN give_name(id) END;
SELECT id, email, nums FROM people WHERE id BETWEEN 53 AND 59 ORDER BY id;
SELECT * FROM differences();

-- Savepoints; what the transaction itself has deleted or moved away is free.
BEGIN;
INSERT INTO people (id, email) VALUES (80, 'aaa') ON CONFLICT DO NOTHING;
SAVEPOINT s;
INSERT INTO people (id, email) VALUES (180, 'bbb'), (280, 'aaa') ON CONFLICT DO NOTHING;
ROLLBACK TO s;
INSERT INTO people (id, email) VALUES (181, 'bbb'), (281, 'aaa') ON CONFLICT DO NOTHING RETURNING id;
DELETE FROM people WHERE id = 80;
INSERT INTO people (id, email) VALUES (280, 'aaa'), (81, 'aaa') ON CONFLICT DO NOTHING RETURNING id;
UPDATE people SET email = 'ccc' WHERE id = 280;
INSERT INTO people (id, email) VALUES (80, 'aaa'), (81, 'ccc') ON CONFLICT DO NOTHING RETURNING id;
COMMIT;
DO $$
BEGIN
    INSERT INTO people (id, email) VALUES (82, 'ddd') ON CONFLICT DO NOTHING;
    BEGIN
        INSERT INTO people (id, email) VALUES (83, 'eee'), (84, 'ddd') ON CONFLICT DO NOTHING;
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN
        INSERT INTO people (id, email) VALUES (183, 'eee'), (84, 'ddd') ON CONFLICT DO NOTHING;
    END;
END $$;
SELECT id, email FROM people WHERE id % 100 BETWEEN 80 AND 89 ORDER BY id;
-- The statement itself takes the key away from another row.
WITH gone AS (DELETE FROM people WHERE id IN (82, 183) RETURNING *) INSERT INTO people (id, email) SELECT id + 5, email FROM gone ON CONFLICT DO NOTHING RETURNING id;
WITH gone AS (DELETE FROM people WHERE id = 87 RETURNING *) INSERT INTO people (id, email) SELECT id + 200, email FROM gone ON CONFLICT DO NOTHING RETURNING id;
WITH changed AS (UPDATE people SET email = 'fff', nums = '{200}' WHERE id = 1 RETURNING *) INSERT INTO people (id, email, nums) SELECT 90, 'a@x', '{1,201}' FROM changed ON CONFLICT DO NOTHING RETURNING id;
WITH changed AS (UPDATE people SET name = 'Anna' WHERE id = 101 RETURNING *) INSERT INTO people (id, email) SELECT 91, email FROM changed ON CONFLICT DO NOTHING RETURNING id;
SELECT * FROM differences();

-- Entries of partitions that are gone make room.
TRUNCATE people_3;
INSERT INTO people (id, email) VALUES (92, 'c@x'), (92, 'i@x'), (93, 'i@x') ON CONFLICT DO NOTHING RETURNING id, email;
ALTER TABLE people DETACH PARTITION people_3;
INSERT INTO people (id, email, nums) VALUES (94, 'k@x', '{4}'), (95, 'o@x', '{4}') ON CONFLICT DO NOTHING RETURNING id, email;
SELECT * FROM differences();

-- Plans; what was planned before an index table came, or went.
EXPLAIN (COSTS OFF) INSERT INTO people (id, email) SELECT id, email FROM people_3 ON CONFLICT DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO people (id, email) VALUES (1, 'a@x') ON CONFLICT (id) DO NOTHING;
EXPLAIN (COSTS OFF) INSERT INTO people_3 (id, email) VALUES (1, 'a@x') ON CONFLICT DO NOTHING;
CREATE FUNCTION counted(command text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || command LOOP
        IF line ~ 'Tuples|Trigger|Custom' THEN RETURN NEXT regexp_replace(line, 'actual.*', ''); END IF;
    END LOOP;
END $$;
SELECT counted($$ INSERT INTO people_1 (id, email) VALUES (96, 'a@x'), (96, 'eeee'), (97, 'eeee') ON CONFLICT DO NOTHING $$);
SET index_table.enable_scan = off;
INSERT INTO people (id, email) VALUES (97, 'a@x'), (97, 'ffff') ON CONFLICT DO NOTHING RETURNING id;
RESET index_table.enable_scan;
SET plan_cache_mode = force_generic_plan;
CREATE TABLE later (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE later_1 PARTITION OF later FOR VALUES FROM (0) TO (10);
CREATE TABLE later_2 PARTITION OF later FOR VALUES FROM (10) TO (20);
PREPARE later_root AS INSERT INTO later VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id;
PREPARE later_leaf AS INSERT INTO later_2 VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id;
EXECUTE later_root (1, 1);
EXECUTE later_leaf (11, 2);
SELECT index_table.create('later', 'v', is_unique => true);
INSERT INTO recomputation VALUES ('later_by_v', 'v, partition_id, id', 'later b', 'true');
EXECUTE later_root (2, 1);
EXECUTE later_leaf (12, 1);
DELETE FROM recomputation WHERE index_table = 'later_by_v'::regclass;
SELECT index_table.drop('later_by_v');
EXECUTE later_root (2, 1);
EXECUTE later_leaf (12, 1);
SELECT index_table.create('later', 'v');
INSERT INTO recomputation VALUES ('later_by_v', 'v, partition_id, id', 'later b', 'true');
EXECUTE later_root (3, 1);
EXPLAIN (COSTS OFF) EXECUTE later_root (4, 1);

-- Constraints that owners add to an index table: exclusion, uniqueness, checks; deferrable ones are refused as ever.
DELETE FROM later WHERE v = 1;
ALTER TABLE later_by_v ADD CONSTRAINT apart EXCLUDE USING gist (box(point(v, v), point(v + 4, v + 4)) WITH &&);
EXPLAIN (COSTS OFF) EXECUTE later_root (4, 1);
EXECUTE later_root (1, 10);
EXECUTE later_root (2, 13);
EXECUTE later_leaf (12, 6);
EXECUTE later_leaf (12, 15);
ALTER TABLE later_by_v ADD CHECK (v <> 99);
\set VERBOSITY terse
EXECUTE later_root (2, 99);
\set VERBOSITY default
SELECT * FROM differences();
ALTER TABLE later_by_v DROP CONSTRAINT apart;
ALTER TABLE later_by_v ADD UNIQUE (v) DEFERRABLE;
EXECUTE later_root (2, 30);
RESET plan_cache_mode;

-- An index table with triggers and foreign keys: they see insertions, and nothing of what was left out.
CREATE TABLE users (id int PRIMARY KEY, email text, phone text) PARTITION BY RANGE (id);
CREATE TABLE users_1 PARTITION OF users FOR VALUES FROM (0) TO (10);
CREATE TABLE users_2 PARTITION OF users FOR VALUES FROM (10) TO (20);
SELECT index_table.create('users', 'email', is_unique => true);
SELECT index_table.create('users', 'phone', is_unique => true);
INSERT INTO recomputation VALUES ('users_by_email', 'email, partition_id, id', 'users b', 'true'), ('users_by_phone', 'phone, partition_id, id', 'users b', 'true');
CREATE FUNCTION trace_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '% %: % %', TG_OP, TG_TABLE_NAME, OLD.email, NEW.email;
    RETURN NULL;
END $$;
CREATE TRIGGER traced AFTER INSERT OR UPDATE OR DELETE ON users_by_email FOR EACH ROW EXECUTE FUNCTION trace_entry();
INSERT INTO users VALUES (1, 'a', '1'), (2, 'a', '2'), (11, 'b', '1'), (12, 'c', '3'), (1, 'd', '4') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO users SELECT i, chr(98 + i % 6), i::text FROM generate_series(3, 19) AS i ON CONFLICT DO NOTHING;
BEGIN;
INSERT INTO users VALUES (3, 'x', 'x') ON CONFLICT DO NOTHING;
INSERT INTO users VALUES (4, 'x', 'y'), (5, 'y', 'x'), (6, 'y', 'y') ON CONFLICT DO NOTHING RETURNING id;
ROLLBACK;
CREATE FUNCTION meddle_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET email = 'late ' || email WHERE id = NEW.id + 1 AND email LIKE 'm%';
    DELETE FROM users WHERE id = NEW.id + 2 AND email LIKE 'm%';
    RETURN NULL;
END $$;
CREATE TRIGGER a_meddles AFTER INSERT ON users FOR EACH ROW WHEN (NEW.email LIKE 'm%') EXECUTE FUNCTION meddle_users();
DELETE FROM users WHERE id > 2;
INSERT INTO users SELECT 3 + i, 'm' || i, 'm' || i FROM generate_series(0, 5) AS i ON CONFLICT DO NOTHING;
TABLE users ORDER BY id;
CREATE OR REPLACE FUNCTION meddle_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE users SET email = 'late ' || email WHERE id = NEW.id + 1 AND email LIKE 'm%';
    DELETE FROM users WHERE id = NEW.id + 2 AND email LIKE 'm%';
    RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN
    UPDATE users SET phone = 'late ' || phone WHERE id = NEW.id + 3;
    RETURN NULL;
END $$;
DELETE FROM users WHERE id > 2;
INSERT INTO users SELECT 3 + i, 'm' || i % 4, 'm' || i FROM generate_series(0, 5) AS i ON CONFLICT DO NOTHING;
TABLE users ORDER BY id;
-- In partitions, and with elements that exclude each other.
SELECT index_table.create('users', 'string_to_array(phone, '','')', is_unique => true, partitions => 2, name => 'users_by_phones');
INSERT INTO recomputation VALUES ('users_by_phones', 'n, partition_id, id', 'users b CROSS JOIN LATERAL (SELECT DISTINCT unnest(string_to_array(phone, '',''))) AS m (n)', 'true');
CREATE FUNCTION trace_phone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING '% %: %', TG_OP, TG_ARGV[0], NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER traced AFTER INSERT ON users_by_phones FOR EACH ROW WHEN (NEW.id > 10) EXECUTE FUNCTION trace_phone('users_by_phones');
INSERT INTO users VALUES (12, 'n', '100,101'), (13, 'o', '102,100'), (14, 'p', '103,104,103'), (15, 'm1', '105'), (16, 'q', '102') ON CONFLICT DO NOTHING RETURNING id;
SELECT * FROM differences();
DROP TRIGGER traced ON users_by_phones;
DELETE FROM recomputation WHERE index_table = 'users_by_phones'::regclass;
SELECT index_table.drop('users_by_phones');
SELECT index_table.create('users', 'string_to_array(phone, '','')', name => 'users_by_phones');
INSERT INTO recomputation VALUES ('users_by_phones', 'n, partition_id, id', 'users b CROSS JOIN LATERAL (SELECT DISTINCT unnest(string_to_array(phone, '',''))) AS m (n)', 'true');
ALTER TABLE users_by_phones ADD CONSTRAINT one_each EXCLUDE USING btree (left(string_to_array, 2) WITH =) WHERE (string_to_array ~ '^[5-9]');
INSERT INTO users VALUES (17, 'r', '600,610'), (18, 's', '605,7'), (19, 't', '71,7,8'), (10, 't', '71,500,501') ON CONFLICT DO NOTHING RETURNING id;
\set VERBOSITY terse
INSERT INTO users VALUES (18, 'u', '900,901') ON CONFLICT DO NOTHING;
\set VERBOSITY default
SELECT * FROM differences();

-- Random statements come to the same as on one unpartitioned table with unique indexes.
CREATE TABLE parted (id int PRIMARY KEY, email text, name text, active bool, n int GENERATED ALWAYS AS (length(name)) STORED) PARTITION BY RANGE (id);
CREATE TABLE parted_1 (n int GENERATED ALWAYS AS (length(name)) STORED, active bool, name text, email text, id int NOT NULL);
ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (0) TO (20);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (20) TO (40) PARTITION BY LIST (id);
CREATE TABLE parted_2_0 PARTITION OF parted_2 DEFAULT;
CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
CREATE TABLE plain (id int PRIMARY KEY, email text UNIQUE, name text, active bool, n int GENERATED ALWAYS AS (length(name)) STORED);
CREATE UNIQUE INDEX ON plain (lower(name), n) WHERE active;
SELECT index_table.create('parted', 'email', is_unique => true);
SELECT index_table.create('parted', 'lower(name), n', is_unique => true, predicate => 'active', partitions => 3, name => 'parted_by_name');
INSERT INTO recomputation VALUES ('parted_by_email', 'email, partition_id, id', 'parted b', 'true'), ('parted_by_name', 'lower(name), n, partition_id, id', 'parted b', 'active');
CREATE FUNCTION random_row() RETURNS text LANGUAGE sql AS $$
    SELECT format('(%s, %L, %L, %L)', (random() * 60)::int, CASE WHEN random() < 0.9 THEN 'mail ' || (random() * 25)::int END,
                  CASE WHEN random() < 0.9 THEN repeat(CASE WHEN random() < 0.5 THEN 'a' ELSE 'A' END, (random() * 12)::int) END, random() < 0.7) $$;
CREATE FUNCTION random_rows() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(random_row(), ', ') FROM generate_series(1, 1 + (random() * 6)::int) $$;
CREATE FUNCTION random_statement() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    what float := random();
    id int := random() * 60;
BEGIN
    RETURN CASE
        WHEN what < 0.55 THEN 'INSERT INTO %1$s (id, email, name, active) VALUES ' || random_rows() || ' ON CONFLICT DO NOTHING'
        WHEN what < 0.65 THEN format('INSERT INTO %%1$s (id, email, name, active) SELECT id + %s, email, name, active FROM %%1$s WHERE mod(id, 3) = %s ORDER BY id ON CONFLICT DO NOTHING', (random() * 5)::int, id % 3)
        WHEN what < 0.72 THEN format('WITH gone AS (DELETE FROM %%1$s WHERE id BETWEEN %1$s AND %1$s + 3 RETURNING *) INSERT INTO %%1$s (id, email, name, active) SELECT mod(id + 30, 60), email, name, active FROM gone ORDER BY id ON CONFLICT DO NOTHING', id)
        WHEN what < 0.77 THEN format('WITH changed AS (UPDATE %%1$s SET email = email || ''+'' WHERE id = %1$s RETURNING *) INSERT INTO %%1$s (id, email, name, active) SELECT mod(id + 30, 60), rtrim(email, ''+''), name, active FROM changed ON CONFLICT DO NOTHING', id)
        WHEN what < 0.82 THEN 'INSERT INTO %1$s (id, email, name, active) VALUES ' || random_row()
        WHEN what < 0.9 THEN format('DELETE FROM %%1$s WHERE id BETWEEN %1$s AND %1$s + 4', id)
        ELSE format('UPDATE %%1$s SET id = %2$s, email = %3$L WHERE id = %1$s', id, (random() * 60)::int, 'mail ' || (random() * 25)::int) END;
END $$;
CREATE FUNCTION run(statement text, relation text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
BEGIN
    EXECUTE format(statement, relation);
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN rows;
EXCEPTION WHEN unique_violation THEN
    RETURN SQLSTATE;
END $$;
CREATE FUNCTION compare(statements int) RETURNS TABLE (statement text, problem text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    sql text; done text; expected text;
BEGIN
    FOR i IN 1 .. statements LOOP
        sql := random_statement();
        expected := run(sql, 'plain');
        done := run(sql, 'parted');
        IF done <> expected THEN RETURN QUERY SELECT format(sql, 'parted'), done || ' instead of ' || expected; END IF;
        RETURN QUERY SELECT format(sql, 'parted'), d.row FROM (
            (SELECT 'lost ' || p::text AS row FROM plain AS p EXCEPT ALL SELECT 'lost ' || ROW(id, email, name, active, n)::text FROM parted)
            UNION ALL
            (SELECT 'surplus ' || ROW(id, email, name, active, n)::text FROM parted EXCEPT ALL SELECT 'surplus ' || p::text FROM plain AS p)) AS d;
        IF FOUND THEN RETURN; END IF;
        IF i % 40 = 0 THEN DELETE FROM plain WHERE id % 2 = 0; DELETE FROM parted WHERE id % 2 = 0; END IF;
    END LOOP;
END $$;
SELECT setseed(0.5);
SELECT * FROM compare(400);
SELECT count(*) > 10 AS rows FROM parted;
SELECT * FROM differences();

-- A partition itself, with unique keys of its own beside that of a global index.
CREATE TABLE t (id int, p int, e text, PRIMARY KEY (id, p)) PARTITION BY LIST (p);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t VALUES (1, 1, 'a'), (7, 3, 'c');
CREATE INDEX t_e ON t USING global (e) WITH (unique);
INSERT INTO t_3 VALUES (2, 3, 'a'), (7, 3, 'new'), (8, 3, 'ok'), (8, 3, 'ok2'), (9, 3, 'ok') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t_3 VALUES (2, 3, 'c'), (12, 3, 'zz') ON CONFLICT (e) DO UPDATE SET id = 50 RETURNING *;
INSERT INTO t_3 VALUES (12, 3, 'new'), (17, 3, 'uu') ON CONFLICT (id, p) DO UPDATE SET e = EXCLUDED.e RETURNING *;
SELECT index_table.create('t', 'id', is_unique => true);
INSERT INTO t_3 VALUES (17, 3, 'a1'), (19, 3, 'tt') ON CONFLICT (id) DO UPDATE SET e = 'n' || EXCLUDED.e RETURNING *;
INSERT INTO t_3 VALUES (17, 3, 'a1'), (20, 3, 'ss'), (50, 3, 'tt') ON CONFLICT DO NOTHING RETURNING *;
SELECT i, v.* FROM unnest('{t_e,t_by_id}'::regclass[]) AS i, index_table.verify(i) AS v;
SELECT * FROM t ORDER BY id;

DROP OWNED BY on_conflict_user;
DROP SCHEMA on_conflict CASCADE;
DROP ROLE on_conflict_user;
