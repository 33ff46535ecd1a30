-- index_table.explain() says which indexes over all partitions a query uses, and why it does without the
-- others. It plans the query, once for each index, and runs nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
CREATE SCHEMA explain_index;
SET search_path = explain_index;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE jobs (id bigint, day int, status text, customer int, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
DO $$ BEGIN FOR i IN 0 .. 47 LOOP EXECUTE format('CREATE TABLE jobs_%s PARTITION OF jobs FOR VALUES FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END $$;
INSERT INTO jobs SELECT i, i % 48, CASE WHEN i % 500 = 0 THEN 'pending' ELSE 'done' END, i % 2000, repeat('n', 60) FROM generate_series(1, 20000) AS i;
CREATE INDEX jobs_id ON jobs USING global (id) WITH (unique);
CREATE INDEX jobs_status ON jobs USING global (status);
CREATE INDEX jobs_pending ON jobs USING global (day) WHERE status = 'pending';
SELECT index_table.create('jobs', 'customer', 'partial', include => 'note');
CREATE INDEX jobs_note ON jobs_by_customer (note);
CREATE TABLE others (id int PRIMARY KEY, label text);
INSERT INTO others SELECT i, 'o' || i FROM generate_series(1, 10) AS i;
VACUUM ANALYZE jobs;
VACUUM ANALYZE jobs_by_customer;
VACUUM ANALYZE others;

-- How the costs compare: of the best plan with the index, against the plan taken.
CREATE FUNCTION explained(query text, OUT index regclass, OUT used boolean, OUT costs text, OUT reason text) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT e.index, e.used,
           CASE WHEN e.cost_with_index IS NULL THEN 'no plan' WHEN e.cost_with_index < e.cost_taken THEN 'less'
                WHEN e.cost_with_index = e.cost_taken THEN 'same' ELSE 'more' END, e.reason
      FROM index_table.explain(query) AS e ORDER BY e.base_table::text, e.index::text $$;

SELECT * FROM explained('SELECT * FROM jobs WHERE id = 7');
SELECT * FROM explained('SELECT * FROM jobs WHERE status = ''pending'' AND customer = 500');
-- PostgreSQL's own plan costs less than one by an index of what nearly all rows have.
SELECT * FROM explained('SELECT * FROM jobs WHERE status = ''done''');
SELECT * FROM explained('SELECT * FROM jobs WHERE note = ''x''');
-- The partition key is determined.
SELECT * FROM explained('SELECT * FROM jobs WHERE day = 3 AND customer = 7');
-- The predicate is implied, and not.
SELECT * FROM explained('SELECT * FROM jobs WHERE day IN (3, 4) AND status = ''pending''') WHERE index = 'jobs_pending'::regclass;
SELECT * FROM explained('SELECT * FROM jobs WHERE day > 3') WHERE index = 'jobs_pending'::regclass;
-- An order, a join, and nothing.
SELECT * FROM explained('SELECT * FROM jobs ORDER BY id LIMIT 3');
SELECT * FROM explained('SELECT * FROM others JOIN jobs USING (id)');
SELECT * FROM explained('SELECT count(*) FROM jobs');
SELECT * FROM explained('SELECT * FROM jobs WHERE id = 1 AND false');
SELECT * FROM explained('SELECT 1');
SELECT * FROM explained('SELECT * FROM others');

SELECT * FROM explained('SELECT * FROM jobs WHERE id = 7 OR customer = 8') WHERE costs <> 'no plan';
SELECT * FROM explained('SELECT * FROM jobs WHERE status = ''done'' OR customer = 8') WHERE costs <> 'no plan';

-- Two references to the table; a view; a function that the planner replaces by its query; a subquery and a CTE.
SELECT * FROM explained('SELECT a.note, b.note FROM jobs a JOIN jobs b ON b.customer = a.customer WHERE a.id = 9');
CREATE VIEW pending AS SELECT id, customer FROM jobs WHERE status = 'pending';
SELECT * FROM explained('SELECT * FROM pending WHERE customer = 500');
CREATE FUNCTION done() RETURNS SETOF jobs STABLE LANGUAGE sql AS $$ SELECT * FROM explain_index.jobs WHERE status = 'done' $$;
SELECT * FROM explained('SELECT * FROM done() WHERE id = 7');
SELECT index, used FROM explained('WITH c AS MATERIALIZED (SELECT * FROM jobs WHERE customer = 3) SELECT *, (SELECT max(label) FROM others) FROM c');

-- A partition, ONLY, a sample, system columns.
SELECT DISTINCT used, costs, reason FROM explained('SELECT * FROM jobs_3 WHERE id = 7');
SELECT DISTINCT used, costs, reason FROM explained('SELECT * FROM ONLY jobs WHERE id = 7');
SELECT DISTINCT used, costs, reason FROM explained('SELECT * FROM jobs TABLESAMPLE SYSTEM (10) WHERE id = 7');
SELECT DISTINCT used, costs, reason FROM explained('SELECT xmin FROM jobs WHERE id = 7');

-- Changes are planned and not made; several base tables.
CREATE TABLE logs (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE logs_1 PARTITION OF logs FOR VALUES IN (1);
CREATE TABLE logs_2 PARTITION OF logs FOR VALUES IN (2);
CREATE INDEX logs_id ON logs USING global (id);
SELECT index, used, reason FROM explained('UPDATE jobs SET note = ''changed'' WHERE id = 7');
SELECT index, used, reason FROM explained('DELETE FROM jobs WHERE customer = 7 RETURNING *');
SELECT index, used, reason FROM explained('INSERT INTO logs SELECT id, 1 FROM jobs WHERE id = 8');
SELECT index, used, reason FROM explained('MERGE INTO jobs USING others ON jobs.id = others.id WHEN MATCHED THEN DELETE') WHERE index = 'jobs_id'::regclass;
SELECT count(*), count(*) FILTER (WHERE note = 'changed') AS changed FROM jobs;
SELECT count(*) FROM logs;
CREATE SEQUENCE called;
SELECT count(*) FROM explained('SELECT nextval(''called'') FROM jobs WHERE id = 7');
SELECT is_called FROM called;
-- What rules make of a query is explained, too.
CREATE TABLE watched (id int);
CREATE RULE also AS ON INSERT TO watched DO ALSO DELETE FROM jobs WHERE jobs.id = NEW.id;
SELECT index, used FROM explained('INSERT INTO watched VALUES (7)') WHERE used;

-- Parameters have no values, as in a generic plan.
SELECT index, used FROM explained('SELECT * FROM jobs WHERE id = $1') WHERE used;
SELECT index, used FROM explained('SELECT $1') WHERE used;

-- Indexes that may not be used.
SELECT index_table.set_visible('jobs_id', false), index_table.set_visible('jobs_by_customer', false);
SELECT * FROM explained('SELECT * FROM jobs WHERE id = 7 AND customer = 7');
SET index_table.use_invisible = on;
SELECT index, used FROM explained('SELECT * FROM jobs WHERE id = 7 AND customer = 7') WHERE used;
RESET index_table.use_invisible;
SELECT index_table.set_visible('jobs_id', true), index_table.set_visible('jobs_by_customer', true);
SET index_table.enable_scan = off;
SELECT index, used, reason FROM explained('SELECT * FROM jobs WHERE id = 7');
RESET index_table.enable_scan;
SET index_table.enable_scan = force;
SELECT index, used, costs FROM explained('SELECT * FROM jobs WHERE status = ''done''');
RESET index_table.enable_scan;
SET client_min_messages = error;
CREATE INDEX jobs_unfinished ON ONLY jobs USING global (note);
SET client_min_messages = warning;
SELECT * FROM explained('SELECT * FROM jobs WHERE note = ''x''') WHERE index = 'jobs_unfinished'::regclass;
DROP INDEX jobs_unfinished;

-- A trial leaves no trace after an error, and plans that are made meanwhile, of functions, are none of it.
CREATE FUNCTION fails(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN 1 / (i - i); END $$;
SELECT * FROM index_table.explain('SELECT * FROM jobs WHERE id = fails(1)');
CREATE FUNCTION looks(i int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM explain_index.logs WHERE id = i) + i; END $$;
SELECT index, used FROM explained('SELECT * FROM jobs WHERE id = looks(7)');
EXPLAIN (COSTS OFF) SELECT * FROM jobs WHERE id = 7;

-- What EXPLAIN needs is needed, and nothing else.
CREATE ROLE explain_reader;
GRANT USAGE ON SCHEMA explain_index TO explain_reader;
GRANT SELECT (id) ON jobs TO explain_reader;
GRANT SELECT ON pending TO explain_reader;
SET ROLE explain_reader;
SELECT index, used FROM explained('SELECT id FROM jobs WHERE id = 7') WHERE used;
SELECT index, used FROM explained('SELECT * FROM pending WHERE id = 7') WHERE used;
SELECT * FROM index_table.explain('SELECT note FROM jobs WHERE id = 7');
SELECT * FROM index_table.explain('DELETE FROM jobs WHERE id = 7');
RESET ROLE;
BEGIN READ ONLY;
SELECT index, used FROM explained('DELETE FROM jobs WHERE id = 7') WHERE used;
COMMIT;

-- What is none.
CREATE FUNCTION refused(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    PERFORM index_table.explain(query);
    RETURN 'explained';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws('; ', SQLSTATE, SQLERRM, NULLIF(hint, ''));
END $$;
SELECT q, refused(q) FROM unnest(ARRAY['SELECT 1; SELECT 2', ' ; ', 'CREATE TABLE x ()', 'EXPLAIN SELECT 1', 'SELECT 1 INTO x', 'EXECUTE x',
    'SELECT FROM WHERE', 'SELECT * FROM jobs WHERE id = $1 AND $2 IS NULL', 'VALUES (1)', 'TABLE jobs']) AS q;
SELECT * FROM index_table.explain('SELECT nothing FROM jobs');
SELECT * FROM index_table.explain(NULL);

-- The costs are those of EXPLAIN: of the plan taken, and of one that is forced to use the index. To those of
-- PostgreSQL's own plan is added what opening 48 partitions costs.
CREATE FUNCTION cost(query text, how text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    PERFORM set_config('index_table.enable_scan', how, true);
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    PERFORM set_config('index_table.enable_scan', 'on', true);
    RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
CREATE TABLE asked (number int, query text);
INSERT INTO asked VALUES (1, $$ SELECT * FROM jobs WHERE id = 7 $$), (2, $$ SELECT * FROM jobs WHERE customer = 7 $$),
    (3, $$ SELECT * FROM jobs WHERE customer BETWEEN 90 AND 100 ORDER BY customer $$), (4, $$ SELECT * FROM jobs WHERE status = 'done' $$);
SELECT number, used, round(abs(cost_taken - cost(query, 'on'))) AS opening, abs(cost_with_index - cost(query, 'force')) < 0.01 AS as_forced
  FROM asked, index_table.explain(query) WHERE cost_with_index IS NOT NULL ORDER BY number, index::text;

\set VERBOSITY terse
SET client_min_messages = error;
DROP SCHEMA explain_index CASCADE;
DROP ROLE explain_reader;
