-- Renamed, added, dropped and altered columns, and what index tables cannot follow.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA alter_table;
CREATE SCHEMA alter_other;
SET search_path = alter_table;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (id int, region text, town text, phone text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE people_a PARTITION OF people FOR VALUES IN ('a');
INSERT INTO people SELECT i, 'a', 'town ' || i % 3, i, 'note ' || i FROM generate_series(1, 10) AS i;
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'phone', 'denormalized', is_unique => true, partitions => 2);
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, id, region', 'people b'),
    ('people_by_phone', 'phone, partition_id, id, region, town, note', 'people b');

-- Renames: of columns, tables, schemas, and of what expressions refer to.
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION norm(text) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN lower($1); END $$;
CREATE FUNCTION same(text, text) RETURNS bool IMMUTABLE LANGUAGE sql AS $$ SELECT $1 = $2 $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = same);
CREATE COLLATION plain FROM "C";
CREATE TABLE names (id int PRIMARY KEY, name text, mood mood, home pair);
INSERT INTO names VALUES (1, 'Ann', 'sad', '(1,a)'), (2, 'Bob', 'ok', '(2,b)');
SELECT index_table.create('names', 'norm(name) COLLATE plain, ((home).a)', 'denormalized', predicate => 'mood IN (''sad'', ''ok'') AND NOT name === ''nobody''', name => 'names_by_norm');
INSERT INTO recomputation VALUES ('names_by_norm', 'lower(label), (place).aa, partition_id, number, label, feeling, place', 'alter_other.nomina b');
ALTER TABLE names RENAME COLUMN name TO label;
ALTER TABLE names RENAME mood TO feeling;
ALTER TABLE names RENAME COLUMN home TO place;
ALTER TABLE names RENAME COLUMN id TO number;
SELECT key, predicate, identity, include FROM index_table.index_tables WHERE base = 'names'::regclass;
ALTER FUNCTION norm(text) RENAME TO normal;
ALTER FUNCTION same SET SCHEMA alter_other;
ALTER OPERATOR === (text, text) SET SCHEMA alter_other;
ALTER TYPE mood RENAME VALUE 'sad' TO 'gloomy';
ALTER TYPE mood RENAME TO feeling;
ALTER TYPE pair RENAME ATTRIBUTE a TO aa;
ALTER TYPE pair SET SCHEMA alter_other;
ALTER COLLATION plain RENAME TO simple;
ALTER TABLE names RENAME TO nomina;
ALTER TABLE nomina SET SCHEMA alter_other;
ALTER TABLE names_by_norm RENAME TO names_by_normal;
ALTER SCHEMA alter_other RENAME TO alter_third;
UPDATE recomputation SET rows = replace(rows, 'other', 'third') WHERE rows LIKE 'alter_other%';
INSERT INTO alter_third.nomina VALUES (3, 'Cid', 'gloomy', '(3,c)');
UPDATE alter_third.nomina SET label = upper(label) WHERE number = 1;
SELECT index_table, base, key, predicate FROM index_table.index_tables WHERE base = 'alter_third.nomina'::regclass;
SELECT * FROM index_table.lookup('names_by_normal', 'cid');
SELECT * FROM differences();
\c -
SET search_path = alter_table;
SET client_min_messages = warning;
UPDATE alter_third.nomina SET label = upper(label) WHERE number = 2;
SELECT * FROM index_table.verify('names_by_normal');
SELECT * FROM differences();
-- Undone renames.
BEGIN;
ALTER TABLE alter_third.nomina RENAME COLUMN label TO other;
ALTER FUNCTION normal(text) RENAME TO other;
INSERT INTO alter_third.nomina VALUES (4, 'Dan', 'ok');
ROLLBACK;
INSERT INTO alter_third.nomina VALUES (4, 'Eve', 'ok');
SELECT * FROM differences();
-- What an index table needs is not dropped without it.
DROP FUNCTION normal(text);
\echo :SQLSTATE
DROP TYPE feeling;
\echo :SQLSTATE
DROP FUNCTION normal(text) CASCADE;
SELECT to_regclass('names_by_normal'), (SELECT count(*) FROM index_table.definition WHERE base = 'alter_third.nomina'::regclass);
INSERT INTO alter_third.nomina VALUES (5, 'Fay', 'ok');
DELETE FROM recomputation WHERE rows LIKE 'alter_third%';

