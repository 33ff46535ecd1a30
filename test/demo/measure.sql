-- What measures a tour's queries.

CREATE SCHEMA demo;

-- Every measured time and size. value: milliseconds or bytes.
CREATE TABLE demo.measure (
    step    text   NOT NULL,
    variant text   NOT NULL,
    what    text   NOT NULL,
    value   float8 NOT NULL
);

CREATE VIEW demo.result AS
    SELECT step, variant, what, percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS value
      FROM demo.measure GROUP BY step, variant, what;

-- A table cell: a value, and how it compares with the native one.
CREATE FUNCTION demo.cell(value float8, native float8 DEFAULT NULL, decimals int DEFAULT 0) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT lpad(to_char(value, 'FM999,990' || CASE WHEN decimals > 0 THEN '.' || repeat('0', decimals) ELSE '' END), 8)
        || CASE WHEN native > 0 THEN lpad(' (' || to_char(value / native, 'FM9990.00') || 'x)', 9) ELSE '' END
$$;

-- The same, for times of which less is better by far.
CREATE FUNCTION demo.faster(value float8, native float8) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(value, '990.000')
        || CASE WHEN native > 0 THEN lpad(' (' || to_char(native / value, 'FM9990.0') || 'x faster)', 16) ELSE '' END
$$;

-- Runs a query once for each key, and records the median time of one run. The query
-- names the key's parts $1 and $2. Planned anew each time, or once for all of them.
CREATE TYPE demo.key AS (part1 text, part2 text);

CREATE FUNCTION demo.time_lookups(step text, variant text, what text, query text, keys demo.key[],
                                  prepared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    statement text := CASE WHEN prepared
        THEN replace(replace(query, '$1', 'k.part1'), '$2', 'k.part2')
        ELSE format('EXECUTE %L USING k.part1, k.part2', query) END;
BEGIN
    EXECUTE format($body$
        CREATE FUNCTION pg_temp.timed_run(keys demo.key[]) RETURNS float8[]
        LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $run$
        DECLARE
            k demo.key;
            found_row record;
            begun timestamptz;
            times float8[] := '{}';
        BEGIN
            FOREACH k IN ARRAY keys LOOP
                begun := clock_timestamp();
                FOR found_row IN %s LOOP END LOOP;
                times := times || 1000 * extract(epoch FROM clock_timestamp() - begun)::float8;
            END LOOP;
            RETURN times;
        END $run$ $body$, statement);
    INSERT INTO demo.measure SELECT step, variant, what, t FROM unnest(pg_temp.timed_run(keys)) t;
    DROP FUNCTION pg_temp.timed_run(demo.key[]);
END $$;

-- Bytes of a table's indexes of one definition, on every partition.
CREATE FUNCTION demo.index_bytes(index_name regclass) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT sum(pg_relation_size(relid))::bigint FROM pg_partition_tree(index_name)
$$;
