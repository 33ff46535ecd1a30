-- Whatever a definition needs may be renamed and moved by whoever owns it, also by one who may see
-- nothing else of it: index tables follow, as native indexes do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_renames_user;
CREATE ROLE regress_renames_tables;
CREATE ROLE regress_renames_functions;
CREATE ROLE regress_renames_operators;
CREATE ROLE regress_renames_collations;
CREATE ROLE regress_renames_types;
CREATE ROLE regress_renames_extensions;
DO $$
BEGIN
    EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_renames_functions, regress_renames_operators, regress_renames_collations,
        regress_renames_types, regress_renames_extensions, regress_renames_tables', current_database());
END $$;
CREATE SCHEMA renames;
CREATE SCHEMA functions AUTHORIZATION regress_renames_functions;
CREATE SCHEMA functions_too AUTHORIZATION regress_renames_functions;
CREATE SCHEMA operators AUTHORIZATION regress_renames_operators;
CREATE SCHEMA operators_too AUTHORIZATION regress_renames_operators;
CREATE SCHEMA collations AUTHORIZATION regress_renames_collations;
CREATE SCHEMA collations_too AUTHORIZATION regress_renames_collations;
CREATE SCHEMA types AUTHORIZATION regress_renames_types;
CREATE SCHEMA types_too AUTHORIZATION regress_renames_types;
CREATE SCHEMA extensions AUTHORIZATION regress_renames_extensions;
CREATE SCHEMA extensions_too AUTHORIZATION regress_renames_extensions;
CREATE SCHEMA tables AUTHORIZATION regress_renames_tables;
CREATE SCHEMA tables_too AUTHORIZATION regress_renames_tables;
SET search_path = renames;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

