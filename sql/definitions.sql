-- Definitions are bound when an index table is created, as those of native indexes are: nothing that
-- is made later takes their place, no schema or name that changes loses them, no rule forges them.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_definitions_owner;
CREATE ROLE regress_definitions_user;
CREATE ROLE regress_definitions_other;
CREATE SCHEMA definitions;
CREATE SCHEMA one;
CREATE SCHEMA two;
CREATE SCHEMA third;
GRANT USAGE ON SCHEMA definitions, one, two, third TO PUBLIC;
GRANT CREATE ON SCHEMA definitions, one, two, third TO regress_definitions_owner, regress_definitions_other;
SET search_path = definitions, one, two, third;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\set battery :abs_srcdir '/sql/include/battery.sql'
\i :oracle

-- Of another's: a type, and a cast from it.
SET ROLE regress_definitions_other;
CREATE TYPE third.pair AS (word text, number int);
CREATE FUNCTION third.pair_text(third.pair) RETURNS text IMMUTABLE RETURN ($1).word;
CREATE CAST (third.pair AS text) WITH FUNCTION third.pair_text(third.pair);
RESET ROLE;

-- An operator class beside the type's own, in a schema in which others may create operators.
CREATE FUNCTION one.less(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4lt';
CREATE FUNCTION one.less_equal(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4le';
CREATE FUNCTION one.same(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4eq';
CREATE FUNCTION one.greater_equal(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4ge';
CREATE FUNCTION one.greater(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4gt';
CREATE OPERATOR one.< (LEFTARG = int, RIGHTARG = int, FUNCTION = one.less, COMMUTATOR = OPERATOR(one.>));
CREATE OPERATOR one.<= (LEFTARG = int, RIGHTARG = int, FUNCTION = one.less_equal);
CREATE OPERATOR one.= (LEFTARG = int, RIGHTARG = int, FUNCTION = one.same, MERGES, HASHES);
CREATE OPERATOR one.>= (LEFTARG = int, RIGHTARG = int, FUNCTION = one.greater_equal);
CREATE OPERATOR one.> (LEFTARG = int, RIGHTARG = int, FUNCTION = one.greater);
CREATE OPERATOR CLASS one.other_ops FOR TYPE int USING btree AS
    OPERATOR 1 one.<, OPERATOR 2 one.<=, OPERATOR 3 one.=, OPERATOR 4 one.>=, OPERATOR 5 one.>, FUNCTION 1 btint4cmp(int, int);
-- One that shares its operators with the first.
CREATE OPERATOR CLASS one.shared_ops FOR TYPE int USING btree AS
    OPERATOR 1 one.<, OPERATOR 2 one.<=, OPERATOR 3 one.=, OPERATOR 4 one.>=, OPERATOR 5 one.>, FUNCTION 1 btint4cmp(int, int);

-- Functions and operators that others would match better: polymorphic, of more arguments with
-- defaults, variadic, of types to which there are implicit casts.
SET ROLE regress_definitions_owner;
CREATE DOMAIN one.counted AS int;
CREATE FUNCTION one.first_of(anyarray) RETURNS anyelement IMMUTABLE LANGUAGE sql AS 'SELECT $1[1]';
CREATE FUNCTION one.short(text, int DEFAULT 3) RETURNS text IMMUTABLE RETURN left(lower($1), $2);
CREATE FUNCTION one.joined(VARIADIC text[]) RETURNS text IMMUTABLE RETURN coalesce($1[1], '') || '-' || coalesce($1[2], '');
CREATE FUNCTION one.num(numeric) RETURNS numeric IMMUTABLE RETURN $1 * 2;
CREATE FUNCTION one.below(numeric, numeric) RETURNS bool IMMUTABLE RETURN $1 < $2;
CREATE OPERATOR one.<<< (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = one.below);
CREATE FUNCTION one.plus(anyelement, anyelement) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT pg_catalog.concat($1, '+', $2)$$;
CREATE OPERATOR one.@+ (LEFTARG = anyelement, RIGHTARG = anyelement, FUNCTION = one.plus);

CREATE TABLE planted (id int PRIMARY KEY, tags text[], k text, j text, n int, p third.pair, d one.counted, z text) PARTITION BY RANGE (id);
CREATE TABLE planted_1 PARTITION OF planted FOR VALUES FROM (0) TO (100);
CREATE TABLE planted_2 PARTITION OF planted FOR VALUES FROM (100) TO (300);
GRANT ALL ON planted TO regress_definitions_user;
INSERT INTO planted SELECT i, ARRAY['t' || i % 3, 'u'], 'K' || i, 'j' || i % 2, i, ROW('w' || i, i)::third.pair, i, 'z' || i % 4 FROM generate_series(2, 160, 7) AS i;
-- The control: whatever holds for these, holds for index tables.
CREATE INDEX ON planted (one.first_of(tags));
CREATE INDEX ON planted (one.short(k), one.joined(k, j));
CREATE INDEX ON planted (one.num(n)) WHERE n OPERATOR(one.<<<) 1000;
CREATE INDEX ON planted ((k OPERATOR(one.@+) j));
CREATE INDEX ON planted ((p::text));
CREATE INDEX ON planted (d one.other_ops);
SELECT index_table.create('planted', 'one.first_of(tags)', name => 'planted_by_first');
SELECT index_table.create('planted', 'one.short(k), one.joined(k, j)', name => 'planted_by_short');
SELECT index_table.create('planted', 'one.num(n)', 'partial', include => 'z', predicate => 'n OPERATOR(one.<<<) 1000', name => 'planted_by_number');
SELECT index_table.create('planted', '(k OPERATOR(one.@+) j)', name => 'planted_by_plus');
SELECT index_table.create('planted', '(p::text)', 'denormalized', name => 'planted_by_pair');
SELECT index_table.create('planted', 'd one.other_ops', 'partial', include => 'n', is_unique => true, name => 'planted_by_d');
RESET ROLE;
INSERT INTO recomputation VALUES
    ('planted_by_first', 'tags[1], partition_id, id', 'planted b', 'true'),
    ('planted_by_short', $$left(lower(k), 3), coalesce(k, '') || '-' || coalesce(j, ''), partition_id, id$$, 'planted b', 'true'),
    ('planted_by_number', 'n::numeric * 2, partition_id, id, z', 'planted b', 'n < 1000'),
    ('planted_by_plus', $$coalesce(k, '') || '+' || coalesce(j, ''), partition_id, id$$, 'planted b', 'true'),
    ('planted_by_pair', '(p).word, partition_id, id, tags, k, j, n, p, d, z', 'planted b', 'true'),
    ('planted_by_d', 'd, partition_id, id, n', 'planted b', 'true');
SELECT * FROM differences();
-- Queries that were bound before, too.
CREATE VIEW by_first AS SELECT * FROM planted WHERE one.first_of(tags) = 'a';
CREATE VIEW by_short AS SELECT * FROM planted WHERE one.short(k) = 'kaa' AND one.joined(k, j) = 'x' AND one.num(n) = 4;
CREATE VIEW by_d AS SELECT id FROM planted WHERE d OPERATOR(one.>) 3 ORDER BY d DESC LIMIT 3;
GRANT SELECT ON by_first, by_short, by_d TO PUBLIC;
-- The battery means something: without what was planted, nothing is said.
\i :battery

-- Another plants what matches better, or as well and earlier, wherever he may. It says so, and
-- counts, whoever catches the error.
CREATE SEQUENCE struck;
GRANT ALL ON struck TO PUBLIC;
SET ROLE regress_definitions_other;
CREATE FUNCTION third.strike(how text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('definitions.struck');
    RAISE EXCEPTION '% ran as %', how, current_user;
END $$;
DO $$
DECLARE s text;
BEGIN
    FOREACH s IN ARRAY ARRAY['one', 'two', 'third', 'definitions'] LOOP
        EXECUTE format($f$
            CREATE FUNCTION %1$s.first_of(text[]) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''first_of''); END';
            CREATE FUNCTION %1$s.short(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''short''); END';
            CREATE FUNCTION %1$s.joined(text, text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''joined''); END';
            CREATE FUNCTION %1$s.num(int) RETURNS numeric IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM third.strike(''num''); RETURN 1; END';
            CREATE FUNCTION %1$s.below_too(int, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''<<<''); END';
            CREATE OPERATOR %1$s.<<< (LEFTARG = int, RIGHTARG = int, FUNCTION = %1$s.below_too);
            CREATE FUNCTION %1$s.plus(text, text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''plus''); END';
            CREATE OPERATOR %1$s.@+ (LEFTARG = text, RIGHTARG = text, FUNCTION = %1$s.plus);
            CREATE FUNCTION %1$s.lower(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''lower''); END';
            CREATE FUNCTION %1$s.count_row(oid, bigint) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''count_row''); END';
            CREATE FUNCTION %1$s.unnest(text[]) RETURNS SETOF text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN NEXT third.strike(''unnest''); END'
        $f$, s);
    END LOOP;
    -- On the domain, for the operators of the operator class.
    FOREACH s IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
        EXECUTE format($f$
            CREATE FUNCTION third.%2$I(one.counted, one.counted) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''%1$s''); END';
            CREATE OPERATOR one.%1$s (LEFTARG = one.counted, RIGHTARG = one.counted, FUNCTION = third.%2$I);
            CREATE FUNCTION third.%2$I(one.counted, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''%1$s''); END';
            CREATE OPERATOR one.%1$s (LEFTARG = one.counted, RIGHTARG = int, FUNCTION = third.%2$I)
        $f$, s, 'planted ' || s);
    END LOOP;
END $$;
-- The cast is another from now on.
DROP CAST (third.pair AS text);
CREATE FUNCTION third.other_text(third.pair) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''cast''); END';
CREATE CAST (third.pair AS text) WITH FUNCTION third.other_text(third.pair);
-- What was planted is found by whoever looks for names anew.
SELECT one.first_of(ARRAY['a']);
SELECT 1::one.counted OPERATOR(one.=) 1;
SELECT ROW('x', 1)::third.pair::text;
RESET ROLE;
SELECT setval('struck', 1, false);
\i :battery
SET ROLE regress_definitions_user;
\i :battery
SET ROLE regress_definitions_owner;
\i :battery
RESET ROLE;
-- In a session that has nothing cached, that has names of its own before everything, and types.
\c -
SET client_min_messages = warning;
SET search_path = third, two, one, definitions, pg_catalog;
CREATE TEMP TABLE planted_by_first (first_of text, partition_id int, id int);
CREATE DOMAIN pg_temp.text AS int;
CREATE DOMAIN pg_temp.int4 AS pg_catalog.text;
CREATE TYPE pg_temp.pair AS (a int);
CREATE FUNCTION pg_temp.first_of(text[]) RETURNS pg_catalog.text LANGUAGE plpgsql AS 'BEGIN RETURN third.strike(''temp''); END';
SELECT setval('struck', 1, false);
DROP TABLE pg_temp.planted_by_first;
\i :battery
DROP FUNCTION pg_temp.first_of(text[]);
DROP DOMAIN pg_temp.text, pg_temp.int4;
SELECT is_called FROM struck;
SET search_path = definitions, one, two, third;
DROP TYPE pg_temp.pair;

-- What the owner does about index tables, and tables.
SET ROLE regress_definitions_owner;
SELECT index_table, count(*) AS problems FROM index_table.index_tables, LATERAL index_table.verify(index_table) WHERE base = 'planted'::regclass GROUP BY 1;
SELECT bool_and(index_table.repair(index_table) = 0) AS repaired FROM index_table.index_tables WHERE base = 'planted'::regclass;
CALL index_table.rebuild('planted_by_short');
CALL index_table.rebuild('planted_by_number');
CALL index_table.rebuild('planted_by_first');
CALL index_table.create_concurrently('planted', 'z', name => 'planted_by_z');
SELECT index_table.create('planted', 'j', 'denormalized', name => 'planted_by_j');
CREATE TABLE planted_3 (LIKE planted);
INSERT INTO planted_3 SELECT i, ARRAY['t' || i % 3, 'u'], 'K' || i, 'j' || i % 2, i, ROW('w' || i, i)::third.pair, i, 'z' || i % 4 FROM generate_series(300, 320) AS i;
ALTER TABLE planted ATTACH PARTITION planted_3 FOR VALUES FROM (300) TO (400);
ALTER TABLE planted ADD COLUMN y int;
ALTER TABLE planted ALTER COLUMN y TYPE bigint;
RESET ROLE;
DROP VIEW by_first, by_short, by_d;
SET ROLE regress_definitions_owner;
ALTER TABLE planted ALTER COLUMN z TYPE varchar(20);
RESET ROLE;
UPDATE recomputation SET entry = entry || ', y' WHERE index_table = 'planted_by_pair'::regclass;
SET ROLE regress_definitions_owner;
UPDATE planted SET y = 1;
TRUNCATE planted_3;
SELECT index_table.vacuum('planted_by_first') > 0 AS vacuumed;
ALTER TABLE planted DETACH PARTITION planted_3;
VACUUM (ANALYZE) planted;
RESET ROLE;
CREATE VIEW by_first AS TABLE planted;
CREATE VIEW by_short AS TABLE planted;
CREATE VIEW by_d AS TABLE planted;
-- Under a snapshot that is older than what was built, entries are recomputed.
\setenv PGDATABASE :DBNAME
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 AS begun FROM planted;
\! psql -Xqc "CALL index_table.rebuild('definitions.planted_by_first')" -c "CALL index_table.rebuild('definitions.planted_by_number')" -c "CALL index_table.rebuild('definitions.planted_by_pair')"
\i :battery
SELECT count(*) > 0 AS recomputed FROM index_table.lookup('planted_by_first', 't1');
SELECT count(*) > 0 AS recomputed FROM index_table.page(NULL::planted, 'planted_by_number', 3, NULL);
COMMIT;
SELECT * FROM differences();
SELECT is_called FROM struck;
SELECT index_table, key, predicate FROM index_table.index_tables WHERE base = 'planted'::regclass ORDER BY index_table::text COLLATE "C";
SELECT index_table.drop('planted_by_plus');
DELETE FROM recomputation WHERE index_table = 'planted_by_d'::regclass OR NOT EXISTS (SELECT FROM pg_class WHERE oid = index_table);
DROP TABLE planted_by_d;
SELECT is_called FROM struck;

-- Rights: those of a native index on an expression.
CREATE SCHEMA hidden;
CREATE FUNCTION hidden.norm(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN lower($1); END';
CREATE COLLATION hidden.same (provider = libc, locale = 'C');
CREATE FUNCTION hidden.cat(text, text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 || $2; END';
CREATE OPERATOR hidden.@@ (LEFTARG = text, RIGHTARG = text, FUNCTION = hidden.cat);
CREATE TYPE hidden.mood AS ENUM ('sad', 'glad');
CREATE TABLE shown (id int PRIMARY KEY, k text, m hidden.mood DEFAULT 'glad') PARTITION BY RANGE (id);
CREATE TABLE shown_1 PARTITION OF shown FOR VALUES FROM (0) TO (100);
CREATE TABLE native (id int PRIMARY KEY, k text);
CREATE INDEX ON native (hidden.norm(k));
GRANT ALL ON shown, native TO regress_definitions_user;
SELECT index_table.create('shown', 'hidden.norm(k)', name => 'shown_by_norm');
SELECT index_table.create('shown', '(k OPERATOR(hidden.@@) ''!'') COLLATE hidden.same', name => 'shown_by_cat', predicate => 'm = ''glad''');
SELECT index_table.create('shown', 'm', name => 'shown_by_mood');
INSERT INTO recomputation VALUES
    ('shown_by_norm', 'lower(k), partition_id, id', 'shown b', 'true'),
    ('shown_by_cat', $$k || '!', partition_id, id$$, 'shown b', $$m::text IN ('glad', 'happy')$$),
    ('shown_by_mood', 'm, partition_id, id', 'shown b', 'true');
\c -
SET client_min_messages = warning;
SET search_path = definitions;
SET index_table.enable_scan = force;
SET ROLE regress_definitions_user;
INSERT INTO shown VALUES (1, 'A'), (2, 'B');
UPDATE shown SET k = k || 'x' WHERE id = 1;
SELECT id, k FROM shown WHERE m IS NOT NULL ORDER BY id;
DELETE FROM shown WHERE id = 2;
SELECT * FROM index_table.lookup('shown_by_norm', 'ax');
-- EXECUTE is another matter.
RESET ROLE;
REVOKE EXECUTE ON FUNCTION hidden.norm(text) FROM PUBLIC;
SET ROLE regress_definitions_user;
INSERT INTO native VALUES (3, 'C');
\echo :SQLSTATE
INSERT INTO shown VALUES (3, 'C');
\echo :SQLSTATE
SELECT id FROM native WHERE id = 1;
SELECT id, k FROM shown WHERE id = 1;
RESET ROLE;
GRANT EXECUTE ON FUNCTION hidden.norm(text) TO PUBLIC;

-- New names for everything, while this session knows the old ones.
ALTER FUNCTION hidden.norm(text) RENAME TO norm2;
ALTER FUNCTION hidden.cat(text, text) SET SCHEMA third;
ALTER OPERATOR hidden.@@ (text, text) SET SCHEMA third;
ALTER COLLATION hidden.same RENAME TO "Same";
ALTER TYPE hidden.mood RENAME VALUE 'glad' TO 'happy';
ALTER TYPE hidden.mood RENAME TO humour;
ALTER TYPE hidden.humour SET SCHEMA third;
ALTER SCHEMA hidden RENAME TO "Hidden";
ALTER TABLE shown RENAME COLUMN k TO "K k";
ALTER TABLE shown_by_cat RENAME TO "By cat";
SELECT index_table, key, predicate FROM index_table.index_tables WHERE base = 'shown'::regclass ORDER BY index_table::text COLLATE "C";
INSERT INTO shown VALUES (4, 'D', 'happy'), (5, 'E', 'sad');
SELECT id FROM shown WHERE "Hidden".norm2("K k") = 'd';
ALTER TABLE shown RENAME TO displayed;
ALTER TABLE displayed SET SCHEMA two;
\c -
SET client_min_messages = warning;
SET search_path = definitions, two;
SET index_table.enable_scan = force;
INSERT INTO displayed VALUES (6, 'F', 'happy');
SELECT id FROM displayed WHERE "Hidden".norm2("K k") = 'f';
SELECT index_table, base, key FROM index_table.index_tables WHERE base = 'displayed'::regclass ORDER BY index_table::text COLLATE "C";
ALTER TABLE displayed RENAME COLUMN "K k" TO k;
UPDATE recomputation SET rows = 'displayed b' WHERE rows = 'shown b';

-- Rules are the owner's to tamper with, and his to suffer from.
CREATE OR REPLACE RULE index_table_definition AS ON DELETE TO shown_by_norm DO ALSO SELECT 1;
\echo :SQLSTATE
ALTER RULE index_table_definition ON shown_by_norm RENAME TO other;
\echo :SQLSTATE
DROP RULE index_table_definition ON shown_by_norm;
\echo :SQLSTATE
ALTER TABLE shown_by_norm ENABLE RULE index_table_definition;
\echo :SQLSTATE
INSERT INTO displayed VALUES (7, 'G', 'happy');
-- Without it, it is a table, and in nobody's way.
BEGIN;
ALTER TABLE displayed ALTER COLUMN k TYPE varchar(40);
DROP INDEX native_norm_idx;
DROP FUNCTION "Hidden".norm2(text);
SELECT count(*) FROM shown_by_norm;
ROLLBACK;
DELETE FROM recomputation WHERE index_table = 'shown_by_norm'::regclass;

-- Forged ones.
SET ROLE regress_definitions_other;
CREATE TABLE forged (k text, partition_id int, id int);
CREATE RULE index_table_definition AS ON DELETE TO forged DO ALSO SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM two.displayed b ORDER BY b.k;
\echo :SQLSTATE
CREATE TABLE own (id int PRIMARY KEY, k text, n int);
CREATE FUNCTION forge(what text, tail text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE RULE index_table_definition AS ON DELETE TO forged DO ALSO SELECT %s FROM own b %s', what, tail);
    RAISE EXCEPTION USING ERRCODE = '00001';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || CASE WHEN SQLSTATE = '00001' THEN ' taken' ELSE ': ' || SQLERRM END;
END $$;
SELECT forge($$b.k, b.id, 'normalized keys=1 identity=1'::text$$, 'ORDER BY b.k') AS right_one;
SELECT what, forge(what, 'ORDER BY 1') FROM (VALUES
    ($$b.n, b.id, 'normalized keys=1 identity=1'::text$$), ($$random()::text, b.id, 'normalized keys=1 identity=1'::text$$),
    ($$(SELECT 'x'::text), b.id, 'normalized keys=1 identity=1'::text$$), ($$b.k, 'normalized keys=1 identity=0'::text$$),
    ($$generate_series(1, b.n)::text, b.id, 'normalized keys=1 identity=1'::text$$),
    ($$b.k, b.id, 'normalized keys=2 identity=1'::text$$), ($$b.k, b.id, 'odd keys=1 identity=1'::text$$),
    ($$b.k, b.id, b.n, 'partial keys=1 identity=1'::text$$), ($$b.k, b.id, 'normalized keys=-1 identity=1'::text$$),
    ($$b.k, b.id, 'normalized keys=1 identity=99999999'::text$$), ($$b.k, b.id, 'normalized keys=1 identity=1 opclass9999=x'::text$$),
    ($$b.k, b.id, 'normalized keys=1 identity=1 deferrable'::text$$), ($$b.k, b.id, 'normalized keys=1 identity=1 what'::text$$),
    ($$b.k, b.id, 'normalized keys=1 identity=1'::text, 'pg_class'::regclass$$),
    ($$b.k, b.id, 'normalized keys=1 identity=1'::text, 'forged'::regclass$$),
    ($$b.k, b.id, 'normalized keys=1 identity=1'::text, 0::regclass$$), ($$b.k, b.id, ''::text$$), ($$b.k, b.id, NULL::text$$), ($$1, 2$$)) AS v (what);
SELECT forge($$b.k, b.id, 'normalized keys=1 identity=1'::text$$) AS no_order,
       forge($$b.k, b.id, 'normalized keys=1 identity=1'::text$$, 'GROUP BY 1, 2 ORDER BY 1') AS grouped,
       forge($$b.k, b.id, 'normalized keys=1 identity=1'::text$$, 'WHERE random() > 0 ORDER BY 1') AS volatile,
       forge($$b.k, b.id, 'normalized keys=1 identity=1'::text$$, 'ORDER BY 1 LIMIT 1') AS limited;
INSERT INTO own VALUES (1, 'a', 1);
RESET ROLE;
SELECT index_table, base FROM index_table.index_tables ORDER BY index_table::text COLLATE "C";
SELECT * FROM differences();
DROP SCHEMA definitions, one, two, third, "Hidden" CASCADE;
DROP OWNED BY regress_definitions_owner, regress_definitions_user, regress_definitions_other;
DROP ROLE regress_definitions_owner, regress_definitions_user, regress_definitions_other;
