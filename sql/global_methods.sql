-- CREATE INDEX … USING global WITH (method = …): GIN, GiST, SP-GiST, hash, and what extensions bring. Classes, options, what is
-- refused, and that trees are kept in step; queries by them are compared with the partitions'.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA global_methods;
SET search_path = global_methods;
CREATE SCHEMA global_methods_extensions;
CREATE EXTENSION pg_trgm SCHEMA global_methods_extensions;
CREATE EXTENSION btree_gin SCHEMA global_methods_extensions;
CREATE EXTENSION btree_gist SCHEMA global_methods_extensions;
CREATE EXTENSION intarray SCHEMA global_methods_extensions;
CREATE EXTENSION hstore SCHEMA global_methods_extensions;
CREATE EXTENSION bloom SCHEMA global_methods_extensions;
CREATE EXTENSION pageinspect SCHEMA global_methods_extensions;
CREATE VIEW classes AS
    SELECT m.amname AS method, c.oid, c.opcname AS name, c.opcnamespace::regnamespace AS schema, c.opcintype::regtype AS type, c.opcdefault AS is_default, c.opcfamily AS family
      FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod;
CREATE FUNCTION tree_of(index regclass) RETURNS regclass LANGUAGE sql AS $$
    SELECT format('pg_toast.index_table_global_%s_tree', index::oid)::regclass $$;
CREATE FUNCTION tree_classes(index regclass) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(c.method || ' ' || c.schema || '.' || c.name, ', ' ORDER BY n)
      FROM pg_index i, generate_series(1, i.indnkeyatts) AS n, classes c WHERE i.indexrelid = tree_of(index) AND c.oid = i.indclass[n - 1] $$;

-- Every class of PostgreSQL's own for these methods has a mirror, by the name that says the method: never a default, never dumped, and the class's own function tells which it is.
SELECT method, CASE WHEN starts_with(name, method || '_') THEN name ELSE method || '_' || name END AS mirror, type FROM classes
 WHERE method IN ('gin', 'gist', 'spgist', 'hash') AND schema = 'pg_catalog'::regnamespace
EXCEPT SELECT split_part(name, '_', 1), name, type FROM classes WHERE method = 'global';
SELECT split_part(m.name, '_', 1) AS method, min(p.amprocnum) FILTER (WHERE p.amprocnum <> 7) AS function, count(*) > 2 AS several, bool_or(m.is_default) AS is_default, bool_and(d.deptype IS NOT NULL) AS is_member
  FROM classes m JOIN pg_amproc p ON p.amprocfamily = m.family LEFT JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass AND d.objid = m.oid AND d.deptype = 'e'
 WHERE m.method = 'global' AND m.name ~ '^(gin|gist|spgist|hash)_' GROUP BY 1 ORDER BY 1;

