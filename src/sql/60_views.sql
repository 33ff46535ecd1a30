
-- Views ---------------------------------------------------------------------

CREATE FUNCTION index_table.describe(
    index_table regclass,
    OUT strategy text, OUT key text, OUT predicate text, OUT identity name[], OUT include name[],
    OUT is_unique boolean, OUT nulls_distinct boolean, OUT is_deferrable boolean, OUT initially_deferred boolean,
    OUT maintenance text, OUT is_complete boolean, OUT log regclass
)
    AS 'MODULE_PATHNAME', 'index_table_describe'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.describe(regclass) IS
    'what the rule index_table_definition of an index table says, with every name qualified; log: where changes go while it is being built concurrently; is_complete: it can be read. Locks the base table for a moment (ACCESS SHARE) where there are expressions';

CREATE VIEW index_table.index_tables AS
    SELECT d.index_table, d.base, s.strategy, s.key, s.predicate, s.identity, s.include,
           s.is_unique, s.nulls_distinct, s.is_deferrable, s.initially_deferred, s.maintenance, s.is_complete,
           CASE c.relkind WHEN 'r' THEN pg_catalog.pg_total_relation_size(c.oid)
                ELSE (SELECT sum(pg_catalog.pg_total_relation_size(t.relid))
                        FROM pg_catalog.pg_partition_tree(c.oid) t)::bigint END AS bytes
      FROM index_table.definition d
      JOIN pg_catalog.pg_class c ON c.oid = d.index_table,
           LATERAL index_table.describe(d.index_table) s;
COMMENT ON VIEW index_table.index_tables IS 'index tables of this database, with their size in bytes (indexes included)';
GRANT SELECT ON index_table.index_tables TO PUBLIC;

CREATE VIEW index_table.partitions AS
    SELECT p.base::pg_catalog.regclass AS base, p.relation::pg_catalog.regclass AS partition, p.partition_id, s.srvname AS server
      FROM index_table.partition p
      LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = p.relation
      LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver;
COMMENT ON VIEW index_table.partitions IS 'partitions of base tables with their live partition numbers; server where a partition is foreign';
GRANT SELECT ON index_table.partitions TO PUBLIC;

CREATE VIEW index_table.stat AS
    SELECT d.index_table, d.base,
           (SELECT sum(GREATEST(c.reltuples, 0)) FROM pg_catalog.pg_class c
             WHERE c.oid = ANY (p.relations))::bigint AS entries,
           COALESCE((SELECT sum(r.entries) FROM index_table.retired_partition r
                      WHERE r.index_table = d.index_table), 0)::bigint AS dead_entries,
           (SELECT sum(s.idx_scan) FROM pg_catalog.pg_stat_all_indexes s
             WHERE s.relid = ANY (p.relations))::bigint AS scans,
           (SELECT sum(s.idx_tup_read) FROM pg_catalog.pg_stat_all_indexes s
             WHERE s.relid = ANY (p.relations))::bigint AS entries_read,
           (SELECT sum(pg_catalog.pg_total_relation_size(r))
              FROM pg_catalog.unnest(p.relations) r)::bigint AS bytes
      FROM index_table.definition d
      JOIN pg_catalog.pg_class t ON t.oid = d.index_table,
           LATERAL (SELECT CASE t.relkind WHEN 'r' THEN ARRAY[t.oid]
                           ELSE ARRAY(SELECT relid FROM pg_catalog.pg_partition_tree(t.oid) WHERE isleaf) END AS relations) p;
COMMENT ON VIEW index_table.stat IS
    'size and use of index tables: entries, and dead ones of partitions that are gone (estimates); scans of their indexes and entries read by them';
GRANT SELECT ON index_table.stat TO PUBLIC;

CREATE VIEW index_table.progress AS
    SELECT l.pid, l.objid::pg_catalog.regclass AS base,
           CASE WHEN p.param18 = 7421 THEN p.param19::pg_catalog.oid ELSE p.relid END::pg_catalog.regclass AS index_table,
           CASE WHEN p.param18 = 7421 THEN
               CASE p.param20 WHEN 1 THEN 'scanning' WHEN 2 THEN 'loading entries'
                              WHEN 3 THEN 'building indexes' WHEN 4 THEN 'analyzing'
                              WHEN 5 THEN 'verifying' WHEN 6 THEN 'repairing' END
                WHEN p.pid IS NOT NULL THEN 'building indexes'
                WHEN a.pid IS NOT NULL THEN 'analyzing'
                ELSE 'initializing' END AS phase,
           p.param15 AS partitions_done, p.param14 AS partitions_total,
           p.param13 AS rows_done,
           GREATEST(p.param12, p.param13) AS rows_total,
           CASE WHEN p.param18 = 7421 AND p.param20 IN (1, 2, 5) AND p.param13 > p.param8 THEN
               (pg_catalog.clock_timestamp() - pg_catalog.to_timestamp(p.param2 / 1e6 + 946684800))
               * (GREATEST(p.param12 - p.param13, 0)::double precision / (p.param13 - p.param8)) END AS remaining
      FROM pg_catalog.pg_locks l
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('CREATE INDEX') p
             ON p.pid = l.pid AND p.datid = l.database
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('ANALYZE') a
             ON a.pid = l.pid AND a.datid = l.database
     WHERE l.locktype = 'object' AND l.granted
       AND l.classid = 'index_table.definition'::pg_catalog.regclass
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                          WHERE d.datname = pg_catalog.current_database())
       AND l.pid IS NOT NULL;
COMMENT ON VIEW index_table.progress IS
    'running builds, verifications and repairs: phase, partitions and rows scanned, and their totals (rows_total is an estimate); remaining is what the scan will still take at its speed so far, without the indexes. An index table that is not committed yet shows as its OID';
GRANT SELECT ON index_table.progress TO PUBLIC;
