-- CREATE INDEX … USING global: operator classes, options, and what is refused.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_global_types_owner;
CREATE SCHEMA global_types;
GRANT USAGE, CREATE ON SCHEMA global_types TO regress_global_types_owner;
SET search_path = global_types;
CREATE SCHEMA global_types_extensions;
CREATE EXTENSION citext SCHEMA global_types_extensions;
CREATE EXTENSION amcheck SCHEMA global_types_extensions;

-- Every class for B-trees that PostgreSQL has is mirrored: by name, input type, comparison and default.
CREATE VIEW classes AS
    SELECT m.amname AS method, c.oid, c.opcname AS name, c.opcnamespace::regnamespace AS schema, c.opcintype::regtype AS type, c.opcdefault AS is_default,
           p.amproc AS comparison, c.opcowner::regrole AS owner
      FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod
      LEFT JOIN pg_amproc p ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype AND p.amprocrighttype = c.opcintype AND p.amprocnum = 1
     WHERE m.amname IN ('btree', 'global');
SELECT name, type, is_default, comparison FROM classes WHERE method = 'btree' AND schema = 'pg_catalog'::regnamespace
EXCEPT ALL
SELECT name, type, is_default, comparison FROM classes WHERE method = 'global' AND schema = 'pg_catalog'::regnamespace;
SELECT count(*) > 40 AS mirrors, count(*) FILTER (WHERE comparison IS NULL AND is_default) AS incomplete,
       count(*) FILTER (WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e')) AS dumped
  FROM classes c WHERE method = 'global';
-- They have no operators, by which the planner would take a child for an index of its partition.
SELECT count(*) FROM pg_amop JOIN pg_am m ON m.oid = amopmethod WHERE amname = 'global';

-- The class that a B-tree would have, of each column of a global index; and whether that is named when it need not be.
CREATE FUNCTION compared(index regclass) RETURNS TABLE (key text, type regtype, class text, comparison regproc) LANGUAGE sql AS $$
    SELECT pg_get_indexdef(index, n, true), a.atttypid, c.schema || '.' || c.name, c.comparison
      FROM pg_index i, generate_series(1, i.indnkeyatts) AS n, pg_attribute a, classes c
     WHERE i.indexrelid = index AND a.attrelid = index AND a.attnum = n AND c.oid = i.indclass[n - 1] AND c.method = 'global' ORDER BY n $$;

-- The classes of its tree, which are B-trees' own.
CREATE FUNCTION tree_of(index regclass) RETURNS regclass LANGUAGE sql AS $$
    SELECT format('pg_toast.index_table_global_%s_tree', index::oid)::regclass $$;
CREATE FUNCTION tree_classes(index regclass) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(c.schema || '.' || c.name || CASE i.indoption[n - 1] & 1 WHEN 1 THEN ' DESC' ELSE '' END
                                                || CASE i.indoption[n - 1] & 2 WHEN 2 THEN ' NULLS FIRST' ELSE '' END, ', ' ORDER BY n)
      FROM pg_index i, generate_series(1, i.indnkeyatts) AS n, classes c
     WHERE i.indexrelid = tree_of(index) AND c.oid = i.indclass[n - 1] AND c.method = 'btree' $$;

-- Each type that may be a key by default, in one table. Those of pg_catalog that are types of columns, and some of others.
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE span AS RANGE (SUBTYPE = int);
CREATE DOMAIN email AS global_types_extensions.citext CHECK (VALUE LIKE '%@%');
DO $$
DECLARE
    list text; t regtype; differs text;
BEGIN
    SELECT string_agg(format('c%s %s', t.oid, t.oid::regtype), ', ' ORDER BY t.oid) INTO list
      FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm')
       AND t.typname !~ '^_' AND EXISTS (SELECT FROM classes c WHERE c.type = t.oid AND c.is_default AND c.method = 'btree');
    EXECUTE format('CREATE TABLE every (id int, %s, mood mood, pair pair, span span, spans span_multirange, words text[], moods mood[], v varchar(9), ci cidr,
                    r int4range, mr nummultirange, address email, citext global_types_extensions.citext, citexts global_types_extensions.citext[], emails email[])
                    PARTITION BY HASH (id)', list);
    CREATE TABLE every_0 PARTITION OF every FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE every_1 PARTITION OF every FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    FOR list, t IN SELECT attname, atttypid FROM pg_attribute WHERE attrelid = 'every'::regclass AND attnum > 0 LOOP
        EXECUTE format('CREATE INDEX as_btree ON every (%I)', list);
        EXECUTE format('CREATE INDEX as_global ON every USING global (%I)', list);
        SELECT string_agg(format('%s: %s, not %s', t, g.comparison, b.comparison), ', ') INTO differs
          FROM pg_index ig, pg_index ib, classes g, classes b
         WHERE ig.indexrelid = 'as_global'::regclass AND ib.indexrelid = 'as_btree'::regclass AND g.oid = ig.indclass[0] AND b.oid = ib.indclass[0]
           AND (g.name, g.schema, g.type, g.comparison) IS DISTINCT FROM (b.name, b.schema, b.type, b.comparison);
        IF differs IS NOT NULL THEN RAISE WARNING '%', differs; END IF;
        IF (SELECT indclass FROM pg_index WHERE indexrelid = 'as_btree'::regclass) <> (SELECT indclass FROM pg_index WHERE indexrelid = tree_of('as_global')) THEN
            RAISE WARNING '%: %', t, tree_classes('as_global');
        END IF;
        IF replace(pg_get_indexdef('as_global'::regclass), ' global ', ' btree ') <> replace(pg_get_indexdef('as_btree'::regclass), 'as_btree', 'as_global') THEN
            RAISE WARNING '%: %', t, pg_get_indexdef('as_global'::regclass);
        END IF;
        DROP INDEX as_btree, as_global;
    END LOOP;
END $$;
SELECT count(*) > 45 AS many FROM pg_attribute WHERE attrelid = 'every'::regclass AND attnum > 0;

-- Only what was needed, and is not PostgreSQL's own, was made since. It belongs to who may make such things.
SELECT name, schema, type, is_default, comparison, owner::oid = 10 AS is_superuser FROM classes WHERE method = 'global' AND schema <> 'pg_catalog'::regnamespace;
DROP TABLE every;

-- Named classes, and what dumps say of them.
CREATE TABLE people (id int, region text, name text COLLATE "C", mail global_types_extensions.citext, town varchar(20), born date, place point, extra json, ip cidr)
    PARTITION BY LIST (region);
CREATE TABLE people_north PARTITION OF people FOR VALUES IN ('north') PARTITION BY HASH (id);
CREATE TABLE people_north_0 PARTITION OF people_north FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE people_south PARTITION OF people FOR VALUES IN ('south');
CREATE INDEX named ON people USING global (name text_pattern_ops DESC NULLS LAST, town varchar_ops, town COLLATE "POSIX" bpchar_ops NULLS FIRST, mail text_ops, ip cidr_ops);
SELECT * FROM compared('named');
SELECT tree_classes('named');
SELECT pg_get_indexdef('named'::regclass);
SELECT * FROM compared((SELECT indexrelid FROM pg_index WHERE indrelid = 'people_south'::regclass));
DROP INDEX named;
-- What is not the type's own is written, whether or not that has a mirror yet.
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
CREATE INDEX named ON people USING global (mail text_ops);
SELECT pg_get_indexdef('named'::regclass);
ROLLBACK;
-- Expressions, conditions, included columns.
CREATE INDEX expressed ON people USING global ((name || 'x'), (mail || 'x'), (name::global_types_extensions.citext), (name IS NULL), length(name), (ARRAY[mail]), (ROW(1, name)::pair))
    INCLUDE (place, extra) WHERE region > 'a';
SELECT * FROM compared('expressed');
SELECT pg_get_indexdef('expressed'::regclass);
-- As for B-trees: what is made of it later, or from it.
CREATE TABLE people_west PARTITION OF people FOR VALUES IN ('west');
CREATE TABLE people_east (LIKE people INCLUDING INDEXES);
SELECT count(*), count(DISTINCT indclass) FROM pg_index WHERE indrelid IN ('people'::regclass, 'people_south'::regclass, 'people_west'::regclass, 'people_east'::regclass);
ALTER TABLE people ATTACH PARTITION people_east FOR VALUES IN ('east');
DROP INDEX expressed;
DROP TABLE people_east;

-- Classes of one's own: another order for a type, one for a type that is text to PostgreSQL otherwise.
CREATE FUNCTION length_cmp(text, text) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp(length($1), length($2))';
CREATE OPERATOR CLASS length_ops FOR TYPE text USING btree AS FUNCTION 1 length_cmp(text, text);
CREATE TYPE tag;
CREATE FUNCTION tag_in(cstring) RETURNS tag LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION tag_out(tag) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE tag (INPUT = tag_in, OUTPUT = tag_out, LIKE = text, COLLATABLE = true);
CREATE CAST (tag AS text) WITHOUT FUNCTION AS IMPLICIT;
ALTER TABLE people ADD COLUMN tag tag;
-- Without a class of its own it is compared as text, by B-trees and here.
CREATE INDEX tagged ON people USING global (tag);
SELECT * FROM compared('tagged');
DROP INDEX tagged;
CREATE FUNCTION tag_cmp(tag, tag) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp(length($1::text), length($2::text))';
CREATE OPERATOR CLASS tag_ops DEFAULT FOR TYPE tag USING btree AS FUNCTION 1 tag_cmp(tag, tag);
CREATE INDEX tagged ON people USING global (tag, name length_ops, tag text_ops);
SELECT * FROM compared('tagged');
SELECT name, schema, type, is_default, comparison FROM classes WHERE method = 'global' AND schema <> 'pg_catalog'::regnamespace ORDER BY name;
-- Renamed, the class keeps its mirror. One of the same name and another order is another.
BEGIN;
ALTER OPERATOR CLASS length_ops USING btree RENAME TO longest_ops;
CREATE INDEX renamed ON people USING global (name longest_ops);
SELECT * FROM compared('renamed');
SELECT tree_classes('renamed');
ROLLBACK;
-- The mirror goes with its class, unless an index needs it.
DROP OPERATOR CLASS length_ops USING btree;
\echo :SQLSTATE
BEGIN;
DROP INDEX tagged;
DROP OPERATOR CLASS length_ops USING btree;
SELECT name FROM classes WHERE method = 'global' AND schema = 'global_types'::regnamespace;
SELECT opfname FROM pg_opfamily WHERE opfnamespace = 'global_types'::regnamespace AND opfmethod = (SELECT oid FROM pg_am WHERE amname = 'global');
ROLLBACK;
-- A dump brings mirrors without what ties them to their classes; the next index does.
BEGIN;
DROP INDEX tagged;
DELETE FROM pg_depend WHERE refclassid = 'pg_opclass'::regclass AND objid = (SELECT oid FROM classes WHERE method = 'global' AND name = 'tag_ops');
CREATE INDEX tagged ON people USING global (tag);
SELECT deptype, c.name, c.method FROM pg_depend d JOIN classes c ON c.oid = d.refobjid
 WHERE refclassid = 'pg_opclass'::regclass AND objid = (SELECT oid FROM classes WHERE method = 'global' AND name = 'tag_ops');
ROLLBACK;
DROP INDEX tagged;

-- Types that change: the new one's own class, not that of one it is coercible to.
CREATE INDEX by_name ON people USING global (name, (town || 'x'));
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
ALTER TABLE people ALTER COLUMN name TYPE global_types_extensions.citext;
SELECT * FROM compared('by_name');
SELECT * FROM compared((SELECT indexrelid FROM pg_index WHERE indrelid = 'people_south'::regclass));
ROLLBACK;
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
ALTER TABLE people ALTER COLUMN name TYPE varchar, ALTER COLUMN born TYPE timestamp, ALTER COLUMN town TYPE global_types_extensions.citext;
SELECT * FROM compared('by_name');
ROLLBACK;
DROP INDEX by_name;
-- The type of an expression may follow that of its column.
CREATE INDEX first_of ON people USING global (greatest(town, town));
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
ALTER TABLE people ALTER COLUMN town TYPE global_types_extensions.citext;
SELECT * FROM compared('first_of');
ROLLBACK;
DROP INDEX first_of;
-- Indexes that are made in passing.
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
CREATE SCHEMA global_types_passing
    CREATE TABLE t (id int, word global_types_extensions.citext) PARTITION BY HASH (id)
    CREATE INDEX ON t USING global (word);
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CREATE SCHEMA global_types_passing
    CREATE TABLE t (id int, word global_types_extensions.citext) PARTITION BY HASH (id)
    CREATE INDEX ON t USING global (word);
SELECT * FROM compared('global_types_passing.t_word_idx');
ROLLBACK;
-- A statement that is kept is carried out as it was written, each time anew.
CREATE FUNCTION again() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..2 LOOP
        CREATE INDEX again ON people USING global (mail, name text_pattern_ops);
        RETURN NEXT pg_get_indexdef('again'::regclass);
        DROP INDEX again;
        ALTER TABLE people ALTER COLUMN mail TYPE text;
    END LOOP;
END $$;
SELECT * FROM again();

-- Who owns a table needs no more rights than for a B-tree: none on the schema of a default class, USAGE on that of one that is named.
SET ROLE regress_global_types_owner;
CREATE TABLE own (id int, mail global_types_extensions.citext) PARTITION BY HASH (id);
\echo :SQLSTATE
RESET ROLE;
GRANT USAGE ON SCHEMA global_types_extensions TO regress_global_types_owner;
SET ROLE regress_global_types_owner;
CREATE TABLE own (id int, mail global_types_extensions.citext) PARTITION BY HASH (id);
CREATE TABLE own_0 PARTITION OF own FOR VALUES WITH (MODULUS 1, REMAINDER 0);
RESET ROLE;
REVOKE USAGE ON SCHEMA global_types_extensions FROM regress_global_types_owner;
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global;
SET LOCAL ROLE regress_global_types_owner;
CREATE INDEX own_mail ON own USING global (mail);
RESET ROLE;
SELECT * FROM compared('own_mail');
SELECT owner::oid = 10 AS is_superuser FROM classes WHERE name = 'citext_ops' AND method = 'global';
ROLLBACK;
SET ROLE regress_global_types_owner;
CREATE INDEX own_mail ON own USING global (mail global_types_extensions.citext_ops);
\echo :SQLSTATE
CREATE INDEX ON people USING global (name);
\echo :SQLSTATE
CREATE OPERATOR CLASS mine FOR TYPE text USING global AS FUNCTION 1 bttextcmp(text, text);
\echo :SQLSTATE
RESET ROLE;

-- What has no order, or is not there.
CREATE INDEX ON people USING global (place);
\echo :SQLSTATE
CREATE INDEX ON people USING global (extra);
\echo :SQLSTATE
CREATE INDEX ON people USING global (name nothing_ops);
\echo :SQLSTATE
CREATE INDEX ON people USING global (born text_ops);
\echo :SQLSTATE
\set VERBOSITY sqlstate
CREATE INDEX ON people USING global (nothing);
\set VERBOSITY default
\echo :SQLSTATE
CREATE INDEX ON people USING global (lower(nothing));
\echo :SQLSTATE
CREATE INDEX ON people USING global (tableoid);
\echo :SQLSTATE
CREATE INDEX ON people USING global (name text_ops (a = 1));
\echo :SQLSTATE
CREATE INDEX ON nothing USING global (name);
\echo :SQLSTATE

-- Refused forms, before anything is made.
BEGIN;
DROP OPERATOR CLASS global_types_extensions.citext_ops USING global CASCADE;
SAVEPOINT before;
CREATE UNIQUE INDEX ON own USING global (mail);
\echo :SQLSTATE
ROLLBACK TO before;
ROLLBACK;
CREATE INDEX ON own USING global (mail) NULLS NOT DISTINCT;
\echo :SQLSTATE
CREATE MATERIALIZED VIEW seen AS SELECT 1 AS a;
CREATE INDEX ON seen USING global (a);
\echo :SQLSTATE
CREATE TEMP TABLE passing (id int) PARTITION BY HASH (id);
CREATE INDEX ON passing USING global (id);
\echo :SQLSTATE
ALTER TABLE own_0 ADD EXCLUDE USING global (mail WITH OPERATOR(global_types_extensions.=));
\echo :SQLSTATE
CREATE FOREIGN DATA WRAPPER regress_global_types;
CREATE SERVER regress_global_types FOREIGN DATA WRAPPER regress_global_types;
CREATE TABLE spread (id int, region text) PARTITION BY LIST (region);
CREATE TABLE spread_north PARTITION OF spread FOR VALUES IN ('north') PARTITION BY HASH (id);
CREATE FOREIGN TABLE spread_north_0 PARTITION OF spread_north FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER regress_global_types;
CREATE INDEX ON spread USING global (id);
\echo :SQLSTATE
CREATE INDEX ON ONLY spread USING global (id);
\echo :SQLSTATE
ALTER TABLE spread DETACH PARTITION spread_north;
CREATE INDEX spread_id ON spread USING global (id);
ALTER TABLE spread ATTACH PARTITION spread_north FOR VALUES IN ('north');
\echo :SQLSTATE
CREATE FOREIGN TABLE spread_south PARTITION OF spread FOR VALUES IN ('south') SERVER regress_global_types;
\echo :SQLSTATE
CREATE FOREIGN TABLE far (id int) SERVER regress_global_types;
CREATE INDEX ON far USING global (id);
\echo :SQLSTATE
DROP INDEX spread_id;
ALTER TABLE spread ATTACH PARTITION spread_north FOR VALUES IN ('north');
DROP TABLE spread;
DROP FOREIGN DATA WRAPPER regress_global_types CASCADE;
-- A table by itself: its index may have been that of a partition, and has to be restored.
CREATE TABLE alone (id int);
CREATE INDEX alone_id ON alone USING global (id);
CREATE TABLE above (id int) PARTITION BY RANGE (id);
CREATE INDEX above_id ON above USING global (id);
ALTER TABLE above ATTACH PARTITION alone FOR VALUES FROM (1) TO (10);
SELECT inhrelid::regclass, inhparent::regclass FROM pg_inherits WHERE inhparent = 'above_id'::regclass;
-- As a dump does it: children of partitions first.
DROP INDEX above_id;
CREATE INDEX above_id ON ONLY above USING global (id);
CREATE INDEX alone_id ON alone USING global (id);
ALTER INDEX above_id ATTACH PARTITION alone_id;
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'above'::regclass;

-- Options.
CREATE INDEX optioned ON people USING global (id) WITH (unique, method = btree, vacuum = eager, fillfactor = 70, deduplicate_items = off);
SELECT relname, reloptions FROM pg_class WHERE oid IN ('optioned'::regclass, (SELECT indexrelid FROM pg_index WHERE indrelid = 'people_south'::regclass)) ORDER BY relname;
SELECT pg_get_indexdef('optioned'::regclass);
ALTER INDEX optioned SET (vacuum = lazy);
\echo :SQLSTATE
ALTER INDEX people_south_id_idx SET (vacuum = lazy);
ALTER INDEX people_south_id_idx SET (unique = off);
\echo :SQLSTATE
ALTER INDEX people_south_id_idx RESET (vacuum, fillfactor);
\echo :SQLSTATE
SELECT reloptions FROM pg_class WHERE oid = 'people_south_id_idx'::regclass;
SELECT relname LIKE '%\_tree' AS is_tree, reloptions, indisunique FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
 WHERE pg_class.oid = tree_of('optioned');
DROP INDEX optioned;
CREATE INDEX ON people USING global (id) WITH (method = gin);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (method = brin);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (method = nothing);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (vacuum = never);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (fillfactor = 9);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (unique = maybe);
\echo :SQLSTATE
CREATE INDEX ON people USING global (id) WITH (autosummarize);
\echo :SQLSTATE

-- What is equal, and what comes first, is as the class says, over all partitions.
CREATE TABLE equal (p int, citext global_types_extensions.citext, email email, number numeric, float float8, padded char(9), span interval, json jsonb, net inet,
                    citexts global_types_extensions.citext[], pair pair, words text[], text text, tag tag, mood mood, range numrange) PARTITION BY LIST (p);
CREATE TABLE equal_1 PARTITION OF equal FOR VALUES IN (1);
CREATE TABLE equal_2 (gone int, LIKE equal);
ALTER TABLE equal_2 DROP COLUMN gone;
ALTER TABLE equal ATTACH PARTITION equal_2 FOR VALUES IN (2);
CREATE FUNCTION taken(class text, first text, second text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    key text := split_part(class, ' ', 1); keys text[] := ARRAY[first, second]; result text[];
BEGIN
    TRUNCATE equal;
    EXECUTE format('CREATE INDEX unique_key ON equal USING global (%s) WITH (unique)', class);
    FOR i IN 1..2 LOOP
        BEGIN
            EXECUTE format('INSERT INTO equal (p, %s) VALUES (%s, %L)', key, i, keys[i]);
            result := result || 'inserted'::text;
        EXCEPTION WHEN OTHERS THEN
            result := result || SQLSTATE::text;
        END;
    END LOOP;
    PERFORM global_types_extensions.bt_index_check(tree_of('unique_key'), true);
    DROP INDEX unique_key;
    -- The same when it is built.
    TRUNCATE equal;
    EXECUTE format('INSERT INTO equal (p, %1$s) VALUES (1, %2$L), (2, %3$L)', key, first, second);
    BEGIN
        EXECUTE format('CREATE INDEX unique_key ON equal USING global (%s) WITH (unique)', class);
        result := result || 'built'::text;
        DROP INDEX unique_key;
    EXCEPTION WHEN OTHERS THEN
        result := result || SQLSTATE::text;
    END;
    -- And in order: ascending, descending.
    EXECUTE format('CREATE INDEX key ON equal USING global (%s)', class);
    PERFORM global_types_extensions.bt_index_check(tree_of('key'), true);
    DROP INDEX key;
    EXECUTE format('CREATE INDEX key ON equal USING global (%s DESC NULLS LAST)', class);
    INSERT INTO equal (p) VALUES (1), (2);
    PERFORM global_types_extensions.bt_index_check(tree_of('key'), true);
    DROP INDEX key;
    RETURN array_to_string(result, ', ');
END $$;
SELECT class, first, second, taken(class, first, second) FROM (VALUES
    ('citext', 'Ann', 'ann'), ('citext', 'Ann', 'Anna'), ('citext text_ops', 'Ann', 'ann'), ('email', 'Ann@x', 'ann@X'),
    ('number', '1.0', '1.00'), ('float', '0', '-0'), ('float', 'NaN', 'nan'), ('padded', 'a', 'a  '), ('padded bpchar_pattern_ops', 'a', 'a '),
    ('span', '1 day', '24 hours'), ('json', '{"a": 1.0}', '{"a": 1.00}'), ('net', '10.0.0.1', '10.0.0.1/32'),
    ('citexts', '{Ann,Bo}', '{ann,bO}'), ('pair', '(1,a)', '(01,a)'), ('pair record_image_ops', '(1,a)', '(01,a)'), ('words', '{a}', '[2:2]={a}'),
    ('text', 'a', 'A'), ('text COLLATE "C"', 'a', 'b'), ('tag', 'one', 'two'), ('tag text_ops', 'one', 'two'), ('text length_ops', 'one', 'two'),
    ('mood', 'sad', 'sad'), ('mood', 'sad', 'fine'), ('range', '[1,2)', '[1.0,2.0)')) AS v (class, first, second);
-- What is said of a key that repeats.
INSERT INTO equal (p, citext, text) VALUES (1, 'Ann', 'a'), (2, 'ann', 'A');
CREATE INDEX unique_key ON equal USING global (citext, lower(text)) WITH (unique);
DELETE FROM equal WHERE p = 2;
CREATE INDEX unique_key ON equal USING global (citext, lower(text)) WITH (unique);
INSERT INTO equal (p, citext, text) VALUES (2, 'ANN', 'a');
DROP TABLE equal;

-- Code of a class runs as the owner of the table, when others make and remake its indexes.
CREATE ROLE regress_global_types_heir;
GRANT USAGE, CREATE ON SCHEMA global_types TO regress_global_types_heir;
CREATE FUNCTION suspicious_cmp(text, text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN RAISE 'ran as a superuser'; END IF;
    RETURN bttextcmp($1, $2);
END $$;
CREATE OPERATOR CLASS suspicious_ops FOR TYPE text USING btree AS FUNCTION 1 suspicious_cmp(text, text);
CREATE TABLE given (p int, name text) PARTITION BY LIST (p);
CREATE TABLE given_1 PARTITION OF given FOR VALUES IN (1);
CREATE INDEX given_name ON given USING global (name suspicious_ops);
ALTER TABLE given OWNER TO regress_global_types_owner;
ALTER TABLE given_1 OWNER TO regress_global_types_owner;
SET ROLE regress_global_types_owner;
INSERT INTO given VALUES (1, 'a'), (1, 'b');
RESET ROLE;
REINDEX INDEX given_name;
REINDEX INDEX given_1_name_idx;
VACUUM given;
CREATE INDEX again ON given USING global (name suspicious_ops) WITH (unique);
CREATE TABLE given_2 (p int, name text);
ALTER TABLE given_2 OWNER TO regress_global_types_owner;
INSERT INTO given_2 VALUES (2, 'c'), (2, 'd');
ALTER TABLE given ATTACH PARTITION given_2 FOR VALUES IN (2);
REASSIGN OWNED BY regress_global_types_owner TO regress_global_types_heir;
SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname LIKE format('index_table_global_%s%%', 'given_name'::regclass::oid);
SELECT global_types_extensions.bt_index_check(tree_of('given_name'), true);
-- Releases before this one left another owner.
SET allow_system_table_mods = on;
UPDATE pg_class SET relowner = 'regress_global_types_owner'::regrole WHERE relname LIKE format('index_table_global_%s%%', 'given_name'::regclass::oid);
RESET allow_system_table_mods;
SELECT global_types_extensions.bt_index_check(tree_of('given_name'), true);
\echo :SQLSTATE
LOAD 'index_table';
REINDEX INDEX given_name;
SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname LIKE format('index_table_global_%s%%', 'given_name'::regclass::oid);
SELECT global_types_extensions.bt_index_check(tree_of('given_name'), true);
\echo :SQLSTATE
DROP TABLE given;

-- So does that of expressions, some of it when they are read.
SET ROLE regress_global_types_owner;
CREATE FUNCTION suspicious(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN RAISE 'ran as a superuser'; END IF;
    RETURN 'x';
END $$;
CREATE TABLE given (p int, name text) PARTITION BY LIST (p);
CREATE TABLE given_1 PARTITION OF given FOR VALUES IN (1);
INSERT INTO given VALUES (1, 'a'), (1, 'b');
CREATE INDEX given_name ON given USING global ((name || suspicious(1))) WHERE suspicious(2) = 'x';
\c
LOAD 'index_table';
SET search_path = global_types;
REINDEX INDEX given_name;
\c
SET search_path = global_types;
REINDEX TABLE given_1;
ALTER TABLE given ADD COLUMN more int;
VACUUM given;
\c
SET search_path = global_types;
SET client_min_messages = warning;
ALTER TABLE given DETACH PARTITION given_1;
TRUNCATE given_1;
DROP TABLE given, given_1;

-- The storage's access method is nobody else's.
CREATE TABLE storage (a int) USING index_table_storage;
\echo :SQLSTATE
CREATE MATERIALIZED VIEW storage USING index_table_storage AS SELECT 1 AS a;
\echo :SQLSTATE
CREATE TABLE storage (a int);
ALTER TABLE storage SET ACCESS METHOD index_table_storage;
\echo :SQLSTATE

-- A partition's own global index is made anew with a column of the table above.
CREATE TABLE below (id int, u int) PARTITION BY RANGE (id);
CREATE TABLE below_1 PARTITION OF below FOR VALUES FROM (0) TO (10) PARTITION BY HASH (id);
CREATE TABLE below_1_0 PARTITION OF below_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO below VALUES (1, 1), (2, 2);
CREATE INDEX below_1_u ON below_1 USING global (u) WITH (unique);
ALTER TABLE below ALTER u TYPE bigint;
INSERT INTO below VALUES (3, 2);
\echo :SQLSTATE
INSERT INTO below VALUES (3, 3);
SELECT * FROM index_table.verify('below_1_u');
SELECT * FROM below_1 WHERE u = 3;

-- Nothing is left of what was made.
DROP SCHEMA global_types_extensions, global_types CASCADE;
SELECT opcname FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'global') AND opcnamespace <> 'pg_catalog'::regnamespace;
SELECT opfname FROM pg_opfamily WHERE opfmethod = (SELECT oid FROM pg_am WHERE amname = 'global') AND opfnamespace <> 'pg_catalog'::regnamespace;
DROP ROLE regress_global_types_owner, regress_global_types_heir;
