-- The oracle: every index table that `recomputation` lists equals its recomputation from the base
-- table, byte by byte, in plain SQL. Created in the current schema; \i this file.
--   index_table  the index table
--   entry        its columns, in order, as expressions of rows and of p, which has the row's partition_id
--   rows         what goes into FROM; the base table is called b
--   condition    which rows have entries
\set ECHO none
CREATE TABLE recomputation (index_table regclass, entry text, rows text, condition text DEFAULT 'true');
CREATE FUNCTION differences() RETURNS TABLE (index_table regclass, problem text, entry text)
LANGUAGE plpgsql AS $$
DECLARE
    r recomputation;
BEGIN
    FOR r IN SELECT * FROM recomputation AS t ORDER BY t.index_table::text COLLATE "C" LOOP
        RETURN QUERY EXECUTE format('
            WITH recomputed AS (SELECT ROW(%1$s)::text AS entry FROM %2$s
                                  LEFT JOIN index_table.partition AS p ON p.relation = b.tableoid
                                 WHERE %3$s),
                 stored AS (SELECT whole::text AS entry FROM %4$s AS whole
                             WHERE partition_id IN (SELECT partition_id FROM index_table.partition))
            SELECT %4$L::regclass, ''missing'', m.entry FROM (TABLE recomputed EXCEPT ALL TABLE stored) AS m
            UNION ALL
            SELECT %4$L::regclass, ''surplus'', s.entry FROM (TABLE stored EXCEPT ALL TABLE recomputed) AS s
            ORDER BY 2, 3', r.entry, r.rows, r.condition, r.index_table);
    END LOOP;
END $$;
\set ECHO all
