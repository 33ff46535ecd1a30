-- Partitions come and go; what dead entries are left is counted, never seen, and vacuumed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA lifecycle;
SET search_path = lifecycle;
SET index_table.enable_scan = force;

CREATE TABLE events (id int, day date, kind text, tags text[], PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-01-02');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2024-01-02') TO ('2024-01-03') PARTITION BY HASH (id);
CREATE TABLE events_2_0 PARTITION OF events_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE events_2_1 PARTITION OF events_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE events_default PARTITION OF events DEFAULT;
INSERT INTO events SELECT i, date '2024-01-01' + i % 3, 'kind ' || i % 10, ARRAY['t' || i % 7, 't' || i % 5] FROM generate_series(1, 600) AS i;
SELECT index_table.create('events', 'kind');
SELECT index_table.create('events', 'kind, day', 'denormalized', name => 'events_wide', partitions => 2);
SELECT index_table.create('events', 'unnest(tags)', name => 'events_by_tag');
SELECT index_table.create('events', 'id', is_unique => true);

\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle
INSERT INTO recomputation VALUES
    ('events_by_kind', 'kind, partition_id, id, day', 'events b'),
    ('events_wide', 'kind, day, partition_id, id, tags', 'events b'),
    ('events_by_tag', 'tag, partition_id, id, day', 'events b CROSS JOIN LATERAL (SELECT DISTINCT unnest(b.tags) AS tag) AS t'),
    ('events_by_id', 'id, partition_id, day', 'events b');
CREATE FUNCTION stored() RETURNS TABLE (kind bigint, wide bigint, tag bigint, id bigint) LANGUAGE sql AS
$$ SELECT (SELECT count(*) FROM events_by_kind), (SELECT count(*) FROM events_wide), (SELECT count(*) FROM events_by_tag), (SELECT count(*) FROM events_by_id) $$;
SELECT * FROM differences();
SELECT * FROM stored();

-- Truncated: a partition, a sub-partitioned one, all; undone to a savepoint; with rows put back.
BEGIN;
TRUNCATE events_1;
SELECT count(*) FROM events WHERE kind = 'kind 3';
SAVEPOINT s;
TRUNCATE events_2;
SELECT count(*) FROM events WHERE kind = 'kind 3';
ROLLBACK TO s;
SELECT count(*) FROM events WHERE kind = 'kind 3';
SELECT * FROM differences();
ROLLBACK;
SELECT count(*) FROM events WHERE kind = 'kind 3';
SELECT count(*) FROM index_table.retired_partition;
TRUNCATE events_1, events_2_0;
INSERT INTO events SELECT i, '2024-01-01', 'new', '{t1}' FROM generate_series(3, 30, 3) AS i;
SELECT count(*) FROM events WHERE kind = 'kind 3';
SELECT * FROM differences();
SELECT * FROM stored();

-- Detached, attached again with other rows, dropped.
ALTER TABLE events DETACH PARTITION events_2;
SELECT count(*) FROM events WHERE kind = 'kind 1';
UPDATE events_2 SET kind = 'changed' WHERE id % 4 = 1;
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES FROM ('2024-01-02') TO ('2024-01-03');
SELECT count(*), count(*) FILTER (WHERE id % 4 = 1) FROM events WHERE kind = 'changed';
SELECT * FROM differences();
ALTER TABLE events DETACH PARTITION events_1;
INSERT INTO events_1 SELECT id, '2024-01-01', 'twice', '{}' FROM events ORDER BY id LIMIT 1;
ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM ('2024-01-01') TO ('2024-01-02');
\echo :SQLSTATE
SELECT count(*) FROM events WHERE kind = 'twice';
DROP TABLE events_1;
SELECT * FROM differences();

-- A row of a default partition goes to the partition made for it only when it is moved.
BEGIN;
WITH moved AS (DELETE FROM events_default WHERE day = '2024-01-03' RETURNING *) INSERT INTO events SELECT id, '2024-01-09', kind, tags FROM moved;
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('2024-01-03') TO ('2024-01-04');
UPDATE events SET day = '2024-01-03' WHERE day = '2024-01-09';
SELECT tableoid::regclass, count(*) FROM events WHERE kind = 'kind 2' GROUP BY 1 ORDER BY 1;
COMMIT;
SELECT * FROM differences();

-- Dead entries are stored until a vacuum; a unique key of theirs is free.
SELECT index_table, partition_id IS NOT NULL AS numbered FROM index_table.retired_partition GROUP BY 1, 2 ORDER BY 1;
SELECT index_table, entries > 0 AS entries, dead_entries > 0 AS dead, scans >= 0 AS scans FROM index_table.stat ORDER BY 1;
INSERT INTO events VALUES (3, '2024-01-05', 'free', '{}');
CREATE ROLE regress_lifecycle;
GRANT USAGE ON SCHEMA lifecycle TO regress_lifecycle;
SET ROLE regress_lifecycle;
SELECT index_table.vacuum('events_by_kind');
\echo :SQLSTATE
SELECT index_table.vacuum();
RESET ROLE;
DROP OWNED BY regress_lifecycle;
DROP ROLE regress_lifecycle;
SELECT index_table.vacuum('events');
\echo :SQLSTATE
SELECT index_table.vacuum('events_by_kind') > 0 AS removed;
SELECT index_table.vacuum('events_by_kind');
BEGIN;
SELECT index_table.vacuum('events_wide') > 0 AS removed;
ROLLBACK;
SELECT index_table, count(*) > 0 AS retired FROM index_table.retired_partition GROUP BY 1 ORDER BY 1;
SELECT index_table.vacuum() > 0 AS removed;
SELECT count(*) FROM index_table.retired_partition;
SELECT sum(dead_entries) FROM index_table.stat;
SELECT (s.kind, s.id) = (n, n) AS only_live FROM stored() AS s, (SELECT count(*) AS n FROM events) AS e;
SELECT * FROM differences();
-- Nor does a publication of all tables, in which index tables have no replica identity, matter.
TRUNCATE events_2_1;
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT index_table.vacuum() > 0 AS removed;
DROP PUBLICATION everything;
SELECT * FROM differences();
-- repair() vacuums as well.
TRUNCATE events_default;
SELECT index_table.repair('events_by_kind');
SELECT index_table FROM index_table.retired_partition ORDER BY 1;
DELETE FROM recomputation WHERE index_table = 'events_wide'::regclass;
SELECT index_table.drop('events_wide');
SELECT index_table FROM index_table.retired_partition ORDER BY 1;

SELECT count(*) FROM events WHERE kind IN ('kind 1', 'kind 2', 'kind 3', 'new', 'free', 'changed');
SET index_table.enable_scan = off;
SELECT count(*) FROM events WHERE kind IN ('kind 1', 'kind 2', 'kind 3', 'new', 'free', 'changed');
SELECT * FROM differences();
DROP SCHEMA lifecycle CASCADE;
SELECT (SELECT count(*) FROM index_table.definition) AS definitions,
       (SELECT count(*) FROM index_table.partition) AS partitions,
       (SELECT count(*) FROM index_table.retired_partition) AS retired;
