-- What is remembered until a transaction ends, of tables that a savepoint takes back, or that are dropped meanwhile.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA savepoints;
SET search_path = savepoints;
\set VERBOSITY terse

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
\set loopback :abs_srcdir '/sql/include/loopback.sql'
\i :loopback
-- Later commands of the transaction, each of which is looked at for what was written before.
CREATE TABLE other (id int PRIMARY KEY, town text) PARTITION BY HASH (id);
CREATE TABLE other_0 PARTITION OF other FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT index_table.create('other', 'town');
INSERT INTO recomputation VALUES ('other_by_town', 'town, partition_id, id', 'other b', 'true');

-- Tables that have nothing to do with the extension.
BEGIN;
SAVEPOINT a;
CREATE TABLE made (a int, b int) PARTITION BY HASH (b);
CREATE TABLE made_0 PARTITION OF made FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO made VALUES (1, 1);
SAVEPOINT b;
UPDATE made SET a = 2;
RELEASE b;
ROLLBACK TO a;
ALTER TABLE other ADD COLUMN more int;
DROP TABLE IF EXISTS made;
ROLLBACK;
-- Also where the first to write is a subtransaction below the one that made it.
DO $$ BEGIN
    BEGIN
        CREATE TABLE made (a int) PARTITION BY RANGE (a);
        CREATE TABLE made_0 PARTITION OF made DEFAULT;
        BEGIN
            INSERT INTO made VALUES (1);
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    DROP TABLE IF EXISTS made;
    ALTER TABLE other ADD COLUMN more int;
    ALTER TABLE other DROP COLUMN more;
END $$;
-- COPY, TRUNCATE.
BEGIN;
SAVEPOINT a;
CREATE TABLE made (a int) PARTITION BY RANGE (a);
CREATE TABLE made_0 PARTITION OF made DEFAULT;
COPY made FROM stdin;
1
\.
TRUNCATE made;
ROLLBACK TO a;
ALTER TABLE other ADD COLUMN more int;
ROLLBACK;
-- Tables that go by commands that do not name them.
CREATE ROLE regress_savepoints;
GRANT CREATE, USAGE ON SCHEMA savepoints TO regress_savepoints;
BEGIN;
SET LOCAL ROLE regress_savepoints;
CREATE TABLE made (a int) PARTITION BY RANGE (a);
CREATE TABLE made_0 PARTITION OF made DEFAULT;
INSERT INTO made VALUES (1);
RESET ROLE;
DROP OWNED BY regress_savepoints;
ALTER TABLE other ADD COLUMN more int;
ROLLBACK;
BEGIN;
CREATE TEMP TABLE made (a int) PARTITION BY RANGE (a);
CREATE TEMP TABLE made_0 PARTITION OF made DEFAULT;
INSERT INTO made VALUES (1);
DISCARD TEMP;
ALTER TABLE other ADD COLUMN more int;
ROLLBACK;
DROP OWNED BY regress_savepoints;
DROP ROLE regress_savepoints;

-- Base tables, captured tables, foreign partitions and their intents.
CREATE TABLE remote (id int PRIMARY KEY, town text, part int);
BEGIN;
SAVEPOINT a;
CREATE TABLE made (id int NOT NULL, town text, part int NOT NULL) PARTITION BY LIST (part);
CREATE TABLE made_0 PARTITION OF made (PRIMARY KEY (id)) FOR VALUES IN (0);
CREATE FOREIGN TABLE made_1 PARTITION OF made FOR VALUES IN (1) SERVER regress_shard OPTIONS (schema_name 'savepoints', table_name 'remote');
SELECT index_table.create('made', 'town', is_unique => true, identity => 'id');
INSERT INTO made VALUES (1, 'a', 0), (2, 'b', 1);
CREATE TABLE later (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE later_0 PARTITION OF later DEFAULT;
SELECT index_table.create('later', 'town', maintenance => 'deferred');
INSERT INTO later VALUES (1, 'a');
CREATE TABLE captured (id int PRIMARY KEY, town text) PARTITION BY RANGE (id);
CREATE TABLE captured_0 PARTITION OF captured DEFAULT;
SELECT index_table.capture('captured');
INSERT INTO captured VALUES (1, 'a');
TRUNCATE made_0;
DROP TABLE captured_0;
ROLLBACK TO a;
INSERT INTO other VALUES (1, 'a');
ALTER TABLE other ADD COLUMN more int;
CREATE TABLE plain (id int);
DROP TABLE plain;
TRUNCATE other;
INSERT INTO other VALUES (2, 'b');
COMMIT;
SELECT count(*) FROM index_table.intent;
SELECT * FROM differences();
-- What was written before the savepoint is still known after it, and what a released one has written.
CREATE TABLE mixed (id int NOT NULL, town text, part int NOT NULL) PARTITION BY LIST (part);
CREATE TABLE mixed_0 PARTITION OF mixed (PRIMARY KEY (id)) FOR VALUES IN (0);
CREATE FOREIGN TABLE mixed_1 PARTITION OF mixed FOR VALUES IN (1) SERVER regress_shard OPTIONS (schema_name 'savepoints', table_name 'remote');
SELECT index_table.create('mixed', 'town', identity => 'id');
INSERT INTO recomputation VALUES ('mixed_by_town', 'town, partition_id, id', 'mixed b', 'true');
SET index_table.enable_scan = force;
BEGIN;
INSERT INTO mixed VALUES (1, 'a', 0), (2, 'a', 1);
SAVEPOINT a;
INSERT INTO mixed VALUES (3, 'a', 1);
SELECT id FROM mixed WHERE town = 'a' ORDER BY id;
ROLLBACK TO a;
SELECT id FROM mixed WHERE town = 'a' ORDER BY id;
SAVEPOINT b;
INSERT INTO mixed VALUES (4, 'a', 1);
RELEASE b;
SELECT id FROM mixed WHERE town = 'a' ORDER BY id;
COMMIT;
BEGIN;
SAVEPOINT a;
INSERT INTO mixed VALUES (5, 'a', 1);
RELEASE a;
SAVEPOINT b;
ROLLBACK TO b;
SELECT id FROM mixed WHERE town = 'a' ORDER BY id;
COMMIT;
RESET index_table.enable_scan;
SELECT * FROM differences();

DROP SCHEMA savepoints CASCADE;
DROP SERVER regress_shard CASCADE;
DROP SCHEMA extensions CASCADE;
