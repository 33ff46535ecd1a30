-- Plain queries through index tables over foreign partitions: the shards are tables of this database, reached through postgres_fdw.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
LOAD 'index_table';
CREATE SCHEMA shards;
CREATE SCHEMA foreign_scan;
SET search_path = foreign_scan;
SET random_page_cost = 1; -- else reading all of a small index table is thought to be as quick

DO $$
DECLARE
    number int;
BEGIN
    FOR number IN 1 .. 2 LOOP
        EXECUTE format('CREATE SERVER regress_scan_%s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
                       number, split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
        EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER regress_scan_%s', number);
    END LOOP;
END $$;

-- What EXPLAIN shows, without numbers that vary.
CREATE FUNCTION plan(query text, options text DEFAULT 'COSTS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
        RETURN NEXT regexp_replace(line, ' \(returns \$\d+\)|\.00(?= loops)', '', 'g');
    END LOOP;
END $$;
-- Whether a query yields the same rows with index tables, asking shards in either way, and without; and its plan.
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found bigint; differences bigint; rows bigint; access text; line text; way text := 'native'; result text;
BEGIN
    PERFORM set_config('index_table.enable_scan', 'force', true);
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
        way := coalesce(substring(line, 'Custom Scan \(([\w ]+)\)'), way);
    END LOOP;
    PERFORM set_config('index_table.enable_scan', 'off', true);
    EXECUTE 'CREATE TEMP TABLE native AS ' || query;
    GET DIAGNOSTICS rows = ROW_COUNT;
    result := format('%s: %s rows', way, rows);
    PERFORM set_config('index_table.enable_scan', 'force', true);
    FOREACH access IN ARRAY ARRAY['fdw', 'auto'] LOOP
        PERFORM set_config('index_table.shard_access', access, true);
        EXECUTE 'CREATE TEMP TABLE through AS ' || query;
        EXECUTE 'SELECT count(*) FROM ((TABLE through EXCEPT ALL TABLE native) UNION ALL (TABLE native EXCEPT ALL TABLE through)) AS d'
           INTO differences;
        DROP TABLE through;
        IF differences > 0 THEN result := format('%s, %s DIFFERENCES with %s', result, differences, access); END IF;
    END LOOP;
    DROP TABLE native;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN result;
END $$;

-- Local and foreign partitions on two servers, at two levels; some with their columns in another order, one with other names.
CREATE TABLE shards.p1 (balance numeric, town text, email text COLLATE "C", id int NOT NULL, note text, region text NOT NULL, seen date, PRIMARY KEY (region, id));
CREATE TABLE shards.p2 (id int NOT NULL, region text NOT NULL, email text COLLATE "C", town text, balance numeric, "the note" text, seen date, PRIMARY KEY (region, id));
CREATE TABLE shards.p3 (id int NOT NULL, region text NOT NULL, email text COLLATE "C", town text, balance numeric, note text, seen date, PRIMARY KEY (region, id));
CREATE TABLE people (id int, region text NOT NULL, email text COLLATE "C", town text, balance numeric, note text, seen date) PARTITION BY LIST (region);
CREATE TABLE people_p0 PARTITION OF people (PRIMARY KEY (region, id)) FOR VALUES IN ('north');
CREATE FOREIGN TABLE people_p1 (balance numeric, gone int, town text, email text COLLATE "C", id int NOT NULL, note text, region text NOT NULL, seen date)
    SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'p1');
ALTER FOREIGN TABLE people_p1 DROP COLUMN gone;
ALTER TABLE people ATTACH PARTITION people_p1 FOR VALUES IN ('south');
CREATE TABLE people_west PARTITION OF people FOR VALUES IN ('west') PARTITION BY HASH (id);
CREATE FOREIGN TABLE people_p2 PARTITION OF people_west FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'p2');
ALTER FOREIGN TABLE people_p2 ALTER COLUMN note OPTIONS (column_name 'the note');
CREATE FOREIGN TABLE people_p3 PARTITION OF people_west FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER regress_scan_2 OPTIONS (schema_name 'shards', table_name 'p3');
INSERT INTO people
SELECT i, (ARRAY['north', 'south', 'west'])[1 + i % 3], 'mail' || i, 'Town ' || i % 40, i / 4.0, CASE WHEN i % 5 > 0 THEN 'it''s $1 "' || i END, date '2020-01-01' + i
  FROM generate_series(1, 900) AS i;
