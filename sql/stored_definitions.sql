-- Definitions are stored in a rule: names that look like the extension's own, rules made by hand.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA stored_definitions;
SET search_path = stored_definitions;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- Included columns, and one that identifies rows, have names that stand for keys and predicates inside.
CREATE TABLE b ("index_table key 99999" int PRIMARY KEY, b text, "index_table key" text, "index_table key 0" text,
                "index_table predicate" text);
INSERT INTO b SELECT i, 'b' || i, 'key' || i, 'key 0 ' || i, 'predicate' || i FROM generate_series(1, 4) AS i;
SELECT index_table.create('b', 'upper(b)', strategy => 'denormalized', name => 'b_by_upper', predicate => 'b <> ''b2''');
INSERT INTO recomputation VALUES ('b_by_upper', 'upper(b.b), p.partition_id, b."index_table key 99999", b.b, b."index_table key", b."index_table key 0", b."index_table predicate"',
                                  'b', 'b.b <> ''b2''');
SELECT * FROM differences();
UPDATE b SET "index_table key 0" = 'other' WHERE b = 'b1';
SELECT * FROM index_table.verify('b_by_upper');
SELECT index_table.repair('b_by_upper');

-- A set-returning operator.
CREATE FUNCTION elements(text, text) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS 'SELECT unnest(string_to_array($1, $2))';
CREATE OPERATOR <~> (LEFTARG = text, RIGHTARG = text, FUNCTION = elements);
CREATE TABLE words (id int PRIMARY KEY, text text);
INSERT INTO words VALUES (1, 'a b c');
SELECT index_table.create('words', '(text <~> '' '')', name => 'words_by_word');
INSERT INTO words VALUES (2, 'c d');
INSERT INTO recomputation VALUES ('words_by_word', 'w.w, p.partition_id, b.id', 'words AS b CROSS JOIN LATERAL (SELECT DISTINCT elements(b.text, '' '') AS w) AS w');

-- One command alters a column, and drops one that is included.
CREATE TABLE t (id int PRIMARY KEY, k int, gone text, kept int, more int);
INSERT INTO t SELECT i, i % 3, 'gone', i, i FROM generate_series(1, 9) AS i;
SELECT index_table.create('t', '(k + 1)', strategy => 'partial', include => 'gone, kept', name => 't_by_next', predicate => 'k > 0');
SELECT index_table.create('t', 'kept', strategy => 'denormalized', name => 't_by_kept');
ALTER TABLE t DROP COLUMN gone, ALTER COLUMN k TYPE bigint, ALTER COLUMN kept TYPE text;
INSERT INTO t SELECT i, i % 3, i, i FROM generate_series(11, 19) AS i;
SELECT index_table, key, include FROM index_table.index_tables WHERE base = 't'::regclass ORDER BY index_table;
INSERT INTO recomputation VALUES ('t_by_next', 'b.k + 1, p.partition_id, b.id, b.kept', 't AS b', 'b.k > 0'),
                                 ('t_by_kept', 'b.kept, p.partition_id, b.id, b.k, b.more', 't AS b', DEFAULT);
SELECT * FROM differences();

-- Rules that are no definitions. NEW is no column of the base table, and numbers of columns are small.
CREATE TABLE i (k bigint, partition_id int, id int, c4 int, c5 int, c6 int, c7 int, c8 int, c9 bigint);
CREATE RULE index_table_definition AS ON INSERT TO i DO ALSO
    SELECT new.c9 AS k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY new.c9;
CREATE RULE index_table_definition AS ON INSERT TO i DO ALSO
    SELECT b.k AS k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b WHERE new.c9 > 0 ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO i DO ALSO
    SELECT b.k AS k, b.id, 'normalized keys=32 identity=2147483647'::text AS options FROM t AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO i DO ALSO
    SELECT b.k AS k, b.id, 'normalized keys=1 identity=2147483647'::text AS options FROM t AS b ORDER BY b.k;
-- Its own base table; that of another.
CREATE TABLE self (id int PRIMARY KEY, partition_id int, k int);
CREATE RULE index_table_definition AS ON DELETE TO self DO ALSO
    SELECT b.id, b.k, 'normalized keys=1 identity=1'::text AS options FROM self AS b ORDER BY b.id;
CREATE RULE index_table_definition AS ON DELETE TO t DO ALSO
    SELECT b.b, b.b, 'normalized keys=1 identity=1'::text AS options FROM b AS b ORDER BY b.b;
-- What takes the changes during a concurrent build is no table that is something else.
CREATE RULE index_table_definition AS ON DELETE TO i DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options, 't'::regclass AS log FROM t AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO i DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options, 't_by_kept'::regclass AS log FROM t AS b ORDER BY b.k;
-- Tables that cannot be index tables: a view, a partition, one of this session, one with a
-- partition_id of another type, or without, one of a catalog's, and the base of what stands there.
CREATE VIEW v AS SELECT 1::bigint AS k, 1 AS partition_id, 1 AS id;
CREATE RULE index_table_definition AS ON DELETE TO v DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE TABLE whole (k bigint, partition_id int, id int) PARTITION BY LIST (id);
CREATE TABLE part PARTITION OF whole DEFAULT;
CREATE RULE index_table_definition AS ON DELETE TO part DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE TEMP TABLE passing (k bigint, partition_id int, id int);
CREATE RULE index_table_definition AS ON DELETE TO passing DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE TABLE odd (k bigint, partition_id bigint, id int);
CREATE RULE index_table_definition AS ON DELETE TO odd DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE TABLE short (k bigint, id int);
CREATE RULE index_table_definition AS ON DELETE TO short DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO pg_class DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO index_table.partition DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO t_by_kept DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
-- Base tables that have no index tables.
CREATE TABLE s (k bigint, partition_id int, id int);
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM v AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM part AS b ORDER BY b.k;
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.id AS k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t_by_kept AS b ORDER BY b.id;
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.oid AS k, b.oid AS id, 'normalized keys=1 identity=1'::text AS options FROM pg_class AS b ORDER BY b.oid;
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.base AS k, b.base AS id, 'normalized keys=1 identity=1'::text AS options FROM index_table.definition AS b ORDER BY b.base;
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO
    SELECT b.k, b.tableoid AS id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
-- Operator classes are declared by one statement of one form.
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO (
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k; DELETE FROM s);
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO (
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
    INSERT INTO s DEFAULT VALUES ON CONFLICT (k, id) DO NOTHING);
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO (
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
    INSERT INTO s DEFAULT VALUES ON CONFLICT (k int4_ops) DO NOTHING);
CREATE RULE index_table_definition AS ON DELETE TO s DO ALSO (
    SELECT b.k, b.id, 'normalized keys=1 identity=1'::text AS options FROM t AS b ORDER BY b.k;
    INSERT INTO s DEFAULT VALUES ON CONFLICT (k int8_ops) DO NOTHING; SELECT 1);
CREATE RULE index_table_definition AS ON DELETE TO s DO INSTEAD NOTHING;
SELECT rulename, ev_class::regclass FROM pg_rewrite WHERE rulename = 'index_table_definition' AND ev_class IN ('v'::regclass, 'part'::regclass,
    'passing'::regclass, 'odd'::regclass, 'short'::regclass, 's'::regclass, 'pg_class'::regclass, 'index_table.partition'::regclass);
INSERT INTO whole VALUES (1, 2, 3);
DELETE FROM s;
SELECT rulename, ev_class::regclass FROM pg_rewrite WHERE ev_class IN ('i'::regclass, 'self'::regclass, 't'::regclass);

SELECT * FROM differences();
DROP SCHEMA stored_definitions CASCADE;
