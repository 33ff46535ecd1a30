-- Keys: types, order, collations, operator classes, expressions, predicates, NULL, big values.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA keys;
SET search_path = keys;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Every kind of type: by value and by reference, fixed and variable length, with and without modifier.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN word AS varchar(12) COLLATE "C";
CREATE TABLE v (
    id int PRIMARY KEY,
    c_int2 int2, c_int8 int8, c_oid oid, c_numeric numeric, c_numeric_mod numeric(8,3), c_text text, c_varchar varchar(10),
    c_char char(6), c_chars "char", c_name name, c_bool bool, c_date date, c_timestamptz timestamptz,
    c_timestamp timestamp(3), c_time time, c_timetz timetz, c_interval interval, c_uuid uuid, c_inet inet, c_cidr cidr, c_macaddr macaddr,
    c_bytea bytea, c_float8 float8, c_float4 float4, c_enum mood, c_domain positive, c_word word,
    c_range int4range, c_pair pair, c_bit bit(3), c_varbit bit varying, c_jsonb jsonb, c_tsvector tsvector, c_money money, c_lsn pg_lsn
) PARTITION BY HASH (id);
CREATE TABLE v_0 PARTITION OF v FOR VALUES WITH (MODULUS 2, REMAINDER 0);
-- The other partition has dropped columns, and the rest in reverse order.
SELECT format('CREATE TABLE v_1 (gone numeric(4,1), %s, id int NOT NULL)',
              string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
                                (SELECT ' COLLATE ' || c.oid::regcollation FROM pg_collation c WHERE c.oid = attcollation AND collname = 'C' AND attname <> 'c_name')),
                         ', ' ORDER BY attnum DESC)) AS command
  FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 1 \gset
:command;
ALTER TABLE v_1 DROP COLUMN gone;
ALTER TABLE v ATTACH PARTITION v_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);

CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO v
    SELECT i, n, -n * 10000000000, n, n * 1.50, n / 7.0, 'text ' || n, 'vc' || n, 'ch' || n, chr(65 + n)::"char", 'name' || n, n % 2 = 0,
           date '2000-01-01' + n, timestamptz '2000-01-01 UTC' + n * interval '1 hour', timestamp '2000-01-01' + n * interval '1.2345 s',
           time '10:00' + n * interval '1 min', timetz '10:00+01' + n * interval '1 min', n * interval '1 day 1 s', md5(n::text)::uuid,
           inet '10.0.0.1' + n, format('10.%s.0.0/16', n)::cidr, format('08:00:2b:01:02:%s', to_char(n, 'FM00'))::macaddr,
           decode(md5(n::text), 'hex'), n / 3.0, n / 3.0, (ARRAY['sad', 'ok', 'happy'])[1 + n % 3]::mood,
           n + 1, 'word ' || n, int4range(n, 2 * n), ROW(n % 3, 'b' || n)::pair, (n % 8)::bit(3), n::bit(20)::bit varying,
           jsonb_build_object('n', n, 'm', to_jsonb(repeat('x', n))), to_tsvector('simple', 'word' || n), n::money, ('0/' || n)::pg_lsn
      FROM generate_series(first, last) AS i, LATERAL (SELECT i % 11 AS n) AS x
$$;
SELECT fill(1, 40);
INSERT INTO v (id) SELECT generate_series(41, 45);
-- Values that are equal and not the same, and those at the ends.
INSERT INTO v (id, c_numeric, c_char, c_float8, c_float4, c_jsonb, c_interval, c_timestamptz, c_date, c_text, c_bytea, c_range, c_pair)
VALUES (51, 1.0, 'ab', 0, 0, '{"n": 1}', '1 day', '-infinity', '-infinity', '', '', 'empty', '(,)'),
       (52, 1.00, 'ab ', -0.0::float8, -0.0::float4, '{"n": 1.0}', '24 hours', 'infinity', 'infinity', 'e', '\x00', '(,)', '(1,)'),
       (53, 'NaN', '', 'NaN', 'NaN', '{"n": 1.00}', '23 hours 60 min', 'epoch', 'epoch', repeat('z', 3000), '\xff00', '[1,1]', '(,"a,""b")'),
       (54, 'Infinity', NULL, '-Infinity', '-Infinity', 'null', '-1 mon', NULL, NULL, E'tab\tline\n\\', repeat('\\001', 2000)::bytea, NULL, NULL);
