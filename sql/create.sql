-- index_table.create(): strategies, base tables of every kind, names, storage.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE ROLE regress_create_owner;
CREATE ROLE regress_create_reader;
CREATE SCHEMA "create";
SET search_path = "create";

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE people (
    person_id int PRIMARY KEY,
    first_name text,
    last_name text NOT NULL,
    town varchar(40) DEFAULT 'Nowhere',
    phone text,
    born date
) PARTITION BY HASH (person_id);
CREATE TABLE people_0 PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE people_1 PARTITION OF people FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE people_2 (born date, phone text, gone int, person_id int NOT NULL, town varchar(40), last_name text NOT NULL, first_name text);
ALTER TABLE people_2 DROP COLUMN gone;
ALTER TABLE people ATTACH PARTITION people_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO people
SELECT i, 'first ' || i % 7, 'last ' || i, nullif('town ' || i % 5, 'town 4'), '555-' || i, date '2000-01-01' + i
  FROM generate_series(1, 100) AS i;

-- The three strategies. What the base table demands of its columns is no concern of the entries.
SELECT index_table.create('people', 'town');
\d people_by_town
SELECT index_table.create('people', 'town, last_name DESC', 'partial', include => 'phone, first_name');
\d people_by_town_last_name
SELECT index_table.create('people', 'last_name', strategy => 'denormalized');
\d people_by_last_name
-- Unique: the key alone, the rest included, and a way to entries whose key has a NULL.
SELECT index_table.create('people', 'phone', is_unique => true);
\d people_by_phone
SELECT index_table.create('people', 'first_name, last_name', is_unique => true, predicate => 'person_id > 50');
\d people_by_first_name_last_name
-- A key that is the identity, or part of it.
SELECT index_table.create('people', 'person_id', 'partial', include => 'town');
\d people_by_person_id
SELECT index_table.create('people', 'town, person_id');
\d people_by_town_person_id

SELECT index_table, base, strategy, key, predicate, identity, include, is_unique, maintenance
  FROM index_table.index_tables ORDER BY index_table::text COLLATE "C";

-- All share one row trigger and one statement trigger.
SELECT tgrelid::regclass, tgname, tgenabled, tgfoid::regproc FROM pg_trigger
 WHERE tgname LIKE 'index\_table%' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
SELECT base, partition, server FROM index_table.partitions ORDER BY partition::text COLLATE "C";
SELECT count(DISTINCT partition_id) FROM index_table.partition;

-- The planner knows them at once.
SELECT relname, reltuples, relpages > 0 AS has_pages FROM pg_class
 WHERE relname IN ('people_by_town', 'people_by_first_name_last_name') ORDER BY relname;
SELECT attname, null_frac, n_distinct FROM pg_stats
 WHERE schemaname = 'create' AND tablename = 'people_by_town' ORDER BY attname COLLATE "C";

