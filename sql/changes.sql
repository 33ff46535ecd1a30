-- UPDATE, DELETE, MERGE and locks that find their rows through index tables, against the same natively.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS index_table;
LOAD 'index_table';
CREATE SCHEMA changes;
SET search_path = changes;
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle :abs_srcdir '/sql/include/oracle.sql'
\i :oracle

-- One partition has a layout of its own.
CREATE TABLE goods (id int PRIMARY KEY, k int, a text, b int, label text GENERATED ALWAYS AS (a || '/' || b::text) STORED) PARTITION BY HASH (id);
CREATE TABLE goods_0 PARTITION OF goods FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE goods_1 PARTITION OF goods FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE goods_2 (b int, gone int, label text GENERATED ALWAYS AS (a || '/' || b::text) STORED, a text, k int, id int NOT NULL);
ALTER TABLE goods_2 DROP COLUMN gone;
ALTER TABLE goods ATTACH PARTITION goods_2 FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO goods SELECT i, i % 5, 'a' || i, i FROM generate_series(1, 20) AS i;
SELECT index_table.create('goods', 'k', name => 'goods_by_k');
INSERT INTO recomputation VALUES ('goods_by_k', 'k, partition_id, id', 'goods b');
CREATE TABLE news (k int, id int, v int);
INSERT INTO news VALUES (1, 101, 7), (2, 102, 8), (70, 103, 9), (71, 104, 9), (72, 105, 9);
CREATE TABLE fired (line text);
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fired VALUES (format('%s %s %s %s %s', TG_NAME, TG_WHEN, TG_OP, OLD::text, NEW::text));
    RETURN NULL;
END $$;
CREATE TRIGGER of_b AFTER UPDATE OF b ON goods FOR EACH ROW EXECUTE FUNCTION fire();
CREATE TRIGGER of_label AFTER UPDATE OF label ON goods FOR EACH ROW EXECUTE FUNCTION fire();
CREATE TRIGGER of_k AFTER UPDATE OF k ON goods_2 FOR EACH ROW EXECUTE FUNCTION fire();
CREATE TRIGGER inserted AFTER INSERT ON goods FOR EACH ROW EXECUTE FUNCTION fire();

-- Whether a statement does the same through index tables, to rows and to triggers; it is undone.
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    side text;
    line text;
    results text[] := '{}';
    result text;
    is_switched boolean := false;
BEGIN
    FOREACH side IN ARRAY ARRAY['off', 'force'] LOOP
        PERFORM set_config('index_table.enable_scan', side, true);
        FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
            is_switched := is_switched OR side = 'force' AND line ~ 'Index Table Row Switch';
        END LOOP;
        BEGIN
            EXECUTE statement;
            PERFORM set_config('index_table.enable_scan', 'off', true);
            SELECT string_agg(s.line, E'\n' ORDER BY s.line) INTO result
              FROM (SELECT tableoid::regclass || g::text FROM goods AS g UNION ALL SELECT f.line FROM fired AS f) AS s(line);
            result := coalesce(result, '') || coalesce((SELECT string_agg(d::text, ' ') FROM differences() AS d), '');
            RAISE EXCEPTION 'undo';
        EXCEPTION WHEN OTHERS THEN
            IF SQLERRM <> 'undo' THEN result := 'failed: ' || SQLERRM; END IF;
        END;
        results := results || result;
    END LOOP;
    RETURN CASE WHEN NOT is_switched THEN 'planned natively' WHEN results[1] = results[2] AND results[1] !~ '^failed' THEN 'same' ELSE results[1] || E'\n--\n' || results[2] END;
END $$;

