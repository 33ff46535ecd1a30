-- The outbox: changes of a captured table are queued, whoever makes them, and read in batches.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA outbox;
SET search_path = outbox;

-- The oracle is a copy of each captured table, kept by nothing but the outbox.
CREATE FUNCTION follow(captured regclass, batch int DEFAULT 7) RETURNS TABLE (differs text) LANGUAGE plpgsql AS $$
DECLARE
    copy text := captured || '_copy';
    matches text;
    numbers bigint[];
BEGIN
    SELECT string_agg(format('c.%I::text = p.identity[%s]', name, i), ' AND ') INTO matches
      FROM index_table.captured AS t, unnest(t.identity) WITH ORDINALITY AS u(name, i) WHERE t.captured = follow.captured;
    LOOP
        EXECUTE format('CREATE TEMP TABLE p ON COMMIT DROP AS SELECT * FROM index_table.pending(NULL::%s, %L, $1)', captured, captured) USING batch;
        SELECT array_agg(DISTINCT number) INTO numbers FROM p;
        IF EXISTS (SELECT FROM p WHERE reload) THEN
            EXECUTE format('TRUNCATE %s; INSERT INTO %1$s SELECT * FROM %s', copy, captured);
        END IF;
        EXECUTE format('DELETE FROM %s AS c USING p WHERE %s', copy, matches);
        EXECUTE format('INSERT INTO %s SELECT (entity).* FROM p WHERE entity IS DISTINCT FROM NULL', copy);
        PERFORM index_table.discard(captured, numbers);
        DROP TABLE p;
        EXIT WHEN numbers IS NULL;
    END LOOP;
    RETURN QUERY EXECUTE format(
        $q$SELECT 'missing ' || t FROM (TABLE %1$s EXCEPT ALL TABLE %2$s) AS t UNION ALL SELECT 'surplus ' || t FROM (TABLE %2$s EXCEPT ALL TABLE %1$s) AS t$q$, captured, copy);