-- Columns: included ones go with their copies, key and identity columns take the index table along.
CREATE TABLE things (id int, a text, b text, c text, d text, e text, part int DEFAULT 1, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE things_1 PARTITION OF things FOR VALUES IN (1);
INSERT INTO things SELECT i, 'a' || i, 'b' || i, 'c' || i, 'd' || i, 'e' || i FROM generate_series(1, 5) AS i;
SELECT index_table.create('things', 'a', 'partial', include => 'c, b');
SELECT index_table.create('things', 'b');
SELECT index_table.create('things', 'c', 'denormalized');
SELECT index_table.create('things', 'lower(d)', predicate => 'e <> ''e9''', partitions => 2);
ALTER TABLE things DROP COLUMN b;
SELECT index_table, include FROM index_table.index_tables WHERE base = 'things'::regclass ORDER BY index_table::text;
INSERT INTO recomputation VALUES
    ('things_by_a', 'a, partition_id, id, part, c', 'things b', 'true'),
    ('things_by_c', 'c, partition_id, id, part, a, d, e', 'things b', 'true'),
    ('things_by_lower', 'lower(d), partition_id, id, part', 'things b', 'e <> ''e9''');
UPDATE things SET c = c || '!', e = 'e9' WHERE id = 1;
INSERT INTO things (id, a, c, d, e) VALUES (6, 'a6', 'c6', 'd6', 'e6');
DELETE FROM things WHERE id = 2;
SELECT * FROM index_table.lookup('things_by_a', 'a1');
SELECT * FROM index_table.verify('things_by_a');
SELECT * FROM differences();
ALTER TABLE things DROP COLUMN e;
SELECT index_table, include FROM index_table.index_tables WHERE base = 'things'::regclass ORDER BY index_table::text;
DELETE FROM recomputation WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = index_table);
UPDATE recomputation SET entry = 'c, partition_id, id, part, a, d' WHERE index_table = 'things_by_c'::regclass;
UPDATE things SET a = a || '?', d = d || '?';
SELECT * FROM differences();
-- A new column reaches denormalized index tables; what it is not used by does not mind its type.
ALTER TABLE things ADD COLUMN f int DEFAULT 7;
SELECT include FROM index_table.index_tables WHERE index_table = 'things_by_c'::regclass;
UPDATE recomputation SET entry = entry || ', f' WHERE index_table = 'things_by_c'::regclass;
INSERT INTO things (id, c, f) VALUES (7, 'c7', 8);
UPDATE things SET f = 9 WHERE id = 3;
SELECT * FROM differences();
-- Also computed ones, with names that are taken, in partitions, and undone.
SELECT index_table.create('things', 'upper(a)', 'denormalized', partitions => 2);
ALTER TABLE things ADD COLUMN partition_id int DEFAULT 3, ADD COLUMN g text GENERATED ALWAYS AS (c || 'x') STORED, ADD COLUMN upper text, ADD COLUMN IF NOT EXISTS f int;
\d things_by_upper
INSERT INTO recomputation VALUES ('things_by_upper', 'upper(a), p.partition_id, id, part, a, c, d, f, b.partition_id, g, upper', 'things b');
UPDATE recomputation SET entry = 'c, p.partition_id, id, part, a, d, f, b.partition_id, g, upper' WHERE index_table = 'things_by_c'::regclass;
UPDATE recomputation SET entry = replace(entry, ' partition_id', ' p.partition_id') WHERE index_table = 'things_by_a'::regclass;
UPDATE things SET upper = 'u', partition_id = id WHERE id < 4;
BEGIN;
ALTER TABLE things ADD COLUMN h timestamptz DEFAULT clock_timestamp();
UPDATE things SET h = NULL WHERE id = 4;
SELECT * FROM index_table.verify('things_by_c');
SAVEPOINT s;
ALTER TABLE things DROP COLUMN h;
INSERT INTO things (id, c) VALUES (8, 'c8');
ROLLBACK TO s;
SELECT * FROM index_table.verify('things_by_upper');
ROLLBACK;
INSERT INTO things (id, c, upper) VALUES (9, 'c9', 'v');
SELECT index_table, include FROM index_table.index_tables WHERE base = 'things'::regclass ORDER BY index_table::text;
SELECT * FROM differences();
ALTER TABLE things DROP CONSTRAINT things_pkey;
ALTER TABLE things DROP COLUMN id;
SELECT count(*) FROM index_table.definition WHERE base = 'things'::regclass;
SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text IN ('things', 'things_1') AND tgname LIKE 'index\_table%';
DROP TABLE things;
DELETE FROM recomputation WHERE rows = 'things b';

