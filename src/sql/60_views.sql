
-- Views ---------------------------------------------------------------------

CREATE FUNCTION index_table.describe(
    index_table regclass,
    OUT strategy text, OUT key text, OUT predicate text, OUT identity name[], OUT include name[],
    OUT is_unique boolean, OUT nulls_distinct boolean, OUT is_deferrable boolean, OUT initially_deferred boolean,
    OUT maintenance text, OUT is_complete boolean, OUT log regclass, OUT is_visible boolean
)
    AS 'MODULE_PATHNAME', 'index_table_describe'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.describe(regclass) IS
    'what the rule index_table_definition of an index table says, with every name qualified; log: where changes go while it is being built concurrently; is_complete: it can be read. Locks the base table for a moment (ACCESS SHARE) where there are expressions';

CREATE VIEW index_table.index_tables AS
    SELECT d.index_table, d.base, s.strategy, s.key, s.predicate, s.identity, s.include,
           s.is_unique, s.nulls_distinct, s.is_deferrable, s.initially_deferred, s.maintenance, s.is_complete,
           CASE WHEN c.relkind = 'r' THEN pg_catalog.pg_total_relation_size(c.oid)
                WHEN o.servers IS NULL THEN (SELECT sum(pg_catalog.pg_total_relation_size(t.relid))
                        FROM pg_catalog.pg_partition_tree(c.oid) t)::bigint END AS bytes,
           o.servers, s.is_visible
      FROM index_table.definition d
      JOIN pg_catalog.pg_class c ON c.oid = d.index_table,
           LATERAL index_table.describe(d.index_table) s,
           LATERAL (SELECT pg_catalog.array_agg(DISTINCT v.srvname ORDER BY v.srvname) AS servers
                      FROM pg_catalog.pg_inherits i
                      JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = i.inhrelid
                      JOIN pg_catalog.pg_foreign_server v ON v.oid = f.ftserver
                     WHERE i.inhparent = c.oid) o;
COMMENT ON VIEW index_table.index_tables IS 'index tables of this database, with their size in bytes (indexes included), or the servers that they are on';
GRANT SELECT ON index_table.index_tables TO PUBLIC;

CREATE VIEW index_table.partitions AS
    SELECT p.base::pg_catalog.regclass AS base, p.relation::pg_catalog.regclass AS partition, p.partition_id, s.srvname AS server
      FROM index_table.partition p
      LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = p.relation
      LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver;
COMMENT ON VIEW index_table.partitions IS 'partitions of base tables with their live partition numbers; server where a partition is foreign';
GRANT SELECT ON index_table.partitions TO PUBLIC;

CREATE FUNCTION index_table.is_built(index regclass) RETURNS boolean
    AS 'MODULE_PATHNAME', 'index_table_is_built'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION index_table.is_built(regclass) IS
    'whether queries use a global index and every partition takes writes: not so while it is built concurrently, after pg_upgrade, and where another tool has put its own file in the place of a part of it. Waits for no lock; NULL of what is no global index';

CREATE VIEW index_table.global_indexes AS
    SELECT r.oid::pg_catalog.regclass AS index, i.indrelid::pg_catalog.regclass AS base,
           pg_catalog.pg_get_indexdef(r.oid) AS definition, COALESCE(x.indisunique, u.is_unique, false) AS is_unique,
           COALESCE(index_table.is_built(r.oid), false) AS is_built, x.indexrelid::pg_catalog.regclass AS tree,
           s.oid::pg_catalog.regclass AS storage,
           COALESCE(pg_catalog.pg_total_relation_size(s.oid), 0)
           + COALESCE((SELECT sum(pg_catalog.pg_relation_size(c.relid))
                         FROM pg_catalog.pg_partition_tree(r.oid) c WHERE c.isleaf), 0)::bigint AS bytes,
           GREATEST(xc.reltuples, (SELECT sum(l.reltuples) FROM pg_catalog.pg_partition_tree(r.oid) c
                                     JOIN pg_catalog.pg_class l ON l.oid = c.relid WHERE c.isleaf AND l.reltuples > 0), 0)::bigint AS entries,
           pg_catalog.pg_stat_get_dead_tuples(s.oid) AS stale_entries,
           GREATEST(pg_catalog.pg_stat_get_last_vacuum_time(s.oid),
                    pg_catalog.pg_stat_get_last_autovacuum_time(s.oid)) AS last_sweep,
           COALESCE((SELECT v.option_value::boolean FROM pg_catalog.pg_options_to_table(r.reloptions) v
                      WHERE v.option_name = 'visible'), true) AS is_visible
      FROM pg_catalog.pg_class r
      JOIN pg_catalog.pg_am m ON m.oid = r.relam AND m.amname = 'global'
      JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid
      LEFT JOIN pg_catalog.pg_class s
             ON s.relnamespace = 'pg_toast'::pg_catalog.regnamespace
            AND s.relname = 'index_table_global_' || r.oid
      LEFT JOIN pg_catalog.pg_index x ON x.indrelid = s.oid
      LEFT JOIN pg_catalog.pg_class xc ON xc.oid = x.indexrelid,
           LATERAL (SELECT bool_or(v.option_value::boolean) AS is_unique
                      FROM pg_catalog.pg_options_to_table(r.reloptions) v WHERE v.option_name = 'unique') u
     WHERE r.relkind = 'I' AND NOT r.relispartition;
