-- index_table.ddl(): the statement that makes an index table. Run on a copy it makes the same.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA ddl_text;
SET search_path = ddl_text;
LOAD 'index_table';

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE FUNCTION initials(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left($1, 1) $$;
CREATE TABLE people (id int, region int, email text, town text, tags text[], code varchar(10) COLLATE "C", PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE people_1 PARTITION OF people FOR VALUES IN (1);
CREATE TABLE people_2 PARTITION OF people FOR VALUES IN (2);
INSERT INTO people SELECT i, 1 + i % 2, 'p' || i, 'Town ' || i % 7, ARRAY['a', 'b' || i], 'c' || i FROM generate_series(1, 50) AS i;
CREATE TABLE "Weird "" Table" (id int PRIMARY KEY, "the ""Key""" text, "select" int, "a, b" text, "back\slash's" text);
INSERT INTO "Weird "" Table" SELECT i, 'k' || i, i, 'x', 'y' FROM generate_series(1, 20) AS i;

SELECT index_table.create('people', 'email');
SELECT index_table.create('people', 'town DESC NULLS LAST, code text_pattern_ops', name => 'orders', predicate => $$ town <> 'it''s \ here' AND id > 3 $$);
SELECT index_table.create('people', 'initials(email) COLLATE "C", (id + region)', name => 'expressions', strategy => 'denormalized');
SELECT index_table.create('people', 'tags', name => 'tags', strategy => 'partial', include => 'town, email');
SELECT index_table.create('people', 'upper(unnest(tags))', name => 'upper_tags');
SELECT index_table.create('people', 'email', name => 'unique_email', is_unique => true, identity => 'id, region');
SELECT index_table.create('people', 'code', name => 'deferrable', is_unique => true, is_deferrable => true, nulls_distinct => false);
SELECT index_table.create('people', 'code, town', name => 'deferred_check', is_unique => true, initially_deferred => true);
SELECT index_table.create('people', 'town', name => 'queued', maintenance => 'deferred', tablespace => 'pg_default', is_visible => false);
SELECT index_table.create('people', 'town', name => 'partitioned', partitions => 3, is_visible => false);
SELECT index_table.create('people', 'town', name => 'only_identity', strategy => 'partial', include => 'id');
SELECT index_table.create('"Weird "" Table"', '"the ""Key""" DESC, "select"', name => '"An ""index"" table; DROP"', strategy => 'partial',
                          include => '"a, b", "back\slash''s"', predicate => '"back\slash''s" <> ''a\b''', identity => 'id');
CREATE TABLE recipes AS
    SELECT index_table::text AS name, base::text AS base, index_table.ddl(index_table) AS ddl, to_jsonb(d) - 'log' AS made, to_jsonb(d) - 'log' AS remade
      FROM index_table.index_tables AS i, LATERAL index_table.describe(index_table) AS d
     WHERE base IN ('people'::regclass, '"Weird "" Table"'::regclass);
SELECT ddl FROM recipes ORDER BY name COLLATE "C";

-- Names are qualified: it does not matter from where it is run, nor what is called the same.
CREATE FUNCTION remake() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r recipes;
BEGIN
    FOR r IN TABLE recipes LOOP
        PERFORM index_table.drop(r.name::regclass);
    END LOOP;
    FOR r IN SELECT * FROM recipes ORDER BY name COLLATE "C" LOOP
        PERFORM set_config('search_path', 'pg_catalog', true);
        EXECUTE r.ddl;
        PERFORM set_config('search_path', 'ddl_text', true);
        UPDATE recipes SET remade = (SELECT to_jsonb(d) - 'log' FROM index_table.describe(r.name::regclass) AS d) WHERE name = r.name;
    END LOOP;
END $$;
BEGIN;
SELECT remake();
COMMIT;
SELECT count(*), count(*) FILTER (WHERE made = remade) AS same, count(*) FILTER (WHERE ddl = index_table.ddl(name::regclass)) AS same_text FROM recipes;
SELECT name, made, remade FROM recipes WHERE made IS DISTINCT FROM remade;

INSERT INTO recomputation VALUES ('people_by_email', 'email, partition_id, region, id', 'people b'), ('only_identity', 'town, partition_id, region, id', 'people b');

-- One whose included columns were all dropped holds what a normalized one does.
ALTER TABLE people ADD COLUMN extra int;
SELECT index_table.create('people', 'region, id', name => 'bare', strategy => 'partial', include => 'extra');
ALTER TABLE people DROP COLUMN extra;
SELECT index_table.ddl('bare');

-- Global indexes: what PostgreSQL says of them, names qualified.
CREATE INDEX "People's" ON people USING global (initials(email), town DESC) WITH (fillfactor = 70) WHERE id > 3;
SELECT index_table.set_visible('"People''s"', false);
SELECT index_table.ddl('"People''s"');
SELECT index_table.ddl('"People''s"') AS ddl, definition FROM index_table.global_indexes WHERE base = 'people'::regclass \gset before_
DROP INDEX "People's";
:before_ddl;
SELECT definition = :'before_definition' AS same, is_visible FROM index_table.global_indexes WHERE base = 'people'::regclass;

-- What is none.
SELECT index_table.ddl('people');
SELECT index_table.ddl('people_pkey');
SELECT index_table.ddl(0);
SELECT index_table.ddl(NULL);

-- Everybody may ask, as describe() may be asked.
CREATE ROLE ddl_text_stranger;
GRANT USAGE ON SCHEMA ddl_text TO ddl_text_stranger;
SET ROLE ddl_text_stranger;
SELECT index_table.ddl('people_by_email');
RESET ROLE;
REVOKE USAGE ON SCHEMA ddl_text FROM ddl_text_stranger;
DROP ROLE ddl_text_stranger;

-- Columns get the names that they have, and an array is not taken apart by who has made a function
-- of that name.
CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$ SELECT 'shadow'::text $$;
SELECT index_table.create('people', '(tags || code::text), email', name => 'arrays');
SELECT index_table.create('people', 'pg_catalog.unnest(tags)', name => 'unnested');
CREATE FUNCTION columns_of(index_table regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped $$;
CREATE TABLE remade AS SELECT name, columns_of(name::regclass) AS columns, index_table.ddl(name::regclass) AS ddl FROM pg_catalog.unnest('{tags,arrays,upper_tags,unnested}'::name[]) AS n (name);
SELECT name, columns, ddl FROM remade ORDER BY name;
DELETE FROM recomputation WHERE index_table IN ('tags'::regclass, 'upper_tags'::regclass);
SELECT index_table.drop(name::regclass) FROM remade WHERE name IN ('tags', 'arrays');
SELECT ddl FROM remade WHERE name IN ('tags', 'arrays') ORDER BY name \gexec
SELECT name, columns_of(name::regclass) = columns AS same_columns, index_table.ddl(name::regclass) = ddl AS same_statement FROM remade ORDER BY name;
INSERT INTO recomputation VALUES ('arrays', 'w.w, b.email, p.partition_id, b.region, b.id', 'people AS b CROSS JOIN LATERAL (SELECT DISTINCT pg_catalog.unnest(b.tags || b.code::text) AS w) AS w'),
    ('tags', 'w.w, p.partition_id, b.region, b.id, b.town, b.email', 'people AS b CROSS JOIN LATERAL (SELECT DISTINCT pg_catalog.unnest(b.tags) AS w) AS w');
SELECT * FROM differences();
DROP FUNCTION unnest(text[]);

SELECT * FROM differences();
DROP TABLE people, "Weird "" Table";