-- Types: index tables take them too, without being loaded anew where PostgreSQL does not write rows anew.
CREATE FUNCTION storage(VARIADIC regclass[]) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(pg_relation_filenode(r)::text, ' ' ORDER BY o) FROM unnest($1) WITH ORDINALITY AS u(r, o) $$;
CREATE FUNCTION columns(regclass) RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || coalesce(' COLLATE ' || nullif(nullif(attcollation, 100), 0)::regcollation, ''), ', ' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped $$;
CREATE INDEX people_by_town_own ON people_by_town (id) WHERE town > 'b';
GRANT SELECT ON people_by_town TO PUBLIC;
SELECT storage('people_by_town', 'people_by_phone_p0', 'people_by_phone_p1') AS before \gset
ALTER TABLE people ALTER COLUMN town TYPE varchar(100);
SELECT storage('people_by_town', 'people_by_phone_p0', 'people_by_phone_p1') <> :'before' AS loaded_anew;
SELECT storage('people_by_town', 'people_by_phone_p0', 'people_by_phone_p1') AS before \gset
ALTER TABLE people ALTER COLUMN town TYPE varchar;
SELECT storage('people_by_town', 'people_by_phone_p0', 'people_by_phone_p1') = :'before' AS as_it_was;
SELECT columns('people_by_town'), columns('people_by_phone');
SELECT * FROM differences();
ALTER TABLE people ALTER COLUMN town TYPE text COLLATE "C" USING upper(town);
SELECT columns('people_by_town'), columns('people_by_phone');
SELECT * FROM differences();
SELECT index_table, count(*) FROM index_table.definition, LATERAL index_table.verify(index_table) GROUP BY 1;
\d people_by_town
SELECT relacl IS NOT NULL AS granted FROM pg_class WHERE oid = 'people_by_town'::regclass;
INSERT INTO people VALUES (11, 'a', 'z', '11', 'note 11');
UPDATE people SET town = 'Y' WHERE id = 2;
SELECT * FROM differences();
-- They still go with the column, and keep keys unique.
BEGIN;
ALTER TABLE people DROP COLUMN town;
SELECT index_table, include FROM index_table.index_tables WHERE base = 'people'::regclass;
ROLLBACK;
CREATE TABLE measures (id numeric(6, 2) PRIMARY KEY, k char(4), v varchar(5), w int, x int);
INSERT INTO measures VALUES (1, 'a', 'b', 1, 1), (1.5, 'B', 'b', 2, 2);
SELECT index_table.create('measures', 'k', 'partial', include => 'v');
SELECT index_table.create('measures', 'abs(x), w', is_unique => true, predicate => 'v IS NOT NULL', name => 'measures_u');
INSERT INTO recomputation VALUES ('measures_by_k', 'k, partition_id, id, v', 'measures b', 'true'),
                                 ('measures_u', 'abs(x), w, partition_id, id', 'measures b', 'v IS NOT NULL');