COMMENT ON VIEW index_table.global_indexes IS
    'indexes made by CREATE INDEX … USING global: the B-tree that has the entries, for amcheck and pageinspect; the relation whose VACUUM removes stale ones; is_built: queries use it, and every partition takes writes; bytes: of all its parts; entries, and stale_entries since the last sweep (estimates, of PostgreSQL''s statistics); last_sweep, by whomever: NULL where none is known; is_visible: queries may use it';
GRANT SELECT ON index_table.global_indexes TO PUBLIC;

CREATE VIEW index_table.progress AS
    SELECT l.pid, l.objid::pg_catalog.regclass AS base,
           CASE WHEN p.param18 = 7421 THEN p.param19::pg_catalog.oid ELSE NULLIF(p.relid, l.objid) END::pg_catalog.regclass AS index_table,
           CASE CASE WHEN p.param18 = 7421 THEN p.param20 ELSE l.reached END
                WHEN 0 THEN 'initializing' WHEN 1 THEN 'scanning' WHEN 2 THEN 'loading entries'
                WHEN 3 THEN 'building indexes' WHEN 4 THEN 'analyzing'
                WHEN 5 THEN 'verifying' WHEN 6 THEN 'repairing' END AS phase,
           CASE WHEN p.param18 = 7421 THEN p.param15 END AS partitions_done,
           CASE WHEN p.param18 = 7421 THEN p.param14 END AS partitions_total,
           p.param13 AS rows_done,
           GREATEST(p.param12, p.param13) AS rows_total,
           CASE WHEN p.param18 = 7421 AND p.param20 IN (1, 2, 5) AND p.param13 > p.param8 THEN
               (pg_catalog.clock_timestamp() - pg_catalog.to_timestamp(p.param2 / 1e6 + 946684800))
               * (GREATEST(p.param12 - p.param13, 0)::double precision / (p.param13 - p.param8)) END AS remaining
      FROM (SELECT k.pid, k.database, k.objid, max(k.objsubid) AS reached
              FROM pg_catalog.pg_locks k
             WHERE k.locktype = 'object' AND k.granted
               AND k.classid IN ('index_table.definition'::pg_catalog.regclass, 'index_table.partition'::pg_catalog.regclass)
               AND k.database = (SELECT d.oid FROM pg_catalog.pg_database d
                                  WHERE d.datname = pg_catalog.current_database())
               AND k.pid IS NOT NULL
             GROUP BY k.pid, k.database, k.objid
            HAVING bool_or(k.classid = 'index_table.definition'::pg_catalog.regclass)) l
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('CREATE INDEX') p
             ON p.pid = l.pid AND p.datid = l.database
    UNION ALL
    SELECT l.pid, i.indrelid::pg_catalog.regclass, i.indexrelid::pg_catalog.regclass,
           CASE WHEN p.param10 = 1 THEN 'waiting for writers'
                WHEN p.param10 = 2 AND p.param11 = 5 THEN 'loading entries'
                WHEN p.param10 = 2 THEN 'scanning'
                WHEN p.param10 = 7 THEN 'waiting for old snapshots'
                ELSE 'initializing' END,
           p.param15, p.param14, p.param13, GREATEST(p.param12, p.param13), NULL
      FROM pg_catalog.pg_locks l
      JOIN pg_catalog.pg_index i ON i.indexrelid = l.objid
      LEFT JOIN pg_catalog.pg_stat_get_progress_info('CREATE INDEX') p
             ON p.pid = l.pid AND p.datid = l.database AND p.relid = i.indrelid
     WHERE l.locktype = 'object' AND l.granted AND l.objsubid = 4
       AND l.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                          WHERE d.datname = pg_catalog.current_database());
COMMENT ON VIEW index_table.progress IS
    'running builds, global indexes by CREATE INDEX CONCURRENTLY among them, verifications and repairs: phase, partitions and rows scanned, and their totals (rows_total is an estimate; while PostgreSQL builds an index, rows are those of that index, and partitions are NULL); remaining is what the scan will still take at its speed so far, without the indexes. An index table that is not committed yet shows as its OID';
GRANT SELECT ON index_table.progress TO PUBLIC;