SELECT count(index_table.create('v', attname)) FROM pg_attribute WHERE attrelid = 'v'::regclass AND attname LIKE 'c\_%';
INSERT INTO recomputation
SELECT 'v_by_' || attname, attname || ', partition_id, id', 'v b' FROM pg_attribute
 WHERE attrelid = 'v'::regclass AND attname LIKE 'c\_%';
SELECT index_table.create('v', 'c_float8', name => 'v_unique', is_unique => true, predicate => 'id BETWEEN 60 AND 99');
INSERT INTO recomputation VALUES ('v_unique', 'c_float8, partition_id, id', 'v b', 'id BETWEEN 60 AND 99');
SELECT * FROM differences();
-- The columns have the types of the base table.
SELECT b.attname FROM pg_attribute AS b JOIN pg_attribute AS e ON e.attrelid = ('v_by_' || b.attname)::regclass AND e.attnum = 1
 WHERE b.attrelid = 'v'::regclass AND b.attname LIKE 'c\_%'
   AND (b.atttypid, b.atttypmod, b.attcollation, b.attname) IS DISTINCT FROM (e.atttypid, e.atttypmod, e.attcollation, e.attname);

-- Every row is found by its key, and entries come in the order of ORDER BY key, identity.
CREATE FUNCTION reading_faults() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    key name;
    faults bigint;