ALTER TABLE measures ALTER COLUMN k TYPE char(8), ALTER COLUMN x TYPE bigint USING -x;
SELECT columns('measures_by_k'), columns('measures_u');
SELECT * FROM differences();
ALTER TABLE measures ALTER COLUMN v TYPE varchar(50);
ALTER TABLE measures ALTER COLUMN id TYPE numeric(8, 4);
SELECT * FROM differences();
ALTER TABLE measures ALTER COLUMN w TYPE int USING 1, ALTER COLUMN x TYPE int USING 1;
\echo :SQLSTATE
\set VERBOSITY sqlstate
ALTER TABLE measures ALTER COLUMN x TYPE text;
\set VERBOSITY default
\echo :SQLSTATE
ALTER TABLE measures ALTER COLUMN w TYPE text, ADD COLUMN y text, ALTER COLUMN w SET DEFAULT 'w', ALTER COLUMN k SET NOT NULL;
INSERT INTO measures VALUES (2, 'c', 'd', 'e', 2);
SELECT * FROM differences();
-- Not where entries would have to move, to be checked, or to fire triggers.
ALTER TABLE people ALTER COLUMN phone TYPE varchar(20);
\echo :SQLSTATE
ALTER TABLE measures_by_k ADD CHECK (k <> 'x');
ALTER TABLE measures ALTER COLUMN k TYPE text;
\echo :SQLSTATE
ALTER TABLE measures_by_k DROP CONSTRAINT measures_by_k_k_check;
BEGIN;
ALTER TABLE measures DROP COLUMN k, ALTER COLUMN v TYPE text, ALTER COLUMN x TYPE numeric;
SELECT index_table FROM index_table.definition WHERE base = 'measures'::regclass;
ROLLBACK;
SELECT * FROM differences();

-- A command that fails, and is caught, leaves nothing for the next one.
CREATE TABLE bystander (id int, k text);
INSERT INTO bystander VALUES (1, 'x');
BEGIN;
SAVEPOINT s;
ALTER TABLE measures ALTER COLUMN k TYPE text, ADD CHECK (k = 'none');
ROLLBACK TO s;
ALTER TABLE bystander ADD COLUMN q int;
ALTER TABLE people ALTER COLUMN note SET DEFAULT 'note';
COMMIT;
DO $$
BEGIN
    ALTER TABLE measures RENAME COLUMN missing TO k2;
EXCEPTION WHEN undefined_column THEN
    ALTER TABLE bystander RENAME COLUMN q TO r;
END $$;
SELECT * FROM differences();
-- Several things at once: the new column is copied, with the changed one.
ALTER TABLE people ADD COLUMN extra int DEFAULT 7, ALTER COLUMN note TYPE varchar(100), ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED;
SELECT columns('people_by_phone');
SELECT * FROM index_table.verify('people_by_phone');
ALTER TABLE people DROP COLUMN extra, DROP COLUMN twice;
-- Tables are renamed, and their columns, by commands for views and indexes, too.
ALTER VIEW people RENAME COLUMN town TO city;
ALTER INDEX people RENAME TO folk;
UPDATE folk SET city = 'Named' WHERE id = 3;
ALTER MATERIALIZED VIEW folk RENAME COLUMN city TO town;
ALTER INDEX folk RENAME TO people;
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
SELECT index_table.create('measures', '(to_tsvector(''words''::regconfig, v)::text)', name => 'measures_by_words');
ALTER TEXT SEARCH CONFIGURATION words RENAME TO texts;
INSERT INTO measures VALUES (7, 'g', 'seven', 'e', 7);
SELECT * FROM index_table.verify('measures_by_words');
SELECT index_table.drop('measures_by_words');
DROP TEXT SEARCH CONFIGURATION texts;
DELETE FROM measures WHERE id = 7;
SELECT * FROM differences();

-- The columns of an index table are the extension's and its owner is the base table's; its name and schema are free.
CREATE SCHEMA alter_fourth;
ALTER TABLE measures_by_k ALTER COLUMN k TYPE text;
\echo :SQLSTATE
ALTER TABLE measures_by_k DROP COLUMN v;
\echo :SQLSTATE
ALTER TABLE measures_by_k DROP COLUMN partition_id CASCADE;
\echo :SQLSTATE
ALTER TABLE people_by_phone ADD COLUMN remark text;
\echo :SQLSTATE
ALTER TABLE measures_by_k RENAME COLUMN k TO key;
\echo :SQLSTATE
CREATE ROLE regress_alter;
ALTER TABLE measures_by_k OWNER TO regress_alter;
\echo :SQLSTATE
DROP ROLE regress_alter;
ALTER TABLE measures_by_k SET SCHEMA alter_fourth;
ALTER TABLE alter_fourth.measures_by_k RENAME TO renamed;
ALTER INDEX alter_fourth.measures_by_k_idx RENAME TO renamed_idx;
UPDATE measures SET k = 'kk', v = 'vv' WHERE id = 2;
INSERT INTO measures VALUES (3, 'e', 'f', 'g', 3);
SELECT partition, identity, included FROM index_table.lookup('alter_fourth.renamed');
SELECT * FROM index_table.verify('alter_fourth.renamed');
ALTER TABLE alter_fourth.renamed SET SCHEMA alter_table;
ALTER TABLE renamed RENAME TO measures_by_k;
DROP SCHEMA alter_fourth;
SELECT * FROM differences();