-- Generated names keep clear of what there is. A name given is taken as SQL reads it.
SELECT index_table.create('people', 'town');
SELECT index_table.create('people', 'lower(last_name)');
SELECT index_table.create('people', '(last_name || first_name)');
SELECT index_table.create('people', '(born + 1), ((town))');
CREATE SCHEMA create_other;
SELECT index_table.create('people', 'born', name => 'ByBirthday');
SELECT index_table.create('people', 'born', name => '"By ""Birthday"""');
SELECT index_table.create('people', 'born', name => 'create_other."Birthdays"');
SELECT index_table.create('people', 'town, town, TOWN');
\d people_by_town_town1_town2
-- A column of the base table may have the name of the entries' own.
CREATE TABLE numbered (partition_id int, id int, PRIMARY KEY (partition_id, id)) PARTITION BY RANGE (partition_id);
CREATE TABLE numbered_1 PARTITION OF numbered DEFAULT;
INSERT INTO numbered SELECT i % 3, i FROM generate_series(1, 9) AS i;
SELECT index_table.create('numbered', 'id');
\d numbered_by_id
SELECT index_table.create('numbered', 'partition_id', name => 'numbered_by_number');
\d numbered_by_number
-- Names that need quotes, everywhere.
CREATE TABLE "Odd ""name""" ("Key" text, "select" int, "i.d" int PRIMARY KEY);
INSERT INTO "Odd ""name""" VALUES ('a', 1, 1), ('b', NULL, 2);
SELECT index_table.create('"Odd ""name"""', '"Key", "select" DESC', 'partial', include => '"i.d"', predicate => '"select" IS NULL OR "Key" > ''''');
\d "Odd ""name""_by_Key_select"
SELECT index_table.create('"Odd ""name"""', '"select"', 'partial', include => ' "Key" ', identity => ' "i.d" ', is_unique => true, name => '"x.y"');
SELECT key, predicate, identity, include FROM index_table.index_tables WHERE index_table = '"x.y"'::regclass;
-- A generated name is cut where it must be.
CREATE TABLE long_names (
    id int PRIMARY KEY,
    a_column_with_a_name_of_forty_characters text,
    another_column_with_a_name_that_is_longer text,
    the_longest_name_that_a_column_may_have_is_this_one_of_63_bytes text
);
SELECT index_table.create('long_names', 'a_column_with_a_name_of_forty_characters, another_column_with_a_name_that_is_longer');
SELECT index_table.create('long_names', 'a_column_with_a_name_of_forty_characters, another_column_with_a_name_that_is_longer');
SELECT index_table.create('long_names', (SELECT string_agg('the_longest_name_that_a_column_may_have_is_this_one_of_63_bytes', ', ') FROM generate_series(1, 12)));
SELECT attname FROM pg_attribute
 WHERE attrelid = (SELECT index_table FROM index_table.index_tables WHERE base = 'long_names'::regclass AND key LIKE 'the%') AND attnum > 0
 ORDER BY attnum;

-- Partitioned by LIST and by RANGE, in two levels, with a default and with other columns in the leaves.
CREATE TABLE sales (region text, day date, id int, amount numeric(8,2), PRIMARY KEY (region, day, id)) PARTITION BY LIST (region);
CREATE TABLE sales_north PARTITION OF sales FOR VALUES IN ('north') PARTITION BY RANGE (day);
CREATE TABLE sales_north_old PARTITION OF sales_north FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
CREATE TABLE sales_north_new PARTITION OF sales_north FOR VALUES FROM ('2020-01-01') TO (MAXVALUE);
CREATE TABLE sales_south PARTITION OF sales FOR VALUES IN ('south', 'east');
CREATE TABLE sales_empty PARTITION OF sales FOR VALUES IN ('nowhere') PARTITION BY HASH (id);
CREATE TABLE sales_rest PARTITION OF sales DEFAULT;
INSERT INTO sales
SELECT (ARRAY['north', 'south', 'east', 'west'])[1 + i % 4], date '2019-12-01' + i, i, i % 10
  FROM generate_series(1, 60) AS i;
SELECT index_table.create('sales', 'amount DESC, day');
\d sales_by_amount_day
SELECT partition FROM index_table.partitions WHERE base = 'sales'::regclass ORDER BY partition::text COLLATE "C";

-- Plain; plain and empty; partitioned without partitions.
CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text);
INSERT INTO notes (body) VALUES ('a'), (NULL), ('a');
SELECT index_table.create('notes', 'body', is_unique => false, include => 'id', strategy => 'partial');
SELECT partition FROM index_table.partitions WHERE base = 'notes'::regclass;
CREATE TABLE empty (id int PRIMARY KEY, v int);
SELECT index_table.create('empty', 'v');
INSERT INTO empty VALUES (1, 1);
CREATE TABLE bare (id int PRIMARY KEY, v int) PARTITION BY LIST (id);
SELECT index_table.create('bare', 'v');
SELECT count(*) FROM index_table.partitions WHERE base = 'bare'::regclass;
CREATE TABLE bare_1 PARTITION OF bare FOR VALUES IN (1);
INSERT INTO bare VALUES (1, 1);
CREATE UNLOGGED TABLE fleeting (id int PRIMARY KEY, v int);
INSERT INTO fleeting VALUES (1, 1);
SELECT index_table.create('fleeting', 'v', partitions => 2);
SELECT relname, relpersistence FROM pg_class WHERE relname LIKE 'fleeting\_by%' ORDER BY relname COLLATE "C";
-- Whether a partitioned index table is logged, its partitions say.
CREATE TABLE light (id int PRIMARY KEY, v int) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE light_1 PARTITION OF light FOR VALUES IN (1);
SELECT index_table.create('light', 'v', partitions => 2);
CREATE UNLOGGED TABLE light_2 PARTITION OF light FOR VALUES IN (2);
INSERT INTO light VALUES (1, 1), (2, 2);
CREATE TABLE light_3 PARTITION OF light FOR VALUES IN (3);
-- The index table itself hash-partitioned by its first key column.
SELECT index_table.create('people', 'town, last_name', name => 'towns', partitions => 3);
\d towns
SELECT inhrelid::regclass AS partition, pg_get_expr(relpartbound, oid) AS bound
  FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'towns'::regclass ORDER BY 1;
\d towns_p0
SELECT count(*) = (SELECT count(*) FROM people), count(DISTINCT tableoid) FROM towns;
SELECT index_table.create('people', 'phone', is_unique => true, name => 'phones', partitions => 1, tablespace => 'pg_default');
\d phones_p0

-- Tablespaces.
SET allow_in_place_tablespaces = true;
CREATE TABLESPACE regress_create_space LOCATION '';
SELECT index_table.create('people', 'town', name => 'people_in_space', tablespace => 'regress_create_space');
SELECT index_table.create('people', 'town', name => 'parts_in_space', tablespace => 'regress_create_space', partitions => 1, is_unique => true, predicate => 'person_id < 4');
SELECT index_table.create('people', 'town', name => 'people_in_default', tablespace => 'pg_default');
SELECT relname, COALESCE(spcname, '(default)') AS tablespace FROM pg_class LEFT JOIN pg_tablespace t ON t.oid = reltablespace
 WHERE relname LIKE '%\_in\_%' ORDER BY relname COLLATE "C";
INSERT INTO recomputation VALUES
    ('people_in_space', 'town, partition_id, person_id', 'people b', 'true'),
    ('parts_in_space', 'town, partition_id, person_id', 'people b', 'person_id < 4');
SELECT * FROM differences();
DELETE FROM recomputation;
DROP TABLE people_in_space, parts_in_space;
DROP TABLESPACE regress_create_space;

-- Index tables belong to the owner of the base table, and grant nothing.
GRANT USAGE, CREATE ON SCHEMA "create" TO regress_create_owner;
ALTER DEFAULT PRIVILEGES IN SCHEMA "create" GRANT ALL ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_create_owner GRANT SELECT ON TABLES TO regress_create_reader WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_create_owner IN SCHEMA "create" GRANT INSERT ON TABLES TO PUBLIC;
SET ROLE regress_create_owner;
CREATE TABLE owned (id int PRIMARY KEY, v int);
RESET ROLE;
SELECT index_table.create('owned', 'v', partitions => 2);
SELECT relname, pg_get_userbyid(relowner) AS owner, has_table_privilege('public', oid, 'INSERT') AS public_inserts,
       has_table_privilege('regress_create_reader', oid, 'SELECT') AS reader_selects,
       (SELECT string_agg(DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee) END, ', ') FROM aclexplode(relacl)) AS granted_to
  FROM pg_class WHERE relname LIKE 'owned%' AND relkind IN ('r', 'p') ORDER BY relname COLLATE "C";
ALTER DEFAULT PRIVILEGES IN SCHEMA "create" REVOKE ALL ON TABLES FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_create_owner REVOKE SELECT ON TABLES FROM regress_create_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_create_owner IN SCHEMA "create" REVOKE INSERT ON TABLES FROM PUBLIC;

-- In a transaction that has already changed the base table, and that is undone or undone in part.
BEGIN;
INSERT INTO people VALUES (101, 'first 101', 'last 101', 'town 101');
SAVEPOINT before;
SELECT index_table.create('people', 'town', name => 'undone');
INSERT INTO people VALUES (102, 'first 102', 'last 102', 'town 102');
SELECT town FROM undone WHERE town > 'town 1' AND town < 'town 2' ORDER BY person_id DESC LIMIT 2;
ROLLBACK TO before;
SELECT index_table.create('people', 'town', name => 'done');
INSERT INTO people VALUES (103, 'first 103', 'last 103', 'town 103');
COMMIT;
SELECT to_regclass('undone') AS undone, count(*) FILTER (WHERE index_table::oid NOT IN (SELECT oid FROM pg_class)) AS dangling
  FROM index_table.definition;
BEGIN;
CREATE TABLE short_lived (id int PRIMARY KEY, v int);
INSERT INTO short_lived VALUES (1, 1);
SELECT index_table.create('short_lived', 'v');
INSERT INTO short_lived VALUES (2, 2);
INSERT INTO recomputation VALUES ('short_lived_by_v', 'v, partition_id, id', 'short_lived b');
SELECT count(*), (SELECT count(*) FROM differences()) AS differences FROM short_lived_by_v;
ROLLBACK;
SELECT count(*) FROM index_table.partition AS p WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = p.relation);

-- More rows, and the oracle.
INSERT INTO people VALUES (104, NULL, 'last 104', NULL, NULL, NULL);
INSERT INTO sales VALUES ('south', '2020-02-02', 104, 7), ('elsewhere', '2020-02-02', 105, 7);
INSERT INTO numbered VALUES (4, 4);
INSERT INTO recomputation VALUES
    ('people_by_town', 'town, partition_id, person_id', 'people b'),
    ('people_by_town1', 'town, partition_id, person_id', 'people b'),
    ('people_by_town_last_name', 'town, last_name, partition_id, person_id, phone, first_name', 'people b'),
    ('people_by_last_name', 'last_name, partition_id, person_id, first_name, town, phone, born', 'people b'),
    ('people_by_phone', 'phone, partition_id, person_id', 'people b'),
    ('people_by_person_id', 'person_id, partition_id, town', 'people b'),
    ('people_by_town_person_id', 'town, person_id, partition_id', 'people b'),
    ('people_by_lower', 'lower(last_name), partition_id, person_id', 'people b'),
    ('people_by_expr', 'last_name || first_name, partition_id, person_id', 'people b'),
    ('people_by_expr_town', 'born + 1, town, partition_id, person_id', 'people b'),
    ('bybirthday', 'born, partition_id, person_id', 'people b'),
    ('"By ""Birthday"""', 'born, partition_id, person_id', 'people b'),
    ('create_other."Birthdays"', 'born, partition_id, person_id', 'people b'),
    ('people_by_town_town1_town2', 'town, town, town, partition_id, person_id', 'people b'),
    ('towns', 'town, last_name, partition_id, person_id', 'people b'),
    ('phones', 'phone, partition_id, person_id', 'people b'),
    ('people_in_default', 'town, partition_id, person_id', 'people b'),
    ('done', 'town, partition_id, person_id', 'people b'),
    ('numbered_by_id', 'id, p.partition_id, b.partition_id', 'numbered b'),
    ('numbered_by_number', 'b.partition_id, p.partition_id, id', 'numbered b'),
    ('"x.y"', '"select", partition_id, "i.d", "Key"', '"Odd ""name""" b'),
    ('sales_by_amount_day', 'amount, day, partition_id, region, id', 'sales b'),
    ('notes_by_body', 'body, partition_id, id', 'notes b'),
    ('empty_by_v', 'v, partition_id, id', 'empty b'),
    ('bare_by_v', 'v, partition_id, id', 'bare b'),
    ('fleeting_by_v', 'v, partition_id, id', 'fleeting b'),
    ('light_by_v', 'v, partition_id, id', 'light b'),
    ('owned_by_v', 'v, partition_id, id', 'owned b');
INSERT INTO recomputation VALUES
    ('people_by_first_name_last_name', 'first_name, last_name, partition_id, person_id', 'people b', 'person_id > 50'),
    ('"Odd ""name""_by_Key_select"', '"Key", "select", partition_id, "i.d"', '"Odd ""name""" b', '"select" IS NULL OR "Key" > ''''');
INSERT INTO long_names VALUES (1, 'a', 'b', 'c'), (2, NULL, 'b', NULL);
INSERT INTO recomputation
SELECT index_table, key || ', partition_id, id', 'long_names b' FROM index_table.index_tables WHERE base = 'long_names'::regclass;
SELECT * FROM differences();
SELECT index_table AS not_checked FROM index_table.index_tables
 WHERE index_table NOT IN (SELECT index_table FROM recomputation) ORDER BY index_table::text COLLATE "C";

DROP SCHEMA "create", create_other CASCADE;
DROP ROLE regress_create_owner, regress_create_reader;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
