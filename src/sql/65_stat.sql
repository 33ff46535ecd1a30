
-- Statistics ----------------------------------------------------------------

CREATE FUNCTION index_table.queue_lag(index_table regclass, OUT pending bigint, OUT lag interval)
    AS 'MODULE_PATHNAME', 'index_table_queue_lag'
    LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION index_table.queue_lag(regclass) IS 'internal: what index_table.stat shows of queues';

CREATE FUNCTION index_table.counters(
    index_table regclass,
    OUT lookups bigint, OUT last_lookup timestamptz, OUT lookup_entries bigint, OUT rows_fetched bigint,
    OUT entries_skipped bigint, OUT shard_statements bigint, OUT flushes bigint, OUT entries_written bigint,
    OUT last_verify timestamptz, OUT problems_found bigint, OUT verify_started timestamptz, OUT verify_problems bigint,
    OUT verify_done integer, OUT verify_total integer, OUT last_repair timestamptz, OUT problems_repaired bigint,
    OUT last_vacuum timestamptz, OUT entries_removed bigint, OUT last_build timestamptz, OUT build_time interval,
    OUT stats_reset timestamptz
)
    AS 'MODULE_PATHNAME', 'index_table_counters'
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION index_table.counters(regclass) IS 'internal: what index_table.stat shows of shared memory';

CREATE FUNCTION index_table.lost_counts() RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_lost_counts'
    LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION index_table.lost_counts() IS
    'how often since the server started counts were lost, for there were more index tables and global indexes than index_table.max_stat_entries; NULL where nothing is counted';

CREATE FUNCTION index_table.stat_reset(index_table regclass DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_stat_reset'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.stat_reset(regclass) IS
    'sets what is counted of an index table or global index, or of all that the user owns, to nothing; returns of how many';

CREATE VIEW index_table.stat AS
    SELECT s.index_table, s.base, s.entries, s.dead_entries, s.scans, s.entries_read, s.bytes, s.pending, s.lag,
           c.lookups, c.last_lookup, c.lookup_entries, c.rows_fetched, c.entries_skipped, c.shard_statements,
           CASE WHEN s.is_global THEN NULL ELSE c.flushes END AS flushes,
           CASE WHEN s.is_global THEN NULL ELSE c.entries_written END AS entries_written,
           c.last_verify, c.problems_found, c.verify_started, c.verify_problems, c.verify_done, c.verify_total,
           c.last_repair, c.problems_repaired, c.last_vacuum, c.entries_removed, c.last_build, c.build_time, c.stats_reset
      FROM (
        SELECT d.index_table, d.base,
               (SELECT sum(GREATEST(c.reltuples, 0)) FROM pg_catalog.pg_class c
                 WHERE c.oid = ANY (p.relations))::bigint AS entries,
               COALESCE((SELECT sum(r.entries) FROM index_table.retired_partition r
                          WHERE r.index_table = d.index_table), 0)::bigint AS dead_entries,
               (SELECT sum(s.idx_scan) FROM pg_catalog.pg_stat_all_indexes s
                 WHERE s.relid = ANY (p.relations))::bigint AS scans,
               (SELECT sum(s.idx_tup_read) FROM pg_catalog.pg_stat_all_indexes s
                 WHERE s.relid = ANY (p.relations))::bigint AS entries_read,
               (SELECT sum(pg_catalog.pg_total_relation_size(r.oid))
                  FROM pg_catalog.pg_class r
                 WHERE r.oid = ANY (p.relations) AND r.relkind <> 'f')::bigint AS bytes,
               q.pending, q.lag, false AS is_global
          FROM index_table.definition d
          JOIN pg_catalog.pg_class t ON t.oid = d.index_table,
               LATERAL (SELECT CASE t.relkind WHEN 'r' THEN ARRAY[t.oid]
                               ELSE ARRAY(SELECT relid FROM pg_catalog.pg_partition_tree(t.oid) WHERE isleaf) END AS relations) p,
               LATERAL index_table.queue_lag(d.index_table) q
        UNION ALL
        SELECT g.index, g.base, g.entries, COALESCE(g.stale_entries, 0), pg_catalog.pg_stat_get_numscans(g.tree),
               pg_catalog.pg_stat_get_tuples_returned(g.tree), g.bytes, NULL, NULL, true
          FROM index_table.global_indexes g
           ) s,
           LATERAL index_table.counters(s.index_table) c;
COMMENT ON VIEW index_table.stat IS
    'size and use of index tables and global indexes: entries, and dead ones of partitions that are gone, of global indexes those of rows that VACUUM has removed, too (estimates); scans of their indexes and entries read by them; changes that are queued here, and for how long the oldest is that is not set aside (NULL: there is no queue); what is counted in shared memory since stats_reset (NULL: it is not), and what was last done to the whole';
GRANT SELECT ON index_table.stat TO PUBLIC;