SELECT same('UPDATE goods SET b = b + 1 WHERE k = 2');
SELECT same('UPDATE goods SET a = ''x'', k = 7 WHERE k IN (2, 3)');
SELECT same('UPDATE goods SET id = id + 100 WHERE k = 2');
SELECT same('DELETE FROM goods WHERE k = 2');
-- Triggers of generated columns fire as PostgreSQL decides for MERGE.
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k WHEN MATCHED THEN UPDATE SET k = 50');
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k WHEN MATCHED THEN UPDATE SET b = n.v');
-- Rows that MERGE inserts or moves go to partitions that no row has come from.
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k WHEN MATCHED THEN UPDATE SET (a, b) = (SELECT ''s'', count(*) FROM news AS m WHERE m.v > g.b) WHEN NOT MATCHED THEN INSERT (id, k) VALUES (n.id, n.k)');
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id, k) VALUES (n.id, n.k)');
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k AND g.id = 1 WHEN MATCHED AND n.v = 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET id = 31');
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k AND g.id = 1 WHEN MATCHED AND n.v = 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET id = 32');
SELECT same('MERGE INTO goods AS g USING news AS n ON g.k = n.k AND g.id = 1 WHEN MATCHED AND n.v = 0 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET id = 33');
-- A partition that publishes its changes and has no replica identity refuses them by MERGE as by UPDATE.
CREATE PUBLICATION changes_of_goods FOR TABLE goods;
ALTER TABLE goods_0 REPLICA IDENTITY NOTHING;
ALTER TABLE goods_1 REPLICA IDENTITY NOTHING;
ALTER TABLE goods_2 REPLICA IDENTITY NOTHING;
SET index_table.enable_scan = force;
\set VERBOSITY sqlstate
UPDATE goods SET b = 1 WHERE k = 2;
MERGE INTO goods AS g USING (VALUES (2)) AS n(k) ON g.k = n.k WHEN MATCHED THEN UPDATE SET b = 1;
MERGE INTO goods AS g USING (VALUES (2)) AS n(k) ON g.k = n.k WHEN MATCHED AND g.id < 0 THEN DO NOTHING WHEN MATCHED THEN DELETE;
MERGE INTO goods AS g USING (VALUES (2)) AS n(k) ON g.k = n.k WHEN MATCHED THEN DO NOTHING;
\set VERBOSITY default
RESET index_table.enable_scan;
DROP PUBLICATION changes_of_goods;
SELECT * FROM differences();

-- Rows leave a partition of a partition: foreign keys are told of every table above it, each locked, before the partition.
CREATE TABLE deep (id int, p text, r int, u int, PRIMARY KEY (id, p, r)) PARTITION BY LIST (p);
CREATE TABLE deep_n PARTITION OF deep FOR VALUES IN ('n') PARTITION BY RANGE (r);
CREATE TABLE deep_n0 PARTITION OF deep_n FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (r);
CREATE TABLE deep_n00 PARTITION OF deep_n0 FOR VALUES FROM (0) TO (5);
CREATE TABLE deep_n01 PARTITION OF deep_n0 FOR VALUES FROM (5) TO (10);
CREATE TABLE deep_s PARTITION OF deep FOR VALUES IN ('s');
CREATE TABLE refers (id int, p text, r int, FOREIGN KEY (id, p, r) REFERENCES deep ON UPDATE CASCADE);
INSERT INTO deep SELECT i, 'n', i % 10, i FROM generate_series(1, 20) AS i;
INSERT INTO refers SELECT id, p, r FROM deep WHERE u < 9;
SELECT index_table.create('deep', 'u', is_unique => true);
INSERT INTO recomputation VALUES ('deep_by_u', 'u, partition_id, id, p, r', 'deep b', 'true');
SET index_table.enable_scan = force;
BEGIN;
UPDATE deep SET p = 's' WHERE u = 7;
SELECT relation::regclass, mode FROM pg_locks
 WHERE pid = pg_backend_pid() AND relation IN ('deep'::regclass, 'deep_n'::regclass, 'deep_n0'::regclass, 'deep_n01'::regclass, 'deep_n00'::regclass)
   AND mode LIKE 'RowExclusive%' ORDER BY 1;
COMMIT;
MERGE INTO deep USING (VALUES (8), (9)) AS v(u) ON deep.u = v.u WHEN MATCHED AND v.u = 8 THEN UPDATE SET p = 's' WHEN MATCHED THEN DELETE;
RESET index_table.enable_scan;
SELECT * FROM refers ORDER BY id;
SELECT * FROM differences();

DROP SCHEMA changes CASCADE;