-- So are its partitions, and the indexes that it works with.
ALTER TABLE people_by_phone DETACH PARTITION people_by_phone_p0;
\echo :SQLSTATE
CREATE TABLE other_part (LIKE people_by_phone);
ALTER TABLE people_by_phone ATTACH PARTITION other_part FOR VALUES WITH (MODULUS 4, REMAINDER 3);
\echo :SQLSTATE
DROP TABLE people_by_phone_p1;
\echo :SQLSTATE
DROP TABLE other_part;
ALTER TABLE measures_by_k SET UNLOGGED;
\echo :SQLSTATE
DROP INDEX renamed_idx;
\echo :SQLSTATE
DROP INDEX people_by_phone_key;
\echo :SQLSTATE
DROP INDEX people_by_phone_null_idx;
\echo :SQLSTATE
CREATE INDEX measures_by_k_new ON measures_by_k (k, id, partition_id) INCLUDE (v);
DROP INDEX renamed_idx;
INSERT INTO measures VALUES (4, 'x', 'y', 'z', 4);
DELETE FROM measures WHERE id = 4;
SELECT * FROM differences();
BEGIN;
DROP TABLE people_by_phone_p1, people_by_phone;
ROLLBACK;

-- What index tables cannot follow is refused.
ALTER TABLE measures SET UNLOGGED;
\echo :SQLSTATE
CREATE TABLE child () INHERITS (measures);
\echo :SQLSTATE
CREATE TABLE child (LIKE measures INCLUDING ALL);
ALTER TABLE child INHERIT measures;
\echo :SQLSTATE
CREATE TABLE above (LIKE people) PARTITION BY LIST (region);
ALTER TABLE above ATTACH PARTITION people FOR VALUES IN ('a');
\echo :SQLSTATE
CREATE TABLE above_m (LIKE measures INCLUDING ALL) PARTITION BY RANGE (id);
ALTER TABLE above_m ATTACH PARTITION measures DEFAULT;
\echo :SQLSTATE
CREATE UNLOGGED TABLE people_u PARTITION OF people FOR VALUES IN ('u');
\echo :SQLSTATE
ALTER TABLE people_a SET UNLOGGED;
\echo :SQLSTATE
-- So is what only later versions know.
CREATE TABLE sums (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
SELECT index_table.create('sums', 'twice');
INSERT INTO sums VALUES (1, 1), (2, 2);
DO $$
DECLARE
    command text;
    version int = current_setting('server_version_num')::int;
BEGIN
    IF version >= 180000 THEN
        CREATE TABLE virtuals (id int PRIMARY KEY, a int);
        EXECUTE 'ALTER TABLE virtuals ADD COLUMN v int GENERATED ALWAYS AS (a * 2) VIRTUAL';
    END IF;
    -- Followed: entries have what the expression yields.
    IF version >= 170000 THEN
        EXECUTE 'ALTER TABLE sums ALTER COLUMN twice SET EXPRESSION AS (a * 3)';
        IF (SELECT string_agg(twice || ' ' || id, ', ' ORDER BY id) FROM sums_by_twice) <> '3 1, 6 2' THEN
            RAISE EXCEPTION 'not followed';
        END IF;
        EXECUTE 'ALTER TABLE sums ALTER COLUMN twice SET EXPRESSION AS (a * 2)';
    END IF;
    FOREACH command IN ARRAY '{}'::text[]
        || CASE WHEN version >= 180000 THEN ARRAY['ALTER TABLE sums ADD COLUMN v int GENERATED ALWAYS AS (a * 2) VIRTUAL',
                                                  'SELECT index_table.create(''virtuals'', ''a'')'] END
    LOOP
        BEGIN
            EXECUTE command;
            RAISE EXCEPTION 'not refused: %', command;
        EXCEPTION WHEN feature_not_supported THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT id, twice FROM sums ORDER BY id;
SELECT * FROM index_table.verify('sums_by_twice');
DROP TABLE above, above_m, child;
SELECT * FROM differences();

-- What a key or predicate may not become by the new type of a column: as for an index, 42P17. An element for a value, or the other way round.
CREATE TABLE times (id int PRIMARY KEY, at timestamp, k int, list int[]) PARTITION BY HASH (id);
CREATE TABLE times_0 PARTITION OF times FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO times SELECT i, timestamp '2025-12-31 23:00', i, ARRAY[i, i + 1] FROM generate_series(1, 4) AS i;
CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1';
CREATE FUNCTION twice(bigint) RETURNS SETOF bigint IMMUTABLE LANGUAGE sql AS 'VALUES ($1), (2 * $1)';
SELECT index_table.create('times', 'extract(day FROM at)', name => 'times_by_day');
\set ON_ERROR_ROLLBACK on
BEGIN;
\set VERBOSITY sqlstate
ALTER TABLE times ALTER COLUMN at TYPE timestamptz;
SELECT index_table.drop('times_by_day'), index_table.create('times', 'k', predicate => 'at > ''2026-01-01''', name => 'times_recent');
ALTER TABLE times ALTER COLUMN at TYPE timestamptz;
SELECT index_table.drop('times_recent'), index_table.create('times', 'k'), index_table.create('times', 'list'), index_table.create('times', 'twice(k)', name => 'times_by_twice');
\set VERBOSITY default
ALTER TABLE times ALTER COLUMN k TYPE int[] USING ARRAY[k];
ALTER TABLE times ALTER COLUMN list TYPE int USING list[1];
SELECT index_table.drop('times_by_k');
ALTER TABLE times ALTER COLUMN k TYPE bigint;
SELECT index_table.drop('times_by_twice');
ALTER TABLE times ALTER COLUMN list TYPE bigint[];
ALTER TABLE times ALTER COLUMN at TYPE timestamptz;
COMMIT;
INSERT INTO recomputation VALUES ('times_by_list', 'v, partition_id, id', '(SELECT DISTINCT times.tableoid, id, unnest(list)::bigint AS v FROM times) b');
SELECT * FROM differences();

-- Row types, whose values get other hashes with each column: by itself, in an array, in another; of a table.
CREATE TYPE point2 AS (x int, y int);
CREATE TYPE line2 AS (a point2, b point2);
CREATE TABLE points (id int PRIMARY KEY, p point2, ps point2[], l line2, t times) PARTITION BY HASH (id);
CREATE TABLE points_0 PARTITION OF points FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO points SELECT i, ROW(i, i)::point2, ARRAY[ROW(i, 0)::point2] FROM generate_series(1, 9) AS i;
SELECT index_table.create('points', 'p');
INSERT INTO recomputation VALUES ('points_by_p', 'p, partition_id, id', 'points b');
ALTER TYPE point2 ADD ATTRIBUTE z int;
UPDATE points SET p.z = 1 WHERE id < 4;
SELECT id FROM points WHERE p = ROW(5, 5, NULL)::point2;
SELECT * FROM differences();
BEGIN;
SELECT index_table.create('points', c, partitions => 3) FROM unnest('{ps,l,t}'::text[]) c;
ALTER TYPE point2 ADD ATTRIBUTE w int;
ALTER TYPE point2 DROP ATTRIBUTE z;
ALTER TYPE line2 ADD ATTRIBUTE c int;
ALTER TABLE times ADD COLUMN more int;
ALTER TYPE point2 RENAME ATTRIBUTE z TO depth;
CREATE TYPE plain2 AS (a int);
CREATE TABLE typed2 OF plain2;
ALTER TABLE points ADD COLUMN t2 typed2;
SELECT index_table.create('points', 't2', partitions => 3);
ALTER TYPE plain2 ADD ATTRIBUTE z int CASCADE;
SELECT index_table.drop('points_by_ps'), index_table.drop('points_by_l'), index_table.drop('points_by_t'), index_table.drop('points_by_t2');
ALTER TYPE plain2 ADD ATTRIBUTE z int CASCADE;
ALTER TYPE point2 DROP ATTRIBUTE depth;
ALTER TABLE times ADD COLUMN more int;
COMMIT;
SELECT id FROM points WHERE p = ROW(5, 5)::point2;
SELECT * FROM differences();

-- Children of an index table, or of a queue.
SELECT index_table.create('times', 'id', maintenance => 'deferred');
CREATE TABLE heir () INHERITS (times_by_id);
CREATE TABLE heir () INHERITS (times_by_id_queue);
CREATE TABLE heir (LIKE times_by_id);
ALTER TABLE heir INHERIT times_by_id;
DROP TABLE heir;
SELECT index_table.drop('times_by_id');

-- A column of a domain that no NULL satisfies.
CREATE DOMAIN filled AS int NOT NULL;
CREATE DOMAIN known AS int CHECK (VALUE IS NOT NULL);
CREATE TABLE cups (id int PRIMARY KEY DEFERRABLE, k int) PARTITION BY HASH (id);
CREATE TABLE cups_0 PARTITION OF cups FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO cups SELECT i, i FROM generate_series(1, 6) AS i;
SELECT index_table.create('cups', 'k', 'denormalized');
SELECT index_table.create('cups', 'k', 'denormalized', identity => 'id', partitions => 2, is_unique => true);
INSERT INTO recomputation VALUES ('cups_by_k', 'k, partition_id, id, a, b, c', 'cups b');
ALTER TABLE cups ADD COLUMN a filled DEFAULT 5;
ALTER TABLE cups ADD COLUMN b known DEFAULT 3;
ALTER TABLE cups ADD COLUMN c filled GENERATED ALWAYS AS (k * 2) STORED;
SELECT k, id, a, b, c FROM cups_by_k WHERE k = 2;
CREATE TABLE saucers (k int REFERENCES cups_by_k (k) ON DELETE CASCADE);
INSERT INTO saucers VALUES (2);
ALTER TABLE cups ADD COLUMN d filled DEFAULT 4;
UPDATE recomputation SET entry = entry || ', d' WHERE index_table = 'cups_by_k'::regclass;
SELECT * FROM differences();
DELETE FROM cups;
SELECT * FROM saucers;
DROP TABLE saucers;
INSERT INTO cups VALUES (1, 1), (2, 2);
TRUNCATE cups;
ALTER TABLE cups ADD COLUMN e filled;
INSERT INTO cups (id, k, e) VALUES (3, 3, 3);
INSERT INTO cups (id, k) VALUES (4, 4);
UPDATE recomputation SET entry = entry || ', e' WHERE index_table = 'cups_by_k'::regclass;
SELECT * FROM differences();

-- Entries from before a column was dropped, changed in the middle of a statement, where they have to be found exactly.
CREATE TABLE marks (id int PRIMARY KEY, k int, u int) PARTITION BY HASH (id);
CREATE TABLE marks_0 PARTITION OF marks FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE marks_log (id int);
CREATE FUNCTION log_mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO marks_log VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER z AFTER UPDATE ON marks FOR EACH ROW EXECUTE FUNCTION log_mark();
INSERT INTO marks SELECT i, i, i FROM generate_series(1, 6) AS i;
SELECT index_table.create('marks', 'u', 'denormalized', is_unique => true);
INSERT INTO recomputation VALUES ('marks_by_u', 'u, partition_id, id, k', 'marks b');
ALTER TABLE marks ADD COLUMN gone int DEFAULT 5;
ALTER TABLE marks DROP COLUMN gone;
DELETE FROM marks WHERE id < 4;
VACUUM marks_by_u;
UPDATE marks SET k = k + 10;
SELECT u, id, k FROM marks_by_u ORDER BY u;
SELECT * FROM differences();

DROP SCHEMA alter_table, alter_third CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