SET ROLE regress_renames_functions;
CREATE FUNCTION functions.norm(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN lower($1); END';
CREATE FUNCTION functions.wanted(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 > 0; END';
CREATE FUNCTION functions.words(text) RETURNS SETOF text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN QUERY SELECT string_to_table($1, ' '); END$$;
SET ROLE regress_renames_operators;
CREATE FUNCTION operators.cat(text, text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 || $2; END';
CREATE OPERATOR operators.@@ (LEFTARG = text, RIGHTARG = text, FUNCTION = operators.cat);
RESET ROLE;
CREATE OPERATOR FAMILY operators.lengths USING btree;
CREATE OPERATOR CLASS operators.length_ops FOR TYPE text USING btree FAMILY operators.lengths AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~, FUNCTION 1 bttext_pattern_cmp(text, text);
ALTER OPERATOR CLASS operators.length_ops USING btree OWNER TO regress_renames_operators;
ALTER OPERATOR FAMILY operators.lengths USING btree OWNER TO regress_renames_operators;
SET ROLE regress_renames_collations;
CREATE COLLATION collations.plain (provider = libc, locale = 'C');
SET ROLE regress_renames_types;
CREATE TYPE types.mood AS ENUM ('sad', 'glad');
CREATE TYPE types.pair AS (word text, number int);
CREATE DOMAIN types.count AS int CHECK (VALUE >= 0);
CREATE TYPE types.span AS RANGE (SUBTYPE = int);
SET ROLE regress_renames_extensions;
CREATE EXTENSION citext SCHEMA extensions;
RESET ROLE;

-- Its owner needs to see them for as long as CREATE takes.
GRANT USAGE ON SCHEMA functions, operators, collations, types, extensions TO regress_renames_tables;
SET ROLE regress_renames_tables;
CREATE TABLE tables.shown (id int, part int, k text, m types.mood DEFAULT 'glad', p types.pair, n types.count, s types.span,
                           ci extensions.citext, more text, PRIMARY KEY (part, id)) PARTITION BY RANGE (part);
CREATE TABLE tables.shown_1 PARTITION OF tables.shown FOR VALUES FROM (0) TO (10);
CREATE TABLE tables.shown_2 PARTITION OF tables.shown FOR VALUES FROM (10) TO (20) PARTITION BY LIST (part);
CREATE TABLE tables.shown_2_10 PARTITION OF tables.shown_2 DEFAULT;
CREATE INDEX ON tables.shown (functions.norm(k));
INSERT INTO tables.shown SELECT i, i % 20, 'K ' || i, 'sad', ROW('w' || i, i)::types.pair, i, types.span(i, i + 1), 'C' || i, 'm' FROM generate_series(1, 40) AS i;
SELECT index_table.create('tables.shown', 'functions.norm(k)', name => 'by_norm', predicate => 'functions.wanted(part)');
SELECT index_table.create('tables.shown', 'functions.words(k)', name => 'by_word');
SELECT index_table.create('tables.shown', '(k OPERATOR(operators.@@) ''!'') COLLATE collations.plain', name => 'by_cat');
SELECT index_table.create('tables.shown', 'k operators.length_ops', name => 'by_length', is_unique => true);
SELECT index_table.create('tables.shown', 'm', 'denormalized', name => 'by_mood');
SELECT index_table.create('tables.shown', '((p).word)', 'partial', include => 'n, p, m', predicate => 'm = ''glad'' AND (p).number > 0', name => 'by_pair');
SELECT index_table.create('tables.shown', 'n, s', 'partial', include => 'more', name => 'by_count');
SELECT index_table.create('tables.shown', 'ci', name => 'by_ci');
GRANT SELECT, INSERT, UPDATE, DELETE ON tables.shown TO regress_renames_user;
GRANT USAGE ON SCHEMA tables, tables_too TO regress_renames_user;
RESET ROLE;
REVOKE USAGE ON SCHEMA functions, operators, collations, types, extensions FROM regress_renames_tables;
INSERT INTO recomputation VALUES
    ('tables.by_norm', 'lower(k), partition_id, part, id', 'tables.shown b', 'part > 0'),
    ('tables.by_word', 'word, partition_id, part, id', 'tables.shown b CROSS JOIN LATERAL (SELECT DISTINCT string_to_table(k, '' '') AS word) AS w', 'true'),
    ('tables.by_cat', 'k || ''!'', partition_id, part, id', 'tables.shown b', 'true'),
    ('tables.by_length', 'k, partition_id, part, id', 'tables.shown b', 'true'),
    ('tables.by_mood', 'm, partition_id, part, id, k, p, n, s, ci, more', 'tables.shown b', 'true'),
    ('tables.by_pair', '(p).word, partition_id, part, id, n, p, m', 'tables.shown b', $$m::text IN ('glad', 'happy') AND split_part(p::text, ',', 2) > '0'$$),
    ('tables.by_count', 'n, s, partition_id, part, id, more', 'tables.shown b', 'true'),
    ('tables.by_ci', 'ci, partition_id, part, id', 'tables.shown b', 'true');
SELECT * FROM differences();

-- What a role that may do nothing but use the table does to it, in the session that knows the old
-- names and in a new one. -1 where that ends in an error, with what it says.
CREATE FUNCTION use_table() RETURNS TABLE (how text, entries bigint) LANGUAGE plpgsql AS $$
DECLARE
    columns text[] := (SELECT array_agg(quote_ident(attname) ORDER BY attnum) FROM pg_attribute
                        WHERE attrelid = (SELECT base FROM renames.tables_base) AND attnum > 0 AND NOT attisdropped);
    base text := (SELECT base FROM renames.tables_base);
    found bigint;
    t regclass;
BEGIN
    EXECUTE format('INSERT INTO %s (%s, %s, %s, %s, %s, %s, %s, %s) VALUES (1000, 3, ''Used X'', ''(used,7)'', 7, ''[7,8)'', ''Used'', ''more'')',
                   base, columns[1], columns[2], columns[3], columns[5], columns[6], columns[7], columns[8], columns[9]);
    EXECUTE format('UPDATE %s SET %s = ''Used Y'', %s = 12 WHERE %s = 1000', base, columns[3], columns[2], columns[1]);
    EXECUTE format('SELECT count(*) FROM %s WHERE %s = ''Used Y''', base, columns[3]) INTO found;
    RETURN QUERY VALUES ('by query', found);
    FOR t IN SELECT u.index_table FROM renames.recomputation AS u ORDER BY u.index_table LOOP
        EXECUTE format('SELECT count(*) FROM %s WHERE id = 1000', t) INTO found;
        RETURN QUERY VALUES (t::text, found);
    END LOOP;
    EXECUTE format('DELETE FROM %s WHERE %s = 1000', base, columns[1]);
EXCEPTION WHEN OTHERS THEN
    RETURN QUERY VALUES (SQLSTATE || ' ' || SQLERRM, -1::bigint);
END $$;
CREATE TABLE tables_base AS SELECT 'tables.shown'::regclass AS base;
GRANT USAGE ON SCHEMA renames TO PUBLIC;
GRANT SELECT ON tables_base, recomputation TO PUBLIC;
SELECT format('GRANT SELECT ON %s TO regress_renames_user', index_table) FROM recomputation \gexec
\set use 'SET ROLE regress_renames_user; SET index_table.enable_scan = force; SELECT CASE WHEN min(entries) = 1 AND count(*) = 9 THEN \'used\' ELSE string_agg(how || \': \' || entries, \', \') END AS use FROM renames.use_table(); RESET index_table.enable_scan; RESET ROLE; SELECT * FROM renames.differences();'
:use

-- Each by its owner, who sees no table and no other schema.
SET ROLE regress_renames_functions;
ALTER FUNCTION functions.norm(text) RENAME TO norm2;
ALTER FUNCTION functions.norm2(text) SET SCHEMA functions_too;
ALTER FUNCTION functions.wanted(int) RENAME TO "Wanted";
ALTER FUNCTION functions.words(text) RENAME TO words2;
:use
SET ROLE regress_renames_functions;
ALTER SCHEMA functions RENAME TO "Functions";
:use
SET ROLE regress_renames_operators;
ALTER FUNCTION operators.cat(text, text) RENAME TO dog;
ALTER OPERATOR operators.@@ (text, text) SET SCHEMA operators_too;
ALTER OPERATOR CLASS operators.length_ops USING btree RENAME TO "Length ops";
ALTER OPERATOR FAMILY operators.lengths USING btree RENAME TO longs;
:use
SET ROLE regress_renames_operators;
ALTER OPERATOR CLASS operators."Length ops" USING btree SET SCHEMA operators_too;
ALTER OPERATOR FAMILY operators.longs USING btree SET SCHEMA operators_too;
ALTER SCHEMA operators_too RENAME TO operators2;
:use
SET ROLE regress_renames_collations;
ALTER COLLATION collations.plain RENAME TO "Plain";
:use
SET ROLE regress_renames_collations;
ALTER COLLATION collations."Plain" SET SCHEMA collations_too;
ALTER SCHEMA collations_too RENAME TO collations2;
:use
SET ROLE regress_renames_types;
ALTER TYPE types.mood RENAME VALUE 'glad' TO 'happy';
ALTER TYPE types.mood RENAME TO humour;
ALTER TYPE types.humour SET SCHEMA types_too;
:use
UPDATE recomputation SET entry = replace(entry, '(p).word', '(p)."Word"');
SET ROLE regress_renames_types;
ALTER TYPE types.pair RENAME ATTRIBUTE word TO "Word";
ALTER TYPE types.pair RENAME TO "Pair";
ALTER TYPE types."Pair" SET SCHEMA types_too;
:use
SET ROLE regress_renames_types;
ALTER DOMAIN types.count RENAME TO counted;
ALTER DOMAIN types.counted SET SCHEMA types_too;
ALTER TYPE types.span RENAME TO spans;
ALTER SCHEMA types_too RENAME TO "Types";
ALTER TYPE "Types".humour ADD VALUE 'fine' BEFORE 'happy';
:use
-- (What the extension consists of belongs to who made it a trusted one: a superuser.)
ALTER EXTENSION citext SET SCHEMA extensions_too;
SET ROLE regress_renames_extensions;
ALTER SCHEMA extensions_too RENAME TO extensions2;
:use
-- The owner of the table, who does not see what its definitions use.
SET ROLE regress_renames_tables;
ALTER TABLE tables.shown RENAME COLUMN k TO "K k";
ALTER TABLE tables.shown RENAME COLUMN m TO partition_id;
ALTER TABLE tables.shown RENAME COLUMN id TO "Id";
ALTER TABLE tables.shown RENAME COLUMN more TO less;
ALTER TABLE tables.shown RENAME COLUMN n TO m;
ALTER TABLE tables.shown_2_10 RENAME TO rest;
ALTER TABLE tables.rest SET SCHEMA tables_too;
ALTER TABLE tables.shown RENAME CONSTRAINT shown_pkey TO "Shown key";
ALTER TABLE tables.by_mood RENAME TO "By mood";
ALTER TABLE tables."By mood" SET SCHEMA tables_too;
RESET ROLE;
UPDATE recomputation SET entry = regexp_replace(entry, '\mid\M', '"Id"');
UPDATE recomputation SET entry = regexp_replace(regexp_replace(regexp_replace(regexp_replace(entry, '\mk\M', '"K k"'),
           '\mpartition_id\M', 'p.partition_id'), '\mm\M', 'b.partition_id'), '\mn\M', 'b.m'),
       condition = replace(condition, 'm::text', 'b.partition_id::text');
UPDATE recomputation SET entry = replace(entry, 'more', 'less'), rows = regexp_replace(rows, '\(k\M', '("K k"');
UPDATE recomputation SET rows = 'tables.shown b CROSS JOIN LATERAL (SELECT DISTINCT string_to_table("K k", '' '') AS word) AS w' WHERE index_table = 'tables.by_word'::regclass;
:use
SET ROLE regress_renames_tables;
ALTER TABLE tables.shown RENAME TO "Displayed";
ALTER TABLE tables."Displayed" SET SCHEMA tables_too;
ALTER SCHEMA tables RENAME TO tables2;
RESET ROLE;
UPDATE recomputation SET rows = replace(rows, 'tables.shown', 'tables_too."Displayed"');
:use
-- Roles have names, too, and what they own may become another's.
ALTER ROLE regress_renames_tables RENAME TO regress_renames_tables2;
ALTER ROLE regress_renames_functions RENAME TO regress_renames_functions2;
REASSIGN OWNED BY regress_renames_operators TO regress_renames_functions2;
REASSIGN OWNED BY regress_renames_tables2 TO regress_renames_types;
SELECT i.index_table FROM index_table.index_tables AS i JOIN pg_class AS c ON c.oid = i.index_table
 WHERE pg_get_userbyid(c.relowner) <> 'regress_renames_types';
:use
-- What a session finds that has seen none of the old names, with the table's owner and with any role.
\c -
SET client_min_messages = warning;
SET search_path = renames;
:use
SELECT index_table, key, include, predicate FROM index_table.index_tables ORDER BY index_table;
SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = 'tables2.by_length'::regclass;
SELECT index_table, problem FROM renames.recomputation, LATERAL index_table.verify(index_table) AS problem;
-- What is done for the owner, who does not see what his definitions use.
SET ROLE regress_renames_types;
SELECT index_table, problem FROM index_table.index_tables, LATERAL index_table.verify(index_table) AS problem;
SELECT index_table, index_table.repair(index_table) FROM index_table.index_tables ORDER BY index_table;
CALL index_table.rebuild('tables2.by_norm');
CALL index_table.rebuild('tables2.by_word');
CALL index_table.rebuild('tables2.by_cat');
CALL index_table.rebuild('tables2.by_pair');
CALL index_table.rebuild('tables2.by_ci');
RESET ROLE;
\setenv PGDATABASE :DBNAME
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM tables_too."Displayed";
\! psql -Xqc "CALL index_table.rebuild('tables2.by_norm')" -c "CALL index_table.rebuild('tables2.by_cat')" -c "CALL index_table.rebuild('tables2.by_ci')"
SET ROLE regress_renames_user;
SELECT count(*) FROM index_table.lookup('tables2.by_norm', 'k 7');
SELECT count(*) FROM index_table.lookup('tables2.by_cat', 'K 7!');
SELECT count(*) FROM index_table.lookup('tables2.by_length', 'K 7');
SELECT count(*) FROM index_table.lookup('tables2.by_ci', 'c7');
COMMIT;
RESET ROLE;
-- What is made now is bound to the new names, and to those alone.
GRANT USAGE ON SCHEMA functions_too, operators2 TO regress_renames_types;
SET search_path = functions_too, operators2;
SELECT index_table.create('tables_too."Displayed"', 'norm2("K k")', name => 'by_norm2');
SELECT index_table.create('tables_too."Displayed"', '"K k" "Length ops" DESC, "K k"', name => 'by_length2');
SET search_path = renames;
INSERT INTO recomputation VALUES
    ('tables_too.by_norm2', 'lower("K k"), p.partition_id, part, "Id"', 'tables_too."Displayed" b', 'true'),
    ('tables_too.by_length2', '"K k", "K k", p.partition_id, part, "Id"', 'tables_too."Displayed" b', 'true');
INSERT INTO tables_too."Displayed" ("Id", part, "K k") VALUES (2000, 1, 'Z'), (2001, 11, 'Y');
SELECT key FROM index_table.index_tables WHERE index_table = 'tables_too.by_length2'::regclass;
SELECT * FROM differences();

DROP SCHEMA renames, tables2, tables_too, "Functions", functions_too, operators, operators2, collations, collations2, types, "Types",
    extensions, extensions2 CASCADE;
DROP OWNED BY regress_renames_user, regress_renames_tables2, regress_renames_functions2, regress_renames_operators,
    regress_renames_collations, regress_renames_types, regress_renames_extensions;
DROP ROLE regress_renames_user, regress_renames_tables2, regress_renames_functions2, regress_renames_operators,
    regress_renames_collations, regress_renames_types, regress_renames_extensions;
