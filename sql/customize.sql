-- What users add to an index table is honoured: indexes, constraints, triggers.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA customize;
SET search_path = customize;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

\set people :abs_srcdir '/sql/include/people.sql'
\i :people

INSERT INTO people (id, region, town, phone, age) SELECT i, 'south', 'Town ' || i % 3, i, i FROM generate_series(1, 20) AS i;

CREATE INDEX people_by_town_lower ON people_by_town (lower(town)) WHERE id > 5;
ALTER TABLE people_by_town ADD CONSTRAINT not_evil CHECK (town <> 'Evil') NOT VALID;
ALTER TABLE people_by_name_town ADD COLUMN noted text, ALTER COLUMN region SET NOT NULL;
CREATE TABLE journal (n serial, what text);
CREATE FUNCTION log_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO journal (what) VALUES (concat_ws(' ', TG_OP, 'from', OLD.town, OLD.id, 'to', NEW.town, NEW.id));
    RETURN NULL;
END $$;
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON people_by_town FOR EACH ROW EXECUTE FUNCTION log_entry();
\set VERBOSITY terse
UPDATE people SET town = 'Evil' WHERE id = 7;
\echo :SQLSTATE
INSERT INTO people (id, region, town, age) VALUES (30, 'north', 'Evil', 50);
\echo :SQLSTATE
\set VERBOSITY default
SELECT count(*) FROM people WHERE town = 'Evil';
INSERT INTO people (id, region, town) VALUES (31, 'north', 'Graz'), (32, 'south', 'Linz');
UPDATE people SET town = 'Wels' WHERE id = 31;
UPDATE people SET age = 1 WHERE id = 31;
UPDATE people SET region = 'west' WHERE id = 32;
DELETE FROM people WHERE id IN (31, 32);
SELECT what FROM journal ORDER BY n;
SET enable_seqscan = off;
SELECT count(*) FROM people_by_town WHERE lower(town) = 'town 1' AND id > 5;
RESET enable_seqscan;
SELECT count(*) FROM people WHERE lower(town) = 'town 1' AND id > 5;
UPDATE recomputation SET entry = entry || ', NULL' WHERE index_table = 'people_by_name_town'::regclass;
SELECT * FROM differences();
ALTER TABLE people_by_name_town DROP COLUMN noted;
UPDATE recomputation SET entry = replace(entry, ', NULL', '') WHERE index_table = 'people_by_name_town'::regclass;
UPDATE people SET name = 'n' || id, phone = phone || 'p';
SELECT * FROM differences();
-- Included columns change in place: an update of the entry, not another one.
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON people_by_name_town FOR EACH ROW EXECUTE FUNCTION log_entry();
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON people_by_label FOR EACH ROW EXECUTE FUNCTION log_entry();
TRUNCATE journal;
UPDATE people SET phone = 'p' || id WHERE id = 3;
UPDATE people SET age = age WHERE id = 3;
UPDATE people SET phone = phone WHERE id = 4;
UPDATE people SET age = 77 WHERE id = 5;
SELECT what FROM journal ORDER BY n;
-- Partial indexes of the owner's do not find the entries that they leave out.
CREATE INDEX ON people_by_name_town (name DESC, town, id, region, partition_id) WHERE name IS NOT NULL;
CREATE INDEX ON people_by_town (town, id, region, partition_id) WHERE town IS NOT NULL;
CREATE INDEX ON people_by_phone (phone, id, region, partition_id) WHERE phone IS NOT NULL;
CREATE INDEX ON people_by_phone (phone, id, region, partition_id) WHERE phone IS NULL AND id > 1000;
UPDATE people SET name = NULL, town = NULL, phone = NULL WHERE id IN (3, 4, 5, 6);
UPDATE people SET name = 'back', town = 'Back', phone = 'b' || id WHERE id IN (3, 5);
DELETE FROM people WHERE id = 4;
SELECT * FROM differences();
-- Without its index an index table cannot be kept.
DROP INDEX elders_idx;
\echo :SQLSTATE
-- CONCURRENTLY would commit that it is none any more before it is refused.
DROP INDEX CONCURRENTLY elders_idx;
\echo :SQLSTATE
DROP INDEX CONCURRENTLY IF EXISTS no_such_index;
SELECT indisvalid, indisready, indislive FROM pg_index WHERE indexrelid = 'elders_idx'::regclass;
CREATE INDEX elders_more ON elders (partition_id);
DROP INDEX CONCURRENTLY elders_more;
ALTER EVENT TRIGGER index_table_drop DISABLE;
DROP INDEX elders_idx;
ALTER EVENT TRIGGER index_table_drop ENABLE ALWAYS;
UPDATE people SET age = 100 WHERE id = 20;
\echo :SQLSTATE
UPDATE people SET phone = 'unused by elders' WHERE id = 20;
DROP TABLE elders;
DELETE FROM recomputation WHERE index_table::text NOT LIKE 'people%';
UPDATE people SET age = 100 WHERE id = 20;
SELECT * FROM differences();

-- Whatever a session has forgotten and found again, it writes to index tables in one order.
CREATE TABLE told (n serial, id int, name name);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO told (id, name) VALUES (NEW.id, TG_TABLE_NAME); RETURN NEW; END $$;
CREATE TABLE ordered (id int PRIMARY KEY, a int, b int);
SELECT index_table.create('ordered', 'a', name => 'ordered_1', is_unique => true);
SELECT index_table.create('ordered', 'b', name => 'ordered_2', is_unique => true);
CREATE TRIGGER tell AFTER INSERT ON ordered_1 FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tell AFTER INSERT ON ordered_2 FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO ordered VALUES (1, 1, 1);
ALTER TABLE ordered ADD COLUMN c int;
UPDATE ordered SET b = -b;
INSERT INTO ordered VALUES (2, 2, 2);
ALTER TABLE ordered ADD COLUMN d int;
UPDATE ordered SET a = -a;
INSERT INTO ordered VALUES (3, 3, 3);
-- The trigger's own statement has the rest flushed, before it inserts.
SELECT id, string_agg(name, ', ' ORDER BY n) FROM told GROUP BY id ORDER BY id;
INSERT INTO recomputation VALUES ('ordered_1', 'b.a, p.partition_id, b.id', 'ordered AS b'),
                                 ('ordered_2', 'b.b, p.partition_id, b.id', 'ordered AS b');
SELECT * FROM differences();

DROP SCHEMA customize CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