END $$;
-- What is queued: identities of each row of the queue.
CREATE FUNCTION queued(captured regclass) RETURNS TABLE (changes int, identity text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT q.changes, to_jsonb(q)->>''identity_1'' FROM %s AS q ORDER BY q.number', captured || '_outbox');
    EXECUTE format('DELETE FROM %s', captured || '_outbox');
END $$;

CREATE TABLE items (gone int, note text, id bigint PRIMARY KEY, name text);
ALTER TABLE items DROP COLUMN gone;
INSERT INTO items (id, name) VALUES (1, 'before');
SELECT index_table.capture('items');
TABLE index_table.captured;
CREATE TABLE items_copy AS TABLE items;
SELECT * FROM index_table.pending('items', 10);
SELECT * FROM index_table.backlog('items');

-- Every kind of change, each row once.
INSERT INTO items (id, name) SELECT i, 'item ' || i FROM generate_series(2, 5) AS i;
UPDATE items SET name = upper(name) WHERE id IN (2, 3);
UPDATE items SET id = id + 100 WHERE id IN (4, 5);
DELETE FROM items WHERE id = 2;
DELETE FROM items WHERE id = 2;
COPY items (id, name) FROM stdin;
20	copied
21	copied
\.
INSERT INTO items (id, name) VALUES (20, 'again'), (22, 'new'), (23, 'new') ON CONFLICT (id) DO UPDATE SET name = excluded.name;
MERGE INTO items USING (VALUES (21), (22), (24)) AS v(i) ON id = i WHEN MATCHED AND i = 21 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged'
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (i, 'merged');
WITH moved AS (DELETE FROM items WHERE id = 24 RETURNING name) INSERT INTO items (id, name) SELECT 25, name FROM moved;
TRUNCATE items;
INSERT INTO items (id, name) VALUES (1, 'after');
BEGIN;
INSERT INTO items (id, name) VALUES (40, 'rolled back');
SAVEPOINT s;
INSERT INTO items (id, name) VALUES (41, 'rolled back');
ROLLBACK TO s;
RELEASE s;
ROLLBACK;
BEGIN;
INSERT INTO items (id, name) VALUES (50, 'outer');
SAVEPOINT s;
INSERT INTO items (id, name) VALUES (51, 'inner');
ROLLBACK TO s;
SAVEPOINT s;
UPDATE items SET name = 'kept' WHERE id = 50;
RELEASE s;
COMMIT;
SELECT changes FROM index_table.backlog('items');
SELECT identity, reload, entity FROM index_table.pending(NULL::items, 'items', 100) ORDER BY number, identity;
SELECT * FROM queued('items');

-- Large statements are packed; a batch is about as large as wanted and goes on where another ended.
TRUNCATE items;
INSERT INTO items (id, name) SELECT i, 'item ' || i FROM generate_series(1, 1700) AS i;
SELECT changes, count(*) FROM items_outbox GROUP BY changes ORDER BY changes;
SELECT count(*), count(DISTINCT number) AS numbers FROM index_table.pending('items', 600);
SELECT count(*) FROM index_table.pending('items', 1);
SELECT index_table.discard('items', ARRAY(SELECT number FROM items_outbox WHERE changes = 0));
SELECT count(*), min(identity[1]::int), max(identity[1]::int) FROM index_table.pending('items', 1);
SELECT count(entity) FROM index_table.pending(NULL::items, 'items', 100000);
SELECT index_table.discard('items', ARRAY[-1, NULL]);
SELECT index_table.discard('items', '{}');
INSERT INTO items (id, name) SELECT i, repeat('x', 100) FROM generate_series(2001, 2010) AS i;
UPDATE items SET name = 'hot' WHERE id = 2001;
UPDATE items SET name = 'hotter' WHERE id = 2001;
-- An identity comes with the last number that has it; others have to be discarded all the same.
SELECT identity, (entity).name FROM index_table.pending(NULL::items, 'items', 100000) WHERE identity IS NULL OR identity[1] = '2001' ORDER BY number;
TRUNCATE items_copy;
INSERT INTO items_copy TABLE items;
SELECT * FROM follow('items', 600);
DELETE FROM items WHERE id > 100;
SELECT * FROM follow('items');

-- Triggers that write further, foreign key actions, functions, rules.
CREATE TABLE parents (id int PRIMARY KEY);
CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE ON UPDATE SET NULL);
SELECT index_table.capture('children');
INSERT INTO parents SELECT generate_series(1, 4);
INSERT INTO children SELECT i, 1 + i % 4 FROM generate_series(1, 12) AS i;
CREATE TABLE children_copy AS TABLE children;
SELECT * FROM queued('children');
DELETE FROM parents WHERE id IN (1, 2);
UPDATE parents SET id = 30 WHERE id = 3;
SELECT changes, identity FROM queued('children') ORDER BY 1, 2;
TRUNCATE children_copy;
INSERT INTO children_copy TABLE children;
CREATE FUNCTION one_more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id < 100 THEN INSERT INTO children VALUES (NEW.id + 100, NULL); UPDATE children SET parent = 4 WHERE id = NEW.id; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_one_more AFTER INSERT ON children FOR EACH ROW EXECUTE FUNCTION one_more();
CREATE FUNCTION next_id() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 1000; RETURN NEW; END $$;
CREATE TRIGGER b_next BEFORE UPDATE ON children FOR EACH ROW WHEN (NEW.id > 100) EXECUTE FUNCTION next_id();
INSERT INTO children VALUES (50, NULL), (51, NULL);
UPDATE children SET parent = NULL;
SELECT * FROM follow('children');