-- Of each method and type: the class that an index of each partition would have, by default and by name; what pg_get_indexdef says is accepted, and makes the same.
CREATE FUNCTION same_classes(method text, column_type text, class text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE definition text; wanted oidvector; problems text[] := '{}';
BEGIN
    EXECUTE format('CREATE TABLE typed (id int, k %s) PARTITION BY HASH (id)', column_type);
    CREATE TABLE typed_0 PARTITION OF typed FOR VALUES WITH (MODULUS 1, REMAINDER 0);
    EXECUTE format('CREATE INDEX native ON typed_0 USING %s (k %s)', method, class);
    EXECUTE format('CREATE INDEX global ON typed USING global (k %s) WITH (method = %s)', class, method);
    wanted := (SELECT indclass FROM pg_index WHERE indexrelid = 'native'::regclass);
    IF (SELECT indclass FROM pg_index WHERE indexrelid = tree_of('global')) <> wanted THEN problems := problems || tree_classes('global'); END IF;
    IF (SELECT array_agg((atttypid, attcollation) ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'native'::regclass)
        IS DISTINCT FROM (SELECT array_agg((atttypid, attcollation) ORDER BY attnum) FROM pg_attribute WHERE attrelid = tree_of('global')) THEN problems := problems || 'columns'::text; END IF;
    definition := pg_get_indexdef('global'::regclass);
    DROP INDEX global;
    EXECUTE replace(definition, ' ONLY ', ' ');
    IF pg_get_indexdef('global'::regclass) <> definition THEN problems := problems || definition; END IF;
    IF (SELECT indclass FROM pg_index WHERE indexrelid = tree_of('global')) <> wanted THEN problems := problems || tree_classes('global'); END IF;
    DROP TABLE typed;
    RETURN array_to_string(problems, ', ');
END $$;
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE VIEW candidates AS
    SELECT method, name, is_default, schema, CASE type::oid WHEN 'anyarray'::regtype THEN 'int[]' WHEN 'anyrange'::regtype THEN 'int4range' WHEN 'anymultirange'::regtype THEN 'int4multirange'
                                 WHEN 'anyenum'::regtype THEN 'mood' WHEN 'record'::regtype THEN NULL ELSE type::text END AS column_type
      FROM classes WHERE method IN ('gin', 'gist', 'spgist', 'hash', 'bloom');
SELECT method, count(*) > 1 AS several, string_agg(problem, '; ') FILTER (WHERE problem <> '') AS problems
  FROM candidates, same_classes(method, column_type, schema || '.' || name) AS problem WHERE column_type IS NOT NULL GROUP BY 1 ORDER BY 1;
SELECT method, count(*) > 0 AS several, string_agg(problem, '; ') FILTER (WHERE problem <> '') AS problems
  FROM candidates, same_classes(method, column_type, '') AS problem WHERE is_default AND column_type IS NOT NULL GROUP BY 1 ORDER BY 1;
-- Those of extensions are beside their classes, and go with them.
SELECT count(*) FILTER (WHERE m.name = 'gin_gin_trgm_ops') AS twice, bool_and(m.schema = 'global_methods_extensions'::regnamespace) AS beside, bool_or(m.is_default) AS is_default FROM classes m
 WHERE m.method = 'global' AND m.schema <> 'pg_catalog'::regnamespace;
SELECT name FROM classes WHERE method = 'global' AND name ~ '_trgm_ops|hstore' ORDER BY name;
BEGIN;
DROP EXTENSION pg_trgm;
SELECT name FROM classes WHERE method = 'global' AND name ~ '_trgm_ops|hstore' ORDER BY name;
ROLLBACK;

-- Rows.
CREATE TABLE things (id int, part int, tags int[], place point, word text, span int4range, k int, pairs global_methods_extensions.hstore) PARTITION BY LIST (part);
CREATE TABLE things_1 PARTITION OF things FOR VALUES IN (1);
CREATE TABLE things_2 PARTITION OF things FOR VALUES IN (2) PARTITION BY HASH (id);
CREATE TABLE things_2_0 PARTITION OF things_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE things_2_1 (k int, gone int, word text, place point, id int, tags int[], part int, span int4range, pairs global_methods_extensions.hstore);
ALTER TABLE things_2_1 DROP COLUMN gone;
ALTER TABLE things_2 ATTACH PARTITION things_2_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE things_3 PARTITION OF things FOR VALUES IN (3);
CREATE FUNCTION fill(first int, last int, step int DEFAULT 1) RETURNS void LANGUAGE sql AS $$
    INSERT INTO things SELECT i, i % 3 + 1, CASE WHEN i % 19 > 0 THEN ARRAY[i % 10, i % 97, NULLIF(i % 5, 0)] END, CASE WHEN i % 23 > 0 THEN point(i % 83, i / 83) END,
           CASE WHEN i % 17 > 0 THEN 'word ' || md5(i::text) END, int4range(i, i + i % 7), NULLIF(i % 501, 0), global_methods_extensions.hstore('k' || i % 9, i::text)
      FROM generate_series(first, last, step) AS i $$;
SELECT fill(1, 3000);
CREATE INDEX by_tags ON things USING global (tags) WITH (method = gin);
CREATE INDEX by_two ON things USING global (tags, word global_methods_extensions.gin_trgm_ops) WITH (method = gin, fastupdate = off);
CREATE INDEX by_place ON things USING global (place) INCLUDE (id) WITH (method = 'gist', fillfactor = 80, buffering = on);
CREATE INDEX by_words ON things USING global (word global_methods_extensions.gist_trgm_ops (siglen = 40), lower(word) global_methods_extensions.gist_trgm_ops) WITH (method = gist, vacuum = eager);
CREATE INDEX by_quad ON things USING global (place) WITH (method = spgist);
CREATE INDEX by_kd ON things USING global (place kd_point_ops) WITH (method = spgist);
CREATE INDEX by_prefix ON things USING global (word COLLATE "C") WITH (method = spgist);
CREATE INDEX by_span ON things USING global (span) WITH (method = gist) WHERE k > 10;
CREATE INDEX by_k ON things USING global (k) WITH (method = hash, fillfactor = 60);
CREATE INDEX by_hash ON things USING global ((k + 1)) WITH (method = hash, vacuum = eager);
CREATE INDEX by_pairs ON things USING global (pairs) WITH (method = gist);
CREATE INDEX by_bloom ON things USING global (k, id) WITH (method = bloom, col1 = 3);
SELECT pg_get_indexdef(indexrelid), tree_classes(indexrelid), (SELECT reloptions FROM pg_class WHERE oid = tree_of(indexrelid)) FROM pg_index WHERE indrelid = 'things'::regclass ORDER BY indexrelid::regclass::text COLLATE "C";
SELECT a.attnum, a.attoptions FROM pg_attribute a WHERE attrelid = tree_of('by_words') ORDER BY 1;
-- PostgreSQL's own words.
CREATE INDEX ON things USING global (pairs global_methods_extensions.gin_hstore_ops, k NULLS FIRST) WITH (method = gin);
\echo :SQLSTATE

-- The oracle. Trees that count for themselves have no fewer entries than there are rows; queries yield the same by whatever index they
-- are carried out.
CREATE TABLE queries (query text);
INSERT INTO queries VALUES ('tags @> ARRAY[3, 50]'), ('tags && ARRAY[7, 96]'), ('tags @> ARRAY[3] AND word LIKE ''%ab%c%'''), ('word LIKE ''%abc%'''), ('place <@ box ''((3,3),(9,9))'''), ('place ~= point(5, 7)'),
    ('word COLLATE "C" ^@ ''word a1'''), ('word COLLATE "C" = ''word ' || md5('77') || ''''), ('span && int4range(70, 99) AND k > 10'), ('span @> 500 AND k > 20'), ('k = 77'), ('k + 1 = 78'), ('k IN (3, 5, 500)'),
    ('pairs OPERATOR(global_methods_extensions.?) ''k4'' AND k < 90'), ('k = 9 AND id < 1000'), ('lower(word) LIKE ''%ff00%'''), ('tags @> ''{}'' AND k = 3'), ('place IS NULL AND k < 100');
CREATE FUNCTION problems(swept boolean DEFAULT true) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE q text; r record; on_ bigint; off_ bigint; rows bigint;
BEGIN
    FOR q IN SELECT query FROM queries LOOP
        EXECUTE format('SET LOCAL index_table.enable_scan = force');
        EXECUTE format('CREATE TEMP TABLE through ON COMMIT DROP AS SELECT * FROM things WHERE %s', q);
        EXECUTE format('SET LOCAL index_table.enable_scan = off');
        EXECUTE format('CREATE TEMP TABLE native ON COMMIT DROP AS SELECT * FROM things WHERE %s', q);
        SELECT count(*) INTO on_ FROM ((SELECT t::text FROM through t EXCEPT ALL SELECT n::text FROM native n) UNION ALL (SELECT n::text FROM native n EXCEPT ALL SELECT t::text FROM through t)) AS d;
        IF on_ > 0 THEN RETURN NEXT format('%s: %s rows differ', q, on_); END IF;
        DROP TABLE through, native;
    END LOOP;
    SET LOCAL index_table.enable_scan = off;
    IF swept THEN
        FOR r IN SELECT index, tree, pg_get_expr(i.indpred, i.indrelid) AS predicate FROM index_table.global_indexes g JOIN pg_index i ON i.indexrelid = g.index JOIN pg_class c ON c.oid = g.tree
                  WHERE base = 'things'::regclass AND c.relam IN (SELECT oid FROM pg_am WHERE amname IN ('gist', 'spgist', 'hash')) LOOP
            EXECUTE format('SELECT count(*) FROM things WHERE (%s) AND %s', coalesce(r.predicate, 'true'), CASE WHEN r.index::text IN ('by_k', 'by_hash') THEN 'k IS NOT NULL' ELSE 'true' END) INTO rows;
            IF rows > (SELECT reltuples FROM pg_class WHERE oid = r.tree) THEN
                RETURN NEXT format('%s: %s entries of %s rows', r.index, (SELECT reltuples FROM pg_class WHERE oid = r.tree), rows);
            END IF;
        END LOOP;
    END IF;
END $$;
SELECT * FROM problems();
-- The same by each index alone, where several are for the same queries.
CREATE FUNCTION alone(VARIADIC indexes regclass[]) RETURNS TABLE (index regclass, reads text, problem text) LANGUAGE plpgsql AS $$
DECLARE other regclass; plan text; q text;
BEGIN
    FOREACH index IN ARRAY indexes LOOP
        BEGIN
            FOR other IN SELECT g.index FROM index_table.global_indexes g WHERE g.base = 'things'::regclass AND g.index <> alone.index LOOP
                EXECUTE format('DROP INDEX %s', other);
            END LOOP;
            SET LOCAL index_table.enable_scan = force;
            reads := '';
            FOR q IN SELECT query FROM queries LOOP
                FOR plan IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT * FROM things WHERE ' || q LOOP
                    IF plan ~ 'Global Index' THEN reads := reads || substr(q, 1, 8) || ' '; END IF;
                END LOOP;
            END LOOP;
            problem := (SELECT string_agg(p, '; ') FROM problems(false) AS p);
            RAISE EXCEPTION USING ERRCODE = 'ZZ000';
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN
        END;
        RETURN NEXT;
    END LOOP;
END $$;
CREATE FUNCTION sweep() RETURNS boolean LANGUAGE sql AS $$
    SELECT count(index_table.vacuum(index)) > 0 FROM index_table.global_indexes WHERE base = 'things'::regclass $$;

-- Changes.
SELECT fill(3001, 4000);
UPDATE things SET tags = tags || 7, place = place + point(1, 1), word = word || 'abc', k = k + 1, span = int4range(id, id + 3) WHERE id % 4 = 0;
UPDATE things SET part = part % 3 + 1 WHERE id % 9 = 0;
DELETE FROM things WHERE id % 5 = 0;
SELECT * FROM problems(false);
VACUUM (INDEX_CLEANUP on) things;
SELECT * FROM problems(false);
-- Line pointers have rows of other keys now.
SELECT fill(4001, 4800);
SELECT * FROM problems(false);
DELETE FROM things WHERE id % 7 = 0;
VACUUM (INDEX_CLEANUP on) things;
SELECT fill(4801, 5300);
SELECT sweep();
SELECT * FROM problems();
-- More passes than generations: VACUUM sweeps by itself.
DO $$ BEGIN FOR i IN 1..3 LOOP DELETE FROM things WHERE id % 11 = i; PERFORM fill(i * 10000, i * 10000 + 300); END LOOP; END $$;
DELETE FROM things WHERE id % 10 = 1 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(1, 300, 10);
DELETE FROM things WHERE id % 10 = 2 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(2, 300, 10);
DELETE FROM things WHERE id % 10 = 3 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(3, 300, 10);
DELETE FROM things WHERE id % 10 = 4 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(4, 300, 10);
DELETE FROM things WHERE id % 10 = 5 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(5, 300, 10);
DELETE FROM things WHERE id % 10 = 6 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(6, 300, 10);
DELETE FROM things WHERE id % 10 = 7 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(7, 300, 10);
DELETE FROM things WHERE id % 10 = 8 AND part = 1;
VACUUM (INDEX_CLEANUP on) things_1;
SELECT fill(8, 300, 10);
SELECT * FROM problems(false);
VACUUM (INDEX_CLEANUP on) things;
SELECT sweep();
SELECT * FROM problems();

-- Subtransactions, TRUNCATE and its ROLLBACK.
BEGIN;
SELECT fill(20000, 20100);
SAVEPOINT s;
TRUNCATE things_1;
SELECT fill(20101, 20200);
SELECT * FROM problems(false);
ROLLBACK TO s;
SELECT * FROM problems(false);
DELETE FROM things WHERE id % 13 = 0;
COMMIT;
TRUNCATE things_2;
SELECT * FROM problems(false);
SELECT fill(21000, 21900);
VACUUM (INDEX_CLEANUP on) things;
SELECT sweep();
SELECT * FROM problems();

-- Partitions that come, leave, and get another file.
ALTER TABLE things DETACH PARTITION things_3;
SELECT * FROM problems(false);
INSERT INTO things_3 SELECT * FROM things_1 LIMIT 0;
DELETE FROM things_3 WHERE id % 3 = 1;
ALTER TABLE things ATTACH PARTITION things_3 FOR VALUES IN (3);
SELECT * FROM problems(false);
CREATE TABLE things_4 (LIKE things INCLUDING INDEXES);
INSERT INTO things_4 SELECT id, 4, tags, place, word, span, k, pairs FROM things WHERE id % 3 = 0;
ALTER TABLE things ATTACH PARTITION things_4 FOR VALUES IN (4);
CREATE TABLE things_5 PARTITION OF things FOR VALUES IN (5);
INSERT INTO things SELECT id, 5, tags, place, word, span, k, pairs FROM things WHERE id % 3 = 1;
SELECT * FROM problems(false);
VACUUM FULL things_1;
REINDEX TABLE things_3;
SELECT * FROM problems(false);
SELECT * FROM alone('by_two', 'by_quad', 'by_kd', 'by_bloom', 'by_words', 'by_tags');
VACUUM (INDEX_CLEANUP on) things;
SELECT sweep();
SELECT * FROM problems();
DELETE FROM things WHERE id % 4 = 1;
VACUUM (INDEX_CLEANUP on) things;
SELECT fill(21000, 21900, 3);
DO $$ DECLARE i regclass; BEGIN FOR i IN SELECT index FROM index_table.global_indexes WHERE base = 'things'::regclass LOOP EXECUTE format('REINDEX INDEX %s', i); END LOOP; END $$;
SELECT * FROM problems();
SELECT * FROM alone('by_two', 'by_bloom');
DROP TABLE things_5;
ALTER TABLE things_4 SET UNLOGGED;
ALTER TABLE things ALTER COLUMN word TYPE varchar;
ALTER TABLE things ADD COLUMN more int DEFAULT 3;
SELECT * FROM problems(false);
-- A type that the class does not take; one that it does.
ALTER TABLE things ALTER COLUMN k TYPE bigint;
BEGIN;
ALTER TABLE things ALTER COLUMN tags TYPE bigint[];
SELECT tree_classes('by_tags');
SELECT (SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = tree_of('by_tags'));
SELECT fill(29000, 29100);
ROLLBACK;
SELECT * FROM problems(false);

-- GIN puts entries off, until a sweep.
CREATE INDEX pending ON things USING global (tags) WITH (method = gin, fastupdate = on, gin_pending_list_limit = 64);
CREATE FUNCTION pending() RETURNS bigint LANGUAGE sql AS $$
    SELECT n_pending_tuples FROM global_methods_extensions.gin_metapage_info(global_methods_extensions.get_raw_page(tree_of('pending')::text, 0)) $$;
SELECT fill(30000, 30100);
SELECT pending() > 0 AS put_off;
SELECT count(index_table.vacuum('pending'));
SELECT pending();
SELECT fill(30101, 30200);
SELECT pending() > 0 AS put_off;
SELECT gin_clean_pending_list(tree_of('pending')) > 0 AS cleaned;
SELECT pending();
SELECT gin_clean_pending_list('pending');
\echo :SQLSTATE
SELECT * FROM problems(false);
-- The limit.
SELECT fill(31000, 33000);
SELECT pending() < 2000 AS limited;
DROP INDEX pending;

-- One statement after another knows of a tree that has been made anew since.
BEGIN;
SELECT fill(34000, 34010);
REINDEX INDEX by_tags;
SELECT fill(34011, 34020);
REINDEX INDEX by_place;
REINDEX INDEX by_words;
SELECT fill(34021, 34030);
COMMIT;
CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.id % 10 = 0 THEN
        -- The session hears of a change of the trees while a statement inserts.
        PERFORM gin_clean_pending_list(tree_of('by_tags'));
        ANALYZE things_1;
        UPDATE pg_class SET reltuples = reltuples WHERE oid IN (tree_of('by_tags'), tree_of('by_place'), tree_of('by_words'), tree_of('by_quad'), tree_of('by_k'));
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER meanwhile BEFORE INSERT ON things_1 FOR EACH ROW EXECUTE FUNCTION meanwhile();
INSERT INTO things SELECT id + 100000, 1, tags, place, word, span, k, pairs FROM things WHERE id < 900;
DROP TRIGGER meanwhile ON things_1;
SELECT * FROM problems(false);
SELECT sweep();

-- What is refused.
CREATE INDEX ON things USING global (k) WITH (method = brin);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = global);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = nothing);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = heap);
\echo :SQLSTATE
CREATE INDEX ON things USING global (tags) WITH (method = gin, unique);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = hash, unique = on);
\echo :SQLSTATE
CREATE INDEX ON things USING global (tags) INCLUDE (k) WITH (method = gin);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k, id) WITH (method = hash);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place, place) WITH (method = spgist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place DESC) WITH (method = gist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place ASC) WITH (method = gist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place NULLS FIRST) WITH (method = spgist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place) WITH (method = gist, fastupdate = off);
\echo :SQLSTATE
CREATE INDEX ON things USING global (tags) WITH (method = gin, fillfactor = 70);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = hash, deduplicate_items = on);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (method = hash, method = gist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k) WITH (fastupdate = on);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place) WITH (method = hash);
\echo :SQLSTATE
CREATE INDEX ON things USING global (place box_ops) WITH (method = gist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k int4_ops) WITH (method = spgist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (tags gin_array_ops) WITH (method = gist);
\echo :SQLSTATE
CREATE INDEX ON things USING global (tags gin_array_ops);
\echo :SQLSTATE
CREATE INDEX ON things USING global (k hash_int4_ops);
\echo :SQLSTATE
CREATE INDEX ON things USING global (word global_methods_extensions.gin_trgm_ops (siglen = 3)) WITH (method = gin);
\echo :SQLSTATE
CREATE INDEX ON things USING global (word global_methods_extensions.gist_trgm_ops (siglen = 0)) WITH (method = gist);
\echo :SQLSTATE
CREATE UNIQUE INDEX ON things USING global (k) WITH (method = hash);
\echo :SQLSTATE
ALTER INDEX by_tags SET (method = btree);
\echo :SQLSTATE
ALTER INDEX by_tags SET (fastupdate = off);
\echo :SQLSTATE
-- Without the event trigger: as late, and as sure.
CREATE SCHEMA global_methods_passing
    CREATE TABLE t (id int, k int) PARTITION BY HASH (id)
    CREATE INDEX ON t USING global (k) WITH (method = hash);
\echo :SQLSTATE
CREATE SCHEMA global_methods_passing
    CREATE TABLE t (id int, k int) PARTITION BY HASH (id)
    CREATE INDEX ON t USING global (k hash_int4_ops, id hash_int4_ops) WITH (method = hash);
\echo :SQLSTATE
CREATE SCHEMA global_methods_passing
    CREATE TABLE t (id int, k int) PARTITION BY HASH (id)
    CREATE INDEX ON t USING global (k hash_int4_ops) WITH (method = hash, unique);
\echo :SQLSTATE
-- A sweep would wait for this session's own scan.
SET index_table.enable_scan = force;
SELECT id, index_table.vacuum('by_k') FROM things WHERE k = 77 LIMIT 1;
\echo :SQLSTATE
RESET index_table.enable_scan;

-- A class whose mirror somebody has taken away gets another one.
BEGIN;
DROP INDEX by_words, by_two;
DROP OPERATOR CLASS global_methods_extensions.gin_trgm_ops USING global;
CREATE INDEX by_two ON things USING global (word global_methods_extensions.gin_trgm_ops) WITH (method = gin);
SELECT tree_classes('by_two');
-- Renamed, the class keeps its mirror.
ALTER OPERATOR CLASS global_methods_extensions.gin_trgm_ops USING gin RENAME TO trigrams;
CREATE INDEX again ON things USING global (word global_methods_extensions.trigrams) WITH (method = gin);
SELECT tree_classes('again'), pg_get_indexdef('again'::regclass);
ROLLBACK;
SELECT * FROM problems(false);

DROP SCHEMA global_methods, global_methods_extensions CASCADE;
SELECT name FROM (SELECT opcname AS name FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'global') AND opcnamespace <> 'pg_catalog'::regnamespace) AS left_over;
