
-- Outbox ----------------------------------------------------------------------
-- On the server that has the rows: changes of a captured table are queued in the transaction that
-- makes them, for index tables elsewhere.

CREATE TABLE index_table.captured (
    captured index_table.relation PRIMARY KEY,
    queue    index_table.relation NOT NULL UNIQUE,
    identity name[]   NOT NULL
);
COMMENT ON TABLE index_table.captured IS 'one row for each captured table: where its changes are queued';
COMMENT ON COLUMN index_table.captured.identity IS
    'columns that find one row; the queue has arrays of their values as identity_1, identity_2, …';
SELECT pg_catalog.pg_extension_config_dump('index_table.captured', '');
GRANT SELECT, INSERT ON index_table.captured TO PUBLIC;

CREATE FUNCTION index_table.enqueue() RETURNS trigger
    AS 'MODULE_PATHNAME', 'index_table_enqueue'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.enqueue() IS
    'trigger of captured tables: queues the identities of changed rows; FOR EACH ROW where logical replication applies changes, and on partitions that are captured by themselves';

CREATE FUNCTION index_table.capture(captured regclass, identity text DEFAULT NULL) RETURNS regclass
    AS 'MODULE_PATHNAME', 'index_table_capture'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.capture(regclass, text) IS
    'begins to queue changes of a table for index tables elsewhere, and returns the queue, <table>_outbox; identity: columns that find one row, default the primary key. Takes SHARE ROW EXCLUSIVE on the table and its partitions. Owner only';