INSERT INTO people VALUES (1001, 'north', NULL, NULL, NULL, NULL, NULL), (1002, 'south', NULL, 'Town 7', NULL, NULL, NULL), (1003, 'west', 'x\''y', NULL, 7, 'a\b', NULL);
SELECT index_table.create('people', 'email', is_unique => true, identity => 'region, id');
SELECT index_table.create('people', 'town, balance DESC', identity => 'region, id');
SELECT index_table.create('people', 'seen', 'partial', include => 'town', identity => 'id, region');
SELECT index_table.create('people', 'lower(note)', 'denormalized', identity => 'region, id', name => 'people_by_note');
ANALYZE people, people_by_email, people_by_town_balance, people_by_seen, people_by_note;

-- One row, from a local partition and from each foreign one.
SELECT plan('SELECT * FROM people WHERE email = ''mail77''');
SET index_table.shard_access = fdw;
SELECT plan('SELECT * FROM people WHERE email = ''mail77''');
SELECT id, region, email, town, trim_scale(balance) AS balance, note, seen FROM people WHERE email IN ('mail77', 'mail78', 'mail79', 'mail81', 'mail80') ORDER BY id;
SELECT plan('SELECT * FROM people WHERE email IN (''mail77'', ''mail78'', ''mail79'', ''mail81'', ''mail80'')', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF');
SELECT same('SELECT * FROM people WHERE email = ''mail77''');
SELECT same('SELECT note, tableoid::regclass AS partition FROM people WHERE town IN (''Town 1'', ''Town 2'')');
SELECT plan('SELECT id, note FROM people WHERE town = ''Town 7'' AND balance > 100 AND note LIKE ''i%''', 'COSTS OFF, VERBOSE');
RESET index_table.shard_access;
SELECT plan('SELECT id, note FROM people WHERE town = ''Town 7'' AND balance > 100 AND note LIKE ''i%''', 'COSTS OFF, VERBOSE');
SELECT id, region, email, town, trim_scale(balance) AS balance, note, seen FROM people WHERE email IN ('mail77', 'mail78', 'mail79', 'mail81', 'mail80') ORDER BY id;
SELECT plan('SELECT * FROM people WHERE email IN (''mail77'', ''mail78'', ''mail79'', ''mail81'', ''mail80'')', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF');
-- Columns in any combination, computed, none; whole rows.
SELECT same('SELECT note, id FROM people WHERE town = ''Town 3''');
SELECT same('SELECT upper(note), balance + 1 FROM people WHERE town = ''Town 3''');
SELECT same('SELECT count(*), count(note) AS notes FROM people WHERE town = ''Town 3''');
SELECT same('SELECT tableoid::regclass AS partition FROM people WHERE town = ''Town 3'' AND note IS NOT NULL');
SELECT same('SELECT p, (p).note FROM people AS p WHERE town = ''Town 3''');
-- Conditions that servers can check, that they cannot, that row by row have to be checked here.
CREATE FUNCTION here(v text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN v LIKE '%7'; END $$;
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND balance > 100 AND note IS NOT NULL');
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND here(note)');
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND seen < now() AND (here(note) OR balance < 50)');
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND note LIKE ''it''''s $1 "%'' AND balance IN (1.75, 11.75, 21.75, 31.75, 41.75, 51.75, 61.75, 71.75, 81.75, 91.75)');
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND note <> (SELECT max(note) FROM people_p0)');
SELECT same('SELECT id, note FROM people WHERE town = ''Town 7'' AND random() >= 0');
SELECT same('SELECT id FROM people WHERE town = ''Town 7'' AND people.tableoid <> 0');
SELECT same('SELECT id, note FROM people WHERE email = E''x\\''''y'' OR email = ''mail5''');
-- NULLs, ranges, expressions, predicates of several keys joined by OR: a row once.
SELECT same('SELECT id, note FROM people WHERE town IS NULL');
SELECT same('SELECT id, note FROM people WHERE email IS NULL');
SELECT same('SELECT id, note FROM people WHERE seen BETWEEN ''2020-03-01'' AND ''2020-03-20''');
SELECT same('SELECT id, note FROM people WHERE lower(note) = ''it''''s $1 "77''');
SELECT same('SELECT id FROM people WHERE email IN (''mail7'', ''mail8'', ''mail9'') OR town = ''Town 7'' OR seen = ''2020-01-08''');
-- From entries alone no server is asked.
SELECT plan('SELECT town, id FROM people WHERE seen BETWEEN ''2020-03-01'' AND ''2020-03-20''');
SELECT plan('SELECT town, region, note FROM people WHERE lower(note) = ''it''''s $1 "77''');
SELECT same('SELECT town, id FROM people WHERE seen BETWEEN ''2020-03-01'' AND ''2020-03-20''');
-- In order, local and foreign rows side by side; only what a limit takes is fetched, more at a time later.
SELECT plan('SELECT id, balance, note FROM people WHERE town = ''Town 7'' ORDER BY balance DESC LIMIT 5');
SELECT id, region, trim_scale(balance) AS balance, note FROM people WHERE town = 'Town 7' ORDER BY balance DESC LIMIT 5;
SELECT id, region, trim_scale(balance) AS balance, note FROM people WHERE town = 'Town 7' ORDER BY balance LIMIT 5;
SELECT plan('SELECT * FROM people WHERE town > ''Town 7'' ORDER BY town LIMIT 3', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF');
SET index_table.enable_scan = force;
SELECT (SELECT array_agg(id) FROM (SELECT id FROM people WHERE town >= 'Town 2' ORDER BY town, balance DESC, region, id) AS a) =
       (SELECT array_agg(id) FROM (SELECT id FROM people WHERE upper(town) >= 'TOWN 2' ORDER BY town, balance DESC, region, id) AS b) AS same;
SELECT max(email) FROM people WHERE email > 'mail5';
SELECT id, note FROM people WHERE email > 'mail5' AND balance > 10 ORDER BY email OFFSET 30 LIMIT 3;
RESET index_table.enable_scan;

-- Joins, semi and anti joins, lateral, correlated; of the table with itself.
CREATE TABLE orders (order_id int PRIMARY KEY, email text COLLATE "C");
INSERT INTO orders SELECT i, CASE WHEN i % 10 > 0 THEN 'mail' || i * 37 % 950 END FROM generate_series(1, 60) AS i;
ANALYZE orders;
SELECT same('SELECT order_id, id, note FROM orders JOIN people USING (email) WHERE order_id < 10');
SELECT same('SELECT order_id, id, note FROM orders LEFT JOIN people USING (email)');
SELECT same('SELECT order_id FROM orders AS o WHERE EXISTS (SELECT FROM people AS p WHERE p.email = o.email AND p.balance > 100)');
SELECT same('SELECT order_id FROM orders AS o WHERE NOT EXISTS (SELECT FROM people AS p WHERE p.email = o.email AND p.note > ''a'')');
SELECT same('SELECT order_id, (SELECT note FROM people AS p WHERE p.email = o.email AND p.id > o.order_id) FROM orders AS o');
SELECT same('SELECT o.order_id, l.* FROM orders AS o, LATERAL (SELECT id, note FROM people AS p WHERE p.town = ''Town '' || o.order_id ORDER BY balance LIMIT 2) AS l');
SELECT same('SELECT a.id, b.note FROM people AS a JOIN people AS b ON b.town = a.town WHERE a.email = ''mail100''');
SELECT same('SELECT town, count(*), sum(balance), max(note) FROM people WHERE town < ''Town 13'' GROUP BY town HAVING count(*) > 1');

-- Outer rows are read ahead, and servers asked for all of them at once: nested loops of any kind, in the order of the outer side.
SET index_table.enable_scan = force;
SELECT regexp_replace(p, 'rows=\S+ ', '') AS plan
  FROM plan('SELECT order_id, id, note FROM orders LEFT JOIN people USING (email)', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF') AS p;
SELECT regexp_replace(p, 'rows=\S+ ', '') AS plan
  FROM plan('SELECT o.order_id, l.* FROM orders AS o, LATERAL (SELECT id, note FROM people AS p WHERE p.town = ''Town '' || o.order_id ORDER BY balance LIMIT 2) AS l',
            'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF') AS p;
SELECT plan('SELECT order_id, p.note FROM orders AS o JOIN people AS p ON p.email = o.email AND p.id > o.order_id ORDER BY order_id LIMIT 3', 'VERBOSE, COSTS OFF');
SELECT order_id, p.note FROM orders AS o JOIN people AS p ON p.email = o.email AND p.id > o.order_id ORDER BY order_id LIMIT 3;
RESET index_table.enable_scan;
SELECT same('SELECT o.order_id, p.id, q.id AS other FROM orders AS o JOIN people AS p ON p.email = o.email LEFT JOIN people AS q ON q.town = p.town AND q.balance = p.balance + 10');
SELECT same('SELECT o.order_id, p.id FROM orders AS o FULL JOIN people AS p ON p.email = o.email WHERE p.id < 100 OR o.order_id < 5');
SELECT same('SELECT id, note FROM people WHERE email IN (SELECT email FROM orders WHERE order_id > 20)');
SELECT same('SELECT id, note FROM people WHERE email = ANY (ARRAY(SELECT ''mail'' || i FROM generate_series(1, 500) AS i))');
SELECT same('SELECT r.order_id, (SELECT count(p.note) FROM orders AS o JOIN people AS p ON p.email = o.email WHERE o.order_id > r.order_id) FROM orders AS r WHERE r.order_id < 4');
SET work_mem = '64kB';
SELECT same('SELECT order_id, id, note FROM orders JOIN people ON people.town = ''Town '' || order_id % 30');
RESET work_mem;

-- Prepared statements, generic plans, cursors.
SET index_table.enable_scan = force;
SET plan_cache_mode = force_generic_plan;
PREPARE by_email (text, numeric) AS SELECT id, note FROM people WHERE email = $1 AND balance > $2;
EXECUTE by_email ('mail77', 0);
EXECUTE by_email ('mail79', 0);
EXECUTE by_email ('mail79', 1000);
EXECUTE by_email (NULL, NULL);
RESET plan_cache_mode;
DEALLOCATE by_email;
CREATE FUNCTION ids(query text) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE r record; result int[] := '{}';
BEGIN
    FOR r IN EXECUTE query LOOP result := result || r.id; END LOOP;
    RETURN result;
END $$;
SELECT ids('SELECT id, note FROM people WHERE town = ''Town 7'' ORDER BY balance') = ids('SELECT id, note FROM people WHERE upper(town) = ''TOWN 7'' ORDER BY balance') AS same;

-- A transaction sees what it has written, also after a rollback to a savepoint.
BEGIN;
UPDATE people SET note = 'mine' WHERE email = 'mail79';
SELECT id, note FROM people WHERE email = 'mail79';
SAVEPOINT one;
UPDATE people SET email = 'new79', note = 'later' WHERE email = 'mail79';
DELETE FROM people WHERE email = 'mail82';
SELECT id, note FROM people WHERE email IN ('mail79', 'new79', 'mail82');
ROLLBACK TO one;
SELECT id, note FROM people WHERE email IN ('mail79', 'new79', 'mail82') ORDER BY id;
SELECT plan('SELECT note FROM people WHERE email = ''mail79''');
COMMIT;
-- Nor are shards asked beside that transaction after COPY, or in other isolation levels.
BEGIN;
COPY people (id, region, email, note) FROM stdin;
2001	south	mail2001	copied
2002	west	mail2002	copied
\.
SELECT id, note FROM people WHERE email IN ('mail2001', 'mail2002');
TRUNCATE people_p1;
SELECT id, note FROM people WHERE email IN ('mail2001', 'mail2002');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT plan('SELECT note FROM people WHERE email = ''mail79''');
COMMIT;

-- What was written on a shard directly: a stale entry never shows a row that is not asked for, nor in the wrong place.
UPDATE shards.p1 SET email = 'direct', town = 'Town 0' WHERE id = 79;
DELETE FROM shards.p1 WHERE id = 82;
SELECT id, note FROM people WHERE email IN ('mail79', 'mail82', 'mail85');
-- Entries alone show what they hold until they are mended.
SELECT id FROM people WHERE email IN ('mail79', 'mail82', 'mail85');
SELECT same('SELECT id, note FROM people WHERE email = ''mail85''');
SELECT array_agg(id) AS ids FROM (SELECT id, note FROM people WHERE town >= 'Town 39' ORDER BY town, balance DESC LIMIT 100) AS s WHERE note <> '' AND id IN (79, 82, 119, 159);
SELECT index_table.repair('people_by_email') > 0 AS mended;
SELECT index_table.repair('people_by_town_balance') > 0 AS mended;
SELECT index_table.repair('people_by_seen') > 0 AS mended;
SELECT index_table.repair('people_by_note') > 0 AS mended;
SELECT same('SELECT id, note FROM people WHERE town = ''Town 0''');
-- A row that the shard has twice is not to be told apart.
ALTER TABLE shards.p3 DROP CONSTRAINT p3_pkey;
INSERT INTO shards.p3 SELECT * FROM shards.p3 WHERE id = 5;
SELECT note FROM people WHERE email = 'mail5';
-- By hand both come.
SELECT id, note FROM index_table.fetch(NULL::people, 'people_by_email', 'mail5');
SET index_table.shard_access = fdw;
SELECT id, note FROM index_table.fetch(NULL::people, 'people_by_email', 'mail5');
SELECT (entity).id, next FROM index_table.page(NULL::people, 'people_by_email', 1, NULL, 'mail5');
RESET index_table.shard_access;
DELETE FROM shards.p3 WHERE ctid = (SELECT max(ctid) FROM shards.p3 WHERE id = 5);
ALTER TABLE shards.p3 ADD PRIMARY KEY (region, id);
RESET index_table.enable_scan;

-- Rows to be changed or locked are locked on their servers as they are found.
CREATE FUNCTION switched(query text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT substring(p, 'Custom Scan[^)]*\)|Remote SQL.*') FROM plan(query, 'VERBOSE, COSTS OFF') AS p WHERE p ~ 'Custom Scan|Remote SQL'
$$;
SELECT switched('SELECT * FROM people WHERE email = ''mail77'' FOR UPDATE');
SELECT switched('SELECT id FROM people WHERE email = ''mail77'' FOR NO KEY UPDATE');
SELECT switched('SELECT id FROM people WHERE email = ''mail77'' FOR KEY SHARE');
SELECT switched('UPDATE people SET note = NULL WHERE email = ''mail77''');
SELECT switched('DELETE FROM people WHERE email = ''mail77'' RETURNING note');
BEGIN;
UPDATE people SET note = 'one ' || id WHERE email IN ('mail75', 'mail76', 'mail77', 'mail79') RETURNING tableoid::regclass, id, email, note;
DELETE FROM people WHERE email IN ('mail75', 'mail76', 'mail77', 'mail79') RETURNING tableoid::regclass, note;
ROLLBACK;
-- Identities of a row that the shard has twice.
BEGIN;
ALTER TABLE shards.p3 DROP CONSTRAINT p3_pkey;
INSERT INTO shards.p3 SELECT * FROM shards.p3 WHERE id = 5;
COMMIT;
UPDATE people SET note = 'which' WHERE email = 'mail5';
DELETE FROM shards.p3 WHERE ctid = (SELECT max(ctid) FROM shards.p3 WHERE id = 5);
ALTER TABLE shards.p3 ADD PRIMARY KEY (region, id);
-- What is left to PostgreSQL: MERGE, which it refuses, locks on rows of several tables, a foreign row's ctid.
MERGE INTO people USING orders ON people.email = orders.email AND people.email = 'mail74' WHEN MATCHED THEN DELETE;
SELECT count(*) FROM plan('SELECT * FROM people JOIN orders USING (email) WHERE email = ''mail77'' FOR UPDATE') AS p WHERE p ~ 'Row Switch';
SELECT count(*) FROM plan('SELECT ctid FROM people WHERE email = ''mail77''') AS p WHERE p ~ 'Custom Scan';
-- Merely joined to what is changed, they come through index tables.
UPDATE orders SET order_id = order_id + 1000 FROM people WHERE people.email = orders.email AND people.email = 'mail74' RETURNING order_id, people.id, people.note;

-- Columns of other types on servers cannot be asked for with one statement.
ALTER TABLE shards.p2 ALTER COLUMN "the note" TYPE jsonb USING to_jsonb("the note");
ALTER TABLE shards.p1 ALTER COLUMN note TYPE bytea USING note::bytea;
SET index_table.enable_scan = force;
SELECT note FROM people WHERE email IN ('mail77', 'mail86', 'mail76') ORDER BY note;
SELECT way FROM plan('SELECT note FROM people WHERE email IN (''mail77'', ''mail86'', ''mail76'', ''mail5'')', 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF') AS way WHERE way ~ 'Shards';
ALTER TABLE shards.p2 ALTER COLUMN "the note" TYPE text USING "the note" #>> '{}';
ALTER TABLE shards.p1 ALTER COLUMN note TYPE text USING convert_from(note, 'UTF8');
RESET index_table.enable_scan;

-- Partitions that are truncated, detached, attached; options that change.
BEGIN;
TRUNCATE people_p3;
SELECT same('SELECT id, note FROM people WHERE town = ''Town 5''');
ROLLBACK;
SELECT same('SELECT id, note FROM people WHERE town = ''Town 5''');
ALTER TABLE people_west DETACH PARTITION people_p3;
SELECT same('SELECT id, note FROM people WHERE town = ''Town 5''');
ALTER TABLE people_west ATTACH PARTITION people_p3 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT same('SELECT id, note FROM people WHERE town = ''Town 5''');
ALTER TABLE shards.p3 RENAME COLUMN note TO remark;
ALTER FOREIGN TABLE people_p3 ALTER COLUMN note OPTIONS (ADD column_name 'remark');
SELECT same('SELECT id, note FROM people WHERE town = ''Town 8'' AND note > ''a''');
ALTER SERVER regress_scan_2 OPTIONS (ADD fetch_size '2', ADD async_capable 'true');
ALTER SERVER regress_scan_1 OPTIONS (ADD fetch_size '2', ADD async_capable 'true');
SELECT same('SELECT id, note FROM people WHERE town IN (''Town 5'', ''Town 8'')');

-- Roles: privileges on the base table, views with their owners' user mapping, row security.
CREATE ROLE regress_scan_reader;
GRANT USAGE ON SCHEMA foreign_scan TO regress_scan_reader;
GRANT SELECT (id, town, seen) ON people TO regress_scan_reader;
CREATE VIEW of_owner AS SELECT id, note FROM people WHERE town = 'Town 5';
GRANT SELECT ON of_owner TO regress_scan_reader;
SET index_table.enable_scan = force;
SET ROLE regress_scan_reader;
SELECT count(*) FROM of_owner;
SELECT note FROM people WHERE town = 'Town 5';
SELECT count(*) FROM people WHERE town = 'Town 5';
\set VERBOSITY sqlstate
SELECT count(seen) FROM people WHERE town = 'Town 5';
\set VERBOSITY default
RESET ROLE;
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY low ON people USING (id < 500);
CREATE USER MAPPING FOR regress_scan_reader SERVER regress_scan_1 OPTIONS (user 'regress_scan_reader', password_required 'false');
CREATE USER MAPPING FOR regress_scan_reader SERVER regress_scan_2 OPTIONS (user 'regress_scan_reader', password_required 'false');
ALTER ROLE regress_scan_reader LOGIN;
GRANT USAGE ON SCHEMA shards TO regress_scan_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA shards TO regress_scan_reader;
SET ROLE regress_scan_reader;
SELECT count(*), max(id) FROM people WHERE town = 'Town 5' AND seen IS NOT NULL;
SELECT count(*), max(id) FROM people WHERE town = 'Town 5' AND seen IS NOT NULL AND 1 / (id - 605) < 1;
SET index_table.enable_scan = off;
SELECT count(*), max(id) FROM people WHERE town = 'Town 5' AND seen IS NOT NULL;
RESET ROLE;
RESET index_table.enable_scan;
ALTER TABLE people DISABLE ROW LEVEL SECURITY;

SET client_min_messages = error;
DROP USER MAPPING FOR regress_scan_reader SERVER regress_scan_1;
DROP USER MAPPING FOR regress_scan_reader SERVER regress_scan_2;
SET client_min_messages = warning;

-- Deferred index tables: entries alone answer nothing.
SELECT index_table.capture('shards.p1'), index_table.capture('shards.p2'), index_table.capture('shards.p3');
SELECT index_table.set_maintenance('people_by_seen', 'deferred');
CALL index_table.drain();
SELECT count(*) FROM plan('SELECT town, id FROM people WHERE seen = ''2020-03-01''') AS reads WHERE reads ~ 'Custom Scan';
SET index_table.read_consistency = eventual;
SELECT reads FROM plan('SELECT town, id FROM people WHERE seen = ''2020-03-01''') AS reads WHERE reads ~ 'Scan';
UPDATE shards.p3 SET town = 'Elsewhere', seen = '2020-03-02' WHERE seen < '2020-03-10' RETURNING id;
SET index_table.enable_scan = force;
SELECT town, id, seen = '2020-03-02' AS moved FROM people WHERE seen BETWEEN '2020-02-25' AND '2020-03-02' AND region = 'west' ORDER BY id;
CALL index_table.drain();
SELECT same('SELECT town, id FROM people WHERE seen BETWEEN ''2020-02-25'' AND ''2020-03-02''');
RESET index_table.enable_scan;
RESET index_table.read_consistency;
SELECT index_table.set_maintenance('people_by_seen', 'immediate');

SELECT * FROM index_table.verify('people_by_email') UNION ALL SELECT * FROM index_table.verify('people_by_town_balance')
UNION ALL SELECT * FROM index_table.verify('people_by_seen') UNION ALL SELECT * FROM index_table.verify('people_by_note');
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
INSERT INTO recomputation VALUES
    ('people_by_email', 'email, partition_id, region, id', 'people b', 'true'),
    ('people_by_town_balance', 'town, balance, partition_id, region, id', 'people b', 'true'),
    ('people_by_seen', 'seen, partition_id, id, region, town', 'people b', 'true'),
    ('people_by_note', 'lower(note), partition_id, region, id, email, town, balance, note, seen', 'people b', 'true');
SELECT * FROM differences();
-- An identity with a column that is no part of what is unique on the shard, and null: its row is looked for among all such.
CREATE TABLE shards.loose (id int PRIMARY KEY, kind text, v text);
CREATE TABLE loose (id int, kind text, v text) PARTITION BY LIST (id);
CREATE FOREIGN TABLE loose_1 PARTITION OF loose FOR VALUES IN (1, 2, 5, 6, 7) SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'loose');
CREATE TABLE loose_2 PARTITION OF loose (PRIMARY KEY (id)) FOR VALUES IN (3, 4);
INSERT INTO loose VALUES (1, 'a', 'x'), (2, NULL, 'y'), (3, NULL, 'z'), (5, NULL, 'x'), (6, 'b', 'y'), (7, NULL, NULL);
SELECT index_table.create('loose', 'v', identity => 'id, kind');
SET index_table.enable_scan = force;
SELECT kind, id FROM loose WHERE v IN ('x', 'z') AND tableoid <> 0 ORDER BY id;
SELECT id, kind, tableoid::regclass FROM loose WHERE v = 'y';
SELECT same('SELECT id, kind, v, tableoid AS leaf FROM loose WHERE v IN (''x'', ''y'')');
SELECT id, kind, v FROM index_table.fetch(NULL::loose, 'loose_by_v');
SET index_table.shard_access = fdw;
SELECT id, kind, v FROM index_table.fetch(NULL::loose, 'loose_by_v');
RESET index_table.shard_access;
SELECT (entity).id, (entity).kind, next IS NULL AS last FROM index_table.page(NULL::loose, 'loose_by_v', 3, NULL);
-- Identities of which there are no arrays do for fetch alone.
CREATE TABLE shards.sets (id int[] NOT NULL, part int NOT NULL, v text, PRIMARY KEY (part, id));
CREATE TABLE sets (id int[] NOT NULL, part int NOT NULL, v text) PARTITION BY LIST (part);
CREATE FOREIGN TABLE sets_1 PARTITION OF sets FOR VALUES IN (1, 2) SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'sets');
CREATE TABLE sets_2 PARTITION OF sets (PRIMARY KEY (part, id)) FOR VALUES IN (3);
INSERT INTO sets VALUES ('{1}', 1, 'x'), ('{1, 2}', 1, 'y'), ('{1}', 2, 'z'), ('{}', 2, 'x'), ('{1}', 3, 'x');
SELECT index_table.create('sets', 'v', identity => 'id, part');
SELECT same('SELECT * FROM sets WHERE v IN (''x'', ''y'')');
SELECT * FROM index_table.fetch(NULL::sets, 'sets_by_v', 'x');
INSERT INTO recomputation VALUES ('loose_by_v', 'v, partition_id, id, kind', 'loose b', 'true'), ('sets_by_v', 'v, partition_id, id, part', 'sets b', 'true');
SELECT * FROM differences();
-- Types of one's own, which no server knows, do not do as identities for queries.
CREATE DOMAIN number AS int;
CREATE TABLE shards.own (id int PRIMARY KEY, v text);
CREATE TABLE own (id number, v text) PARTITION BY LIST (id);
CREATE FOREIGN TABLE own_1 PARTITION OF own FOR VALUES IN (1) SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'own');
CREATE TABLE own_2 PARTITION OF own (PRIMARY KEY (id)) FOR VALUES IN (2);
INSERT INTO own VALUES (1, 'x'), (2, 'x');
SELECT index_table.create('own', 'v', identity => 'id');
SELECT id FROM own WHERE v = 'x' ORDER BY id;
SELECT count(*) FROM plan('SELECT * FROM own WHERE v = ''x''') AS p WHERE p ~ 'Custom Scan';
-- Code of a type that asks the shard for other rows while one is read from it.
CREATE FUNCTION is_known(int) RETURNS boolean LANGUAGE plpgsql STABLE AS $$ BEGIN
    RETURN $1 > 2 OR EXISTS (SELECT FROM index_table.fetch(NULL::foreign_scan.loose, 'foreign_scan.loose_by_v', 'x') AS f WHERE f.id = $1);
END $$;
CREATE DOMAIN known AS int CHECK (is_known(VALUE));
CREATE TABLE shards.knows (id int PRIMARY KEY, of int, v text);
INSERT INTO shards.knows VALUES (1, 1, 'x'), (2, 5, 'x'), (3, 2, 'y');
CREATE FOREIGN TABLE knows (id int, of known, v text) SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'knows');
SELECT index_table.create('knows', 'v', identity => 'id');
SET index_table.enable_scan = force;
SELECT * FROM index_table.fetch(NULL::knows, 'knows_by_v', 'x');
SELECT * FROM knows WHERE v = 'x' ORDER BY id;
\set VERBOSITY sqlstate
SELECT * FROM knows WHERE v = 'y';
\set VERBOSITY default
SELECT * FROM knows WHERE v = 'x' ORDER BY id;
INSERT INTO recomputation VALUES ('knows_by_v', 'v, partition_id, id', 'knows b', 'true');
SELECT * FROM differences() AS d WHERE index_table = 'knows_by_v'::regclass;
-- A shard that was written to through a partition that has left since.
SET index_table.enable_scan = force;
CREATE TABLE shards.leaving (id int PRIMARY KEY, v text);
CREATE TABLE leaving (id int NOT NULL, v text) PARTITION BY LIST (id);
CREATE FOREIGN TABLE leaving_1 PARTITION OF leaving DEFAULT SERVER regress_scan_1 OPTIONS (schema_name 'shards', table_name 'leaving');
SELECT p FROM plan('SELECT * FROM people WHERE email = ''mail77''') AS p WHERE p ~ 'Shards';
BEGIN;
INSERT INTO leaving VALUES (1, 'x');
ALTER TABLE leaving DETACH PARTITION leaving_1;
SELECT p FROM plan('SELECT * FROM people WHERE email = ''mail77''') AS p WHERE p ~ 'Shards';
ROLLBACK;
RESET index_table.enable_scan;

DROP SCHEMA foreign_scan CASCADE;
DROP SCHEMA shards CASCADE;
DROP SERVER regress_scan_1 CASCADE;
DROP SERVER regress_scan_2 CASCADE;
DROP ROLE regress_scan_reader;