BEGIN
    FOR key IN SELECT attname FROM pg_attribute WHERE attrelid = 'v'::regclass AND attname LIKE 'c\_%' ORDER BY attnum LOOP
        EXECUTE format('SELECT count(*) FROM v WHERE NOT EXISTS (SELECT FROM index_table.lookup(%L, v.%I) AS e
                         WHERE e.identity = jsonb_build_object(''id'', v.id))', 'v_by_' || key, key) INTO faults;
        IF faults > 0 THEN
            RETURN NEXT format('%s: %s rows not found', key, faults);
        END IF;
        EXECUTE format('SELECT count(*) FROM (SELECT e.identity, row_number() OVER () AS n FROM index_table.lookup(%L) AS e) AS e
                          FULL JOIN (SELECT id, row_number() OVER (ORDER BY %I, id) AS n FROM v) AS b USING (n)
                         WHERE e.identity IS DISTINCT FROM jsonb_build_object(''id'', b.id)', 'v_by_' || key, key) INTO faults;
        IF faults > 0 THEN
            RETURN NEXT format('%s: %s rows out of order', key, faults);
        END IF;
    END LOOP;
END $$;
SELECT * FROM reading_faults();

-- Changed, to equal and to other values; deleted; in one statement and row by row.
SELECT fill(101, 140);
UPDATE v SET c_numeric = c_numeric * 1.00, c_float8 = -c_float8, c_float4 = 0 - c_float4, c_char = c_char || ' ', c_jsonb = c_jsonb || '{"n": 7.0}';
SELECT * FROM differences();
UPDATE v SET c_int2 = c_int8 % 100, c_text = c_varchar, c_varchar = c_text, c_enum = 'sad', c_domain = c_domain + 1, c_bool = NOT c_bool,
             c_pair = ROW(-(c_pair).a, NULL), c_range = c_range + int4range(1, upper(c_range)), c_bytea = c_bytea || '\x00'
 WHERE id % 3 = 0 AND (c_text IS NULL OR length(c_text) < 10);
UPDATE v SET id = id + 1000, c_uuid = NULL, c_interval = 2 * c_interval WHERE id % 5 = 0;
DELETE FROM v WHERE id % 7 = 0 OR id = 51;
UPDATE v SET c_float8 = 0, c_numeric = 1 WHERE id IN (52, 53, 54);
SELECT * FROM differences();
SELECT * FROM reading_faults();
SELECT count(*) FROM v;
-- Equal keys: 0 and -0 collide where they must be unique.
INSERT INTO v (id, c_float8) VALUES (90, 0.0), (91, '-0');
\echo :SQLSTATE
DELETE FROM v;
SELECT (SELECT count(*) FROM v_by_c_text) AS entries, count(*) AS differences FROM differences();
DROP TABLE v;
DELETE FROM recomputation;

-- Order, NULLs, collations, operator classes.
CREATE TABLE t (a int, b text, c text COLLATE "C", d varchar(20), e numeric, id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (30);
CREATE TABLE t_2 (id int NOT NULL, x int, e numeric, d varchar(20), c text COLLATE "C", b text, a int);
ALTER TABLE t_2 DROP COLUMN x;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (30) TO (MAXVALUE);
INSERT INTO t SELECT nullif(i % 4, 0), nullif('b' || i % 5, 'b0'), nullif(chr(90 - i % 6), 'Z'), 'd' || i % 3, nullif(i % 7, 3), i
  FROM generate_series(1, 60) AS i;
SELECT index_table.create('t', key, name => name)
  FROM (VALUES ('a, b', 'k1'), ('a DESC, b', 'k2'), ('a NULLS FIRST, b DESC NULLS LAST, e', 'k3'), ('a DESC NULLS LAST, id DESC', 'k4'),
               ('b COLLATE "C" text_pattern_ops DESC', 'k5'), ('d varchar_pattern_ops, c NULLS FIRST', 'k6'),
               ('c COLLATE "POSIX", a', 'k7'), ('lower(c) COLLATE "C" DESC, (a + e) NULLS FIRST', 'k8'), ('e DESC, d, b, a, c', 'k9')) AS k (key, name);
SELECT index_table, key FROM index_table.index_tables WHERE base = 't'::regclass ORDER BY index_table::text;
SELECT indexrelid::regclass AS index, regexp_replace(pg_get_indexdef(indexrelid), '^.* USING ', '') AS definition
  FROM pg_index WHERE indrelid IN (SELECT index_table FROM index_table.index_tables WHERE base = 't'::regclass) ORDER BY indexrelid::regclass::text;
SELECT attrelid::regclass AS index_table, attname AS column, attcollation::regcollation AS collation FROM pg_attribute
 WHERE attrelid IN (SELECT index_table FROM index_table.index_tables WHERE base = 't'::regclass) AND attnum > 0 AND attcollation > 0
 ORDER BY attrelid::regclass::text, attnum;
INSERT INTO recomputation
SELECT name, entry || ', partition_id' || CASE WHEN name <> 'k4' THEN ', id' ELSE '' END, 't b'
  FROM (VALUES ('a, b', 'k1'), ('a, b', 'k2'), ('a, b, e', 'k3'), ('a, id', 'k4'), ('b', 'k5'), ('d, c', 'k6'), ('c, a', 'k7'),
               ('lower(c), a + e', 'k8'), ('e, d, b, a, c', 'k9')) AS k (entry, name);
UPDATE t SET a = a + 1, b = c, c = b WHERE id % 6 = 0;
UPDATE t SET id = -id WHERE id % 2 = 0;
DELETE FROM t WHERE id % 10 = 3;
SELECT * FROM differences();
-- The entries' order, by the definitions written out again.
CREATE FUNCTION disorder(index_table regclass, ordering text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    faults bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (SELECT e.identity, row_number() OVER () AS n FROM index_table.lookup(%L) AS e) AS e
                      FULL JOIN (SELECT id, row_number() OVER (ORDER BY %s, id) AS n FROM t) AS b USING (n)
                     WHERE e.identity IS DISTINCT FROM jsonb_build_object(''id'', b.id)', index_table, ordering) INTO faults;
    RETURN faults;
END $$;
SELECT name, disorder(name::regclass, ordering)
  FROM (VALUES ('k1', 'a, b'), ('k2', 'a DESC, b'), ('k3', 'a NULLS FIRST, b DESC NULLS LAST, e'), ('k4', 'a DESC NULLS LAST, id DESC'),
               ('k5', 'b USING ~>~ NULLS FIRST'), ('k6', 'd USING ~<~, c NULLS FIRST'), ('k7', 'c COLLATE "POSIX", a'),
               ('k8', 'lower(c) COLLATE "C" DESC, (a + e) NULLS FIRST'), ('k9', 'e DESC, d, b, a, c')) AS k (name, ordering);
DROP TABLE t;
DELETE FROM recomputation;

-- A collation under which different strings are equal, where there is one.
SELECT getdatabaseencoding() = 'UTF8' AND EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu') AS has_icu \gset
\if :has_icu
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION caseless FROM "C";
\endif
CREATE TABLE words (id text COLLATE caseless PRIMARY KEY, word text COLLATE caseless, note text);
INSERT INTO words SELECT chr(64 + i), CASE WHEN i % 2 = 0 THEN 'Word' ELSE 'WORD' END || i / 4, 'note' FROM generate_series(1, 16) AS i;
SELECT index_table.create('words', 'word');
SELECT index_table.create('words', 'note, word', 'denormalized', partitions => 2);
INSERT INTO recomputation VALUES ('words_by_word', 'word, partition_id, id', 'words b'), ('words_by_note_word', 'note, word, partition_id, id', 'words b');
UPDATE words SET word = lower(word);
UPDATE words SET id = lower(id) WHERE id > 'D';
UPDATE words SET word = upper(word), note = upper(note) WHERE id > 'G';
DELETE FROM words WHERE id > 'L';
SELECT count(*) > 0 AS some_left FROM words;
SELECT * FROM differences();
DROP TABLE words;
DELETE FROM recomputation;

-- Expressions and predicates.
CREATE FUNCTION initials(first text, last text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT left(first, 1) || left(last, 1) $$;
CREATE FUNCTION sound(name text) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN translate(lower(name), 'aeiou', ''); END $$;
CREATE TABLE people (
    id int, born timestamptz, first_name text, last_name text, home pair, doc jsonb, active bool,
    full_name text GENERATED ALWAYS AS (first_name || ' ' || last_name) STORED,
    PRIMARY KEY (id, first_name)
) PARTITION BY LIST (first_name);
CREATE TABLE people_ann PARTITION OF people FOR VALUES IN ('Ann');
CREATE TABLE people_rest (full_name text GENERATED ALWAYS AS (first_name || ' ' || last_name) STORED, gone int, active bool, doc jsonb, home pair,
                          last_name text, first_name text NOT NULL, born timestamptz, id int NOT NULL);
ALTER TABLE people_rest DROP COLUMN gone;
ALTER TABLE people ATTACH PARTITION people_rest DEFAULT;
INSERT INTO people SELECT i, timestamptz '1970-01-01 UTC' + i * interval '1 month', (ARRAY['Ann', 'Bob', 'Cid'])[1 + i % 3], 'Last' || i % 10, ROW(i % 4, 'b')::pair,
       jsonb_build_object('city', 'city ' || i % 5), nullif(i % 3, 0) = 1
  FROM generate_series(1, 50) AS i;
SELECT index_table.create('people', 'lower(last_name), initials(first_name, last_name) DESC');
SELECT index_table.create('people', 'sound(last_name)', 'partial', include => 'last_name', predicate => 'active');
SELECT index_table.create('people', '(doc ->> ''city''), ((home).a)', predicate => 'sound(first_name) <> ''nn'' AND (home).a > 1');
SELECT index_table.create('people', 'date_trunc(''year'', born AT TIME ZONE ''UTC''), full_name');
SELECT index_table.create('people', '(CASE WHEN active THEN 1 WHEN NOT active THEN 2 END), coalesce(last_name, first_name)', predicate => 'born IS NOT NULL');
SELECT index_table.create('people', '(last_name IS NULL), (id % 3 = 0), (''constant''), home', predicate => 'first_name IN (''Ann'', ''Bob'') OR NOT active');
SELECT index_table.create('people', 'last_name', name => 'people_none', predicate => 'false');
SELECT index_table.create('people', 'extract(epoch FROM born AT TIME ZONE ''UTC'')', 'denormalized', name => 'people_by_epoch');
SELECT index_table, key, predicate FROM index_table.index_tables ORDER BY index_table::text COLLATE "C";
INSERT INTO recomputation VALUES
    ('people_by_lower_initials', 'lower(last_name), initials(first_name, last_name), partition_id, id, first_name', 'people b', 'true'),
    ('people_by_sound', 'sound(last_name), partition_id, id, first_name, last_name', 'people b', 'active'),
    ('people_by_expr_a', 'doc ->> ''city'', (home).a, partition_id, id, first_name', 'people b', 'sound(first_name) <> ''nn'' AND (home).a > 1'),
    ('people_by_date_trunc_full_name', 'date_trunc(''year'', born AT TIME ZONE ''UTC''), full_name, partition_id, id, first_name', 'people b', 'born IS NULL OR true'),
    ('people_by_case_coalesce', 'CASE active WHEN true THEN 1 WHEN false THEN 2 END, coalesce(last_name, first_name), partition_id, id, first_name', 'people b', 'born IS NOT NULL'),
    ('people_by_expr_expr1_expr2_home', 'last_name IS NULL, id % 3 = 0, ''constant'', home, partition_id, id, first_name', 'people b', 'first_name IN (''Ann'', ''Bob'') OR NOT active'),
    ('people_none', 'last_name, partition_id, id, first_name', 'people b', 'false'),
    ('people_by_epoch', 'extract(epoch FROM born AT TIME ZONE ''UTC''), partition_id, id, first_name, born, last_name, home, doc, active, full_name', 'people b', 'true');
SELECT * FROM differences();
-- Rows enter and leave by their predicate; keys follow what they are computed from.
UPDATE people SET active = CASE WHEN active THEN NULL ELSE active IS NULL END, last_name = nullif(upper(last_name), 'LAST3');
UPDATE people SET doc = doc || '{"city": "elsewhere"}', home.a = (home).a + 1 WHERE id % 2 = 0;
UPDATE people SET first_name = 'Ann' WHERE id % 5 = 0;
UPDATE people SET first_name = 'Bob', born = NULL WHERE first_name = 'Ann' AND id % 4 = 0;
INSERT INTO people (id, first_name) VALUES (100, 'Ann'), (101, 'Bob');
DELETE FROM people WHERE id % 9 = 0;
SELECT * FROM differences();
SELECT index_table, entries FROM (VALUES ('people_by_sound', (SELECT count(*) FROM people_by_sound)), ('people_by_expr_a', (SELECT count(*) FROM people_by_expr_a)),
              ('people_by_expr_expr1_expr2_home', (SELECT count(*) FROM people_by_expr_expr1_expr2_home)), ('people_none', (SELECT count(*) FROM people_none))) AS e (index_table, entries);
-- An expression that fails refuses the row.
SELECT index_table.create('people', '(100 / id)', name => 'people_fraction');
INSERT INTO people (id, first_name) VALUES (0, 'Ann');
\echo :SQLSTATE
SELECT count(*) FROM people WHERE id = 0;
INSERT INTO recomputation VALUES ('people_fraction', '100 / id, partition_id, id, first_name', 'people b');
SELECT * FROM differences();
DROP TABLE people;
DELETE FROM recomputation;

-- Big values: compressed and out of line, in the key, the identity and the included columns.
CREATE TABLE big (id text PRIMARY KEY, word text, body text, plain text);
ALTER TABLE big ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(md5(seed || '/' || i), '' ORDER BY i) FROM generate_series(1, n / 32) AS i $$;
INSERT INTO big SELECT repeat('id ' || i, 400), repeat('word ' || i % 3, 1000), noise(i, 20000), 'plain' FROM generate_series(1, 10) AS i;
SELECT index_table.create('big', 'word', 'partial', include => 'body');
SELECT index_table.create('big', 'word, plain', 'denormalized', partitions => 2);
SELECT index_table.create('big', 'md5(body)', is_unique => true);
INSERT INTO recomputation VALUES ('big_by_word', 'word, partition_id, id, body', 'big b'), ('big_by_word_plain', 'word, plain, partition_id, id, body', 'big b'),
    ('big_by_md5', 'md5(body), partition_id, id', 'big b');
SELECT * FROM differences();
INSERT INTO big SELECT repeat('id ' || i, 400), repeat('word ' || i % 3, 1000), noise(i, 20000), 'plain' FROM generate_series(11, 20) AS i;
UPDATE big SET plain = 'fancy' WHERE id LIKE 'id 1%';
UPDATE big SET body = body || 'more', word = word || 'more' WHERE id LIKE 'id 2%';
UPDATE big SET id = repeat('changed', 500) WHERE id LIKE 'id 5%';
UPDATE big SET word = repeat('other', 2000) WHERE id LIKE 'id 7%';
DELETE FROM big WHERE id LIKE '%3id%';
SELECT * FROM differences();
SELECT count(*), max(length(id)), max(length(word)), max(length(body)) FROM big;
-- The copies are the index table's own, not the base table's.
SELECT relname, pg_relation_size(reltoastrelid) > 100000 AS has_copies FROM pg_class WHERE oid = 'big_by_word'::regclass;
-- What does not fit into a B-tree is refused, with the index that it does not fit into.
\set VERBOSITY terse
INSERT INTO big VALUES ('too big', noise(1, 4000), NULL, NULL);
\echo :SQLSTATE
\set VERBOSITY default
SELECT * FROM differences();
SELECT count(*) FROM big WHERE id = 'too big';

DROP SCHEMA keys CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