-- An identity of several columns, of types by reference, with a collation.
CREATE DOMAIN code AS text COLLATE "C" CHECK (VALUE <> '');
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE composite (c code NOT NULL, n numeric(6, 2) NOT NULL, m mood NOT NULL, t text COLLATE "C" NOT NULL, "Odd name" uuid NOT NULL, note text, UNIQUE (c, n, m, t, "Odd name"));
SELECT index_table.capture('composite', 'n, c, t, m, "Odd name"');
CREATE TABLE lengths (c char(5), b bit(4), PRIMARY KEY (c, b));
SELECT index_table.capture('lengths');
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'lengths_outbox'::regclass AND attname LIKE 'identity%';
DROP TABLE lengths;
CREATE TABLE composite_copy AS TABLE composite;
INSERT INTO composite SELECT 'code, ' || i, i / 3.0, CASE WHEN i % 2 = 0 THEN 'good' ELSE 'bad' END::mood, repeat('long "text" ', 10), md5(i::text)::uuid, 'note' FROM generate_series(1, 1200) AS i;
SELECT changes, count(*) FROM composite_outbox GROUP BY changes ORDER BY changes;
UPDATE composite SET c = 'code', t = 't' WHERE n = 1;
UPDATE composite SET note = 'other' WHERE n = 2;
DELETE FROM composite WHERE n = 3;
SELECT identity FROM index_table.pending('composite', 10000) WHERE identity[1] = '1.00' ORDER BY identity;
SELECT * FROM follow('composite', 1000);

