-- The costs of whole plans decide between indexes of the base table and PostgreSQL's own way over the
-- partitions: of each query the plan that is made costs no more than the cheaper of the two that are
-- made with index_table.enable_scan = force and off.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA whole_plans;
SET search_path = whole_plans;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE jobs (id bigint, day int, status text, customer int, created timestamptz, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
DO $$ BEGIN FOR i IN 0 .. 47 LOOP EXECUTE format('CREATE TABLE jobs_%s PARTITION OF jobs FOR VALUES FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END $$;
INSERT INTO jobs SELECT i, i % 48, CASE WHEN i % 500 = 0 THEN 'pending' ELSE 'done' END, i % 2000, timestamptz '2026-01-01' + i * interval '1 min', repeat('n', 60)
    FROM generate_series(1, 40000) AS i;
CREATE INDEX ON jobs (created);
CREATE INDEX jobs_id ON jobs USING global (id) WITH (unique);
CREATE INDEX jobs_status ON jobs USING global (status);
SELECT index_table.create('jobs', 'customer', 'denormalized');
CREATE TABLE wanted AS SELECT i AS id, i % 2000 AS customer FROM generate_series(1, 20000) AS i;
CREATE TABLE few AS SELECT i AS id, i AS customer FROM generate_series(1, 5) AS i;
VACUUM ANALYZE jobs;
VACUUM ANALYZE wanted;
VACUUM ANALYZE few;

CREATE FUNCTION plan(query text, how text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    PERFORM set_config('index_table.enable_scan', how, true);
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan';
END $$;
-- What reads jobs; and whether the plan is no dearer than the cheaper one. The planner does not count
-- that partitions are opened, 48 pages. A plan that costs less than planning 48 partitions with six indexes
-- each takes, 600 units, is taken at once.
CREATE FUNCTION choice(query text, OUT reads text, OUT is_cheapest boolean) LANGUAGE plpgsql AS $$
DECLARE
    chosen jsonb := plan(query, 'on');
    natively float8 := plan(query, 'off') ->> 'Total Cost';
    forced float8 := plan(query, 'force') ->> 'Total Cost';
BEGIN
    is_cheapest := (chosen ->> 'Total Cost')::float8 <= greatest(least(natively + 2 * 48, forced), 600) + 0.01;
    reads := concat_ws(', ', CASE WHEN chosen::text ~ '"(Global Index|Index Table)":' THEN 'index' END,
        CASE WHEN chosen::text ~ '"Custom Plan Provider": "All Partitions Scan"' THEN 'all partitions' END, CASE WHEN chosen::text ~ '"jobs_\d' THEN 'partitions' END);
END $$;
CREATE TABLE asked (number int GENERATED ALWAYS AS IDENTITY, query text);

-- A subquery or CTE leads to few rows.
INSERT INTO asked (query) VALUES
    ($$ SELECT * FROM jobs JOIN (SELECT id FROM wanted LIMIT 10) s USING (id) $$),
    ($$ SELECT * FROM jobs JOIN (SELECT id FROM few OFFSET 0) s USING (id) $$),
    ($$ SELECT * FROM jobs JOIN (SELECT DISTINCT id FROM few) s USING (id) $$),
    ($$ SELECT * FROM jobs JOIN (SELECT id, count(*) FROM few GROUP BY id) s USING (id) $$),
    ($$ WITH s AS MATERIALIZED (SELECT id FROM few) SELECT * FROM jobs JOIN s USING (id) $$),
    ($$ WITH s AS (INSERT INTO few VALUES (6, 6) RETURNING id) SELECT * FROM jobs JOIN s USING (id) $$),
    ($$ SELECT * FROM jobs WHERE id IN (SELECT id FROM wanted ORDER BY id LIMIT 5) $$),
    ($$ UPDATE jobs SET note = 'n' WHERE id IN (SELECT id FROM jobs WHERE status = 'pending' ORDER BY created LIMIT 10 FOR UPDATE SKIP LOCKED) $$),
    ($$ DELETE FROM jobs WHERE id IN (SELECT id FROM few OFFSET 1) $$),
    ($$ SELECT (SELECT note FROM jobs WHERE jobs.id = few.id) FROM few $$),
    ($$ SELECT * FROM few WHERE EXISTS (SELECT FROM jobs WHERE jobs.id = few.id) $$),
    ($$ SELECT * FROM few CROSS JOIN LATERAL (SELECT note FROM jobs WHERE jobs.id = few.id LIMIT 1) AS j $$),
    ($$ SELECT * FROM few LEFT JOIN jobs ON jobs.id = few.id $$),
    ($$ SELECT * FROM jobs WHERE id = 7 UNION ALL SELECT * FROM jobs WHERE customer = 7 $$),
    ($$ SELECT * FROM jobs WHERE id = 7 OR customer = 8 $$);
SELECT number, c.* FROM asked, choice(query) AS c ORDER BY number;
TRUNCATE asked;

-- An index on what nearly all rows have keeps no other index, local ones neither, from being used.
INSERT INTO asked (query) VALUES
    ($$ SELECT * FROM jobs WHERE status = 'done' AND created = timestamptz '2026-01-02' $$),
    ($$ SELECT * FROM jobs WHERE status = 'done' ORDER BY created LIMIT 10 $$),
    ($$ SELECT * FROM jobs WHERE status = 'done' AND id = 77 $$),
    ($$ UPDATE jobs SET note = 'n' WHERE status = 'done' AND created = timestamptz '2026-01-02' $$),
    ($$ SELECT * FROM jobs WHERE status = 'done' $$),
    ($$ SELECT count(note) FROM jobs WHERE customer < 1500 $$),
    ($$ SELECT status, count(*) FROM jobs GROUP BY status $$),
    ($$ SELECT * FROM jobs JOIN wanted USING (customer) $$),
    ($$ SELECT * FROM jobs WHERE id NOT IN (SELECT id FROM wanted) $$),
    ($$ SELECT a.id FROM jobs a JOIN jobs b ON b.id = a.id + 1 WHERE b.status = 'done' AND a.created < timestamptz '2026-01-01 00:03' $$),
    ($$ SELECT a.note, b.note FROM jobs a JOIN jobs b ON b.customer = a.customer WHERE a.id = 9 $$),
    ($$ SELECT sum(id) OVER (PARTITION BY customer) FROM jobs WHERE status = 'done' $$),
    ($$ WITH RECURSIVE r (id, n) AS (SELECT 1::bigint, 1 UNION ALL SELECT jobs.id + 1, n + 1 FROM r JOIN jobs USING (id) WHERE n < 5) SELECT * FROM r $$),
    ($$ SELECT * FROM jobs WHERE status = 'pending' AND day < 3 $$),
    ($$ SELECT * FROM jobs WHERE status = 'pending' AND day = 3 $$);
SELECT number, c.* FROM asked, choice(query) AS c ORDER BY number;

-- A function that the planner replaces by its query.
CREATE FUNCTION done_jobs() RETURNS SETOF jobs STABLE LANGUAGE sql AS $$ SELECT * FROM whole_plans.jobs WHERE status = 'done' $$;
INSERT INTO asked (query) VALUES
    ($$ SELECT * FROM done_jobs() WHERE created = timestamptz '2026-01-02' $$),
    ($$ SELECT * FROM done_jobs() WHERE id = 7 $$);
SELECT number, c.* FROM asked, choice(query) AS c WHERE number > 30 ORDER BY number;

-- The same rows, whatever is chosen.
CREATE FUNCTION is_same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    rows text[] := '{}';
    result text;
    how text;
BEGIN
    FOREACH how IN ARRAY '{on, off, force}'::text[] LOOP
        PERFORM set_config('index_table.enable_scan', how, true);
        EXECUTE format('SELECT md5(string_agg(r::text, %L ORDER BY r::text)) FROM (%s) AS r', ' ', query) INTO result;
        rows := rows || coalesce(result, 'none');
    END LOOP;
    RETURN rows[1] = rows[2] AND rows[1] = rows[3];
END $$;
SELECT number, is_same(query) FROM asked WHERE query !~ 'UPDATE|DELETE|INSERT|LIMIT' ORDER BY number;

-- A prepared statement: of a rare value by the index, of the other by the partitions; generic plans are
-- compared with custom ones as ever.
PREPARE by_status (text) AS SELECT count(note) FROM jobs WHERE status = $1;
CREATE FUNCTION executed(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT JSON) EXECUTE by_status(%L)', value) INTO plan;
    RETURN CASE WHEN plan::text ~ '"Global Index":' THEN 'index' ELSE 'partitions' END;
END $$;
SELECT executed('pending'), executed('done') FROM generate_series(1, 4);
SELECT executed('pending'), executed('done');
DEALLOCATE by_status;

DROP SCHEMA whole_plans CASCADE;
