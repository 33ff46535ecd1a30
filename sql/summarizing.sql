-- Owners' indexes that summarize pages (BRIN). Since PostgreSQL 16 an entry that changes in their
-- columns alone may stay heap-only: they are told of it, and no other index may be.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA summarizing;
SET search_path = summarizing;

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

CREATE TABLE visits (id int PRIMARY KEY, town text, mail text, n int, note text) PARTITION BY HASH (id);
CREATE TABLE visits_0 PARTITION OF visits FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO visits SELECT i, 'Town ' || i % 20, 'mail' || i, i, 'note' FROM generate_series(1, 400) AS i;
SELECT index_table.create('visits', 'town', 'partial', include => 'n');
SELECT index_table.create('visits', 'mail', 'partial', include => 'n', is_unique => true);
SELECT index_table.create('visits', 'note', 'partial', include => 'n', partitions => 2);
SELECT index_table.create('visits', 'note, town', 'denormalized', name => 'fired');
INSERT INTO recomputation VALUES
    ('visits_by_town', 'town, partition_id, id, n', 'visits b', 'true'),
    ('visits_by_mail', 'mail, partition_id, id, n', 'visits b', 'true'),
    ('visits_by_note', 'note, partition_id, id, n', 'visits b', 'true'),
    ('fired', 'note, town, partition_id, id, mail, n', 'visits b', 'true');

-- What every index has, in so far as there is amcheck to say.
CREATE FUNCTION damage() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    heap regclass;
    index regclass;
    message text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck') THEN
        RETURN;
    END IF;
    CREATE SCHEMA IF NOT EXISTS checks;
    CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA checks;
    FOR heap IN SELECT c.oid FROM pg_class AS c, recomputation AS r
                 WHERE c.relkind = 'r' AND (c.oid = r.index_table OR c.oid IN (SELECT t.relid FROM pg_partition_tree(r.index_table) AS t)) LOOP
        RETURN QUERY SELECT format('%s: %s', heap, v.msg) FROM checks.verify_heapam(heap) AS v;
        FOR index IN SELECT i.indexrelid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
                      WHERE i.indrelid = heap AND c.relam = (SELECT a.oid FROM pg_am AS a WHERE a.amname = 'btree') LOOP
            BEGIN
                PERFORM checks.bt_index_check(index, true);
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
                RETURN NEXT message;
            END;
        END LOOP;
    END LOOP;
END $$;

CREATE INDEX town_n ON visits_by_town USING brin (n) WITH (pages_per_range = 1);
CREATE INDEX town_again ON visits_by_town (town);
CREATE INDEX mail_n ON visits_by_mail USING brin (n) WITH (pages_per_range = 1);
CREATE INDEX note_n ON visits_by_note USING brin (n) WITH (pages_per_range = 1);
-- An expression over a column that changes is no summary: then every index is told.
CREATE INDEX fired_n ON fired USING brin (n) WITH (pages_per_range = 1);
CREATE INDEX fired_odd ON fired ((n % 7)) WHERE n > 100;
CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER ignore AFTER UPDATE ON fired FOR EACH ROW EXECUTE FUNCTION ignore();
-- Where a foreign key is looked up in the middle of a statement, entries are written there.
CREATE TABLE letters (mail text REFERENCES visits_by_mail (mail) ON UPDATE CASCADE);
INSERT INTO letters VALUES ('mail5');

-- Pages with room, so that entries stay on them; many versions of an entry, pruned in between.
CREATE PROCEDURE change(step int) LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN 1 .. 6 LOOP
        UPDATE visits SET n = n + step WHERE id % 5 = round % 5;
        INSERT INTO visits SELECT 1000 * round + i, 'Town ' || i % 20, format('mail%s.%s', round, i), i, 'new' FROM generate_series(1, 60) AS i;
        UPDATE visits SET n = n - step, town = 'Elsewhere' WHERE id % 7 = round;
        DELETE FROM visits WHERE id > 1000 AND id % 2 = 0;
    END LOOP;
    DELETE FROM visits WHERE id > 1000;
END $$;
VACUUM visits_by_town, visits_by_mail, visits_by_note, fired;
CALL change(1);
SELECT * FROM damage();
VACUUM visits_by_town, visits_by_mail, visits_by_note, fired, visits;
CALL change(1000);
SELECT * FROM damage();
VACUUM visits_by_town, visits_by_mail, visits_by_note, fired, visits;
UPDATE visits SET n = n + 1 WHERE id = 5;
BEGIN;
UPDATE visits SET n = n + 1, note = 'rolled back' WHERE id < 50;
SAVEPOINT a;
UPDATE visits SET n = n + 1;
ROLLBACK TO a;
UPDATE visits SET n = n + 1 WHERE id > 350;
ROLLBACK;
CALL change(-1);
SELECT * FROM damage();
-- The summaries know the new values.
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT count(*) FROM visits_by_town WHERE n > 1000;
SELECT count(*) FROM visits_by_mail WHERE n > 1000;
SELECT count(*) FROM fired WHERE n > 1000;
SELECT count(*) FROM visits_by_town WHERE n <= 100;
RESET enable_indexscan;
RESET enable_seqscan;
SELECT count(*), count(*) FILTER (WHERE n <= 100) FROM visits WHERE n > 1000 OR n <= 100;
-- Writing goes on.
UPDATE visits SET mail = 'x' || mail, town = 'Last', note = 'last', n = 0;
SELECT * FROM letters;
SELECT * FROM differences();
SELECT v.* FROM recomputation AS r, index_table.verify(r.index_table) AS v;

DROP SCHEMA summarizing CASCADE;
DROP SCHEMA IF EXISTS checks CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