-- Partitioned: through the table, through partitions, from one to another; partitions come and go.
CREATE TABLE logs (day int, id int, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (0) TO (10);
CREATE TABLE logs_2 (note text, id int NOT NULL, gone int, day int NOT NULL) PARTITION BY LIST (day);
ALTER TABLE logs_2 DROP COLUMN gone;
CREATE TABLE logs_2_1 PARTITION OF logs_2 DEFAULT;
ALTER TABLE logs ATTACH PARTITION logs_2 FOR VALUES FROM (10) TO (20);
SELECT index_table.capture('logs');
CREATE TABLE logs_copy (LIKE logs);
INSERT INTO logs SELECT i, i, 'log' FROM generate_series(0, 19) AS i;
INSERT INTO logs_1 VALUES (5, 100, 'direct');
INSERT INTO logs_2 VALUES ('direct', 101, 15);
UPDATE logs_2_1 SET note = 'leaf' WHERE id = 11;
UPDATE logs SET day = day + 10 WHERE id < 3;
UPDATE logs SET id = id + 1000 WHERE day = 5;
DELETE FROM logs_1 WHERE id = 4;
COPY logs_2_1 FROM stdin WITH (DELIMITER ',');
copied,200,16
\.
SELECT * FROM queued('logs');
INSERT INTO logs_copy TABLE logs;
TRUNCATE logs_1;
SELECT * FROM follow('logs');
CREATE TABLE logs_3 PARTITION OF logs FOR VALUES FROM (20) TO (30);
INSERT INTO logs_3 VALUES (25, 300, 'new');
SELECT * FROM queued('logs');
INSERT INTO logs_copy TABLE logs_3;
CREATE TABLE logs_4 (LIKE logs INCLUDING ALL);
INSERT INTO logs_4 VALUES (35, 400, 'attached');
ALTER TABLE logs ATTACH PARTITION logs_4 FOR VALUES FROM (30) TO (40);
INSERT INTO logs_4 VALUES (36, 401, 'afterwards');
SELECT * FROM follow('logs');
ALTER TABLE logs DETACH PARTITION logs_4;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'logs_4'::regclass;
INSERT INTO logs_4 VALUES (37, 402, 'elsewhere');
SELECT * FROM follow('logs');
DROP TABLE logs_2;
SELECT * FROM queued('logs');
TRUNCATE logs_copy;
INSERT INTO logs_copy TABLE logs;
CREATE UNLOGGED TABLE logs_5 PARTITION OF logs FOR VALUES FROM (50) TO (60);
SELECT * FROM follow('logs');

-- A partition by itself: what is written to its parent does not fire its statement triggers.
CREATE TABLE days (day int, id int, note text) PARTITION BY LIST (day);
CREATE TABLE days_1 PARTITION OF days (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE days_2 PARTITION OF days (PRIMARY KEY (id)) FOR VALUES IN (2);
CREATE TABLE days_more PARTITION OF days DEFAULT PARTITION BY LIST (day);
SELECT index_table.capture('days_1');
CREATE TABLE days_1_copy (LIKE days_1);
SELECT index_table.capture('days');
\echo :SQLSTATE
SELECT index_table.capture('days_more');
\echo :SQLSTATE
INSERT INTO days SELECT 1 + i % 2, i, 'note' FROM generate_series(1, 6) AS i;
INSERT INTO days_1 VALUES (1, 7);
UPDATE days SET note = 'other' WHERE id IN (1, 2, 7);
UPDATE days SET id = 40 WHERE id = 4;
UPDATE days SET day = 3 - day WHERE id IN (1, 2);
DELETE FROM days WHERE id IN (5, 6);
SET session_replication_role = replica;
UPDATE days_1 SET note = 'replica' WHERE id = 1;
RESET session_replication_role;
SELECT * FROM follow('days_1');
ALTER TABLE days DISABLE TRIGGER ALL;
ALTER TABLE days ENABLE TRIGGER ALL;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'days_1'::regclass ORDER BY tgname COLLATE "C";
ALTER TABLE days RENAME COLUMN id TO number;
ALTER TABLE days_1_copy RENAME COLUMN id TO number;
SELECT identity FROM index_table.captured WHERE captured = 'days_1'::regclass;
ALTER TABLE days ALTER COLUMN number TYPE bigint;
\echo :SQLSTATE
TRUNCATE days;
INSERT INTO days VALUES (1, 100), (2, 100);
SELECT * FROM follow('days_1');
ALTER TABLE days DETACH PARTITION days_1;
INSERT INTO days_1 VALUES (1, 101);
SELECT * FROM follow('days_1');
SELECT index_table.release('days_1');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'days_1'::regclass;

-- A captured table may have index tables of its own.
SELECT index_table.create('composite', 'note', identity => 'n, c, t, m, "Odd name"');
INSERT INTO composite VALUES ('indexed', 7000, 'good', 't', md5('7000')::uuid, 'indexed');
UPDATE composite SET note = 'twice' WHERE n = 7000;
SELECT index_table.verify('composite_by_note');
ALTER TABLE composite DISABLE TRIGGER ALL;
ALTER TABLE composite ENABLE TRIGGER ALL;
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'composite'::regclass ORDER BY tgname COLLATE "C";
SELECT * FROM follow('composite', 1000);
SELECT index_table.drop('composite_by_note');

-- Where changes are replicated, row triggers do what statement triggers do elsewhere.
SET session_replication_role = replica;
INSERT INTO logs VALUES (21, 500, 'replicated'), (22, 501, 'replicated');
UPDATE logs SET note = 'again' WHERE id = 500;
UPDATE logs SET id = 502 WHERE id = 501;
DELETE FROM logs_3 WHERE id = 300;
SELECT * FROM queued('logs');
TRUNCATE logs;
RESET session_replication_role;
SELECT * FROM queued('logs');
TRUNCATE logs_copy;
-- As dumps of data alone have it.
ALTER TABLE logs DISABLE TRIGGER ALL;
ALTER TABLE logs ENABLE TRIGGER ALL;
SELECT tgrelid::regclass, tgname, tgenabled FROM pg_trigger WHERE tgname LIKE 'index_table_capture%' AND tgrelid IN ('logs'::regclass, 'logs_3'::regclass) ORDER BY tgrelid::regclass::text COLLATE "C", tgname COLLATE "C";
INSERT INTO logs VALUES (21, 500, 'once');
SELECT * FROM queued('logs');
INSERT INTO logs_copy TABLE logs;

-- DDL: what can be followed is, what cannot is refused.
ALTER TABLE items RENAME COLUMN id TO item;
ALTER TABLE items RENAME TO things;
ALTER TABLE things ADD COLUMN extra int DEFAULT 3;
ALTER TABLE items_copy ADD COLUMN extra int DEFAULT 3;
ALTER TABLE items_copy RENAME TO things_copy;
ALTER TABLE things_copy RENAME COLUMN id TO item;
ALTER TABLE items_outbox RENAME TO things_outbox;
SELECT captured, queue, identity FROM index_table.captured WHERE captured = 'things'::regclass;
INSERT INTO things (item, name) VALUES (7000, 'renamed');
UPDATE things SET extra = 4 WHERE item = 7000;
SELECT * FROM follow('things');
ALTER TABLE things ALTER COLUMN item TYPE text;
\echo :SQLSTATE
ALTER TABLE things ALTER COLUMN name TYPE varchar(100);
ALTER TABLE things DROP COLUMN item;
\echo :SQLSTATE
ALTER TABLE things DROP COLUMN item CASCADE;
\echo :SQLSTATE
ALTER TABLE things SET UNLOGGED;
\echo :SQLSTATE
ALTER TABLE things_outbox DROP COLUMN identity_1;
\echo :SQLSTATE
DROP TABLE things_outbox;
\echo :SQLSTATE
CREATE TABLE heir () INHERITS (things);
\echo :SQLSTATE
CREATE TABLE whole (note text, item bigint NOT NULL, name varchar(100), extra int) PARTITION BY RANGE (item);
ALTER TABLE whole ATTACH PARTITION things DEFAULT;
\echo :SQLSTATE
\set VERBOSITY sqlstate
ALTER TABLE logs_3 ALTER COLUMN note TYPE varchar;
\set VERBOSITY default
\echo :SQLSTATE
ALTER TABLE logs ALTER COLUMN note TYPE varchar;
-- What may change values queues a reload, and nothing else does.
CREATE FUNCTION reloads(captured regclass, command text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    count bigint;
BEGIN
    EXECUTE command;
    EXECUTE format('SELECT count(*) FROM %s WHERE changes = 0', captured || '_outbox') INTO count;
    EXECUTE format('DELETE FROM %s', captured || '_outbox');
    RETURN count;
END $$;
SET timezone = 'UTC';
CREATE TYPE passing AS ENUM ('here');
CREATE TABLE altered (id int PRIMARY KEY, name varchar(10), at timestamptz, n int, more int GENERATED ALWAYS AS (n + 1) STORED);
INSERT INTO altered SELECT i, 'name ' || i, '2026-01-01', i FROM generate_series(1, 3) AS i;
SELECT index_table.capture('altered');
SELECT reloads('altered', 'ALTER TABLE altered ' || command), command
  FROM unnest(ARRAY['ALTER name TYPE varchar(20)', 'ALTER name TYPE text', 'ALTER name TYPE varchar', 'ALTER name SET DEFAULT upper(''x'')', 'ALTER id SET STATISTICS 10',
                    'ADD plain int, ADD constant int DEFAULT 1, ADD kind passing', 'SET (fillfactor = 50)', 'ADD CHECK (n > 0)']) AS command;
SELECT reloads('altered', 'ALTER TABLE altered ' || command), command
  FROM unnest(ARRAY['ALTER name TYPE text USING upper(name)', 'ALTER name TYPE char(3) USING name::char(3)', 'ALTER at TYPE timestamp', 'ADD chance float DEFAULT random()',
                    'RENAME constant TO variable', 'DROP variable', 'DROP plain, ADD plain text DEFAULT ''new''', 'ALTER name TYPE text, ALTER chance TYPE int, ALTER at TYPE date']) AS command;
ALTER TABLE altered ALTER nothing TYPE int;
SELECT reloads('altered', 'DROP TYPE passing CASCADE');
SELECT reloads('altered', CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 'ALTER TABLE altered ALTER more SET EXPRESSION AS (n + 2)'
                               ELSE 'ALTER TABLE altered DROP more' END);
DROP TABLE altered;
RESET timezone;
-- Partitions of partitions; partitions that are captured by themselves, each by other columns.
CREATE TABLE tree (id int PRIMARY KEY, name text) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE tree_1_1 PARTITION OF tree_1 FOR VALUES FROM (0) TO (100);
INSERT INTO tree SELECT i, 'name ' || i FROM generate_series(1, 3) AS i;
SELECT index_table.capture('tree');
SELECT reloads('tree', 'ALTER TABLE tree ' || command), command
  FROM unnest(ARRAY['ALTER name TYPE varchar', 'ALTER name TYPE varchar(10)', 'RENAME name TO called', 'DROP called']) AS command;
CREATE TABLE several (id int NOT NULL, other int NOT NULL, name text) PARTITION BY LIST (id);
CREATE TABLE several_1 PARTITION OF several FOR VALUES IN (1);
CREATE TABLE several_2 PARTITION OF several FOR VALUES IN (2);
ALTER TABLE several_1 ADD UNIQUE (other);
ALTER TABLE several_2 ADD UNIQUE (name), ALTER name SET NOT NULL;
SELECT index_table.capture('several_1', 'other'), index_table.capture('several_2', 'name');
ALTER TABLE several ALTER other TYPE bigint;
\echo :SQLSTATE
ALTER TABLE several ALTER name TYPE varchar;
\echo :SQLSTATE
ALTER TABLE several ADD v text DEFAULT 'v';
SELECT * FROM queued('several_1') UNION ALL SELECT * FROM queued('several_2');
ALTER TABLE several ALTER v TYPE text USING upper(v);
SELECT * FROM queued('several_1') UNION ALL SELECT * FROM queued('several_2');
ALTER TABLE several DROP v;
SELECT * FROM queued('several_1') UNION ALL SELECT * FROM queued('several_2');
DROP TABLE tree, several;
-- ALTER TYPE of the type of a captured table.
CREATE TYPE kind AS (id int, name text, at timestamptz);
CREATE TABLE typed OF kind (PRIMARY KEY (id));
INSERT INTO typed VALUES (1, 'a', '2026-01-01'), (2, 'b', '2026-01-02');
SELECT index_table.capture('typed');
SELECT reloads('typed', 'ALTER TYPE kind ' || command || ' CASCADE'), command
  FROM unnest(ARRAY['ALTER ATTRIBUTE name TYPE varchar', 'ADD ATTRIBUTE plain int', 'ALTER ATTRIBUTE at TYPE timestamp', 'ALTER ATTRIBUTE plain TYPE bigint',
                    'RENAME ATTRIBUTE name TO called', 'RENAME ATTRIBUTE id TO number', 'DROP ATTRIBUTE at']) AS command;
SELECT identity FROM index_table.captured WHERE captured = 'typed'::regclass;
ALTER TYPE kind ALTER ATTRIBUTE number TYPE bigint CASCADE;
\echo :SQLSTATE
ALTER TYPE kind DROP ATTRIBUTE number CASCADE;
\echo :SQLSTATE
CREATE TABLE typed_copy AS TABLE typed;
UPDATE typed SET plain = 5 WHERE number = 2;
ALTER TABLE typed NOT OF;
ALTER TABLE typed OF kind;
INSERT INTO typed VALUES (3, 'c', 6);
SELECT * FROM follow('typed');
DROP TABLE typed, typed_copy;
-- A table takes its queue along, restored ones (which have no dependencies) too.
BEGIN;
DROP TABLE composite;
SELECT relname FROM pg_class WHERE relname LIKE 'composite%' AND relkind = 'r' AND relnamespace = 'outbox'::regnamespace;
SELECT count(*) FROM index_table.captured;
ROLLBACK;
BEGIN;
DELETE FROM pg_depend WHERE objid = 'composite_outbox'::regclass AND deptype <> 'i' AND refclassid <> 'pg_namespace'::regclass;
DROP TABLE composite;
SELECT relname FROM pg_class WHERE relname LIKE 'composite%' AND relkind = 'r' AND relnamespace = 'outbox'::regnamespace;
ROLLBACK;
DROP EXTENSION index_table;
\echo :SQLSTATE
BEGIN;
DROP EXTENSION index_table CASCADE;
SELECT relname FROM pg_class WHERE relname LIKE '%outbox' AND relkind = 'r';
SELECT tgname FROM pg_trigger WHERE tgname LIKE 'index_table%';
INSERT INTO logs VALUES (22, 600, 'uncaptured');
INSERT INTO things (item) VALUES (8000);
ROLLBACK;

-- Released.
SELECT index_table.release('children');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'children'::regclass AND tgname LIKE 'index_table%';
INSERT INTO children VALUES (99);
SELECT to_regclass('children_outbox');
SELECT index_table.release('children');
\echo :SQLSTATE
SELECT index_table.capture('children', 'id');
SELECT index_table.capture('logs_3');
\echo :SQLSTATE
SELECT index_table.release('logs');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgname LIKE 'index_table%' AND tgrelid::regclass::text LIKE 'logs%';
DELETE FROM logs;

-- Errors.
SELECT index_table.capture(NULL);
\echo :SQLSTATE
SELECT index_table.capture(0);
\echo :SQLSTATE
SELECT index_table.capture('children');
\echo :SQLSTATE
SELECT index_table.capture('children_outbox');
\echo :SQLSTATE
SELECT index_table.capture('pg_class');
\echo :SQLSTATE
CREATE VIEW v AS SELECT 1 AS id;
SELECT index_table.capture('v');
\echo :SQLSTATE
CREATE TEMP TABLE volatile (id int PRIMARY KEY);
SELECT index_table.capture('volatile');
\echo :SQLSTATE
CREATE TABLE keyless (id int, other int UNIQUE, tags text[] UNIQUE);
SELECT index_table.capture('keyless');
\echo :SQLSTATE
SELECT index_table.capture('keyless', 'id');
\echo :SQLSTATE
SELECT index_table.capture('keyless', 'other');
\echo :SQLSTATE
SELECT index_table.capture('keyless', 'nothing');
\echo :SQLSTATE
ALTER TABLE keyless ALTER COLUMN tags SET NOT NULL;
SELECT index_table.capture('keyless', 'tags');
\echo :SQLSTATE
ALTER TABLE keyless ALTER COLUMN other SET NOT NULL;
SELECT index_table.capture('keyless', 'other');
ALTER TABLE keyless ALTER COLUMN other DROP NOT NULL;
INSERT INTO keyless VALUES (1, NULL, '{}');
\echo :SQLSTATE
SELECT index_table.pending('keyless', 0);
\echo :SQLSTATE
SELECT index_table.pending('v', 1);
\echo :SQLSTATE
SELECT index_table.pending(NULL::things, 'keyless', 1);
\echo :SQLSTATE
SELECT index_table.discard('v', '{1}');
\echo :SQLSTATE
SELECT index_table.enqueue();
\echo :SQLSTATE

-- Roles: who reads the table reads what is pending, who may delete from the queue discards.
CREATE ROLE regress_outbox_owner;
CREATE ROLE regress_outbox_drain;
CREATE ROLE regress_outbox_writer;
GRANT USAGE, CREATE ON SCHEMA outbox TO regress_outbox_owner;
GRANT USAGE ON SCHEMA outbox TO regress_outbox_drain, regress_outbox_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_outbox_owner IN SCHEMA outbox GRANT ALL ON TABLES TO PUBLIC;
SET ROLE regress_outbox_owner;
CREATE TABLE mine (id int PRIMARY KEY, secret text);
REVOKE ALL ON mine FROM PUBLIC;
SELECT index_table.capture('mine');
GRANT INSERT ON mine TO regress_outbox_writer;
SET ROLE regress_outbox_writer;
INSERT INTO mine VALUES (1, 'secret');
SELECT * FROM mine_outbox;
\echo :SQLSTATE
SELECT index_table.pending('mine', 1);
\echo :SQLSTATE
SELECT index_table.backlog('mine');
\echo :SQLSTATE
SELECT index_table.release('mine');
\echo :SQLSTATE
SELECT index_table.capture('composite');
\echo :SQLSTATE
SET ROLE regress_outbox_owner;
GRANT SELECT ON mine TO regress_outbox_drain;
SET ROLE regress_outbox_drain;
SELECT number, identity, entity FROM index_table.pending(NULL::mine, 'mine', 1);
SELECT index_table.discard('mine', '{1}');
\echo :SQLSTATE
SET ROLE regress_outbox_owner;
GRANT DELETE ON mine_outbox TO regress_outbox_drain;
SET ROLE regress_outbox_drain;
SELECT index_table.discard('mine', '{1}');
SET ROLE regress_outbox_owner;
ALTER TABLE mine ENABLE ROW LEVEL SECURITY;
SELECT count(*) FROM index_table.pending('mine', 1);
SET ROLE regress_outbox_drain;
SELECT count(*) FROM index_table.pending('mine', 1);
\echo :SQLSTATE
RESET ROLE;
ALTER TABLE mine OWNER TO regress_outbox_drain;
SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relname LIKE 'mine%' AND relkind = 'r' ORDER BY relname COLLATE "C";
DROP OWNED BY regress_outbox_drain, regress_outbox_owner, regress_outbox_writer;
SELECT captured FROM index_table.captured ORDER BY captured::text COLLATE "C";
DROP ROLE regress_outbox_owner, regress_outbox_drain, regress_outbox_writer;

-- An identity that is generated, in partitions with layouts of their own, by what depends on the partition.
CREATE TABLE made_0 (a int NOT NULL, id int NOT NULL);
ALTER TABLE made_0 ADD COLUMN k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'made_0'::regclass THEN a ELSE -a END) STORED;
CREATE TABLE made (id int, a int NOT NULL, k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'made_0'::regclass THEN a ELSE -a END) STORED,
                   PRIMARY KEY (id, k)) PARTITION BY RANGE (id);
CREATE TABLE made_1 (k int NOT NULL GENERATED ALWAYS AS (CASE WHEN tableoid = 'made_0'::regclass THEN a ELSE -a END) STORED, a int NOT NULL, id int NOT NULL);
ALTER TABLE made ATTACH PARTITION made_0 FOR VALUES FROM (0) TO (1000);
ALTER TABLE made ATTACH PARTITION made_1 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE made_2 PARTITION OF made FOR VALUES FROM (2000) TO (3000);
CREATE TABLE made_copy AS TABLE made;
SELECT index_table.capture('made');
INSERT INTO made (id, a) SELECT i, i % 7 FROM unnest(ARRAY[1, 2, 3, 1001, 1002, 1003, 2001, 2002, 2003]) AS i;
SELECT * FROM follow('made');
INSERT INTO made (id, a) VALUES (1, 1), (1004, 5) ON CONFLICT (id, k) DO UPDATE SET a = made.a + 1;
COPY made (id, a) FROM STDIN;
4	4
1005	5
\.
SELECT * FROM follow('made');
UPDATE made SET id = id + 1100 WHERE id IN (1, 1001);
UPDATE made SET id = id - 900, a = a + 1 WHERE id = 1002;
UPDATE made SET id = id + 1000 WHERE id IN (2, 1003, 9999);
UPDATE made SET a = a + 1 WHERE id IN (3, 1005);
DELETE FROM made WHERE id IN (4, 1004);
SELECT * FROM follow('made');
SELECT index_table.release('made');

-- Domains that are altered. Queues of 0.1.0 have arrays of the domain.
CREATE DOMAIN named AS text;
CREATE TABLE names (name named PRIMARY KEY);
CREATE TABLE names_copy AS TABLE names;
SELECT index_table.capture('names');
INSERT INTO names VALUES ('a'), ('b');
ALTER DOMAIN named ADD CHECK (VALUE <> '');
SELECT * FROM follow('names');
UPDATE pg_attribute SET atttypid = 'named[]'::regtype WHERE attrelid = 'names_outbox'::regclass AND attname = 'identity_1';
INSERT INTO names VALUES ('c');
UPDATE names SET name = 'd' WHERE name = 'a';
SELECT * FROM follow('names');
SELECT index_table.release('names');

-- MERGE that moves rows, as what loads the library in a session.
CREATE TABLE moving (id int, day int, k int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE moving_1 PARTITION OF moving FOR VALUES FROM (0) TO (10);
CREATE TABLE moving_2 PARTITION OF moving FOR VALUES FROM (10) TO (20) PARTITION BY HASH (id);
CREATE TABLE moving_2_0 PARTITION OF moving_2 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO moving SELECT i, i, 1 FROM generate_series(1, 15) AS i;
CREATE TABLE moving_copy AS TABLE moving;
SELECT index_table.capture('moving');
\c -
SET search_path = outbox;
MERGE INTO moving AS m USING (VALUES (2), (3)) AS v (i) ON m.id = v.i WHEN MATCHED THEN UPDATE SET k = 77, day = m.day + 10;
SELECT * FROM follow('moving');
SELECT id, day, k FROM moving_copy WHERE k = 77 ORDER BY id;
SELECT index_table.release('moving');
SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'index_table%' AND tgrelid IN (SELECT relid FROM pg_partition_tree('moving'));

SELECT * FROM follow('things');
SELECT * FROM follow('composite');
DROP SCHEMA outbox CASCADE;
SELECT * FROM index_table.captured;