CREATE FUNCTION index_table.release(captured regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_release'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.release(regclass) IS
    'ends what capture() began; the queue is dropped with what is in it. Takes ACCESS EXCLUSIVE on the table and its partitions. Owner only';

CREATE FUNCTION index_table.pending(
    captured regclass, batch integer,
    OUT number bigint, OUT reload boolean, OUT identity text[]
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_pending'
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.pending(regclass, integer) IS
    'the oldest queued changes of a captured table, about as many as batch: numbers for discard(), and the identities that changed, each once. reload: rows came or went that are not named, as TRUNCATE has them go; neither reload nor identity: a later number says the same. Needs SELECT on the table';

CREATE FUNCTION index_table.pending(
    rowtype anyelement, captured regclass, batch integer,
    OUT number bigint, OUT reload boolean, OUT identity text[], OUT entity anyelement
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_pending_rows'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.pending(anyelement, regclass, integer) IS
    'the same with the rows as they are now, NULL where there is none; rowtype is NULL::<captured table>';

CREATE FUNCTION index_table.discard(captured regclass, numbers bigint[]) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_discard'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.discard(regclass, bigint[]) IS
    'removes exactly these numbers from the queue of a captured table, and returns how many were there. Needs DELETE on the queue';

CREATE FUNCTION index_table.backlog(captured regclass, OUT changes bigint, OUT oldest timestamptz)
    AS 'MODULE_PATHNAME', 'index_table_backlog'
    LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.backlog(regclass) IS
    'how many changes of a captured table are queued, and since when. Needs SELECT on the table';

-- Draining ----------------------------------------------------------------------
-- On the server that has the index tables.

CREATE TABLE index_table.undrained (
    leaf     index_table.relation NOT NULL,
    identity text[],
    error    text        NOT NULL,
    tries    integer     NOT NULL,
    since    timestamptz NOT NULL
);
CREATE INDEX undrained_leaf_idx ON index_table.undrained (leaf);
COMMENT ON TABLE index_table.undrained IS
    'changes of foreign partitions that could not be carried into index tables; identity NULL: the partition as a whole. Tried again by every drain(). Not dumped: it has keys of rows, and everybody may dump';

CREATE TABLE index_table.intent (
    leaf          index_table.relation NOT NULL,
    columns       text[],
    identities    text[],
    settled_after xid8,
    written_by    xid8
);
COMMENT ON TABLE index_table.intent IS
    'rows whose changes, or whose entries'' changes, a transaction was about to commit on other servers: columns of the identity and values, one row after the other; NULL: any row. Gone when it commits here; drain() reads the rows again if it does not. Not dumped: it has keys of rows, and everybody may dump';
-- SQL changes it, which tables without an identity in a publication FOR ALL TABLES refuse.
ALTER TABLE index_table.intent REPLICA IDENTITY FULL;

-- Of these, index tables are not known to have what the servers have: a dump leaves their numbers out, and what it restores
-- is not believed. Transactions in progress are not counted: what they do comes after the dump, on both sides.
CREATE FUNCTION index_table.unsettled_partitions() RETURNS SETOF oid
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT leaf::oid FROM index_table.intent
     WHERE written_by IS NULL
        OR CASE WHEN written_by < pg_snapshot_xmax(pg_current_snapshot())
                THEN coalesce(pg_xact_status(written_by), 'aborted') = 'aborted' END
    UNION
    SELECT leaf::oid FROM index_table.undrained WHERE identity IS NOT NULL
    $$;
COMMENT ON FUNCTION index_table.unsettled_partitions() IS
    'internal: foreign partitions of which rows are to be read again, or were refused. A dump leaves their numbers out: what it restores is looked at by repair()';
SELECT pg_catalog.pg_extension_config_dump('index_table.partition',
    'WHERE relation::pg_catalog.oid NOT IN (SELECT index_table.unsettled_partitions())');

CREATE PROCEDURE index_table.drain(index_table regclass DEFAULT NULL)
    AS 'MODULE_PATHNAME', 'index_table_drain'
    LANGUAGE C;
COMMENT ON PROCEDURE index_table.drain(regclass) IS
    'carries what is queued, here and by captured foreign partitions on their servers, into the index tables of their base table, of the one given or of all that the user owns, in several transactions. What cannot be drained is a WARNING. Owner only';

CREATE FUNCTION index_table.set_maintenance(index_table regclass, maintenance text) RETURNS void
    AS 'MODULE_PATHNAME', 'index_table_set_maintenance'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.set_maintenance(regclass, text) IS
    'immediate: changes through this server are entered with them; deferred: by drain() alone, local partitions through a queue of the index table (where there are no foreign ones), foreign ones through their captured tables. Back to immediate it carries out what is queued, and raises its errors. Takes ACCESS EXCLUSIVE on the base table and its partitions. Owner only';

CREATE FUNCTION index_table.retry(index_table regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'index_table_retry'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.retry(regclass) IS
    'has what was set aside in the queue of an index table tried again by the next drain, and returns how many rows. Waits for a drain in progress. Owner only';

CREATE FUNCTION index_table.wait_caught_up(index_table regclass, timeout interval DEFAULT '30 s') RETURNS boolean
    AS 'MODULE_PATHNAME', 'index_table_wait_caught_up'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.wait_caught_up(regclass, interval) IS
    'waits until others (the worker, or drain() in another session) have drained what was queued, here or on shards, and committed when it was called; false when the time is over first, as it is while changes are set aside. Owner only';

CREATE FUNCTION index_table.queue_status(
    OUT index_table regclass, OUT partition regclass, OUT server name, OUT pending bigint, OUT oldest timestamptz,
    OUT refused integer, OUT error text, OUT tries integer
) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'index_table_queue_status'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION index_table.queue_status() IS 'internal: what index_table.queue shows';

CREATE VIEW index_table.queue AS
    SELECT q.*,
           CASE WHEN q.partition IS NULL AND q.pending > 0 THEN (
               -- Not by pg_partition_tree(), which waits for those locks itself.
               WITH RECURSIVE locked (relid) AS (
                   SELECT r.relid FROM index_table.definition d CROSS JOIN LATERAL (VALUES (d.base::oid), (d.index_table::oid)) r (relid)
                   WHERE d.index_table = q.index_table
                   UNION SELECT i.inhrelid FROM locked k JOIN pg_catalog.pg_inherits i ON i.inhparent = k.relid
               )
               SELECT array_agg(DISTINCT COALESCE(l.pid, 0))
               FROM locked k JOIN pg_catalog.pg_locks l ON l.relation = k.relid
               WHERE l.locktype = 'relation' AND l.granted
                 AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
                 AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
           ) END AS blocking_pids
    FROM index_table.queue_status() q;
COMMENT ON VIEW index_table.queue IS
    'what is queued for the index tables that the user owns, by shards (partition and server) or here (both NULL): pending changes (NULL: the table is not captured, or its server does not answer), those set aside included, and since when, rows that were refused, the latest error and how often it was tried; for a queue here that is not empty, blocking_pids: the processes whose locks on the base table, its partitions or the index table a drain cannot have (0: a prepared transaction)';
GRANT SELECT ON index_table.queue TO PUBLIC;
